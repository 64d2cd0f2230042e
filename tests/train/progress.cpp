#include "tenet/train/progress.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

double now = 0;
double test_clock() { return now; }

// A file that is not a terminal, and what was written to it.
class PlainStream {
 public:
  PlainStream() : stream(std::tmpfile()) { REQUIRE(stream != nullptr); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;
  ~PlainStream() { std::fclose(stream); }

  std::vector<std::string> lines() {
    std::fflush(stream);
    std::rewind(stream);
    std::vector<std::string> result(1);
    for (int c; (c = std::fgetc(stream)) != EOF;)
      c == '\n' ? result.emplace_back() : result.back() += static_cast<char>(c);
    CHECK(result.back().empty());
    result.pop_back();
    return result;
  }

  std::FILE* stream;
};

// A terminal of a given width, and what was written to it since the last look.
class Terminal {
 public:
  explicit Terminal(int columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(master_ >= 0);
    REQUIRE(grantpt(master_) == 0);
    REQUIRE(unlockpt(master_) == 0);
    stream = std::fopen(ptsname(master_), "w");
    REQUIRE(stream != nullptr);
    resize(columns);
    fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    std::fclose(stream);
    close(master_);
  }

  void resize(int columns) const {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = 24;
    REQUIRE(ioctl(fileno(stream), TIOCSWINSZ, &size) == 0);
  }

  std::string seen() const {
    std::fflush(stream);
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(master_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }

  std::FILE* stream;

 private:
  int master_;
};

// The characters which one drawing shows.
std::string shown(const std::string& drawn) {
  CHECK_THAT(drawn, StartsWith("\r"));
  const std::size_t end = drawn.find("\x1b[K");
  CHECK(end == drawn.size() - 3);
  return drawn.substr(1, end - 1);
}

}  // namespace

TEST_CASE("means are weighted by samples and begin anew each epoch") {
  Progress progress(nullptr, 2, 2);
  CHECK(progress.loss() == 0);
  CHECK(progress.accuracy() < 0);
  progress.step(1, 0.5, 30);
  progress.step(4, 1, 10);
  CHECK(progress.loss() == 1.75);
  CHECK(progress.accuracy() == 0.625);
  progress.finish_epoch();
  progress.step(3, -1, 10);
  CHECK(progress.loss() == 3);
  CHECK(progress.accuracy() < 0);
}

TEST_CASE("a run of nothing is refused") {
  CHECK_THROWS_WITH(Progress(nullptr, 0, 5), Contains("Progress") && Contains("0 and 5"));
  CHECK_THROWS_AS(Progress(nullptr, 5, 0), Error);
}

TEST_CASE("where there is no terminal, lines are few and plain") {
  PlainStream plain;
  now = 100;
  Progress progress(plain.stream, 2, 25, test_clock);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 25; ++i) {
      now += 1;
      progress.step(2, epoch == 0 ? 0.25 : -1, 100);
    }
    progress.finish_epoch(epoch == 0 ? "" : "test accuracy 0.9");
  }
  CHECK(plain.lines() == std::vector<std::string>{
                             "epoch 1/2  batch 10/25  loss 2.0000  accuracy 0.2500  100 samples/s  40 s left",
                             "epoch 1/2  batch 20/25  loss 2.0000  accuracy 0.2500  100 samples/s  30 s left",
                             "epoch 1/2  loss 2.0000  accuracy 0.2500  100 samples/s  25 s",
                             "epoch 2/2  batch 10/25  loss 2.0000  100 samples/s  15 s left",
                             "epoch 2/2  batch 20/25  loss 2.0000  100 samples/s  5.0 s left",
                             "epoch 2/2  loss 2.0000  100 samples/s  25 s  test accuracy 0.9",
                         });
}

TEST_CASE("times are told in the unit that fits") {
  for (const auto& [seconds, text] : {std::pair{0.04, "0.0 s"},
                                      {9.94, "9.9 s"},
                                      {59.0, "59 s"},
                                      {61.0, "1:01 min"},
                                      {3599.0, "59:59 min"},
                                      {3660.0, "1:01 h"},
                                      {360000.0, "100:00 h"}}) {
    PlainStream plain;
    now = 0;
    Progress progress(plain.stream, 1, 1, test_clock);
    now = seconds;
    progress.finish_epoch();
    const std::vector<std::string> lines = plain.lines();
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Matchers::EndsWith(std::string("  ") + text));
  }
}

TEST_CASE("on a terminal one line is redrawn, ten times a second at most") {
  const char* kind = getenv("TERM");
  const std::string before = kind ? kind : "";
  setenv("TERM", "xterm", 1);
  const Terminal terminal(100);
  now = 0;
  Progress progress(terminal.stream, 1, 1000, test_clock);
  int drawings = 0;
  for (int i = 0; i < 500; ++i) {
    now += 0.01;
    progress.step(0.5, 0.875, 10);
    const std::string drawn = terminal.seen();
    if (drawn.empty()) continue;
    ++drawings;
    CHECK(shown(drawn).size() <= 99);
    CHECK(drawn.find('\n') == std::string::npos);
  }
  CHECK(drawings >= 45);
  CHECK(drawings <= 50);

  // The bar is half full, and what does not fit is left out from the right.
  const auto draw = [&](int columns) {
    terminal.resize(columns);
    now += 1;
    progress.step(0.5, 0.875, 10);
    const std::string line = shown(terminal.seen());
    CHECK(line.size() <= static_cast<std::size_t>(columns - 1));
    return line;
  };
  const std::string wide = draw(200);
  CHECK_THAT(wide,
             StartsWith("epoch 1/1  [====================>                   ]  loss 0.5000  accuracy 0.8750  ") &&
                 Contains(" s left  ") && Contains(" samples/s"));
  CHECK_THAT(draw(65), Contains("[==") && Contains("left") && !Contains("samples/s"));
  CHECK_THAT(draw(45), Contains("accuracy") && !Contains("left"));
  CHECK_THAT(draw(30), !Contains("accuracy") && Contains("[=="));
  CHECK(draw(10) == "epoch 1/1");
  CHECK(draw(6) == "epoch");
  for (int columns = 1; columns <= 300; ++columns) draw(columns);

  terminal.resize(100);
  progress.finish_epoch("test accuracy 0.9");
  const std::string last = terminal.seen();
  CHECK_THAT(last, StartsWith("\r\x1b[K"
                              "epoch 1/1  loss 0.5000  accuracy 0.8750") &&
                       Contains("  test accuracy 0.9\r\n"));
  kind ? setenv("TERM", before.c_str(), 1) : unsetenv("TERM");
}

TEST_CASE("a run that is left keeps its line, and what follows begins a new one") {
  setenv("TERM", "xterm", 1);
  const Terminal terminal(80);
  now = 0;
  {
    Progress progress(terminal.stream, 1, 10, test_clock);
    now = 1;
    progress.step(1, -1, 1);
    CHECK(terminal.seen().find('\n') == std::string::npos);
  }
  CHECK(terminal.seen() == "\r\n");
}
