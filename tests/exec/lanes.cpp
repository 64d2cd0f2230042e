#include "tenet/exec/lanes.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <set>
#include <tenet/exec/buckets.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

MemoryAccess read_of(int step, long at) { return {step, Arena::fixed, false, at, at + 1}; }
MemoryAccess write_of(int step, long at) { return {step, Arena::fixed, true, at, at + 1}; }

/// Lanes that run nothing until they are told to: each a queue of what it was given, events that have happened or not.
class Queues {
 public:
  using Mark = std::shared_ptr<bool>;

  Queues& lane(int i) {
    if (i == 0) return *this;
    while (lanes_.size() < static_cast<std::size_t>(i)) lanes_.push_back(std::make_unique<Queues>());
    return *lanes_[static_cast<std::size_t>(i - 1)];
  }
  Mark mark() {
    auto event = std::make_shared<bool>(false);
    give([event] { return *event = true; });
    return event;
  }
  void wait(const Mark& event) {
    REQUIRE(event != nullptr);
    give([event] { return *event; });
  }
  /// What says false is asked again later.
  void give(std::function<bool()> task) { tasks_.push_back(std::move(task)); }

  /// Runs all that was given, the next task of a lane that is drawn each time; the lanes that had something to do.
  int run(std::uint64_t seed) {
    Random random(seed);
    std::vector<Queues*> all{this};
    for (const auto& lane : lanes_) all.push_back(lane.get());
    std::set<Queues*> used;
    for (int fruitless = 0; fruitless < 1000;) {
      Queues& drawn = *all[random.below(static_cast<std::uint32_t>(all.size()))];
      if (!drawn.tasks_.empty()) used.insert(&drawn);
      if (!drawn.tasks_.empty() && drawn.tasks_.front()()) {
        drawn.tasks_.pop_front();
        fruitless = 0;
      } else {
        ++fruitless;
      }
    }
    for (const Queues* lane : all) CHECK(lane->tasks_.empty());  // no lane waits for ever
    return static_cast<int>(used.size());
  }

 private:
  std::deque<std::function<bool()>> tasks_;
  std::vector<std::unique_ptr<Queues>> lanes_;
};
static_assert(HasLanes<Queues>);

/// Stands for what several devices do to gradients that are there, to parameters behind the update, and to running
/// statistics at the end.
template <class P>
struct Doublings {
  static constexpr auto plan = plan_buckets(P::lowered, P::slots, 16);
  static constexpr auto all = [] {
    constexpr auto buckets = static_cast<std::size_t>(plan.count);
    std::array<Exchange, 2 * buckets + 1> exchanges{};
    for (std::size_t b = 0; b < buckets; ++b) {
      const Bucket& bucket = plan.buckets[b];
      exchanges[b] = {"gradients", Arena::gradients, bucket.first, bucket.floats, bucket.ready};
      exchanges[buckets + b] = {"parameters", Arena::parameters, bucket.first, bucket.floats, P::lowered.after_update};
    }
    exchanges.back() = {"statistics", Arena::buffers, 0, P::slots.buffer_floats, P::lowered.used.steps};
    return exchanges;
  }();
};

