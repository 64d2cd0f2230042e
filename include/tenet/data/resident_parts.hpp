#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tenet/core/host_device.hpp"
#include "tenet/core/random.hpp"
#include "tenet/data/byte_images.hpp"
#include "tenet/data/dataset.hpp"
#include "tenet/data/transform.hpp"

/// How a device makes samples: each data set of those that wrap each other is a part of one function object.
namespace tenet::detail {

/// Which samples a batch has: what is copied to the device for it.
struct ChosenSamples {
  const std::uint32_t* seeds;    ///< of the epoch, for each map: lower half, upper half
  const std::uint32_t* indices;  ///< levels x count: a sample's number in the data set of each level, the lowest first
  long count;

  constexpr std::uint64_t seed(int map) const { return std::uint64_t{seeds[2 * map + 1]} << 32 | seeds[2 * map]; }
  constexpr std::uint32_t index(int level, long sample) const { return indices[level * count + sample]; }
};

/// The lowest part: samples as they are read, floats or integers, or as bytes that stand for one of 256 floats.
struct KeptWords {
  const float* words;  ///< integers, too, are only moved
  std::uint32_t size;  ///< elements of a sample

  struct Sample {
    const float* words;
    constexpr float operator()(std::uint32_t element) const { return words[element]; }
  };
  constexpr Sample sample(const ChosenSamples& chosen, long i) const {
    return {words + long{chosen.index(0, i)} * size};
  }
};
struct KeptBytes {
  const unsigned char* bytes;
  const float* values;
  std::uint32_t size;

  struct Sample {
    const unsigned char* bytes;
    const float* values;
    constexpr float operator()(std::uint32_t element) const { return values[bytes[element]]; }
  };
  constexpr Sample sample(const ChosenSamples& chosen, long i) const {
    return {bytes + long{chosen.index(0, i)} * size, values};
  }
};

template <class Elements>
concept DrawsOnDevice = requires(const Elements& elements, Random& random) { elements.draw(random); };

/// A map whose transform does `Elements` to what is below.
template <class Below, class Elements, int map, int level>
struct MappedPart {
  Below below;
  Elements elements;

  struct Sample {
    typename Below::Sample below;
    const Elements* elements;  // not a copy: a kernel's arguments lie where all threads read them
    constexpr float operator()(std::uint32_t element) const { return (*elements)(below, element); }
  };
  constexpr Sample sample(const ChosenSamples& chosen, long i) const { return {below.sample(chosen, i), &elements}; }
};
template <class Below, DrawsOnDevice Elements, int map, int level>
struct MappedPart<Below, Elements, map, level> {
  Below below;
  Elements elements;

  struct Sample {
    typename Below::Sample below;
    const Elements* elements;
    decltype(elements->draw(std::declval<Random&>())) drawn;
    constexpr float operator()(std::uint32_t element) const { return (*elements)(drawn, below, element); }
  };
  constexpr Sample sample(const ChosenSamples& chosen, long i) const {
    Random random(chosen.seed(map), chosen.index(level, i));  // as `Map::read` makes it
    return {below.sample(chosen, i), &elements, elements.draw(random)};
  }
};

/// Writes a batch; a row is a sample, of which each thread of the team draws the same random numbers.
template <class Part>
struct MakeSample {
  static_assert(std::is_trivially_copyable_v<Part>, "elements(layout) of a transform holds numbers only");
  Part part;
  ChosenSamples chosen;
  std::uint32_t input_size, target_size;
  const float* kept_targets;
  float* inputs;
  float* targets;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long i) const {
    const auto rank = static_cast<std::uint32_t>(team.rank());
    constexpr auto step = static_cast<std::uint32_t>(Members::size);
    if (inputs != nullptr) {
      const auto sample = part.sample(chosen, i);
      float* const to = inputs + i * input_size;
      for (std::uint32_t element = rank; element < input_size; element += step) to[element] = sample(element);
    }
    if (targets != nullptr) {
      const float* const from = kept_targets + long{chosen.index(0, i)} * target_size;
      float* const to = targets + i * target_size;
      for (std::uint32_t element = rank; element < target_size; element += step) to[element] = from[element];
    }
  }
};

/// Whether a data set has its inputs as bytes. One that derives from `ByteImages` and reads in its own way has not.
template <class D>
inline constexpr bool keeps_bytes = false;
template <std::derived_from<ByteImages> D>
  requires std::same_as<decltype(&D::read), void (ByteImages::*)(long, void*, void*) const>
inline constexpr bool keeps_bytes<D> = true;
template <class D>
inline constexpr bool keeps_bytes<Subset<D>> = keeps_bytes<D>;

