#include "tenet/train/recorded_row.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("a row says when spans of some kinds took place", "[recorded_row]") {
  RecordedRow row{"device 0", 4};
  row.spans = {{.begin = 10, .end = 20},
               {.begin = 15, .end = 30},
               {.begin = 40, .end = 50, .kind = SpanKind::wait},
               {.begin = 60, .end = 70, .kind = SpanKind::update}};
  const std::vector<Interval> found = row.during({SpanKind::step, SpanKind::update});
  REQUIRE(found.size() == 2);
  CHECK(found[0].begin == 10);
  CHECK(found[0].end == 30);
  CHECK(found[1].begin == 60);
  CHECK(row.dropped() == 0);
  row.added = 7;
  CHECK(row.dropped() == 3);
}

TEST_CASE("each link has what was sent over it, in one direction", "[recorded_row]") {
  const auto message = [](const char* name, std::int64_t begin, int peer) {
    return Span{.begin = begin, .end = begin + 5, .name = name, .bytes = 40, .peer = peer, .kind = SpanKind::message};
  };
  std::vector<RecordedRow> rows(3);
  rows[0] = {"device 0", 1, {message("send", 0, 1)}};  // a device has no messages
  rows[1] = {"communication",
             4,
             {message("send", 10, 0),
              message("receive", 20, 1),
              message("send", 30, 0),
              {.begin = 1, .end = 90, .kind = SpanKind::collective}},
             2};
  rows[2] = {"communication of replica 0", 2, {message("receive", 11, 2), message("share", 50, -1)}, 0};
  const std::vector<RecordedRow> links = links_of(rows);
  std::vector<std::string> names;
  for (const RecordedRow& link : links) names.push_back(link.name);
  CHECK(names ==
        std::vector<std::string>{"link from 0 to all", "link from 2 to 0", "link from 1 to 2", "link from 2 to 0"});
  CHECK(links[1].worker == 0);  // received there, and sent here
  CHECK(links[3].worker == 2);
  REQUIRE(links[3].spans.size() == 2);
  CHECK(links[3].spans[0].begin == 10);
  CHECK(links[3].spans[1].begin == 30);
  CHECK(links[2].spans[0].begin == 20);
  CHECK(links_of({}).empty());
}
