#pragma once

#include <tenet/core/error.hpp>
#include <tenet/core/span.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/ops/operation.hpp>

namespace tenet {

namespace ops {
struct Add;
}

namespace detail {

/// The type of an element-wise result of the operands; `rank` is -1 where they do not fit.
constexpr TensorInfo broadcast_all(std::initializer_list<TensorInfo> operands) {
  TensorInfo result = *operands.begin();
  for (const TensorInfo& operand : operands) result = result.rank < 0 ? result : broadcast(result, operand);
  return result;
}

template <class Op, class... Operands>
constexpr auto result_of() {
  if constexpr (requires { Op::result(Operands{}...); })
    return Op::result(Operands{}...);
  else
    return TypeOf<broadcast_all({Operands::info...})>{};
}

template <class Op, class Y, class... X>
concept HasGradient = requires(Y y, X... x) { Op::gradient(y, y, x...); };

}  // namespace detail

/// An operation on operands of given types: the node of the expression template.
template <class Op, class... Operands>
struct Instance {
  using Result = decltype(detail::result_of<Op, Operands...>());
  static constexpr int operand_count = sizeof...(Operands);
  static_assert(operand_count <= max_operands, "an operation has at most four operands");

  static constexpr char identity = 0;

  static constexpr Cost flops() {
    if constexpr (requires { Op::flops(Result{}, Operands{}...); })
      return Op::flops(Result{}, Operands{}...);
    else if constexpr (Op::kind == Kind::element)
      return Result::batched ? Cost{Result::size, 0} : Cost{0, Result::size};
    else
      return {};
  }

  template <class Device>
  static constexpr long scratch() {
    using Executor = typename Device::Executor;
    constexpr Executor* executor = nullptr;
    if constexpr (requires { Op::template scratch<typename Device::Arguments>(executor, Operands{}...); })
      return Op::template scratch<typename Device::Arguments>(executor, Operands{}...);
    else if constexpr (requires { Op::scratch(executor, Operands{}...); })
      return Op::scratch(executor, Operands{}...);
    else
      return 0;
  }

  template <class Device>
  static long workspace_floats(long batch) {
    return Op::template workspace<typename Device::Arguments>(static_cast<const typename Device::Executor*>(nullptr),
                                                              batch, Operands{}...);
  }
  template <class Device>
  static constexpr auto workspace() -> long (*)(long) {
    if constexpr (lends_workspace<Device>)
      if constexpr (requires(const typename Device::Executor* executor) {
                      Op::template workspace<typename Device::Arguments>(executor, 1L, Operands{}...);
                    })
        return &workspace_floats<Device>;
    return nullptr;
  }

  template <class Device>
  static constexpr KernelNumbers numbers() {
    using Executor = typename Device::Executor;
    using Arguments = typename Device::Arguments;
    if constexpr (requires { Op::template numbers<Executor, Arguments>(Operands{}...); })
      return Op::template numbers<Executor, Arguments>(Operands{}...);
    else
      return {};
  }

  template <class Device>
  static void run(typename Device::Executor& executor, const typename Device::Arguments& arguments) {
    Op::run(without_row(executor), arguments, Operands{}...);
  }
  /// Outside of programs.
  template <class Device>
  static void run_in_order_of_types(typename Device::Executor& executor, const typename Device::Arguments& arguments) {
    Op::run(without_row(executor), InOrderOfTypes<typename Device::Arguments>{arguments}, Operands{}...);
  }

  /// Evaluates the wanted gradients of the operands and adds them to the operands' adjoints (ids, -1 where there is
  /// none yet). What is computed on the way is not differentiated once more.
  template <class Context>
  static constexpr void gradient(Context& context, const int* operands, int result, const bool* wanted, int* adjoint) {
    using Within = typename Context::WithoutGradient;
    Within within{&context};
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const auto functions =
          Op::gradient(Symbol<Within, Result>{&within, result}, Symbol<Within, Result>{&within, adjoint[result]},
                       Symbol<Within, Operands>{&within, operands[I]}...);
      static_assert(
          std::decay_t<decltype(functions)>::count == operand_count,
          "gradient(result, upstream, operands...): give gradients() one lambda for each operand, or no_gradient");
      (add_gradient<Operands>(within, functions.template of<I>(), wanted[I], adjoint[operands[I]]), ...);
    }(std::make_integer_sequence<int, operand_count>{});
  }

