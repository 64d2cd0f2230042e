#pragma once

#include <cstdlib>
#include <string>

/// While it lives, this process takes itself to be on another machine than it is: see TENET_MACHINE.
struct SaidMachine {
  explicit SaidMachine(int number) { setenv("TENET_MACHINE", ("test " + std::to_string(number)).c_str(), 1); }
  ~SaidMachine() { unsetenv("TENET_MACHINE"); }
};
