#pragma once

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "tenet/core/error.hpp"
#include "tenet/data/byte_images.hpp"
#include "tenet/data/idx.hpp"

namespace tenet {

/// What `FashionMnist` does beyond scaling to [0, 1].
struct FashionMnistOptions {
  bool normalize = false;  ///< Subtract the training set's mean, 0.2860, and divide by its deviation, 0.3530.
};

/// The Fashion-MNIST images: 1 x 28 x 28 floats in [0, 1] and a label from 0 to 9; 60000 to train, 10000 to test.
///
/// The files, plain or compressed, are looked for in the folder given, else in the one which the environment variable
/// TENET_FASHION_MNIST names, else where Debian's package dataset-fashion-mnist puts them. Throws `Error` if they are
/// missing or not what they should be. Source: Xiao, Rasul and Vollgraf, arXiv:1708.07747.
class FashionMnist : public ByteImages {
 public:
  /// What each label means.
  static constexpr std::array<const char*, 10> class_names = {
      "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};

  /// The training images.
  static FashionMnist train(const std::string& folder = {}, FashionMnistOptions options = {}) {
    return {folder, "train", options};
  }
  /// The test images.
  static FashionMnist test(const std::string& folder = {}, FashionMnistOptions options = {}) {
    return {folder, "t10k", options};
  }

  /// The folder where files are looked for if none is given.
  static std::string default_folder() {
    const char* named = std::getenv("TENET_FASHION_MNIST");
    return named && *named ? named : "/usr/share/datasets/fashion-mnist";
  }

  /// Whether all four files are there; an empty folder means the default one.
  static bool available(const std::string& folder = {}) {
    const std::string place = folder.empty() ? default_folder() : folder;
    for (const char* part : {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"}) {
      if (locate(place, part).empty()) return false;
    }
    return true;
  }

 private:
  FashionMnist(const std::string& folder, const std::string& part, FashionMnistOptions options)
      : ByteImages(load(folder.empty() ? default_folder() : folder, part, options)) {}

  static ByteImages load(const std::string& folder, const std::string& part, FashionMnistOptions options) {
    IdxArray images = read_idx(find(folder, part + "-images-idx3"), {-1, 28, 28});
    IdxArray labels = read_idx(find(folder, part + "-labels-idx1"), {-1});
    if (images.extents[0] != labels.extents[0]) {
      fail("Fashion-MNIST in '" + folder + "'", "number of labels in " + part + "-labels-idx1-ubyte",
           std::to_string(images.extents[0]) + ", one for each image", std::to_string(labels.extents[0]));
    }
    return {"Fashion-MNIST in '" + folder + "'",
            std::move(images.bytes),
            std::move(labels.bytes),
            {1, 28, 28},
            10,
            options.normalize ? 0.2860f : 0.0f,
            options.normalize ? 0.3530f : 1.0f};
  }

  // The file's path, empty if it is not there.
  static std::string locate(const std::string& folder, const std::string& stem) {
    for (const char* end : {"-ubyte.gz", "-ubyte"}) {
      const std::string path = folder + "/" + stem + end;
      if (access(path.c_str(), R_OK) == 0) return path;
    }
    return {};
  }

  static std::string find(const std::string& folder, const std::string& stem) {
    const std::string path = locate(folder, stem);
    if (path.empty()) {
      fail("FashionMnist", "a file of the data set",
           "'" + folder + "/" + stem + "-ubyte.gz' or the same without .gz (on Debian and Ubuntu: apt install " +
               "dataset-fashion-mnist; elsewhere name the folder with TENET_FASHION_MNIST or as an argument)",
           "neither");
    }
    return path;
  }
};

}  // namespace tenet
