#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tenet/device/cuda/launch.hpp"
#include "tenet/device/cuda/recording.hpp"
#include "tenet/device/cuda/stream.hpp"

namespace gpu = tenet::gpu;

namespace {

/// Counts in a workspace what it has done, and leaves the count.
struct CountHere {
  float *workspace, *found;
  TENET_HOST_DEVICE void operator()(long) const { *found = *workspace += 1; }
};
struct AddHere {
  float *from, *to;
  TENET_HOST_DEVICE void operator()(long) const { *to = *from + 1; }
};

int clearings_in(const gpu::RecordedGraph& graph) {
  int count = 0;
  for (const cudaGraphNode_t node : graph.nodes()) {
    cudaGraphNodeType type{};
    gpu::check(cudaGraphNodeGetType(node, &type), "a test");
    count += type == cudaGraphNodeTypeMemset;
  }
  return count;
}

}  // namespace

TEST_CASE("kernels of a recording have workspaces of their own, and nobody else has", "[cuda][recording]") {
  if (gpu::device_count() == 0) return;
  gpu::OwnWorkspaces own;
  CHECK(own.next(4) == nullptr);  // nothing is recorded
  own.begin();
  auto* const first = static_cast<char*>(own.next(300));
  auto* const second = static_cast<char*>(own.next(4));
  CHECK(second - first == 512);
  CHECK(own.next(0) == nullptr);
  CHECK(own.next(gpu::OwnWorkspaces::most_of_one + 1) == nullptr);
  for (long taken = 512 + 256; taken < gpu::OwnWorkspaces::bytes; taken += gpu::OwnWorkspaces::most_of_one)
    own.next(std::min(gpu::OwnWorkspaces::most_of_one, gpu::OwnWorkspaces::bytes - taken));
  CHECK(own.next(4) == nullptr);
  own.end();
  own.begin();
  CHECK(own.next(4) == first);
}

TEST_CASE("a recording clears the workspaces of its kernels at once, for each replay", "[cuda][recording]") {
  if (gpu::device_count() == 0) return;
  gpu::Stream stream(0);
  constexpr int kernels = 4;
  auto* const there = static_cast<float*>(stream.allocate(4 * (kernels + 1), "a test"));
  stream.zero(there, 4 * (kernels + 1));
  // As libraries do it: each clears its workspace right before its kernel. Two kernels of each of two lanes.
  const auto start = [&] {
    gpu::Stream& beside = stream.lane(1);
    beside.wait(stream.mark());
    for (int i = 0; i < kernels; ++i) {
      gpu::Stream& lane = i % 2 == 0 ? stream : beside;
      auto* const workspace = static_cast<float*>(lane.own_workspace(4));
      REQUIRE(workspace != nullptr);
      for_each(lane, 1, AddHere{there + i, there + i});  // what the kernel's place in its lane is seen by
      lane.zero(workspace, 4);
      for_each(lane, 1, CountHere{workspace, there + i});
    }
    stream.wait(beside.mark());
    for_each(stream, 1, AddHere{there + kernels - 1, there + kernels});
    stream.zero(there, 4);  // no workspace: it stays where it is
    for_each(stream, 1, AddHere{there, there});
  };
  stream.lane(1);
  const gpu::Recording recording = stream.record(start);
  for (int replay = 0; replay < 3; ++replay) {
    std::vector<float> found(kernels + 1);
    stream.replay(recording);
    stream.copy_out(found.data(), there, 4 * (kernels + 1));
    stream.synchronize();
    CHECK(found == std::vector<float>{1, 1, 1, 1, 2});
  }
  CHECK(stream.own_workspace(4) == nullptr);  // behind the recording
  gpu::Stream::free(there);
}

TEST_CASE("what clears a workspace is gone from a recording, and who waited for it waits as before",
          "[cuda][recording]") {
  if (gpu::device_count() == 0) return;
  gpu::Stream stream(0);
  gpu::OwnWorkspaces own;
  own.begin();
  gpu::RecordedGraph graph;
  auto* const there = static_cast<float*>(stream.allocate(4, "a test"));
  gpu::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "a test");
  for (int i = 0; i < 3; ++i) {
    auto* const workspace = static_cast<float*>(own.next(4));
    stream.zero(workspace, 4);
    for_each(stream, 1, CountHere{workspace, there});
  }
  gpu::check(cudaStreamEndCapture(stream.get(), &graph.made), "a test");
  CHECK(clearings_in(graph) == 3);
  own.clear_at_once(graph);
  CHECK(clearings_in(graph) == 1);
  CHECK(graph.nodes().size() == 4);
  // A chain of three kernels, each of which waits for the clearing, too.
  std::vector<std::size_t> waits;
  for (const cudaGraphNode_t node : graph.nodes()) waits.push_back(gpu::RecordedGraph::before(node).size());
  std::sort(waits.begin(), waits.end());
  CHECK(waits == std::vector<std::size_t>{0, 1, 2, 2});
  gpu::Stream::free(there);
}
