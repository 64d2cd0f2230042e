#include "tenet/io/trace_event.hpp"

#include <catch2/catch.hpp>

#include "../support/json.hpp"
#include "../temporary_folder.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

TEST_CASE("events are as the format wants them", "[trace_event]") {
  TraceEvents events;
  events.process(3, "rank \"3\"", 6).row(3, 1, "device 0");
  events.complete(3, 1, "conv2d", "step", 1'234'567'890'123, 1'234'567'890'140, JsonMembers().add("bytes", 4096L));
  events.overlapping(3, 2, 17, "push 4", "request", 999, 2'000'000, {});
  const json::Value found = json::parse(events.text());
  const auto& list = found["traceEvents"].items;
  REQUIRE(list.size() == 7);
  CHECK(list[0]["ph"].text == "M");
  CHECK(list[0]["name"].text == "process_name");
  CHECK(list[0]["args"]["name"].text == "rank \"3\"");
  CHECK(list[0]["pid"].number == 3);
  CHECK(list[1]["args"]["sort_index"].number == 6);
  CHECK(list[2]["name"].text == "thread_name");
  CHECK(list[2]["tid"].number == 1);
  CHECK(list[4]["ph"].text == "X");
  CHECK(list[4]["name"].text == "conv2d");
  CHECK(list[4]["cat"].text == "step");
  CHECK(list[4]["ts"].written == "1234567890.123");
  CHECK(list[4]["dur"].written == "0.017");
  CHECK(list[4]["args"]["bytes"].number == 4096);
  CHECK(list[5]["ph"].text == "b");
  CHECK(list[5]["ts"].written == "0.999");
  CHECK(list[6]["ph"].text == "e");
  CHECK(list[6]["ts"].written == "2000.000");
  CHECK(list[5]["id"].number == list[6]["id"].number);
}

TEST_CASE("files are joined", "[trace_event]") {
  const TemporaryFolder folder;
  const auto write = [&](long process, const std::string& name) {
    TraceEvents events;
    events.process(process, name).complete(process, 1, "step", "step", 1000 * process, 2000, {});
    events.write(folder / name);
    return folder / name;
  };
  const std::string first = write(0, "a"), second = write(1, "b");
  TraceEvents().write(folder / "none");
  TraceEvents::merge({first, folder / "none", second}, folder / "all");
  const json::Value found = json::parse(read_file(folder / "all"));
  REQUIRE(found["traceEvents"].items.size() == 6);
  CHECK(found["traceEvents"].items[2]["pid"].number == 0);
  CHECK(found["traceEvents"].items[5]["pid"].number == 1);
  TraceEvents::merge({folder / "all", first}, folder / "again");  // what was joined can be joined
  CHECK(json::parse(read_file(folder / "again"))["traceEvents"].items.size() == 9);

  CHECK_THROWS_WITH(TraceEvents::merge({first, folder / "missing"}, folder / "all"), Contains("missing': cannot open"));
  CHECK_THROWS_WITH(TraceEvents::merge({folder.write("other", "{\"traceEvents\":[]}")}, folder / "all"),
                    Contains("not a file of events that this library has written"));
  CHECK(json::parse(read_file(folder / "all"))["traceEvents"].items.size() == 6);  // as it was
}
