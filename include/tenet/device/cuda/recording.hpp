#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <tenet/device/cuda/runtime.hpp>
#include <utility>
#include <vector>

/// What is recorded of a stream, and done to it before it runs.
namespace tenet::gpu {

/// A recorded sequence of kernels and copies that starts with one call.
class Recording {
 public:
  Recording() = default;
  explicit Recording(cudaGraphExec_t graph) : graph_(graph) {}
  Recording(Recording&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Recording& operator=(Recording&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~Recording() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }
  explicit operator bool() const { return graph_ != nullptr; }
  cudaGraphExec_t get() const { return graph_; }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

/// A graph as it was recorded, which may still be changed.
struct RecordedGraph {
  using Node = cudaGraphNode_t;

  RecordedGraph() = default;
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
  ~RecordedGraph() {
    if (made != nullptr) cudaGraphDestroy(made);
  }

  std::vector<Node> nodes() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(made, nullptr, &count), "looking at what was recorded");
    std::vector<Node> found(count);
    check(cudaGraphGetNodes(made, found.data(), &count), "looking at what was recorded");
    return found;
  }
  /// The nodes that one waits for, or that wait for it.
  static std::vector<Node> before(Node node) { return neighbours(cudaGraphNodeGetDependencies, node); }
  static std::vector<Node> behind(Node node) { return neighbours(cudaGraphNodeGetDependentNodes, node); }

  /// `later` waits for `earlier`, too.
  void order(Node earlier, Node later) const {
    const std::vector<Node> known = before(later);
    if (std::find(known.begin(), known.end(), earlier) != known.end()) return;
#if CUDART_VERSION >= 13000
    const cudaError_t status = cudaGraphAddDependencies(made, &earlier, &later, nullptr, 1);
#else
    const cudaError_t status = cudaGraphAddDependencies(made, &earlier, &later, 1);
#endif
    check(status, "changing what was recorded");
  }

  cudaGraph_t made = nullptr;

 private:
  template <class Ask>
  static std::vector<Node> neighbours(const Ask& ask, Node node) {
    std::size_t count = 0;
    std::vector<Node> found;
#if CUDART_VERSION >= 13000
    check(ask(node, nullptr, nullptr, &count), "looking at what was recorded");
    std::vector<cudaGraphEdgeData> edges(count);
    found.resize(count);
    if (count > 0) check(ask(node, found.data(), edges.data(), &count), "looking at what was recorded");
#else
    check(ask(node, nullptr, &count), "looking at what was recorded");
    found.resize(count);
    if (count > 0) check(ask(node, found.data(), &count), "looking at what was recorded");
#endif
    return found;
  }
};

/// Little workspaces for the kernels of a recording, no two of which have the same one.
///
/// Some of cuDNN's kernels count in a few bytes what they have done, and the library clears these right before each:
/// between two kernels that takes longer than some kernels do (5 us of a step's chain each, on an H200). Where nothing
/// else writes there, it can be done whenever before; so a recording clears all of them by one call, beside its first
/// steps.
class OwnWorkspaces {
 public:
  static constexpr long bytes = 4 << 20, most_of_one = 64 << 10;

  OwnWorkspaces() = default;
  OwnWorkspaces(const OwnWorkspaces&) = delete;
  OwnWorkspaces& operator=(const OwnWorkspaces&) = delete;
  ~OwnWorkspaces() { cudaFree(memory_); }

  /// Recordings run one after the other: each has all of them.
  void begin() {
    if (memory_ == nullptr) memory_ = static_cast<char*>(allocate(bytes, "workspaces of recorded kernels"));
    used_ = 0;
    is_recording_ = true;
  }
  void end() { is_recording_ = false; }
  /// Null if nothing is recorded or wanted, or that is too much.
  void* next(long wanted) {
    if (!is_recording_ || wanted <= 0 || wanted > std::min(most_of_one, bytes - used_)) return nullptr;
    return memory_ + std::exchange(used_, used_ + (wanted + alignment - 1) / alignment * alignment);
  }

  /// Instead of each by itself.
  void clear_at_once(const RecordedGraph& graph) const {
    std::vector<cudaGraphNode_t> found;
    for (const cudaGraphNode_t node : graph.nodes())
      if (clears_one(node)) found.push_back(node);
    if (found.empty()) return;
    cudaMemsetParams all{};
    all.dst = memory_;
    all.elementSize = 4;
    all.width = static_cast<std::size_t>(used_ / 4);
    all.height = 1;
    cudaGraphNode_t clearing = nullptr;
    check(cudaGraphAddMemsetNode(&clearing, graph.made, nullptr, 0, &all), "changing what was recorded");
    for (const cudaGraphNode_t node : found) {
      const std::vector<cudaGraphNode_t> before = RecordedGraph::before(node);
      for (const cudaGraphNode_t later : RecordedGraph::behind(node)) {
        graph.order(clearing, later);
        for (const cudaGraphNode_t earlier : before) graph.order(earlier, later);
      }
      check(cudaGraphDestroyNode(node), "changing what was recorded");
    }
  }

 private:
  bool clears_one(cudaGraphNode_t node) const {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "looking at what was recorded");
    if (type != cudaGraphNodeTypeMemset) return false;
    cudaMemsetParams clears{};
    check(cudaGraphMemsetNodeGetParams(node, &clears), "looking at what was recorded");
    const auto at = reinterpret_cast<std::uintptr_t>(clears.dst), first = reinterpret_cast<std::uintptr_t>(memory_);
    return clears.value == 0 && at >= first && at < first + static_cast<std::uintptr_t>(used_);
  }

  static constexpr long alignment = 256;
  char* memory_ = nullptr;
  long used_ = 0;  ///< bytes
  bool is_recording_ = false;
};

}  // namespace tenet::gpu
