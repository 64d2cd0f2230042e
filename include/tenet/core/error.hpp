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
/// The same for a number. Strings are made here: at each place that may fail they would be a third of its code.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const char* where, const char* what, const char* expected,
                                                        long found) {
  fail(std::string(where), what, expected, std::to_string(found));
}

}  // namespace tenet
