#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/device/timeline.hpp>
#include <tenet/exec/bucket_order.hpp>
#include <tenet/exec/sparse_execution.hpp>
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
  template <class P, class Chosen>
  void add_program(const char* name, bool trains) {
    constexpr int replicas = Chosen::Strategy::replicas;
    static constexpr bool is_cut = detail::is_cut<typename Chosen::Shards>, by_buckets = Chosen::updates_by_buckets() &&
                                                                                         updates_parameters<P>() &&
                                                                                         updates_by_elements<P>();
    bool updates_late = false;
    if constexpr (by_buckets) {
      static constexpr auto plan = plan_exchange<P, is_cut>(Chosen::Buckets::bucket_bytes / 4);
      updates_late = can_update_late<P, is_cut>(plan);
      programs_.push_back(planned_steps<P>(name, replicas, plan));
    } else if constexpr (Chosen::sends_buckets()) {
      programs_.push_back(planned_steps<P>(
          name, replicas, plan_buckets(P::lowered, P::slots, trains ? Chosen::Buckets::bucket_bytes / 4 : 1)));
    } else {
      programs_.push_back(planned_steps<P>(name, replicas, BucketPlan<1>{}));
    }
    PlannedSteps& program = programs_.back();
    program.trains = trains;
    program.shares_update = !Chosen::has_own_memory;
    program.updates_late = updates_late;
    program.updates_by_buckets = by_buckets && !updates_late;
    if (!trains) {
      program.buckets.clear();
      return;
    }
    program.updates = !Chosen::asks_servers;
    program.traffic = Chosen::traffic();
    // Devices with memories of their own have links of which nothing is known here.
    program.traffic.is_known = program.traffic.is_known && !(Chosen::has_own_memory && program.traffic.moves());
    if constexpr (!std::is_void_v<typename Chosen::Synchronisation>)
      program.synchronisation = Chosen::Synchronisation::name;
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
