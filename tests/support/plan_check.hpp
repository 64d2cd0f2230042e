#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <tenet/tenet.hpp>
#include <vector>

/// The laws of schedules and memory plans, checked by acting a program out: each step reads its inputs and writes its
/// results in a shadow of the arenas that knows whose numbers lie where.
namespace law {

template <class Program>
class ShadowRun {
 public:
  static constexpr auto& graph = Program::graph;
  static constexpr auto& fusion = Program::fusion;
  static constexpr auto& order = Program::order;
  static constexpr auto& plan = Program::plan;

  ShadowRun()
      : per_sample_(static_cast<std::size_t>(plan.per_sample_floats / tenet::arena_granule), -1),
        fixed_(static_cast<std::size_t>(plan.fixed_floats / tenet::arena_granule), -1) {}

  /// Twice: the second time without the prepared steps, whose values have to be there still.
  void run() {
    for (int first : {0, order.prepared}) {
      old_is_gone_.assign(static_cast<std::size_t>(graph.output_count), false);
      for (int s = first; s < order.count; ++s) step(s);
      for (const tenet::Output& output : graph.outputs)
        if (output.destination == tenet::Destination::result) check_read(fusion.value[output.node], order.count);
    }
  }

  int errors = 0, reads = 0, written_in_place = 0, old_values_read = 0, conversions = 0, rooms = 0;

 private:
  static bool is(int i, tenet::Kind kind) { return graph.nodes[i].is(kind); }
  static bool computed(int i) { return graph.nodes[i].is_computed(); }

  struct Read {
    int value;
    bool same_place_allowed;
  };

  /// Whether a leaf holds what was there before the run in the place where output `i` leaves its value.
  static bool is_old_value(int leaf, std::size_t i) {
    const tenet::Place &place = plan.place[leaf], &destination = plan.destination[i];
    return place.arena == destination.arena && place.offset == destination.offset &&
           tenet::holds_old_values(place.arena);
  }
  /// Old contents of parameters, buffers and states: not read where new ones have been written, nor in the step that
  /// writes them but element by element.
  void check_old_values(const std::vector<Read>& leaves, const std::vector<int>& results, int s) {
    for (std::size_t i = 0; i < old_is_gone_.size(); ++i) {
      const int value = fusion.value[graph.outputs[i].node];
      bool written = false;
      for (const int result : results) written = written || (result == value && !plan.copied[i]);
      for (const Read& leaf : leaves) {
        if (!is_old_value(leaf.value, i)) continue;
        ++old_values_read;
        if (old_is_gone_[i] || (written && !leaf.same_place_allowed))
          report("an old value that is gone", leaf.value, s);
      }
      old_is_gone_[i] = old_is_gone_[i] || written;
    }
    for (const int result : results)
      if (tenet::holds_old_values(plan.place[result].arena) && !is_output(result))
        report("in the place of an old value", result, s);
  }
  static bool is_output(int value) {
    for (const tenet::Output& output : graph.outputs)
      if (fusion.value[output.node] == value) return true;
    return false;
  }

  void step(int s) {
    const int head = order.head[s];
    std::vector<Read> inputs, leaves;
    std::vector<int> results;
    const auto region = [&](int root, bool alone, bool writes, int anchor) {
      for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) {
        const int i = fusion.member[m];
        const auto& node = graph.nodes[i];
        if (writes && fusion.stored[i]) results.push_back(i);
        for (int j = 0; j < node.operand_count; ++j) {
          const int value = fusion.value[node.operands[j]];
          if (!computed(value)) {
            const tenet::TensorInfo &space = *node.type, &type = *graph.nodes[value].type;
            const bool one_by_one = alone || anchor >= 0;
            leaves.push_back({value, one_by_one && space.batched == type.batched && space.size() == type.size()});
          }
          if (value == anchor || !computed(value)) continue;
          bool inside = false;
          for (int k = fusion.first_member[root]; k >= 0; k = fusion.next_member[k])
            inside = inside || fusion.member[k] == value;
          if (inside) continue;
          const bool full = tenet::access_of(*node.type, *graph.nodes[value].type).full;
          inputs.push_back({value, alone && full});
        }
      }
    };
    if (is(head, tenet::Kind::element)) {
      region(head, true, true, -1);
    } else {
      const int epilogue = fusion.epilogue[head];
      if (is(head, tenet::Kind::reduction)) {
        region(head, false, false, -1);
        const int summed = fusion.value[graph.nodes[head].operands[0]];
        if (!computed(summed)) leaves.push_back({summed, false});
        if (computed(summed) && fusion.stored[summed]) inputs.push_back({summed, false});
      } else {
        for (int j = 0; j < graph.nodes[head].operand_count; ++j) {
          const int value = fusion.value[graph.nodes[head].operands[j]];
          (computed(value) ? inputs : leaves).push_back({value, false});
        }
      }
      if (epilogue >= 0) region(epilogue, false, true, head);
      if (epilogue < 0 || plan.place[head].arena != plan.place[epilogue].arena ||
          plan.place[head].offset != plan.place[epilogue].offset)
        results.push_back(head);
      else if (tenet::holds_old_values(plan.place[head].arena))
        report("what a kernel computes, in the place of an old value", head, s);
    }
    for (const Read& input : inputs) check_read(input.value, s);
    check_old_values(leaves, results, s);
    for (const int result : results) {
      // No result lies on an input of the step, but where the input is read at the same place for the last time.
      for (const Read& input : inputs) {
        if (!overlap(result, input.value)) continue;
        ++written_in_place;
        const bool same =
            plan.place[result].offset == plan.place[input.value].offset && is_narrow(result) == is_narrow(input.value);
        if (!(input.same_place_allowed && same && order.last_use[input.value] == s))
          report("result on an input", result, s);
      }
      for (const int other : results)
        if (other < result && overlap(result, other)) report("two results on each other", result, s);
      write(result);
      if (order.step[result] != s) report("computed in another step than said", result, s);
    }
    check_conversions(head, inputs, results, s);
    check_room(inputs, results, s);
  }

