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
