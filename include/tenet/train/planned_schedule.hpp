#pragma once

#include <algorithm>
#include <tenet/train/planned_steps.hpp>
#include <vector>

/// When the compiler expects the steps of a program to run, and what is exchanged besides to move. For timelines.
namespace tenet {

/// When something is expected to take place, in seconds from the beginning of the training step.
struct PlannedSpan {
  int device = 0;
  int index = 0;  ///< of the step, or of the part
  double begin = 0, end = 0;
};
struct PlannedSchedule {
  std::vector<PlannedSpan> steps, parts;
  std::vector<PlannedSpan> parameters;  ///< of buckets, or -1, all of them: what comes behind the update
  double computing = 0;                 ///< of all devices together
  double end = 0;
};

/// What a training step is planned for.
struct PlannedFor {
  int batch = 1;
  double seconds_of_cost = 1;
  int workers = 1;
  LinkCost link{};    ///< between them
  bool meets = true;  ///< it is a step in which parameters move, where that is not every one
};

namespace detail {

/// One training step on paper: see `planned_schedule`.
class PlannedRun {
 public:
  PlannedRun(const PlannedSteps& program, const PlannedFor& given)
      : program_(program), given_(given), senders_(given.workers), link_of_senders_(given.link) {
    const Traffic& traffic = program.traffic;
    exchanges_ = traffic.has_formula();
    sends_ = exchanges_ && traffic.gradients != nullptr;
    moves_parameters_ = exchanges_ && traffic.parameters != nullptr && given.meets;
    serves_ = sends_ && moves_parameters_ && !traffic.inside;
    if (traffic.inside && given.link.machine.count > 1) {
      senders_ = given.link.machine.most;
      link_of_senders_ = inside_machine(given.link);
    }
    shards_ = program.shards_in_all > 0 ? std::max(1, program.shards_in_all / given.workers) : program.shards_of_worker;
    free_.resize(index(program.devices));
    ended_.resize(index(program.devices));
    ends_.resize(program.steps.size() + 1);
    for (std::size_t i = 0; i < program.parts.size(); ++i) {
      if (!program.parts[i].is_bucket()) continue;
      by_need_.push_back(i);
      all_floats_ += static_cast<double>(program.parts[i].floats);
    }
    std::sort(by_need_.begin(), by_need_.end(),
              [&](std::size_t a, std::size_t b) { return program.parts[a].needed < program.parts[b].needed; });
  }

