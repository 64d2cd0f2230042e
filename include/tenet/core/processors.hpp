#pragma once

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tenet {

/// Some of a machine's processors, a bit for each.
struct ProcessorSet {
  std::uint64_t bits[16]{};

  void add(const ProcessorSet& others) {
    for (int i = 0; i < 16; ++i) bits[i] |= others.bits[i];
  }
  void add(int processor) { bits[processor / 64] |= std::uint64_t{1} << processor % 64; }
  bool operator==(const ProcessorSet&) const = default;
  bool has(int processor) const { return (bits[processor / 64] >> processor % 64 & 1) != 0; }
  int count() const {
    int result = 0;
    for (const std::uint64_t each : bits) result += std::popcount(each);
    return result;
  }
};

/// Those that this thread may use: of its affinity mask.
[[gnu::noinline]] inline ProcessorSet own_processors() {
  ProcessorSet result;
#if defined(__linux__)
  cpu_set_t set;
  static_assert(sizeof set == sizeof result.bits);
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    std::memcpy(result.bits, &set, sizeof set);
    return result;
  }
#endif
  for (unsigned i = 0; i < std::thread::hardware_concurrency() && i < 1024; ++i) result.add(static_cast<int>(i));
  return result;
}

/// How many of these may be busy at once: all, bounded by the control group's quota; at least one.
[[gnu::noinline]] inline int available_processors(const ProcessorSet& set = own_processors()) {
  int result = set.count();
#if defined(__linux__)
  auto bound = [&](long quota, long period) {
    if (quota > 0 && period > 0 && (quota + period - 1) / period < result) {
      result = static_cast<int>((quota + period - 1) / period);
    }
  };
  auto read = [](const char* path, const char* format, long* first, long* second) {
    int found = 0;
    if (std::FILE* file = std::fopen(path, "r")) {
      found = std::fscanf(file, format, first, second);
      std::fclose(file);
    }
    return found;
  };
  long quota = 0, period = 0;
  if (read("/sys/fs/cgroup/cpu.max", "%ld %ld", &quota, &period) == 2) bound(quota, period);  // "max …" does not match
  if (read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "%ld", &quota, nullptr) == 1 &&
      read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "%ld", &period, nullptr) == 1) {
    bound(quota, period);
  }
#endif
  return result > 0 ? result : 1;
}

/// So many of them, behind the `first` ones; none where there are not so many.
[[gnu::noinline]] inline ProcessorSet some_processors(const ProcessorSet& all, int first, int count) {
  ProcessorSet result;
  if (first + count > all.count()) return result;
  for (int processor = 0, seen = 0; processor < 1024; ++processor)
    if (all.has(processor) && seen++ >= first && seen <= first + count) result.add(processor);
  return result;
}

/// One of `parts` equal parts of them; none where they are fewer than parts.
inline ProcessorSet part_of_processors(const ProcessorSet& all, int part, int parts) {
  const int share = all.count() / parts;
  return some_processors(all, part * share, share);
}

/// Keeps the calling thread, and those that it starts, to these. Whether that could be had.
[[gnu::noinline]] inline bool keep_to(const ProcessorSet& own) {
#if defined(__linux__)
  return sched_setaffinity(0, sizeof own.bits, reinterpret_cast<const cpu_set_t*>(own.bits)) == 0;
#else
  return static_cast<void>(own), false;
#endif
}

/// Keeps the calling thread, and those that it starts, to one of `parts` equal parts of the processors that it may use.
/// Returns how many these are; 0, and nothing has changed, where there are fewer processors than parts.
[[gnu::noinline]] inline int keep_to_part(int part, int parts) {
  const ProcessorSet own = part_of_processors(own_processors(), part, parts);
  const int share = own.count();
  return share > 0 && keep_to(own) ? share : 0;
}

/// Has the calling thread go on on one of these, if it may and is not there: it may use the same processors as before,
/// and stays where it is until the scheduler finds a reason to move it.
inline void move_to(const ProcessorSet& wanted) {
#if defined(__linux__)
  const int now = sched_getcpu();
  if (now < 0 || now >= 1024 || wanted.has(now)) return;
  [&] {
    const ProcessorSet own = own_processors();
    ProcessorSet both;
    for (int i = 0; i < 16; ++i) both.bits[i] = own.bits[i] & wanted.bits[i];
    if (both.count() > 0 && keep_to(both)) keep_to(own);
  }();
#else
  static_cast<void>(wanted);
#endif
}

/// For a thread that works for moments and sleeps in between: when it wakes, it need not wait until one that computes
/// has had its turn. It asks the scheduler for short turns of its own, which begin at once; so does Linux from 6.12 on.
/// Whether that could be had.
[[gnu::noinline]] inline bool ask_for_short_turns() {
#if defined(__linux__) && defined(SYS_sched_setattr)
  if (sched_getscheduler(0) != SCHED_OTHER) return false;
  struct {  // the kernel's sched_attr, which the C library has no name for
    std::uint32_t size = 48, policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = getpriority(PRIO_PROCESS, 0);
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000, deadline = 0, period = 0;  // nanoseconds of a turn: the least there is
  } attributes;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
#else
  return false;
#endif
}

}  // namespace tenet
