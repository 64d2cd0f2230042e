#pragma once

#include <tenet/ops/mistake.hpp>
#include <tenet/ops/operation.hpp>

namespace tenet {

/// Operations inside a gradient: they are traced (or run) like others, but are not differentiated once more.
template <class Context>
struct WithoutGradientContext {
  using Base = Context;
  using Device = typename Context::Device;
  using WithoutGradient = WithoutGradientContext;
  static constexpr bool differentiable = false;
  static constexpr bool records_mistakes = Context::records_mistakes;
  static constexpr bool holds_values = Context::holds_values;

  Context* base = nullptr;

  constexpr int emit(const OperationInfo<Context>& info, const int* operands, int attribute) {
    return base->emit(info, operands, attribute);
  }
  constexpr int constant(float value) { return base->constant(value); }
  constexpr int reciprocal_count(int per_sample) { return base->reciprocal_count(per_sample); }
  constexpr int scalar(int index) { return base->scalar(index); }
  constexpr int seed() { return base->seed(); }
  constexpr int next_salt() { return base->next_salt(); }
  constexpr int parameter(int slot, const TensorInfo& type) { return base->parameter(slot, type); }
  constexpr int buffer(int slot, const TensorInfo& type) { return base->buffer(slot, type); }
  constexpr void assign(int slot, int node) { base->assign(slot, node); }
  constexpr bool training() const { return base->training(); }
  constexpr void visit(int slot, int line) { base->visit(slot, line); }
  constexpr void record(MistakeRecord mistake) { base->record(mistake); }
  template <class Element>
  auto values(int id) const {
    return base->template values<Element>(id);
  }
};

}  // namespace tenet
