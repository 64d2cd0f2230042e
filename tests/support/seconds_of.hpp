#pragma once

#include <chrono>

/// How long a call takes.
inline std::chrono::nanoseconds seconds_of(auto call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::steady_clock::now() - begin;
}
