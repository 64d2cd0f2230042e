#include "agreement.hpp"
#include "tenet/device/cuda/copy.hpp"
#include "tenet/device/reference/copy.hpp"

TEST_CASE("strided copies agree with the reference", "[cuda][copy]") {
  const tenet::StridedCopyGeometry geometries[] = {
      {3, {4, 5, 6}, {30, 6, 1}, {30, 6, 1}, 0, 0, true},  // contiguous
      {3, {4, 5, 6}, {30, 1, 5}, {30, 6, 1}, 0, 0, true},  // the last two transposed
      {4, {1, 3, 40, 17}, {2040, 17, 51, 1}, {2040, 680, 17, 1}, 0, 0, true},
      {2, {50, 33}, {0, 1}, {33, 1}, 0, 0, false},  // a row repeated
      {2, {50, 33}, {1, 0}, {33, 1}, 0, 0, false},  // a column repeated
      {2, {1, 9}, {20, 2}, {9, 1}, 3, 0, true},     // every second element, from the fourth on
      {1, {1}, {1}, {1}, 0, 0, true},
      {3, {4, 5, 6}, {30, 6, 1}, {1, 24, 4}, 0, 0, false},  // the target transposed
      {3, {4, 5, 6}, {1, 4, 20}, {1, 4, 20}, 0, 0, false},  // contiguous, if its dimensions are in the right order
      {6, {2, 3, 2, 5, 3, 4}, {360, 1, 3, 6, 30, 90}, {360, 120, 60, 12, 4, 1}, 0, 0, true},
  };
  for (const auto& g : geometries) {
    for (int batch : {1, 3, 70}) {
      CAPTURE(g.rank, batch);
      const long size = g.size(batch);
      const auto from = random_floats(size * 4 + 64, 1);
      check_agreement(size, 0,
                      [&](auto& place, float* to) { run_strided_copy(place.executor, g, batch, place.in(from), to); });
    }
  }
}

TEST_CASE("strided sums agree with the reference", "[cuda][copy]") {
  struct Case {
    tenet::StridedCopyGeometry geometry;
    long size;
  };
  const Case cases[] = {
      {{2, {1, 37}, {37, 1}, {0, 1}, 0, 0, true}, 37},              // bias of a linear layer
      {{3, {1, 6, 100}, {600, 100, 1}, {0, 1, 0}, 0, 0, true}, 6},  // bias of a convolution
      {{2, {1, 37}, {37, 1}, {0, 0}, 0, 0, true}, 1},               // everything
      {{2, {20, 37}, {37, 1}, {1, 0}, 0, 2, false}, 25},            // rows, to elements 2 … 21 of 25
      {{3, {1, 5, 70}, {350, 70, 1}, {0, 0, 1}, 0, 0, true}, 70},
      {{3, {1, 5, 7}, {35, 1, 5}, {0, 7, 1}, 0, 0, true}, 35},
      {{2, {1, 3}, {0, 1}, {0, 1}, 0, 0, true}, 3},  // the same row many times
      {{1, {1}, {1}, {1}, 0, 0, true}, 70},
      {{2, {3000, 37}, {37, 1}, {0, 1}, 0, 0, false}, 37},            // in parts
      {{3, {200, 6, 31}, {186, 31, 1}, {0, 1, 0}, 0, 3, false}, 12},  // in parts by teams
      {{1, {20000}, {1}, {0}, 0, 2, false}, 4},
      {{3, {2000, 5, 7}, {35, 1, 5}, {0, 10, 1}, 0, 1, false}, 60},  // in parts, to rows that are apart
      {{3, {5, 7, 2000}, {1, 5, 35}, {10, 1, 0}, 0, 1, false}, 60},
      {{1, {40}, {1}, {1}, 0, 0, false}, 40},  // nothing is summed
  };
  for (const auto& [g, size] : cases) {
    for (int batch : {1, 3, 70}) {
      CAPTURE(g.rank, g.extents[1], batch);
      const auto from = random_floats(g.size(batch) + 8, 1);
      check_agreement(size, 1e-5, [&, &g = g, &size = size](auto& place, float* to) {
        run_strided_sum(place.executor, g, batch, place.in(from), to, size);
      });
    }
  }
}

TEST_CASE("some numbers are copied by one kernel, each to its place", "[cuda][copy]") {
  const auto from = random_floats(4000, 1);
  const long counts[] = {300, 1, 2000, 257};
  for (const std::size_t copies : {1U, 2U, 4U}) {
    CAPTURE(copies);
    long size = 0;
    for (std::size_t k = 0; k < copies; ++k) size += counts[k];
    check_agreement(size, 0, [&](auto& place, float* to) {
      const float* source = place.in(from);
      std::vector<tenet::NumbersToCopy> all;
      long end = size;  // the first one's numbers behind the last one's
      for (std::size_t k = 0; k < copies; end -= counts[k], source += counts[k], ++k)
        all.push_back({source, to + end - counts[k], counts[k]});
      if constexpr (std::decay_t<decltype(place)>::is_reference)
        for (const auto& copy : all) std::copy_n(copy.from, copy.count, copy.to);
      else
        run_copies(place.executor, all);
    });
  }
}

TEST_CASE("numbers are copied between the device's memory and the host's page-locked one", "[cuda][copy]") {
  const auto check = [](auto& executor) {
    using Executor = std::decay_t<decltype(executor)>;
    constexpr long count = 700;
    auto* const there = static_cast<float*>(executor.allocate(4 * count, "a test"));
    auto* const here = static_cast<float*>(Executor::allocate_host(8 * count));
    const auto numbers = random_floats(count, 1);
    std::copy(numbers.begin(), numbers.end(), here);
    run_copies(executor, std::vector<tenet::NumbersToCopy>{{here, there, count}});
    run_copies(executor, std::vector<tenet::NumbersToCopy>{{there + 1, here + count, 2}, {there, here + count + 2, 1}});
    executor.synchronize();
    CHECK(here[count] == numbers[1]);
    CHECK(here[count + 1] == numbers[2]);
    CHECK(here[count + 2] == numbers[0]);
    Executor::free(there);
    Executor::free_host(here);
  };
  check(the<tenet::gpu::SerialHost>());
  check(the<tenet::gpu::ParallelHost>());
  if (tenet::gpu::device_count() > 0) check(the<tenet::gpu::Stream>(0));
}
