#include "tenet/parallel/hogwild.hpp"

#include "../support/training_ranks.hpp"

using namespace tenet;

namespace {

template <class Net, class Loss, class Optimizer, class Input, class Device>
using One = Trainer<Net, Loss, Optimizer, Input, Device>;
template <class Net, class Loss, class Optimizer, class Input, class Device, int replicas, int samples>
using Wild = Trainer<Net, Loss, Optimizer, Input, Device, DataParallel<replicas>, Hogwild<samples>>;

/// One replica takes the parts in their order, as one device takes batches.
template <class Net, class Loss, class Optimizer, class Input, class Device>
void check_alone(Optimizer optimizer) {
  using Plain = One<Net, Loss, Optimizer, Input, Device>;
  using Alone = Wild<Net, Loss, Optimizer, Input, Device, 1, 4>;
  const network::Samples<Plain> samples(10);
  Plain plain{optimizer, 3};
  Alone alone{optimizer, 3};
  for (int step = 0; step < 3; ++step) {
    double loss = 0;
    for (const int first : {0, 4, 8}) {
      const int count = first == 8 ? 2 : 4;
      loss += static_cast<double>(count) * plain
                                               .step(samples.inputs.data() + first * Input::size,
                                                     samples.targets.data() + first * Plain::Target::size, count)
                                               .loss;
    }
    CHECK(alone.step(samples.inputs.data(), samples.targets.data(), 10).loss == Approx(loss / 10).epsilon(1e-5));
    // A step begins with the parameters as they are then.
    for (long i = 0; i < Weights<Net>::table.parameter_floats; ++i)
      alone.weights().parameters()[i] = plain.weights().parameters()[i] *= 0.9f;
  }
  for (long i = 0; i < Weights<Net>::table.parameter_floats; ++i)
    REQUIRE(alone.weights().parameters()[i] == plain.weights().parameters()[i]);  // to the bit
  CHECK(alone.gradients() != nullptr);
}

}  // namespace

TEST_CASE("one replica updates as one device with small batches does", "[hogwild]") {
  // Settings that do not change from step to step: an update of a part is no step of its own.
  check_alone<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Reference>({.learning_rate = 0.05f});
  check_alone<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>>(
      {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f});
  check_alone<networks::WholeRows, MeanSquaredError, Sgd, Features<16>, Cpu<0, 2>>({.learning_rate = 0.05f});
}

TEST_CASE("replicas that do not wait for each other train", "[hogwild]") {
  using Net = networks::WholeRows;
  using Plain = One<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>>;
  const network::Samples<Plain> samples(64);
  const Sgd sgd{.learning_rate = 0.1f, .momentum = 0.5f};
  const auto train = [&](auto& trainer, int steps) {
    float loss = 0;
    for (int step = 0; step < steps; ++step)
      loss = trainer.step(samples.inputs.data(), samples.targets.data(), 64).loss;
    return loss;
  };
  Plain plain{sgd, 3};
  const float first = train(plain, 1), many_steps = train(plain, 60);
  CHECK(many_steps < 0.9f * first);
  Wild<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, 3, 8> wild{sgd, 3};
  // Eight updates a step: further than one device gets with as many steps.
  CHECK(train(wild, 61) < 0.8f * many_steps);
}

TEST_CASE("running statistics, and a batch smaller than the number of replicas", "[hogwild]") {
  using Net = networks::Residual;
  using Input = Image<2, 6, 5>;
  Wild<Net, CrossEntropy, PlainSgd, Input, Cpu<0, 1>, 4, 1> wild{{.learning_rate = 0.01f}, 0};
  const network::Samples<One<Net, CrossEntropy, PlainSgd, Input, Cpu<0, 1>>> samples(2);
  const std::vector<float> before(wild.weights().parameters(),
                                  wild.weights().parameters() + Weights<Net>::table.parameter_floats);
  CHECK(std::isfinite(wild.step(samples.inputs.data(), samples.targets.data(), 2).loss));
  CHECK(!std::equal(before.begin(), before.end(), wild.weights().parameters()));
}

