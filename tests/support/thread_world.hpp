#pragma once

#include "ranks.hpp"

/// Ranks that are threads, for `Distributed`: a thread is a rank while a `Joined` of it lives.
struct ThreadWorld {
  static constexpr bool ranks_are_threads = true;
  inline static thread_local tenet::ThreadTransport* joined = nullptr;
  static tenet::ThreadTransport connect() { return *joined; }
  struct Joined {
    explicit Joined(tenet::ThreadTransport& transport) { joined = &transport; }
    ~Joined() { joined = nullptr; }
  };
};
