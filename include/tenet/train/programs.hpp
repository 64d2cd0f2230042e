#pragma once

#include <string>
#include <string_view>
#include <tenet/exec/execution.hpp>
#include <tenet/graph/backward.hpp>
#include <tenet/nn/loss.hpp>
#include <tenet/nn/module.hpp>
#include <tenet/ops/embedding.hpp>
#include <tenet/train/policies.hpp>

/// What is traced for each kind of run of a network: inference, evaluation, and the whole training step.
namespace tenet {

namespace detail {

/// The network's output type for an input of type Input.
template <class Net, class Input, class Context>
using OutputOf = typename decltype(call(std::declval<const Net&>(), std::declval<Symbol<Context, Input>>()))::Type;

/// What all programs of a network share: its slots, the context that traces it, and how a mistake in it is explained.
template <class Net, class Input_, class Kernels_>
struct NetworkProgram {
  using Kernels = Kernels_;
  using Input = Input_;
  using Context = Tracer<Kernels>;
  static constexpr const auto& slots = slot_table<Net>;
  static constexpr Text path_of_layer(int slot) { return layer_path<Net>(slot); }

  /// Traces with body(context, network, trace); what is common to all programs is done here.
  template <int Nodes, int OutputsOfSlot = 2, class Body>
  static constexpr auto trace_with(bool training, Body body) {
    Trace<Context, Nodes, OutputsOfSlot * slot_count<Net> + 8> trace;
    int table[2 * Nodes]{};
    int assigned[slot_count<Net> + 1]{};
    Context context(trace, table, assigned, training);
    const Net net = numbered<Net>();
    const auto output = [&](int node, Destination destination, int index) {
      trace.outputs[trace.output_count++] = {node, destination, index};
    };
    body(context, net, output);
    if (training)
      for (int slot = 0; slot < slot_count<Net>; ++slot)
        if (context.assigned(slot) >= 0) output(context.assigned(slot), Destination::buffer, slot);
    trace.count = context.count();
    if (trace.forward_count == 0) trace.forward_count = trace.count;
    trace.merged = context.merged();
    trace.simplified = context.simplified();
    trace.mistake = context.mistake();
    trace.overflow = context.overflow();
    if (trace.mistake.kind != Mistake::none) trace.count = trace.output_count = trace.forward_count = 0;
    return trace;
  }

  /// The struct that explains a mistake, with the layer's path; void where there is none.
  template <MistakeRecord record, class Instead = mistake::Nothing>
  static constexpr auto explanation() {
    if constexpr (record.kind == Mistake::none) {
      return std::type_identity<void>{};
    } else {
      constexpr Text path = layer_path<Net>(record.slot);
      return mistake::explanation<record.kind, fixed_string<path>(), record.expected, record.found, record.line,
                                  Instead>();
    }
  }
  template <MistakeRecord record>
  static constexpr bool explain() {
    return mistake::stop<typename decltype(explanation<record>())::type>();
  }
};

}  // namespace detail

/// Input -> output. `Within` is the context in which the operations stand. By itself, no gradient is traced: not one
/// operation of a backward pass is compiled. Beside a training step it is the step's context, `Tracer<Kernels>`, so
/// that the network's operations are compiled once for both.
template <class Net, class Input, class Kernels, class Within = typename Tracer<Kernels>::WithoutGradient>
struct InferenceProgram : detail::NetworkProgram<Net, Input, Kernels> {
  static constexpr const char* name = "inference";
  using Base = detail::NetworkProgram<Net, Input, Kernels>;
  using Output = detail::OutputOf<Net, Input, Within>;
  template <class Other>
  using For = InferenceProgram<Net, Input, Other>;

  template <int Nodes>
  static constexpr auto trace() {
    return Base::template trace_with<Nodes>(false, [](auto& context, const Net& net, auto output) {
      const auto trace_in = [&](auto& within) {
        const auto x = context.leaf(Source::input, Input::info, 0);
        output(call(net, Symbol<Within, Input>{&within, x}).id, Destination::result, 0);
      };
      if constexpr (std::is_same_v<Within, typename Base::Context>) {
        trace_in(context);
      } else {
        Within within{&context};
        trace_in(within);
      }
    });
  }
};

/// Input and target -> loss, and the metric where the loss has one. It stands beside a training step, in whose context
/// it is traced.
template <class Net, class Loss, class Input, class Kernels>
struct EvaluationProgram : detail::NetworkProgram<Net, Input, Kernels> {
  static constexpr const char* name = "evaluation";
  using Base = detail::NetworkProgram<Net, Input, Kernels>;
  using Context = typename Base::Context;
  using Output = detail::OutputOf<Net, Input, Context>;
  using Target = typename Loss::template Target<Output>;

