#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "tenet/device/cuda/host_stream.hpp"
#include "tenet/device/own_memory.hpp"

namespace gpu = tenet::gpu;
static_assert(tenet::HasOwnMemory<gpu::SerialHost> && tenet::HasOwnMemory<gpu::ParallelHost>);

namespace {
struct Rows {
  int* visits;
  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members&, long row) const {
    visits[row] += Members::size;
  }
};
struct Thread {
  std::size_t* of_element;
  TENET_HOST_DEVICE void operator()(long i) const {
#if !defined(__CUDA_ARCH__)
    of_element[i] = std::hash<std::thread::id>{}(std::this_thread::get_id());
#endif
  }
};
}  // namespace

TEST_CASE("each row has one thread on the host", "[cuda][host_stream]") {
  int visits[50]{};
  gpu::SerialHost host;
  for_each_row(host, 50, 1000, Rows{visits});
  gpu::ParallelHost several;
  for_each_row(several, 50, 1000, Rows{visits});
  for (const int count : visits) CHECK(count == 2);
}

TEST_CASE("one of the host's streams has several threads", "[cuda][host_stream]") {
  const auto threads = [](auto& host) {
    std::vector<std::size_t> of_element(100000);
    for_each(host, 100000, Thread{of_element.data()});
    return std::set<std::size_t>(of_element.begin(), of_element.end()).size();
  };
  gpu::SerialHost host;
  gpu::ParallelHost several;
  CHECK(threads(host) == 1);
  CHECK(threads(several) == std::thread::hardware_concurrency());
}
