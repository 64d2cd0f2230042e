#include "tenet/parallel/served_parameters.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

#include "../support/far_device.hpp"
#include "../support/ranks.hpp"
#include "tenet/parallel/parameter_server.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<4, 3>, ReLU, Linear<3, 2>> {};
template <class Device>
using StepOn = typename Trainer<Net, CrossEntropy, PlainSgd, Features<4>, Device>::Training;

/// Two steps of two ranks, of which rank 0 has parameters i, and rank 1 nothing: gradients of one and three samples,
/// and another learning rate in the second step. Parameters of each rank, before the first step and behind each; at
/// the end whether they had begun before and behind `begin`, and the number of steps.
template <class Device, class Synchronisation>
std::vector<std::vector<float>> parameters_of_ranks() {
  using Step = StepOn<Device>;
  using Served = ServedParameters<Step, Synchronisation, 1, ThreadTransport>;
  STATIC_REQUIRE(Served::plan.count > 2);
  constexpr auto floats = static_cast<std::size_t>(Step::slots.parameter_floats);
  return ranks::collect(2, [&](ThreadTransport& transport) {
    const int rank = transport.rank();
    const auto executor = make_executor<Device>();
    std::vector<float> parameters(floats), gradients(floats), result;
    if (rank == 0) std::iota(parameters.begin(), parameters.end(), 0.0f);
    Served served(*executor, transport);
    served.use(parameters.data(), gradients.data());
    const auto look = [&] {
      served.complete();
      result.insert(result.end(), parameters.begin(), parameters.end());
    };
    const bool had_begun = served.has_begun();
    served.begin(true);
    look();
    for (const float rate : {0.5f, 0.25f}) {
      const auto scalars = PlainSgd{.learning_rate = rate}.scalars(1);
      served.set_scalars(scalars.data());
      served.begin_step();
      for (int b = 0; b < Served::plan.count; ++b) {
        const Bucket& bucket = Served::plan.buckets[static_cast<std::size_t>(b)];
        for (long i = bucket.first; i < bucket.first + bucket.floats; ++i)
          gradients[static_cast<std::size_t>(i)] = rank == 0 ? 8.0f : static_cast<float>(4 * i);
        served.push(b, rank == 0 ? 1 : 3);
      }
      served.pull_all();
      served.end_step();
      look();
    }
    served.synchronize();
    look();
    result.insert(result.end(),
                  {had_begun ? 1.0f : 0.0f, served.has_begun() ? 1.0f : 0.0f, static_cast<float>(served.step())});
    return result;
  });
}

/// Of parameter i, where rank 0 pushes 8 and rank 1 4i.
float mean(std::size_t i) { return (8 + 3 * 4 * static_cast<float>(i)) / 4; }

template <class Device>
void check_rounds() {
  const auto found = parameters_of_ranks<Device, ParameterServer<Sharded>>();
  constexpr auto floats = static_cast<std::size_t>(StepOn<Device>::slots.parameter_floats);
  long differing = 0;
  for (const auto& of_rank : found) {
    REQUIRE(of_rank.size() == 4 * floats + 3);
    CHECK(std::vector<float>(of_rank.end() - 3, of_rank.end()) == std::vector<float>{0, 1, 2});
    for (std::size_t i = 0; i < floats; ++i) {
      const auto first = static_cast<float>(i);
      differing += of_rank[i] != first;
      differing += of_rank[floats + i] != first - 0.5f * mean(i);
      differing += of_rank[2 * floats + i] != first - 0.75f * mean(i);
      differing += of_rank[3 * floats + i] != first - 0.75f * mean(i);
    }
  }
  CHECK(differing == 0);
}

}  // namespace

TEST_CASE("servers take the mean over all samples off the parameters of rank 0", "[parallel][served_parameters]") {
  check_rounds<Reference>();
  check_rounds<far::Device>();  // whose kernels do not work in the host's memory
}

TEST_CASE("where nobody waits each gradient counts by itself, and all have the same at the end",
          "[parallel][served_parameters]") {
  const auto found = parameters_of_ranks<far::Device, ParameterServer<OnRank<1>, Asynchronous>>();
  constexpr auto floats = static_cast<std::size_t>(StepOn<far::Device>::slots.parameter_floats);
  long differing = 0;
  for (const auto& of_rank : found)
    for (std::size_t i = 0; i < floats; ++i)
      differing += of_rank[3 * floats + i] != static_cast<float>(i) - 0.75f * (8 + 4 * static_cast<float>(i));
  CHECK(differing == 0);
}

namespace {

struct Deep : Sequential<Linear<4, 3>, ReLU, Linear<3, 4>, ReLU, Linear<4, 3>, ReLU, Linear<3, 2>> {};

/// Notes for which keys rank 0 asks, in order; no server answers as long as all are stuck.
class AskingTransport : public ThreadTransport {
 public:
  inline static std::vector<int> asked;
  inline static std::atomic<bool> is_stuck{false};

