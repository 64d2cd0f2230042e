#pragma once

#include <string>
#include <tenet/core/error.hpp>

/// The message of the `Error` that call() throws; "" if it throws none.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const tenet::Error& error) {
    return error.what();
  }
  return "";
}
