#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/device/range.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/exec/host_side.hpp>
#include <tenet/exec/lanes.hpp>
#include <tenet/exec/resident_arenas.hpp>
#include <tenet/exec/resident_inputs.hpp>
#include <tenet/exec/step_names.hpp>
#include <tenet/exec/timed_steps.hpp>
#include <tuple>

/// Programs on a device with a memory of its own: what they work on stays there from run to run.
namespace tenet {

/// An `Execution` there, with the same interface: inputs are copied in, results out. `run` returns when it has started
/// the program; `result` waits for it. If the executor has lanes, what does not depend on each other runs at once; if
/// it can record, the steps, and the copies of numbers and results around them, start with one call from the second
/// run of a batch's size on. If it has ranges, a run is in one that is named as the program is, and each step that is
/// started or recorded by itself in one within. For a timeline each step is started by itself, one behind the other,
/// and its time is that between two events.
///
/// Of several devices that run a training step together each has one, with `Exchanges` that say what they do together
/// (`sequence_of`), and start it: give(lane, i, memory) exchange i in an arena's memory, add_up(lane, from, to, floats)
/// a sum over the whole batch. One of them may have no samples. Where each of them updates a part of the parameters
/// (`Exchanges::updates_parts`), update(lane, execution, step, parameters, gradients) does a step of that.
template <class Program, class Exchanges>
class ResidentExecution : public Execution<Program, OneSampleNever> {
  using Base = Execution<Program, OneSampleNever>;

 public:
  using Executor = typename Base::Executor;

  static_assert(!HasTimelineRow<Executor> || HasTimedEvents<Executor>,
                "Timeline<> of a device with a memory of its own: one that has events of its own");

  template <class Devices>
  explicit ResidentExecution(Devices& devices) : ResidentExecution(devices.executor(), devices.arenas()) {}
  ResidentExecution(Executor& executor, ResidentArenas<Executor>& arenas, Exchanges* exchanges = nullptr)
      : Base(executor), executor_(&executor), arenas_(&arenas), exchanges_(exchanges) {
    numbers_there_.grow(executor, Base::numbers().size(), "the numbers of a program");
    Base::bind(Arena::numbers, numbers_there_.data());
  }
  ResidentExecution(const ResidentExecution&) = delete;
  ResidentExecution& operator=(const ResidentExecution&) = delete;
  ~ResidentExecution() {
    try {
      executor_->synchronize();  // nothing that runs uses the memory
    } catch (const Error&) {     // said already to whoever asked for the result
    }
  }

  /// Where the host's copies are; null for those that it does not keep.
  void bind(Arena arena, float* host) {
    if (Exchanges::updates_parts && arena == Arena::states) return;  // they keep those of a part
    const long floats = arena == Arena::buffers  ? Program::slots.buffer_floats
                        : arena == Arena::states ? Program::state_count * Program::slots.parameter_floats
                        : arena == Arena::gradients && host == nullptr ? 0
                                                                       : Program::slots.parameter_floats;
    Base::bind(arena, arenas_->place(arena, host, floats));
  }
  void give(int index, const void* input) { inputs_.give(index, {input, false}); }
  /// Of an input that lies in a device's memory.
  void give_there(int index, const void* input) { inputs_.give(index, {input, true}); }
  /// The inputs of the next run are made there, of data that stays there (`StaysOn`): what is copied in is which
  /// samples they are.
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    use();
    naming("making a batch", [&] { inputs_.make(*executor_, dataset, epoch, samples); });
  }
  void use_weights(std::uint64_t version) {
    arenas_->bring_in(version);
    Base::use_weights(version);
  }
  void collect_gradients() { arenas_->bring_back_gradients(); }

