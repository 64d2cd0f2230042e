#pragma once

#include <cstring>
#include <span>
#include <string>
#include <tenet/core/buffer.hpp>
#include <tenet/core/error.hpp>
#include <tenet/device/arguments.hpp>
#include <tenet/device/element.hpp>
#include <tenet/graph/backward.hpp>
#include <tenet/graph/node.hpp>
#include <tenet/graph/without_gradient.hpp>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/two_devices.hpp>
#include <tuple>
#include <vector>

namespace tenet {

/// The context of imperative mode: every operation runs at once, and is written on a tape for the gradients.
///
/// Values live in memory of the tape until `clear`, which keeps the memory for the next round. All batched values of a
/// tape have the same batch. The device is part of a value's type, so that values of two do not meet unnoticed.
template <class LogicalDevice_>
class Eager {
 public:
  using LogicalDevice = LogicalDevice_;
  using Kernels = typename LogicalDevice::Kernels;
  using Device = Kernels;  ///< what operations know of it
  using Base = Eager;
  using Executor = typename Kernels::Executor;
  using Info = OperationInfo<Eager>;
  using WithoutGradient = WithoutGradientContext<Eager>;
  static constexpr bool differentiable = true;
  static constexpr bool records_mistakes = false;
  static constexpr bool holds_values = true;

  /// Where the parameters and buffers of slot i are; null without a network.
  using FindSlot = float* (*)(void* owner, int slot);

  Eager(Executor& executor, void* owner = nullptr, FindSlot find_slot = nullptr, int slots = 0)
      : executor_(&executor), owner_(owner), find_slot_(find_slot), parameter_(static_cast<std::size_t>(slots), -1) {
    tape_.reserve(256);
  }
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  /// A copy of real numbers as a tensor. Throws `Error` for a batch that differs from that of the tape.
  template <class Type>
  Symbol<Eager, Type> tensor(const typename Type::Element* values, int batch = 1, bool requires_grad = false) {
    if constexpr (Type::batched) use_batch(batch);
    const int id = leaf(Source::input, Type::info, 0, requires_grad);
    std::memcpy(entry(id).data, values, static_cast<std::size_t>(entry(id).count) * sizeof(float));
    return {this, id};
  }

  /// A copy of a tensor of another device, or of another tape. It is a number given from outside: no gradient goes
  /// back through it, as `backward` knows one tape only.
  template <class Other, class Type>
    requires(Other::holds_values)
  Symbol<Eager, Type> tensor(Symbol<Other, Type> x, bool requires_grad = false) {
    const auto values = x.values();
    const int batch = Type::batched ? static_cast<int>(static_cast<long>(values.size()) / Type::size) : 1;
    return tensor<Type>(values.data(), batch, requires_grad);
  }

  /// Differentiates a number with respect to all parameters, and all tensors that require gradients.
  template <class Context>
    requires std::is_same_v<typename Context::Base, Eager>
  void backward(Symbol<Context, Scalar> loss) {
    if constexpr (std::is_same_v<Context, Eager>)
      if (loss.context != this) detail::fail_of_two_tapes("backward");
    adjoint_.assign(tape_.size(), -1);
    tenet::backward(*this, loss.id, adjoint_.data());
  }

  /// The gradient of a value after `backward`; empty where none reached it.
  template <class Type>
  std::span<const float> gradient(Symbol<Eager, Type> x) const {
    if (x.context != this) detail::fail_of_two_tapes("gradient");
    return gradient(x.id);
  }
  std::span<const float> gradient_of_parameter(int slot) const {
    return gradient(parameter_[static_cast<std::size_t>(slot)]);
  }

  /// Forgets all values; symbols made before are void.
  void clear() {
    tape_.clear();
    adjoint_.clear();
    for (int& id : parameter_) id = -1;
    for (Chunk& chunk : chunks_) chunk.used = 0;
    chunk_ = 0;
    batch_ = 0;
    salt_ = 0;
  }

  void set_training(bool training) { training_ = training; }
  void set_seed(std::uint64_t seed) { seed_ = seed; }
  int batch() const { return batch_ > 0 ? batch_ : 1; }

