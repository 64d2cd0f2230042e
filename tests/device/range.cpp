#include "tenet/device/range.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

using namespace tenet;

namespace {
struct Written {
  std::string text;
  void begin_range(const char* name) { text.append(name).append("("); }
  void end_range() { text += ")"; }
};
struct Silent {};
static_assert(HasRanges<Written> && !HasRanges<Silent>);
}  // namespace

TEST_CASE("ranges end with their scope, however it is left", "[range]") {
  Written executor;
  const auto fails = [&] {
    const OpenRange range(executor, "fails");
    throw std::runtime_error("");
  };
  {
    const OpenRange outer(executor, "outer");
    { const OpenRange inner(executor, "inner"); }
    CHECK_THROWS(fails());
  }
  CHECK(executor.text == "outer(inner()fails())");
}

TEST_CASE("an executor without ranges is asked for nothing", "[range]") {
  Silent executor;
  const OpenRange range(executor, "nothing");
  STATIC_REQUIRE(sizeof range == 1);
}