  void run(int batch) { run(batch, batch); }
  /// The same for a device with `batch` of the samples, perhaps none, that all devices have.
  void run(int batch, long samples_of_all) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    start({batch}, samples_of_all);
  }
  /// Starts a run while the one before may still be under way, of which there are two at most: the inputs are copied in
  /// meanwhile. `ahead_result` gives the results of a run by the number that this returns, until the next but one is
  /// started. The host's inputs may change behind `await_inputs`.
  long run_ahead(int batch) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    const long run = ahead_++;
    const auto side = static_cast<std::size_t>(run % 2);
    inputs_.copy_in_ahead(*executor_, batch, side);
    start({batch, RunPart::all, true, side}, batch);
    if constexpr (HasLanes<Executor>) {
      inputs_.has_ended(side, executor_->mark());
      under_way_[side] = UnderWay::until_mark;
    }
    return run;
  }
  void await_inputs() {
    naming("", [&] { inputs_.await_copies(*executor_); });
  }
  const float* ahead_result(long run, int index) {
    const auto side = static_cast<std::size_t>(run % 2);
    await_side(side);
    return host_[side].result(index);
  }
  /// Results stay there.
  void run_there(int batch) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    start({batch, RunPart::all, false}, batch);
  }
  /// Forward and backward pass of some samples: gradients are means over them. Then the update, where all of them are
  /// there, with the exchanges before it.
  void run_passes(int batch) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    start({batch, RunPart::passes}, batch);
  }
  void run_update() {
    use();
    const OpenRange range(*executor_, "update");
    naming("", [&] { timed_steps_.begin(*executor_); });
    set_numbers(0);  // a device without samples has run no passes
    give({0, RunPart::update, false}, false);
  }
  const float* result(int index) const {
    await();
    return host_[latest_].result(index);
  }
  /// Where it lies on the device. Behind `run_there` it is nowhere else.
  const float* result_there(int index) const {
    await();
    return Base::result(index);
  }
  /// Until all has run; throws what has failed.
  void await() const {
    if (std::exchange(under_way_, {}) != std::array<UnderWay, 2>{})
      naming("", [&] {
        if constexpr (has_exchanges) exchanges_->await(*executor_);
        executor_->synchronize();
        timed_steps_.add_to_row(*executor_);
      });
  }
  /// Those of the last passes, in the device's memory.
  float* gradients() { return arenas_->memory(Arena::gradients); }

 private:
  /// By whatever thread it is called.
  void use() {
    if constexpr (requires { executor_->use(); }) executor_->use();
  }
  /// What a run starts: a part of a program on so many samples, of which results may stay on the device; and which of
  /// two sides of the host it reads its numbers from.
  struct Run {
    int batch;
    RunPart part = RunPart::all;
    bool has_results = true;
    std::size_t side = 0;
  };
  /// Until when the last run that uses a side of the host is under way: until its mark is reached, or all has ended.
  enum class UnderWay : unsigned char { nothing, until_mark, until_end };

  void start(const Run& run, long samples_of_all) {
    inputs_.copy_in(*executor_, run.batch);
    for (int i = 0; i < ResidentInputs<Program>::count; ++i)
      if (float* const input = inputs_.at(i)) Base::give(i, input);
    const long room = this->memory_floats();
    naming("", [&] { timed_steps_.begin(*executor_); });
    Base::find_room(run.batch, samples_of_all);
    set_numbers(run.side);
    Base::run_prepared([&](int first, int last) {
      copy_numbers_in(run.side);
      give_all(detail::sequence_of(first, last, {}), run.batch, false);
    });
    if (run.has_results && host_[run.side].make_room(run.batch, [&] { await_side(run.side); }))
      for (auto& [key, recordings] : recorded_) recordings[run.side] = {};
    give(run, this->memory_floats() != room);
    latest_ = run.side;
  }
  /// Those of a run, before it is started. Numbers that change are copied in by it.
  void set_numbers(std::size_t side) {
    const float* const numbers = Base::numbers().data();
    if constexpr (detail::has_changing_numbers<Program>)
      host_[side].set_numbers(numbers, [&] { await_side(side); });
    else if (host_[0].set_numbers(numbers, [&] { await(); }))
      host_[0].copy_numbers_in(*executor_, numbers_there_.data());
  }
  /// Waits until the run that uses this side of the host has ended.
  void await_side(std::size_t side) const {
    if constexpr (HasLanes<Executor>)
      if (under_way_[side] == UnderWay::until_mark) {
        under_way_[side] = UnderWay::nothing;
        return naming("", [&] { executor_->await(inputs_.ended(side)); });
      }
    if (under_way_[side] != UnderWay::nothing) await();
  }

  static constexpr bool has_exchanges = !Exchanges::all.empty();
  static constexpr std::size_t most_recordings = 8;  ///< of batches of different sizes

  /// Starts a run. The first one of a size chooses algorithms, which takes a while and may not be recorded. Recorded
  /// steps hold the places of what they work on.
  void give(const Run& run, bool places_are_new) {
    under_way_[run.side] = UnderWay::until_end;
    if constexpr (requires { executor_->runs_one_by_one(); })
      if (executor_->runs_one_by_one()) return give_parts(run, true);
    if constexpr (HasTimelineRow<Executor>) {
      give_parts(run, false);
    } else if constexpr (requires { typename Executor::Recording; }) {
      if (places_are_new || recorded_.size() > most_recordings) recorded_.clear();
      const std::tuple key{run.batch, run.part, run.has_results};
      const auto found = recorded_.find(key);
      if (found != recorded_.end()) {
        auto& recording = found->second[run.side];
        if (!recording) {
          const OpenRange range(*executor_, "recording");
          recording = executor_->record([this, run] { give_parts(run, false); });
        }
        return executor_->replay(recording);
      }
      give_parts(run, false);
      recorded_.try_emplace(key);
    } else {
      give_parts(run, false);
    }
  }
  /// Its numbers, steps and results.
  void give_parts(const Run& run, bool waits) {
    copy_numbers_in(run.side);
    // Gradients of another batch do not count, if they are weighed; where they are terms of a sum, they are zero.
    if (Program::is_on_part && run.batch == 0) executor_->zero(gradients(), 4 * Program::slots.parameter_floats);
    const auto& sequence = sequence_of<Program, Exchanges>(run.part);
    if constexpr (HasLanes<Executor> && !HasTimelineRow<Executor>) {
      if (!waits)
        run_on_lanes(lanes_of<Program, Exchanges>(run.part), *executor_, [&](Executor& lane, int place) {
          give_entry(lane, run.batch, sequence[static_cast<std::size_t>(place)], false);
        });
      else
        give_all(sequence, run.batch, true);
    } else {
      give_all(sequence, run.batch, waits);
    }
    if (run.has_results) host_[run.side].copy_out(*executor_, run.batch, [this](int i) { return Base::result(i); });
  }
  void copy_numbers_in(std::size_t side) {
    if constexpr (detail::has_changing_numbers<Program>) host_[side].copy_numbers_in(*executor_, numbers_there_.data());
  }
  /// One behind the other. If each is waited for before the next one starts, it is known what fails.
  void give_all(std::span<const SequenceEntry> sequence, int batch, bool waits) {
    timed_steps_.restart(*executor_);
    for (const SequenceEntry& entry : sequence) {
      give_entry(*executor_, batch, entry, waits);
      timed_steps_.end_step(*executor_, span_of(entry));
    }
  }
  void give_entry(Executor& lane, int batch, const SequenceEntry& entry, bool waits) {
    if constexpr (has_exchanges) {
      if (entry.exchange >= 0) {
        const Exchange& exchange = Exchanges::all[static_cast<std::size_t>(entry.exchange)];
        const OpenRange range(*executor_, exchange.name);
        exchanges_->give(lane, entry.exchange, arenas_->memory(exchange.arena));  // its errors say what it is
        if (waits) exchanges_->await(lane);
        return;
      }
      if constexpr (Program::is_on_part)
        if (entry.is_shared) return add_up(lane, batch, entry.step);
      // Without samples there is only the update.
      if (batch == 0 && !updates_or_moves<Program>(entry.step)) return;
    }
    give_step(lane, entry.step, waits);
  }
  void add_up(Executor& lane, int batch, int s) {
    const auto& step = Program::lowered.steps[s];
    const auto range = range_of(s);
    auto* const to = static_cast<float*>(const_cast<void*>(this->at(step.result)));
    if (batch == 0) lane.zero(to, 4 * step.attribute);
    exchanges_->add_up(lane, batch == 0 ? to : static_cast<const float*>(this->at(step.operands[0])), to,
                       step.attribute);
  }
  void give_step(Executor& lane, int s, bool waits) {
    const auto range = range_of(s);
    naming(Program::lowered.steps[s].name, [&] {
      if constexpr (Exchanges::updates_parts) {
        if (updates_or_moves<Program>(s) && is_over_parameters<Program>(s))
          exchanges_->update(lane, *this, s, arenas_->memory(Arena::parameters), gradients());
        else
          this->run_steps(lane, s, s + 1);
      } else {
        this->run_steps(lane, s, s + 1);
      }
      if (waits) lane.synchronize();
    });
  }
  static Span span_of(const SequenceEntry& entry) {
    if constexpr (has_exchanges)
      if (entry.exchange >= 0) {
        const Exchange& exchange = Exchanges::all[static_cast<std::size_t>(entry.exchange)];
        return {.name = exchange.name,
                .number = entry.exchange,
                .bytes = 4 * exchange.floats,
                .kind = SpanKind::collective};
      }
    const auto& step = Program::lowered.steps[entry.step];
    return {.name = step.name, .subject = &step};
  }
  OpenRange<Executor> range_of(int s) {
    if constexpr (HasRanges<Executor>)
      return {*executor_, step_names<Program>()[static_cast<std::size_t>(s)].c_str()};
    else
      return {*executor_, ""};
  }

  /// Calls function(); an `Error` from there says of which program and step it is ("": of any).
  template <class Function>
  [[gnu::always_inline]] static void naming(const char* step, const Function& function) {
    try {
      function();
    } catch (const Error& error) {
      rethrow(step, error);
    }
  }
  [[noreturn, gnu::cold]] static void rethrow(const char* step, const Error& error) {
    throw Error(std::string(Program::Definition::name) + (*step != '\0' ? ", step " : "") + step + ": " + error.what());
  }

  struct NoRecording {};
  template <class E>
  struct RecordingOf {
    using type = NoRecording;
  };
  template <class E>
    requires requires { typename E::Recording; }
  struct RecordingOf<E> {
    using type = typename E::Recording;
  };

  Executor* executor_;
  ResidentArenas<Executor>* arenas_;
  Exchanges* exchanges_;
  ResidentInputs<Program> inputs_;
  DeviceBuffer<Executor> numbers_there_;
  std::array<HostSide<Program>, 2> host_;
  std::size_t latest_ = 0;  ///< among them
  mutable std::array<UnderWay, 2> under_way_{};
  long ahead_ = 0;  ///< runs that were started ahead, in turns on the two
  [[no_unique_address]] mutable TimedSteps<Executor> timed_steps_;
  /// By samples, part, and whether there are results; and by the side of the host.
  std::map<std::tuple<int, RunPart, bool>, std::array<typename RecordingOf<Executor>::type, 2>> recorded_;
};

}  // namespace tenet