  // What operations and layers ask of a context.
  int emit(const Info& info, const int* operands, int attribute) {
    bool needs_gradient = false;
    for (int i = 0; i < info.operand_count; ++i) needs_gradient = needs_gradient || entry(operands[i]).needs_gradient;
    Entry made;
    made.operation = &info;
    made.type = info.result;
    made.needs_gradient = needs_gradient;
    made.count = info.result->size(batch());
    for (int i = 0; i < info.operand_count; ++i) made.operands[i] = operands[i];
    if (info.kind == Kind::view) {
      made.data = entry(operands[0]).data;
    } else {
      made.data = take(made.count);
      typename Kernels::Arguments arguments;
      for (int i = 0; i < info.operand_count; ++i) arguments.operands[i] = entry(operands[i]).data;
      arguments.written = made.data;
      arguments.batch = batch();
      arguments.attribute = attribute;
      if constexpr (requires { executor_->reserve_scratch(info.scratch); })
        if (info.scratch > 0) executor_->reserve_scratch(info.scratch);
      info.kernel(*executor_, arguments);
    }
    tape_.push_back(made);
    return static_cast<int>(tape_.size()) - 1;
  }

  int constant(float value) {
    const int id = leaf(Source::constant, Scalar::info, 0, false);
    *entry(id).data = value;
    return id;
  }
  int reciprocal_count(int per_sample) {
    return constant(static_cast<float>(1.0 / (static_cast<double>(batch()) * per_sample)));
  }
  int seed() {
    const int id = leaf(Source::seed, TensorType<std::int32_t, false, 2>::info, 0, false);
    std::memcpy(entry(id).data, &seed_, sizeof seed_);
    return id;
  }
  int parameter(int slot, const TensorInfo& type) {
    int& id = parameter_[static_cast<std::size_t>(slot)];
    if (id < 0) id = outside(Source::parameter, type, slot, true);
    return id;
  }
  int buffer(int slot, const TensorInfo& type) { return outside(Source::buffer, type, slot, false); }
  /// A buffer gets its new value at once.
  void assign(int slot, int value) {
    std::memcpy(find_slot_(owner_, slot), entry(value).data,
                static_cast<std::size_t>(entry(value).count) * sizeof(float));
  }
  bool training() const { return training_; }
  int next_salt() { return salt_++; }
  void visit(int, int) {}

  // What `backward` asks of a context.
  const Info* operation(int id) const { return entry(id).operation; }
  const int* operands(int id) const { return entry(id).operands; }
  bool needs_gradient(int id) const { return entry(id).needs_gradient; }

  template <class Element>
  std::span<const Element> values(int id) const {
    return {reinterpret_cast<const Element*>(entry(id).data), static_cast<std::size_t>(entry(id).count)};
  }

  /// The kernel of an element-wise operation or a sum that runs alone: a region of that one operation.
  template <class Op, class Result, class... Operands>
  static constexpr
      typename Kernels::Kernel run_alone = [](Executor& executor, const typename Kernels::Arguments& given) {
        constexpr Access accesses[]{
            access_of(Op::kind == Kind::element ? Result::info : Operands::info, Operands::info)...};
        constexpr TensorInfo from = std::tuple_element_t<0, std::tuple<Operands...>>::info;  // what a sum reads
        constexpr Access sum = access_of(from, Result::info);
        constexpr Role role = Op::kind == Kind::element         ? Role::store
                              : sum.inner == 1 && sum.count > 1 ? Role::sum_rows
                                                                : Role::sum;
        constexpr Wiring wiring = [&] {
          Wiring made;
          made.inputs = sizeof...(Operands);
          made.outputs = 1;
          for (int k = 0; k < made.inputs; ++k) made.uniform[k] = accesses[k].uniform();
          if (Op::kind == Kind::element) {
            made.operations = 1;
            for (int k = 0; k < 4; ++k) made.source[0][k] = static_cast<signed char>(k < made.inputs ? k : 0);
          } else {
            made.output[0] = -1;
          }
          return made;
        }();
        constexpr long block = [&] {
          long result = role == Role::store ? 0 : sum.block();
          for (const Access& access : accesses) result = greatest_common_divisor(access.block(), result);
          return result;
        }();
        ElementArguments arguments;
        for (int k = 0; k < wiring.inputs; ++k)
          arguments.inputs[k] = ElementArguments::bind(given.template operand<float>(k), accesses[k], given.batch);
        arguments.outputs[0] = given.template result<float>();
        if constexpr (Op::kind == Kind::element) {
          arguments.total = Result::size * (Result::batched ? given.batch : 1);
          arguments.block = block > 0 ? block : arguments.total;
          run_element(executor,
                      Kernels::template element_range<role, wiring, &detail::element_thunk<Op, typename Kernels::Lane>>,
                      arguments);
        } else {
          arguments.total = from.size(given.batch);
          arguments.block = block > 0 ? block : arguments.total;
          run_reduce(executor, role, Kernels::template element_range<role, wiring>, arguments, sum.inner,
                     sum.count * (sum.batched ? given.batch : 1), given.template result<float>(), given.epilogue);
        }
      };

