#include "tenet/exec/program.hpp"

#include <cstring>

#include "../support/gradient_check.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {
// Not Adam: it would make full steps of the rounding errors in the gradient of a bias before a batch norm, which is
// zero.
template <class Device>
using ResidualTrainer = Trainer<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Device>;
template <class Device>
using WordTrainer = Trainer<networks::Transformer, CrossEntropy, AdamW, Tokens<12>, Device>;

template <class Trainer>
std::vector<typename Trainer::InputElement> inputs_of(int batch) {
  return law::sample<typename Trainer::InputElement>(Trainer::Input::size * batch, 1, {.token_limit = 17});
}
template <class Trainer>
std::vector<std::int32_t> labels_of(int batch) {
  return law::sample<std::int32_t>(Trainer::Target::size * batch, 2, {.token_limit = 3});
}

template <class Trainer>
void train(Trainer& trainer, int batch) {
  trainer.step(inputs_of<Trainer>(batch).data(), labels_of<Trainer>(batch).data(), batch);
}

template <class Trainer>
std::vector<float> parameters_of(Trainer& trainer) {
  return {trainer.weights().parameters(), trainer.weights().parameters() + trainer.weights().table.parameter_floats};
}

/// The worst difference relative to the largest element.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::fmax(worst, std::fabs(double{a[i]} - b[i]));
    largest = std::fmax(largest, std::fabs(a[i]));
  }
  return worst / largest;
}

template <template <class> class TrainerOn>
void same_bits_for_any_number_of_threads() {
  TrainerOn<Cpu<0, 1>> one;
  TrainerOn<Cpu<0, 2>> two;
  TrainerOn<Cpu<0, 3>> three;
  for (int step = 0; step < 3; ++step) {
    train(one, 9);
    train(two, 9);
    train(three, 9);
  }
  const auto expected = parameters_of(one);
  CHECK(std::memcmp(expected.data(), parameters_of(two).data(), 4 * expected.size()) == 0);
  CHECK(std::memcmp(expected.data(), parameters_of(three).data(), 4 * expected.size()) == 0);
}

using Training = ResidualTrainer<Reference>::Training;
static_assert(Training::flops.per_sample > 3 * ResidualTrainer<Reference>::Evaluating::flops.per_sample / 2);
static_assert(ResidualTrainer<Reference>::Predicting::per_sample_floats < Training::per_sample_floats);
}  // namespace

TEST_CASE("the CPU device trains as the reference does, whatever batches come") {
  ResidualTrainer<Reference> reference;
  ResidualTrainer<Cpu<0, 2>> cpu;
  const auto before = parameters_of(cpu);
  for (const int batch : {8, 3, 16, 3, 8}) {
    train(reference, batch);
    train(cpu, batch);
    CHECK(difference(parameters_of(reference), parameters_of(cpu)) < 1e-4);
    const auto inputs = inputs_of<ResidualTrainer<Reference>>(batch);
    const auto a = reference.predict(inputs.data(), batch), b = cpu.predict(inputs.data(), batch);
    CHECK(difference({a.begin(), a.end()}, {b.begin(), b.end()}) < 1e-3);
  }
  CHECK(difference(before, parameters_of(cpu)) > 1e-3);
}

TEST_CASE("a transformer trains on the CPU device as on the reference") {
  WordTrainer<Reference> reference;
  WordTrainer<Cpu<0, 2>> cpu;
  for (const int batch : {4, 2, 5}) {
    train(reference, batch);
    train(cpu, batch);
    CHECK(difference(parameters_of(reference), parameters_of(cpu)) < 1e-4);
  }
}

TEST_CASE("an earlier larger batch leaves no trace") {
  ResidualTrainer<Cpu<0, 2>> fresh, used;
  const auto large = inputs_of<ResidualTrainer<Cpu<0, 2>>>(16), small = inputs_of<ResidualTrainer<Cpu<0, 2>>>(3);
  used.predict(large.data(), 16);
  const auto a = fresh.predict(small.data(), 3), b = used.predict(small.data(), 3);
  CHECK(std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

TEST_CASE("results have the same bits for any number of threads") {
  same_bits_for_any_number_of_threads<ResidualTrainer>();
  same_bits_for_any_number_of_threads<WordTrainer>();
}

TEST_CASE("the memory that is held is the plan's") {
  ResidualTrainer<Cpu<0, 2>> trainer;
  using Plan = ResidualTrainer<Cpu<0, 2>>::Training;
  CHECK(trainer.activation_floats() == 0);
  train(trainer, 7);
  CHECK(trainer.activation_floats() == Plan::lowered.room_for(7) * Plan::per_sample_floats + Plan::fixed_floats);
  train(trainer, 2);
  CHECK(trainer.activation_floats() == Plan::lowered.room_for(7) * Plan::per_sample_floats + Plan::fixed_floats);
}