  explicit AskingTransport(const ThreadTransport& transport) : ThreadTransport(transport) {}
  void send(int to, const float* data, long floats, MessageLabel label) {
    using Kind = detail::StoreHeader::Kind;
    detail::StoreHeader header{.kind = Kind::leave};
    if (!numbers_follow_) std::memcpy(static_cast<void*>(&header), data, sizeof header);
    numbers_follow_ = header.kind == Kind::pulled || header.kind == Kind::push || header.kind == Kind::assign;
    if (header.kind == Kind::pull && rank() == 0) asked.push_back(static_cast<int>(header.key));
    while (header.kind == Kind::pulled && is_stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ThreadTransport::send(to, data, floats, label);
  }

 private:
  bool numbers_follow_ = false;
};

}  // namespace

TEST_CASE("parameters that a run needs first are asked for first", "[parallel][served_parameters]") {
  using Step = typename Trainer<Deep, CrossEntropy, PlainSgd, Features<4>, Reference>::Training;
  using Served = ServedParameters<Step, ParameterServer<OnRank<1>, Asynchronous>, 1, AskingTransport>;
  constexpr auto buckets = static_cast<std::size_t>(Served::plan.count);
  STATIC_REQUIRE(buckets >= 8);
  const auto need = [](int key) { return Served::plan.buckets[static_cast<std::size_t>(key)].needed; };
  const auto by_need = [&](std::size_t first) {
    const std::vector<int>& asked = AskingTransport::asked;
    const auto is_before = [&](int a, int b) { return need(a) < need(b); };
    const auto [earliest, latest] = std::minmax_element(asked.begin(), asked.end(), is_before);
    return asked.size() == buckets && is_before(*earliest, *latest) &&
           std::is_sorted(asked.begin() + static_cast<long>(first), asked.end(), is_before);
  };
  AskingTransport::asked.clear();
  std::atomic<bool> is_stuck_allowed{false}, all_at_once{false}, by_priority{false};
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const auto executor = make_executor<Reference>();
    std::vector<float> parameters(static_cast<std::size_t>(Step::slots.parameter_floats)), gradients(parameters);
    Served served(*executor, AskingTransport(transport));
    served.use(parameters.data(), gradients.data());
    served.begin(true);
    served.complete();
    if (transport.rank() == 1) {
      is_stuck_allowed = true;
    } else {
      all_at_once = by_need(0);
      AskingTransport::asked.clear();
      wait_until([&] { return is_stuck_allowed.load(); }, std::chrono::minutes(1));
      // As gradients leave: in the order of the backward pass. Two are on their way before others can overtake them.
      AskingTransport::is_stuck = true;
      for (int b = 0; b < Served::plan.count; ++b) served.pull(b);
      AskingTransport::is_stuck = false;
      served.complete();
      by_priority = by_need(2);
    }
    served.synchronize();
  });
  CHECK(all_at_once);
  CHECK(by_priority);
}

TEST_CASE("who begins anew gets what rank 0 has then, however late that comes", "[parallel][served_parameters]") {
  using Step = StepOn<Reference>;
  using Served = ServedParameters<Step, ParameterServer<Sharded>, 1, ThreadTransport>;
  constexpr auto floats = static_cast<std::size_t>(Step::slots.parameter_floats);
  // Both begin anew in the first two steps, rank 1 alone in the third.
  const auto found = ranks::collect(2, [&](ThreadTransport& transport) {
    const int rank = transport.rank();
    const auto executor = make_executor<Reference>();
    std::vector<float> parameters(floats), gradients(floats), begun;
    Served served(*executor, transport);
    served.use(parameters.data(), gradients.data());
    const auto scalars = PlainSgd{.learning_rate = 1}.scalars(1);
    served.set_scalars(scalars.data());
    const auto step = [&](float own, bool begins) {
      if (begins) {
        std::fill(parameters.begin(), parameters.end(), own);
        served.restart();
        served.begin(true);
      }
      served.complete();
      begun.push_back(parameters[0]);
      served.begin_step();
      std::fill(gradients.begin(), gradients.end(), 1.0f);
      for (int b = 0; b < Served::plan.count; ++b) served.push(b, 1);
      served.pull_all();
      served.end_step();
      served.complete();
    };
    const auto late = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(rank == 0 ? 60 : 0)); };
    step(10, true);
    late();  // rank 1 asks for the parameters long before rank 0 gives the servers other ones
    step(rank == 0 ? 50 : -1, true);
    late();  // it gives them none
    step(-1, rank == 1);
    served.synchronize();
    begun.push_back(parameters[0]);
    return begun;
  });
  const std::vector<float> expected{10, 50, 49, 48};
  for (const auto& of_rank : found) CHECK(of_rank == expected);
}
