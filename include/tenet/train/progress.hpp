#pragma once

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tenet/core/error.hpp"

namespace tenet {

/// Shows how training goes on: on a terminal one line which is redrawn at most ten times a second, elsewhere plain
/// lines, one at the end of each epoch and one every ten seconds at most.
///
///     Progress progress(stderr, epochs, loader.size());
///     for each epoch: for each batch: progress.step(loss, accuracy, batch.size);  progress.finish_epoch();
///
/// Loss and accuracy are the epoch's means so far, weighted by samples. Nothing is allocated.
class Progress {
 public:
  /// Seconds since some moment.
  using Clock = double (*)();

  /// A run of `epochs` x `batches` steps; a null stream shows nothing. Throws `Error` unless both are positive.
  [[gnu::noinline]] Progress(std::FILE* stream, int epochs, long batches, Clock clock = &monotonic_seconds)
      : stream_(stream), clock_(clock), epochs_(epochs), batches_(batches) {
    if (epochs <= 0 || batches <= 0) {
      fail("Progress", "epochs and batches", "at least 1 of each", {epochs, " and ", batches});
    }
    terminal_ = stream_ && isatty(fileno(stream_));
    const char* kind = std::getenv("TERM");
    if (terminal_ && kind && std::strcmp(kind, "dumb") == 0) terminal_ = false;
    run_start_ = epoch_start_ = shown_ = clock_();
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// An epoch left unfinished keeps its line as it was last drawn.
  ~Progress() { end_line(); }

  /// Counts one batch of `samples` with the mean `loss` and, unless it is negative, the share `accuracy` that was
  /// right.
  void step(double loss, double accuracy, long samples) {
    ++batch_;
    samples_ += samples;
    loss_sum_ += loss * static_cast<double>(samples);
    if (accuracy >= 0) {
      accuracy_sum_ += accuracy * static_cast<double>(samples);
      accuracy_samples_ += samples;
    }
    if (!stream_) return;
    const double now = clock_();
    if (now - shown_ < (terminal_ ? 0.1 : 10.0)) return;
    shown_ = now;
    terminal_ ? draw(now) : print_line(now, false, "");
  }

  /// Ends the epoch with a line that stays: means, speed, time, and `summary`, e.g. "test accuracy 0.912".
  [[gnu::noinline]] void finish_epoch(const char* summary = "") {
    if (stream_) {
      const double now = clock_();
      if (terminal_) std::fputs("\r\x1b[K", stream_);
      open_line_ = false;
      print_line(now, true, summary);
    }
    ++epoch_;
    batch_ = samples_ = accuracy_samples_ = 0;
    loss_sum_ = accuracy_sum_ = 0;
    epoch_start_ = shown_ = clock_();
  }

  /// Mean loss of the epoch so far, 0 before its first step.
  double loss() const { return samples_ > 0 ? loss_sum_ / static_cast<double>(samples_) : 0; }
  /// Share of right answers in the epoch so far, negative if none was told.
  double accuracy() const {
    return accuracy_samples_ > 0 ? accuracy_sum_ / static_cast<double>(accuracy_samples_) : -1;
  }

  /// The usual clock.
  static double monotonic_seconds() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

 private:
  // Text of bounded length, which drops what does not fit.
  struct Line {
    char text[512];
    int length = 0;

    void add(const char* words) { add("%s", words); }

    template <class... Values>
    void add(const char* format, Values... values) {
      const int room = static_cast<int>(sizeof text) - length;
      const int wanted = std::snprintf(text + length, static_cast<std::size_t>(room), format, values...);
      length += std::clamp(wanted, 0, room - 1);
    }
  };

  [[gnu::cold]] static void add_duration(Line& line, double seconds) {
    const long whole = static_cast<long>(std::clamp(seconds, 0.0, 3.6e8));
    if (seconds < 10) {
      line.add("%.1f s", std::max(seconds, 0.0));
    } else if (whole < 60) {
      line.add("%ld s", whole);
    } else if (whole < 3600) {
      line.add("%ld:%02ld min", whole / 60, whole % 60);
    } else {
      line.add("%ld:%02ld h", whole / 3600, whole / 60 % 60);
    }
  }

  double speed(double now) const { return static_cast<double>(samples_) / std::max(now - epoch_start_, 1e-9); }

  // From the whole run, whose earlier epochs tell more than this one's first batches.
  double seconds_left(double now) const {
    const double done = static_cast<double>(epoch_ * batches_ + batch_), all = static_cast<double>(epochs_ * batches_);
    return done > 0 ? (now - run_start_) / done * std::max(all - done, 0.0) : 0;
  }

  [[gnu::cold]] void add_means(Line& line) const {
    line.add("  loss %.4f", loss());
    if (accuracy_samples_ > 0) line.add("  accuracy %.4f", accuracy());
  }

  int columns() const {
    winsize size;
    return ioctl(fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  // Parts that do not fit are left out from the right; the bar gets what remains. One write, which overwrites the line
  // before it clears the rest, does not flicker.
  [[gnu::cold]] void draw(double now) {
    const int width = std::min(columns() - 1, 240);  // the last column would wrap on some terminals
    Line parts[4];
    parts[0].add("epoch %ld/%ld", epoch_ + 1, epochs_);
    add_means(parts[1]);
    parts[2].add("  ");
    add_duration(parts[2], seconds_left(now));
    parts[2].add(" left");
    parts[3].add("  %.0f samples/s", speed(now));

    Line line;
    int used = 0, kept = 0;
    while (kept < 4 && used + parts[kept].length <= width) used += parts[kept++].length;
    line.add("\r");
    if (kept == 0) {
      line.add("%.*s", std::max(width, 0), parts[0].text);
    } else {
      line.add(parts[0].text);
      const int bar = std::min(width - used - 4, 40);  // two spaces and two brackets
      if (bar >= 5) {
        const int full = static_cast<int>(static_cast<long>(bar) * std::min(batch_, batches_) / batches_);
        line.add("  [");
        for (int i = 0; i < bar; ++i) line.add("%c", i < full ? '=' : i == full ? '>' : ' ');
        line.add("]");
      }
      for (int i = 1; i < kept; ++i) line.add(parts[i].text);
    }
    line.add("\x1b[K");
    std::fwrite(line.text, 1, static_cast<std::size_t>(line.length), stream_);
    std::fflush(stream_);
    open_line_ = true;
  }

  [[gnu::cold]] void print_line(double now, bool finished, const char* summary) {
    Line line;
    line.add("epoch %ld/%ld", epoch_ + 1, epochs_);
    if (!finished) line.add("  batch %ld/%ld", batch_, batches_);
    add_means(line);
    line.add("  %.0f samples/s  ", speed(now));
    add_duration(line, finished ? now - epoch_start_ : seconds_left(now));
    if (!finished) line.add(" left");
    if (*summary) line.add("  %s", summary);
    std::fprintf(stream_, "%s\n", line.text);
    std::fflush(stream_);
  }

  void end_line() {
    if (!open_line_) return;
    std::fputs("\n", stream_);
    std::fflush(stream_);
    open_line_ = false;
  }

  std::FILE* stream_;
  Clock clock_;
  bool terminal_ = false;
  bool open_line_ = false;  // the cursor stands in a drawn line
  long epochs_, batches_;
  long epoch_ = 0, batch_ = 0, samples_ = 0, accuracy_samples_ = 0;
  double loss_sum_ = 0, accuracy_sum_ = 0;
  double run_start_ = 0, epoch_start_ = 0, shown_ = 0;
};

}  // namespace tenet
