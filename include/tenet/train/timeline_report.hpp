#pragma once

#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <tenet/comm/collectives.hpp>
#include <tenet/core/timeline.hpp>
#include <tenet/io/trace_event.hpp>
#include <tenet/train/planned_schedule.hpp>
#include <tenet/train/recorded_row.hpp>
#include <tuple>

/// What a trainer has recorded, for people and for Perfetto.
namespace tenet {

/// How long ranks or replicas communicated, and for how much of that time some device of this rank computed.
struct CommunicationOverlap {
  double seconds = 0, hidden_seconds = 0;
  /// Of these, the time in which numbers moved. In what is left this rank waited for what others had yet to send, or
  /// servers to answer: no link, however quick, makes that shorter.
  double moving_seconds = 0, hidden_moving_seconds = 0;

  double hidden_share() const { return seconds > 0 ? hidden_seconds / seconds : 0; }
  double hidden_share_of_moving() const { return moving_seconds > 0 ? hidden_moving_seconds / moving_seconds : 0; }
};
/// Communication lasts from its beginning to its end on this rank, and so includes waiting for other ranks; that ends,
/// for a message, when the first part of it has come. While a request of a server is open, numbers move by its messages
/// alone.
inline CommunicationOverlap communication_overlap(std::span<const RecordedRow> rows) {
  std::vector<Interval> communicating, moving, computing;
  const auto add = [](std::vector<Interval>& to, const std::vector<Interval>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const RecordedRow& row : rows) {
    add(communicating, row.during({SpanKind::collective, SpanKind::message, SpanKind::request}));
    add(moving, without(row.during({SpanKind::collective, SpanKind::message}), row.during({SpanKind::wait})));
    add(computing, row.during({SpanKind::step, SpanKind::update}));
  }
  computing = united(std::move(computing));
  const auto seconds = [](std::int64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); };
  const auto overlap = [&](std::vector<Interval>& some) {
    some = united(std::move(some));
    return std::pair{seconds(length_of(some)), seconds(overlap_of(some, computing))};
  };
  const auto [all, hidden] = overlap(communicating);
  const auto [moved, hidden_moving] = overlap(moving);
  return {all, hidden, moved, hidden_moving};
}

/// A pass in a row: from the first of its steps that follow each other to the last one.
struct RecordedPass {
  const PlannedSteps* program = nullptr;
  Pass pass = Pass::forward;
  std::int64_t begin = 0, end = 0;
};
inline std::vector<RecordedPass> passes_of(const RecordedRow& row, std::span<const PlannedSteps> programs) {
  std::vector<RecordedPass> result;
  int last = -1;
  for (const Span& span : row.spans) {
    if (span.kind != SpanKind::step && span.kind != SpanKind::update) {
      if (span.kind == SpanKind::training_step) last = std::numeric_limits<int>::max();
      continue;
    }
    for (const PlannedSteps& program : programs) {
      const int index = program.index_of(span.subject);
      if (index < 0) continue;
      const Pass pass = program.steps[static_cast<std::size_t>(index)].pass;
      const bool goes_on = !result.empty() && result.back().program == &program && result.back().pass == pass &&
                           (index > last || (span.kind == SpanKind::update && last < std::numeric_limits<int>::max()));
      if (goes_on)
        result.back().end = span.end;
      else
        result.push_back({&program, pass, span.begin, span.end});
      last = index;
    }
  }
  return result;
}

/// A training's timeline, as it was when this was made: a copy, which may outlive the trainer.
///
///     trainer.timeline().write("trace.json");      // to be opened by ui.perfetto.dev
///     std::puts(trainer.timeline().text().c_str());
class TimelineReport {
 public:
  /// The first `devices` rows are those of devices.
  TimelineReport(const TimelineRecorder& recorder, std::span<const PlannedSteps> programs, std::size_t devices)
      : programs_(programs.begin(), programs.end()),
        devices_(devices),
        link_(recorder.link()),
        rank_(recorder.rank()),
        ranks_(recorder.ranks()) {
    for (const auto& row : recorder.rows()) {
      rows_.push_back({row->name(), 0, row->spans(), row->worker()});
      rows_.back().added = row->added();
    }
    links_ = links_of(rows_);
  }

  const std::vector<RecordedRow>& rows() const { return rows_; }
  /// What the messages among them moved over each link.
  const std::vector<RecordedRow>& links() const { return links_; }
  std::span<const PlannedSteps> programs() const { return programs_; }
  int rank() const { return rank_; }
  CommunicationOverlap overlap() const { return communication_overlap(rows_); }

