#include "tenet/data/batch_queue.hpp"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

// A queue whose samples are their index, and which counts them.
class CountingQueue : public detail::BatchQueue {
 public:
  CountingQueue(int batch_size, int workers, int prefetch)
      : BatchQueue(SampleLayout{{}, DataKind::int32}, batch_size, workers, prefetch, {}) {}
  ~CountingQueue() { join(); }

  using BatchQueue::choose;
  using BatchQueue::describe;
  using BatchQueue::next;
  using BatchQueue::start;
  using BatchQueue::stop;

  mutable std::atomic<int> reads = 0;

 private:
  void read(long index, long epoch, void* input, void* target) const override {
    ++reads;
    *static_cast<std::int32_t*>(input) = static_cast<std::int32_t>(index);
    *static_cast<std::int32_t*>(target) = static_cast<std::int32_t>(epoch);
  }
};

struct OwnError : Error {
  using Error::Error;
};

template <class E>
std::string rethrown(const E& error) {
  try {
    try {
      throw error;
    } catch (...) {
      detail::rethrow_with("sample 3: ");
    }
  } catch (const E& again) {
    REQUIRE(typeid(again) == typeid(E));
    return again.what();
  }
}

}  // namespace

TEST_CASE("a batch's views check the element type") {
  const SampleLayout layout{{2}, DataKind::float32, {}, DataKind::int32};
  const float input[4] = {1, 2, 3, 4};
  const std::int32_t target[2] = {5, 6};
  Batch batch;
  batch.size = 2;
  batch.input = input;
  batch.target = target;
  batch.layout = &layout;
  CHECK(batch.inputs().size() == 4);
  CHECK(batch.inputs()[3] == 4);
  CHECK(batch.targets().size() == 2);
  CHECK(batch.targets()[1] == 6);
  CHECK_THROWS_WITH(batch.targets<float>(), Contains("Batch::targets") && Contains("expected int32, found float32"));
  CHECK_THROWS_AS(batch.inputs<std::int32_t>(), Error);
}

TEST_CASE("the queue reads no further ahead than it may") {
  std::vector<long> order(100);
  std::iota(order.begin(), order.end(), 0L);
  CountingQueue queue(2, 2, 3);
  Batch batch;
  queue.start(5, order, 50);
  for (long index = 0; index < 50; ++index) {
    queue.next(index, batch);
    CHECK(batch.samples[0] == 2 * index);
    CHECK(static_cast<const std::int32_t*>(batch.input)[1] == 2 * index + 1);
    CHECK(static_cast<const std::int32_t*>(batch.target)[1] == 5);
    CHECK(queue.reads <= 2 * (index + 1 + 2 * 3));
  }
  queue.stop();
  CHECK(queue.reads == 100);
}

TEST_CASE("the queue stops before its batches were taken") {
  std::vector<long> order(1000);
  CountingQueue queue(1, 3, 2);
  for (int round = 0; round < 50; ++round) {
    queue.reads = 0;
    queue.start(0, order, 1000);
    queue.stop();
    const int reads = queue.reads;
    CHECK(reads <= 7);
    CHECK(queue.reads == reads);
  }
}

TEST_CASE("batches that were read ahead and not taken do not reach the next epoch") {
  std::vector<long> order(8);
  CountingQueue queue(1, 1, 2);
  Batch batch;
  for (int epoch = 0; epoch < 20; ++epoch) {
    queue.reads = 0;
    queue.start(2 * epoch, order, 8);
    while (queue.reads < 3) usleep(10);  // all slots
    queue.stop();
    queue.start(2 * epoch + 1, order, 8);
    for (long index = 0; index < 8; ++index) {
      queue.next(index, batch);
      CHECK(*static_cast<const std::int32_t*>(batch.target) == 2 * epoch + 1);
    }
    queue.stop();
  }
}

TEST_CASE("rethrowing keeps the type and adds to the message where it can") {
  CHECK(rethrown(Error("broken")) == "sample 3: broken");
  CHECK(rethrown(std::out_of_range("broken")) == "sample 3: broken");
  CHECK(rethrown(std::runtime_error("broken")) == "sample 3: broken");
  CHECK(rethrown(OwnError("broken")) == "broken");
  CHECK(std::string(rethrown(std::bad_alloc())) == std::bad_alloc().what());
  CHECK_THROWS_AS(
      [] {
        try {
          throw 5;
        } catch (...) {
          detail::rethrow_with("x");
        }
      }(),
      int);
}

TEST_CASE("a queue that only chooses reads nothing, and reads again in the next epoch") {
  const std::vector<long> order{4, 3, 2, 1, 0};
  CountingQueue queue(2, 1, 2);
  Batch batch;
  queue.choose(6, order);
  queue.describe(2, batch);
  CHECK(batch.epoch == 6);
  CHECK(batch.index == 2);
  CHECK(batch.size == 1);
  CHECK(batch.samples == order.data() + 4);
  CHECK(batch.input == nullptr);
  queue.stop();
  CHECK(queue.reads == 0);
  queue.start(7, order, 3);
  queue.next(0, batch);
  CHECK(static_cast<const std::int32_t*>(batch.input)[1] == 3);
  CHECK(static_cast<const std::int32_t*>(batch.target)[1] == 7);
  queue.stop();
}
