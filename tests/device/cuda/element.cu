#include "regions_on_gpu.hpp"
#include "tenet/device/cuda/element.hpp"

using namespace regions;

namespace {

/// The three results of a region one behind the other, `apart` numbers from each other. Those that are narrow are
/// widened by a region without operations.
template <class Case, int inputs, int outputs>
void check_stores_of(long batch, long apart) {
  const Numbers<Case> numbers(batch);
  const long n = numbers.total, step = n + apart;
  CAPTURE(batch, n, apart, inputs, outputs);
  check_agreement(3 * step, 0, [&]<class Place>(Place& place, float* to) {
    using Kernels = KernelsAt<Place>;
    using Lane = typename Kernels::Lane;
    ElementArguments arguments = arguments_at(place, numbers, batch, Case::block(), inputs);
    for (int k = 0; k < 3; ++k)
      arguments.outputs[k] = outputs >> k & 1
                                 ? const_cast<float*>(place.keep(std::vector<float>(static_cast<std::size_t>(n))))
                                 : to + k * step;
    constexpr ElementRange range =
        Kernels::template element_range<Role::store, narrowed(Case::wiring(Role::store), inputs, outputs),
                                        &multiply<Lane>, &add<Lane>, &subtract_twice<Lane>>;
    run_element(place.executor, range, arguments);
    for (int k = 0; k < 3; ++k)
      if (outputs >> k & 1) widen(place, arguments.outputs[k], n, to + k * step);
  });
}

template <class Case>
void check_stores_at(long batch) {
  for (const long apart : {0L, 3L, 64L}) {
    check_stores_of<Case, 0, 0>(batch, apart);
    check_stores_of<Case, 7, 7>(batch, apart);
    check_stores_of<Case, 2, 5>(batch, apart);
  }
}

constexpr Wiring turning = copy_of(false, true);

}  // namespace

TEST_CASE("regions on a GPU do what index arithmetic says", "[cuda][element]") {
  for (const long batch : {1L, 5L, 300L}) {
    check_stores_at<Mixed>(batch);
    check_stores_at<Neighbours>(batch);
    check_stores_at<TwoRows>(batch);
    check_stores_at<BySample>(batch);
    check_stores_at<Rows>(batch);
    check_stores_at<Repeated>(batch);
  }
  check_stores_at<PerSample>(33);
}

TEST_CASE("a region on a GPU turns images", "[cuda][element]") {
  for (const auto& [images, channels, positions] :
       {std::array{1L, 2L, 3L}, {5L, 7L, 12L}, {3L, 64L, 49L}, {40L, 33L, 65L}}) {
    CAPTURE(images, channels, positions);
    const auto numbers = random_floats(images * channels * positions, 1);
    const long size = static_cast<long>(numbers.size());
    const auto turned = image_order::channels_last(numbers, channels, positions);
    for (const bool back : {false, true})
      check_agreement(size, 0, [&]<class Place>(Place& place, float* to) {
        if constexpr (Place::is_reference) {
          std::copy_n((back ? numbers : turned).begin(), size, to);
        } else {
          const Access access = Planes{channels, positions}.turned(!back);
          ElementArguments arguments{};
          arguments.executor = &place.executor;
          arguments.inputs[0] = ElementArguments::bind(place.in(back ? turned : numbers), access, images);
          arguments.outputs[0] = to;
          arguments.total = size;
          arguments.block = access.block();
          run_element(place.executor, KernelsAt<Place>::template element_range<Role::store, turning>, arguments);
        }
      });
  }
}