namespace {

/// A bag of words.
template <class... Options>
struct Bag {
  Embedding<2000, 8, Options...> words;
  Linear<8, 3> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(words(tokens))); }
};

/// A table alone: what a word says of each class. Replicas write the same numbers only where their words are the same.
struct Scores {
  Embedding<2000, 3, Sparse> scores;
  constexpr auto forward(auto tokens) const { return mean<1>(scores(tokens)); }
};

/// Two sparse tables that read the same words.
struct Two {
  Bag<Sparse> bag;
  Embedding<2001, 3, Sparse> biases;
  constexpr auto forward(auto tokens) const { return bag.forward(tokens) + mean<1>(biases(tokens)); }
};

/// A dense table beside a sparse one, so that the words themselves are needed.
struct Mixed {
  Bag<Sparse> bag;
  Embedding<2000, 3> biases;
  constexpr auto forward(auto tokens) const { return bag.forward(tokens) + mean<1>(biases(tokens)); }
};

/// Samples of ten words. Each word stands for a class; a sample's class is that of most of its words, as a rule. So
/// many words of each class there are.
struct Texts {
  std::vector<std::int32_t> words, classes;

  Texts(int count, std::uint64_t stream, std::uint64_t of_class = 666) {
    Random random(3, stream);
    for (int i = 0; i < count; ++i) {
      classes.push_back(static_cast<std::int32_t>(random.below(3)));
      for (int k = 0; k < 10; ++k) {
        auto word = static_cast<std::int32_t>(random.below(of_class)) * 3;
        word += random.uniform(0, 1) < 0.5f ? classes.back() : static_cast<std::int32_t>(random.below(3));
        words.push_back(word);
      }
    }
  }
};

}  // namespace

TEST_CASE("one replica updates rows of sparse tables as one device with small batches does", "[hogwild]") {
  const auto check = []<class Net>(std::type_identity<Net>, auto optimizer) {
    using Optimizer = decltype(optimizer);
    Trainer<Net, CrossEntropy, Optimizer, Tokens<10>, Cpu<0, 1>> plain{optimizer, 3};
    Trainer<Net, CrossEntropy, Optimizer, Tokens<10>, Cpu<0, 1>, DataParallel<1>, Hogwild<4>> alone{optimizer, 3};
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Texts texts(10, step);
      double loss = 0;
      for (const int first : {0, 4, 8}) {
        const int count = first == 8 ? 2 : 4;
        loss += static_cast<double>(count) *
                plain.step(texts.words.data() + 10 * first, texts.classes.data() + first, count).loss;
      }
      CHECK(alone.step(texts.words.data(), texts.classes.data(), 10).loss == Approx(loss / 10).epsilon(1e-5));
    }
    for (long i = 0; i < plain.weights().table.parameter_floats; ++i)
      REQUIRE(alone.weights().parameters()[i] == plain.weights().parameters()[i]);
    for (const std::string& name : plain.weights().names()) {
      const auto expected = plain.gradient(name), found = alone.gradient(name);
      REQUIRE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
    }
  };
  check(std::type_identity<Bag<Sparse>>{}, PlainSgd{.learning_rate = 0.5f});
  check(std::type_identity<Two>{}, Sgd{.learning_rate = 0.5f, .momentum = 0.9f, .weight_decay = 0.01f});
  check(std::type_identity<Mixed>{}, PlainSgd{.learning_rate = 0.5f});
}

