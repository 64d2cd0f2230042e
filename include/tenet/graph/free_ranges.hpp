#pragma once

namespace tenet::detail {

struct FreeRange {
  long offset = 0, size = 0;
};

/// Free ranges of an arena that grows at its end; best fit, neighbours are joined.
class FreeRanges {
 public:
  constexpr long take(long size) {
    int best = -1;
    for (int i = 0; i < count_; ++i)
      if (size_[i] >= size && (best < 0 || size_[i] < size_[best])) best = i;
    if (best >= 0) {
      const long offset = offset_[best];
      offset_[best] += size;
      size_[best] -= size;
      if (size_[best] == 0) remove(best);
      return offset;
    }
    if (count_ > 0 && offset_[count_ - 1] + size_[count_ - 1] == top_) {  // the last free range, made longer
      const long offset = offset_[--count_];
      top_ = offset + size;
      return offset;
    }
    const long offset = top_;
    top_ += size;
    return offset;
  }

  constexpr void give_back(long offset, long size) {
    int at = 0;
    while (at < count_ && offset_[at] < offset) ++at;
    const bool joins_left = at > 0 && offset_[at - 1] + size_[at - 1] == offset;
    const bool joins_right = at < count_ && offset + size == offset_[at];
    if (joins_left) {
      size_[at - 1] += size;
      if (joins_right) {
        size_[at - 1] += size_[at];
        remove(at);
      }
    } else if (joins_right) {
      offset_[at] = offset;
      size_[at] += size;
    } else {
      for (int i = count_; i > at; --i) {
        offset_[i] = offset_[i - 1];
        size_[i] = size_[i - 1];
      }
      offset_[at] = offset;
      size_[at] = size;
      ++count_;
    }
  }

  constexpr long top() const { return top_; }

  /// The largest free range; size 0 where there is none.
  constexpr FreeRange largest() const {
    FreeRange range;
    for (int i = 0; i < count_; ++i)
      if (size_[i] > range.size) range = {offset_[i], size_[i]};
    return range;
  }
  /// Where what is free up to the end begins.
  constexpr long end_of_taken() const {
    return count_ > 0 && offset_[count_ - 1] + size_[count_ - 1] == top_ ? offset_[count_ - 1] : top_;
  }

 private:
  constexpr void remove(int at) {
    --count_;
    for (int i = at; i < count_; ++i) {
      offset_[i] = offset_[i + 1];
      size_[i] = size_[i + 1];
    }
  }

  static constexpr int capacity = 512;
  long offset_[capacity]{}, size_[capacity]{};
  long top_ = 0;
  int count_ = 0;
};

}  // namespace tenet::detail
