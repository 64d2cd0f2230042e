#include "agreement.hpp"
#include "tenet/device/cuda/softmax.hpp"
#include "tenet/device/reference/softmax.hpp"

TEST_CASE("softmax agrees with the reference", "[cuda][softmax]") {
  for (const long rows : {1L, 3L, 100L})
    for (const int columns : {1, 2, 10, 31, 32, 33, 256, 300, 1024, 1025}) {
      if (rows == 100 && columns > 300) continue;
      CAPTURE(rows, columns);
      auto x = random_floats(rows * columns, 1);
      for (float& value : x) value *= 30;
      for (const int period : {0, 1, 5, columns, 3 * columns}) {
        CAPTURE(period);
        check_agreement(rows * columns, 1e-6, [&](auto& place, float* to) {
          run_softmax(place.executor, rows, columns, period, place.in(x), to);
        });
      }
      x[0] += 1;  // a single column's log softmax is zero everywhere, which the check refuses
      if (columns == 1) continue;
      check_agreement(rows * columns, 1e-6,
                      [&](auto& place, float* to) { run_log_softmax(place.executor, rows, columns, place.in(x), to); });
    }
}

TEST_CASE("softmax of what is no number or infinite agrees with the reference", "[cuda][softmax]") {
  constexpr long rows = 8;
  constexpr int columns = 70;
  auto x = random_floats(rows * columns, 1);
  const float nan = __builtin_nanf(""), infinity = __builtin_inff();
  x[0] = x[columns + 40] = nan;
  x[2 * columns] = x[3 * columns + 69] = infinity;
  for (int c = 0; c < columns; ++c) x[static_cast<std::size_t>(4 * columns + c)] = -infinity;
  x[5 * columns] = -infinity;
  for (const int period : {0, 20}) {
    CAPTURE(period);
    check_agreement(rows * columns, 1e-6, [&](auto& place, float* to) {
      run_softmax(place.executor, rows, columns, period, place.in(x), to);
    });
  }
  check_agreement(rows * columns, 1e-6,
                  [&](auto& place, float* to) { run_log_softmax(place.executor, rows, columns, place.in(x), to); });
}

TEST_CASE("softmax calls its epilogue behind its kernel", "[cuda][softmax]") {
  const auto x = random_floats(5 * 40, 1);
  check_epilogue(5 * 40, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_softmax(place.executor, 5, 40, 0, place.in(x), to, epilogue);
  });
  check_epilogue(5 * 40, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_log_softmax(place.executor, 5, 40, place.in(x), to, epilogue);
  });
}
