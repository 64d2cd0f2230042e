#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// A reader of JSON for tests: strict, and without any code of the library that writes it (RFC 8259).
namespace json {

struct Value {
  enum class Kind { null, boolean, number, text, list, object } kind = Kind::null;
  double number = 0;
  std::string written;  ///< a number, as it stands there
  std::string text;
  std::vector<Value> items;
  std::map<std::string, Value> members;

  const Value& operator[](const std::string& name) const {
    const auto found = members.find(name);
    if (found == members.end()) throw std::runtime_error("JSON: no member '" + name + "'");
    return found->second;
  }
  bool has(const std::string& name) const { return members.count(name) != 0; }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  Value read() {
    Value value = any();
    space();
    if (at_ != text_.size()) stop("text behind the value");
    return value;
  }

 private:
  [[noreturn]] void stop(const std::string& why) const {
    throw std::runtime_error("JSON, at byte " + std::to_string(at_) + ": " + why);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char take() {
    if (at_ == text_.size()) stop("it ends here");
    return text_[at_++];
  }
  void expect(std::string_view what) {
    for (const char c : what)
      if (take() != c) stop("expected " + std::string(what));
  }
  void space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) ++at_;
  }
  Value any() {
    space();
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return list();
      case '"': {
        Value value;
        value.kind = Value::Kind::text;
        value.text = string();
        return value;
      }
      case 't':
        return expect("true"), word(Value::Kind::boolean, 1);
      case 'f':
        return expect("false"), word(Value::Kind::boolean, 0);
      case 'n':
        return expect("null"), word(Value::Kind::null, 0);
      default:
        return number();
    }
  }
  static Value word(Value::Kind kind, double number) {
    Value value;
    value.kind = kind;
    value.number = number;
    return value;
  }
  Value object() {
    Value value;
    value.kind = Value::Kind::object;
    expect("{");
    space();
    if (peek() == '}') return ++at_, value;
    while (true) {
      space();
      const std::string name = string();
      space();
      expect(":");
      if (!value.members.emplace(name, any()).second) stop("two members '" + name + "'");
      space();
      if (const char c = take(); c == '}')
        return value;
      else if (c != ',')
        stop("expected , or }");
    }
  }
  Value list() {
    Value value;
    value.kind = Value::Kind::list;
    expect("[");
    space();
    if (peek() == ']') return ++at_, value;
    while (true) {
      value.items.push_back(any());
      space();
      if (const char c = take(); c == ']')
        return value;
      else if (c != ',')
        stop("expected , or ]");
    }
  }
  unsigned digits() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      const auto digit = std::string_view("0123456789abcdef").find(take());
      if (digit == std::string_view::npos) stop("expected four hexadecimal digits");
      code = 16 * code + static_cast<unsigned>(digit);
    }
    return code;
  }
  std::string string() {
    std::string result;
    expect("\"");
    for (char c = take(); c != '"'; c = take()) {
      if (static_cast<unsigned char>(c) < 0x20) stop("a control character in a string");
      if (c != '\\') {
        result += c;
        continue;
      }
      const char escaped = take();
      const std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
      if (escaped == 'u') {
        const unsigned code = digits();
        if (code < 0x80)
          result += static_cast<char>(code);
        else if (code == 0xfffd)
          result += "\xef\xbf\xbd";
        else
          stop("a character that these tests do not write");
      } else if (const auto at = from.find(escaped); at != std::string_view::npos) {
        result += to[at];
      } else {
        stop("no such escape");
      }
    }
    return result;
  }
  Value number() {
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    const std::size_t first = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    if (at_ == first || (text_[first] == '0' && at_ > first + 1)) stop("no value");
    if (peek() == '.') {
      const std::size_t dot = at_++;
      while (peek() >= '0' && peek() <= '9') ++at_;
      if (at_ == dot + 1) stop("no digit behind the point");
    }
    Value value;
    value.kind = Value::Kind::number;
    value.written = std::string(text_.substr(begin, at_ - begin));
    value.number = std::stod(value.written);
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline Value parse(std::string_view text) { return Reader(text).read(); }

}  // namespace json
