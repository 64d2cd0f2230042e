#pragma once

#include <tenet/comm/transport.hpp>
#include <vector>

/// Which ranks run on one machine.
namespace tenet {

/// The ranks of each machine, by their place on it: the first one has place 0.
class MachineTopology {
 public:
  /// Of each rank a number of its machine, whatever it is; and what a message inside of a machine costs.
  template <class Number>
  MachineTopology(const std::vector<Number>& machine_of_rank, const LinkCost& inside) : inside_(inside) {
    std::vector<Number> numbers;
    for (const Number& number : machine_of_rank) {
      int machine =
          static_cast<int>(numbers.size()) - 1;  // from the last one: neighbours are on one machine, as a rule
      while (machine >= 0 && !(numbers[index(machine)] == number)) --machine;
      if (machine < 0) {
        machine = static_cast<int>(numbers.size());
        numbers.push_back(number);
        ranks_.emplace_back();
      }
      const int rank = static_cast<int>(places_.size());
      places_.push_back({machine, static_cast<int>(ranks_[index(machine)].size())});
      ranks_[index(machine)].push_back(rank);
    }
    fewest_ = most_ = ranks_.empty() ? 0 : static_cast<int>(ranks_[0].size());
    for (const std::vector<int>& ranks : ranks_) {
      const int size = static_cast<int>(ranks.size());
      fewest_ = size < fewest_ ? size : fewest_;
      most_ = size > most_ ? size : most_;
    }
    ranks_at_.resize(index(fewest_));
    for (const std::vector<int>& ranks : ranks_)
      for (int place = 0; place < fewest_; ++place) ranks_at_[index(place)].push_back(ranks[index(place)]);
  }

  int count() const { return static_cast<int>(ranks_.size()); }
  /// Ranks of a machine.
  int fewest() const { return fewest_; }
  int most() const { return most_; }

  int machine_of(int rank) const { return places_[index(rank)].machine; }
  int place_of(int rank) const { return places_[index(rank)].place; }
  bool are_together(int a, int b) const { return machine_of(a) == machine_of(b); }
  /// Those of a machine, in their order.
  const std::vector<int>& ranks(int machine) const { return ranks_[index(machine)]; }
  /// Those of all machines that have the same place, which is one that all machines have.
  const std::vector<int>& ranks_at(int place) const { return ranks_at_[index(place)]; }

  LinkCost inside() const { return inside_; }
  MachineCost cost() const {
    return {count(), fewest_, most_, inside_.seconds, inside_.seconds_per_float, inside_.shares, keeps_tree()};
  }

 private:
  struct Place {
    int machine, place;
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  /// A power of two consecutive ranks on each: they are a subtree.
  bool keeps_tree() const {
    if (fewest_ != most_ || (most_ & (most_ - 1)) != 0) return false;
    for (int rank = 0; rank < static_cast<int>(places_.size()); ++rank)
      if (machine_of(rank) * most_ + place_of(rank) != rank) return false;
    return true;
  }

  LinkCost inside_;
  int fewest_ = 0, most_ = 0;
  std::vector<std::vector<int>> ranks_, ranks_at_;
  std::vector<Place> places_;
};

/// A `Transport` that knows which ranks run on one machine.
///
///     const MachineTopology* machines()
///         Null: nothing is known, or all run on one; then `link()` is for all of them. The same on all ranks.
template <class T>
concept KnowsMachines = Transport<T> && requires(T& transport) {
  { transport.machines() } -> std::same_as<const MachineTopology*>;
};

/// One whose ranks of a machine can have memory in common, as it may turn out when the program runs.
///
///     bool share_inside(float* data, long floats, MessageLabel, float weight, use)
///         What `share` is among all ranks, among those of a machine; shared[i] are the numbers of that with place i.
template <class T>
concept SharesInside = KnowsMachines<T> && requires(T& transport, float* data, void (*use)(const SharedNumbers*)) {
  { transport.memory(0L) } -> std::same_as<float*>;
  { transport.share_inside(data, 0L, MessageLabel{}, 1.0f, use) } -> std::same_as<bool>;
};

}  // namespace tenet
