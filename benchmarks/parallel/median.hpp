#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

/// Of an even number of them the upper one.
template <class Number>
Number median(std::vector<Number> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}