TEST_CASE("replicas train sparse tables as well as one device does", "[hogwild]") {
  constexpr int count = 4096;
  const Texts train(count, 100, 200), test(count, 101, 200);
  const auto check = [&]<class Net>(std::type_identity<Net>, PlainSgd sgd, int epochs) {
    // `kept`: how much of each update of what is no table one device keeps.
    const auto loss_of = [&](auto trainer, int batch, float kept = 1) {
      constexpr long dense = decltype(trainer)::Training::slots.dense_floats;
      float* const parameters = trainer.weights().parameters();
      for (int epoch = 0; epoch < epochs; ++epoch)
        for (int first = 0; first < count; first += batch) {
          const std::vector<float> before(parameters, parameters + dense);
          trainer.step(train.words.data() + 10 * first, train.classes.data() + first, batch);
          for (long i = 0; kept < 1 && i < dense; ++i) {
            const float old = before[static_cast<std::size_t>(i)];
            parameters[i] = old + kept * (parameters[i] - old);
          }
        }
      trainer.optimizer().learning_rate = 0;  // what it would find now
      return trainer.step(test.words.data(), test.classes.data(), count).loss;
    };
    using One = Trainer<Net, CrossEntropy, PlainSgd, Tokens<10>, Cpu<0, 1>>;
    const float serial = loss_of(One{sgd, 3}, 4);
    CHECK(serial < 0.3f * loss_of(One{{0.0f}, 3}, count));
    // A layer's weights are written by all replicas: of updates that meet one stays, and a replica that is stopped
    // while it writes takes back what came meanwhile. Then the layer learns more slowly than the table below it, which
    // changes what is found. Tables lose next to nothing.
    const float one_of_four_stays = loss_of(One{sgd, 3}, 4, 0.25f);
    const auto check_wild = [&]<int replicas>(std::integral_constant<int, replicas>) {
      using Wild = Trainer<Net, CrossEntropy, PlainSgd, Tokens<10>, Cpu<0, 1>, DataParallel<replicas>, Hogwild<4>>;
      const float found = loss_of(Wild{sgd, 3}, 1024);
      CAPTURE(replicas, serial, one_of_four_stays);
      CHECK(found > 0.98f * std::min(serial, one_of_four_stays));
      CHECK(found < 1.02f * std::max(serial, one_of_four_stays));
    };
    check_wild(std::integral_constant<int, 2>{});
    check_wild(std::integral_constant<int, 4>{});
  };
  // The loss of other texts is least after so many epochs, and flat: with a third fewer updates it is 0.5 % more, with
  // half of them 5 %. A table alone has no weights that all replicas write.
  if (!TENET_TEST_SANITIZED) check(std::type_identity<Scores>{}, PlainSgd{.learning_rate = 8.0f}, 14);
  check(std::type_identity<Bag<Sparse>>{}, PlainSgd{.learning_rate = 0.25f}, 9);
}

namespace {

/// Ranks train a table and a layer, each with its own texts; all of them then find the same loss of others, near that
/// of one device with all texts.
class RanksAndOne {
 public:
  RanksAndOne() {
    Trainer<Bag<Sparse>, CrossEntropy, PlainSgd, Tokens<10>, Cpu<0, 1>> serial{sgd_, 3};
    for (int epoch = 0; epoch < epochs; ++epoch)
      for (int first = 0; first < count; first += 16)
        serial.step(train_.words.data() + 10 * first, train_.classes.data() + first, 16);
    expected_ = loss_then(serial);
    CHECK(expected_ < 0.6f);
  }
  /// `steps` says how many steps a rank takes.
  template <class Ranks>
  void check(int ranks, auto steps) const {
    const auto found = Ranks::collect(ranks, [&](int rank) {
      using Rank = Trainer<Bag<Sparse>, CrossEntropy, PlainSgd, Tokens<10>, Cpu<0, 1>,
                           typename ranks::StrategyOf<Ranks>::type, Hogwild<16>>;
      Rank trainer{sgd_, static_cast<std::uint64_t>(3 + rank)};  // all begin with what rank 0 has
      const int own = count / ranks;
      for (int step = 0; step < steps(rank) * epochs * own / batch; ++step) {
        const int first = rank * own + step * batch % own;
        trainer.step(train_.words.data() + 10 * first, train_.classes.data() + first, batch);
      }
      trainer.synchronize();
      const float* const parameters = trainer.weights().parameters();
      std::vector<float> result(parameters, parameters + Weights<Bag<Sparse>>::table.parameter_floats);
      result.push_back(loss_then(trainer));
      return result;
    });
    for (const auto& of_rank : found) {
      CHECK(std::equal(of_rank.begin(), of_rank.end() - 1, found[0].begin()));  // losses are sums, by whoever is free
      // One that runs ahead trains with its own half for a while; untrained: 1.1.
      CHECK(of_rank.back() < 1.2f * expected_);
    }
  }