  template <class Operand, class Within, class Function>
  static constexpr void add_gradient(Within& within, const Function& function, bool wanted, int& adjoint) {
    if constexpr (!std::is_same_v<Function, NoGradient>)
      if (wanted) {
        const Symbol<Within, Operand> found = sum_to<Operand>(function());
        adjoint = adjoint < 0 ? found.id : apply<ops::Add>(Symbol<Within, Operand>{&within, adjoint}, found).id;
      }
  }

  template <class Context>
  static constexpr auto gradient_pointer() -> decltype(OperationInfo<typename Context::Base>::gradient) {
    if constexpr (Context::differentiable)
      if constexpr (detail::HasGradient<Op, Symbol<typename Context::WithoutGradient, Result>,
                                        Symbol<typename Context::WithoutGradient, Operands>...>)
        return &gradient<typename Context::Base>;
    return nullptr;
  }

  template <class Context>
  static constexpr auto make_info() {
    using Device = typename Context::Device;
    OperationInfo<typename Context::Base> made{};
    made.name = Op::name;
    made.identity = &identity;
    made.result = &Result::info;
    made.operand_count = operand_count;
    made.kind = Op::kind;
    made.algebra = Op::algebra;
    if constexpr (requires { Op::cheap; }) made.cheap = Op::cheap;
    if constexpr (requires { Op::carries_epilogue; }) made.carries_epilogue = Op::carries_epilogue;
    if constexpr (requires { Op::full_precision; }) made.full_precision = Op::full_precision;
    made.flops = flops();
    made.scratch = scratch<Device>();
    made.workspace = workspace<Device>();
    if constexpr (Op::kind == Kind::element) {
      made.element = &detail::element_thunk<Op, typename Device::Lane>;
      if constexpr (Op::foldable) made.fold = &detail::element_thunk<Op, float>;
    }
    if constexpr (Op::kind == Kind::kernel) made.numbers = numbers<Device>();
    if constexpr (Op::kind == Kind::kernel && Context::holds_values && numbers<Device>().turned != Turned::nothing)
      made.kernel = &run_in_order_of_types<Device>;
    else if constexpr (Op::kind == Kind::kernel)
      made.kernel = &run<Device>;
    else if constexpr (Context::holds_values && Op::kind != Kind::view)  // run alone, as it comes
      made.kernel = Context::Base::template run_alone<Op, Result, Operands...>;
    made.gradient = gradient_pointer<Context>();
    return made;
  }

  template <class Context>
  static constexpr auto info = make_info<Context>();
};

namespace detail {
/// Ids are places on one tape: on another they would name other tensors.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_of_two_tapes(const char* where) {
  fail(where, "tensors of two tapes", "tensors of one Imperative (copy one to it by its tensor(x))",
       "one that another Imperative made");
}
}  // namespace detail

/// Applies an operation to symbols. `attribute` is a number that the kernel sees at run time.
template <class Op, class Context, class... Types>
constexpr auto apply_with(int attribute, Symbol<Context, Types>... operands) {
  using Node = Instance<Op, Types...>;
  Context* const contexts[]{operands.context...};
  if constexpr (Context::holds_values)
    if (((operands.context != contexts[0]) || ...)) detail::fail_of_two_tapes(Op::name);
  const int ids[]{operands.id...};
  return Symbol<Context, typename Node::Result>{contexts[0],
                                                contexts[0]->emit(Node::template info<Context>, ids, attribute)};
}

template <class Op, class... Symbols>
constexpr auto apply(Symbols... operands) {
  return apply_with<Op>(0, operands...);
}

namespace detail {
/// An operand that can be read by a result of type Target: itself, or a copy if its extents do not stand side by side.
template <class Target, class Context, class Type>
constexpr auto spread(Symbol<Context, Type> operand) {
  if constexpr (access_of(Target::info, Type::info).regular)
    return operand;
  else
    return expand_to<Target>(operand);
}
}  // namespace detail

/// Applies an element-wise operation whose operands may have to be broadcast; reports shapes that do not fit.
template <class Op, class Context, class... Types>
constexpr auto apply_broadcast(int line, Symbol<Context, Types>... operands) {
  constexpr TensorInfo result = detail::broadcast_all({Types::info...});
  if constexpr (result.rank < 0) {
    using First = std::tuple_element_t<0, std::tuple<Types...>>;
    using Second = std::tuple_element_t<1, std::tuple<Types...>>;
    const auto first = [](auto operand, auto...) { return operand; }(operands...);
    mistake::report<Mistake::broadcast, First::info, Second::info>(first.context, -1, line);
    return first;
  } else {
    return apply<Op>(detail::spread<TypeOf<result>>(operands)...);
  }
}

}  // namespace tenet
