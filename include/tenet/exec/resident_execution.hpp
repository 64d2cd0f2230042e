#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/device/range.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/exec/lanes.hpp>
#include <tenet/exec/resident_arenas.hpp>
#include <tenet/exec/step_names.hpp>
#include <tenet/exec/timed_steps.hpp>
#include <vector>

/// Programs on a device with a memory of its own: what they work on stays there from run to run.
namespace tenet {

/// An `Execution` there, with the same interface: inputs are copied in, results out. `run` returns when it has started
/// the program; `result` waits for it. If the executor has lanes, what does not depend on each other runs at once; if
/// it can record, the steps start with one call from the second run of a batch's size on. If it has ranges, a run is in
/// one that is named as the program is, and each step that is started or recorded by itself in one within.
/// For a timeline each step is started by itself, one behind the other, and its time is that between two events.
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
      : Base(executor), executor_(&executor), arenas_(&arenas), exchanges_(exchanges) {}
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
  void give(int index, const void* input) { input_at(index).from = {input, false}; }
  /// Of an input that lies in a device's memory.
  void give_there(int index, const void* input) { input_at(index).from = {input, true}; }
  /// The inputs of the next run are made there, of data that stays there (`StaysOn`): what is copied in is which
  /// samples they are.
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    use();
    const auto& data = dataset.on(*executor_);
    const int batch = static_cast<int>(samples.size());
    const long count = data.words(batch);
    words_.resize(static_cast<std::size_t>(count));
    data.describe(epoch, samples, words_.data());
    words_there_.grow(*executor_, count, "which samples a batch has");
    executor_->copy_in(words_there_.data(), words_.data(), count * 4);
    naming("making a batch", [&] {
      data.make(*executor_, reinterpret_cast<const std::uint32_t*>(words_there_.data()), batch, input(0, batch),
                input(1, batch));
    });
    inputs_[0].from = inputs_[1].from = {};
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
    start(batch, samples_of_all);
    copy_results(batch, latest_ = 0);
  }
  /// Starts a run while the one before may still be under way, of which there are two at most: the inputs are copied in
  /// meanwhile. `ahead_result` gives the results of a run by the number that this returns, until the next but one is
  /// started. The host's inputs may change behind `await_inputs`.
  long run_ahead(int batch) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    const long run = ahead_.runs++;
    latest_ = static_cast<std::size_t>(run % 2);
    if constexpr (HasLanes<Executor>) copy_in_ahead(batch);
    start(batch, batch);
    copy_results(batch, latest_);
    if constexpr (HasLanes<Executor>) ahead_.ended[latest_] = executor_->mark();
    return run;
  }
  void await_inputs() {
    if constexpr (HasLanes<Executor>)
      if (std::exchange(ahead_.copies, false)) naming("", [&] { executor_->await(ahead_.copied); });
  }
  const float* ahead_result(long run, int index) {
    const auto slot = static_cast<std::size_t>(run % 2);
    naming("", [&] {
      if constexpr (HasLanes<Executor>)
        executor_->await(ahead_.ended[slot]);
      else
        executor_->synchronize();
    });
    return results_[slot][static_cast<std::size_t>(index)].data();
  }
  /// Results stay there.
  void run_there(int batch) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    start(batch, batch);
  }
  /// Forward and backward pass of some samples: gradients are means over them. Then the update, where all of them are
  /// there, with the exchanges before it.
  void run_passes(int batch) {
    use();
    const OpenRange range(*executor_, Program::Definition::name);
    start(batch, batch, RunPart::passes);
    copy_results(batch, latest_ = 0);
  }
  void run_update() {
    use();
    const OpenRange range(*executor_, "update");
    naming("", [&] { timed_steps_.begin(*executor_); });
    Base::bring_in_numbers();  // a device without samples has run no passes
    run_part(0, false, RunPart::update);
    is_running_ = true;
  }
  const float* result(int index) const {
    await();
    return results_[latest_][static_cast<std::size_t>(index)].data();
  }
  /// Where it lies on the device. Behind `run_there` it is nowhere else.
  const float* result_there(int index) const {
    await();
    return Base::result(index);
  }
  /// Until all has run; throws what has failed.
  void await() const {
    if (std::exchange(is_running_, false))
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
  void start(int batch, long samples_of_all, RunPart part = RunPart::all) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto [from, is_there] = inputs_[i].from;
      if (from == nullptr) continue;
      float* const to = input(i, batch);
      if (to == nullptr) continue;
      const long bytes = floats_of(*Program::input_types[i], batch) * 4;
      is_there ? executor_->copy_there(to, from, bytes) : executor_->copy_in(to, from, bytes);
    }
    const long room = this->memory_floats();
    naming("", [&] { timed_steps_.begin(*executor_); });
    Base::begin(batch, samples_of_all,
                [&](int first, int last) { give_all(detail::sequence_of(first, last, {}), batch, false); });
    run_part(batch, this->memory_floats() != room, part);
    is_running_ = true;
  }
  /// Of the host's inputs: to a place from which the program's own is filled when the step before has read it.
  void copy_in_ahead(int batch) {
    Executor& lane = executor_->lane(copy_lane);
    if (ahead_.runs > 2) lane.wait(ahead_.ended[latest_]);  // who read this place last
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      auto& from = inputs_[i].from;
      if (from.data == nullptr || from.is_there || Program::input_types[i] == nullptr) continue;
      const long floats = floats_of(*Program::input_types[i], batch);
      DeviceBuffer<Executor>& place = inputs_[i].ahead[latest_];
      if (place.size() < floats) {
        place.grow(*executor_, floats, "a batch of inputs");
        lane.wait(executor_->mark());  // which clears it
      }
      lane.copy_in(place.data(), from.data, floats * 4);
      from = {place.data(), true};
      ahead_.copies = true;
    }
    if (!ahead_.copies) return;
    ahead_.copied = lane.mark();
    executor_->wait(ahead_.copied);
  }
  void copy_results(int batch, std::size_t slot) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(Program::result_count); ++i) {
      const long floats = floats_of(*Program::result_types[i], batch);
      if (floats == 0) continue;
      results_[slot][i].grow(floats);
      executor_->copy_out(results_[slot][i].data(), Base::result(static_cast<int>(i)), floats * 4);
    }
  }

  struct Input {
    struct From {
      const void* data = nullptr;
      bool is_there = false;  ///< in a device's memory; else in the host's
    } from;
    DeviceBuffer<Executor> memory;
    std::array<DeviceBuffer<Executor>, 2> ahead;
  };
  struct NoMark {};
  template <class E>
  struct MarkOf {
    using type = NoMark;
  };
  template <HasLanes E>
  struct MarkOf<E> {
    using type = typename E::Mark;
  };
  /// Runs that were started ahead, in turns on two places.
  struct Ahead {
    long runs = 0;
    std::array<typename MarkOf<Executor>::type, 2> ended;
    typename MarkOf<Executor>::type copied;
    bool copies = false;  ///< whether the last one copies inputs of the host's
  };
  Input& input_at(int index) { return inputs_[static_cast<std::size_t>(index)]; }

  static constexpr bool has_exchanges = !Exchanges::all.empty();
  static constexpr std::size_t most_recordings = 8;  ///< of batches of different sizes

  /// Where the program reads an input of a batch of this size; null if it reads none of this number.
  float* input(std::size_t i, int batch) {
    const TensorInfo* const type = Program::input_types[i];
    if (type == nullptr) return nullptr;
    inputs_[i].memory.grow(*executor_, floats_of(*type, batch), "a batch of inputs");
    Base::give(static_cast<int>(i), inputs_[i].memory.data());
    return inputs_[i].memory.data();
  }
  static long floats_of(const TensorInfo& type, int batch) { return type.size() * (type.batched ? batch : 1); }

  /// The first run of a size chooses algorithms, which takes a while and may not be recorded. Recorded steps hold the
  /// places of what they work on.
  void run_part(int batch, bool places_are_new, RunPart part) {
    if constexpr (requires { executor_->runs_one_by_one(); })
      if (executor_->runs_one_by_one()) return give_all(sequence_of<Program, Exchanges>(part), batch, true);
    if constexpr (HasTimelineRow<Executor>) {
      give_all(sequence_of<Program, Exchanges>(part), batch, false);
    } else if constexpr (requires { typename Executor::Recording; }) {
      if (places_are_new || recorded_.size() > most_recordings) recorded_.clear();
      const auto found = recorded_.find({batch, part});
      if (found != recorded_.end()) {
        if (!found->second) {
          const OpenRange range(*executor_, "recording");
          found->second = executor_->record([this, batch, part] { give_part(batch, part); });
        }
        return executor_->replay(found->second);
      }
      give_part(batch, part);
      recorded_.try_emplace({batch, part});
    } else {
      give_part(batch, part);
    }
  }
  void give_part(int batch, RunPart part) {
    // Gradients of another batch do not count, if they are weighed; where they are terms of a sum, they are zero.
    if (Program::is_on_part && batch == 0) executor_->zero(gradients(), 4 * Program::slots.parameter_floats);
    if constexpr (HasLanes<Executor>) {
      run_on_lanes(lanes_of<Program, Exchanges>(part), *executor_, [&](Executor& lane, int place) {
        give_entry(lane, batch, sequence_of<Program, Exchanges>(part)[static_cast<std::size_t>(place)], false);
      });
    } else {
      give_all(sequence_of<Program, Exchanges>(part), batch, false);
    }
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
  std::array<Input, 4> inputs_;
  std::vector<std::uint32_t> words_;  // of a batch that is made there
  DeviceBuffer<Executor> words_there_;
  std::array<std::array<PinnedBuffer<Executor>, 4>, 2> results_;
  std::size_t latest_ = 0;  ///< among them
  Ahead ahead_;
  [[no_unique_address]] mutable TimedSteps<Executor> timed_steps_;
  std::map<std::pair<int, RunPart>, typename RecordingOf<Executor>::type> recorded_;  // by samples
  mutable bool is_running_ = false;
};

}  // namespace tenet
