#include "tenet/comm/message_tag.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace tenet;

TEST_CASE("messages about different things have different tags, and a tag says what it is about", "[message_tag]") {
  for (const long most : {32767L, (1L << 24) + 5, 2147483647L}) {
    CAPTURE(most);
    const MessageTags tags(most);
    std::set<int> seen;
    long made = 0;
    for (long number = -2; number < 14; ++number) {
      for (long step = 100'000; step < 100'016; ++step, ++made) {
        const MessageLabel label{"bucket", number, step};
        const int tag = tags.tag(label, 1000);
        CHECK((tag >= 0 && tag <= most));
        seen.insert(tag);
        const MessageLabel near{"bucket", 5, 100'008};
        CHECK(tags.label(tag, near) == label);
        CHECK(std::string(tags.label(tag, near).what) == "bucket");
      }
    }
    CHECK(static_cast<long>(seen.size()) == made);
  }
}

TEST_CASE("messages of different lengths have different tags, but for one of many", "[message_tag]") {
  const auto share_of_equal = [](const MessageTags& tags, long distance) {
    int equal = 0;
    for (long floats = 0; floats < 10'000; ++floats)
      equal += tags.tag({"bucket", 3, 17}, floats) == tags.tag({"bucket", 3, 17}, floats + distance);
    return equal / 10'000.0;
  };
  for (const long distance : {1L, 5L, 64L, 1024L, 2048L, 65536L}) {
    CAPTURE(distance);
    CHECK(share_of_equal(MessageTags(32767), distance) < 0.1);
    CHECK(share_of_equal(MessageTags(2147483647), distance) < 0.01);
  }
}
