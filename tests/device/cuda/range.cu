#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../random_numbers.hpp"
#include "small_network.hpp"
#include "tenet/device/cuda/range.hpp"
#include "tenet/device/range.hpp"

using namespace tenet;

static_assert(HasRanges<gpu::Stream> && HasRanges<gpu::SerialHost> && HasRanges<gpu::ParallelHost>);

namespace {

/// What a profiler sees of a thread: names in the order of their beginnings, with a space for each that they lie in.
thread_local std::vector<std::string> seen;
thread_local int depth = 0;
thread_local int least_depth = 0;

nvtxDomainHandle_t create_domain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(new std::string(name));  // kept as long as the program
}
/// Libraries may show ranges of their own.
bool is_ours(nvtxDomainHandle_t domain) {
  return domain != nullptr && *reinterpret_cast<std::string*>(domain) == "tenet";
}
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  if (!is_ours(domain)) return NVTX_NO_PUSH_POP_TRACKING;
  const bool is_text = attributes->messageType == NVTX_MESSAGE_TYPE_ASCII && attributes->version == NVTX_VERSION;
  seen.push_back(std::string(static_cast<std::size_t>(depth), ' ') + (is_text ? attributes->message.ascii : "?"));
  return depth++;
}
int pop(nvtxDomainHandle_t domain) {
  if (!is_ours(domain)) return NVTX_NO_PUSH_POP_TRACKING;
  least_depth = std::min(least_depth, --depth);
  return depth;
}

int start_profiler(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count);
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create_domain);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

bool another_profiler_is_attached() { return std::getenv("NVTX_INJECTION64_PATH") != nullptr; }

/// What `work` showed, all of whose ranges have ended.
template <class Work>
std::vector<std::string> seen_of(const Work& work) {
  seen.clear();
  work();
  CHECK(depth == 0);
  CHECK(least_depth == 0);
  return seen;
}

/// The range of a program, and those of its steps in the order in which they are started.
template <class Program>
std::vector<std::string> all_ranges() {
  std::vector<std::string> expected{Program::Definition::name};
  for (int s = 0; s < Program::lowered.used.steps; ++s) expected.push_back(" " + step_name<Program>(s));
  return expected;
}

template <class Device>
void check_trainer() {
  using Learner = small_network::TrainerOn<Device>;
  Learner trainer{{.learning_rate = 0.1f}, 1};
  const std::vector<float> images = random_floats(2 * Learner::Input::size, 1);
  const std::vector<std::int32_t> labels{0, 2};
  const auto step = [&] { trainer.step(images.data(), labels.data(), 2); };
  const std::vector<std::string> expected = all_ranges<typename Learner::Training>();
  CHECK(seen_of(step) == expected);
  for (const char* name : {" conv2d 0", " matmul 3", " conv2d_weight_gradient 0"}) {
    CAPTURE(name);
    CHECK(std::count(expected.begin(), expected.end(), name) > 0);
  }
  std::vector<std::string> recorded{expected[0], " recording"};
  for (std::size_t i = 1; i < expected.size(); ++i) recorded.push_back(" " + expected[i]);
  CHECK(seen_of(step) == recorded);
  CHECK(seen_of(step) == std::vector<std::string>{"training"});  // what was recorded starts with one call
  CHECK(seen_of([&] { trainer.predict(images.data(), 2); }) == all_ranges<typename Learner::Predicting>());
  const TensorDataset data(images, {1, 16, 16}, labels);
  CHECK(seen_of([&] {
          trainer.evaluate(DataLoader{data, {.batch_size = 2}});
        }) == all_ranges<typename Learner::Evaluating>());
}

/// This program is the profiler, too: NVTX asks for one with its first call, which comes behind this.
const auto profiler = InitializeInjectionNvtx2_fnptr = &start_profiler;

}  // namespace

TEST_CASE("a profiler sees ranges within each other, in the library's domain", "[cuda][range]") {
  if (another_profiler_is_attached()) return;
  const auto found = seen_of([] {
    std::string name = "outer";
    gpu::begin_range(name.c_str());
    name = "inner";
    gpu::begin_range(name.c_str());
    gpu::end_range();
    gpu::begin_range("second");
    gpu::end_range();
    gpu::end_range();
  });
  CHECK(found == std::vector<std::string>{"outer", " inner", " second"});
  seen.clear();
  std::thread([] { gpu::begin_range("elsewhere"), gpu::end_range(); }).join();
  CHECK(seen.empty());
}

TEST_CASE("a profiler sees programs and the steps that are started, named by operation and layer", "[cuda][range]") {
  if (another_profiler_is_attached()) return;
  check_trainer<CudaOnHost<>>();
}

TEST_CASE("a profiler sees the same of a GPU, whose steps go to several streams", "[cuda][range]") {
  if (another_profiler_is_attached() || gpu::device_count() == 0) return;
  check_trainer<Cuda<0>>();
}
