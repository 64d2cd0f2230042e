#include <catch2/catch.hpp>

#include "random_numbers.hpp"
#include "tenet/cuda.hpp"
#include "tenet/device/cuda_on_host.hpp"
#include "tenet/exec/copy_async.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<16, 24>, ReLU, Linear<24, 5>> {};
template <class Device>
using TrainerOn = Trainer<Net, CrossEntropy, Sgd, Features<16>, Device>;

/// Numbers go from the host to a processor's device, to the GPU, to another array there and back.
template <class Gpu>
void check_copies() {
  const std::vector<float> given = random_floats(10000, 1);
  std::vector<float> found(given.size());
  const long count = static_cast<long>(given.size());
  DeviceArray<float, Cpu<1>> here(count), back(count);
  DeviceArray<float, Gpu> there(count), also_there(count);
  copy_async(given, here);
  copy_async(here, there);
  copy_async(there, also_there);
  copy_async(also_there, back);
  copy_async(back, found).wait();
  CHECK(found == given);
  std::fill(found.begin(), found.end(), 0.0f);
  const Event copied = copy_async(given, there);
  wait(Cpu<1>{}, copied);
  copy_async(there, found).wait();
  CHECK(found == given);
  CHECK_NOTHROW(synchronize(Gpu{}));
}

/// A trainer reads arrays of its GPU, and leaves predictions there.
template <class Gpu>
void check_training() {
  constexpr int batch = 8;
  const std::vector<float> inputs = random_floats(16 * batch, 1);
  const std::vector<std::int32_t> labels = random_integers(batch, 0, 5, 2);
  DeviceArray<float, Gpu> inputs_there(16 * batch);
  DeviceArray<std::int32_t, Gpu> labels_there(batch);
  TrainerOn<Gpu> expected{{.learning_rate = 0.1f}, 3}, trainer{{.learning_rate = 0.1f}, 3};
  copy_async(inputs, inputs_there);
  const Event copied = copy_async(labels, labels_there);
  for (int i = 0; i < 4; ++i) {
    const float loss = expected.step(inputs.data(), labels.data(), batch).loss;
    CHECK(trainer.step_async(inputs_there, labels_there, batch, copied).get().loss == loss);
  }
  const std::span<const float> wanted = expected.predict(inputs.data(), batch);
  const OnDevice<float, Gpu> scores = trainer.predict(inputs_there, batch);
  std::vector<float> found(wanted.size());
  trainer.executor().copy_out(found.data(), scores.data, static_cast<long>(4 * found.size()));
  trainer.executor().synchronize();
  CHECK(std::equal(wanted.begin(), wanted.end(), found.begin()));
}

}  // namespace

TEST_CASE("copies to, on and from a GPU are queued, and bring the numbers", "[cuda]") {
  check_copies<CudaOnHost<gpu::ParallelHost>>();
  if (gpu::device_count() > 0) check_copies<Cuda<0>>();
}

TEST_CASE("queued steps take arrays of their GPU", "[cuda]") {
  check_training<CudaOnHost<gpu::ParallelHost>>();
  if (gpu::device_count() > 0) check_training<Cuda<0>>();
}
