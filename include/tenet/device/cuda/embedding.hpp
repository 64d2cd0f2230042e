#pragma once

#include <algorithm>
#include <cstdint>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/epilogue.hpp>

namespace tenet::gpu {

namespace detail {

struct Embedding {
  int width, table_rows;
  const std::int32_t* tokens;
  const float* table;
  float* result;

  TENET_HOST_DEVICE void operator()(long i) const {
    const Divided at = divided(i, width);
    const std::int32_t token = tokens[at.quotient];
    result[i] = token >= 0 && token < table_rows ? table[long{token} * width + at.rest] : __builtin_nanf("");
  }
};

/// Positions of a text sorted by token, those of one token in their order.
struct SortedPositions {
  std::int32_t* position;  ///< [count], those of tokens outside the table left out
  std::int32_t* first;     ///< [count]: where those of a position's token begin in `position`
  std::int32_t* number;    ///< [count]: how many they are, at the first position of each token; elsewhere zero
};

/// Finds the place of a position among the sorted ones by counting: what lies before it is smaller, or equal and
/// earlier. The number of comparisons is quadratic; counts are exact as floats, being less than 2^24.
struct SortPositions {
  int count, table_rows;
  const std::int32_t* tokens;
  SortedPositions sorted;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const auto position = static_cast<int>(row);
    const std::int32_t token = tokens[position];
    int smaller = 0, earlier = 0, later = 0;
    for (int i = team.rank(); i < count; i += Members::size) {
      const std::int32_t other = tokens[i];
      smaller += other < token;
      earlier += other == token && i < position;
      later += other == token && i > position;
    }
    const auto first = static_cast<int>(team.sum(static_cast<float>(smaller)));
    const auto before = static_cast<int>(team.sum(static_cast<float>(earlier)));
    const auto behind = static_cast<int>(team.sum(static_cast<float>(later)));
    if (team.rank() != 0) return;
    const bool valid = token >= 0 && token < table_rows;
    if (valid) sorted.position[first + before] = position;
    sorted.first[position] = first;
    sorted.number[position] = valid && before == 0 ? 1 + behind : 0;
  }
};

/// Adds the gradients of all positions of one token to its row of the table: the team of the first position does.
struct AddPositions {
  int width;
  const std::int32_t* tokens;
  SortedPositions sorted;
  const float* upstream;
  float* table_gradient;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const int number = sorted.number[row];
    if (number == 0) return;
    const std::int32_t* const positions = sorted.position + sorted.first[row];
    float* const to = table_gradient + long{tokens[row]} * width;
    for (int c = team.rank(); c < width; c += Members::size) {
      float sum = to[c];
      for (int i = 0; i < number; ++i) sum += upstream[long{positions[i]} * width + c];
      to[c] = sum;
    }
  }
};

}  // namespace detail

/// result[i, :] = table[tokens[i], :] for i < count; NaN for a token outside [0, table_rows).
template <class Executor>
void run_embedding(Executor& executor, long count, int width, int table_rows, const std::int32_t* tokens,
                   const float* table, float* result, Epilogue epilogue = {}) {
  for_each(executor, count * width, detail::Embedding{width, table_rows, tokens, table, result});
  epilogue(0, count * width);
}

/// table_gradient[t, :] = sum of upstream[i, :] over the i with tokens[i] = t, in order; other tokens are skipped.
///
/// Positions are sorted by token, so that each row of the table has one team, which adds in order: without atomic
/// additions, whose order changes. A block of positions after the other, as sorting takes quadratic time.
template <class Executor>
void run_embedding_gradient(Executor& executor, long count, int width, int table_rows, const std::int32_t* tokens,
                            const float* upstream, float* table_gradient) {
  constexpr long block = 4096;
  auto* const memory = static_cast<std::int32_t*>(executor.workspace());
  const detail::SortedPositions sorted{memory, memory + block, memory + 2 * block};
  executor.zero(table_gradient, 4l * table_rows * width);
  for (long first = 0; first < count; first += block) {
    const auto positions = static_cast<int>(std::min(block, count - first));
    for_each_row(executor, positions, positions, detail::SortPositions{positions, table_rows, tokens + first, sorted});
    for_each_row(executor, positions, width,
                 detail::AddPositions{width, tokens + first, sorted, upstream + first * width, table_gradient});
  }
}

}  // namespace tenet::gpu
