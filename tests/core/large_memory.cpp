#include "tenet/core/large_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

using tenet::FloatMemory;
using tenet::take_floats;

namespace {

std::uintptr_t address(const FloatMemory& memory) { return reinterpret_cast<std::uintptr_t>(memory.get()); }

/// The flags of the mapping that holds an address, as Linux tells them; empty where it does not.
std::string flags_of(std::uintptr_t at) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool here = false;
  while (std::getline(maps, line)) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= at && at < end;
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

bool has_huge_pages() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(setting, line) && line.find("[never]") == std::string::npos;
}

constexpr long large = static_cast<long>(tenet::large_memory / sizeof(float));

}  // namespace

TEST_CASE("memory of any size is aligned and can be written whole", "[large_memory]") {
  for (const long floats : {1L, 17L, large - 1, large, large + 1, 3 * large + 12345}) {
    CAPTURE(floats);
    const FloatMemory memory = take_floats(floats);
    CHECK(address(memory) % (floats < large ? 64 : tenet::huge_page) == 0);
    std::fill_n(memory.get(), floats, 3.0f);
    CHECK(std::count(memory.get(), memory.get() + floats, 3.0f) == floats);
    CHECK(take_floats(floats, false).get_deleter().alignment == 64);
  }
}

TEST_CASE("memory is given back as it was taken, whatever took its place", "[large_memory]") {
  FloatMemory memory = take_floats(large);
  memory = take_floats(3);
  CHECK(memory.get_deleter().alignment == 64);
  memory = take_floats(large);
  CHECK(memory.get_deleter().alignment == tenet::huge_page);
  memory.reset();
  CHECK(memory == nullptr);
}

TEST_CASE("Linux is asked for huge pages", "[large_memory]") {
  const FloatMemory memory = take_floats(large + 5000);
  const std::string first = flags_of(address(memory));
  if (!has_huge_pages() || first.empty()) {
    WARN("not checked: this system does not say what its pages are");
    return;
  }
  CHECK(first.find(" hg ") != std::string::npos);
  CHECK(flags_of(address(memory) + tenet::large_memory - 1).find(" hg ") != std::string::npos);
}
