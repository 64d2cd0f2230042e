#include "tenet/parallel/gradient_exchange.hpp"

#include <mutex>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

namespace {

using LeNetStep = Program<TrainingProgram<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, CpuKernels>>;

/// What happened, in order: steps that ran ("3" for the third) and buckets that were sent ("b0"); and on which threads.
struct Events {
  std::mutex mutex;
  std::vector<std::string> list;
  std::vector<std::thread::id> threads;
  void add(std::string event) {
    const std::lock_guard guard(mutex);
    list.push_back(std::move(event));
    threads.push_back(std::this_thread::get_id());
  }
};

struct RecordingExecution {
  Events* events;
  void run_steps(int first, int last) {
    for (int s = first; s < last; ++s) events->add(std::to_string(s));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
};
/// Adds up a number of all ranks when the first bucket has left so long ago.
template <class Exchange>
struct SummingExecution {
  Exchange* exchange;
  std::chrono::milliseconds since{0};
  float number = 1;
  int runs = 0;
  void run_steps(int, int) {
    if (++runs != 2) return;
    std::this_thread::sleep_for(since);
    exchange->add_up_in_pass(&number, 1);
  }
};
struct RecordingTransport {
  Events* events;
  int ranks = 1;
  int rank() const { return 0; }
  int size() const { return ranks; }
  LinkCost link() const { return {}; }
  std::chrono::nanoseconds limit() const { return {}; }
  void send(int, const float*, long, MessageLabel label) { events->add("sent " + std::to_string(label.number)); }
  void receive(int, long, MessageLabel, auto) {}
  void receive_into(int, float*, long, MessageLabel) {}
  bool arrived(int) { return false; }
  void finish() { events->add("finish"); }
};
struct Recorded {
  static void reduce(RecordingTransport& transport, float* data, long floats, MessageLabel label, float weight) {
    transport.events->add("b" + std::to_string(label.number));
    for (long i = 0; i < floats; ++i) data[i] *= weight;
  }
};

/// Notes whether it gives way to the thread that computes; the last bucket is there when it does not.
template <int buckets>
struct Asking {
  static void reduce(RecordingTransport& transport, float*, long, MessageLabel label, float) {
    if (label.number == 0) transport.events->add(gives_way() ? "gives way" : "looks");
    if (label.number + 1 == buckets && wait_until([] { return !gives_way(); }, std::chrono::seconds(60)))
      transport.events->add("looks");
  }
};

}  // namespace

TEST_CASE("the communication thread gives way while the other one computes, and not while that waits",
          "[gradient_exchange]") {
  Events events;
  constexpr int buckets = plan_buckets(LeNetStep::lowered, LeNetStep::slots, 5000).count;
  GradientExchange<LeNetStep, Asking<buckets>, 20000, RecordingTransport> exchange({&events});
  STATIC_REQUIRE((exchange.plan.count == buckets && buckets > 1));
  std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats));
  for (int step = 0; step < 2; ++step) {
    events.list.clear();
    RecordingExecution execution{&events};
    exchange.begin(1);
    exchange.run(&execution, gradients.data(), [](int, const Bucket&) {});
    exchange.complete();
    std::erase_if(events.list, [](const std::string& event) { return event[0] != 'g' && event[0] != 'l'; });
    CHECK(events.list == std::vector<std::string>{"gives way", "looks"});
    CHECK_FALSE(gives_way());  // only the communication thread does
  }
}

TEST_CASE("buckets leave while the backward pass goes on", "[gradient_exchange]") {
  Events events;
  GradientExchange<LeNetStep, Recorded, 20000, RecordingTransport> exchange({&events});
  RecordingExecution execution{&events};
  std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats), 2.0f);
  exchange.begin(0.5f);
  exchange.run(&execution, gradients.data(), [](int, const Bucket&) {});
  exchange.complete();
  for (const float value : gradients) CHECK(value == 1.0f);  // each reduced once
  const auto at = [&](const std::string& event) {
    return std::find(events.list.begin(), events.list.end(), event) - events.list.begin();
  };
  REQUIRE(exchange.plan.count > 2);
  for (int b = 0; b < exchange.plan.count; ++b) {
    const int ready = exchange.plan.buckets[static_cast<std::size_t>(b)].ready;
    CHECK(at("b" + std::to_string(b)) > at(std::to_string(ready - 1)));  // not before its gradients are there
    if (b + 1 < exchange.plan.count)  // and before the next ones' are, though these do not wait for it
      CHECK(at("b" + std::to_string(b)) <
            at(std::to_string(exchange.plan.buckets[static_cast<std::size_t>(b) + 1].ready)));
  }
  CHECK(events.list.size() == static_cast<std::size_t>(LeNetStep::lowered.first_update + exchange.plan.count));
  for (std::size_t i = 0; i < events.list.size(); ++i)
    CHECK((events.list[i][0] == 'b') == (events.threads[i] != std::this_thread::get_id()));
}