  PlannedSchedule run() {
    for (int shard = 0; shard < shards_; ++shard) run_shard(shard == 0, shard + 1 == shards_);
    const double computed = *std::max_element(free_.begin(), free_.end());
    result_.end = computed;
    for (const PlannedSpan& span : result_.parts)
      if (!program_.updates_late || !program_.parts[index(span.index)].is_bucket())
        result_.end = std::max(result_.end, span.end);
    if (serves_ && program_.updates)
      gather();
    else if (serves_)
      pull(by_need_.size() == 1 ? computed : result_.end);
    else if (moves_parameters_)
      result_.end = move_parameters(-1, std::max(result_.end, link_), program_.parameter_floats);
    return std::move(result_);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const PlannedPart& part(std::size_t i) const { return program_.parts[i]; }
  double seconds_of(const PlannedStep& step) const {
    const double samples = static_cast<double>(given_.batch) / program_.replicas / shards_;
    return (step.cost + samples * step.cost_of_sample) * given_.seconds_of_cost;
  }
  /// Of the update, before workers share it.
  double seconds_of_update() const {
    double seconds = 0;
    for (const PlannedStep& step : program_.steps)
      if (step.pass == Pass::update) seconds += seconds_of(step);
    return program_.shares_update ? seconds / program_.replicas : seconds;
  }
  /// How much of the update is a bucket's.
  double share_of(std::size_t i) const { return static_cast<double>(part(i).floats) / all_floats_; }

  double seconds_of(const PlannedPart& part) const {
    using enum ExchangedPart::Kind;
    const Traffic& traffic = program_.traffic;
    const auto moved = [&](const Moving& moving) { return moving.seconds(senders_, part.floats, link_of_senders_); };
    if (part.kind == gradients) return moved(*traffic.gradients);
    if (traffic.served != nullptr) return moved(*traffic.gradients) + moved(*traffic.parameters);
    if (part.kind == statistics) return broadcast_seconds(senders_, part.floats, link_of_senders_);
    return moved(sends_ && (traffic.parameters == nullptr || traffic.inside) ? *traffic.gradients : all_reduce_moves);
  }

  /// The program but for its update, once; before the first shard what is prepared, behind the last one the update.
  void run_shard(bool is_first, bool is_last) {
    for (auto& ended : ended_) ended.clear();
    bool updates = false;
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const PlannedStep& step = program_.steps[s];
      const bool is_update = step.pass == Pass::update;
      ends_[s + 1] = ends_[s];
      if (is_update ? !is_last || !program_.updates : !is_first && static_cast<int>(s) < program_.prepared) continue;
      if (is_update && !updates) begin_update(s);
      updates = updates || is_update;
      run_step(s);
      if (is_update) update_end_ = free_[0];
      if (is_last) leave(s + 1);
    }
    if (is_last) leave(program_.steps.size());
  }
  void run_step(std::size_t s) {
    const PlannedStep& step = program_.steps[s];
    double seconds = seconds_of(step);
    if (step.pass == Pass::update && serves_) seconds /= given_.workers;
    if (step.pass == Pass::update && program_.shares_update) seconds /= program_.replicas;
    const bool all = step.device < 0;
    if (all) seconds /= program_.devices;
    for (int d = all ? 0 : step.device; d < (all ? program_.devices : step.device + 1); ++d) {
      double begin = free_[index(d)];
      for (int other = 0; other < static_cast<int>(step.before.size()); ++other)
        for (const auto& [number, time] : ended_[index(other)])
          if (other != d && number < step.before[index(other)])
            begin = std::max(begin, time + StepCosts::wait * given_.seconds_of_cost);
      free_[index(d)] = begin + seconds;
      ended_[index(d)].emplace_back(step.number, free_[index(d)]);
      result_.steps.push_back({d, static_cast<int>(s), begin, free_[index(d)]});
      result_.computing += seconds;
      ends_[s + 1] = std::max(ends_[s + 1], free_[index(d)]);
    }
  }

  /// The parts that are ready after so many steps, one behind the other.
  void leave(std::size_t steps) {
    for (; next_ < program_.parts.size() && part(next_).ready <= static_cast<int>(steps); ++next_) {
      const PlannedPart& left = part(next_);
      if (!exchanges_ || (left.is_bucket() && !sends_)) continue;
      const double begin = std::max(link_, ends_[index(left.ready)]);
      link_ = begin + seconds_of(left);
      result_.parts.push_back({0, static_cast<int>(next_), begin, link_});
      if (left.kind != ExchangedPart::Kind::sum) continue;
      double& free = free_[index(std::max(0, program_.steps[index(left.ready)].device))];  // of who waits for it
      free = std::max(free, link_);
    }
  }

  void begin_update(std::size_t first) {
    leave(first);
    double begin = free_[0];
    if (!program_.updates_by_buckets && !program_.updates_late) {
      begin = sends_ ? link_ : 0;
    } else if (sends_) {
      const double update = seconds_of_update();
      if (program_.updates_late) {
        begin += waiting(begin, update);
      } else {
        for (const PlannedSpan& span : result_.parts)
          if (const auto i = index(span.index); part(i).is_bucket())
            begin = std::max(begin, span.end) + update * share_of(i);
        begin -= update;
      }
    }
    for (double& time : free_) time = std::max(time, begin);
    update_begin_ = free_[0];
  }
  /// For how long a pass that begins at `begin` waits for the buckets of the one before.
  double waiting(double begin, double update) const {
    std::vector<double> come(program_.parts.size());
    std::vector<std::size_t> open;  // in the order in which they leave
    for (const PlannedSpan& span : result_.parts)
      if (part(index(span.index)).is_bucket()) {
        come[index(span.index)] = span.end;
        open.push_back(index(span.index));
      }
    double waited = 0, updated = 0;
    for (const std::size_t b : by_need_)
      while (std::find(open.begin(), open.end(), b) != open.end()) {
        const double now = begin + waited + updated + ends_[index(part(b).read)];
        const auto next = come[b] <= now ? std::find(open.begin(), open.end(), b) : open.begin();
        waited += std::max(0.0, come[*next] - now);
        updated += update * share_of(*next);
        open.erase(next);
      }
    return waited;
  }

