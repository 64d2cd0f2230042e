#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/device/timeline.hpp>
#include <tenet/parallel/exchange_plan.hpp>
#include <tenet/parallel/shards.hpp>
#include <tenet/train/timeline_report.hpp>

/// The policy `Timeline`: what runs is recorded while it runs. Not part of tenet/tenet.hpp.
namespace tenet {

/// What a trainer records: rows, and what the programs are of which they have steps.
class TimelineRecording {
 public:
  explicit TimelineRecording(int spans_of_row) : recorder_(spans_of_row) {}

  /// A row for each device; `what` it is called: "device 0".
  template <class Devices>
  void add_rows_of(Devices& devices, const char* what) {
    const auto add = [&](auto& executor) {
      const std::string name = std::string(what) + " " + std::to_string(devices_++);
      executor.timeline_row = &recorder_.add_row(name);
    };
    if constexpr (requires { devices.size(); })
      for (int d = 0; d < devices.size(); ++d) add(devices.executor(d));
    else
      add(devices.executor());
  }

  /// Before the first step of the program P, which trains or does not.
  template <class P, class Chosen, bool trains>
  void add_program(const char* name) {
    constexpr int replicas = Chosen::Strategy::replicas;
    if constexpr (!trains) {
      programs_.push_back(planned_steps<P>(name, replicas));
    } else {
      using Planned = ExchangePlan<P, Chosen>;
      using Shards = typename Chosen::Shards;
      std::vector<ExchangedPart> parts = Planned::parts();
      for (const ExchangedPart& part : Planned::last_parts()) parts.push_back(part);
      PlannedSteps& program = programs_.emplace_back(planned_steps<P>(name, replicas, parts));
      program.trains = true;
      program.updates_late = Planned::updates_late;
      program.updates_by_buckets = Planned::updates_by_buckets && !Planned::updates_late;
      program.updates = !Chosen::asks_servers;
      program.traffic = Chosen::traffic();
      // Devices with memories of their own have links of which nothing is known here.
      program.traffic.is_known = program.traffic.is_known && !(Chosen::has_own_memory && program.traffic.moves());
      if constexpr (Shards::in_all > 0 && Chosen::has_ranks)
        program.shards_in_all = Shards::in_all / replicas;
      else
        program.shards_of_worker = detail::shards_of_worker<Shards>(replicas);
      if constexpr (!std::is_void_v<typename Chosen::Synchronisation>)
        program.synchronisation = Chosen::Synchronisation::name;
    }
    programs_.back().shares_update = !Chosen::has_own_memory;
  }

  TimelineReport report() const { return {recorder_, programs_, devices_}; }

 private:
  TimelineRecorder recorder_;
  std::vector<PlannedSteps> programs_;
  std::size_t devices_ = 0;
};

/// Each device records when every step of its programs began and ended, each link the same of what moved over it, and
/// `trainer.timeline()` shows it. A row keeps its last `Spans` spans, in 64 bytes each that are there before the first
/// step: nothing is allocated while it records. A span takes a look at the clock and eight stores.
///
/// A batch of one runs step by step as the others do, so OneSample policies do not go with this.
template <int Spans = 1 << 16>
struct Timeline {
  static_assert(Spans > 0, "Timeline<spans>: a positive number of spans that each row keeps");
  static constexpr int spans_of_row = Spans;
  template <class Kernels>
  using RecordedKernels = WithTimeline<Kernels>;
  struct Recording : TimelineRecording {
    Recording() : TimelineRecording(Spans) {}
  };
};

}  // namespace tenet
