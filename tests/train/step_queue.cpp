#include "tenet/train/step_queue.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <tenet/core/wait_until.hpp>
#include <thread>

#include "../support/message.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

/// What a queue's steps are to do: wait for the gate, then give the sum of inputs and targets. A negative one fails.
struct Sum {
  explicit Sum(bool is_open = true) : open(is_open) {}

  std::atomic<bool> open;
  std::vector<float> settings;  // of all that have run

  StepResult operator()(float now, const void* inputs, const void* targets, int batch) {
    if (!wait_until([&] { return open.load(); }, 60s)) fail("gate", "closed", "open", "closed");
    settings.push_back(now);
    float sum = 0;
    for (int i = 0; i < batch; ++i) sum += static_cast<const float*>(inputs)[i];
    if (sum < 0) fail("sum", "negative", "0 or more", static_cast<long>(sum));
    return {sum, *static_cast<const float*>(targets)};
  }
};

struct RunSum {
  Sum* sum;
  StepResult operator()(float now, const QueuedBatch& batch) const {
    batch.after();
    return (*sum)(now, batch.inputs.data, batch.targets.data, batch.size);
  }
};

class Queue {
 public:
  explicit Queue(Sum& sum, QueueLimits limits = {}) : steps_({{"cpu"}}, limits, RunSum{&sum}) {}

  PendingStep submit(const std::vector<float>& inputs, float target = 0, float setting = 0) {
    return steps_.submit(setting, std::as_bytes(std::span(inputs)), std::as_bytes(std::span(&target, 1)),
                         static_cast<int>(inputs.size()));
  }
  void synchronize() { steps_.synchronize(); }
  long bytes() const { return steps_.bytes(); }

 private:
  StepQueue<float, RunSum> steps_;
};

std::vector<float> floats(int count, float value = 1) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

}  // namespace

TEST_CASE("steps have copies of their batch and settings", "[step_queue]") {
  Sum sum(false);
  Queue queue(sum);
  std::vector<float> memory = {1, 2, 3};
  float setting = 0.5f;
  const PendingStep first = queue.submit(memory, 7, setting);
  memory = {10, 20};
  setting = 0.25f;
  const PendingStep second = queue.submit(memory, 8, setting);
  memory = {0, 0, 0};
  setting = 0;
  CHECK_FALSE(first.ready());
  CHECK_FALSE(second.ready());
  sum.open = true;
  CHECK(second.get().loss == 30);
  CHECK(first.ready());
  CHECK(first.get().loss == 6);
  CHECK(first.get().accuracy == 7);
  CHECK(second.get().accuracy == 8);
  queue.synchronize();
  CHECK(sum.settings == std::vector<float>{0.5f, 0.25f});
}

TEST_CASE("whoever runs ahead waits when so many steps, or so many bytes, are queued", "[step_queue]") {
  // A batch of 16 floats and its target take 68 bytes.
  const auto limits = GENERATE(QueueLimits{.tasks = 3}, QueueLimits{.tasks = 100, .bytes = 3 * 68 + 10});
  Sum sum(false);
  Queue queue(sum, limits);
  std::atomic<int> submitted{0};
  std::thread front([&] {
    for (int i = 0; i < 10; ++i) {
      queue.submit(floats(16));
      ++submitted;
    }
  });
  wait_until([&] { return submitted == 3; }, 60s);
  std::this_thread::sleep_for(20ms);
  CHECK(submitted == 3);
  sum.open = true;
  front.join();
  queue.synchronize();
  CHECK(submitted == 10);
  CHECK(sum.settings.size() == 10);
  CHECK(queue.bytes() == 3 * 68);
}

TEST_CASE("all places together keep to the bound, whatever the batches' sizes", "[step_queue]") {
  Sum sum;
  constexpr long limit = 4000;
  Queue queue(sum, {.tasks = 64, .bytes = limit});
  long most = 0;
  for (unsigned i = 0; i < 2000; ++i) {
    const int count = static_cast<int>(i * 7919 % 401) + (i % 100 < 50 ? 1 : 500);
    CHECK(queue.submit(floats(count), 3).get().loss == static_cast<float>(count));
    queue.submit(floats(count % 50 + 1));
    queue.submit(floats(900));
    most = std::max(most, queue.bytes());
  }
  CHECK(most <= limit);
  CHECK(most > limit / 2);

  // A batch of more than the bound runs alone; its memory does not stay.
  CHECK(queue.submit(floats(2000)).get().loss == 2000);
  CHECK(queue.bytes() > limit);
  queue.synchronize();
  queue.submit(floats(10));
  CHECK(queue.bytes() <= limit);
}

TEST_CASE("a failed step ends those behind it, until somebody synchronizes", "[step_queue]") {
  Sum sum(false);
  Queue queue(sum);
  const PendingStep before = queue.submit({1});
  const PendingStep failed = queue.submit({-5});
  const PendingStep behind = queue.submit({2}), last = queue.submit({-3});
  sum.open = true;
  const std::string message = "sum: negative; expected 0 or more, found -5";
  CHECK(message_of([&] { behind.get(); }) == message);
  CHECK(message_of([&] { queue.synchronize(); }) == message);
  CHECK(sum.settings.size() == 2);
  CHECK(message_of([&] { queue.synchronize(); }).empty());
  CHECK(before.get().loss == 1);
  CHECK(message_of([&] { failed.get(); }) == message);
  CHECK(message_of([&] { last.get(); }) == message);
  CHECK(queue.submit({4}).get().loss == 4);
  for (int i = 0; i < 20; ++i) queue.submit({1});  // outcomes that failed serve again
  CHECK(message_of([&] { queue.synchronize(); }).empty());
}

TEST_CASE("results that are kept stay what they are", "[step_queue]") {
  Sum sum;
  std::vector<PendingStep> kept;
  {
    Queue queue(sum, {.tasks = 4});
    for (int i = 0; i < 1000; ++i) {
      PendingStep step = queue.submit({static_cast<float>(i)}, 1);
      if (i % 3 != 1) kept.push_back(std::move(step));
    }
  }  // the queue runs what is still to run before it ends
  CHECK(sum.settings.size() == 1000);
  int wrong = 0;
  for (std::size_t i = 0; i < kept.size(); ++i)
    wrong += !kept[i].ready() || kept[i].get().loss != static_cast<float>(i / 2 * 3 + (i % 2 == 0 ? 0 : 2));
  CHECK(wrong == 0);
}

TEST_CASE("results may be taken on another thread", "[step_queue]") {
  Sum sum;
  Queue queue(sum, {.tasks = 4});
  std::vector<PendingStep> given(300);
  std::atomic<int> count{0};
  int wrong = 0;
  std::thread taker([&] {
    for (int i = 0; i < 300; ++i) {
      wait_until([&] { return count > i; }, 60s);
      const PendingStep step = std::move(given[static_cast<std::size_t>(i)]);
      wrong += step.get().loss != static_cast<float>(i);
    }
  });
  for (int i = 0; i < 300; ++i) {
    given[static_cast<std::size_t>(i)] = queue.submit({static_cast<float>(i)});
    ++count;
  }
  taker.join();
  CHECK(wrong == 0);
}