/// Runs the program one step after the other, and then on lanes, whose tasks come in drawn orders: the same bits.
template <class P, class Exchanges = NoExchanges>
int check_orders() {
  const auto executor = make_executor<Reference, typename P::Kernels>();
  constexpr int batch = 3;
  const auto filled = [](long size, std::size_t seed, bool positive) {
    std::vector<float> numbers = network::numbers(size, seed);
    for (float& number : numbers) number = positive ? 0.5f + 0.25f * number : 0.3f * number;
    return numbers;
  };
  std::vector<std::vector<float>> inputs;
  for (std::size_t i = 0; i < 4; ++i) {
    const TensorInfo* const type = P::input_types[i];
    inputs.push_back(type == nullptr ? std::vector<float>(1) : filled(type->size() * batch, 10 + i, false));
    if (type != nullptr && type->dtype == DType::int32)
      std::fill(inputs[i].begin(), inputs[i].end(), 0.0f);  // bits of 0
  }
  int lanes = 0;
  const auto run = [&](std::uint64_t order) {
    std::vector<float> parameters = filled(P::slots.parameter_floats, 1, false),
                       buffers = filled(P::slots.buffer_floats, 2, true),
                       states(static_cast<std::size_t>(P::state_count * P::slots.parameter_floats)),
                       gradients(static_cast<std::size_t>(P::slots.parameter_floats));
    Execution<P, OneSampleNever> execution(*executor);
    execution.bind(Arena::parameters, parameters.data());
    execution.bind(Arena::buffers, buffers.data());
    execution.bind(Arena::states, states.data());
    execution.bind(Arena::gradients, gradients.data());
    const float scalars[16]{0.1f, 0.9f, 0.99f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f};
    execution.set_scalars(scalars, 7);
    for (int i = 0; i < 4; ++i) execution.give(i, inputs[static_cast<std::size_t>(i)].data());
    execution.begin(batch);
    int exchanges = 0, disorders = 0;
    const auto run_entry = [&](std::size_t place) {
      const SequenceEntry entry = sequence_of<P, Exchanges>()[place];
      if (entry.exchange < 0) return execution.run_steps(entry.step, entry.step + 1);
      disorders += entry.exchange != exchanges++;
      const Exchange& exchange = Exchanges::all[static_cast<std::size_t>(entry.exchange)];
      std::vector<float>& arena = exchange.arena == Arena::gradients    ? gradients
                                  : exchange.arena == Arena::parameters ? parameters
                                                                        : buffers;
      float* const numbers = arena.data() + exchange.first;
      for (long i = 0; i < exchange.floats; ++i) numbers[i] *= 2;
    };
    if (order == 0) {
      for (std::size_t place = 0; place < sequence_of<P, Exchanges>().size(); ++place) run_entry(place);
    } else {
      Queues queues;
      bool began = false;
      int early = 0, done = 0, done_before_the_end = 0;
      queues.give([&] { return began = true; });
      run_on_lanes(lanes_of<P, Exchanges>(), queues, [&](Queues& lane, int place) {
        lane.give([&, place] {
          early += !began;
          ++done;
          run_entry(static_cast<std::size_t>(place));
          return true;
        });
      });
      queues.give([&] {
        done_before_the_end = done;
        return true;
      });
      lanes = std::max(lanes, queues.run(order));
      CHECK(early == 0);
      CHECK(done_before_the_end == static_cast<int>(sequence_of<P, Exchanges>().size()));
    }
    CHECK(exchanges == static_cast<int>(Exchanges::all.size()));
    CHECK(disorders == 0);  // devices wait for each other in them
    parameters.insert(parameters.end(), buffers.begin(), buffers.end());
    parameters.insert(parameters.end(), states.begin(), states.end());
    parameters.push_back(*execution.result(0));
    return parameters;
  };
  const std::vector<float> expected = run(0);
  for (std::uint64_t order = 1; order <= 10; ++order)
    CHECK(std::memcmp(run(order).data(), expected.data(), 4 * expected.size()) == 0);
  return lanes;
}

template <class Net, class Input, class Loss, class Optimizer, class... Policies>
int check_network() {
  using T = Trainer<Net, Loss, Optimizer, Input, Reference, Policies...>;
  check_orders<typename T::Predicting>();
  if constexpr (T::keeps_gradients) check_orders<typename T::Training, Doublings<typename T::Training>>();
  return check_orders<typename T::Training>();
}

}  // namespace

TEST_CASE("a chain of steps stays on one lane, and what does not depend on it goes to another", "[exec][lanes]") {
  // 0 -> 1 -> 3, 0 -> 2 -> 4, 3 and 4 -> 5
  const std::vector<MemoryAccess> accesses{write_of(0, 0), read_of(1, 0), write_of(1, 1), read_of(2, 0),
                                           write_of(2, 2), read_of(3, 1), write_of(3, 3), read_of(4, 2),
                                           write_of(4, 4), read_of(5, 3), read_of(5, 4),  write_of(5, 5)};
  const LanePlan plan = lanes_of(accesses, std::vector<SequenceEntry>(6, {.step = 0}));
  CHECK(plan.lane == std::vector<int>{0, 0, 1, 0, 1, 0});
  CHECK(plan.is_awaited == std::vector<bool>{true, false, false, false, true, false});
}

