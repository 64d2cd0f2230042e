#include "tenet/parallel/key_value_request.hpp"

#include <catch2/catch.hpp>
#include <thread>

using namespace tenet;

TEST_CASE("what nobody answers is named", "[key_value_request]") {
  detail::Request request;
  request.key = 4;
  request.store = std::make_shared<detail::StoreState>();
  request.store->rank = 3;
  request.store->limit = std::chrono::milliseconds(2500);
  request.asked = {0, 1, 5};
  request.answered = std::vector<std::atomic<bool>>(3);
  request.answered[1] = true;
  const std::string message = "rank 3, pull of key 4: waits for server 0, 5",
                    rest = "; expected within 2.5 s, found no answer";
  CHECK_THROWS_WITH(detail::fail_unanswered(request), message + rest);
  request.missing = 2;
  CHECK_THROWS_WITH(detail::fail_unanswered(request), message + ", which waits for a push from rank 2" + rest);
  request.missing = detail::Request::value;
  CHECK_THROWS_WITH(detail::fail_unanswered(request), message + ", which waits for somebody to assign it" + rest);
}

TEST_CASE("a request that nobody has made is done", "[key_value_request]") {
  PendingRequest request;
  CHECK(request.ready());
  CHECK_NOTHROW(request.wait());
}

TEST_CASE("a value is cut where each server has enough of it, else lies on one by its key", "[key_value_request]") {
  const int servers[]{4, 0, 7};
  for (const int key : {-1, 0, 1, 2, 5}) {
    const auto whole = detail::parts_on(servers, key, 3 * detail::enough_for_a_server - 1);
    REQUIRE(whole.size() == 1);
    CHECK(whole[0].server == servers[(key + 3) % 3]);
    CHECK(whole[0].range.first == 0);
    CHECK(whole[0].range.count == 3 * detail::enough_for_a_server - 1);
  }
  for (const long floats : {3 * detail::enough_for_a_server, 100'003L}) {
    const auto parts = detail::parts_on(servers, 5, floats);
    REQUIRE(parts.size() == 3);
    long next = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(parts[i].server == servers[i]);
      CHECK(parts[i].number == i);
      CHECK(parts[i].range.first == next);
      CHECK(std::abs(parts[i].range.count - floats / 3) < 32);
      next += parts[i].range.count;
    }
    CHECK(next == floats);
  }
  CHECK(detail::parts_on({servers, 1}, 5, 100'003).size() == 1);
}

TEST_CASE("whoever has waited wakes the store's thread where his last turn had something to do",
          "[key_value_request]") {
  using namespace std::chrono_literals;
  for (const bool is_left : {true, false}) {
    CAPTURE(is_left);
    detail::StoreState state;
    Doorbell doorbell;
    doorbell.open();
    state.doorbell = &doorbell;
    state.limit = 10s;
    int turns = 0;
    std::vector<bool> helped;
    state.take_turn = [&] {
      helped.push_back(state.is_helped);
      if (turns == 1) {
        doorbell.ring();  // wakes nobody: what comes meanwhile is for him who waits
        std::this_thread::sleep_for(20ms);
      }
      return ++turns < 3 || is_left;
    };
    std::atomic<bool> is_awake{false};
    std::thread thread([&] {
      doorbell.sleep_unless([] { return false; }, is_left ? 20s : 200ms);
      is_awake = true;
    });
    std::this_thread::sleep_for(50ms);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(state.wait([&] { return turns >= 2; }) == true);
    CHECK(turns == 3);
    CHECK(helped == std::vector{true, true, false});
    if (!is_left) CHECK_FALSE(is_awake);
    thread.join();
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
  }
}
