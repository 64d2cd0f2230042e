#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace tenet {

/// Element types of tensors; bfloat16 only in memory, where a program keeps values of type float32 in it.
enum class DType : unsigned char { float32, int32, bfloat16 };

template <class Element>
inline constexpr DType dtype_of = [] {
  static_assert(std::is_same_v<Element, float> || std::is_same_v<Element, std::int32_t>,
                "an element type is float or std::int32_t");
  return std::is_same_v<Element, float> ? DType::float32 : DType::int32;
}();

/// Most extents that a tensor may have, the batch not counted.
inline constexpr int max_rank = 5;

/// What is known about a tensor at compile time, as a value. The batch, the one extent that is known only at run time,
/// is not among the extents: `batched` says that it stands before them.
struct TensorInfo {
  DType dtype = DType::float32;
  bool batched = false;
  int rank = 0;
  int extents[max_rank]{};

  /// Elements of one sample (batched) or of the whole tensor (not batched).
  constexpr long size() const {
    long product = 1;
    for (int i = 0; i < rank; ++i) product *= extents[i];
    return product;
  }
  /// Elements of a batch of so many samples, or of the whole tensor.
  constexpr long size(long batch) const { return size() * (batched ? batch : 1); }

  friend constexpr bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// The same facts as a type: the second template argument of every `Symbol`.
///
/// shape = (batch, Extents...) if batched, else (Extents...)
template <class Element_, bool HasBatch, int... Extents>
struct TensorType {
  static_assert(sizeof...(Extents) <= max_rank, "a tensor has at most five extents besides the batch");
  static_assert(((Extents > 0) && ...), "every extent of a tensor is positive");
  using Element = Element_;
  static constexpr int rank = sizeof...(Extents);
  static constexpr bool batched = HasBatch;
  static constexpr TensorInfo info{dtype_of<Element>, HasBatch, rank, {Extents...}};
  static constexpr long size = info.size();
};

/// One value a sample: (batch, Extents...).
template <int... Extents>
using Batched = TensorType<float, true, Extents...>;

/// One value for the whole batch: (Extents...). Parameters, their gradients, statistics.
template <int... Extents>
using Fixed = TensorType<float, false, Extents...>;

/// A single number.
using Scalar = Fixed<>;

/// Integers, one tensor a sample: class labels (`BatchedInt<>`), tokens (`BatchedInt<length>`).
template <int... Extents>
using BatchedInt = TensorType<std::int32_t, true, Extents...>;

/// Inputs of networks by the field's names.
template <int Channels, int Height, int Width>
using Image = Batched<Channels, Height, Width>;
template <int Count>
using Features = Batched<Count>;
template <int Length, int Width>
using Sequence = Batched<Length, Width>;
template <int Length>
using Tokens = BatchedInt<Length>;

template <class>
inline constexpr bool is_tensor_type = false;
template <class Element, bool batched, int... Extents>
inline constexpr bool is_tensor_type<TensorType<Element, batched, Extents...>> = true;

namespace detail {
template <TensorInfo info>
struct TypeFromInfo {
  using Element = std::conditional_t<info.dtype == DType::float32, float, std::int32_t>;
  template <int... I>
  static auto make(std::integer_sequence<int, I...>) -> TensorType<Element, info.batched, info.extents[I]...>;
  using type = decltype(make(std::make_integer_sequence<int, info.rank>{}));
};
}  // namespace detail

/// The type that stands for the facts `info`: TypeOf<T::info> is T.
template <TensorInfo info>
using TypeOf = typename detail::TypeFromInfo<info>::type;

/// The extents of `info` exchanged for others, everything else kept.
constexpr TensorInfo with_extents(TensorInfo info, std::initializer_list<int> extents) {
  info.rank = 0;
  for (int& extent : info.extents) extent = 0;
  for (int extent : extents) info.extents[info.rank++] = extent;
  return info;
}

/// Extent `dim` (counted behind the batch) exchanged for another.
constexpr TensorInfo with_extent(TensorInfo info, int dim, int extent) {
  info.extents[dim] = extent;
  return info;
}
/// One more extent at the end.
constexpr TensorInfo with_last_extent(TensorInfo info, int extent) {
  info.extents[info.rank++] = extent;
  return info;
}
constexpr TensorInfo without_last_extent(TensorInfo info) {
  info.extents[--info.rank] = 0;
  return info;
}
constexpr TensorInfo with_dtype(TensorInfo info, DType dtype) {
  info.dtype = dtype;
  return info;
}

/// Where an operand of a result lies when it is broadcast: element i of the result reads element (i / inner) % count of
/// the operand. Every broadcast whose own extents stand side by side in the result has this form:
/// the same shape (1, all), a row (1, columns), a column (columns, rows), channels (height·width, channels), a scalar.
struct Access {
  long inner = 1;        ///< neighbouring elements of the result that read the same element
  long count = 1;        ///< elements of the operand (of one sample, if it is batched)
  bool batched = false;  ///< `count` is to be multiplied by the batch
  bool full = false;     ///< the same elements in the same order
  bool regular = true;   ///< false: the operand's extents do not stand side by side, it has to be expanded first
  /// The same elements in another order: of each `count` of them, a matrix with rows of `inner`, the transposed matrix.
  bool turned = false;
  /// Of what is not regular: a sample's row of `count` elements stands there so often, as the gradient of a mean over
  /// an image's positions where channels come last. 1: it is something else.
  long repeats = 1;

