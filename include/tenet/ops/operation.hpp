#pragma once

#include <array>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/core/layout.hpp>
#include <tenet/core/vector_math.hpp>
#include <tenet/ops/symbol.hpp>
#include <tuple>
#include <type_traits>

/// What an operation is. An operation is an empty struct:
///
///     struct Square : ElementOperation {
///       static constexpr const char* name = "square";
///       static constexpr auto element(auto x) { return x * x; }
///       static constexpr auto gradient(auto, auto upstream, auto x) { return gradients([=] { return 2.0f * x *
///       upstream; }); }
///     };
///     constexpr auto square(AnySymbol auto x) { return apply<Square>(x); }
///
/// That is all: nothing is registered. `gradient` is written with symbols, so the same lines are traced into the graph
/// and run by the eager tape; each operand's part stands in a lambda of its own and is evaluated only if it is wanted.
namespace tenet {

/// How the compiler of graphs treats an operation.
enum class Kind : unsigned char {
  element,    ///< element i of the result depends on the operands' elements at i alone: fused with its neighbours
  view,       ///< the operand's elements in the same order under another shape: costs nothing
  reduction,  ///< sums elements of the operand: takes in the element-wise operations before it
  kernel,     ///< everything else: a kernel of its own, which may carry element-wise operations behind it
};

/// Identities which the tracer uses to leave an operation out.
enum class Algebra : unsigned char { none, add, subtract, multiply, divide, negate, idempotent };

/// Cost of an operation, for the cost model: fixed + per_sample · batch.
struct Cost {
  long per_sample = 0;
  long fixed = 0;
  constexpr long at(long batch) const { return per_sample * batch + fixed; }
};

/// Base of element-wise operations. `Derived::element` takes and returns a `float` or a `Vector`.
struct ElementOperation {
  static constexpr Kind kind = Kind::element;
  static constexpr Algebra algebra = Algebra::none;
  static constexpr bool cheap = true;      ///< cheaper to do again than to store and load
  static constexpr bool foldable = false;  ///< `element` of floats may run during constant evaluation
};

/// Base of operations with a kernel of their own. `Derived` says
///   `static constexpr auto result(types…)`            the type of the result
///   `static void run(executor, arguments, types…)`    what a device does
///   `static constexpr Cost flops(result, types…)`     optional
///   `static constexpr long scratch(executor*, types…)` optional: floats that each worker needs meanwhile
///   `static long workspace<Arguments>(executor*, batch, types…)` optional: floats that all workers share meanwhile
///   `static constexpr KernelNumbers numbers<Executor, Arguments>(types…)` optional: what `run` reads and writes, if
///   not floats in the order of their types
struct KernelOperation {
  static constexpr Kind kind = Kind::kernel;
  static constexpr Algebra algebra = Algebra::none;
  static constexpr bool cheap = false;
  static constexpr bool carries_epilogue = false;  ///< `run` calls `arguments.epilogue` for each range it has written
  static constexpr bool full_precision = false;  ///< the result is kept as it is, whatever the precision of the program
};

/// What a kernel reads and writes with channels last, or (samples) what has a batch with samples last.
enum class Turned : unsigned char { nothing, images, images_and_weights, samples };

/// Most operands of one operation.
inline constexpr int max_operands = 4;

/// The numbers that a kernel reads as its floating-point operands, and those that it writes; and what it wants in
/// another order. Lowering copies what lies in memory in another form.
struct KernelNumbers {
  DType operands = DType::float32, result = DType::float32;
  Turned turned = Turned::nothing;
  int told = max_operands;  ///< how many operands are `operands`; those behind are floats

  constexpr DType operand(int j) const { return j < told ? operands : DType::float32; }

