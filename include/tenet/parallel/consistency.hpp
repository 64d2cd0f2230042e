#pragma once

namespace tenet {

/// What a pull waits for. A rank's clock at a key is the number of its pushes to it.
struct Consistency {
  /// The pushes of all ranks with the same number are one: they become part of the value together, in the order of
  /// ranks. Otherwise each does when it comes.
  bool in_rounds = true;
  /// A pull waits until the slowest rank's clock is at most so far behind that of the rank that pulls.
  long staleness = 0;

  static constexpr long unbounded = 1L << 62;
  static constexpr Consistency bulk_synchronous() { return {true, 0}; }
  static constexpr Consistency asynchronous() { return {false, unbounded}; }
  static constexpr Consistency bounded_staleness(long most) { return {false, most}; }
};

}  // namespace tenet