TEST_CASE("parts of parameters are made and sent in the order in which the next forward pass needs them",
          "[gradient_exchange]") {
  Events events;
  GradientExchange<LeNetStep, Recorded, 20000, RecordingTransport> exchange({&events, 2});
  std::vector<float> parameters(static_cast<std::size_t>(LeNetStep::slots.parameter_floats));
  exchange.begin(1);
  exchange.begin_gather(parameters.data(), "parameters", [&](int b) { events.add("made " + std::to_string(b)); });
  exchange.complete();
  CHECK(events.list.back() == "finish");
  for (const std::string what : {"made ", "sent "}) {
    std::vector<int> order;
    for (const std::string& event : events.list)
      if (event.find(what) == 0) order.push_back(std::stoi(event.substr(what.size())));
    CAPTURE(what, order);
    REQUIRE(order.size() == static_cast<std::size_t>(exchange.plan.count));
    CHECK(order.front() == exchange.plan.count - 1);  // the first layer's gradients are the last ones
    CHECK(std::is_sorted(order.begin(), order.end(), [&](int a, int b) {
      return exchange.plan.buckets[static_cast<std::size_t>(a)].needed <
             exchange.plan.buckets[static_cast<std::size_t>(b)].needed;
    }));
  }
}

TEST_CASE("a single bucket is sent by the thread that has nothing else to do", "[gradient_exchange]") {
  Events events;
  GradientExchange<LeNetStep, Recorded, 1 << 20, RecordingTransport> exchange({&events});
  static_assert(exchange.plan.count == 1);
  RecordingExecution execution{&events};
  std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats), 2.0f);
  exchange.begin(0.5f);
  exchange.run(&execution, gradients.data(), [](int, const Bucket&) {});
  CHECK(events.list.back() == "b0");
  CHECK(std::count(events.threads.begin(), events.threads.end(), std::this_thread::get_id()) ==
        static_cast<long>(events.threads.size()));
  exchange.complete();
  for (const float value : gradients) CHECK(value == 1.0f);
}

TEST_CASE("what is summed within a pass is summed by the thread that waits, unless a bucket is under way",
          "[gradient_exchange]") {
  Events events;
  GradientExchange<LeNetStep, Recorded, 20000, RecordingTransport> exchange({&events});
  const auto here = std::this_thread::get_id();
  float number = 3;
  exchange.begin(1);
  exchange.add_up_in_pass(&number, 1);
  CHECK(events.threads == std::vector{here});
  // A bucket that takes long is under way: the sum comes behind it.
  SummingExecution<decltype(exchange)> execution{&exchange};
  std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats));
  std::atomic<bool> is_first{true};
  exchange.run(&execution, gradients.data(), [&](int, const Bucket&) {
    if (is_first.exchange(false)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  exchange.complete();
  REQUIRE(events.list.size() == static_cast<std::size_t>(2 + exchange.plan.count));
  CHECK(events.list[1] == "b0");
  CHECK(events.list[2] == "b" + std::to_string(exchange.plan.count + 1));  // the second sum of the step
  CHECK(events.threads[2] != here);
}

TEST_CASE("what a bucket has thrown comes out before anything is summed behind it", "[gradient_exchange]") {
  Events events;
  GradientExchange<LeNetStep, Recorded, 20000, RecordingTransport> exchange({&events});
  SummingExecution<decltype(exchange)> execution{&exchange,
                                                 std::chrono::milliseconds(50)};  // the bucket has failed by then
  std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats));
  exchange.begin(1);
  const auto run = [&] {
    exchange.run(&execution, gradients.data(), [&](int, const Bucket&) { fail("bucket", "has failed", "1", 2); });
  };
  CHECK(message_of(run) == "bucket: has failed; expected 1, found 2");
  CHECK(events.list.empty());
}

TEST_CASE("results and running statistics leave with the first bucket, and their sum comes with it",
          "[gradient_exchange]") {
  using Step = Program<TrainingProgram<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, CpuKernels>>;
  using Exchange = GradientExchange<Step, Recorded, 300, RecordingTransport>;
  static_assert(Exchange::plan.count > 2 && Exchange::results_leave == 0 && Exchange::statistics_leave == 0);
  Events events;
  struct Passes {
    std::array<float, 4> of_shards{};
    std::vector<float> parameters = std::vector<float>(static_cast<std::size_t>(Step::slots.parameter_floats)),
                       buffers = std::vector<float>(static_cast<std::size_t>(Step::slots.buffer_floats));
    float* memory(Arena arena) { return arena == Arena::parameters ? parameters.data() : buffers.data(); }
    std::array<float, 4>& numbers() { return of_shards; }
  } passes;
  Exchange exchange({&events});
  RecordingExecution execution{&events};
  std::vector<float> gradients(passes.parameters.size());
  const auto at = [&](const std::string& event) {
    return std::find(events.list.begin(), events.list.end(), event) - events.list.begin();
  };
  exchange.begin<WholeBatch>(passes, 8, true);
  exchange.run(
      &execution, gradients.data(), [](int, const Bucket&) {}, NothingAwaited{},
      [] {
        return std::array{7.0f, 0.0f, 0.0f, 0.0f};
      });
  exchange.end(passes);
  CHECK(passes.numbers()[0] == 7);                                                     // of one rank
  CHECK(std::count(events.list.begin(), events.list.end(), std::string("b-1")) == 0);  // samples are counted with them
  CHECK(at("b-2") < at("b0"));
  CHECK(at("b-2") < at(std::to_string(exchange.plan.buckets[1].ready)));
  CHECK(std::count(events.list.begin(), events.list.begin() + at("b0"), "finish") == 2);  // of both broadcasts
  // Else they come when all have ended.
  events.list.clear();
  exchange.begin<WholeBatch>(passes, 8, false);
  exchange.run(&execution, gradients.data(), [](int, const Bucket&) {});
  exchange.end(passes);
  CHECK(at("b-1") < at("b0"));  // the number of samples
  CHECK(at("b-2") > at("b" + std::to_string(exchange.plan.count - 1)));
}

