#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Numbers from a file that holds nothing else, as many as there are.
template <class T>
std::vector<T> numbers_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<T> numbers(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(T)));
  if (!file) throw std::runtime_error("cannot read " + path);
  return numbers;
}

/// One thing that a program can be asked to time.
struct Case {
  std::string name;
  std::function<std::vector<double>()> check;  ///< numbers that must be the same for all competitors
  std::function<double(long)> seconds;         ///< of a number of calls
};

/// Seconds that `calls` calls of a function take. The call is inlined: a std::function inside the loop would be seen in
/// a network of a tenth of a microsecond.
template <class Function>
double seconds_of(Function& function, long calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < calls; ++i) function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Answers requests, one a line, until the input ends; so that another program can run competitors in turns.
///
///     check NAME               the numbers that the case computes
///     time ROUNDS CALLS NAME   the least seconds of one call, over rounds of so many calls
///     tail CALLS NAME          seconds: least, median, 99 % and 99.9 % of calls that are timed one by one
///     list                     the names of all cases
inline int serve(const std::vector<Case>& cases) {
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, name;
    long rounds = 1, calls = 1;
    words >> command;
    if (command == "time") words >> rounds;
    if (command == "time" || command == "tail") words >> calls;
    std::getline(words >> std::ws, name);
    if (command == "list") {
      for (const Case& each : cases) std::printf("%s%s", &each == cases.data() ? "" : "\t", each.name.c_str());
    } else {
      const auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& each) { return each.name == name; });
      if (found == cases.end()) {
        std::fprintf(stderr, "no case '%s'\n", name.c_str());
        return 1;
      }
      if (command == "check") {
        for (const double number : found->check()) std::printf("%.9g ", number);
      } else if (command == "time") {
        double least = 1e30;
        for (long i = 0; i < rounds; ++i) least = std::min(least, found->seconds(calls) / static_cast<double>(calls));
        std::printf("%.9g", least);
      } else if (command == "tail") {
        std::vector<double> each(static_cast<std::size_t>(calls));
        for (double& seconds : each) seconds = found->seconds(1);
        std::sort(each.begin(), each.end());
        for (const double share : {0.0, 0.5, 0.99, 0.999})
          std::printf("%.9g ", each[static_cast<std::size_t>(share * static_cast<double>(calls - 1))]);
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
