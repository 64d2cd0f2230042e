#pragma once

#include <vector>

/// Images, and other matrices [channels, positions], in both orders.
namespace image_order {

/// Matrices [channels, positions], each of which lies as [positions, channels].
template <class Number>
std::vector<float> channels_first(const Number* from, long matrices, long channels, long positions) {
  std::vector<float> to(static_cast<std::size_t>(matrices * channels * positions));
  for (std::size_t i = 0; i < to.size(); ++i) {
    const long all = static_cast<long>(i), matrix = all / (channels * positions), c = all / positions % channels;
    to[i] = from[(matrix * positions + all % positions) * channels + c];
  }
  return to;
}

/// The way back.
template <class Number = float>
std::vector<Number> channels_last(const std::vector<float>& from, long channels, long positions) {
  std::vector<Number> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const long all = static_cast<long>(i), matrix = all / (channels * positions), c = all / positions % channels;
    to[static_cast<std::size_t>((matrix * positions + all % positions) * channels + c)] = Number(from[i]);
  }
  return to;
}

}  // namespace image_order
