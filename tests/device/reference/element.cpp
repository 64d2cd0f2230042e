#include "tenet/device/reference/element.hpp"

#include "../regions.hpp"
#include "tenet/device/reference.hpp"

using namespace regions;

TEST_CASE("reference regions do what index arithmetic says", "[reference][element]") {
  reference::Serial serial;
  check_all<ReferenceKernels>(serial, 50);
}

TEST_CASE("reference ranges begin and end anywhere", "[reference][element]") {
  for (const long batch : {1L, 3L}) {
    check_ranges<ReferenceKernels, Mixed>(batch);
    check_ranges<ReferenceKernels, BySample>(batch);
    check_ranges<ReferenceKernels, Shared>(batch);
    check_ranges<ReferenceKernels, Rows>(batch);
  }
  check_ranges<ReferenceKernels, PerSample>(40);
}

TEST_CASE("reference ranges read and write narrow numbers", "[reference][element]") {
  check_all_narrow<ReferenceKernels>();
}

TEST_CASE("reference regions that store and sum do what index arithmetic says", "[reference][element]") {
  reference::Serial serial;
  for (const long batch : {1L, 5L, 50L}) {
    check_store_and_sum<ReferenceKernels, Rows, Fixed<33>, 1>(serial, batch);
    check_store_and_sum<ReferenceKernels, Mixed, Fixed<7>, 2>(serial, batch);
    check_store_and_sum<ReferenceKernels, Case<Batched<3, 4, 8>, Batched<3, 4, 8>, Batched<1, 1, 8>, Fixed<8>>,
                        Fixed<8>, 1>(serial, batch);
    check_store_and_sum<ReferenceKernels, BySample, Fixed<5, 3, 7>, 3>(serial, batch);
  }
}
