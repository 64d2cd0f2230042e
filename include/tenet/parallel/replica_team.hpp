#pragma once

#include <mutex>
#include <tenet/comm/collectives.hpp>
#include <tenet/core/wait_until.hpp>
#include <tenet/core/worker_team.hpp>
#include <tenet/exec/buckets.hpp>
#include <tenet/parallel/replicas.hpp>

namespace tenet {

/// The replicas of a process as a team: gradients that come out of their passes as sums over all samples, in the first
/// one's memory. Which they are, the kernels say while they run.
template <class Program, class Group>
class ReplicaTeam {
 public:
  explicit ReplicaTeam(Group& replicas)
      : replicas_(&replicas),
        spins_(spins_between(replicas.size())),
        members_(static_cast<std::size_t>(replicas.size())) {}
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;

  /// Before a run, whose passes have `gradients(r)`: whether kernels may leave sums to the team, as each replica has as
  /// many samples, and nobody reads its gradients before all passes have ended. `step` is for messages.
  template <class Gradients>
  void begin(bool takes_sums, Gradients gradients, long step) {
    step_ = step;
    takes_sums_ = can_sum && takes_sums && replicas_->size() > 1;
    has_failed_.store(false, std::memory_order_relaxed);
    sums_.clear();
    if (!takes_sums_) return;
    for (int r = 0; r < replicas_->size(); ++r) {
      Member& member = members_[index(r)];
      member.team = this;
      member.replica = r;
      member.gradients = gradients(r);
      member.given.store(0, std::memory_order_relaxed);
      member.finished = 0;
      member.tasks.clear();
      member.slots.clear();
    }
  }

  /// A replica's passes, by its thread: run() with a team that its kernels know, and then what is left of the sums.
  template <class Run>
  void run(int replica, Run run) {
    if constexpr (can_sum) {
      if (takes_sums_) {
        Member& member = members_[index(replica)];
        const Membership membership(replicas_->executor(replica), {replica, replicas_->size(), functions, &member});
        run();
        finish_all(member);
        return;
      }
    }
    run();
  }

  /// Ends the waiting of all replicas: one has failed.
  void abandon() noexcept { has_failed_.store(true, std::memory_order_relaxed); }

  /// Of a range of the last run's gradients: each(first, floats, is_sum) is called for its parts in order. Sums are in
  /// the first replica's memory.
  template <class Each>
  void for_each_part(FloatRange range, Each each) const {
    for (long first = range.first, last = range.first + range.count, end; first < last; first = end) {
      bool is_sum = false;
      end = last;
      for (const FloatRange& sum : sums_) {
        const long sum_end = sum.first + sum.count;
        if (first < sum.first) {
          end = std::min(end, sum.first);
        } else if (first < sum_end) {
          end = std::min(last, sum_end);
          is_sum = true;
          break;
        }
      }
      each(first, end - first, is_sum);
    }
  }

  long memory_floats() const {
    long sum = 0;
    for (const Buffer& terms : terms_) sum += terms.size();
    return sum;
  }

 private:
  static constexpr bool can_sum = requires(typename Group::Executor& executor) { executor.team = WorkerTeam{}; };
  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  struct alignas(64) Member {
    ReplicaTeam* team = nullptr;
    int replica = 0;
    float* gradients = nullptr;
    std::atomic<int> given{0};  // sums whose terms of this replica are there
    int finished = 0;           // tasks that have run
    std::vector<WorkerTeam::Task> tasks{};
    std::vector<int> slots{};  // of each task: the parameter
  };

  class Membership {
   public:
    Membership(typename Group::Executor& executor, const WorkerTeam& team) : executor_(&executor) {
      executor_->team = team;
    }
    ~Membership() { executor_->team = {}; }
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

   private:
    typename Group::Executor* executor_;
  };

  static WorkerTeam::Sum begin_sum(void* context, const float* own, long places, long terms) {
    static constexpr auto uses = detail::gradient_uses(Program::lowered, Program::slots);
    Member& member = *static_cast<Member*>(context);
    for (int i = 0; i < Program::slots.count; ++i) {
      const SlotInfo& slot = Program::slots.slots[i];
      if (slot.kind != SlotKind::parameter || member.gradients + slot.offset != own) continue;
      if (uses[index(i)] != 1) return {};  // another step of the passes reads it
      member.slots.push_back(i);
      return member.team->begin_sum(member.replica, {slot.offset, places}, i, terms);
    }
    return {};
  }
  WorkerTeam::Sum begin_sum(int replica, FloatRange places, int slot, long terms) {
    if (replica == 0) sums_.push_back(places);
    Buffer& room = terms_[index(slot)];
    {
      const std::lock_guard lock(growing_);  // the first one of the replicas that comes has it grow
      room.grow(terms);
    }
    return {members_[0].gradients + places.first, room.data()};
  }

  static void end_sum(void* context, const WorkerTeam::Task& finish) {
    Member& member = *static_cast<Member*>(context);
    member.tasks.push_back(finish);
    member.given.store(static_cast<int>(member.tasks.size()), std::memory_order_release);
    member.team->finish(member);
  }
  /// Finishes the sums whose terms are there.
  void finish(Member& member) {
    while (member.finished < static_cast<int>(member.tasks.size()) && all_have_given(member.finished + 1))
      member.tasks[index(member.finished++)]();
  }
  void finish_all(Member& member) {
    const int sums = static_cast<int>(member.tasks.size());
    const bool ended = wait_until([&] { return all_have_given(sums) || has_failed_.load(std::memory_order_relaxed); },
                                  replicas_->limit(), spins_);
    finish(member);
    if (member.finished == sums) return;
    has_failed_ = true;
    const std::string own = detail::with_number("replica", member.replica);
    const MessageLabel gradient{"gradient of parameter", member.slots[index(member.finished)], step_};
    if (ended) detail::fail_abandoned(own, "replica", gradient);
    int late = 0;
    while (late + 1 < replicas_->size() && members_[index(late)].given.load() > member.finished) ++late;
    detail::fail_waiting(own, "waits for the terms of " + detail::with_number("replica", late), gradient,
                         std::chrono::duration<double>(replicas_->limit()).count());
  }
  bool all_have_given(int sums) const {
    for (const Member& member : members_)
      if (member.given.load(std::memory_order_acquire) < sums) return false;
    return true;
  }

  static constexpr WorkerTeam::Functions functions{&begin_sum, &end_sum};

  Group* replicas_;
  int spins_;
  std::vector<Member> members_;
  std::array<Buffer, static_cast<std::size_t>(Program::slots.count) + 1> terms_;
  std::mutex growing_;
  std::vector<FloatRange> sums_;
  bool takes_sums_ = false;
  long step_ = 0;
  std::atomic<bool> has_failed_{false};
};

}  // namespace tenet
