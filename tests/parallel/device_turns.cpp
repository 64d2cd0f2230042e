#include "tenet/parallel/device_turns.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"

using namespace tenet;

namespace {

/// Which turns come before which, found by following the waits: of each step on each device what has ended before.
class Ordered {
 public:
  Ordered(const std::vector<DeviceTurns>& turns, int steps) : devices_(static_cast<int>(turns.size())) {
    before_.assign(static_cast<std::size_t>(steps * devices_),
                   std::vector<bool>(static_cast<std::size_t>(steps * devices_)));
    for (int s = 0; s < steps; ++s)
      for (int d = 0; d < devices_; ++d) {
        const DeviceTurns& mine = turns[static_cast<std::size_t>(d)];
        for (std::size_t t = 0; t < mine.turns.size(); ++t) {
          if (mine.turns[t].step != s) continue;
          if (t > 0) join(at(s, d), at(mine.turns[t - 1].step, d));
          for (int w = mine.turns[t].first_wait; w < mine.turns[t].first_wait + mine.turns[t].waits; ++w) {
            const Wait& wait = mine.waits[static_cast<std::size_t>(w)];
            CHECK(wait.step < s);
            CHECK(wait.device != d);
            redundant += before_[at(s, d)][at(wait.step, wait.device)];
            join(at(s, d), at(wait.step, wait.device));
          }
        }
      }
  }
  bool before(int earlier, int on, int later, int there) const { return before_[at(later, there)][at(earlier, on)]; }

  int redundant = 0;

 private:
  std::size_t at(int step, int device) const { return static_cast<std::size_t>(step * devices_ + device); }
  void join(std::size_t to, std::size_t from) {
    for (std::size_t i = 0; i < before_[to].size(); ++i) before_[to][i] = before_[to][i] || before_[from][i];
    before_[to][from] = true;
  }
  int devices_;
  std::vector<std::vector<bool>> before_;
};

/// The laws: two steps that use the same memory, one of them writing, come one after the other; and within the forward
/// and backward pass the places of values alone never let a device wait.
template <class P>
void check_turns() {
  constexpr int devices = P::order.devices, steps = P::lowered.used.steps;
  const ProgramTurns turns = program_turns<P>();
  REQUIRE(turns.of.size() == static_cast<std::size_t>(devices));
  std::vector<int> device(static_cast<std::size_t>(steps), on_no_device);
  for (int d = 0; d < devices; ++d)
    for (const Turn& turn : turns.of[static_cast<std::size_t>(d)].turns) {
      int& of = device[static_cast<std::size_t>(turn.step)];
      of = of == on_no_device ? d : on_all_devices;
    }
  const auto shared = [&](int s) {
    return turns.shared_update >= 0 && s >= P::lowered.first_update && s < P::lowered.after_update &&
           is_over_parameters<P>(s);
  };
  for (int s = P::lowered.prepared_steps; s < steps; ++s) {
    const int d = device[static_cast<std::size_t>(s)];
    CHECK(d == (s == turns.shared_update ? on_all_devices
                : shared(s)              ? on_no_device
                                         : P::order.device_of(P::lowered.steps[s].number)));
  }
  const Ordered ordered(turns.of, steps);
  CHECK(ordered.redundant == 0);
  int wrong = 0, needless = 0, pairs = 0;
  for (const MemoryAccess& a : accesses_of<P>)
    for (const MemoryAccess& b : accesses_of<P>) {
      if (a.step < P::lowered.prepared_steps || a.step >= b.step || !conflict(a, b)) continue;
      if (shared(a.step) && shared(b.step)) {
        wrong += a.first != b.first || a.last != b.last;
        continue;
      }
      const int first = shared(a.step) ? turns.shared_update : a.step;
      const int second = shared(b.step) ? turns.shared_update : b.step;
      for (int d = 0; d < devices; ++d)
        for (int e = 0; e < devices; ++e) {
          const auto runs = [&](int s, int where) {
            const int on = device[static_cast<std::size_t>(s)];
            return on == where || on == on_all_devices;
          };
          if (!runs(first, d) || !runs(second, e)) continue;
          ++pairs;
          wrong += !ordered.before(first, d, second, e);
          // The first device that reads the program's input in another layout copies it for all.
          const auto& earlier = P::lowered.steps[a.step];
          const bool of_input = earlier.relayout.is_needed() && earlier.operands[0].arena == Arena::inputs;
          const bool of_values = !of_input && (a.arena == Arena::per_sample || a.arena == Arena::fixed);
          if (d != e && of_values && b.step < P::lowered.first_update)
            needless += P::order.before[P::lowered.steps[b.step].number][d] <= P::lowered.steps[a.step].number;
        }
    }
  if (turns.shared_update >= 0) {  // every parameter is updated, and by one device
    std::vector<int> updates(static_cast<std::size_t>(P::slots.parameter_floats));
    for (const auto& blocks : turns.updated)
      for (const FloatRange& block : blocks)
        for (long i = block.first; i < block.first + block.count; ++i) ++updates[static_cast<std::size_t>(i)];
    CHECK(std::count(updates.begin(), updates.end(), 1) == P::slots.parameter_floats);
  }
  CHECK(wrong == 0);
  CHECK(needless == 0);
  CHECK(pairs > 0);
  law::check_plan<P>();
}

template <class Net, class Input, class Loss, class Optimizer, class... Policies>
void check_network() {
  using T = Trainer<Net, Loss, Optimizer, Input, Policies...>;
  check_turns<typename T::Training>();
  check_turns<typename T::Evaluating>();
  check_turns<typename T::Predicting>();
}

using TowersStep = Trainer<networks::Towers, CrossEntropy, Sgd, Features<16>, InterOpParallel<2>>::Training;
static_assert(detail::update_can_be_shared<TowersStep>());

}  // namespace

