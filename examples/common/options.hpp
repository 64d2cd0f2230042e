#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

/// Command lines of the examples: --name value, --help, and --json FILE for the results. Enough for examples, no more.
class Options {
 public:
  struct Option {
    std::string name, value, meaning;
  };

  /// `options` have defaults; what the command line gives replaces them. Unknown options end the program with the help.
  Options(int argc, char** argv, const std::string& summary, std::vector<Option> options)
      : program_(argv[0]), summary_(summary), options_(std::move(options)) {
    options_.push_back({"json", "", "file to write the results to"});
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--help") {
        help(stdout);
        std::exit(0);
      }
      Option* const option = argument.rfind("--", 0) == 0 ? find(argument.substr(2)) : nullptr;
      if (option == nullptr) stop("unknown option '" + argument + "'");
      if (i + 1 == argc) stop("option '" + argument + "' needs a value");
      option->value = argv[++i];
    }
  }

  const std::string& text(const std::string& name) { return find(name)->value; }
  int integer(const std::string& name) { return static_cast<int>(number(name)); }
  float number(const std::string& name) {
    const std::string& value = find(name)->value;
    char* end = nullptr;
    const float result = std::strtof(value.c_str(), &end);
    if (value.empty() || *end != '\0') stop("option '--" + name + "': expected a number, found '" + value + "'");
    return result;
  }

  /// Writes `json` to the file that --json names, if any.
  void write_json(const std::string& json) {
    const std::string& path = text("json");
    if (path.empty()) return;
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr || std::fputs((json + "\n").c_str(), file) < 0 || std::fclose(file) != 0)
      stop("cannot write '" + path + "'");
  }

 private:
  Option* find(const std::string& name) {
    for (Option& option : options_)
      if (option.name == name) return &option;
    return nullptr;
  }
  void help(std::FILE* to) const {
    std::fprintf(to, "%s\nusage: %s [--option value]…\n", summary_.c_str(), program_.c_str());
    for (const Option& option : options_)
      std::fprintf(to, "  --%-16s %s%s%s%s\n", option.name.c_str(), option.meaning.c_str(),
                   option.value.empty() ? "" : " (", option.value.c_str(), option.value.empty() ? "" : ")");
  }
  [[noreturn]] void stop(const std::string& what) const {
    std::fprintf(stderr, "%s\n", what.c_str());
    help(stderr);
    std::exit(2);
  }

  std::string program_, summary_;
  std::vector<Option> options_;
};
