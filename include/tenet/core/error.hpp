#pragma once

#include <concepts>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace tenet {

/// The one exception type of the library: its message says what failed, where, what was expected and what was found.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A piece of a message: a text, which is not copied, or a whole number.
class MessagePiece {
 public:
  constexpr MessagePiece() = default;
  constexpr MessagePiece(const char* text) : text_(text) {}
  MessagePiece(const std::string& text) : text_(text.c_str()) {}
  template <std::integral Number>
  constexpr MessagePiece(Number number) : text_(nullptr), number_(static_cast<long>(number)) {}

  void append_to(std::string& message) const {
    char digits[24];
    if (text_ == nullptr) std::snprintf(digits, sizeof digits, "%ld", number_);
    message.append(text_ == nullptr ? digits : text_);
  }

 private:
  const char* text_ = "";
  long number_ = 0;
};

/// Part of a message of up to three pieces, as in fail("Reader", "size", {"a multiple of ", unit}, found). Whoever may
/// fail lists them only: strings put together at each such place would be a third of its code.
class Message {
 public:
  constexpr Message(const char* text) : pieces_{text} {}
  Message(const std::string& text) : pieces_{text} {}
  template <std::integral Number>
  constexpr Message(Number number) : pieces_{number} {}
  constexpr Message(MessagePiece first, MessagePiece second, MessagePiece third = {}) : pieces_{first, second, third} {}

  void append_to(std::string& message) const {
    for (const MessagePiece& piece : pieces_) piece.append_to(message);
  }

 private:
  MessagePiece pieces_[3];
};

/// Throws `Error` as "where: what; expected …, found …".
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const Message& where, const Message& what,
                                                        const Message& expected, const Message& found) {
  std::string message;
  const auto add = [&](const char* before, const Message& part) {
    message.append(before);
    part.append_to(message);
  };
  add("", where);
  add(": ", what);
  add("; expected ", expected);
  add(", found ", found);
  throw Error(message);
}
/// The same where all is known but for a number.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const char* where, const char* what, const char* expected,
                                                        long found) {
  fail(Message(where), Message(what), Message(expected), Message(found));
}

}  // namespace tenet