TEST_CASE("nothing comes between the steps of the longest chain, which has the first lane", "[exec][lanes]") {
  // 0, 1 -> 2 -> 5 -> 7, and beside it 2 -> 3 -> 4 and 5 -> 6: as weights that are prepared, and gradients by them.
  const std::vector<MemoryAccess> accesses{write_of(0, 0), write_of(1, 1), read_of(2, 0),  read_of(2, 1),
                                           write_of(2, 2), read_of(3, 2),  write_of(3, 3), read_of(4, 3),
                                           write_of(4, 4), read_of(5, 2),  write_of(5, 5), read_of(6, 5),
                                           write_of(6, 6), read_of(7, 5),  write_of(7, 7)};
  std::vector<MemoryAccess> longer = accesses;  // 7 -> 8, so that 2 -> 3 -> 4 is shorter
  longer.push_back(read_of(8, 7));
  const LanePlan plan = lanes_of(longer, std::vector<SequenceEntry>(9, {.step = 0}));
  CHECK(plan.lane == std::vector<int>{0, 1, 0, 1, 1, 0, 2, 0, 0});
}

TEST_CASE("nothing comes between the steps of a chain where another lane is free", "[exec][lanes]") {
  // 0 -> 3 -> 5 -> 7 -> 8, beside it 0 -> 1 -> 4 -> 6, and beside that 1 -> 2.
  const std::vector<MemoryAccess> accesses{write_of(0, 0), read_of(1, 0), write_of(1, 1), read_of(2, 1),
                                           write_of(2, 2), read_of(3, 0), write_of(3, 3), read_of(4, 1),
                                           write_of(4, 4), read_of(5, 3), write_of(5, 5), read_of(6, 4),
                                           write_of(6, 6), read_of(7, 5), write_of(7, 7), read_of(8, 7)};
  const LanePlan plan = lanes_of(accesses, std::vector<SequenceEntry>(9, {.step = 0}));
  CHECK(plan.lane == std::vector<int>{0, 1, 2, 0, 1, 0, 1, 0, 0});
}

TEST_CASE("more than there are lanes go behind each other", "[exec][lanes]") {
  std::vector<MemoryAccess> accesses;
  for (int s = 0; s < most_lanes + 1; ++s) accesses.push_back(write_of(s, s));
  const LanePlan plan = lanes_of(accesses, std::vector<SequenceEntry>(most_lanes + 1, {.step = 0}));
  CHECK(plan.lane == std::vector<int>{0, 1, 2, 3, 0});
}

TEST_CASE("what devices do together has a lane of its own, behind the steps that it needs", "[exec][lanes]") {
  // Steps 0 and 2 write two gradients, 1 and 3 bring each together, 4 needs both.
  const std::vector<MemoryAccess> accesses{write_of(0, 0), write_of(1, 0), read_of(2, 9), write_of(2, 1),
                                           write_of(3, 1), read_of(4, 0),  read_of(4, 1)};
  const LanePlan plan = lanes_of(
      accesses, std::vector<SequenceEntry>{{.step = 0}, {.exchange = 0}, {.step = 1}, {.exchange = 1}, {.step = 2}});
  CHECK(plan.lane == std::vector<int>{0, exchange_lane, 1, exchange_lane, 0});
  CHECK(plan.is_awaited == std::vector<bool>{true, false, true, true, false});
}

TEST_CASE("whatever the order in which lanes run, the bits are those of one step after the other", "[exec][lanes]") {
  CHECK(check_network<networks::Towers, Features<16>, CrossEntropy, Sgd>() >= 2);
  CHECK(check_network<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Adam>() >= 2);
  CHECK(check_network<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd, UpdateInBackward>() >= 2);
  CHECK(check_network<networks::Transformer, Tokens<12>, CrossEntropy, AdamW>() >= 2);
  CHECK(check_network<LeNet, Image<1, 28, 28>, CrossEntropy, Sgd, BFloat16>() >= 2);
}
