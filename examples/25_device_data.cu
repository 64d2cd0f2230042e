// Data that a program has on a GPU anyway, here in Thrust's containers: a trainer reads it there, a model's scores stay
// there, and Thrust's algorithms go on with them. Without a GPU it says so and ends.
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform.h>

#include <tenet/cuda.hpp>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

namespace {

/// A pixel's byte, with the mean and deviation of the training images.
struct Normalized {
  __host__ __device__ float operator()(unsigned char pixel) const {
    return (static_cast<float>(pixel) / 255 - 0.2860f) / 0.3530f;
  }
};

/// Whether a sample's highest score is that of its label.
struct IsRight {
  const float* scores;
  const int* labels;
  __host__ __device__ bool operator()(long sample) const {
    const float* const row = scores + 10 * sample;
    int highest = 0;
    for (int c = 1; c < 10; ++c)
      if (row[c] > row[highest]) highest = c;
    return highest == labels[sample];
  }
};

/// Images in the GPU's memory: their bytes are copied there, and become numbers there.
struct Samples {
  thrust::device_vector<float> images;
  thrust::device_vector<int> labels;

  explicit Samples(const ByteImages& data) : images(static_cast<std::size_t>(data.size() * 784)) {
    const thrust::device_vector<unsigned char> bytes(data.bytes(0), data.bytes(0) + images.size());
    thrust::transform(bytes.begin(), bytes.end(), images.begin(), Normalized{});
    thrust::host_vector<int> here;
    for (long i = 0; i < data.size(); ++i) here.push_back(data.label(i));
    labels = here;
  }
  long size() const { return static_cast<long>(labels.size()); }
  /// Those from sample `first` on.
  OnDevice<float> images_from(long first) const {
    return OnDevice<float>(thrust::raw_pointer_cast(images.data()) + 784 * first, 784 * (size() - first));
  }
  OnDevice<int> labels_from(long first) const {
    return OnDevice<int>(thrust::raw_pointer_cast(labels.data()) + first, size() - first);
  }
};

void train(Options& options) {
  const ExampleImages images = ExampleImages::load();
  const Samples training(images.train), test(images.test);
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cuda<0>> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f}};
  const int batch = options.integer("batch-size");
  for (int epoch = 0; epoch < options.integer("epochs"); ++epoch) {
    float loss = 0;
    for (long first = 0; first + batch <= training.size(); first += batch)
      loss = trainer.step(training.images_from(first), training.labels_from(first), batch).loss;
    std::printf("epoch %d: loss of the last batch %.4f\n", epoch + 1, loss);
  }
  // Scores of all test images stay on the GPU, where Thrust counts those that are right.
  const OnDevice<float> scores = trainer.predict(OnDevice{test.images}, static_cast<int>(test.size()));
  const thrust::counting_iterator<long> first(0);
  const long right =
      thrust::count_if(thrust::device, first, first + test.size(), IsRight{scores.data, test.labels_from(0).data});
  std::printf("test accuracy %.4f on %ld images\n", static_cast<double>(right) / static_cast<double>(test.size()),
              test.size());
}

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on images in the memory of a GPU.",
                  {{"epochs", "5", "passes over the training images"},
                   {"batch-size", "64", "images in a step"},
                   {"learning-rate", "0.02", "of every step"}});
  if (gpu::device_count() > 0)
    train(options);
  else
    std::printf("there is no GPU here\n");
}
