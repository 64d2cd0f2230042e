#include "tenet/device/cpu/layer_norm.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/layer_norm.hpp"

TEST_CASE("layer norm agrees with the reference", "[cpu][layer_norm]") {
  for (const long rows : {1L, 3L, 33L, 1000L}) {
    for (const int columns : {1, 2, 15, 16, 17, 128, 300}) {
      CAPTURE(rows, columns);
      const long size = rows * columns;
      auto x = random_floats(size, 1);
      for (float& number : x) number += 3;
      const auto weight = random_floats(columns, 2), bias = random_floats(columns, 3),
                 upstream = random_floats(size, 4);
      check_agreement(size, 1e-5, [&](auto& executor, float* to) {
        run_layer_norm(executor, rows, columns, 1e-5f, x.data(), weight.data(), bias.data(), to);
      });
      check_agreement(2 * columns, 1e-4, [&](auto& executor, float* to) {
        run_layer_norm_parameters(executor, rows, columns, 1e-5f, x.data(), upstream.data(), to);
      });
      std::vector<float> gradients(static_cast<std::size_t>(2 * columns));
      check_workspace(tenet::cpu::workspace_layer_norm_parameters(nullptr, rows, columns), [&](auto& workers) {
        run_layer_norm_parameters(workers, rows, columns, 1e-5f, x.data(), upstream.data(), gradients.data());
      });
      if (columns == 1) continue;  // its gradient is zero
      check_agreement(size, 5e-5, [&](auto& executor, float* to) {
        run_layer_norm_gradient(executor, rows, columns, 1e-2f, x.data(), weight.data(), upstream.data(), to);
      });
    }
  }
}

TEST_CASE("layer norm calls its epilogue for what it has written", "[cpu][layer_norm]") {
  constexpr long rows = 700, columns = 128;
  const auto x = random_floats(rows * columns, 1), weight = random_floats(columns, 2), bias = random_floats(columns, 3);
  for (const bool gradient : {false, true}) {
    std::vector<float> y(rows * columns), after(rows * columns, -1.0f);
    struct State {
      const float* from;
      float* to;
    } state{y.data(), after.data()};
    const tenet::Epilogue epilogue{[](const void* given, long first, long last) {
                                     const State& s = *static_cast<const State*>(given);
                                     for (long i = first; i < last; ++i) s.to[i] += 1 + s.from[i];
                                   },
                                   &state};
    if (gradient)
      run_layer_norm_gradient(pool(3), rows, columns, 1e-5f, x.data(), weight.data(), x.data(), y.data(), epilogue);
    else
      run_layer_norm(pool(3), rows, columns, 1e-5f, x.data(), weight.data(), bias.data(), y.data(), epilogue);
    CHECK(after == [&] {
      for (float& number : y) number = -1.0f + (1 + number);
      return y;
    }());
  }
}
