#include "agreement.hpp"
#include "tenet/device/cuda/embedding.hpp"
#include "tenet/device/reference/embedding.hpp"

TEST_CASE("embedding agrees with the reference", "[cuda][embedding]") {
  for (const int width : {1, 16, 32, 37, 256, 1100})
    for (const long count : {1L, 3L, 32L, 1000L, 1030L})
      for (const int rows : {1, 50, 3000}) {
        if (width > 37 && count > 100) continue;
        CAPTURE(width, count, rows);
        auto tokens = random_integers(count, -1, rows + 1, 1);  // some out of range
        tokens[0] = rows / 2;
        const auto table = random_floats(rows * width, 2), upstream = random_floats(count * width, 3);
        check_agreement(count * width, 0, [&](auto& place, float* to) {
          run_embedding(place.executor, count, width, rows, place.in(tokens), place.in(table), to);
        });
        check_agreement(rows * width, 0, [&](auto& place, float* to) {
          run_embedding_gradient(place.executor, count, width, rows, place.in(tokens), place.in(upstream), to);
        });
      }
}

TEST_CASE("gradients of an embedding are added in order over many positions", "[cuda][embedding]") {
  constexpr int width = 3, rows = 7;
  constexpr long count = 9001;  // several blocks
  auto tokens = random_integers(count, -2, rows, 1);
  tokens[0] = tokens[5000] = 0x7fffffff;
  const auto upstream = random_floats(count * width, 3);
  check_agreement(rows * width, 0, [&](auto& place, float* to) {
    run_embedding_gradient(place.executor, count, width, rows, place.in(tokens), place.in(upstream), to);
  });
}

TEST_CASE("embedding calls its epilogue behind its kernel", "[cuda][embedding]") {
  const auto tokens = random_integers(20, 0, 7, 1);
  const auto table = random_floats(7 * 3, 2);
  check_epilogue(20 * 3, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_embedding(place.executor, 20, 3, 7, place.in(tokens), place.in(table), to, epilogue);
  });
}
