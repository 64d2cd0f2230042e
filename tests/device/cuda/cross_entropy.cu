#include "agreement.hpp"
#include "tenet/device/cuda/cross_entropy.hpp"
#include "tenet/device/reference/cross_entropy.hpp"

TEST_CASE("cross entropy agrees with the reference", "[cuda][cross_entropy]") {
  for (const long rows : {1L, 5L, 300L})
    for (const int classes : {2, 10, 32, 33, 256, 1000, 1030}) {
      if (rows == 300 && classes > 256) continue;
      CAPTURE(rows, classes);
      auto logits = random_floats(rows * classes, 1);
      for (float& value : logits) value = std::round(value * 20);     // with equal largest elements
      const auto labels = random_integers(rows, -1, classes + 1, 2);  // some out of range
      const auto upstream = random_floats(rows, 3);
      check_agreement(rows, 2e-6, [&](auto& place, float* to) {
        run_cross_entropy(place.executor, rows, classes, place.in(logits), place.in(labels), to);
      });
      check_agreement(rows * classes, 1e-6, [&](auto& place, float* to) {
        run_cross_entropy_gradient(place.executor, rows, classes, place.in(logits), place.in(labels),
                                   place.in(upstream), to);
      });
      if (rows < 300 || classes > 100) continue;  // no row would be right
      check_agreement(rows, 0, [&](auto& place, float* to) {
        run_correct(place.executor, rows, classes, place.in(logits), place.in(labels), to);
      });
    }
}

TEST_CASE("a row is correct if its first largest logit is at the label", "[cuda][cross_entropy]") {
  constexpr int classes = 5;
  const float nan = __builtin_nanf(""), infinity = __builtin_inff();
  const std::vector<std::vector<float>> kinds{{1, 3, 3, 2, 3},
                                              {nan, 1, 2, 3, 4},
                                              {1, nan, 2, nan, 0},
                                              {-infinity, -infinity, -infinity, -infinity, -infinity},
                                              {-infinity, -infinity, 1, infinity, infinity},
                                              {-infinity, nan, -infinity, -infinity, -infinity},
                                              {0, 0, 0, 0, 0},
                                              {-3, -2, -1, -2, nan}};
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  for (const auto& kind : kinds)
    for (int label = -2; label < classes + 2; ++label) {
      logits.insert(logits.end(), kind.begin(), kind.end());
      labels.push_back(label);
    }
  const long rows = static_cast<long>(labels.size());
  check_agreement(rows, 0, [&](auto& place, float* to) {
    run_correct(place.executor, rows, classes, place.in(logits), place.in(labels), to);
  });
  check_agreement(rows, 2e-6, [&](auto& place, float* to) {
    run_cross_entropy(place.executor, rows, classes, place.in(logits), place.in(labels), to);
  });
}

TEST_CASE("each of many classes can be the first largest", "[cuda][cross_entropy]") {
  for (const int classes : {70, 1100}) {
    const long rows = classes;
    auto logits = random_floats(rows * classes, 1);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
    for (long r = 0; r < rows; ++r) {
      labels[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(r);
      logits[static_cast<std::size_t>(r * classes + r)] = 2;
      if (r % 3 == 0) logits[static_cast<std::size_t>(r * classes + r / 2)] = r % 2 == 0 ? 2.0f : 3.0f;
      if (r % 3 == 1) logits[static_cast<std::size_t>(r * classes + (r + classes) / 2)] = r % 2 == 0 ? 2.0f : 3.0f;
    }
    CAPTURE(classes);
    check_agreement(rows, 0, [&](auto& place, float* to) {
      run_correct(place.executor, rows, classes, place.in(logits), place.in(labels), to);
    });
  }
}

TEST_CASE("cross entropy calls its epilogue behind its kernel", "[cuda][cross_entropy]") {
  const auto logits = random_floats(5 * 40, 1), upstream = random_floats(5, 2);
  const auto labels = random_integers(5, 0, 40, 3);
  check_epilogue(5, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_cross_entropy(place.executor, 5, 40, place.in(logits), place.in(labels), to, epilogue);
  });
  check_epilogue(5 * 40, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_cross_entropy_gradient(place.executor, 5, 40, place.in(logits), place.in(labels), place.in(upstream), to,
                               epilogue);
  });
  check_epilogue(5, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_correct(place.executor, 5, 40, place.in(logits), place.in(labels), to, epilogue);
  });
}
