#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "tenet/device/cuda/launch.hpp"
#include "tenet/device/cuda/stream.hpp"
#include "tenet/device/own_memory.hpp"

namespace gpu = tenet::gpu;
static_assert(tenet::HasOwnMemory<gpu::Stream>);

namespace {
struct AddOne {
  float* numbers;
  TENET_HOST_DEVICE void operator()(long i) const { numbers[i] += 1; }
};
}  // namespace

TEST_CASE("a GPU that is not there is an error that says so", "[cuda][stream]") {
  const int count = gpu::device_count();
  const std::string there = std::to_string(count);
  try {
    gpu::Stream stream(count);
    FAIL("no error");
  } catch (const tenet::Error& error) {
    CHECK(std::string(error.what()) ==
          "Cuda<" + there + ">: no such device; expected one of " + there + " GPUs, found " + there);
  }
}

TEST_CASE("a stream comes before those that run beside it", "[cuda][stream]") {
  if (gpu::device_count() == 0) return;
  gpu::Stream stream(0);
  int first = 0, beside = 0;  // the lower the sooner
  gpu::check(cudaStreamGetPriority(stream.get(), &first), "a test");
  gpu::check(cudaStreamGetPriority(stream.lane(1).get(), &beside), "a test");
  CHECK(first < beside);
}

TEST_CASE("what a stream records runs when it is replayed", "[cuda][stream]") {
  if (gpu::device_count() == 0) return;
  gpu::Stream stream(0);
  std::vector<float> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  auto* const there = static_cast<float*>(stream.allocate(4000, "a test"));
  stream.copy_in(there, numbers.data(), 4000);
  const auto start = [&] { for_each(stream, 1000, AddOne{there}); };
  start();
  const gpu::Recording recording = stream.record(start);
  CHECK(recording);
  stream.replay(recording), stream.replay(recording);
  stream.copy_out(numbers.data(), there, 4000);
  stream.synchronize();
  for (std::size_t i = 0; i < numbers.size(); ++i) REQUIRE(numbers[i] == static_cast<float>(i) + 3);
  gpu::Stream::free(there);
}

TEST_CASE("a stream calls the host behind what was copied out, recorded, too", "[cuda][stream]") {
  if (gpu::device_count() == 0) return;
  gpu::Stream stream(0);
  auto* const there = static_cast<float*>(stream.allocate(4, "a test"));
  struct Noted {
    float* found = static_cast<float*>(gpu::Stream::allocate_host(4));
    std::vector<float> all;
    static void note(void* of) { static_cast<Noted*>(of)->all.push_back(*static_cast<Noted*>(of)->found); }
  } noted;
  stream.zero(there, 4);
  const auto start = [&] {
    for_each(stream, 1, AddOne{there});
    stream.copy_out(noted.found, there, 4);
    stream.call_on_host(&Noted::note, &noted);
  };
  start();
  const gpu::Recording recording = stream.record(start);
  stream.replay(recording), stream.replay(recording);
  stream.synchronize();
  CHECK(noted.all == std::vector<float>{1, 2, 3});
  gpu::Stream::free_host(noted.found);
  gpu::Stream::free(there);
}

TEST_CASE("a library's state is made once a stream", "[cuda][stream]") {
  if (gpu::device_count() == 0) return;
  struct Counted {
    explicit Counted(const gpu::Stream&) {}
    int calls = 0;
  };
  gpu::Stream stream(0), other(0);
  CHECK(++stream.library<Counted>().calls == 1);
  CHECK(++stream.library<Counted>().calls == 2);
  CHECK(++other.library<Counted>().calls == 1);
}