  /// Every element is read, in whatever order.
  constexpr bool whole() const { return full || turned; }
  /// One number throughout an aligned block of elements of the result (else: contiguous there).
  constexpr bool uniform() const { return !full && !turned && (inner > 1 || count == 1); }
  /// The length of those blocks; 0: any. Of what is turned, whose elements are as far apart throughout each.
  constexpr long block() const {
    if (turned) return inner;
    if (full || (count == 1 && !batched)) return 0;
    return uniform() ? inner : count;
  }

  friend constexpr bool operator==(const Access&, const Access&) = default;
};

constexpr long greatest_common_divisor(long a, long b) {
  while (b != 0) {
    const long rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// How an operand of type `from` is read by a result of type `to`. Extents are aligned at the right, as in NumPy; the
/// batch is aligned with the batch only.
constexpr Access access_of(const TensorInfo& to, const TensorInfo& from) {
  Access result;
  const long total = to.size();
  if (from.batched == to.batched && from.size() == total) return {1, total, to.batched, true, true};
  int first = to.rank, last = -1;  // the operand's own extents, as positions in the result
  for (int i = 0; i < to.rank; ++i) {
    const int k = i - (to.rank - from.rank);
    if (k >= 0 && from.extents[k] != 1) {
      if (first > i) first = i;
      last = i;
    }
  }
  const int own = first;
  if (from.batched) first = 0;
  for (int i = first; i <= last; ++i) {
    const int k = i - (to.rank - from.rank);
    if ((k < 0 || from.extents[k] == 1) && to.extents[i] != 1) result.regular = false;
  }
  for (int i = last + 1; i < to.rank; ++i) result.inner *= to.extents[i];
  result.count = from.size();
  result.batched = from.batched;
  if (!result.regular && from.batched) {
    long of_row = 1;
    for (int i = own; i < to.rank; ++i) of_row *= to.extents[i];
    if (of_row == result.count) result.repeats = total / of_row;
  }
  return result;
}

/// The channels of a type that has such, and the elements of each: images (batch, channels, height, width), and weights
/// of convolutions (out, channels, height, width).
struct Planes {
  long channels = 1, positions = 1;

  /// Whether it matters which of both comes last.
  constexpr bool have_order() const { return channels > 1 && positions > 1; }
  /// How elements with the other order are read by those with channels last, or not.
  constexpr Access turned(bool channels_last) const {
    Access access{channels_last ? channels : positions, channels * positions};
    access.turned = true;
    return access;
  }
};
constexpr Planes planes_of(const TensorInfo& type) {
  const int first = type.batched ? 0 : 1;
  if (type.rank != first + 3 || type.dtype == DType::int32) return {};
  return {type.extents[first], long{1} * type.extents[first + 1] * type.extents[first + 2]};
}

/// The type of an element-wise result of two operands; `rank` is -1 where the two do not fit.
constexpr TensorInfo broadcast(const TensorInfo& a, const TensorInfo& b) {
  TensorInfo result{a.dtype, a.batched || b.batched, a.rank > b.rank ? a.rank : b.rank, {}};
  for (int i = 1; i <= result.rank; ++i) {
    const int left = i <= a.rank ? a.extents[a.rank - i] : 1;
    const int right = i <= b.rank ? b.extents[b.rank - i] : 1;
    if (left != right && left != 1 && right != 1) {
      result.rank = -1;
      return result;
    }
    result.extents[result.rank - i] = left == 1 ? right : left;
  }
  return result;
}

}  // namespace tenet
