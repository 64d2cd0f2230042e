#pragma once

#include <tenet/device/cpu.hpp>
#include <tenet/exec/eager.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/train/weights.hpp>

namespace tenet {

/// A network in imperative mode: the same `forward` on real tensors, line by line.
///
///     Imperative<LeNet> net;
///     auto x = net.tensor<Image<1, 28, 28>>(pixels, batch);
///     auto scores = net(x);  // every operation has run; scores may be printed and branched on
///     auto loss = cross_entropy(scores, net.tensor<BatchedInt<>>(labels, batch));
///     net.backward(loss);    // by the tape; then net.gradient("0.weight")
///     net.step(optimizer);   // the same update rule as the compiled step; clears the tape
template <class Net, class Device = Cpu<>>
class Imperative {
 public:
  using Kernels = typename Device::Kernels;
  static_assert(!HasOwnMemory<typename Kernels::Executor>,
                "Imperative<net, device>: a device that reads the host's memory, Cpu<> or Reference");
  using Context = Eager<Device>;
  static constexpr const auto& table = slot_table<Net>;
  static constexpr bool has_dense_tables = table.table_count == 0;

  explicit Imperative(std::uint64_t seed = 0)
      : seed_(seed),
        executor_(make_executor<Device>()),
        weights_(seed),
        gradients_(table.parameter_floats),
        context_(*executor_, this, &find_slot, table.count) {
    clear();  // seeds the first tape, as those of later steps
  }

  /// A copy of real numbers as a tensor.
  template <class Type>
  Symbol<Context, Type> tensor(const typename Type::Element* values, int batch = 1, bool requires_grad = false) {
    return context_.template tensor<Type>(values, batch, requires_grad);
  }

  /// A copy of a tensor of another device, or of another Imperative. No gradient goes back through it: with
  /// `requires_grad` it has one of its own, which may be handed on.
  template <class Other, class Type>
  Symbol<Context, Type> tensor(Symbol<Other, Type> x, bool requires_grad = false) {
    return context_.tensor(x, requires_grad);
  }

  /// Runs the network on a tensor.
  template <class Type>
  auto operator()(Symbol<Context, Type> x) {
    if (x.context != &context_) detail::fail_of_two_tapes("Imperative");
    return call(net_, x);
  }
  /// Of another device it does not compile, and neither does a loss.
  template <AnySymbol X>
    requires mistake::OfTwoDevices<Symbol<Context, Scalar>, X>
  mistake::TwoDevices<Symbol<Context, typename X::Type>, X> operator()(X);

  /// Differentiates a number with respect to all parameters.
  void backward(Symbol<Context, Scalar> loss) {
    context_.backward(loss);
    std::memset(gradients_.data(), 0, static_cast<std::size_t>(gradients_.size()) * sizeof(float));
    for (int i = 0; i < table.count; ++i) {
      if (table.slots[i].kind != SlotKind::parameter) continue;
      const auto found = context_.gradient_of_parameter(i);
      if (!found.empty())
        std::memcpy(gradients_.data() + table.slots[i].offset, found.data(), found.size() * sizeof(float));
    }
  }

  template <AnySymbol Loss>
    requires mistake::OfTwoDevices<Symbol<Context, Scalar>, Loss>
  mistake::TwoDevices<Symbol<Context, Scalar>, Loss> backward(Loss);

  /// Updates the parameters from the gradients of `backward`, and clears the tape. Not for sparse tables.
  template <class Optimizer>
  void step(const Optimizer& optimizer) {
    static_assert(
        has_dense_tables,
        "Imperative::step updates whole tables: train Embedding<..., Sparse> by a Trainer, or leave Sparse out");
    using All = Fixed<static_cast<int>(table.parameter_floats)>;
    states_.grow(Optimizer::state_count * table.parameter_floats);
    weights_.count_step();
    clear();
    const auto vector = [&](const float* values) { return context_.template tensor<All>(values); };
    std::array<Symbol<Context, All>, Optimizer::state_count> state{};
    for (int i = 0; i < Optimizer::state_count; ++i)
      state[static_cast<std::size_t>(i)] = vector(states_.data() + i * table.parameter_floats);
    std::array<Symbol<Context, Scalar>, Optimizer::scalar_count> scalars{};
    const auto numbers = optimizer.scalars(weights_.steps());
    for (std::size_t i = 0; i < numbers.size(); ++i) scalars[i] = {&context_, context_.constant(numbers[i])};
    const auto updated = Optimizer::update(vector(weights_.parameters()), vector(gradients_.data()), state, scalars);
    const auto keep = [](const auto& from, float* to) {
      std::memcpy(to, from.values().data(), from.values().size() * sizeof(float));
    };
    keep(updated[0], weights_.parameters());
    for (int i = 0; i < Optimizer::state_count; ++i)
      keep(updated[static_cast<std::size_t>(i) + 1], states_.data() + i * table.parameter_floats);
    clear();
  }

  /// Forgets all tensors; those made before are void.
  void clear() {
    context_.clear();
    context_.set_seed(seed_ * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(weights_.steps() + 1));
  }

  /// Training mode (the default) or evaluation mode, for dropout and batch norm.
  void train(bool training = true) { context_.set_training(training); }
  void eval() { train(false); }

  const Net& network() const { return net_; }
  Context& context() { return context_; }
  Weights<Net>& weights() { return weights_; }
  /// The gradient of one parameter, by its name, as the last `backward` found it.
  std::span<const float> gradient(const std::string& name) const {
    return Weights<Net>::part_of(gradients_.data(), name);
  }
  /// All of them, one after the other as the parameters lie.
  const float* gradients() const { return gradients_.data(); }

 private:
  static float* find_slot(void* self, int slot) {
    auto& owner = *static_cast<Imperative*>(self);
    const SlotInfo& info = table.slots[slot];
    return (info.kind == SlotKind::parameter ? owner.weights_.parameters() : owner.weights_.buffers()) + info.offset;
  }

  static constexpr Net net_ = numbered<Net>();
  std::uint64_t seed_;
  std::unique_ptr<typename Kernels::Executor> executor_;
  Weights<Net> weights_;
  Buffer gradients_, states_;
  Context context_;
};

}  // namespace tenet
