#pragma once

#include <cstddef>
#include <memory>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tenet {

/// From so many bytes on, memory is asked for in huge pages: the processor's second table of translations has 1000 to
/// 2000 entries, and what is smaller finds its pages of 4 KiB there. Two whole huge pages at least.
inline constexpr std::size_t large_memory = std::size_t{4} << 20;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Gives memory of `take_floats` back.
struct FreeFloats {
  std::size_t alignment = 64;
  void operator()(float* memory) const { ::operator delete(memory, std::align_val_t{alignment}); }
};
using FloatMemory = std::unique_ptr<float, FreeFloats>;

/// Room for floats that are not set, at a multiple of 64 bytes; of 2 MiB where it is large. Throws `std::bad_alloc`.
///
/// Linux is told that huge pages are welcome there: one translation serves 512 pages, and the first use of memory takes
/// one fault where it took 512. Whether they come is the system's: a hint that is not taken changes nothing. What is
/// left behind the last whole huge page keeps small ones, so that no more memory is in use than was asked for; memory
/// of which only parts may be used has small pages throughout.
[[gnu::noinline]] inline FloatMemory take_floats(long floats, bool used_whole = true) {
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  const bool in_huge_pages = used_whole && bytes >= large_memory;
  const std::size_t alignment = in_huge_pages ? huge_page : 64;
  FloatMemory memory(static_cast<float*>(::operator new(bytes, std::align_val_t{alignment})), FreeFloats{alignment});
#if defined(__linux__)
  if (in_huge_pages) (void)::madvise(memory.get(), bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace tenet