 private:
  struct Entry {
    const Info* operation = nullptr;
    const TensorInfo* type = nullptr;
    float* data = nullptr;
    long count = 0;
    int operands[max_operands]{};
    bool needs_gradient = false;
  };
  struct Chunk {
    Buffer memory;
    long used = 0;
  };

  Entry& entry(int id) { return tape_[static_cast<std::size_t>(id)]; }
  const Entry& entry(int id) const { return tape_[static_cast<std::size_t>(id)]; }

  void use_batch(int batch) {
    if (batch <= 0) fail("tensor", "batch", "at least one sample", std::to_string(batch));
    if (batch_ > 0 && batch != batch_)
      fail("tensor", "batch differs from that of the other tensors", std::to_string(batch_) + " (or clear() first)",
           std::to_string(batch));
    batch_ = batch;
  }

  int leaf(Source, const TensorInfo& type, int, bool needs_gradient) {
    Entry made;
    made.type = &type;
    made.needs_gradient = needs_gradient;
    made.count = type.size(batch());
    made.data = take(made.count);
    tape_.push_back(made);
    return static_cast<int>(tape_.size()) - 1;
  }

  /// Numbers that belong to the network.
  int outside(Source, const TensorInfo& type, int slot, bool needs_gradient) {
    Entry made;
    made.type = &type;
    made.needs_gradient = needs_gradient;
    made.count = type.size();
    made.data = find_slot_(owner_, slot);
    tape_.push_back(made);
    return static_cast<int>(tape_.size()) - 1;
  }

  std::span<const float> gradient(int id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= adjoint_.size() || adjoint_[static_cast<std::size_t>(id)] < 0)
      return {};
    return values<float>(adjoint_[static_cast<std::size_t>(id)]);
  }

  /// Memory for some floats, from the first chunk with room; chunks double.
  float* take(long floats) {
    floats = (floats + 15) / 16 * 16;
    while (chunk_ < chunks_.size() && chunks_[chunk_].used + floats > chunks_[chunk_].memory.size()) ++chunk_;
    if (chunk_ == chunks_.size()) {
      const long previous = chunks_.empty() ? 1 << 14 : chunks_.back().memory.size();
      chunks_.push_back({Buffer(2 * previous > floats ? 2 * previous : floats), 0});
    }
    Chunk& chunk = chunks_[chunk_];
    float* const result = chunk.memory.data() + chunk.used;
    chunk.used += floats;
    return result;
  }

  Executor* executor_;
  void* owner_;
  FindSlot find_slot_;
  std::vector<Entry> tape_;
  std::vector<int> adjoint_, parameter_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  int batch_ = 0, salt_ = 0;
  bool training_ = true;
  std::uint64_t seed_ = 0;
};

/// A real tensor as text: shape and values, the middle of long ones left out.
template <class Context, class Type>
  requires(Context::holds_values)
std::string to_string(Symbol<Context, Type> x) {
  const auto values = x.values();
  std::string result = "tensor(";
  if (Type::batched) result += std::to_string(x.values().size() / static_cast<std::size_t>(Type::size));
  for (int i = 0; i < Type::rank; ++i)
    result += (i > 0 || Type::batched ? " x " : "") + std::to_string(Type::info.extents[i]);
  result += Type::rank == 0 && !Type::batched ? "" : "; ";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values.size() > 12 && i == 6) {
      result += ", …";
      i = values.size() - 3;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%s%.6g", i > 0 ? ", " : "", static_cast<double>(values[i]));
    result += text;
  }
  return result + ")";
}

/// Prints a real tensor to any stream.
template <class Stream, class Context, class Type>
  requires(Context::holds_values)
Stream& operator<<(Stream& stream, Symbol<Context, Type> x) {
  stream << to_string(x);
  return stream;
}

}  // namespace tenet
