#include "tenet/core/fixed_string.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <type_traits>

using tenet::FixedString;
using tenet::Text;

namespace {

template <FixedString name>
struct Tagged {
  static constexpr auto text = name.view();
};

// The same letters are the same type, wherever they stand.
static_assert(std::is_same_v<Tagged<"stem">, Tagged<FixedString("stem")>>);
static_assert(!std::is_same_v<Tagged<"stem">, Tagged<"stems">>);
static_assert(Tagged<"">::text.empty());

constexpr Text layer = Text{}.put("layer").put(4).put(".").put(-17);
static_assert(layer.view() == "layer4.-17");
static_assert(std::is_same_v<Tagged<tenet::fixed_string<layer>()>, Tagged<"layer4.-17">>);
static_assert(tenet::fixed_string<Text{}>().view().empty());

std::string written(long number) { return std::string(Text{}.put(number).view()); }

}  // namespace

TEST_CASE("fixed strings hold their letters without the zero behind them", "[fixed_string]") {
  CHECK(Tagged<"conv1">::text == "conv1");
  CHECK(Tagged<"conv1">::text.size() == 5);
  CHECK(FixedString<4>().view() == std::string_view("\0\0\0", 3));
}

TEST_CASE("texts write whole numbers", "[fixed_string]") {
  using Limits = std::numeric_limits<long>;
  for (const long number : {0L, 1L, 9L, 10L, 100L, -1L, -10L, 1234567890L, Limits::max(), Limits::min()})
    CHECK(written(number) == std::to_string(number));
}

TEST_CASE("texts cut off what does not fit", "[fixed_string]") {
  Text text;
  for (int i = 0; i < 24; ++i) text.put("12345678");
  CHECK(text.size == Text::capacity);
  CHECK(text.view().substr(184) == "1234567");
  CHECK(text.text[Text::capacity] == 0);
  text.put("more").put(12);
  CHECK(text.size == Text::capacity);
}
