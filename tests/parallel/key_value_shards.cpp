#include "tenet/parallel/key_value_shards.hpp"

#include <catch2/catch.hpp>

using namespace tenet;
using detail::KeyValueShards;
using detail::StoreHeader;

namespace {

StoreHeader header(int key, long floats, Consistency wanted = {}, long clock = 0, float weight = 1) {
  StoreHeader result;
  result.key = key;
  result.floats = floats;
  result.in_rounds = wanted.in_rounds;
  result.staleness = wanted.staleness;
  result.clock = clock;
  result.weight = weight;
  return result;
}
std::vector<float> as_vector(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Says in which order values come together.
struct Noted {
  std::string text;
  KeyValueShards shards{3,
                        [this](std::span<float> sum, std::span<const float> pushed) {
                          text += "+" + std::to_string(static_cast<int>(pushed[0]));
                          sum[0] += pushed[0];
                        },
                        [this](const Pushed& pushed, std::span<float> value) {
                          text += " update(" + std::to_string(static_cast<int>(pushed.values[0])) + "/" +
                                  std::to_string(static_cast<int>(pushed.weight)) + ")";
                          value[0] = pushed.values[0];
                        }};
};

}  // namespace

TEST_CASE("rounds are added up in the order of ranks, in whatever order they come", "[key_value_shards]") {
  Noted noted;
  const Consistency rounds = Consistency::bulk_synchronous();
  noted.shards.assign(0, header(1, 1), {0});
  noted.shards.push(2, header(1, 1, rounds, 0, 2), {4});  // weighted: 8
  noted.shards.push(2, header(1, 1, rounds), {5});        // of the next round
  noted.shards.push(0, header(1, 1, rounds), {1});
  CHECK(noted.text == "");
  CHECK(noted.shards.pull(0, header(1, 1, rounds, 1)).data() == nullptr);
  CHECK(as_vector(noted.shards.pull(1, header(1, 1, rounds, 0))) == std::vector<float>{0});
  noted.shards.push(1, header(1, 1, rounds), {2});
  CHECK(noted.text == "+2+8 update(11/4)");
  CHECK(as_vector(noted.shards.pull(0, header(1, 1, rounds, 1))) == std::vector<float>{11});
  CHECK(noted.shards.pull(2, header(1, 1, rounds, 2)).data() == nullptr);
  noted.shards.push(0, header(1, 1, rounds), {6});
  noted.shards.push(1, header(1, 1, rounds), {7});
  CHECK(noted.text == "+2+8 update(11/4)+7+5 update(18/3)");
  CHECK(as_vector(noted.shards.pull(2, header(1, 1, rounds, 2))) == std::vector<float>{18});
}

TEST_CASE("without rounds pushes count one by one, and pulls see as much as they may", "[key_value_shards]") {
  Noted noted;
  const Consistency bounded = Consistency::bounded_staleness(2);
  CHECK(noted.shards.pull(0, header(1, 1, bounded)).data() == nullptr);  // there is none yet
  noted.shards.push(1, header(1, 1, bounded), {3});
  CHECK(noted.text == "");
  noted.shards.assign(0, header(1, 1), {9});
  CHECK(noted.text == " update(3/1)");
  for (int push = 0; push < 3; ++push) noted.shards.push(0, header(1, 1, bounded), {4});
  CHECK(noted.shards.pull(0, header(1, 1, bounded, 3)).data() == nullptr);  // rank 2 has made none
  CHECK(as_vector(noted.shards.pull(0, header(1, 1, bounded, 2))) == std::vector<float>{4});
  CHECK(noted.shards.largest_lead == 3);
  noted.shards.push(2, header(1, 1, bounded), {5});
  CHECK(as_vector(noted.shards.pull(0, header(1, 1, bounded, 3))) == std::vector<float>{5});
  CHECK(as_vector(noted.shards.pull(0, header(1, 1, Consistency::asynchronous(), 99))) == std::vector<float>{5});
}

TEST_CASE("a key keeps its length", "[key_value_shards]") {
  Noted noted;
  CHECK(noted.shards.push(0, header(1, 2), {1, 2}) == 0);
  CHECK(noted.shards.push(0, header(1, 3), {1, 2, 3}) == 2);
  CHECK(noted.shards.assign(0, header(1, 1), {1}) == 2);
  CHECK(noted.shards.assign(0, header(1, 2), {1, 2}) == 0);
  CHECK(noted.shards.pull(0, header(1, 5, {}, 99)).size() == 2);
}

TEST_CASE("the rank that keeps others waiting is known", "[key_value_shards]") {
  const Consistency bounded = Consistency::bounded_staleness(1);
  Noted noted;
  CHECK(noted.shards.keeps_waiting(header(1, 1)) == detail::Request::value);
  noted.shards.assign(0, header(1, 1), {0});
  noted.shards.push(0, header(1, 1), {1});
  CHECK(noted.shards.keeps_waiting(header(1, 1)) == 1);
  noted.shards.push(1, header(1, 1), {1});
  CHECK(noted.shards.keeps_waiting(header(1, 1)) == 2);
  noted.shards.push(2, header(1, 1), {1});
  noted.shards.push(2, header(1, 1), {1});
  noted.shards.push(1, header(1, 1), {1});
  CHECK(noted.shards.keeps_waiting(header(1, 1)) == 0);
  noted.shards.assign(0, header(2, 1), {0});
  for (const int rank : {0, 0, 1, 2, 2}) noted.shards.push(rank, header(2, 1, bounded), {1});
  CHECK(noted.shards.keeps_waiting(header(2, 1, bounded, 3)) == 1);
}

TEST_CASE("a pull behind a rank waits for what that assigns, or for its next push", "[key_value_shards]") {
  const Consistency rounds = Consistency::bulk_synchronous();
  const auto behind = [&](int rank, long clock) {
    StoreHeader result = header(1, 1, rounds, clock);
    result.behind = rank;
    return result;
  };
  Noted noted;
  noted.shards.assign(2, header(1, 1), {7});
  CHECK(noted.shards.pull(1, behind(0, 0)).data() == nullptr);  // somebody else has
  CHECK(noted.shards.keeps_waiting(behind(0, 0)) == 0);
  CHECK(as_vector(noted.shards.pull(1, behind(2, 0))) == std::vector<float>{7});
  CHECK(as_vector(noted.shards.pull(1, header(1, 1, rounds, 0))) == std::vector<float>{7});
  noted.shards.assign(0, header(1, 1), {9});
  CHECK(as_vector(noted.shards.pull(1, behind(0, 0))) == std::vector<float>{9});
  for (int rank = 0; rank < 3; ++rank) noted.shards.push(rank, header(1, 1, rounds), {1});
  // Behind a round: that value is of before it. Rank 0 goes on to the next one, which the others have not begun.
  CHECK(noted.shards.pull(1, behind(0, 1)).data() == nullptr);
  noted.shards.push(0, header(1, 1, rounds), {5});
  CHECK(as_vector(noted.shards.pull(1, behind(0, 1))) == std::vector<float>{3});
  // Another value counts for those who have made as many pushes.
  noted.shards.assign(0, header(1, 1), {20});
  CHECK(as_vector(noted.shards.pull(1, behind(0, 2 - 1))) == std::vector<float>{20});
}
