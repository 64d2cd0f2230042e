#include "tenet/exec/buckets.hpp"

#include <catch2/catch.hpp>
#include <tenet/exec/accesses.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

template <class Net, class Input>
using Training = Program<TrainingProgram<Net, CrossEntropy, Sgd, Input, ReferenceKernels>>;

/// Buckets cover the arena once, are sent in the order in which they are ready, are large enough, and no step from
/// `ready` to the update reads or writes one. None reads its parameters before `needed`.
template <class P, class Plan>
void check_plan(const Plan& plan, long least) {
  std::vector<int> covered(static_cast<std::size_t>(P::slots.parameter_floats));
  int before = 0;
  for (const Bucket& bucket : plan) {
    CHECK(bucket.ready >= before);
    CHECK(bucket.ready <= P::lowered.first_update);
    before = bucket.ready;
    if (bucket.first > 0) CHECK(bucket.floats >= least);
    for (long i = bucket.first; i < bucket.first + bucket.floats; ++i) ++covered[static_cast<std::size_t>(i)];
    const MemoryAccess sent{0, Arena::gradients, true, bucket.first, bucket.first + bucket.floats};
    for (const MemoryAccess& access : accesses_of<P>)
      if (access.step < P::lowered.first_update && conflict(access, sent)) CHECK(access.step < bucket.ready);
    const MemoryAccess parameters{0, Arena::parameters, true, bucket.first, bucket.first + bucket.floats};
    int first_read = P::lowered.first_update;
    for (const MemoryAccess& access : accesses_of<P>)
      if (conflict(access, parameters)) first_read = std::min(first_read, static_cast<int>(access.step));
    CHECK(bucket.needed == first_read);
  }
  std::vector<int> seen(static_cast<std::size_t>(plan.count));
  for (int i = 0; i < plan.count; ++i) {
    if (i > 0) CHECK(plan.needed_at(i - 1).needed <= plan.needed_at(i).needed);
    ++seen[static_cast<std::size_t>(plan.by_need[static_cast<std::size_t>(i)])];
  }
  for (const int times : seen) CHECK(times == 1);
  for (const int times : covered) CHECK(times == 1);
}

/// Three parameters with one gradient, which is copied.
struct Sums {
  Linear<16, 3> last;
  Parameter<Fixed<3>, Constant<0>> a, b;
  Linear<16, 16> first;
  constexpr auto forward(auto x) const { return last(tanh(first(x))) + a.in(x) + b.in(x); }
};

struct HalfUsed {
  Linear<16, 3> used, unused;
  constexpr auto forward(auto x) const { return used(x); }
};

}  // namespace

TEST_CASE("buckets of gradients leave in the order of the backward pass", "[buckets]") {
  using LeNetStep = Training<LeNet, Image<1, 28, 28>>;
  static constexpr auto all = plan_buckets(LeNetStep::lowered, LeNetStep::slots, 1 << 20);
  static constexpr auto each = plan_buckets(LeNetStep::lowered, LeNetStep::slots, 1);
  static constexpr auto some = plan_buckets(LeNetStep::lowered, LeNetStep::slots, 5000);
  static_assert(all.count == 1 && all.buckets[0].ready == LeNetStep::lowered.first_update);
  static_assert(each.count == 10);  // weight and bias of five layers
  static_assert(some.count > 1 && some.count < each.count);
  // The last layer's are ready long before the first's.
  static_assert(each.buckets[0].first > each.buckets[9].first);
  static_assert(each.buckets[0].ready < each.buckets[9].ready);
  check_plan<LeNetStep>(all, 1 << 20);
  check_plan<LeNetStep>(each, 1);
  check_plan<LeNetStep>(some, 5000);
  using Shared = Training<networks::Transformer, Tokens<12>>;
  check_plan<Shared>(plan_buckets(Shared::lowered, Shared::slots, 1), 1);
  check_plan<Shared>(plan_buckets(Shared::lowered, Shared::slots, 300), 300);
  using Residual = Training<networks::Residual, Image<2, 6, 5>>;
  check_plan<Residual>(plan_buckets(Residual::lowered, Residual::slots, 40), 40);
}

TEST_CASE("results and running statistics are there behind the forward pass", "[buckets]") {
  const auto check = [](auto program, bool has_statistics) {
    using P = decltype(program);
    static_assert(results_ready<P> > 0 && results_ready<P> < P::lowered.first_update);
    static_assert(results_ready<P> <= plan_buckets(P::lowered, P::slots, 1).buckets[0].ready);
    CHECK((statistics_ready<P> > 0) == has_statistics);
    CHECK(statistics_ready<P> <= results_ready<P>);
    int last_of_results = 0, last_of_statistics = 0;
    for (const MemoryAccess& access : accesses_of<P>) {
      if (access.arena == Arena::buffers) last_of_statistics = std::max(last_of_statistics, access.step + 1);
      for (int r = 0; r < P::result_count; ++r)
        if (const Place& place = P::results[static_cast<std::size_t>(r)];
            access.arena == place.arena && access.first <= place.offset && place.offset < access.last)
          last_of_results = std::max(last_of_results, access.step + 1);
    }
    CHECK(results_ready<P> == last_of_results);
    CHECK(statistics_ready<P> == last_of_statistics);
  };
  check(Training<LeNet, Image<1, 28, 28>>{}, false);
  check(Training<networks::Residual, Image<2, 6, 5>>{}, true);
}

TEST_CASE("a gradient that several parameters share is copied before it leaves, and at once", "[buckets]") {
  using Shared = Training<Sums, Features<16>>;
  static constexpr auto plan = plan_buckets(Shared::lowered, Shared::slots, 1);
  static_assert(plan.count == 6);
  static_assert(plan.buckets[4].ready < Shared::lowered.first_update);  // before the first layer's weight
  check_plan<Shared>(plan, 1);
}

TEST_CASE("a parameter without a gradient delays no bucket", "[buckets]") {
  using Half = Training<HalfUsed, Features<16>>;
  static constexpr auto plan = plan_buckets(Half::lowered, Half::slots, 1);
  static_assert(plan.count == 4 && plan.buckets[0].ready == 0 && plan.buckets[1].ready == 0);
  check_plan<Half>(plan, 1);
}

TEST_CASE("parameters are waited for before the first step that reads them", "[buckets]") {
  using Step = Training<LeNet, Image<1, 28, 28>>;
  static constexpr auto plan = plan_buckets(Step::lowered, Step::slots, 1);
  struct Log {
    std::vector<std::pair<int, int>>
        events{};  // steps, or (-1, bucket) that has been awaited, or (-2, bucket) that left
    void run_steps(int first, int last) { events.emplace_back(first, last); }
  } log;
  std::vector<float> gradients(static_cast<std::size_t>(Step::slots.parameter_floats));
  run_by_buckets<Step>(
      &log, plan, gradients.data(), [&](int b) { log.events.emplace_back(-2, b); },
      [&](int b) { log.events.emplace_back(-1, b); });
  int done = Step::lowered.prepared_steps, awaited = 0, left = 0;
  for (const auto& [what, number] : log.events) {
    if (what == -1) {
      CHECK(number == plan.by_need[static_cast<std::size_t>(awaited++)]);
      CHECK(done == plan.buckets[static_cast<std::size_t>(number)].needed);
    } else if (what == -2) {
      CHECK(number == left++);
      CHECK(done == plan.buckets[static_cast<std::size_t>(number)].ready);
    } else {
      CHECK(what == done);
      done = number;
    }
  }
  CHECK(done == Step::lowered.first_update);
  CHECK(awaited == plan.count);
  CHECK(left == plan.count);
}
