#include "tenet/comm/transport.hpp"

#include <catch2/catch.hpp>
#include <chrono>

#include "../support/message.hpp"
#include "tenet/comm/thread_transport.hpp"

using namespace tenet;

namespace {

struct Mute {
  int rank() const { return 0; }
  int size() const { return 1; }
};
static_assert(!Transport<Mute>);

/// All that a transport has, but its limit is given in T.
template <class T>
struct Limited : ThreadTransport {
  T limit() const { return T(1); }
};
static_assert(Transport<Limited<std::chrono::nanoseconds>>);
static_assert(!Transport<Limited<std::chrono::seconds>> && !Transport<Limited<double>>);

}  // namespace

TEST_CASE("labels name what a message is about, and step and number make them equal", "[transport]") {
  CHECK(text(MessageLabel{"bucket", 3, 17}) == "bucket 3 of step 17");
  CHECK(text(MessageLabel{"number of samples", -1, 17}) == "number of samples of step 17");
  CHECK(MessageLabel{"bucket", 3, 17} == MessageLabel{"gradients", 3, 17});
  CHECK(!(MessageLabel{"bucket", 3, 17} == MessageLabel{"bucket", 2, 17}));
  CHECK(!(MessageLabel{"bucket", 3, 17} == MessageLabel{"bucket", 3, 18}));
}

TEST_CASE("errors name ranks, step and what did not come", "[transport]") {
  CHECK(message_of([] {
          detail::fail_waiting(1, "waits for a message from", 2, {"bucket", 3, 17}, 0.5);
        }) == "rank 1, bucket 3 of step 17: waits for a message from rank 2; expected within 0.5 s, found nothing");
  CHECK(message_of([] {
          detail::fail_message(1, 2, {"bucket", 3, 17}, 8, {"bucket", 4, 17}, 9);
        }) ==
        "rank 1: rank 2 sent another message; expected bucket 3 of step 17 with 8 numbers, found bucket 4 of step 17 "
        "with 9 numbers");
  CHECK(message_of([] {
          detail::fail_message(1, 2, {"bucket", 3, 17}, 8, {"bucket", 4, 17}, detail::unknown_length);
        }) ==
        "rank 1: rank 2 sent another message; expected bucket 3 of step 17 with 8 numbers, found bucket 4 of step 17");
  CHECK(message_of([] {
          detail::fail_message(1, 2, {"bucket", 3, 17}, 8, {"bucket", 3, 17}, detail::unknown_length);
        }) ==
        "rank 1: rank 2 sent another message; expected bucket 3 of step 17 with 8 numbers, found bucket 3 of step 17 "
        "with another number of them");
}
