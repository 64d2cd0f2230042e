#include "tenet/exec/step_names.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

namespace {

struct Net : Sequential<Linear<8, 4>, ReLU, Linear<4, 3>> {};
using Training = Trainer<Net, CrossEntropy, PlainSgd, Features<8>, Reference>::Training;

/// The same program of a definition that knows no layers.
struct Nameless : Training::Definition {
  static void path_of_layer() = delete;
};

}  // namespace

TEST_CASE("steps are named by operation and layer, those of the update by the operation", "[step_names]") {
  const std::vector<std::string>& names = step_names<Training>();
  REQUIRE(static_cast<int>(names.size()) == Training::lowered.used.steps);
  std::vector<std::string> products;
  int updates = 0;
  for (int s = 0; s < Training::lowered.used.steps; ++s) {
    const std::string& name = names[static_cast<std::size_t>(s)];
    CHECK(name.starts_with(Training::lowered.steps[s].name));
    if (name.starts_with("matmul")) products.push_back(name);
    if (is_of_update<Training>(s)) {
      ++updates;
      CHECK(name == Training::lowered.steps[s].name);
    }
  }
  CHECK(products[0] == "matmul 0");
  CHECK(products[1] == "matmul 2");
  CHECK(std::find(products.begin() + 2, products.end(), "matmul 2") != products.end());  // backward
  CHECK(updates == Training::lowered.after_update - Training::lowered.first_update);
  CHECK(updates > 0);
  CHECK(&names == &step_names<Training>());
}

TEST_CASE("steps of a program without layers are named by operation", "[step_names]") {
  using P = Program<Nameless>;
  for (int s = 0; s < P::lowered.used.steps; ++s) CHECK(step_name<P>(s) == P::lowered.steps[s].name);
}