  /// How what has the type lies.
  constexpr Layout layout(const TensorInfo& type) const {
    if (turned == Turned::samples) return type.batched ? Layout::samples_last : Layout::standard;
    return (turned == Turned::images_and_weights || (turned == Turned::images && type.batched)) &&
                   planes_of(type).have_order()
               ? Layout::channels_last
               : Layout::standard;
  }
};

/// Calls run(order…): with the mark of kernels that want another order, else with nothing.
template <Turned turned, class Run>
constexpr auto in_order(const Run& run) {
  if constexpr (turned == Turned::images_and_weights)
    return run(ChannelsLast{});
  else if constexpr (turned == Turned::images)
    return run(ImagesChannelsLast{});
  else if constexpr (turned == Turned::samples)
    return run(SamplesLast{});
  else
    return run();
}

/// The arguments of a kernel that is run alone, as the tape does: images lie in the order of their types.
template <class Arguments>
struct InOrderOfTypes : Arguments {
  static constexpr bool order_of_types = true;
};

/// The type of floating-point numbers in memory.
template <DType dtype>
using NumberOf = std::conditional_t<dtype == DType::bfloat16, bfloat16, float>;
template <class Number>
inline constexpr DType dtype_in_memory = std::is_same_v<Number, bfloat16> ? DType::bfloat16 : DType::float32;

/// Whether a kernel is compiled for a program in mixed precision, see `WithActivations`.
template <class Arguments>
inline constexpr bool in_mixed_precision = requires { Arguments::activations; };

/// Whether a kernel is compiled for one batch alone: `Arguments::batch` is a constant, see exec/one_sample.hpp.
template <class Arguments>
inline constexpr bool batch_is_known = std::is_const_v<decltype(Arguments::batch)>;
/// Whether kernels may be given images in another order: a program for one sample keeps the order of types.
template <class Arguments>
inline constexpr bool may_turn = !batch_is_known<Arguments> && !requires { Arguments::order_of_types; };
/// The program of a context is for one sample only: a sum over its batch is what is summed.
template <class Context>
inline constexpr bool is_one_sample = [] {
  if constexpr (batch_is_known<typename Context::Device::Arguments>)
    return Context::Device::Arguments::batch == 1;
  else
    return false;
}();

/// Whether a program lends kernels memory to work in that holds nothing meanwhile: of executors that take such, for
/// any batch.
template <class Device>
inline constexpr bool lends_workspace = requires(typename Device::Executor& executor) {
  requires !batch_is_known<typename Device::Arguments>;
  executor.lend_workspace();
};

/// In the place of a lambda in `gradients`: nothing flows to this operand.
struct NoGradient {};
inline constexpr NoGradient no_gradient{};

/// What `gradients` holds, `Count` functions: a tuple that costs the compiler next to nothing.
template <int Count, class First, class Second = NoGradient, class Third = NoGradient, class Fourth = NoGradient>
struct Gradients {
  static constexpr int count = Count;

  First first;
  Second second{};
  Third third{};
  Fourth fourth{};

  template <int I>
  constexpr const auto& of() const {
    if constexpr (I == 0)
      return first;
    else if constexpr (I == 1)
      return second;
    else if constexpr (I == 2)
      return third;
    else
      return fourth;
  }
};

/// The gradients of an operation's operands, one lambda each.
template <class... Functions>
constexpr auto gradients(Functions... functions) {
  return Gradients<sizeof...(Functions), Functions...>{functions...};
}

/// What is known of an operation on operands of given types; one constant a distinct combination.
template <class Context>
struct OperationInfo {
  using Device = typename Context::Device;
  using Lane = typename Device::Lane;

  const char* name;
  const void* identity;  ///< the same address for the same operation on the same types, whatever the context
  const TensorInfo* result;
  int operand_count;
  Kind kind;
  Algebra algebra;
  bool cheap;
  bool carries_epilogue;
  bool full_precision;
  KernelNumbers numbers;
  Cost flops;
  long scratch;                             ///< floats a worker
  long (*workspace)(long batch);            ///< floats that the workers share, or null: none that a program could lend
  Lane (*element)(Lane, Lane, Lane, Lane);  ///< kind element
  float (*fold)(float, float, float, float);  ///< the same on constants, or null
  typename Device::Kernel kernel;             ///< kind kernel
  void (*gradient)(Context&, const int* operands, int result, const bool* wanted, int* adjoint);
};

namespace detail {

template <class Op, class Lane>
constexpr Lane element_thunk(Lane a, Lane b, Lane c, Lane d) {
  (void)a, (void)b, (void)c, (void)d;
  if constexpr (requires { Op::element(a, b, c, d); })
    return Op::element(a, b, c, d);
  else if constexpr (requires { Op::element(a, b, c); })
    return Op::element(a, b, c);
  else if constexpr (requires { Op::element(a, b); })
    return Op::element(a, b);
  else
    return Op::element(a);
}

}  // namespace detail
}  // namespace tenet