  /// What each row did with its time, how much of the communication was hidden, and the passes of a training step of
  /// median length, beside what was planned.
  std::string text() const {
    std::string result;
    const auto line = [&](const char* format, auto... values) {
      char text[512];
      std::snprintf(text, sizeof text, format, values...);
      result += text;
    };
    const Interval all = whole();
    for (const RecordedRow& row : rows_) {
      const double busy = seconds(length_of(
          row.during({SpanKind::step, SpanKind::update, SpanKind::collective, SpanKind::message, SpanKind::request})));
      line("%-28s busy %9.6f s, %3.0f %% of the time; %zu spans", row.name.c_str(), busy,
           all.end > all.begin ? 100 * busy / seconds(all.end - all.begin) : 0, row.spans.size());
      if (row.dropped() > 0) line(", %ld older ones dropped", row.dropped());
      result += "\n";
    }
    for (const RecordedRow& link : links_) {
      const double busy = seconds(length_of(link.during({SpanKind::message})));
      double bytes = 0;
      for (const Span& span : link.spans) bytes += static_cast<double>(span.bytes);
      line("%-28s busy %9.6f s, %3.0f %% of the time; %zu messages, %.3f MB\n", link.name.c_str(), busy,
           all.end > all.begin ? 100 * busy / seconds(all.end - all.begin) : 0, link.spans.size(), 1e-6 * bytes);
    }
    if (const CommunicationOverlap found = overlap(); found.seconds > 0)
      line(
          "communication: %.6f s, %.0f %% of it hidden behind computation; numbers moved for %.6f s, %.0f %% of it "
          "hidden\n",
          found.seconds, 100 * found.hidden_share(), found.moving_seconds, 100 * found.hidden_share_of_moving());
    if (const auto step = median_step()) {
      line("training step %ld (median of those kept): %.1f us with %ld samples\n", step->span.step,
           1e6 * seconds(step->span.end - step->span.begin), step->span.number);
      line("  %-10s %12s %12s\n", "pass", "measured us", "planned us");
      for (const Pass pass : {Pass::forward, Pass::backward, Pass::update}) {
        double expected = 0;
        for (const PlannedSpan& span : step->plan.steps)
          if (step->step_of(span.index).pass == pass) expected += span.end - span.begin;
        line("  %-10s %12.1f %12.1f\n", tenet::name_of(pass), 1e6 * computing(*step, pass), 1e6 * expected);
      }
      if (!step->program->traffic.has_formula())
        line("  communication is not planned: %s\n", step->program->synchronisation);
      for (const Difference& found : furthest_from_plan(*step, 3))
        line("  furthest from the plan: %s, measured %.1f us, planned %.1f us\n",
             step->step_of(found.index).name.c_str(), 1e6 * found.measured, 1e6 * found.planned);
    }
    return result;
  }

