#include "tenet/exec/outcome.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "../support/message.hpp"

using namespace tenet;

namespace {
struct Counted final : detail::Outcome {
  inline static int alive = 0;
  Counted() { ++alive; }
  ~Counted() override { --alive; }
  std::string what() const override { return "a test"; }
};
}  // namespace

TEST_CASE("an outcome ends with the last who holds it, as which type ever", "[outcome]") {
  detail::Held<detail::Outcome> base;
  {
    detail::Held<Counted> first(new Counted);
    CHECK(first->holders == 1);
    base = first;
    detail::Held<Counted> second = first, moved = std::move(second);
    CHECK(second == nullptr);
    CHECK(moved->holders == 3);
    moved = first;
    CHECK(first->holders == 3);
  }
  CHECK(Counted::alive == 1);
  CHECK(base->holders == 1);
  CHECK(base->what() == "a test");
  CHECK_FALSE(base->has_ended());
  base->end();
  CHECK(base->has_ended());
  base.reset();
  CHECK(Counted::alive == 0);
}

TEST_CASE("a failure says of what it is, and keeps what was thrown", "[outcome]") {
  const auto message = [](auto thrown) {
    return message_of([&] {
      try {
        throw thrown;
      } catch (...) {
        std::rethrow_exception(detail::failure_of("a copy"));
      }
    });
  };
  CHECK(message(std::runtime_error("no room")) == "a copy: no room");
  CHECK(message(3) == "a copy: an exception that is not a std::exception");
  try {
    try {
      throw std::length_error("too long");
    } catch (...) {
      detail::fail_of("a copy");
    }
  } catch (const Error& error) {
    CHECK_THROWS_AS(std::rethrow_if_nested(error), std::length_error);
  }
}

TEST_CASE("nothing awaited is not waited for, and what waits may throw", "[outcome]") {
  CHECK_NOTHROW(detail::Awaited{}());
  const detail::Awaited awaited{detail::Held<detail::Outcome>(new Counted),
                                [](const detail::Outcome& outcome) { throw Error("in vain: " + outcome.what()); }};
  CHECK(message_of(awaited) == "in vain: a test");
}
