// The least program that needs the package; a network is to take its place.
#include <cstdio>
#include <tenet/core/error.hpp>

int main() {
  try {
    tenet::fail("package", "the library answers", "an error", "this one");
  } catch (const tenet::Error& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
