#include "tenet/exec/resident_arenas.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "../support/far_device.hpp"

using namespace tenet;

namespace {

struct Placed {
  far::Executor executor{0};
  ResidentArenas<far::Executor> arenas{executor};
  std::vector<float> parameters{1, 2, 3}, buffers{4, 5}, gradients{0, 0, 0};
  float* there = arenas.place(Arena::parameters, parameters.data(), 3);

  Placed() {
    arenas.place(Arena::buffers, buffers.data(), 2);
    arenas.place(Arena::gradients, gradients.data(), 3);
  }
};

}  // namespace

TEST_CASE("what the host has changed is brought in, once", "[exec][resident_arenas]") {
  Placed placed;
  CHECK(placed.there[0] == 0);
  placed.arenas.bring_in(7);
  CHECK(std::equal(placed.parameters.begin(), placed.parameters.end(), placed.there));
  CHECK(placed.arenas.memory(Arena::buffers)[1] == 5);
  CHECK(placed.executor.bytes_in == 4 * 5);
  placed.parameters[1] = 20;
  placed.arenas.bring_in(7);  // the host has not said so
  CHECK(placed.there[1] == 2);
  placed.arenas.bring_in(8);
  CHECK(placed.there[1] == 20);
  CHECK(placed.executor.bytes_in == 2 * 4 * 5);
}

TEST_CASE("what a step has changed is brought back when it is asked for, and not brought in again",
          "[exec][resident_arenas]") {
  Placed placed;
  placed.arenas.bring_in(1);
  placed.arenas.bring_back();  // nothing is newer
  CHECK(placed.executor.bytes_out == 0);
  placed.there[2] = 30;
  placed.arenas.memory(Arena::buffers)[0] = 40;
  placed.arenas.memory(Arena::gradients)[0] = 50;
  placed.arenas.has_changed(2);
  CHECK(placed.parameters[2] == 3);
  placed.arenas.bring_back();
  CHECK(placed.parameters[2] == 30);
  CHECK(placed.buffers[0] == 40);
  CHECK(placed.gradients[0] == 0);
  CHECK(placed.executor.waits >= 1);
  placed.arenas.bring_back_gradients();
  CHECK(placed.gradients[0] == 50);
  placed.parameters[2] = 3;
  placed.arenas.bring_in(2);  // that is the version here
  CHECK(placed.there[2] == 30);
}

TEST_CASE("a place stays where it is while it is large enough", "[exec][resident_arenas]") {
  Placed placed;
  CHECK(placed.arenas.place(Arena::parameters, placed.parameters.data(), 3) == placed.there);
  CHECK(placed.arenas.place(Arena::states, nullptr, 6) != nullptr);
}
