#pragma once

#include <algorithm>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/device/cuda/team.hpp>

/// Starting function objects on a GPU.
namespace tenet::gpu {

inline constexpr int threads_of_block = 256;

#if defined(__CUDACC__)

namespace detail {

template <class Work>
__global__ void __launch_bounds__(threads_of_block) each(const Work work, const long count) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) work(i);
}

/// How many blocks of a kernel each processor is to have room for at least, which bounds a thread's registers.
template <class Work>
constexpr int blocks_of_processor() {
  if constexpr (requires { Work::blocks_of_processor; })
    return Work::blocks_of_processor;
  else
    return 1;
}

template <class Members, class Work>
__global__ void __launch_bounds__(threads_of_block, blocks_of_processor<Work>())
    each_row(const Work work, const long rows) {
  constexpr int teams = threads_of_block / Members::size;
  const long row = static_cast<long>(blockIdx.x) * teams + threadIdx.x / Members::size;
  if (row < rows) work(Members{}, row);
}

}  // namespace detail

/// Calls work(i) for i from 0 to `count`.
template <class Work>
void for_each(Stream& stream, long count, const Work& work) {
  if (count <= 0) return;
  const long blocks = std::min((count + threads_of_block - 1) / threads_of_block, 16L * stream.processors());
  detail::each<<<static_cast<unsigned>(blocks), threads_of_block, 0, stream.get()>>>(work, count);
  check(cudaGetLastError(), "starting a kernel");
}

/// Calls work(team, row) for each row, of about `length` elements: by more threads where rows are long.
template <class Work>
void for_each_row(Stream& stream, long rows, long length, const Work& work) {
  if (rows <= 0) return;
  const auto start = [&]<class Members>(Members) {
    constexpr int teams = threads_of_block / Members::size;
    const auto blocks = static_cast<unsigned>((rows + teams - 1) / teams);
    detail::each_row<Members><<<blocks, threads_of_block, 0, stream.get()>>>(work, rows);
  };
  constexpr bool by_blocks = requires { requires Work::takes_whole_blocks; };  // one kernel less to compile
  if (by_blocks || length > 1024)
    start(Team<threads_of_block>{});
  else if constexpr (!by_blocks)
    start(Team<32>{});
  check(cudaGetLastError(), "starting a kernel");
}

#endif

}  // namespace tenet::gpu
