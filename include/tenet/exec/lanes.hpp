#pragma once

#include <mutex>
#include <tenet/exec/sequence.hpp>
#include <tenet/exec/turns.hpp>
#include <vector>

/// Lanes: queues of one device that run side by side, each in its own order. What of a program does not depend on each
/// other goes to different ones.
namespace tenet {

/// How many lanes the steps of programs are spread over.
inline constexpr int most_lanes = 4;
/// Where devices bring their numbers together, beside the steps: in one order on all of them, as the others wait.
inline constexpr int exchange_lane = most_lanes;
/// Where batches are copied in while the step before runs.
inline constexpr int copy_lane = exchange_lane + 1;

/// Which lane runs each step, and what it waits for there. Here an exchange is a step, too, and their numbers are their
/// places in a sequence.
struct LanePlan {
  std::vector<int> lane;           ///< of each step
  std::vector<DeviceTurns> turns;  ///< of each lane
  std::vector<bool> is_awaited;    ///< whether another lane waits for the step
};

/// Spreads steps over lanes: a step goes on where the last step is one that it needs anyway, else to a lane that has
/// run nothing yet, else behind what it needs.
[[gnu::noinline]] inline LanePlan lanes_of(std::span<const MemoryAccess> accesses,
                                           std::span<const SequenceEntry> sequence) {
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  const int steps = static_cast<int>(sequence.size());
  LanePlan plan{std::vector<int>(index(steps)), {}, std::vector<bool>(index(steps))};
  // Of each step those that have ended before it begins: what it needs, what its lane has run, and so on.
  std::vector<std::vector<bool>> before(index(steps), std::vector<bool>(index(steps)));
  const auto join = [&](int to, int from) {
    for (int s = 0; s < from; ++s)
      before[index(to)][index(s)] = before[index(to)][index(s)] || before[index(from)][index(s)];
    before[index(to)][index(from)] = true;
  };
  constexpr int none = -1;
  std::array<int, most_lanes + 1> last;  // step of each lane
  last.fill(none);
  std::size_t end = 0;  // of the accesses of steps before this one
  for (int s = 0; s < steps; ++s) {
    while (end < accesses.size() && accesses[end].step < s) ++end;
    for (std::size_t b = end; b < accesses.size() && accesses[b].step == s; ++b)
      for (std::size_t a = end; a-- > 0;)
        if (!before[index(s)][index(accesses[a].step)] && conflict(accesses[a], accesses[b])) join(s, accesses[a].step);
    int chosen = sequence[index(s)].is_together() ? exchange_lane : none;
    const bool is_fixed = chosen != none;
    for (int lane = 0; lane < most_lanes && !is_fixed; ++lane)  // the latest of those that it needs
      if (last[index(lane)] != none && before[index(s)][index(last[index(lane)])] &&
          (chosen == none || last[index(lane)] > last[index(chosen)]))
        chosen = lane;
    for (int lane = 0; lane < most_lanes && chosen == none; ++lane)
      if (last[index(lane)] == none) chosen = lane;
    for (int needed = s; needed-- > 0 && chosen == none;)
      if (before[index(s)][index(needed)] && plan.lane[index(needed)] != exchange_lane)
        chosen = plan.lane[index(needed)];
    if (chosen == none) chosen = 0;
    if (last[index(chosen)] != none) join(s, last[index(chosen)]);
    last[index(chosen)] = s;
    plan.lane[index(s)] = chosen;
  }
  plan.turns = turns_of(accesses, plan.lane, most_lanes + 1);
  for (const DeviceTurns& turns : plan.turns)
    for (const Wait& wait : turns.waits) plan.is_awaited[index(wait.step)] = true;
  return plan;
}

/// The plan of `sequence_of<Program, Exchanges>(part)`.
template <class Program, class Exchanges = NoExchanges>
const LanePlan& lanes_of(RunPart part = RunPart::all) {
  static std::array<LanePlan, 3> plans;
  static std::mutex mutex;  // several devices may ask at the same time
  const std::lock_guard lock(mutex);
  LanePlan& plan = plans[static_cast<std::size_t>(part)];
  if (plan.turns.empty()) {
    const auto& sequence = sequence_of<Program, Exchanges>(part);
    plan = lanes_of(detail::accesses_at(sequence, Exchanges::all, accesses_of<Program>), sequence);
  }
  return plan;
}

/// An executor with lanes, itself the first: lane(i); `mark` gives a mark, which is reached when all has run that the
/// lane was given so far, and what is given behind `wait(mark)` runs after it. If it is to run steps ahead of their
/// results, the host waits for one by await(mark).
template <class Executor>
concept HasLanes = requires(Executor& executor) {
  typename Executor::Mark;
  executor.lane(1);
  executor.wait(executor.mark());
};

/// Gives all steps of a plan to an executor's lanes, in their order: run_step(lane, step) gives one. All begins after
/// what the first lane was given before, and has ended when the first lane has run what it was given.
template <class Executor, class RunStep>
void run_on_lanes(const LanePlan& plan, Executor& executor, const RunStep& run_step) {
  using Mark = typename Executor::Mark;
  std::vector<Mark> ended(plan.lane.size());
  std::array<std::size_t, most_lanes + 1> next{};
  const Mark begin = executor.mark();
  for (std::size_t s = 0; s < plan.lane.size(); ++s) {
    const auto number = static_cast<std::size_t>(plan.lane[s]);
    const DeviceTurns& turns = plan.turns[number];
    Executor& lane = executor.lane(plan.lane[s]);
    if (next[number] == 0 && number != 0) lane.wait(begin);
    const Turn& turn = turns.turns[next[number]++];
    for (int w = turn.first_wait; w < turn.first_wait + turn.waits; ++w)
      lane.wait(ended[static_cast<std::size_t>(turns.waits[static_cast<std::size_t>(w)].step)]);
    run_step(lane, static_cast<int>(s));
    if (plan.is_awaited[s]) ended[s] = lane.mark();
  }
  for (int lane = 1; lane <= most_lanes; ++lane)
    if (next[static_cast<std::size_t>(lane)] > 0) executor.wait(executor.lane(lane).mark());
}

}  // namespace tenet
