#include "tenet/exec/sequence.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

namespace {

std::vector<int> numbers_of(const std::vector<SequenceEntry>& sequence) {
  std::vector<int> numbers;
  for (const SequenceEntry& entry : sequence) numbers.push_back(entry.exchange < 0 ? entry.step : -1 - entry.exchange);
  return numbers;
}

}  // namespace

TEST_CASE("exchanges stand behind the steps that they say", "[exec][sequence]") {
  const std::vector<Exchange> exchanges{{.after = 2}, {.after = 3}, {.after = 3}, {.after = 5}};
  CHECK(numbers_of(detail::sequence_of(0, 5, exchanges)) == std::vector<int>{0, 1, -1, 2, -2, -3, 3, 4, -4});
  CHECK(numbers_of(detail::sequence_of(3, 5, exchanges)) == std::vector<int>{-1, -2, -3, 3, 4, -4});
  CHECK(numbers_of(detail::sequence_of(1, 3, {})) == std::vector<int>{1, 2});
}

TEST_CASE("an exchange reads and writes its part of an arena, and steps have their places' numbers",
          "[exec][sequence]") {
  const std::vector<Exchange> exchanges{{.arena = Arena::gradients, .first = 8, .floats = 4, .after = 2}};
  const std::vector<MemoryAccess> of_steps{{0, Arena::fixed, true, 0, 1},
                                           {1, Arena::fixed, true, 1, 2},
                                           {1, Arena::fixed, false, 0, 1},
                                           {2, Arena::gradients, false, 8, 12}};
  const auto accesses = detail::accesses_at(detail::sequence_of(1, 3, exchanges), exchanges, of_steps);
  REQUIRE(accesses.size() == 4);  // the first step is a prepared one
  CHECK(accesses[0].step == 0);
  CHECK(accesses[1].step == 0);
  CHECK(accesses[2].step == 1);
  CHECK(accesses[2].arena == Arena::gradients);
  CHECK(accesses[2].writes);
  CHECK(accesses[2].first == 8);
  CHECK(accesses[2].last == 12);
  CHECK(accesses[3].step == 2);
  CHECK(conflict(accesses[2], accesses[3]));
}

TEST_CASE("of a program alone it is all steps but the prepared ones", "[exec][sequence]") {
  struct Net : Sequential<Linear<4, 8>, ReLU, Linear<8, 3>> {};
  using P = Trainer<Net, CrossEntropy, Sgd, Features<4>>::Training;
  CHECK(static_cast<int>(sequence_of<P>().size()) == P::lowered.used.steps - P::lowered.prepared_steps);
  CHECK(sequence_of<P>().front().step == P::lowered.prepared_steps);
}
