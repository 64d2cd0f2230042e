#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/io/atomic_file.hpp"
#include "tenet/io/json_string.hpp"

/// Files in the Trace Event format, JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. (Duca and Sinclair,
/// Trace Event Format, Google, 2016.)
namespace tenet {

/// A JSON object that is written member by member.
class JsonMembers {
 public:
  JsonMembers& add(std::string_view name, std::string_view value) { return put(name, detail::json_string(value)); }
  JsonMembers& add(std::string_view name, long value) { return put(name, std::to_string(value)); }
  /// The text is JSON already.
  JsonMembers& put(std::string_view name, std::string_view json) {
    text_.append(text_.empty() ? "" : ",").append(detail::json_string(name)).append(1, ':').append(json);
    return *this;
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

/// The events of a file, one a line.
///
///     TraceEvents events;
///     events.process(0, "rank 0").row(0, 1, "device 0");
///     events.complete(0, 1, "conv2d", "step", begin, end, JsonMembers().add("bytes", 4096L));
///     events.write("trace.json");
class TraceEvents {
 public:
  /// Names a process, and says where it stands among the others.
  TraceEvents& process(long process, std::string_view name, long place = 0) {
    metadata(process, 0, "process_name", JsonMembers().add("name", name));
    return metadata(process, 0, "process_sort_index", JsonMembers().add("sort_index", place));
  }
  /// Names a row of a process: one of its threads. Rows stand in the order of their numbers.
  TraceEvents& row(long process, long row, std::string_view name) {
    metadata(process, row, "thread_name", JsonMembers().add("name", name));
    return metadata(process, row, "thread_sort_index", JsonMembers().add("sort_index", row));
  }
  /// Something from `begin` to `end`, in nanoseconds. In a row, of two that meet in time one lies within the other.
  TraceEvents& complete(long process, long row, std::string_view name, std::string_view category, std::int64_t begin,
                        std::int64_t end, const JsonMembers& arguments) {
    JsonMembers event = described("X", process, row, name, category);
    event.put("ts", microseconds(begin)).put("dur", microseconds(end - begin)).put("args", arguments.text());
    return add(event);
  }
  /// Something that may meet others of its process in any way: it is drawn in a row of its own.
  TraceEvents& overlapping(long process, long row, long number, std::string_view name, std::string_view category,
                           std::int64_t begin, std::int64_t end, const JsonMembers& arguments) {
    const auto half = [&](const char* phase, std::int64_t time) {
      return described(phase, process, row, name, category).add("id", number).put("ts", microseconds(time));
    };
    add(half("b", begin).put("args", arguments.text()));
    return add(half("e", end));
  }

  std::string text() const { return head + events_ + tail; }
  /// Throws `Error` where the file cannot be written; what was there before is unchanged then.
  void write(const std::string& path) const { write(path, events_); }

  /// The events of several files that `write` has written, in one: those of the ranks of one training, say. Processes
  /// keep their numbers; times are of one clock if the ranks ran on one machine.
  static void merge(const std::vector<std::string>& paths, const std::string& into) {
    std::string all;
    for (const std::string& path : paths) {
      const std::string text = read(path);
      const std::size_t ends = std::string_view(head).size() + std::string_view(tail).size();
      if (text.size() < ends || !text.starts_with(head) || !text.ends_with(tail))
        throw Error("merging '" + path + "': not a file of events that this library has written");
      const std::string events = text.substr(std::string_view(head).size(), text.size() - ends);
      all.append(all.empty() || events.empty() ? "" : ",\n").append(events);
    }
    write(into, all);
  }

 private:
  static constexpr const char *head = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", *tail = "\n]}\n";

  static JsonMembers described(const char* phase, long process, long row, std::string_view name,
                               std::string_view category) {
    JsonMembers event;
    return event.add("ph", phase).add("pid", process).add("tid", row).add("name", name).add("cat", category);
  }
  TraceEvents& metadata(long process, long row, const char* what, const JsonMembers& arguments) {
    return add(described("M", process, row, what, "__metadata").put("args", arguments.text()));
  }
  TraceEvents& add(const JsonMembers& event) {
    events_.append(events_.empty() ? "" : ",\n").append(event.text());
    return *this;
  }
  static std::string microseconds(std::int64_t nanoseconds) {
    const bool negative = nanoseconds < 0;
    const std::int64_t size = negative ? -nanoseconds : nanoseconds;
    char text[40];
    std::snprintf(text, sizeof text, "%s%lld.%03d", negative ? "-" : "", static_cast<long long>(size / 1000),
                  static_cast<int>(size % 1000));
    return text;
  }

  static void write(const std::string& path, const std::string& events) {
    AtomicFile file(path);
    for (const std::string_view part : {std::string_view(head), std::string_view(events), std::string_view(tail)})
      file.write(part.data(), part.size());
    file.commit();
  }
  static std::string read(const std::string& path) {
    struct Close {
      void operator()(std::FILE* file) const { std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
    if (file == nullptr) throw Error("reading '" + path + "': cannot open it");
    std::string text;
    char part[1 << 14];
    for (std::size_t count; (count = std::fread(part, 1, sizeof part, file.get())) > 0;) text.append(part, count);
    if (std::ferror(file.get()) != 0) throw Error("reading '" + path + "': cannot read it");
    return text;
  }

  std::string events_;
};

}  // namespace tenet
