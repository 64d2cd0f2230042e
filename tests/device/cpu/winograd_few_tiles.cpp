#include "tenet/device/cpu/winograd_few_tiles.hpp"

#include "../../support/channels_last.hpp"
#include "tenet/device/cpu/weight_panels.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::Epilogue;
using tenet::cpu::few_tiles_form;
using tenet::cpu::FewTilesForm;
using tenet::cpu::Workers;
using tenet::cpu::detail::FewLines;
using tenet::cpu::detail::FewTiles;

/// The form against the reference, whether it pays or not; in the workspace that it asks for.
template <class Form>
void check_form(const Conv2dGeometry& g, int batch) {
  REQUIRE(tenet::cpu::winograd_takes_channels_last(g));
  const channels_last::Factors<float> factors(g, batch);
  std::vector<float> packed(static_cast<std::size_t>(tenet::cpu::packed_weights(g)));
  run_pack_weights(pool(1), g, factors.weight.standard.data(), packed.data());
  const auto run = [&](Workers& workers, float* to, Epilogue epilogue = {}) {
    run_few_tiles(workers, Form(g, batch), batch, factors.input.last.data(), packed.data(), to, epilogue);
  };
  const double error = convolutions::relative_error(
      batch * g.result_size(),
      [&](auto& executor, float* to) {
        std::vector<float> standard(static_cast<std::size_t>(batch * g.result_size()));
        run_conv2d(executor, g, batch, factors.input.standard.data(), factors.weight.standard.data(), standard.data());
        std::ranges::copy(image_order::channels_last(standard, g.out_channels, g.positions()), to);
      },
      [&](Workers& workers, float* to) { run(workers, to); });
  CHECK(error < 1e-5);
  convolutions::check_epilogue(batch * g.result_size(), run);
  std::vector<float> result(static_cast<std::size_t>(batch * g.result_size()));
  check_workspace(few_tiles_values(Form(g, batch)), [&](Workers& workers) { run(workers, result.data()); });
}

constexpr Conv2dGeometry small{512, 4, 4, 512, 3, 3, 1, 1}, middle{256, 7, 7, 256, 3, 3, 1, 1},
    large{64, 28, 28, 64, 3, 3, 1, 1};
constexpr bool chooses(const Conv2dGeometry& g, long batch, FewTilesForm form) {
  return few_tiles_form(g, batch) == (tenet::vector_width == 16 ? form : FewTilesForm::none);
}
static_assert(chooses(small, 1, FewTilesForm::lines) && chooses(small, 2, FewTilesForm::lines));
static_assert(chooses(small, 3, FewTilesForm::tiles) && chooses(small, 8, FewTilesForm::tiles));
static_assert(chooses(small, 5, FewTilesForm::none) && chooses(small, 9, FewTilesForm::none));
static_assert(chooses(middle, 1, FewTilesForm::tiles) && chooses(middle, 2, FewTilesForm::tiles));
static_assert(chooses(middle, 3, FewTilesForm::none) && chooses(large, 1, FewTilesForm::none));
static_assert(chooses({16, 4, 4, 20, 3, 3, 1, 1}, 1, FewTilesForm::none));  // not whole vectors of channels
static_assert(chooses({32, 5, 4, 32, 3, 3, 1, 1}, 1, FewTilesForm::none));  // two tiles where four are multiplied

}  // namespace

TEST_CASE("images of at most 4x4, convolved by their lines, agree with the reference", "[cpu][winograd]") {
  constexpr Conv2dGeometry shapes[] = {
      {16, 4, 4, 16, 3, 3, 1, 1}, {144, 4, 3, 80, 3, 3, 1, 1}, {80, 3, 4, 336, 3, 3, 1, 1}, {64, 3, 3, 64, 3, 3, 1, 1}};
  convolutions::for_each(shapes, {1, 2, 5}, check_form<FewLines>);
}

TEST_CASE("images of few tiles, convolved with weights in registers, agree with the reference", "[cpu][winograd]") {
  constexpr Conv2dGeometry shapes[] = {
      {16, 4, 4, 16, 3, 3, 1, 1}, {144, 7, 7, 80, 3, 3, 1, 1}, {80, 5, 9, 336, 3, 3, 1, 0}, {64, 3, 6, 64, 3, 3, 1, 2}};
  convolutions::for_each(shapes, {1, 2, 3}, check_form<FewTiles>);
}
