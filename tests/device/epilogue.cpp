// The law of epilogues: every hook calls its epilogue for each element of the result exactly once, after writing it.
#include "tenet/device/epilogue.hpp"

#include <atomic>

#include "agreement.hpp"
#include "tenet/device/cpu/conv2d.hpp"
#include "tenet/device/cpu/conv2d_input_gradient.hpp"
#include "tenet/device/cpu/cross_entropy.hpp"
#include "tenet/device/cpu/embedding.hpp"
#include "tenet/device/cpu/matmul.hpp"
#include "tenet/device/cpu/pool2d.hpp"
#include "tenet/device/cpu/softmax.hpp"
#include "tenet/device/reference/conv2d.hpp"
#include "tenet/device/reference/cross_entropy.hpp"
#include "tenet/device/reference/embedding.hpp"
#include "tenet/device/reference/matmul.hpp"
#include "tenet/device/reference/pool2d.hpp"
#include "tenet/device/reference/softmax.hpp"

namespace {

/// Runs a hook plainly, and then with an epilogue that adds 1 to what it finds: each result must be exactly 1 larger.
template <class Executor, class Run>
void check_once(Executor& executor, long size, Run run) {
  constexpr float untouched = 12345.25f;
  std::vector<float> plain(static_cast<std::size_t>(size), untouched), result = plain;
  run(executor, plain.data(), tenet::Epilogue{});
  struct State {
    float* result;
    long size;
    std::atomic<long> elements{0};
    std::atomic<bool> outside{false};
  } state{result.data(), size};
  auto add_one = [](const void* opaque, long first, long last) {
    auto* own = static_cast<State*>(const_cast<void*>(opaque));
    if (first < 0 || first >= last || last > own->size) {
      own->outside = true;
      return;
    }
    own->elements += last - first;
    for (long i = first; i < last; ++i) own->result[i] += 1;
  };
  run(executor, result.data(), tenet::Epilogue{add_one, &state});
  CHECK_FALSE(state.outside);
  CHECK(state.elements == size);
  long wrong = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (!(result[i] == plain[i] + 1 || (std::isnan(result[i]) && std::isnan(plain[i])))) ++wrong;
  }
  CHECK(wrong == 0);
}

template <class Run>
void check_on_all(long size, Run run) {
  tenet::reference::Serial serial;
  check_once(serial, size, run);
  for (int threads : {1, 3}) check_once(pool(threads), size, run);
}

}  // namespace

TEST_CASE("an empty epilogue does nothing", "[epilogue]") {
  const tenet::Epilogue epilogue;
  CHECK_FALSE(epilogue);
  epilogue(0, 10);
}

TEST_CASE("products call their epilogue once an element", "[epilogue]") {
  for (const auto& g : {tenet::MatmulGeometry{1, 3, 5, 7, false, false, 0, 0},
                        {1, 300, 500, 40, false, true, 0, 0},
                        {1, 1, 700, 300, false, true, 0, 0},
                        {1, 200, 1, 90, false, false, 0, 0},
                        {70, 17, 33, 20, true, false, 340, 660},
                        {9, 170, 33, 20, true, false, 3400, 660, true},
                        {1, 3, 5, 0, false, false, 0, 0}}) {
    CAPTURE(g.count, g.rows, g.columns, g.inner);
    const auto lhs = random_floats(g.count * g.rows * g.inner, 1),
               rhs = random_floats(g.count * g.inner * g.columns, 2);
    check_on_all(g.result_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_matmul(executor, g, lhs.data(), rhs.data(), to, epilogue);
    });
  }
}

TEST_CASE("convolutions call their epilogue once an element", "[epilogue]") {
  for (const auto& g : {tenet::Conv2dGeometry{3, 8, 8, 5, 3, 3, 1, 1},
                        {6, 12, 12, 16, 5, 5, 1, 0},
                        {40, 9, 9, 140, 3, 3, 2, 1},
                        {16, 8, 8, 33, 1, 1, 2, 0},
                        {8, 30, 30, 40, 3, 3, 1, 1}}) {
    for (int batch : {1, 5}) {
      CAPTURE(g.channels, g.out_channels, batch);
      const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
      const auto upstream = random_floats(batch * g.result_size(), 3);
      check_on_all(batch * g.result_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
        run_conv2d(executor, g, batch, input.data(), weight.data(), to, epilogue);
      });
      check_on_all(batch * g.input_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
        run_conv2d_input_gradient(executor, g, batch, upstream.data(), weight.data(), to, epilogue);
      });
    }
  }
}

TEST_CASE("pooling calls its epilogue once an element", "[epilogue]") {
  for (int batch : {1, 50}) {
    constexpr tenet::Pool2dGeometry g{3, 17, 19, 3, 2, 1};
    const tenet::Known<g> known;
    const auto x = random_floats(batch * g.input_size(), 1), dy = random_floats(batch * g.result_size(), 2);
    std::vector<float> y(dy.size());
    tenet::reference::Serial serial;
    run_max_pool2d(serial, g, batch, x.data(), y.data());
    check_on_all(batch * g.result_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_max_pool2d(executor, known, batch, x.data(), to, epilogue);
    });
    check_on_all(batch * g.result_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_avg_pool2d(executor, known, batch, x.data(), to, epilogue);
    });
    check_on_all(batch * g.input_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_max_pool2d_gradient(executor, g, batch, x.data(), y.data(), dy.data(), to, epilogue);
    });
    check_on_all(batch * g.input_size(), [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_avg_pool2d_gradient(executor, known, batch, dy.data(), to, epilogue);
    });
  }
}

TEST_CASE("row-wise kernels call their epilogue once an element", "[epilogue]") {
  for (long rows : {1L, 3L, 3000L}) {
    const int columns = 19;
    CAPTURE(rows);
    const auto x = random_floats(rows * columns, 1), upstream = random_floats(rows, 2);
    const auto labels = random_integers(rows, -1, columns + 1, 3);
    const auto table = random_floats(3 * 4, 4);
    check_on_all(rows * columns, [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_softmax(executor, rows, columns, 7, x.data(), to, epilogue);
    });
    check_on_all(rows * columns, [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_log_softmax(executor, rows, columns, x.data(), to, epilogue);
    });
    check_on_all(rows, [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_cross_entropy(executor, rows, columns, x.data(), labels.data(), to, epilogue);
    });
    check_on_all(rows * columns, [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_cross_entropy_gradient(executor, rows, columns, x.data(), labels.data(), upstream.data(), to, epilogue);
    });
    check_on_all(rows, [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_correct(executor, rows, columns, x.data(), labels.data(), to, epilogue);
    });
    check_on_all(rows * 4, [&](auto& executor, float* to, tenet::Epilogue epilogue) {
      run_embedding(executor, rows, 4, 3, labels.data(), table.data(), to, epilogue);
    });
  }
}