  template <int Nodes>
  static constexpr auto trace() {
    return Base::template trace_with<Nodes>(false, [](Context& context, const Net& net, auto output) {
      const auto y = call(net, Symbol<Context, Input>{&context, context.leaf(Source::input, Input::info, 0)});
      const Symbol<Context, Target> target{&context, context.leaf(Source::input, Target::info, 1)};
      output(Loss::loss(y, target).id, Destination::result, 0);
      if constexpr (Loss::has_accuracy) output(Loss::metric(y, target).id, Destination::result, 1);
    });
  }
};

/// The optimizer's rule over all parameters as one vector: the end of a training step, and by itself what whoever owns
/// a part of the parameters does with the gradients that come to it.
template <class Net, class Optimizer, class Input, class Kernels>
struct UpdateProgram : detail::NetworkProgram<Net, Input, Kernels> {
  static constexpr const char* name = "update";
  using Base = detail::NetworkProgram<Net, Input, Kernels>;
  using Context = typename Base::Context;

  template <int Nodes>
  static constexpr auto trace() {
    return Base::template trace_with<Nodes>(
        false, [](Context& context, const Net&, const auto& output) { update_all(context, output); });
  }

 protected:
  /// What an update works on: all parameters, or those of a slot. State k has the index first + k · step.
  struct Part {
    Source state;
    Destination new_parameters, new_state;
    int first, step;
  };

  /// The optimizer's rule for parameters of type Type.
  template <class Type>
  static constexpr void update(Context& context, const auto& output, Part part, int parameters, int gradient) {
    using Within = typename Context::WithoutGradient;
    Within within{&context};
    std::array<Symbol<Within, Type>, Optimizer::state_count> state{};
    for (int k = 0; k < Optimizer::state_count; ++k)
      state[static_cast<std::size_t>(k)] = {&within, context.leaf(part.state, Type::info, part.first + k * part.step)};
    std::array<Symbol<Within, Scalar>, Optimizer::scalar_count> scalars{};
    for (int i = 0; i < Optimizer::scalar_count; ++i)
      scalars[static_cast<std::size_t>(i)] = {&within, context.scalar(i)};
    const auto updated = Optimizer::update(Symbol<Within, Type>{&within, parameters},
                                           Symbol<Within, Type>{&within, gradient}, state, scalars);
    output(updated[0].id, part.new_parameters, part.first);
    for (int k = 0; k < Optimizer::state_count; ++k)
      output(updated[static_cast<std::size_t>(k) + 1].id, part.new_state, part.first + k * part.step);
  }

  /// Over all parameters as one vector.
  static constexpr void update_all(Context& context, const auto& output) {
    using All = Fixed<static_cast<int>(Base::slots.parameter_floats)>;
    const int parameters = context.leaf(Source::parameters, All::info, 0);
    const int gradients = context.leaf(Source::gradients, All::info, 0);
    update<All>(context, output, {Source::state, Destination::parameters, Destination::state, 0, 1}, parameters,
                gradients);
  }
};

/// The whole training step: forward, backward, update, and the running statistics. `Update` says when parameters are
/// updated, `Memory` how much the activations may take.
template <class Net, class Loss, class Optimizer, class Input, class Kernels, class Update = UpdateAfterBackward,
          class Memory = MemoryUnbounded>
struct TrainingProgram : UpdateProgram<Net, Optimizer, Input, Kernels> {
  static constexpr const char* name = "training";
  using Base = UpdateProgram<Net, Optimizer, Input, Kernels>;
  using Context = typename Base::Context;
  using Output = detail::OutputOf<Net, Input, Context>;
  using Target = typename Loss::template Target<Output>;
  template <class Other>
  using For = TrainingProgram<Net, Loss, Optimizer, Input, Other, Update, Memory>;
  /// Its update by itself, for other kernels.
  template <class Other>
  using UpdateFor = UpdateProgram<Net, Optimizer, Input, Other>;
  static constexpr long memory_bound = Memory::memory_bound;