  double move_parameters(int i, double begin, long floats) {
    const double end = begin + program_.traffic.parameters->seconds(given_.workers, floats, given_.link);
    result_.parameters.push_back({0, i, begin, end});
    return end;
  }
  /// Each worker has updated a part of each bucket.
  void gather() {
    double updated = update_begin_, gathered = link_;
    for (const std::size_t b : by_need_) {
      updated += (update_end_ - update_begin_) * share_of(b);
      gathered = move_parameters(static_cast<int>(b), std::max(updated, gathered), part(b).floats);
    }
  }
  /// Servers update a bucket when it has come; workers ask for all of them at the time `asked`.
  void pull(double asked) {
    std::vector<double> served(program_.parts.size());
    double updated = 0;
    for (const PlannedSpan& span : result_.parts) {
      const auto i = index(span.index);
      if (!part(i).is_bucket()) continue;
      const double of_server =
          program_.traffic.served(given_.workers, part(i).floats) / static_cast<double>(part(i).floats);
      updated = std::max(updated, span.end) + seconds_of_update() * share_of(i) * of_server;
      served[i] = updated;
    }
    double pulled = asked;
    for (const std::size_t b : by_need_)
      pulled = move_parameters(static_cast<int>(b), std::max(served[b], pulled), part(b).floats);
  }

  const PlannedSteps& program_;
  const PlannedFor& given_;
  bool exchanges_ = false, sends_ = false, moves_parameters_ = false;
  bool serves_ = false;       // whoever has the sum of a part of the gradients sends parameters back
  int senders_;               // workers that send each other gradients,
  LinkCost link_of_senders_;  // and what is between them
  int shards_ = 1;
  std::vector<std::size_t> by_need_;                        // the parts that are buckets
  double all_floats_ = 0;                                   // of these
  std::vector<double> free_;                                // from when on each device is
  std::vector<std::vector<std::pair<int, double>>> ended_;  // of each device: numbers of steps, and times
  std::vector<double> ends_;                                // of so many steps
  std::size_t next_ = 0;                                    // the part that leaves next
  double link_ = 0;                                         // from when on it is free
  double update_begin_ = 0, update_end_ = 0;
  PlannedSchedule result_;
};

}  // namespace detail

/// The schedule of a training step. A step of cost c takes c · seconds_of_cost, and begins when its device is free and
/// the steps of other devices that it needs have ended; all but the update run once for each shard of a batch. What
/// workers exchange moves as the program's `traffic` says; nothing where that has no formula. A part begins when it is
/// ready, of the last shard, and the parts before it have left. A sum over the batch is waited for by the step that
/// needs it; of what moves at the end of a step, results and running statistics, the end. The update begins behind the
/// last bucket. Where buckets are updated as they come, it ends when the part of each has ended, one after the other
/// and none before its bucket. Where the next pass does that, it is planned behind this one, together with what the
/// next pass has to wait for buckets; so the step ends when the next one would have if it began with this one's update.
/// Where parameters move, too, each worker updates a part of each bucket, in the order in which parameters are needed,
/// and behind that all of them gather it: the next step may begin meanwhile. Servers update buckets as they come, which
/// takes no worker's time, and send them in that order, too, when a step has ended. Parameters that move alone do so at
/// the end of the step.
inline PlannedSchedule planned_schedule(const PlannedSteps& program, const PlannedFor& given) {
  return detail::PlannedRun(program, given).run();
}

}  // namespace tenet