  /// A file in the Trace Event format: a process for the rank, whose number is the rank's, with a row for each device,
  /// for communication, and for each link over which it has a message; and a process `planned_process` + rank with the
  /// planned schedule of one training step, at the time of the measured one. Files of several ranks are joined by
  /// `TraceEvents::merge`.
  void write(const std::string& path) const { events().write(path); }
  TraceEvents events() const {
    TraceEvents events;
    const long process = rank_;
    events.process(process, ranks_ > 1 ? "rank " + std::to_string(rank_) : "measured", 2 * process);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const RecordedRow& row = rows_[r];
      const long number = static_cast<long>(r) + 1;
      events.row(
          process, number,
          row.dropped() > 0 ? row.name + ", " + std::to_string(row.dropped()) + " older spans dropped" : row.name);
      long requests = 0;
      for (const Span& span : row.spans)
        if (span.kind == SpanKind::request)
          events.overlapping(process, number, ++requests, name_of(span), category_of(span.kind), span.begin, span.end,
                             arguments_of(span));
      add_row(events, process, number, row);
    }
    for (std::size_t l = 0; l < links_.size(); ++l) {
      const long number = static_cast<long>(rows_.size() + l) + 1;
      events.row(process, number, links_[l].name);
      add_row(events, process, number, links_[l]);
    }
    if (const auto step = median_step()) add_plan(events, *step);
    return events;
  }

  /// The number of the process with the planned schedule, for rank 0.
  static constexpr long planned_process = 1'000'000;

 private:
  /// The training step that is laid beside the plan.
  struct MeasuredStep {
    Span span;
    const PlannedSteps* program = nullptr;
    PlannedSchedule plan{};  ///< with the lengths that make it compute as long as was measured

    const PlannedStep& step_of(int index) const { return program->steps[static_cast<std::size_t>(index)]; }
  };
  /// Of a step, in seconds.
  struct Difference {
    int index = 0;
    double measured = 0, planned = 0;
  };

  static double seconds(std::int64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); }

  Interval whole() const {
    Interval all{std::numeric_limits<std::int64_t>::max(), 0};
    for (const RecordedRow& row : rows_)
      for (const Span& span : row.spans) all = {std::min(all.begin, span.begin), std::max(all.end, span.end)};
    return all;
  }

  /// Rows whose computing the plan is about: all devices that share a program, or the first of those that repeat it.
  std::span<const RecordedRow> planned_rows(const PlannedSteps& program) const {
    return std::span(rows_).first(std::min(program.devices > 1 ? devices_ : 1, rows_.size()));
  }
  /// Calls function(index of the step, seconds) for each step of that training step.
  template <class Function>
  void for_each_step(const MeasuredStep& step, Function function) const {
    for (const RecordedRow& row : planned_rows(*step.program))
      for (const Span& span : row.spans) {
        if (span.begin < step.span.begin || span.end > step.span.end) continue;
        if (span.kind != SpanKind::step && span.kind != SpanKind::update) continue;
        const int index = step.program->index_of(span.subject);
        if (index >= 0) function(index, seconds(span.end - span.begin));
      }
  }
  double computing(const MeasuredStep& step, std::optional<Pass> pass = {}) const {
    double sum = 0;
    for_each_step(step, [&](int index, double measured) {
      if (!pass || step.step_of(index).pass == *pass) sum += measured;
    });
    return sum;
  }
  /// The steps of which most seconds lie between what was measured and what was planned. Not those of the update, which
  /// may run by parts of the parameters.
  std::vector<Difference> furthest_from_plan(const MeasuredStep& step, std::size_t most) const {
    std::vector<Difference> all(step.program->steps.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i].index = static_cast<int>(i);
    for_each_step(step, [&](int index, double measured) { all[static_cast<std::size_t>(index)].measured += measured; });
    for (const PlannedSpan& span : step.plan.steps)
      all[static_cast<std::size_t>(span.index)].planned += span.end - span.begin;
    std::erase_if(all, [&](const Difference& one) { return step.step_of(one.index).pass == Pass::update; });
    std::stable_sort(all.begin(), all.end(), [](const Difference& a, const Difference& b) {
      return std::abs(a.measured - a.planned) > std::abs(b.measured - b.planned);
    });
    if (all.size() > most) all.resize(most);
    return all;
  }

  std::optional<MeasuredStep> median_step() const {
    std::vector<Span> kept;
    if (rows_.empty()) return {};
    const std::vector<Span>& spans = rows_[0].spans;
    for (const Span& span : spans)
      if (span.kind == SpanKind::training_step && (rows_[0].dropped() == 0 || span.begin >= spans[0].begin))
        kept.push_back(span);
    if (kept.empty()) return {};
    const auto median = kept.begin() + static_cast<std::ptrdiff_t>((kept.size() - 1) / 2);
    std::nth_element(kept.begin(), median, kept.end(),
                     [](const Span& a, const Span& b) { return a.end - a.begin < b.end - b.begin; });
    for (const PlannedSteps& program : programs_) {
      if (!program.trains) continue;
      MeasuredStep step{*median, &program};
      const int batch = static_cast<int>(median->number);
      PlannedFor given{.batch = batch, .workers = link_.workers, .link = link_.cost, .meets = meets(program, *median)};
      given.seconds_of_cost = computing(step) / planned_schedule(program, given).computing;
      step.plan = planned_schedule(program, given);
      return step;
    }
    return {};
  }

  /// Whether parameters moved in a training step, where that is not every one. What moves before the first step is that
  /// of step 0.
  bool meets(const PlannedSteps& program, const Span& step) const {
    if (program.traffic.steps == 1) return true;
    for (const RecordedRow& row : std::span(rows_).subspan(std::min(devices_, rows_.size())))
      for (const Span& span : row.spans)
        if (span.kind == SpanKind::message && span.step > 0 && span.begin >= step.begin && span.end <= step.end &&
            static_cast<const char*>(span.subject) == std::string_view("parameters"))
          return true;
    return false;
  }

  /// Passes and spans of a row, in the order in which they begin, and of several that begin together the longest first:
  /// so readers nest them.
  void add_row(TraceEvents& events, long process, long number, const RecordedRow& row) const {
    struct Shown {
      Interval when;
      const RecordedPass* pass;
      const Span* span;
    };
    std::vector<Shown> shown;
    const std::vector<RecordedPass> passes = passes_of(row, programs_);
    for (const RecordedPass& pass : passes) shown.push_back({{pass.begin, pass.end}, &pass, nullptr});
    for (const Span& span : row.spans)
      if (span.kind != SpanKind::request) shown.push_back({{span.begin, span.end}, nullptr, &span});
    const auto rank = [](const Shown& one) {
      return one.span == nullptr ? 1 : one.span->kind == SpanKind::training_step ? 0 : 2;
    };
    std::stable_sort(shown.begin(), shown.end(), [&](const Shown& a, const Shown& b) {
      return std::tuple(a.when.begin, -a.when.end, rank(a)) < std::tuple(b.when.begin, -b.when.end, rank(b));
    });
    for (const auto& [when, pass, span] : shown)
      if (pass != nullptr)
        events.complete(process, number, pass->program->trains ? tenet::name_of(pass->pass) : pass->program->name,
                        "pass", when.begin, when.end, JsonMembers().add("program", pass->program->name));
      else
        events.complete(process, number, name_of(*span), category_of(span->kind), when.begin, when.end,
                        arguments_of(*span));
  }

  void add_plan(TraceEvents& events, const MeasuredStep& step) const {
    const long process = planned_process + rank_;
    const std::string what = step.program->traffic.has_formula() ? "planned" : "planned without communication";
    events.process(process, ranks_ > 1 ? what + ", rank " + std::to_string(rank_) : what, 2L * rank_ + 1);
    const auto time = [&](double planned_seconds) {
      return step.span.begin + static_cast<std::int64_t>(1e9 * planned_seconds);
    };
    const std::span<const RecordedRow> rows = planned_rows(*step.program);
    for (std::size_t d = 0; d < rows.size(); ++d) {
      const long number = static_cast<long>(d) + 1;
      events.row(process, number, rows[d].name);
      RecordedRow row;  // as if it had run in that way
      for (const PlannedSpan& span : step.plan.steps)
        if (span.device == static_cast<int>(d))
          row.spans.push_back({.begin = time(span.begin),
                               .end = time(span.end),
                               .subject = static_cast<const char*>(step.program->first) +
                                          step.program->size * static_cast<std::size_t>(span.index)});
      add_row(events, process, number, row);
    }
    const long number = static_cast<long>(rows.size()) + 1;
    if (!step.plan.parts.empty() || !step.plan.parameters.empty()) events.row(process, number, "communication");
    const auto add = [&](const PlannedSpan& span, const std::string& name, long floats) {
      events.complete(process, number, name, "collective", time(span.begin), time(span.end),
                      JsonMembers().add("bytes", 4 * floats));
    };
    const auto part_of = [&](const PlannedSpan& span) -> const PlannedPart& {
      return step.program->parts[static_cast<std::size_t>(span.index)];
    };
    for (const PlannedSpan& span : step.plan.parts) {
      constexpr const char* names[]{"bucket", "results", "sum over the batch", "running statistics"};
      const PlannedPart& part = part_of(span);
      const std::string name = names[static_cast<int>(part.kind)];
      add(span, part.is_bucket() ? name + " " + std::to_string(part.number) : name, part.floats);
    }
    for (const PlannedSpan& span : step.plan.parameters)
      if (span.index < 0)
        add(span, "parameters", step.program->parameter_floats);
      else
        add(span, "parameters " + std::to_string(part_of(span).number), part_of(span).floats);
  }

  static const char* category_of(SpanKind kind) {
    constexpr const char* names[]{"step", "update", "training step", "wait", "collective", "message", "request"};
    return names[static_cast<int>(kind)];
  }

  const PlannedStep* planned_step_of(const Span& span) const {
    if (span.kind != SpanKind::step) return nullptr;
    for (const PlannedSteps& program : programs_)
      if (const int index = program.index_of(span.subject); index >= 0)
        return &program.steps[static_cast<std::size_t>(index)];
    return nullptr;
  }
  std::string name_of(const Span& span) const {
    if (const PlannedStep* const step = planned_step_of(span)) return step->name;
    std::string name = span.name;
    if (span.kind == SpanKind::wait)
      return "wait for " + name + (span.peer >= 0 ? " " + std::to_string(span.peer) : std::string());
    if (span.kind == SpanKind::message) name.append(" ").append(static_cast<const char*>(span.subject));
    if (span.kind == SpanKind::training_step) return name.append(" ").append(std::to_string(span.step));
    if (span.number >= 0) name.append(" ").append(std::to_string(span.number));
    return name;
  }
  JsonMembers arguments_of(const Span& span) const {
    JsonMembers result;
    if (const PlannedStep* const step = planned_step_of(span)) {
      char flops[32];
      std::snprintf(flops, sizeof flops, "%.0f", step->flops_of_sample);
      result.add("operations", step->operations).add("pass", tenet::name_of(step->pass));
      return result.put("FLOPs a sample", flops);
    }
    if (span.kind == SpanKind::training_step) return result.add("samples", span.number).add("step", span.step);
    if (span.step >= 0) result.add("step", span.step);
    if (span.bytes > 0) result.add("bytes", span.bytes);
    if (span.peer >= 0) result.add("peer", long{span.peer});
    return result;
  }

  std::vector<PlannedSteps> programs_;
  std::size_t devices_;
  TimelineLink link_;
  int rank_, ranks_;
  std::vector<RecordedRow> rows_, links_;
};

}  // namespace tenet
