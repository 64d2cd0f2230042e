#include "regions_on_gpu.hpp"
#include "tenet/device/cuda/region.hpp"

namespace {

/// How often the kernel that stores a region is called.
template <tenet::Wiring wiring>
long calls_of_store(const tenet::ElementArguments& arguments) {
  return tenet::gpu::detail::StoreNeighbours<tenet::gpu::detail::CodeOf<wiring>, &regions::multiply<float>,
                                             &regions::add<float>, &regions::subtract_twice<float>>(arguments)
      .calls();
}

}  // namespace

TEST_CASE("a region reads neighbours together, wherever numbers lie that are read one at a time", "[cuda][element]") {
  using Case = regions::Neighbours;
  constexpr tenet::Wiring wiring = Case::wiring(tenet::Role::store);
  alignas(16) float memory[32]{};
  tenet::ElementArguments arguments = regions::Numbers<Case>(2).arguments(2, Case::block());
  for (auto& input : arguments.inputs) input.data = memory;
  for (float*& output : arguments.outputs) output = memory;
  CHECK(calls_of_store<wiring>(arguments) == arguments.total / 4);
  arguments.inputs[1].data = memory + 1;  // one number for each image
  CHECK(calls_of_store<wiring>(arguments) == arguments.total / 4);
  arguments.inputs[2].data = memory + 1;  // a row
  CHECK(calls_of_store<wiring>(arguments) == arguments.total);
}