 private:
  static constexpr int count = 4096, epochs = 8, batch = 512;
  float loss_then(auto& trainer) const {
    trainer.optimizer().learning_rate = 0;
    return trainer.step(test_.words.data(), test_.classes.data(), count).loss;
  }

  const Texts train_{count, 100}, test_{count, 101};
  const PlainSgd sgd_{.learning_rate = 2.0f};
  float expected_ = 0;
};

}  // namespace

TEST_CASE("ranks train common parameters without waiting for each other", "[hogwild]") {
  const RanksAndOne all;
  const auto once = [](int) { return 1; };
  all.check<ranks::Threads>(1, once);
  all.check<ranks::Threads>(2, once);
  all.check<processes::Job>(2, once);
  all.check<processes::Job>(4, [](int rank) { return rank == 1 ? 2 : 1; });
  all.check<ranks::WithReplicas<ranks::Threads, 2>>(2, once);
  all.check<ranks::WithReplicas<processes::Job, 2>>(2, once);
}

TEST_CASE("a rank of Hogwild alone takes the steps of one replica", "[hogwild]") {
  using Net = networks::Residual;  // dense, with running statistics
  using Input = Image<2, 6, 5>;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f};
  Wild<Net, CrossEntropy, Sgd, Input, Cpu<0, 1>, 1, 3> replica{sgd, 5};
  const network::Samples<One<Net, CrossEntropy, Sgd, Input, Cpu<0, 1>>> samples(8);
  const auto train = [&](auto& trainer) {
    std::vector<float> result;
    for (int step = 0; step < 3; ++step)
      result.push_back(trainer.step(samples.inputs.data(), samples.targets.data(), 8).loss);
    auto& weights = trainer.weights();
    result.insert(result.end(), weights.parameters(), weights.parameters() + Weights<Net>::table.parameter_floats);
    result.insert(result.end(), weights.buffers(), weights.buffers() + Weights<Net>::table.buffer_floats);
    return result;
  };
  const std::vector<float> expected = train(replica);
  const auto check = [&]<class Inside>(std::type_identity<Inside>) {
    const auto found = ranks::Threads::collect(1, [&](int) {
      Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 1>, Distributed<ThreadWorld, Inside>, Hogwild<3>> rank{sgd, 5};
      return train(rank);
    });
    CHECK(found[0] == expected);
  };
  check(std::type_identity<Single>{});
  check(std::type_identity<DataParallel<1>>{});
}

TEST_CASE("a process of Hogwild that is killed is named where the others would meet it", "[hogwild]") {
  using Net = networks::WholeRows;
  const network::Samples<One<Net, CrossEntropy, PlainSgd, Features<16>, Reference>> samples(8);
  const std::string job = processes::new_name().substr(7);
  processes::Started started(3, [&](int rank) {
    processes::Job::enter(rank, 3, job);
    Trainer<Net, CrossEntropy, PlainSgd, Features<16>, Reference, Distributed<SharedMemory>, Hogwild<4>> trainer{
        {.learning_rate = 0.01f}, 0};
    for (int step = 0; step < 20; ++step) {
      trainer.step(samples.inputs.data(), samples.targets.data(), 8);
      if (rank == 2 && step == 4) raise(SIGKILL);
    }
    trainer.synchronize();
    return std::vector<float>();
  });
  const auto messages = started.messages();
  CHECK(messages[2] == "signal 9");
  for (const int rank : {0, 1}) {
    CAPTURE(messages[static_cast<std::size_t>(rank)]);
    CHECK(messages[static_cast<std::size_t>(rank)].find("the parameters of all ranks") != std::string::npos);
    CHECK(messages[static_cast<std::size_t>(rank)].find("the process of rank 2 has ended") != std::string::npos);
  }
}

TEST_CASE("the summary says what is shared", "[hogwild]") {
  const std::string summary = Wild<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, 3, 8>().summary();
  CAPTURE(summary);
  CHECK(summary.find("\nsynchronisation: Hogwild! with updates by 8 samples; nothing is "
                     "sent\n3 devices, each: cpu") != std::string::npos);
}
