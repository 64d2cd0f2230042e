// The same for the component tenet::data, whose headers need zlib.
#include <cstdio>
#include <tenet/core/error.hpp>
#if __has_include(<tenet/data/idx.hpp>)
#include <tenet/data/idx.hpp>
#endif
#include <zlib.h>

int main() {
  std::puts(zlibVersion());
  return 0;
}
