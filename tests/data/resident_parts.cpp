#include "tenet/data/resident_parts.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tenet/data/generated_images.hpp"
#include "tenet/data/resident.hpp"

using namespace tenet;

namespace {

using Numbers = TensorDataset<float, float>;
struct Lambda {
  void operator()(const SampleView&) const {}
};
struct DrawingLambda {
  void operator()(const SampleView&, Random&) const {}
};
struct OwnRead : ByteImages {
  void read(long, void*, void*) const {}
};
struct Streaming : Numbers {
  void read(long, long, void*, void*) const {}
  void read(long, void*, void*) const {}
};

template <class D>
constexpr bool is_made(int maps, int levels) {
  return detail::MadeOnDevice<D>::maps == maps && detail::MadeOnDevice<D>::levels == levels && detail::can_be_made<D>;
}

// What is kept as bytes.
static_assert(detail::keeps_bytes<ByteImages> && detail::keeps_bytes<GeneratedImages>);
static_assert(detail::keeps_bytes<Subset<Subset<GeneratedImages>>>);
static_assert(!detail::keeps_bytes<Numbers> && !detail::keeps_bytes<OwnRead> && !detail::keeps_bytes<Subset<OwnRead>>);

// What is the same in each epoch.
static_assert(!detail::changes<Numbers> && detail::changes<Streaming> && detail::changes<Subset<Streaming>>);
static_assert(!detail::changes<Map<Numbers, Lambda>> && detail::changes<Map<Numbers, DrawingLambda>>);
static_assert(detail::changes<Map<Subset<Map<Numbers, RandomFlip>>, Lambda>>);

// A subset of what is kept is kept; one of what maps make has numbers of its own.
static_assert(is_made<Numbers>(0, 1) && is_made<Subset<Numbers>>(0, 1) && is_made<Map<Numbers, Lambda>>(0, 1));
static_assert(is_made<Map<Map<Subset<Numbers>, RandomFlip>, Normalize>>(2, 1));
static_assert(is_made<Subset<Map<Numbers, RandomCrop>>>(1, 2));
static_assert(is_made<Map<Subset<Map<Subset<Map<Map<Numbers, Lambda>, RandomCrop>>, RandomFlip>>, Normalize>>(3, 3));

// What changes with the epoch cannot be kept.
static_assert(!detail::can_be_made<Streaming> && !detail::can_be_made<Map<Streaming, Normalize>>);
static_assert(!detail::can_be_made<Map<Numbers, DrawingLambda>>);
static_assert(!detail::can_be_made<Map<Subset<Map<Numbers, RandomFlip>>, Lambda>>);
static_assert(!detail::can_be_made<Map<Subset<Map<Numbers, DrawingLambda>>, RandomFlip>>);

struct Alone {
  static constexpr int size = 1;
  int rank() const { return 0; }
};

}  // namespace

TEST_CASE("a batch's words are seeds, and the numbers of its samples in each data set", "[data][resident]") {
  const Numbers numbers(std::vector<float>(10), {1, 1}, std::vector<float>(10));
  const Map flipped(Subset(numbers, 2, 10), RandomFlip{}, 7);
  const Map shifted(Subset(flipped, std::vector<long>{5, 3, 1}), RandomCrop{}, 8);
  const Subset part(shifted, 1, 3);
  using Made = detail::MadeOnDevice<std::remove_const_t<decltype(part)>>;
  static_assert(Made::maps == 2 && Made::levels == 3);
  std::uint32_t words[4 + 6] = {};
  Made::seeds(part, 3, words);
  Made::indices(part, 0, words + 4, 2);
  Made::indices(part, 1, words + 5, 2);
  const detail::ChosenSamples chosen{words, words + 4, 2};
  CHECK(chosen.seed(0) == flipped.seed_of(3));
  CHECK(chosen.seed(1) == shifted.seed_of(3));
  const auto of = [&](int level) { return std::vector<std::uint32_t>{chosen.index(level, 0), chosen.index(level, 1)}; };
  CHECK(of(0) == std::vector<std::uint32_t>{3, 1});  // in the first subset, which is what is kept
  CHECK(of(1) == std::vector<std::uint32_t>{1, 2});  // in the second, of which the crop's numbers are drawn
  CHECK(of(2) == std::vector<std::uint32_t>{0, 1});
  CHECK(Made::kept(part).size() == 8);
}

TEST_CASE("bytes are read as they are kept", "[data][resident]") {
  const ByteImages images("some", {1, 2, 3, 4, 5, 6}, {2, 1, 0}, {2}, 3);
  unsigned char bytes[2];
  std::int32_t label;
  detail::read_kept(Subset(Subset(images, 1, 3), std::vector<long>{1}), 0, bytes, &label);
  CHECK(bytes[0] == 5);
  CHECK(bytes[1] == 6);
  CHECK(label == 0);
}

TEST_CASE("a batch's inputs or targets are left out where nobody wants them", "[data][resident]") {
  const float words[] = {1, 2, 3, 4}, targets[] = {5, 6};
  const std::uint32_t index = 1;
  float to[3] = {};
  const detail::ChosenSamples chosen{nullptr, &index, 1};
  using Make = detail::MakeSample<detail::KeptWords>;
  Make{{words, 2}, chosen, 2, 1, targets, to, nullptr}(Alone{}, 0);
  Make{{words, 2}, chosen, 2, 1, targets, nullptr, to + 2}(Alone{}, 0);
  CHECK(to[0] == 3);
  CHECK(to[1] == 4);
  CHECK(to[2] == 6);
}
