// A program of its own: it replaces the allocator, and fails if anything is allocated behind the first step.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/train/timeline.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/gradient_check.hpp"
#include "../support/networks.hpp"

// glibc's allocator under its other names; what is defined below takes the place of malloc for the whole program, the
// libraries and operator new included.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {
std::atomic<long> calls{0};
std::atomic<bool> counting{false};
void count() {
  if (counting.load(std::memory_order_relaxed)) calls.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count();
  return __libc_calloc(number, size);
}
void* realloc(void* memory, std::size_t size) {
  count();
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  if (memory != nullptr) count();
  __libc_free(memory);
}
}

using namespace tenet;

namespace {

struct Bag {
  Embedding<17, 5, Sparse> words;
  Linear<5, 3> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(words(tokens))); }
};

/// Calls of the allocator, by any thread, while `body` runs.
template <class Body>
long allocations(Body body) {
  calls = 0;
  counting = true;
  body();
  counting = false;
  return calls;
}

// Steps, evaluations and predictions of a network: the first ones allocate, later ones with no larger batch do not.
template <class Net, class Input, class Optimizer, int Workers, class... Policies>
void check_allocations() {
  using Trainer = tenet::Trainer<Net, CrossEntropy, Optimizer, Input, Cpu<0, Workers>, Policies...>;
  constexpr int batch = 6;
  Trainer trainer;
  const auto inputs = law::sample<typename Trainer::InputElement>(Input::size * batch, 1, {.token_limit = 17});
  const auto labels = law::sample<std::int32_t>(Trainer::Target::size * batch, 2, {.token_limit = 3});

  CHECK(allocations([&] { trainer.step(inputs.data(), labels.data(), batch); }) > 0);
  CHECK(allocations([&] {
          for (int step = 0; step < 3; ++step) trainer.step(inputs.data(), labels.data(), batch - step);
        }) == 0);
  CHECK(allocations([&] { trainer.predict(inputs.data(), batch); }) > 0);
  CHECK(allocations([&] {
          trainer.predict(inputs.data(), 1);
          trainer.predict(inputs.data(), batch);
          trainer.step(inputs.data(), labels.data(), batch);
        }) == 0);
}

}  // namespace

TEST_CASE("the counters see every way to allocate") {
  CHECK(allocations([] {}) == 0);
  int* volatile number = nullptr;
  CHECK(allocations([&] { number = new int(1); }) == 1);
  CHECK(allocations([&] { delete number; }) == 1);
  void* volatile memory = nullptr;
  CHECK(allocations([&] { memory = ::operator new(64, std::align_val_t{64}); }) == 1);
  ::operator delete(memory, std::align_val_t{64});
  CHECK(allocations([&] { memory = std::malloc(8); }) == 1);
  CHECK(allocations([&] { memory = std::realloc(memory, 800); }) == 1);
  std::free(memory);
}

TEST_CASE("a step or a prediction allocates nothing after the first") {
  check_allocations<LeNet, Image<1, 28, 28>, Sgd, 2>();
  check_allocations<networks::Residual, Image<2, 6, 5>, Adam, 2>();
  check_allocations<networks::Transformer, Tokens<12>, AdamW, 1>();
  check_allocations<networks::ConvTowers, Image<2, 6, 5>, Adam, 1, InterOpParallel<2>>();
  check_allocations<Bag, Tokens<12>, Adam, 2>();
}

TEST_CASE("a step that is recorded allocates nothing after the first, though its row is full") {
  check_allocations<networks::Residual, Image<2, 6, 5>, Adam, 1, Timeline<40>>();
  check_allocations<networks::Residual, Image<2, 6, 5>, Adam, 1, DataParallel<2>, Timeline<>>();
}

TEST_CASE("queued steps allocate nothing after the first") {
  using Trainer = tenet::Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<0, 2>>;
  constexpr int batch = 6;
  Trainer trainer;
  const auto inputs = law::sample<float>(784 * batch, 1, {});
  const auto labels = law::sample<std::int32_t>(batch, 2, {.token_limit = 10});
  trainer.queue_limits({.tasks = 4});
  std::vector<PendingStep> kept(10);
  // The front end runs ahead, drops some of the results, keeps others and takes them late.
  const auto train = [&] {
    for (std::size_t step = 0; step < 60; ++step) {
      PendingStep pending = trainer.step_async(inputs.data(), labels.data(), step % 7 == 0 ? batch - 1 : batch);
      if (step % 3 != 0) kept[step % kept.size()] = std::move(pending);
    }
    trainer.synchronize();
  };
  CHECK(allocations(train) > 0);
  train();  // begins where results of before are kept
  train();
  CHECK(allocations(train) == 0);
}

TEST_CASE("evaluation steps allocate nothing after the first batch") {
  // The loader's memory is its own; within one epoch all batches behind the first are to cost nothing.
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<0, 2>> trainer;
  const auto data = [](long samples) {
    return TensorDataset<>(law::sample<float>(784 * samples, 1, {}), {1, 28, 28},
                           law::sample<std::int32_t>(samples, 2, {.token_limit = 10}));
  };
  DataLoader few{data(4), {.batch_size = 4}}, many{data(40), {.batch_size = 4}};
  trainer.evaluate(many);
  const long of_one = allocations([&] { trainer.evaluate(few); });
  const long of_ten = allocations([&] { trainer.evaluate(many); });
  CHECK(of_one == of_ten);
}

TEST_CASE("a model allocates nothing after the first prediction") {
  Model<LeNet, Image<1, 28, 28>, Cpu<0, 2>> model;
  const auto image = law::sample<float>(784, 1, {});
  model(image.data());
  CHECK(allocations([&] { model(image.data()); }) == 0);
}
