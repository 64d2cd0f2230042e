#pragma once

/// What moving numbers between ranks costs, as plans and timelines are told it.
namespace tenet {

/// How ranks lie on machines, and what a message between ranks of one machine costs, as in `LinkCost`.
struct MachineCost {
  int count = 1;             ///< machines; 1: what `LinkCost` says is said of all ranks
  int fewest = 1, most = 1;  ///< ranks of one of them
  double seconds = 0, seconds_per_float = 0;
  bool shares = false;      ///< whether the ranks of a machine have memory in common
  bool keeps_tree = false;  ///< sums of machines, added up, are sums in the order of the tree of all ranks

  friend bool operator==(const MachineCost&, const MachineCost&) = default;
};

/// What a message of n floats costs, to choose between algorithms: seconds + n · seconds_per_float; and adding up n
/// floats: n · seconds_per_sum. Where there are several machines it is a message from one to another.
struct LinkCost {
  double seconds = 1e-6;
  double seconds_per_float = 1e-9;
  double seconds_per_sum = 1e-9;
  bool shares = false;   ///< whether the ranks have memory in common
  bool is_wire = false;  ///< whether each two of them have a link of their own; else a rank sends to one at a time
  MachineCost machine{};

  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

}  // namespace tenet