  template <int Nodes>
  static constexpr auto trace() {
    int forward_count = 0;
    constexpr int outputs_of_slot = 2 + Optimizer::state_count;
    const auto body = [&](Context& context, const Net& net, auto output) {
      const auto y = call(net, Symbol<Context, Input>{&context, context.leaf(Source::input, Input::info, 0)});
      const Symbol<Context, Target> target{&context, context.leaf(Source::input, Target::info, 1)};
      const auto loss = Loss::loss(y, target);
      output(loss.id, Destination::result, 0);
      if constexpr (Loss::has_accuracy) output(Loss::metric(y, target).id, Destination::result, 1);
      forward_count = context.count();
      if (context.mistake().kind != Mistake::none || context.overflow()) return;

      int adjoint[Nodes];
      for (int& id : adjoint) id = -1;
      if constexpr (Update::keeps_gradients) {
        backward(context, loss.id, adjoint);
        for (int i = 0; i < forward_count; ++i)
          if (context.node(i).source == Source::parameter && adjoint[i] >= 0)
            output(adjoint[i], Destination::gradient, context.node(i).index);
        if constexpr (Base::slots.table_count > 0) give_tables(context, output, adjoint, forward_count);
        if constexpr (Base::slots.parameter_floats > 0) Base::update_all(context, output);
      } else {
        backward(context, loss.id, adjoint, [&](int i) {
          const int slot = context.node(i).index;
          if (context.node(i).source == Source::parameter && adjoint[i] >= 0)
            update_of_slot<decltype(output)>[static_cast<std::size_t>(slot)](context, output, slot, i, adjoint[i]);
        });
      }
    };
    auto trace = Base::template trace_with<Nodes, outputs_of_slot>(true, body);
    if (trace.mistake.kind == Mistake::none) trace.forward_count = forward_count;
    return trace;
  }

 private:
  /// Of each sparse table the tokens, and the gradients of the rows that they choose: its update is no node of the
  /// graph, for what it does depends on the tokens. See exec/sparse_tables.hpp.
  static constexpr void give_tables(Context& context, const auto& output, const int* adjoint, int forward_count) {
    bool used[slot_count<Net> + 1]{};
    for (int i = 0; i < forward_count; ++i) {
      const auto& node = context.node(i);
      for (int j = 0; j < node.operand_count; ++j) {
        const auto& table = context.node(node.operands[j]);
        if (table.source != Source::parameter || !Base::slots.slots[table.index].sparse) continue;
        int tokens = node.operands[0];
        while (context.node(tokens).is(Kind::view)) tokens = context.operands(tokens)[0];
        if (std::string_view(node.operation->name) != ops::SparseEmbedding::name || used[table.index] ||
            context.node(tokens).source != Source::input || adjoint[i] < 0)
          return context.record({Mistake::sparse, table.index});
        used[table.index] = true;
        output(node.operands[0], Destination::table_tokens, table.index);
        output(adjoint[i], Destination::table_rows, table.index);
      }
    }
  }

