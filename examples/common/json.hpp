#pragma once

#include <concepts>
#include <cstdio>
#include <string>
#include <vector>

/// One JSON object, written member by member: Json().add("loss", 0.5).add("names", names).text().
class Json {
 public:
  Json& add(const std::string& name, double number) { return member(name, text_of(number)); }
  Json& add(const std::string& name, std::same_as<bool> auto holds) { return member(name, holds ? "true" : "false"); }
  Json& add(const std::string& name, const char* words) { return member(name, quoted(words)); }
  Json& add(const std::string& name, const std::string& words) { return member(name, quoted(words)); }
  Json& add(const std::string& name, const std::vector<double>& numbers) {
    std::string list;
    for (const double number : numbers) list += (list.empty() ? "" : ", ") + text_of(number);
    return member(name, "[" + list + "]");
  }
  Json& add(const std::string& name, const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& each : words) list += (list.empty() ? "" : ", ") + quoted(each);
    return member(name, "[" + list + "]");
  }

  std::string text() const { return "{" + members_ + "}"; }

 private:
  Json& member(const std::string& name, const std::string& value) {
    members_ += (members_.empty() ? "" : ", ") + quoted(name) + ": " + value;
    return *this;
  }

  static std::string text_of(double number) {
    if (!(number - number == 0)) return "null";  // JSON has no NaN and no infinity
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", number);
    return text;
  }

  static std::string quoted(const std::string& words) {
    std::string result = "\"";
    for (const char c : words) {
      if (c == '"' || c == '\\') {
        result += std::string("\\") + c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
        result += code;
      } else {
        result += c;
      }
    }
    return result + "\"";
  }

  std::string members_;
};
