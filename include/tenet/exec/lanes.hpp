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

namespace detail {

/// Which steps wait for which, and the longest chain behind each.
struct StepChains {
  static constexpr int none = -1;
  std::vector<std::vector<int>> needs;    ///< of each step, but for those that another one of them needs, too
  std::vector<std::vector<bool>> before;  ///< of each step those that have ended before it begins
  std::vector<int> length;                ///< of the longest chain that begins with the step
  std::vector<int> heir;                  ///< the step that goes on with that chain
  std::vector<bool> is_main;              ///< whether it is on the longest chain of all

  explicit StepChains(std::span<const MemoryAccess> accesses, int steps)
      : needs(index(steps)),
        before(index(steps), std::vector<bool>(index(steps))),
        length(index(steps), 1),
        heir(index(steps), none),
        is_main(index(steps)) {
    std::size_t end = 0;  // of the accesses of steps before this one
    for (int s = 0; s < steps; ++s) {
      while (end < accesses.size() && accesses[end].step < s) ++end;
      for (std::size_t b = end; b < accesses.size() && accesses[b].step == s; ++b)
        for (std::size_t a = end; a-- > 0;) {
          const int needed = accesses[a].step;
          if (before[index(s)][index(needed)] || !conflict(accesses[a], accesses[b])) continue;
          needs[index(s)].push_back(needed);
          goes_behind(s, needed);
        }
    }
    for (int s = steps; s-- > 0;)
      for (const int needed : needs[index(s)])
        if (length[index(s)] + 1 >= length[index(needed)]) {  // of two chains as long the earlier one
          length[index(needed)] = length[index(s)] + 1;
          heir[index(needed)] = s;
        }
    std::vector<int> steps_before(index(steps));
    int longest = 0;
    for (int s = 0; s < steps; ++s) {
      for (const int needed : needs[index(s)])
        steps_before[index(s)] = std::max(steps_before[index(s)], steps_before[index(needed)] + 1);
      longest = std::max(longest, steps_before[index(s)] + length[index(s)]);
    }
    for (int s = 0; s < steps; ++s) is_main[index(s)] = steps_before[index(s)] + length[index(s)] == longest;
  }

  /// A step runs behind another one, and so behind all that this has waited for.
  void goes_behind(int step, int earlier) {
    for (int s = 0; s < earlier; ++s)
      before[index(step)][index(s)] = before[index(step)][index(s)] || before[index(earlier)][index(s)];
    before[index(step)][index(earlier)] = true;
  }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
};

/// The lane of a step, given the last step of each lane. That of the step whose chain it goes on with; else one whose
/// last step's chain does not go on there, as nothing is to come between a step and its heir: one that has nothing left
/// to run when the step may begin, or has run nothing yet, or has waited longest. The first lane is for the longest
/// chain of all, as long as there are others.
inline int lane_of(const StepChains& chains, int step, std::span<const int> last) {
  const auto of = [](const auto& numbers, int i) -> decltype(auto) { return numbers[static_cast<std::size_t>(i)]; };
  constexpr int none = StepChains::none;
  for (int lane = 0; lane < most_lanes; ++lane)
    if (of(last, lane) != none && of(chains.heir, of(last, lane)) == step) return lane;
  enum : int { has_ended, is_unused, is_busy, is_held };
  const auto rank = [&](int lane) {  // the lower, the better
    const int before = of(last, lane);
    const bool is_main = of(chains.is_main, step);
    const bool spares_first = !is_main && lane == 0, prefers_first = is_main && lane != 0;
    if (before == none) return std::array{int{spares_first}, int{is_unused}, int{prefers_first}, lane};
    if (of(chains.heir, before) > step) return std::array{2, int{is_held}, of(chains.length, before), lane};
    const bool ended = of(of(chains.before, step), before);
    return std::array{int{spares_first}, int{ended ? has_ended : is_busy}, int{prefers_first},
                      ended ? -before : before};
  };
  int best = 0;
  for (int lane = 1; lane < most_lanes; ++lane)
    if (rank(lane) < rank(best)) best = lane;
  return best;
}

}  // namespace detail

/// Spreads steps over lanes: the longest chain has the first one, and what does not depend on it fills the gaps that it
/// leaves.
[[gnu::noinline]] inline LanePlan lanes_of(std::span<const MemoryAccess> accesses,
                                           std::span<const SequenceEntry> sequence) {
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  const int steps = static_cast<int>(sequence.size());
  LanePlan plan{std::vector<int>(index(steps)), {}, std::vector<bool>(index(steps))};
  detail::StepChains chains(accesses, steps);
  std::array<int, most_lanes + 1> last;  // step of each lane
  last.fill(detail::StepChains::none);
  for (int s = 0; s < steps; ++s) {
    for (const int needed : chains.needs[index(s)]) chains.goes_behind(s, needed);  // and behind what ran before that
    const int lane = sequence[index(s)].is_together() ? exchange_lane : lane_of(chains, s, last);
    if (last[index(lane)] != detail::StepChains::none) chains.goes_behind(s, last[index(lane)]);
    last[index(lane)] = s;
    plan.lane[index(s)] = lane;
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
