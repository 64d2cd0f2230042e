#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <tenet/device/own_memory.hpp>
#include <tenet/exec/lanes.hpp>
#include <tenet/exec/program.hpp>
#include <utility>
#include <vector>

/// The batch of a run on a device with a memory of its own.
namespace tenet {

/// Where a program there reads its inputs, and what is copied to that place, or made in it, for the next run.
template <class Program>
class ResidentInputs {
  struct NoMark {};
  template <class E>
  struct MarkOf {
    using type = NoMark;
  };
  template <HasLanes E>
  struct MarkOf<E> {
    using type = typename E::Mark;
  };

 public:
  using Executor = typename Program::Kernels::Executor;
  using Mark = typename MarkOf<Executor>::type;
  static constexpr int count = 4;

  struct From {
    const void* data = nullptr;
    bool is_there = false;  ///< in a device's memory; else in the host's
  };
  void give(int index, const From& from) { inputs_[static_cast<std::size_t>(index)].from = from; }
  /// Of data that stays on the device: copies in which samples they are, and makes the batch.
  template <class Dataset>
  void make(Executor& executor, const Dataset& dataset, long epoch, std::span<const long> samples) {
    const auto& data = dataset.on(executor);
    const int batch = static_cast<int>(samples.size());
    const long words = data.words(batch);
    words_.resize(static_cast<std::size_t>(words));
    data.describe(epoch, samples, words_.data());
    words_there_.grow(executor, words, "which samples a batch has");
    executor.copy_in(words_there_.data(), words_.data(), words * 4);
    data.make(executor, reinterpret_cast<const std::uint32_t*>(words_there_.data()), batch, room(executor, 0, batch),
              room(executor, 1, batch));
    inputs_[0].from = inputs_[1].from = {};
  }

  /// To where the program reads them.
  void copy_in(Executor& executor, int batch) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto [from, is_there] = inputs_[i].from;
      float* const to = from == nullptr ? nullptr : room(executor, i, batch);
      if (to == nullptr) continue;
      const long bytes = Program::input_types[i]->size(batch) * 4;
      is_there ? executor.copy_there(to, from, bytes) : executor.copy_in(to, from, bytes);
    }
  }
  /// Where that is; null: nowhere yet.
  float* at(int index) { return inputs_[static_cast<std::size_t>(index)].memory.data(); }

  /// Of the host's inputs, while the run before may still be under way: to a place from which the program's own is
  /// filled when that has read it. There are two, in turns.
  void copy_in_ahead([[maybe_unused]] Executor& executor, [[maybe_unused]] int batch,
                     [[maybe_unused]] std::size_t place) {
    if constexpr (HasLanes<Executor>) {
      Executor& lane = executor.lane(copy_lane);
      if (is_used_[place]) lane.wait(ended_[place]);  // who read this place last
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        auto& from = inputs_[i].from;
        if (from.data == nullptr || from.is_there || Program::input_types[i] == nullptr) continue;
        const long floats = Program::input_types[i]->size(batch);
        DeviceBuffer<Executor>& memory = inputs_[i].ahead[place];
        if (memory.size() < floats) {
          memory.grow(executor, floats, "a batch of inputs");
          lane.wait(executor.mark());  // which clears it
        }
        lane.copy_in(memory.data(), from.data, floats * 4);
        from = {memory.data(), true};
        has_copies_ = true;
      }
      if (!has_copies_) return;
      copied_ = lane.mark();
      executor.wait(copied_);
    }
  }
  /// The host may change its inputs behind this.
  void await_copies([[maybe_unused]] Executor& executor) {
    if constexpr (HasLanes<Executor>)
      if (std::exchange(has_copies_, false)) executor.await(copied_);
  }
  /// The run that reads this place has ended when that mark is reached.
  void has_ended(std::size_t place, Mark mark) {
    ended_[place] = std::move(mark);
    is_used_[place] = true;
  }
  const Mark& ended(std::size_t place) const { return ended_[place]; }

 private:
  struct Input {
    From from;
    DeviceBuffer<Executor> memory;
    std::array<DeviceBuffer<Executor>, 2> ahead;
  };

  /// Where the program reads an input of a batch of this size; null if it reads none of this number.
  float* room(Executor& executor, std::size_t i, int batch) {
    if (Program::input_types[i] == nullptr) return nullptr;
    inputs_[i].memory.grow(executor, Program::input_types[i]->size(batch), "a batch of inputs");
    return inputs_[i].memory.data();
  }

  std::array<Input, count> inputs_;
  std::vector<std::uint32_t> words_;  // of a batch that is made there
  DeviceBuffer<Executor> words_there_;
  std::array<Mark, 2> ended_{};
  std::array<bool, 2> is_used_{};
  Mark copied_{};
  bool has_copies_ = false;  // of the host's inputs, in the last run that was started ahead
};

}  // namespace tenet
