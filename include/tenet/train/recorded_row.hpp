#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <tenet/core/intervals.hpp>
#include <tenet/core/span.hpp>
#include <utility>
#include <vector>

/// What the rows of a timeline have, when nobody adds to them any more.
namespace tenet {

/// A row as it was when the report was made.
struct RecordedRow {
  std::string name;
  long added = 0;             ///< of these the last ones are kept
  std::vector<Span> spans{};  ///< in the order in which they ended
  int worker = -1;            ///< the rank or replica whose messages it has; negative: of none

  long dropped() const { return added - static_cast<long>(spans.size()); }
  /// When one of these kinds took place.
  std::vector<Interval> during(std::initializer_list<SpanKind> kinds) const {
    std::vector<Interval> result;
    for (const Span& span : spans)
      if (std::find(kinds.begin(), kinds.end(), span.kind) != kinds.end()) result.push_back({span.begin, span.end});
    return united(std::move(result));
  }
};

/// A row for each link: what one worker sent to another, or received from it, and when. A link is a pair of workers in
/// one direction; numbers that lie in memory that all have in common go from a worker to all.
inline std::vector<RecordedRow> links_of(std::span<const RecordedRow> rows) {
  std::vector<RecordedRow> links;
  for (const RecordedRow& row : rows)
    for (const Span& span : row.spans) {
      if (span.kind != SpanKind::message || row.worker < 0) continue;
      const bool is_received = std::string_view(span.name) == "receive";
      const std::string own = std::to_string(row.worker), other = span.peer < 0 ? "all" : std::to_string(span.peer);
      const std::string name = "link from " + (is_received ? other + " to " + own : own + " to " + other);
      auto link = std::find_if(links.begin(), links.end(),
                               [&](const RecordedRow& one) { return one.name == name && one.worker == row.worker; });
      if (link == links.end()) link = links.insert(links.end(), {name, 0, {}, row.worker});
      ++link->added;
      link->spans.push_back(span);
    }
  std::stable_sort(links.begin(), links.end(), [](const RecordedRow& a, const RecordedRow& b) {
    return a.worker != b.worker ? a.worker < b.worker : a.name < b.name;
  });
  return links;
}

}  // namespace tenet
