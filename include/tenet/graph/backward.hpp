#pragma once

#include <tenet/core/same_address.hpp>
#include <tenet/ops/operation.hpp>

namespace tenet {

/// Reverse-mode differentiation, for the graph and for the eager tape alike.
///
/// adjoint[i] becomes the id of d loss / d (value i), or -1 where there is none. Values are visited from the loss back;
/// each operation on the way gives the gradients of those operands behind which a parameter stands, and what meets at a
/// value is added. Dead gradients are never computed. `adjoint` has room for the ids 0 … loss, and starts at -1.
/// reached(i) is called for each value when its gradient is complete, and nothing behind it has been visited yet.
template <class Context, class Reached>
constexpr void backward(Context& context, int loss, int* adjoint, Reached&& reached) {
  adjoint[loss] = context.constant(1.0f);
  for (int i = loss; i >= 0; --i) {
    reached(i);
    const OperationInfo<Context>* const operation = context.operation(i);
    if (adjoint[i] < 0 || is_null(operation) || is_null(operation->gradient)) continue;
    bool wanted[max_operands]{};
    bool any = false;
    for (int j = 0; j < operation->operand_count; ++j) {
      wanted[j] = context.needs_gradient(context.operands(i)[j]);
      any = any || wanted[j];
    }
    if (!any) continue;
    if constexpr (requires { context.return_to_layer_of(i); }) context.return_to_layer_of(i);
    operation->gradient(context, context.operands(i), i, wanted, adjoint);
  }
}

template <class Context>
constexpr void backward(Context& context, int loss, int* adjoint) {
  backward(context, loss, adjoint, [](int) {});
}

}  // namespace tenet
