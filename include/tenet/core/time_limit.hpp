#pragma once

#include <chrono>
#include <cstdlib>
#include <tenet/core/error.hpp>

namespace tenet {

/// How long threads and processes that work together wait for each other: the seconds that the environment variable
/// TENET_TIMEOUT says, else five minutes.
inline std::chrono::nanoseconds time_limit() {
  const char* const asked = std::getenv("TENET_TIMEOUT");
  if (asked == nullptr || *asked == '\0') return std::chrono::minutes(5);
  const double seconds = std::atof(asked);
  if (!(seconds > 0)) fail("TENET_TIMEOUT", "not a time", "a positive number of seconds", asked);
  return std::chrono::nanoseconds(static_cast<long>(seconds * 1e9));
}

}  // namespace tenet
