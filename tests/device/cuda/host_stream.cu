#include <omp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
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
struct Multiply {
  float* number;
  float factor;
  TENET_HOST_DEVICE void operator()(long) const { *number *= factor; }
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

TEST_CASE("the memory of the host's streams is not the host's", "[cuda][host_stream]") {
  gpu::SerialHost host;
  auto* const there = static_cast<volatile float*>(gpu::SerialHost::allocate(400, "a test"));
  const auto touch = [&](bool open) {  // in a process of its own
    const pid_t child = fork();
    if (child == 0) {
      struct rlimit none {};
      setrlimit(RLIMIT_CORE, &none);
      std::signal(SIGSEGV, SIG_DFL);
      if (open) {
        const gpu::FarMemory::Open memory;
        _exit(there[3] == 2 ? 0 : 1);
      }
      _exit(there[3] == 2 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  };
  const std::vector<float> numbers(100, 2.0f);
  host.copy_in(const_cast<float*>(there), numbers.data(), 400);
  CHECK(touch(false) == -SIGSEGV);
  CHECK(touch(true) == 0);
  std::vector<float> found(100);
  host.copy_out(found.data(), const_cast<float*>(there), 400);
  CHECK(found == numbers);
  gpu::SerialHost::free(const_cast<float*>(there));
}

TEST_CASE("what a host's stream has recorded runs with the numbers of memory, and with nothing else that is new",
          "[cuda][host_stream]") {
  gpu::SerialHost host;
  auto* const there = static_cast<float*>(gpu::SerialHost::allocate(8, "a test"));
  float factor = 3;
  const gpu::SerialHost::Recording recording = host.record([&] { for_each(host, 1, Multiply{there, factor}); });
  factor = 5;
  for (const float number : {1.0f, 7.0f}) {
    host.copy_in(there, &number, 4);
    host.replay(recording);
    float found = 0;
    host.copy_out(&found, there, 4);
    CHECK(found == 3 * number);
  }
  gpu::SerialHost::free(there);
}

TEST_CASE("copies and calls of the host are recorded like kernels", "[cuda][host_stream]") {
  gpu::SerialHost host;
  auto* const there = static_cast<float*>(gpu::SerialHost::allocate(8, "a test"));
  struct Noted {
    float found = 0;
    std::vector<float> all;
    static void note(void* of) { static_cast<Noted*>(of)->all.push_back(static_cast<Noted*>(of)->found); }
  } noted;
  const gpu::SerialHost::Recording recording = host.record([&] {
    for_each(host, 1, Multiply{there, 3});
    host.copy_out(&noted.found, there, 4);
    host.call_on_host(&Noted::note, &noted);
  });
  CHECK(noted.all.empty());
  for (const float number : {1.0f, 7.0f}) {
    host.copy_in(there, &number, 4);
    host.replay(recording);
  }
  CHECK(noted.all == std::vector<float>{3, 21});
  gpu::SerialHost::free(there);
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
  CHECK(threads(several) == static_cast<std::size_t>(omp_get_max_threads()));
}
