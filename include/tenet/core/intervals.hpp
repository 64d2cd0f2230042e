#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenet {

/// A piece of time, [begin, end), in nanoseconds.
struct Interval {
  std::int64_t begin = 0, end = 0;

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The same points in time, each once: intervals in order that neither meet nor overlap. Empty ones are left out.
inline std::vector<Interval> united(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& interval : intervals)
    if (!result.empty() && interval.begin <= result.back().end)
      result.back().end = std::max(result.back().end, interval.end);
    else
      result.push_back(interval);
  return result;
}

/// How long intervals are that `united` has given.
inline std::int64_t length_of(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

/// When a takes place and b does not; both as `united` has given them, as is what it returns.
inline std::vector<Interval> without(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  std::size_t j = 0;
  for (Interval rest : a) {
    while (j < b.size() && b[j].end <= rest.begin) ++j;
    for (std::size_t k = j; k < b.size() && b[k].begin < rest.end; ++k) {
      if (rest.begin < b[k].begin) result.push_back({rest.begin, b[k].begin});
      rest.begin = b[k].end;
    }
    if (rest.begin < rest.end) result.push_back(rest);
  }
  return result;
}

/// For how long both take place; both as `united` has given them.
inline std::int64_t overlap_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max<std::int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return sum;
}

}  // namespace tenet
