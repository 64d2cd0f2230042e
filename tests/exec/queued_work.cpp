#include "tenet/exec/queued_work.hpp"

#include <tenet/parallel/data_parallel.hpp>
#include <tenet/tenet.hpp>

#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

/// Steps that say when they were waited for.
struct Steps final : QueuedWork {
  Steps(const DeviceRange& devices, std::string failure = {})
      : QueuedWork(devices), failure_of_steps(std::move(failure)) {}
  void synchronize() override {
    ++waits;
    if (!failure_of_steps.empty()) throw Error(failure_of_steps);
  }
  std::string failure_of_steps;
  int waits = 0;
};

}  // namespace

TEST_CASE("a device is waited for where its steps run, and no other", "[queued_work]") {
  Steps first({"cpu", 0, 1}), both({"cpu", 0, 2}), second({"cpu", 1, 1}), plain({"reference", 0, 1});
  synchronize(Cpu<0>{});
  CHECK(std::array{first.waits, both.waits, second.waits, plain.waits} == std::array{1, 1, 0, 0});
  synchronize<Cpu<1, 3>>();
  CHECK(std::array{first.waits, both.waits, second.waits, plain.waits} == std::array{1, 2, 1, 0});
  synchronize(Cpu<2>{});
  synchronize(Reference{});
  CHECK(std::array{first.waits, both.waits, second.waits, plain.waits} == std::array{1, 2, 1, 1});
}

TEST_CASE("steps of all trainers are waited for where some have failed, and the first one's error is thrown",
          "[queued_work]") {
  Steps good({"cpu", 0, 1}), bad({"cpu", 0, 1}, "step 3: bad"), worse({"cpu", 0, 1}, "step 1: worse"),
      last({"cpu", 0, 1});
  CHECK(message_of([] { synchronize(Cpu<0>{}); }) == "step 3: bad");
  CHECK(std::array{good.waits, bad.waits, worse.waits, last.waits} == std::array{1, 1, 1, 1});
}

TEST_CASE("steps that are gone are not waited for", "[queued_work]") {
  Steps stays({"cpu", 0, 1});
  { Steps goes({"cpu", 0, 1}, "gone"); }
  CHECK_NOTHROW(synchronize(Cpu<0>{}));
  CHECK(stays.waits == 1);
}

TEST_CASE("trainers of one device have run all steps behind synchronize(device)", "[queued_work]") {
  using Net = networks::WholeRows;
  using One = Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>>;
  using Two = Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, DataParallel<2>>;
  One one{{.learning_rate = 0.1f}};
  Two two{{.learning_rate = 0.1f}};
  const network::Samples<One> samples(64);
  const auto queue = [&](auto& trainer) {
    return trainer.step_async(samples.inputs.data(), samples.targets.data(), 64);
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<PendingStep> pending;
    for (int step = 0; step < 5; ++step) {
      pending.push_back(queue(one));
      pending.push_back(queue(two));
    }
    if (round < 2)
      synchronize(Cpu<0>{});
    else
      synchronize(Cpu<1>{});  // the second replica's
    for (std::size_t step = 0; step < pending.size(); ++step)
      CHECK((round == 2 && step % 2 == 0 ? true : pending[step].ready()));
  }
}
