#include "tenet/data/resident.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "../support/far_device.hpp"
#include "../support/resident_data.hpp"
#include "tenet/data/data_loader.hpp"
#include "tenet/data/generated_images.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

TEST_CASE("what a device makes is what a loader on the host reads, bit for bit", "[data][resident]") {
  far::Executor executor(0);
  const ByteImages bytes = resident_data::byte_images(3, 5, 23);
  std::vector<float> numbers;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 30 * 23; ++i) numbers.push_back(static_cast<float>(i * 7919 % 251) / 7 - 11);
  for (int i = 0; i < 23; ++i) labels.push_back(i * 5 % 9);
  resident_data::check_transforms(executor, bytes);
  resident_data::check_transforms(executor, TensorDataset(numbers, {2, 3, 5}, labels));
  resident_data::check_transforms(executor, Subset(bytes, 3, 20));
  resident_data::check_together(executor, bytes);
}

TEST_CASE("a sampler chooses the samples of data that stays on a device", "[data][resident]") {
  far::Executor executor(0);
  const Map flipped(resident_data::byte_images(3, 5, 5), RandomFlip{});
  resident_data::check_epochs(executor, flipped, {.batch_size = 2, .drop_last = true},
                              WeightedSampler({1, 2, 0, 1, 3}, 11, 6));
  resident_data::check_epochs(executor, flipped, {.batch_size = 2}, DistributedSampler(RandomSampler(5, 1), 1, 2, 2));
}

TEST_CASE("samples that are kept as they are read may be anything that does not change", "[data][resident]") {
  far::Executor executor(0);
  const auto check = [&](const auto& dataset) {
    resident_data::check_epochs(executor, dataset, {.batch_size = 4, .shuffle = true, .seed = 3});
  };
  // Integers with a text of targets; their bits as floats are not numbers.
  std::vector<std::int32_t> tokens, next;
  for (int i = 0; i < 35; ++i) tokens.push_back(i % 2 ? -1 - i : 0x7f800000 + 77 * i), next.push_back(-i);
  check(TensorDataset<std::int32_t>(tokens, {5}, next, {5}));
  check(TensorDataset<float, float>({1, 2, 3, 4, 5, 6}, {}, {6, 5, 4, 3, 2, 1}, {1}));
  // A transform of one's own that draws nothing is applied before the copy, to targets, too.
  const Map other(GeneratedImages::test(7), [](const SampleView& sample) {
    sample.target()[0] += 5;
    for (float& x : sample.input()) x = 1 - x;
  });
  check(Map(Map(other, RandomCrop{2}), RandomFlip{}));
}

namespace {

/// Adds a drawn number to every second element.
struct Noise {
  struct Elements {
    float strength;
    constexpr float draw(Random& random) const { return strength * random.uniform(); }
    template <class Below>
    constexpr float operator()(float drawn, const Below& below, std::uint32_t element) const {
      return element % 2 ? below(element) : below(element) + drawn;
    }
  };
  void operator()(const SampleView& sample, Random& random) const {
    const float drawn = Elements{0.5f}.draw(random);
    for (std::size_t i = 0; i < sample.input().size(); i += 2) sample.input()[i] += drawn;
  }
  Elements elements(const SampleLayout&) const { return {0.5f}; }
};

/// Reads bytes in a way of its own.
struct Inverted : ByteImages {
  using ByteImages::ByteImages;
  void read(long index, void* input, void* target) const {
    ByteImages::read(index, input, target);
    for (int i = 0; i < 2; ++i) static_cast<float*>(input)[i] *= -1;
  }
};

}  // namespace

TEST_CASE("transforms of one's own are done on a device if they say how", "[data][resident]") {
  far::Executor executor(0);
  const Map noisy(Map(GeneratedImages::train(9), Noise{}, 4), RandomCrop{1, 0.5f}, 5);
  resident_data::check_epochs(executor, noisy, {.batch_size = 4});
  resident_data::check_epochs(executor, Inverted("two pixels", {1, 2, 3, 4}, {0, 1}, {2}, 2), {.batch_size = 2});
}

