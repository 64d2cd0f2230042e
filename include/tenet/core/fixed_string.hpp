#pragma once

#include <cstddef>
#include <string_view>

namespace tenet {

/// A string that may be a template argument: `Named<"stem", Conv2d<1, 64, 3>>`.
template <std::size_t Size>
struct FixedString {
  char text[Size]{};

  constexpr FixedString() = default;
  constexpr FixedString(const char (&literal)[Size]) {
    for (std::size_t i = 0; i < Size; ++i) text[i] = literal[i];
  }
  constexpr std::string_view view() const { return {text, Size - 1}; }
};

/// Text of bounded length that is put together during constant evaluation. What does not fit is cut off.
struct Text {
  static constexpr int capacity = 191;
  char text[capacity + 1]{};
  int size = 0;

  constexpr Text& put(std::string_view more) {
    for (const char c : more)
      if (size < capacity) text[size++] = c;
    return *this;
  }
  constexpr Text& put(long number) {
    char digits[20]{};
    int count = 0;
    if (number < 0) put("-");
    unsigned long rest = number < 0 ? 0ul - static_cast<unsigned long>(number) : static_cast<unsigned long>(number);
    do digits[count++] = static_cast<char>('0' + rest % 10);
    while (rest /= 10);
    while (count) put(std::string_view(&digits[--count], 1));
    return *this;
  }
  constexpr std::string_view view() const { return {text, static_cast<std::size_t>(size)}; }
};

/// `text` as a template argument of just its length.
template <Text text>
consteval auto fixed_string() {
  FixedString<static_cast<std::size_t>(text.size) + 1> result;
  for (int i = 0; i < text.size; ++i) result.text[i] = text.text[i];
  result.text[text.size] = '\0';  // clang prints an array as a string only if its last element has been written
  return result;
}

}  // namespace tenet
