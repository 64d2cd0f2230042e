#include "tenet/train/fit_options.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../support/networks.hpp"

using namespace tenet;

TEST_CASE("without options a training is one epoch that reports on stderr", "[fit_options]") {
  const FitOptions options;
  CHECK(options.epochs == 1);
  CHECK(options.progress == stderr);
  CHECK_FALSE((options.schedule || options.on_step || options.on_epoch || options.stop_after));
}

TEST_CASE("a loss without an accuracy reports -1", "[fit_options]") {
  Trainer<networks::WholeRows, MeanSquaredError, PlainSgd, Features<16>, Reference> trainer;
  const float inputs[16]{}, targets[3]{};
  CHECK(trainer.step(inputs, targets, 1).accuracy == -1);
  CHECK(StepResult{}.accuracy == -1);
  CHECK(FitReport{}.epochs.empty());
  CHECK_FALSE(FitReport{}.interrupted);
}