TEST_CASE("steps that use the same memory come one after the other", "[device_turns]") {
  check_network<networks::Towers, Features<16>, CrossEntropy, Sgd, InterOpParallel<2>>();
  check_network<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Adam, InterOpParallel<2>>();
  check_network<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Adam, InterOpParallel<3>, UpdateInBackward>();
  check_network<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd, InterOpParallel<2>>();
  check_network<networks::Transformer, Tokens<12>, CrossEntropy, AdamW, InterOpParallel<2>, UpdateInBackward>();
  check_network<LeNet, Image<1, 28, 28>, CrossEntropy, Sgd, InterOpParallel<2>, BFloat16>();
}

/// Which device updates what: "1: 0 to 48, …".
std::string text_of(const std::vector<std::vector<FloatRange>>& parts) {
  std::string text;
  for (std::size_t d = 0; d < parts.size(); ++d)
    for (const FloatRange& range : parts[d])
      text += (text.empty() ? "" : ", ") + std::to_string(d) + ": " + std::to_string(range.first) + " to " +
              std::to_string(range.first + range.count);
  return text;
}

TEST_CASE("parameters are updated by whoever has written their gradients, and as many by each", "[device_turns]") {
  using detail::parts_of_update;
  CHECK(text_of(parts_of_update({{0, 1}, {48, 0}}, 96, 2)) == "0: 48 to 96, 1: 0 to 48");
  CHECK(text_of(parts_of_update({{0, 0}, {16, 1}, {32, 0}, {48, 1}}, 64, 2)) ==
        "0: 0 to 16, 0: 32 to 48, 1: 16 to 32, 1: 48 to 64");
  CHECK(text_of(parts_of_update({{0, 0}, {80, 1}}, 96, 2)) == "0: 0 to 48, 1: 80 to 96, 1: 48 to 80");
  CHECK(text_of(parts_of_update({{0, 2}}, 96, 3)) == "0: 32 to 64, 1: 64 to 96, 2: 0 to 32");
  CHECK(text_of(parts_of_update({{0, 0}}, 5000, 1)) == "0: 0 to 4096, 0: 4096 to 5000");
}

/// Two towers whose layers are declared in turns.
struct InTurns {
  Linear<512, 512> left1, right1, left2, right2;
  constexpr auto forward(auto x) const { return left2(relu(left1(x))) + right2(relu(right1(x))); }
};

TEST_CASE("each of two towers is updated by its device", "[device_turns]") {
  using Step = Trainer<InTurns, MeanSquaredError, Sgd, Features<512>, InterOpParallel<2>>::Training;
  const ProgramTurns turns = program_turns<Step>();
  const auto device_of = [&](std::size_t slot) {
    const long weight = Step::slots.slots[slot].offset;
    for (std::size_t d = 0; d < 2; ++d)
      for (const FloatRange& block : turns.updated[d])
        if (weight >= block.first && weight < block.first + block.count) return static_cast<int>(d);
    return -1;
  };
  CHECK(device_of(0) == device_of(4));
  CHECK(device_of(2) == device_of(6));
  CHECK(device_of(0) != device_of(2));
}

TEST_CASE("steps of drawn networks that use the same memory come one after the other", "[device_turns]") {
  check_network<networks::Drawn<1>, Batched<3, 4>, MeanSquaredError, Adam, InterOpParallel<2>>();
  check_network<networks::Drawn<2>, Batched<3, 4>, MeanSquaredError, Sgd, InterOpParallel<3>, UpdateInBackward>();
  check_network<networks::Drawn<3>, Batched<3, 4>, MeanSquaredError, Sgd, InterOpParallel<4>>();
  check_network<networks::Drawn<6>, Batched<3, 4>, MeanSquaredError, Adam, InterOpParallel<2>, BFloat16>();
}
