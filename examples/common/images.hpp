#pragma once

#include <cstdio>
#include <tenet/data/fashion_mnist.hpp>
#include <tenet/data/generated_images.hpp>

/// The images that the examples train on: Fashion-MNIST; where it is missing, drawn ones, and that is said loudly.
struct ExampleImages {
  tenet::ByteImages train, test;
  const char* name;

  static ExampleImages load() {
    if (tenet::FashionMnist::available())
      return {tenet::FashionMnist::train(), tenet::FashionMnist::test(), "Fashion-MNIST"};
    std::fprintf(stderr,
                 "*** Fashion-MNIST is not in '%s' (Debian: apt install dataset-fashion-mnist).\n"
                 "*** Training on DRAWN shapes instead: the accuracy below says nothing about Fashion-MNIST.\n",
                 tenet::FashionMnist::default_folder().c_str());
    return {tenet::GeneratedImages::train(), tenet::GeneratedImages::test(), "generated shapes"};
  }
};

/// The first `count` samples of a data set; 0: all.
inline tenet::Subset<tenet::ByteImages> first(const tenet::ByteImages& images, long count) {
  return {images, 0, count > 0 && count < images.size() ? count : images.size()};
}