  /// The room of a workspace touches neither what the step reads and writes nor what is needed later; what lay there is
  /// gone.
  void check_room(const std::vector<Read>& inputs, const std::vector<int>& results, int s) {
    const tenet::FreeRoom& free = plan.room[s];
    const auto overwrite = [&](const tenet::Place& place, long floats) {
      if (floats == 0) return;
      ++rooms;
      auto& arena = place.arena == tenet::Arena::per_sample ? per_sample_ : fixed_;
      const long begin = place.offset / tenet::arena_granule, end = begin + floats / tenet::arena_granule;
      if (place.arena > tenet::Arena::fixed || end > static_cast<long>(arena.size()))
        return report("room beyond the arena", order.head[s], s);
      const auto touches = [&](int value) {
        return arena_of(value) == &arena && first(value) < end && begin < last(value);
      };
      for (const Read& input : inputs)
        if (touches(input.value)) report("room on an input", input.value, s);
      for (const int result : results)
        if (touches(result)) report("room on a result", result, s);
      for (long i = begin; i < end; ++i) {
        int& here = arena[static_cast<std::size_t>(i)];
        if (here < -1 && plan.conversions[-2 - here].step == s) report("room on a conversion", order.head[s], s);
        here = -1;
      }
    };
    for (const tenet::Room& room : free.largest) overwrite(room.place, room.floats);
    if (free.end >= 0) overwrite({tenet::Arena::per_sample, free.end}, plan.per_sample_floats - free.end);
  }

