#pragma once

#include <tenet/exec/memory_access.hpp>
#include <tenet/exec/program.hpp>

/// What memory the steps of a program use: from it follows which of them may run at the same time.
namespace tenet {

namespace detail {

template <class Program, class Function>
constexpr void for_each_access(int s, Function function) {
  tenet::for_each_access(Program::graph, Program::order, Program::lowered, Program::lowered.steps[s], s, function);
}

}  // namespace detail

/// All accesses of a program's steps, in their order.
template <class Program>
inline constexpr auto accesses_of = [] {
  constexpr int count = [] {
    int sum = 0;
    for (int s = 0; s < Program::lowered.used.steps; ++s)
      detail::for_each_access<Program>(s, [&](const MemoryAccess&) { ++sum; });
    return sum;
  }();
  std::array<MemoryAccess, static_cast<std::size_t>(count)> accesses{};
  std::size_t next = 0;
  for (int s = 0; s < Program::lowered.used.steps; ++s)
    detail::for_each_access<Program>(s, [&](const MemoryAccess& access) { accesses[next++] = access; });
  return accesses;
}();

}  // namespace tenet
