#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../temporary_folder.hpp"
#include "json.hpp"

/// A file in the Trace Event format, as its reader sees it. What the format asks for is checked while it is read.
namespace trace {

/// Something that took time; times are microseconds.
struct Event {
  long process = 0, row = 0;
  std::string name, category;
  double begin = 0, duration = 0;
  json::Value arguments;

  double end() const { return begin + duration; }
  bool contains(const Event& other) const {
    constexpr double rounding = 1e-4;
    return begin <= other.begin + rounding && other.end() <= end() + rounding;
  }
};

struct File {
  std::map<long, std::string> processes;
  std::map<std::pair<long, long>, std::string> rows;
  std::vector<Event> events;       ///< complete ones
  std::vector<Event> overlapping;  ///< those that may meet each other

  explicit File(const std::string& text) {
    const json::Value file = json::parse(text);
    for (const json::Value& item : file["traceEvents"].items) {
      const std::string& phase = item["ph"].text;
      const auto process = static_cast<long>(item["pid"].number), row = static_cast<long>(item["tid"].number);
      if (phase == "M") {
        const std::string& what = item["name"].text;
        if (what == "process_name") CHECK(processes.emplace(process, item["args"]["name"].text).second);
        if (what == "thread_name") CHECK(rows.emplace(std::pair(process, row), item["args"]["name"].text).second);
        continue;
      }
      Event event{process, row, item["name"].text, item["cat"].text, item["ts"].number, 0, {}};
      if (phase == "e") {  // the one that began last with that number
        const auto begun = std::find_if(overlapping.rbegin(), overlapping.rend(), [&](const Event& other) {
          return other.row == row && other.process == process && other.arguments["id"].number == item["id"].number;
        });
        REQUIRE(begun != overlapping.rend());
        begun->duration = event.begin - begun->begin;
        CHECK(begun->duration >= 0);
        continue;
      }
      event.arguments = item["args"];
      if (phase == "b") {
        event.arguments.members["id"] = item["id"];
        overlapping.push_back(event);
        continue;
      }
      REQUIRE(phase == "X");
      event.duration = item["dur"].number;
      CHECK(event.duration >= 0);
      events.push_back(event);
    }
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.duration > b.duration;
    });
    check_nesting();
  }

  /// Those of a row and category, in the order in which they began.
  std::vector<Event> of(long process, long row, const std::string& category) const {
    std::vector<Event> result;
    for (const Event& event : events)
      if (event.process == process && event.row == row && event.category == category) result.push_back(event);
    return result;
  }
  std::vector<Event> within(const Event& outer, const std::string& category) const {
    std::vector<Event> result;
    for (const Event& event : of(outer.process, outer.row, category))
      if (outer.contains(event)) result.push_back(event);
    return result;
  }

 private:
  /// In a row, of two that meet one contains the other; every process and row has a name.
  void check_nesting() const {
    std::map<std::pair<long, long>, std::vector<Event>> open;
    std::vector<std::string> faults;
    for (const Event& event : events) {
      if (processes.count(event.process) == 0) faults.push_back("no name for the process of " + event.name);
      if (rows.count({event.process, event.row}) == 0) faults.push_back("no name for the row of " + event.name);
      std::vector<Event>& stack = open[{event.process, event.row}];
      while (!stack.empty() && stack.back().end() <= event.begin + 1e-4) stack.pop_back();
      if (!stack.empty() && !stack.back().contains(event))
        faults.push_back(event.name + " ends behind " + stack.back().name);
      stack.push_back(event);
    }
    CHECK(faults == std::vector<std::string>{});
  }
};

inline File read(const std::string& path) { return File(read_file(path)); }

}  // namespace trace