  /// The room for values in another form touches neither what the step reads and writes nor what is needed later, nor
  /// each other; and every value that a kernel reads or computes in another form than it is stored in has such room.
  /// What lasts is still there when it is read.
  void check_conversions(int head, const std::vector<Read>& inputs, const std::vector<int>& results, int s) {
    const tenet::KernelNumbers numbers = graph.nodes[head].operation->numbers;
    std::vector<int> serving;  // of this step
    const auto differs = [&](int node, tenet::DType wanted) {
      const tenet::TensorInfo& type = *graph.nodes[node].type;
      return type.dtype != tenet::DType::int32 && (Program::storage.dtype[fusion.value[node]] != wanted ||
                                                   Program::storage.layout[fusion.value[node]] != numbers.layout(type));
    };
    const auto look_for = [&](int value, const auto& serves) {
      for (int k = 0; k < plan.conversion_count; ++k)
        if (serves(plan.conversions[k])) return serving.push_back(k);
      report("a value in another form without room", value, s);
    };
    if (is(head, tenet::Kind::kernel)) {
      for (int j = 0; j < graph.nodes[head].operand_count; ++j) {
        const int node = graph.nodes[head].operands[j], value = fusion.value[node];
        if (differs(node, numbers.operands))
          look_for(value, [&](const tenet::Conversion& c) {
            const tenet::TensorInfo* const type = graph.nodes[node].type;
            return c.serves(s, value, type, numbers.operands, numbers.layout(*type));
          });
      }
      if (differs(head, numbers.result))
        look_for(head, [&](const tenet::Conversion& c) {
          return c.step == s && c.value == head && c.use == tenet::ConversionUse::result;
        });
    }
    const auto look_for_read = [&](int root) {
      tenet::for_each_copied(graph, fusion, Program::storage, root, [&](int node) {
        const int value = fusion.value[node];
        look_for(value, [&](const tenet::Conversion& c) {
          return c.serves(s, value, graph.nodes[node].type, Program::storage.dtype[value],
                          Program::storage.order[root]);
        });
      });
    };
    if (!is(head, tenet::Kind::kernel)) look_for_read(head);
    if (!is(head, tenet::Kind::element) && fusion.epilogue[head] >= 0) look_for_read(fusion.epilogue[head]);
    for (int k = 0; k < plan.conversion_count; ++k) {
      const tenet::Conversion& conversion = plan.conversions[k];
      const bool of_step = std::find(serving.begin(), serving.end(), k) != serving.end();
      if (!of_step && conversion.step == s) report("converted for nobody", conversion.value, s);
      if (!of_step) continue;
      ++conversions;
      auto& arena = conversion.place.arena == tenet::Arena::per_sample ? per_sample_ : fixed_;
      if (conversion.place.arena > tenet::Arena::fixed) report("converted in no arena", conversion.value, s);
      const long floats = tenet::floats_of(graph.nodes[conversion.value].type->size(), conversion.place.dtype);
      const long begin = conversion.place.offset / tenet::arena_granule,
                 end = begin + tenet::rounded_up(floats) / tenet::arena_granule;
      if (end > static_cast<long>(arena.size())) return report("converted beyond the arena", conversion.value, s);
      const auto touches = [&](int value) {
        return arena_of(value) == &arena && first(value) < end && begin < last(value);
      };
      for (const Read& input : inputs)
        if (touches(input.value)) report("converted on an input", input.value, s);
      for (const int result : results)
        if (touches(result)) report("converted on a result", result, s);
      const bool is_made = conversion.prepared ? prepared_.insert(k).second : conversion.step == s;
      for (long i = begin; i < end; ++i) {
        int& here = arena[static_cast<std::size_t>(i)];
        const int mark = -2 - k;
        if (!is_made && here != mark) return report("converted numbers overwritten while needed", conversion.value, s);
        for (const int other : serving)
          if (other < k && here == -2 - other) return report("converted on each other", conversion.value, s);
        here = mark;
      }
    }
  }
  static bool is_narrow(int value) { return Program::storage.is_narrow(value); }

  /// All of the value's numbers are still there, and the schedule knows that they are read here.
  void check_read(int value, int s) {
    ++reads;
    if (!fusion.stored[value]) return report("read but never stored", value, s);
    if (order.last_use[value] < s) report("read after its last use", value, s);
    if (s < order.count && order.step[value] >= s) report("read before it is computed", value, s);
    auto* const arena = arena_of(value);
    if (arena == nullptr) return;
    for (long k = first(value); k < last(value); ++k)
      if ((*arena)[static_cast<std::size_t>(k)] != value) return report("overwritten while needed", value, s);
  }

  void write(int value) {
    auto* const arena = arena_of(value);
    if (arena == nullptr) return;
    if (last(value) > static_cast<long>(arena->size())) return report("beyond the arena", value, -1);
    for (long k = first(value); k < last(value); ++k) (*arena)[static_cast<std::size_t>(k)] = value;
  }

  bool overlap(int a, int b) {
    return arena_of(a) != nullptr && arena_of(a) == arena_of(b) && first(a) < last(b) && first(b) < last(a);
  }

  std::vector<int>* arena_of(int value) {
    const tenet::Arena arena = plan.place[value].arena;
    return arena == tenet::Arena::per_sample ? &per_sample_ : arena == tenet::Arena::fixed ? &fixed_ : nullptr;
  }
  static long first(int value) { return plan.place[value].offset / tenet::arena_granule; }
  static long last(int value) {
    const long size = graph.nodes[value].type->size();
    return first(value) + tenet::rounded_up(is_narrow(value) ? (size + 1) / 2 : size) / tenet::arena_granule;
  }

  void report(const char* what, int value, int s) {
    ++errors;
    UNSCOPED_INFO(what << ": value " << value << " (" << (computed(value) ? graph.nodes[value].operation->name : "leaf")
                       << ") in step " << s);
  }

  std::vector<int> per_sample_, fixed_;
  std::set<int> prepared_;         // conversions that were made
  std::vector<bool> old_is_gone_;  // of each output
};

/// Acts a program out; gives how many results were written in the place of an input.
template <class Program>
int check_plan() {
  ShadowRun<Program> shadow;
  shadow.run();
  CHECK(shadow.errors == 0);
  CHECK(shadow.reads >= Program::order.count);
  return shadow.written_in_place;
}

}  // namespace law
