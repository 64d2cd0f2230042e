#pragma once

#include <source_location>
#include <type_traits>

#include <tenet/core/fixed_string.hpp>
#include <tenet/core/tensor_type.hpp>

/// Mistakes in networks, and the sentences that name them. While a network is traced its first mistake is recorded and
/// the trace goes on with a harmless shape; then one static_assert says all: layer, expected and given shape, remedy.
namespace tenet {

enum class Mistake : unsigned char { none, broadcast, channels, features, kernel, rank, matmul, reshape, loss };

struct MistakeRecord {
  Mistake kind = Mistake::none;
  int slot = -1;  ///< parameter, buffer or marker of the layer, or of the last layer passed
  int line = 0;   ///< of the call in the user's `forward`, 0 where a container made the call
  TensorInfo expected{}, found{};
};

namespace mistake {

template <FixedString path>
struct Layer;
template <int... Extents>
struct Expected;
template <int... Extents>
struct Found;
template <int number>
struct Line;

// One struct a mistake, so that every compiler prints the sentence next to the numbers.
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct ShapesDiffer {
  static_assert(ok, "element-wise operation: the two shapes do not broadcast; in a residual sum both branches need the "
                    "same shape: give the shortcut a 1x1 convolution with the channels and the stride of the body");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct ChannelsDiffer {
  static_assert(ok, "the layer expects another number of channels than its input has: change the layer's first template "
                    "argument, or the layer before it");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct FeaturesDiffer {
  static_assert(ok, "the layer expects another number of features than its input has: change its first template "
                    "argument to the number found (after Flatten: channels x height x width)");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct KernelLargerThanInput {
  static_assert(ok, "the window of the convolution or pooling is larger than its padded input: use a smaller kernel, "
                    "more padding, or fewer layers that shrink the image");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct RankDiffers {
  static_assert(ok, "the layer expects an input with another number of extents (the batch is not counted): an image is "
                    "channels x height x width; put Flatten before a Linear");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct InnerExtentsDiffer {
  static_assert(ok, "matmul(lhs, rhs): the columns of lhs and the rows of rhs differ");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct SizesDiffer {
  static_assert(ok, "reshape: the new extents hold another number of elements than the old ones");
};
template <class Layer, class Expected, class Found, class Line, bool ok = false>
struct LossDoesNotFit {
  static_assert(ok, "the loss does not fit the network's output: CrossEntropy takes one row of scores (batch, classes), "
                    "or (batch, length, classes); MeanSquaredError takes any shape of floats");
};

template <template <int...> class Tag, TensorInfo info, class = std::make_integer_sequence<int, info.rank>>
struct Tagged;
template <template <int...> class Tag, TensorInfo info, int... I>
struct Tagged<Tag, info, std::integer_sequence<int, I...>> {
  using type = Tag<info.extents[I]...>;
};

/// Stops the compilation with the sentence of `kind`.
template <Mistake kind, FixedString path, TensorInfo expected, TensorInfo found, int line>
constexpr bool explain() {
  using L = Layer<path>;
  using E = typename Tagged<Expected, expected>::type;
  using F = typename Tagged<Found, found>::type;
  using N = Line<line>;
  if constexpr (kind == Mistake::broadcast) return sizeof(ShapesDiffer<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::channels) return sizeof(ChannelsDiffer<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::features) return sizeof(FeaturesDiffer<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::kernel) return sizeof(KernelLargerThanInput<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::rank) return sizeof(RankDiffers<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::matmul) return sizeof(InnerExtentsDiffer<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::reshape) return sizeof(SizesDiffer<L, E, F, N>) > 0;
  if constexpr (kind == Mistake::loss) return sizeof(LossDoesNotFit<L, E, F, N>) > 0;
  return true;
}

/// Called by an entry point that has found a mistake. In a trace it is recorded, to be explained with the layer's path;
/// on real tensors, where nobody comes after, it is explained at once.
template <Mistake kind, TensorInfo expected, TensorInfo found, class Context>
constexpr void report(Context* context, int slot = -1, int line = 0) {
  if constexpr (Context::records_mistakes)
    context->record(MistakeRecord{kind, slot, line, expected, found});
  else
    static_assert(explain<kind, "forward", expected, found, 0>());
}

}  // namespace mistake

/// The line of a call, taken as a defaulted last parameter of layers and operators that may be misused.
using SourceLine = std::source_location;

}  // namespace tenet
