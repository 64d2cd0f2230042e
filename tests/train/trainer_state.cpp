#include "tenet/train/trainer_state.hpp"

#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/thread_world.hpp"

using namespace tenet;

namespace {

using Net = Linear<6, 3>;
template <class... Tags>
PlaceOfSteps place_of(int devices = 1) {
  return detail::place_of_steps<Policies<Features<6>, Tags...>>(devices);
}

}  // namespace

TEST_CASE("a trainer's memory stays where it is when the trainer is moved", "[trainer_state]") {
  using State = TrainerState<Policies<Features<6>, Cpu<0, 1>>, Net, Sgd>;
  KeptState<State> kept(3);
  State* const state = &*kept;
  const KeptState<State> moved = std::move(kept);
  CHECK(&*moved == state);
  CHECK(moved->seed == 3);
  CHECK(moved->states.size() == Sgd::state_count * Weights<Net>::table.parameter_floats);
  CHECK(moved->weights.parameters()[0] == Weights<Net>(3).parameters()[0]);
}

TEST_CASE("steps are queued where their devices are, and ranks that are threads have queues of their own",
          "[trainer_state]") {
  const PlaceOfSteps one = place_of<Cpu<3, 2>>(), two = place_of<Cpu<1>, DataParallel<2>>(2);
  CHECK(std::string(one.devices.kind) == "cpu");
  CHECK((one.devices.first == 3 && one.devices.count == 1 && !one.is_alone));
  CHECK((two.devices.first == 1 && two.devices.count == 2 && !two.is_alone));
  CHECK(std::string(place_of<Reference>().devices.kind) == "reference");
  CHECK(std::string(place_of<Cpu<>, BFloat16>().devices.kind) == "cpu");
  CHECK(place_of<Cpu<>, Distributed<ThreadWorld>>().is_alone);
}

TEST_CASE("a single device's steps run on its processors, those of several and of ranks on all", "[trainer_state]") {
  CHECK(place_of<Cpu<0, 1>>().processors == Cpu<0, 1>::processors());
  CHECK(place_of<Cpu<0, 1>>().processors.count() == 1);
  CHECK(place_of<Cpu<>>().processors.count() == 0);
  CHECK(place_of<Reference>().processors.count() == 0);
  CHECK(place_of<Cpu<0, 1>, DataParallel<2>>(2).processors.count() == 0);
  CHECK(place_of<Cpu<0, 1>, Distributed<ThreadWorld>>().processors.count() == 0);
}
