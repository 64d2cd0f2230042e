#pragma once

#include <stdexcept>
#include <string>

namespace tenet {

/// The one exception type of the library: its message says what failed, where, what was expected and what was found.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws `Error` as "where: what; expected …, found …".
[[noreturn, gnu::cold]] inline void fail(const std::string& where, const std::string& what, const std::string& expected,
                                         const std::string& found) {
  throw Error(where + ": " + what + "; expected " + expected + ", found " + found);
}

}  // namespace tenet
