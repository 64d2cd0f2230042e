#include "tenet/parallel/key_value_request.hpp"

#include <catch2/catch.hpp>

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
