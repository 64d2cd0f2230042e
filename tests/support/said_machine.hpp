#pragma once

#include <string>

#include "variable.hpp"

/// While it lives, this process takes itself to be on another machine than it is: see TENET_MACHINE.
struct SaidMachine : Variable {
  explicit SaidMachine(int number) : Variable("TENET_MACHINE", "test " + std::to_string(number)) {}
};