TEST_CASE("a data set is copied once for all loaders, and no larger than its bytes", "[data][resident]") {
  far::Executor executor(0);
  const Resident images(GeneratedImages::train(300));
  const long allocations = far::Executor::allocations;
  const auto& copy = images.on(executor);
  const Resident again = images;
  CHECK(&again.on(executor) == &copy);
  far::Executor another(0);
  CHECK(&images.on(another) == &copy);  // the same device
  CHECK(far::Executor::allocations == allocations + 1);
  CHECK(copy.bytes() <= 300 * (784 + 4) + 2 * 255 + 1024);
  CHECK(executor.bytes_in == 300 * (784 + 4) + 1024);
  // A part that is chosen below is all that is copied.
  CHECK(Resident(Subset(GeneratedImages::train(300), 10, 20)).on(executor).bytes() <= 10 * 788 + 2 * 255 + 1024);
}

TEST_CASE("a data set larger than a piece of its copy is whole there", "[data][resident]") {
  far::Executor executor(0);
  std::vector<float> numbers(3 * 1500000), labels{1, 2, 3};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  resident_data::check_epochs(executor, TensorDataset<float, float>(numbers, {1500000}, labels), {.batch_size = 3});
}

TEST_CASE("a copy knows the range of integer targets", "[data][resident]") {
  far::Executor executor(0);
  const TensorDataset data(std::vector<float>(6), {2}, std::vector<std::int32_t>{4, 9, 3});
  const TargetRange range = Resident(data).on(executor).targets();
  CHECK(range.least == 3);
  CHECK(range.least_at == 2);
  CHECK(range.largest == 9);
  CHECK(range.largest_at == 1);
}

namespace {

struct Full : far::Executor {
  using far::Executor::Executor;
  static void* allocate(long bytes, const char* purpose) {
    fail("Full", std::string("no room for ") + purpose, std::to_string(bytes) + " B", "100 B free");
  }
};

struct Faulty {
  SampleLayout layout_{{2}, DataKind::float32};
  long size() const { return 5; }
  const SampleLayout& layout() const { return layout_; }
  void read(long index, void*, void*) const {
    if (index == 3) throw Error("pixel missing");
  }
};

struct Huge : Faulty {
  SampleLayout huge{{65536, 32768}, DataKind::float32};
  const SampleLayout& layout() const { return huge; }
};

}  // namespace

TEST_CASE("what does not fit on a device is an error that says what", "[data][resident]") {
  far::Executor executor(0);
  Full full(0);
  const Resident images(GeneratedImages::train(300));
  CHECK_THROWS_WITH(images.on(full),
                    "Full: no room for a data set that stays on the device; expected 237568 B, found 100 B free");
  CHECK_NOTHROW(images.on(executor));
  CHECK_THROWS_WITH(Resident(Faulty{}).on(executor), "Resident: sample 3: pixel missing");
  CHECK_THROWS_WITH(Resident(Huge{}).on(executor),
                    "Resident: elements of a sample; expected at most 2^31 - 1, found 2147483648");
  const TensorDataset<std::int32_t> tokens({1, 2}, {2}, {0});
  CHECK_THROWS_WITH(Resident(Map(tokens, RandomFlip{})).on(executor),
                    "Resident: element type of inputs that go through a Map; expected float32, found int32");
  const std::vector<float> many(33, 1.0f);
  const TensorDataset wide(std::vector<float>(33), {33, 1, 1}, {0});
  CHECK_THROWS_WITH(Resident(Map(wide, Normalize{many, many})).on(executor),
                    "Normalize: channels on a device; expected at most 32, found 33");
  CHECK_THROWS_WITH(Resident(Map(images.dataset(), Normalize{{}, {}})).on(executor), Contains("Normalize"));
  const TensorDataset line(std::vector<float>(4), {4}, {0});
  CHECK_THROWS_WITH(Resident(Map(line, RandomFlip{})).on(executor), Contains("RandomFlip: input"));
}

TEST_CASE("on the host a resident data set is read as the one it holds", "[data][resident]") {
  const Map shifted(GeneratedImages::train(20), RandomCrop{3});
  const Resident resident(shifted);
  static_assert(Dataset<Resident<Map<GeneratedImages, RandomCrop>>>);
  static_assert(std::same_as<Resident<TensorDataset<float, float>>::Target, float>);
  DataLoader expected{shifted, {.batch_size = 6}};
  DataLoader found{resident, {.batch_size = 6, .workers = 1}};
  CHECK(resident_data::read(expected, 2) == resident_data::read(found, 2));
}
