#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tenet {

/// The rows of a table that a batch of tokens chooses, each once, in the order in which they come first. Time and
/// memory grow with the number of tokens, not with that of rows; nothing is allocated while that number does not grow.
class TouchedRows {
 public:
  /// Tokens outside [0, table_rows) choose no row.
  void find(const std::int32_t* tokens, long count, int table_rows) {
    // A hash table with linear probing, at most half full; Fibonacci hashing spreads neighbours.
    const auto capacity = std::bit_ceil(static_cast<std::uint32_t>(2 * count + 2));
    const int shift = 32 - std::countr_zero(capacity);
    if (entries_.size() < capacity) entries_.resize(capacity);
    std::fill_n(entries_.begin(), capacity, Entry{});
    positions_.resize(static_cast<std::size_t>(count));
    rows_.clear();
    rows_.reserve(static_cast<std::size_t>(count));
    for (long i = 0; i < count; ++i) {
      const std::int32_t token = tokens[i];
      std::int32_t& position = positions_[static_cast<std::size_t>(i)];
      position = -1;
      if (token < 0 || token >= table_rows) continue;
      std::uint32_t at = static_cast<std::uint32_t>(token) * 2654435769u >> shift;
      while (entries_[at].row != token && entries_[at].row >= 0) at = at + 1 == capacity ? 0 : at + 1;
      if (entries_[at].row < 0) {
        entries_[at] = {token, static_cast<std::int32_t>(rows_.size())};
        rows_.push_back(token);
      }
      position = entries_[at].position;
    }
  }

  const std::vector<std::int32_t>& rows() const { return rows_; }
  /// Of each token: where its row stands in `rows`, or -1.
  const std::vector<std::int32_t>& positions() const { return positions_; }

 private:
  struct Entry {
    std::int32_t row = -1, position = 0;
  };
  std::vector<Entry> entries_;
  std::vector<std::int32_t> rows_, positions_;
};

}  // namespace tenet