inline const ByteImages& images_of(const ByteImages& images) { return images; }
template <class D>
const ByteImages& images_of(const Subset<D>& subset) {
  return images_of(subset.dataset());
}
inline long index_of(const ByteImages&, long index) { return index; }
template <class D>
long index_of(const Subset<D>& subset, long index) {
  return index_of(subset.dataset(), subset.index_of(index));
}

/// Reads a sample as the device keeps it.
template <class D>
void read_kept(const D& dataset, long index, void* input, void* target) {
  if constexpr (keeps_bytes<D>) {
    const ByteImages& images = images_of(dataset);
    const long number = index_of(dataset, index);
    std::memcpy(input, images.bytes(number), static_cast<std::size_t>(images.layout().input_size()));
    const std::int32_t label = images.label(number);
    std::memcpy(target, &label, 4);
  } else {
    dataset.read(index, input, target);
  }
}

/// Whether a data set's samples differ from epoch to epoch.
template <class D>
inline constexpr bool changes = requires(const D& dataset, void* memory) { dataset.read(0L, 0L, memory, memory); };
template <class D, class Transform>
inline constexpr bool changes<Map<D, Transform>> = Map<D, Transform>::draws || changes<D>;
template <class D>
inline constexpr bool changes<Subset<D>> = changes<D>;

/// How a device makes a data set's samples: `levels` data sets with numbers of their own, `maps` maps above the one
/// that is `kept`, which is this one unless a specialisation says otherwise.
template <class D>
struct MadeOnDevice {
  static constexpr bool is_kept = true;
  static constexpr int maps = 0, levels = 1;
  static const D& kept(const D& dataset) { return dataset; }
  template <class Kept>
  static Kept part(const D&, const Kept& kept_part) {
    return kept_part;
  }
  static void seeds(const D&, long, std::uint32_t*) {}
  static void indices(const D&, long index, std::uint32_t* to, long) { *to = static_cast<std::uint32_t>(index); }
};

template <class D, class Transform>
  requires requires(const Transform& transform, const SampleLayout& layout) { transform.elements(layout); }
struct MadeOnDevice<Map<D, Transform>> {
  using Whole = Map<D, Transform>;
  using Below = MadeOnDevice<D>;
  static constexpr bool is_kept = false;
  static constexpr int maps = Below::maps + 1, levels = Below::levels;
  static const auto& kept(const Whole& map) { return Below::kept(map.dataset()); }
  template <class Kept>
  static auto part(const Whole& map, const Kept& kept_part) {
    using BelowPart = decltype(Below::part(map.dataset(), kept_part));
    using Elements = decltype(map.transform().elements(map.layout()));
    static_assert(DrawsOnDevice<Elements> == Whole::draws,
                  "a transform draws random numbers where its elements(layout) has draw(random), and only there");
    return MappedPart<BelowPart, Elements, maps - 1, levels - 1>{Below::part(map.dataset(), kept_part),
                                                                 map.transform().elements(map.layout())};
  }
  static void seeds(const Whole& map, long epoch, std::uint32_t* to) {
    Below::seeds(map.dataset(), epoch, to);
    const std::uint64_t seed = map.seed_of(epoch);
    to[2 * maps - 2] = static_cast<std::uint32_t>(seed);
    to[2 * maps - 1] = static_cast<std::uint32_t>(seed >> 32);
  }
  static void indices(const Whole& map, long index, std::uint32_t* to, long stride) {
    Below::indices(map.dataset(), index, to, stride);
  }
};

/// A part of what maps make: its numbers are others than theirs, of which their random numbers are drawn.
template <class D>
  requires(!MadeOnDevice<D>::is_kept)
struct MadeOnDevice<Subset<D>> {
  using Whole = Subset<D>;
  using Below = MadeOnDevice<D>;
  static constexpr bool is_kept = false;
  static constexpr int maps = Below::maps, levels = Below::levels + 1;
  static const auto& kept(const Whole& subset) { return Below::kept(subset.dataset()); }
  template <class Kept>
  static auto part(const Whole& subset, const Kept& kept_part) {
    return Below::part(subset.dataset(), kept_part);
  }
  static void seeds(const Whole& subset, long epoch, std::uint32_t* to) { Below::seeds(subset.dataset(), epoch, to); }
  static void indices(const Whole& subset, long index, std::uint32_t* to, long stride) {
    to[(levels - 1) * stride] = static_cast<std::uint32_t>(index);
    Below::indices(subset.dataset(), subset.index_of(index), to, stride);
  }
};

/// Whether what is kept is the same in each epoch.
template <class D>
inline constexpr bool can_be_made =
    !changes<std::remove_cvref_t<decltype(MadeOnDevice<D>::kept(std::declval<const D&>()))>>;

}  // namespace tenet::detail