TEST_CASE("a late exchange has results before its buckets, which leave in order and are awaited in the next pass",
          "[gradient_exchange]") {
  using Exchange = GradientExchange<LeNetStep, Recorded, 8192, RecordingTransport, true>;
  static_assert(Exchange::plan.count > 2 && Exchange::results_leave == 0);
  Events events;
  struct Passes {
    std::array<float, 4> of_shards{};
    std::vector<float> parameters = std::vector<float>(static_cast<std::size_t>(LeNetStep::slots.parameter_floats));
    float* memory(Arena) { return parameters.data(); }
    std::array<float, 4>& numbers() { return of_shards; }
  } passes;
  Exchange exchange({&events});
  RecordingExecution execution{&events};
  std::vector<float> gradients(passes.parameters.size());
  std::atomic<bool> is_held{true};
  std::vector<std::string> order;
  for (int b = 0; b < Exchange::plan.count; ++b)
    Exchange::plan.for_each_leaving(b, [&](int leaving) { order.push_back("b" + std::to_string(leaving)); });
  const auto buckets = [&] {
    const std::lock_guard guard(events.mutex);
    std::vector<std::string> result;
    for (const std::string& event : events.list)
      if (event[0] == 'b' && event[1] != '-') result.push_back(event);
    return result;
  };
  const auto hold = [&](int, const Bucket&) {
    while (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto results = [] { return std::array{7.0f, 0.0f, 0.0f, 0.0f}; };
  exchange.begin<WholeBatch>(passes, 8, true);
  exchange.run(&execution, gradients.data(), hold, NothingAwaited{}, results);
  exchange.end(passes);
  CHECK(passes.numbers()[0] == 7);
  CHECK(buckets().empty());
  // The next pass begins; it waits for those of the first one, and changes nothing that they need.
  exchange.begin<WholeBatch>(passes, 8, true);
  const auto wait = [&](int b) {
    is_held = false;
    exchange.await(b);
    const std::vector<std::string> come = buckets();
    CHECK(std::find(come.begin(), come.end(), "b" + std::to_string(b)) != come.end());
    if (b == Exchange::plan.by_need[0] && Exchange::plan.in_turn == 0) CHECK(come.size() == 1);
  };
  exchange.run(
      &execution, gradients.data(), [](int, const Bucket&) {}, wait, results);
  exchange.end(passes);
  exchange.complete();
  std::vector<std::string> twice = order;
  twice.insert(twice.end(), order.begin(), order.end());
  CHECK(buckets() == twice);
}

TEST_CASE("a rank without samples takes part, and adds nothing", "[gradient_exchange]") {
  Events events;
  GradientExchange<LeNetStep, Recorded, 20000, RecordingTransport> exchange({&events});
  std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats), std::nanf(""));
  exchange.begin(0);
  exchange.run(static_cast<RecordingExecution*>(nullptr), gradients.data(), [](int, const Bucket&) {});
  exchange.complete();
  for (const float value : gradients) CHECK(value == 0);
  CHECK(events.list.size() == static_cast<std::size_t>(exchange.plan.count));
}

TEST_CASE("a rank that does not come is named, with the bucket and the step", "[gradient_exchange]") {
  const auto messages = ranks::run(
      2,
      [](ThreadTransport& transport) {
        GradientExchange<LeNetStep, Ring, 20000, ThreadTransport> exchange(transport);
        Events events;
        RecordingExecution execution{&events};
        std::vector<float> gradients(static_cast<std::size_t>(LeNetStep::slots.parameter_floats), 1.0f);
        for (int step = 1; step <= 3; ++step) {
          if (transport.rank() == 1 && step == 3) return;
          exchange.begin(0.5f);
          exchange.run(&execution, gradients.data(), [](int, const Bucket&) {});
          exchange.complete();
        }
      },
      std::chrono::milliseconds(500));
  CHECK(messages[0] ==
        "rank 0, bucket 0 of step 3: waits for a message from rank 1; expected within 0.5 s, found nothing");
}
