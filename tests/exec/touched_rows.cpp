#include "tenet/exec/touched_rows.hpp"

#include <catch2/catch.hpp>
#include <tenet/core/random.hpp>

using namespace tenet;

namespace {
using Numbers = std::vector<std::int32_t>;

/// The same, by looking at all rows found so far.
void check(const Numbers& tokens, int table_rows, TouchedRows& touched) {
  touched.find(tokens.data(), static_cast<long>(tokens.size()), table_rows);
  Numbers rows, positions;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= table_rows) {
      positions.push_back(-1);
      continue;
    }
    const auto known = std::find(rows.begin(), rows.end(), token);
    positions.push_back(static_cast<std::int32_t>(known - rows.begin()));
    if (known == rows.end()) rows.push_back(token);
  }
  CHECK(touched.rows() == rows);
  CHECK(touched.positions() == positions);
}
}  // namespace

TEST_CASE("rows are found once each, in the order of their first token", "[touched_rows]") {
  TouchedRows touched;
  check({7, 3, 7, 7, 0, 3, 9}, 10, touched);
  check({5}, 10, touched);
  check({}, 10, touched);
  check({2, -1, 10, 2, 2147483647, -2147483647 - 1, 9, 0}, 10, touched);  // outside of the table
}

TEST_CASE("many tokens of large and small tables, in batches that grow and shrink", "[touched_rows]") {
  TouchedRows touched;
  Random random(1, 2);
  for (const std::size_t count : {100, 3000, 17, 1024, 3000})
    for (const std::uint32_t rows : {1u, 40u, 5000u, 2000000000u}) {
      Numbers tokens(count);
      for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(rows));
      check(tokens, static_cast<int>(rows), touched);
    }
  // Rows at equal distances, as the same feature of many samples has them.
  Numbers tokens;
  for (int i = 0; i < 2000; ++i) tokens.push_back(i % 1500 * 1048576);
  check(tokens, 2147483647, touched);
}