  /// Over the parameter of one slot.
  template <class Type, class Emit>
  static constexpr void update_one(Context& context, const Emit& output, int slot, int parameter, int gradient) {
    Base::template update<Type>(
        context, output, {Source::slot_state, Destination::parameter, Destination::slot_state, slot, Base::slots.count},
        parameter, gradient);
  }
  template <class Emit>
  using UpdateOne = void (*)(Context&, const Emit&, int, int, int);
  template <class Emit, std::size_t Slot>
  static constexpr UpdateOne<Emit> update_of() {
    constexpr const SlotInfo& slot = Base::slots.slots[Slot];
    if constexpr (slot.kind == SlotKind::parameter) return &update_one<TypeOf<*slot.type>, Emit>;
    return nullptr;
  }
  /// For each slot its parameter's update, null where there is none: slots are chosen while the graph is traced.
  template <class Emit>
  static constexpr auto update_of_slot = []<std::size_t... S>(std::index_sequence<S...>) {
    return std::array<UpdateOne<Emit>, sizeof...(S)>{update_of<Emit, S>()...};
  }(std::make_index_sequence<static_cast<std::size_t>(Base::slots.count)>{});
};

namespace detail {

template <class Definition, class Instead>
constexpr auto trace_explanation() {
  return Definition::template explanation<trace_of<Definition>.mistake, Instead>();
}

/// The struct that explains why a network cannot be traced at all, or void.
template <class Net, class Instead>
constexpr auto module_explanation() {
  if constexpr (!Complete<Net>)
    return std::type_identity<mistake::NetworkIncomplete<Net, Instead>>{};
  else if constexpr (!IsModule<Net>)
    return std::type_identity<mistake::ForwardMissing<Net, Instead>>{};
  else if constexpr (SaidUnsound<Net>)
    return std::type_identity<Instead>{};
  else if constexpr (!MadeAtCompileTime<Net>)
    return std::type_identity<mistake::NotMadeAtCompileTime<Net, Instead>>{};
  else
    return std::type_identity<void>{};
}

template <class Definition>
concept Traceable = requires {
  typename std::bool_constant<(static_cast<void>(Definition::template trace<128 + 16 * Definition::slots.count>()),
                               true)>;
};

/// The struct that explains why a network cannot be run, or void.
template <class Net, class Inference, class Instead>
constexpr auto inference_explanation() {
  if constexpr (!std::is_void_v<typename decltype(module_explanation<Net, Instead>())::type>)
    return module_explanation<Net, Instead>();
  else if constexpr (!Traceable<Inference>)
    return std::type_identity<mistake::ForwardNotConstant<Net, Instead>>{};
  else
    return trace_explanation<Inference, Instead>();
}

template <class Loss>
concept IsLoss = requires { Loss::has_accuracy; };
template <class Optimizer>
concept IsOptimizer = requires { Optimizer::state_count; };
template <class Optimizer>
concept NeedsAllGradients = requires { requires Optimizer::needs_all_gradients; };
template <class Loss>
concept SaysWhatFits = requires { Loss::template fits<Batched<1>>; };

template <class Loss, class Output>
constexpr bool loss_fits() {
  if constexpr (SaysWhatFits<Loss>)
    return Loss::template fits<Output>;
  else
    return true;
}

/// The struct that explains why a network cannot be trained, or void.
template <class Net, class Loss, class Optimizer, class Input, class Kernels, class Instead>
constexpr auto training_explanation() {
  // A mistake inside the network comes first: that the loss does not fit may be its consequence.
  using Inference = InferenceProgram<Net, Input, Kernels, Tracer<Kernels>>;
  using Inside = typename decltype(inference_explanation<Net, Inference, Instead>())::type;
  if constexpr (!std::is_void_v<Inside>) {
    return std::type_identity<Inside>{};
  } else {
    using Output = OutputOf<Net, Input, Tracer<Kernels>>;
    if constexpr (!loss_fits<Loss, Output>()) {
      using Shape = typename mistake::Tagged<mistake::Found, Output::info>::type;
      return std::type_identity<mistake::LossDoesNotFit<mistake::With<Loss>, Shape, Instead>>{};
    } else {
      return trace_explanation<TrainingProgram<Net, Loss, Optimizer, Input, Kernels>, Instead>();
    }
  }
}

/// Result, or the struct that explains why a network cannot be run for these tags; it derives from Instead.
template <class Result, class Instead, class Net, class... Tags>
constexpr auto unless_broken() {
  using Chosen = Policies<Tags...>;
  using Wrong = typename decltype(Chosen::template explanation<Instead>())::type;
  if constexpr (!std::is_void_v<Wrong>) {
    return std::type_identity<Wrong>{};
  } else {
    using Inference = InferenceProgram<Net, typename Chosen::Input, typename Chosen::Kernels>;
    using Broken = typename decltype(inference_explanation<Net, Inference, Instead>())::type;
    return std::type_identity<std::conditional_t<std::is_void_v<Broken>, Result, Broken>>{};
  }
}

/// The trainer, or the struct that explains that its step takes more memory than `bound`.
template <class Made, class Instead, long bound>
constexpr auto bounded() {
  constexpr BoundedMemory found = Made::Training::bounded.second;
  using TooSmall = mistake::MemoryBoundTooSmall<mistake::Bytes<bound>, mistake::Least<found.least_bytes>, Instead>;
  return std::type_identity<std::conditional_t<found.holds, Made, TooSmall>>{};
}

/// The struct that explains why a network cannot be run for these tags, or void: for functions about a network.
template <class Net, class... Tags>
using BrokenBy = typename decltype(unless_broken<void, mistake::Nothing, Net, Tags...>())::type;

}  // namespace detail
}  // namespace tenet
