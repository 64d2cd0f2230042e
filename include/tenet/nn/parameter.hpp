#pragma once

#include <cmath>
#include <tenet/core/random.hpp>
#include <tenet/graph/slots.hpp>
#include <tenet/ops/symbol.hpp>
#include <type_traits>

/// Members that make up a module: parameters, buffers, and markers of layers that have neither. They hold no numbers
/// but the slot that the network's walk gave them; where the numbers lie is the memory plan's to say.
namespace tenet {

namespace detail {
/// Uniform in ±bound; one loop for all bounds.
[[gnu::noinline]] inline void fill_uniform(float* values, long size, Random& random, float bound) {
  for (long i = 0; i < size; ++i) values[i] = random.uniform(-bound, bound);
}
}  // namespace detail

/// All elements equal to numerator / denominator.
template <int numerator, int denominator = 1>
struct Constant {
  static void fill(float* values, long size, Random&) {
    for (long i = 0; i < size; ++i) values[i] = static_cast<float>(numerator) / static_cast<float>(denominator);
  }
};

/// Uniform in ±1 / sqrt(fan_in): what PyTorch does by default for weights and biases of linear and convolutional layers
/// (He et al., arXiv 1502.01852, with a = sqrt 5).
template <int fan_in>
struct KaimingUniform {
  static void fill(float* values, long size, Random& random) {
    detail::fill_uniform(values, size, random, 1.0f / std::sqrt(static_cast<float>(fan_in)));
  }
};

/// Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, AISTATS 2010).
template <int fan_in, int fan_out>
struct XavierUniform {
  static void fill(float* values, long size, Random& random) {
    detail::fill_uniform(values, size, random, std::sqrt(6.0f / static_cast<float>(fan_in + fan_out)));
  }
};

/// Normal with mean 0 and the given standard deviation in thousandths.
template <int thousandths = 1000>
struct Normal {
  static void fill(float* values, long size, Random& random) {
    for (long i = 0; i < size; ++i) values[i] = 0.001f * static_cast<float>(thousandths) * random.normal();
  }
};

namespace detail {
template <class Initializer>
void fill(float* values, long size, void* random) {
  Initializer::fill(values, size, *static_cast<Random*>(random));
}
}  // namespace detail

/// A trained tensor. `Type` is a Fixed<extents...>.
template <class Type_, class Initializer>
struct Parameter {
  using Type = Type_;
  static constexpr SlotKind slot_kind = SlotKind::parameter;
  int slot = -1;

  static constexpr SlotInfo info() { return {slot_kind, &Type::info, 0, &detail::fill<Initializer>}; }

  /// The parameter in the computation that x belongs to.
  template <class Context, class X>
  constexpr auto in(Symbol<Context, X> x) const {
    return Symbol<Context, Type>{x.context, x.context->parameter(slot, Type::info)};
  }
};

/// A trained table (rows, width) of which a step reads and updates only the rows that its tokens choose.
template <class Type, class Initializer>
struct SparseTable : Parameter<Type, Initializer> {
  static constexpr SlotInfo info() {
    SlotInfo result = Parameter<Type, Initializer>::info();
    result.sparse = true;
    return result;
  }
};

/// A tensor that is kept from step to step without being trained, as running statistics.
template <class Type_, class Initializer>
struct StateBuffer {
  using Type = Type_;
  static constexpr SlotKind slot_kind = SlotKind::buffer;
  int slot = -1;

  static constexpr SlotInfo info() { return {slot_kind, &Type::info, 0, &detail::fill<Initializer>}; }

  template <class Context, class X>
  constexpr auto in(Symbol<Context, X> x) const {
    return Symbol<Context, Type>{x.context, x.context->buffer(slot, Type::info)};
  }

  /// What the buffer holds after the step.
  template <class Context>
  constexpr void assign(Symbol<Context, Type> value) const {
    value.context->assign(slot, value.id);
  }
};

/// A count of training steps, kept beside running statistics because PyTorch keeps it there (`num_batches_tracked`).
struct StepCounter {
  static constexpr SlotKind slot_kind = SlotKind::counter;
  int slot = -1;
  static constexpr SlotInfo info() { return {slot_kind}; }
};

/// Stands where an optional parameter is left out: it has no slot and no name.
struct Absent {};

template <bool present, class Type, class Initializer>
using OptionalParameter = std::conditional_t<present, Parameter<Type, Initializer>, Absent>;

/// The place of a layer without parameters in its network, for messages.
struct Marker {
  static constexpr SlotKind slot_kind = SlotKind::marker;
  int slot = -1;
  static constexpr SlotInfo info() { return {}; }
};

}  // namespace tenet
