#pragma once

#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tenet/device/cuda/host_stream.hpp"

/// Teams of several threads where there is no GPU: what a kernel does between its reductions runs for one member after
/// the other, each with a stack of its own. Members that do not all call the same reductions end the program.
namespace tenet::gpu {

class Fibers {
 public:
  static constexpr int size = 8;
  static_assert((size & (size - 1)) == 0, "results are exchanged between halves, as on a GPU");

  Fibers() {
    for (auto& stack : stacks_) stack.resize(1 << 17);
  }

  /// Calls work(rank) for each rank, as fibers.
  template <class Work>
  void run(const Work& work) {
    call_ = [](Fibers& fibers, int rank) { (*static_cast<const Work*>(fibers.work_))(rank); };
    work_ = &work;
    met_.fill(0), ended_.fill(false);
    for (int rank = 0; rank < size; ++rank) {
      ucontext_t& context = contexts_[static_cast<std::size_t>(rank)];
      auto& stack = stacks_[static_cast<std::size_t>(rank)];
      getcontext(&context);
      context.uc_stack.ss_sp = stack.data();
      context.uc_stack.ss_size = stack.size();
      context.uc_link = &caller_;
      const auto address = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&context, reinterpret_cast<void (*)()>(&Fibers::begin), 3, static_cast<unsigned>(address),
                  static_cast<unsigned>(address >> 32), rank);
    }
    for (bool all_ended = false; !all_ended;) {
      all_ended = true;
      for (int rank = 0; rank < size; ++rank) {
        const auto i = static_cast<std::size_t>(rank);
        if (ended_[i]) continue;
        swapcontext(&caller_, &contexts_[i]);
        all_ended = all_ended && ended_[i];
      }
      for (int rank = 1; rank < size; ++rank)
        if (met_[static_cast<std::size_t>(rank)] != met_[0]) {
          std::fprintf(stderr, "the threads of a team do not call the same reductions\n");
          std::abort();
        }
    }
  }

  /// The result for the ranks that have the same rest when they are divided by `lanes`.
  template <class Operation>
  float reduce(int rank, float x, Operation operation, std::size_t lanes) {
    const auto i = static_cast<std::size_t>(rank);
    auto& numbers = numbers_[static_cast<std::size_t>(met_[i] % 2)];
    numbers[i] = x;
    ++met_[i];
    swapcontext(&contexts_[i], &caller_);
    if (rank == 0)  // the first to go on computes the results of all
      for (std::size_t apart = size / 2; apart >= lanes; apart /= 2) {
        const auto before = numbers;
        for (std::size_t k = 0; k < size; ++k) numbers[k] = operation(before[k], before[k ^ apart]);
      }
    return numbers[i];
  }

 private:
  static void begin(unsigned low, unsigned high, int rank) {
    Fibers& fibers = *reinterpret_cast<Fibers*>(std::uintptr_t{high} << 32 | low);
    fibers.call_(fibers, rank);
    fibers.ended_[static_cast<std::size_t>(rank)] = true;
  }

  void (*call_)(Fibers&, int) = nullptr;
  const void* work_ = nullptr;
  ucontext_t caller_{};
  std::array<ucontext_t, size> contexts_{};
  std::array<std::vector<char>, size> stacks_;
  std::array<long, size> met_{};  ///< reductions that each has reached
  std::array<bool, size> ended_{};
  std::array<std::array<float, size>, 2> numbers_{};  ///< of this reduction and, of those who are ahead, the next
};

/// What a kernel knows as its team. nvcc compiles it for GPUs, too, where nothing runs it.
struct FiberTeam {
  static constexpr int size = Fibers::size;

  FiberTeam(Fibers* given, int its_rank) : fibers_(given), rank_(its_rank) {}
  TENET_HOST_DEVICE int rank() const { return rank_; }
  TENET_HOST_DEVICE float sum(float x) const {
    return reduce(x, [](float a, float b) { return a + b; });
  }
  TENET_HOST_DEVICE float largest(float x) const {
    return reduce(x, [](float a, float b) { return a > b || a != a ? a : b; });
  }
  template <int count>
  TENET_HOST_DEVICE void sum_of_lanes(float* x, int lanes) const {
    for (int k = 0; k < count; ++k) {
      const float sum = reduce(
          x[k], [](float a, float b) { return a + b; }, lanes);
      x[k] = rank_ < lanes ? sum : __builtin_nanf("");  // nobody is to use it
    }
  }
  TENET_HOST_DEVICE bool is_last([[maybe_unused]] unsigned* arrived, [[maybe_unused]] long teams) const {
    float last = 0;
#if !defined(__CUDA_ARCH__)
    if (largest(0) == 0 && rank_ == 0) last = Alone::arrives_last(arrived, teams) ? 1.0f : 0.0f;
#endif
    return largest(last) != 0;
  }

 private:
  template <class Operation>
  TENET_HOST_DEVICE float reduce(float x, [[maybe_unused]] Operation operation, [[maybe_unused]] int lanes = 1) const {
#if defined(__CUDA_ARCH__)
    return x;
#else
    return fibers_->reduce(rank_, x, operation, static_cast<std::size_t>(lanes));
#endif
  }

  Fibers* fibers_;
  int rank_;
};

/// The host with teams of fibers.
class FiberHost : public SerialHost {
 public:
  std::unique_ptr<Fibers> fibers = std::make_unique<Fibers>();
};

template <class Work>
struct RowOfFibers {
  const Work* work;
  Fibers* fibers;
  long row;
  void operator()(int rank) const { (*work)(FiberTeam(fibers, rank), row); }
};

template <class Work>
void for_each_row(FiberHost& host, long rows, long, const Work& work) {
  host.give([work, rows, fibers = host.fibers.get()] {
    for (long row = 0; row < rows; ++row) fibers->run(RowOfFibers<Work>{&work, fibers, row});
  });
}

}  // namespace tenet::gpu
