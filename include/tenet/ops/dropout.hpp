#pragma once

#include <cstdint>
#include <tenet/ops/arithmetic.hpp>

/// Dropout: elements set to zero at random, the others scaled so that the mean stays.
namespace tenet {
namespace ops {

/// 0 with probability p, else 1 / (1 - p): the same for the same seed, salt (the attribute) and element, on every
/// device.
template <class Target>
struct DropoutMask : KernelOperation {
  static constexpr const char* name = "dropout_mask";
  static constexpr bool full_precision = true;
  static constexpr Target result(auto, auto) { return {}; }
  static void run(auto& executor, const auto& arguments, auto, auto) {
    run_dropout_mask(executor, Target::size * (Target::batched ? arguments.batch : 1),
                     arguments.template operand<float>(1), arguments.template operand<std::int32_t>(0),
                     static_cast<std::uint32_t>(arguments.attribute), arguments.template result<float>());
  }
};

}  // namespace ops

/// x with each element set to zero with the given probability and the others divided by 1 - probability; x itself when
/// the context is not in training mode.
template <class Context, class Type>
constexpr auto dropout(Symbol<Context, Type> x, float probability) {
  if (!x.context->training()) return x;
  using Seed = TensorType<std::int32_t, false, 2>;
  const Symbol<Context, Seed> seed{x.context, x.context->seed()};
  const auto mask = apply_with<ops::DropoutMask<Type>>(x.context->next_salt(), seed, constant(x, probability));
  return x * mask;
}

}  // namespace tenet
