#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <tenet/core/error.hpp>
#include <tenet/core/wait_until.hpp>

/// Memory that several processes of one machine have in common. POSIX only.
namespace tenet {

/// The shared memory of the ranks of one job, each of which is a process: all construct one with the same name and
/// number of bytes, which are zero at the beginning.
///
/// Rank 0 makes the object, and the name is gone as soon as all have come: whatever happens to them then, nothing is
/// left behind. Each rank holds the kernel's lock of one byte as long as it lives, so that the others see at once when
/// its process has ended, and cannot take a later process for it.
class SharedArena {
 public:
  using Limit = std::chrono::nanoseconds;

  SharedArena(const std::string& name, int rank, int size, long bytes, Limit limit)
      : SharedArena(name, rank, size, bytes) {
    if (rank < 0 || rank >= size) fail_here("no such rank", "one below " + std::to_string(size), std::to_string(rank));
    rank == 0 ? create() : open(limit);
    void* const memory = mmap(nullptr, address_space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (memory == MAP_FAILED) fail_here("cannot be mapped", "addresses for it", std::strerror(errno));
    memory_ = static_cast<char*>(memory);
    struct flock lock = lock_of(rank);
    if (fcntl(file_, F_SETLK, &lock) != 0)
      fail_here("cannot be entered", "one process for rank " + std::to_string(rank), std::strerror(errno));
    has_joined_ = true;
    state_of(rank).processors = own_processors();
    state_of(rank).value.store(joined, std::memory_order_release);
    ProcessorSet all;
    for (int other = 0; other < size; ++other) {
      wait_for(other, limit);
      all.add(state_of(other).processors);
    }
    processors_ = available_processors(all);
    remove_name();
  }

  /// Whether the machine has room for so much, by that name: what rank 0 may ask before it lets the others wait for it.
  static bool has_room(const std::string& name, int size, long bytes) {
    SharedArena trial(name, 0, size, bytes);
    try {
      trial.create();
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  ~SharedArena() {
    remove_name();
    if (has_joined_) state_of(rank_).value.store(left, std::memory_order_release);
    if (memory_ != nullptr) munmap(memory_, address_space);
    if (file_ >= 0) close(file_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Of the machine's processors, how many may be busy for the ranks at once: each may be kept to some of its own.
  int processors() const { return processors_; }

  /// The bytes that all ranks have asked for, at the same place for all of them; a multiple of 64.
  char* data() { return at(first_byte()); }
  /// Where the byte that is `offset` bytes behind the beginning lies in this process: `offset_of` of any rank.
  char* at(long offset) { return memory_ + offset; }
  long offset_of(const void* place) const { return static_cast<const char*>(place) - memory_; }
  bool holds(const void* place) const {
    const auto here = reinterpret_cast<std::uintptr_t>(place), begin = reinterpret_cast<std::uintptr_t>(memory_);
    return here - begin < static_cast<std::uintptr_t>(address_space);
  }

  /// More memory, for this rank to write and for all to read: zeros that live as long as the arena.
  float* more(long floats) {
    const long bytes = round_up(floats * static_cast<long>(sizeof(float)), page);
    const long offset = first_byte() + round_up(bytes_, page) + control().more.fetch_add(bytes);
    take(offset, bytes);
    return reinterpret_cast<float*>(at(offset));
  }

  /// Whether that rank has ended its arena, as it should.
  bool has_left(int rank) const { return state_of(rank).value.load(std::memory_order_acquire) == left; }
  /// Whether nothing will come from that rank any longer: it has left, or its process has ended. Asks the kernel.
  bool is_gone(int rank) const {
    if (has_left(rank)) return true;
    if (rank == rank_ || state_of(rank).value.load(std::memory_order_acquire) != joined) return false;
    struct flock lock = lock_of(rank);
    return fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  }

 private:
  // What a rank says of itself; zero: nothing yet.
  static constexpr int joined = 1, left = 2;
  static constexpr long page = 4096;
  /// Addresses that are kept for the file, of which only those in use take memory: it grows, and all see that it does.
  static constexpr long address_space = 1L << 36;

  struct alignas(64) Control {
    std::atomic<long> more;
  };
  struct alignas(64) State {
    std::atomic<int> value;
    ProcessorSet processors;  ///< that the rank may use; written before it has joined
  };
  static_assert(std::atomic<long>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
                "processes share atomics only where they need no lock");

  SharedArena(const std::string& name, int rank, int size, long bytes)
      : name_(name), rank_(rank), size_(size), bytes_(bytes) {}

  static constexpr long round_up(long count, long unit) { return (count + unit - 1) / unit * unit; }
  long first_byte() const {
    return static_cast<long>(sizeof(Control) + static_cast<std::size_t>(size_) * sizeof(State));
  }
  Control& control() { return *reinterpret_cast<Control*>(memory_); }
  State& state_of(int rank) const { return reinterpret_cast<State*>(memory_ + sizeof(Control))[rank]; }
  static struct flock lock_of(int rank) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return lock;
  }

  [[noreturn, gnu::cold]] void fail_here(const std::string& what, const std::string& expected,
                                         const std::string& found) {
    fail("rank " + std::to_string(rank_) + ", shared memory " + name_, what, expected, found);
  }

  /// The file has these bytes from here on. Without this a full machine would end the process where it writes to them.
  void take(long offset, long bytes) {
    if (offset + bytes > address_space)
      fail_here("is full", "at most 64 GiB", std::to_string(offset + bytes) + " bytes");
    int error = 0;
    do {
      error = bytes > 0 ? posix_fallocate(file_, offset, bytes) : 0;
    } while (error == EINTR);
    if (error != 0) fail_here("cannot grow", "room for " + std::to_string(bytes) + " bytes", std::strerror(error));
  }

  void create() {
    file_ = shm_open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
    if (file_ < 0) fail_here("cannot be made", "a name that no other job has", std::strerror(errno));
    has_name_ = true;
    take(0, first_byte() + bytes_);
  }
  void open(Limit limit) {
    struct stat found {};
    const bool is_made = wait_until(
        [&] {
          if (file_ < 0) file_ = shm_open(name_.c_str(), O_RDWR, 0);
          return file_ >= 0 && fstat(file_, &found) == 0 && found.st_size > 0;
        },
        limit, 0);
    has_name_ = file_ >= 0;
    if (!is_made) fail_late(0, limit);
    if (found.st_size != first_byte() + bytes_)
      fail_here("made by rank 0 for other ranks", std::to_string(first_byte() + bytes_) + " bytes",
                std::to_string(found.st_size));
  }
  /// Until that rank has come. None comes any longer where the process of one that had come has ended.
  void wait_for(int other, Limit limit) {
    const auto has_come = [&] { return state_of(other).value.load(std::memory_order_acquire) != 0; };
    int ended = size_;
    wait_until(
        [&] {
          if (has_come()) return true;
          for (ended = 0; ended < size_ && (!is_gone(ended) || has_left(ended));) ++ended;
          return ended < size_;
        },
        limit, 0);
    if (has_come()) return;
    if (ended == size_) fail_late(other, limit);
    fail_here("waits for rank " + std::to_string(other), "it",
              "that the process of rank " + std::to_string(ended) + " has ended");
  }
  [[noreturn, gnu::cold]] void fail_late(int other, Limit limit) {
    fail_here("waits for rank " + std::to_string(other),
              "within " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()) + " ms",
              "nothing");
  }
  void remove_name() {
    if (has_name_) shm_unlink(name_.c_str());
    has_name_ = false;
  }

  std::string name_;
  int rank_, size_, processors_ = 0;
  long bytes_;
  int file_ = -1;
  bool has_name_ = false, has_joined_ = false;
  char* memory_ = nullptr;
};

}  // namespace tenet
