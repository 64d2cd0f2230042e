#include "tenet/device/cpu.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "tenet/exec/execution.hpp"

namespace {

using namespace tenet;

/// Sets the variable that says how many threads there are, and sets it back.
class Asked {
 public:
  explicit Asked(const char* threads) {
    if (const char* const before = std::getenv(name)) before_ = before, set_ = true;
    if (threads == nullptr)
      unsetenv(name);
    else
      setenv(name, threads, 1);
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  ~Asked() {
    if (set_)
      setenv(name, before_.c_str(), 1);
    else
      unsetenv(name);
  }

 private:
  static constexpr const char* name = "TENET_NUM_THREADS";
  std::string before_;
  bool set_ = false;
};

// Logical devices share one set of kernels, so that nothing is compiled twice; they are different types.
static_assert(std::is_same_v<Cpu<0>::Kernels, Cpu<1, 4>::Kernels>);
static_assert(!std::is_same_v<Cpu<0>, Cpu<1>>);
static_assert(Cpu<>::index == 0 && Cpu<3>::index == 3);
static_assert(std::is_same_v<CpuKernels::Lane, Vector>);

}  // namespace

TEST_CASE("the number of threads is the type's, else the environment's, else all", "[cpu]") {
  const Asked asked("3");
  CHECK(Cpu<>::threads() == 3);
  CHECK(Cpu<0, 2>::threads() == 2);
  CHECK(make_executor<Cpu<>>()->size() == 3);
  CHECK(make_executor<Cpu<0, 2>>()->size() == 2);
  for (const char* nothing : {static_cast<const char*>(nullptr), ""}) {
    const Asked none(nothing);
    CHECK(Cpu<>::threads() == 0);
    CHECK(make_executor<Cpu<>>()->size() == available_processors());
  }
}

TEST_CASE("a number of threads that is none is refused", "[cpu]") {
  for (const char* wrong : {"0", "-2", "many"}) {
    const Asked asked(wrong);
    CHECK_THROWS_WITH(
        Cpu<>::threads(),
        "TENET_NUM_THREADS: not a number of threads; expected a positive number, found " + std::string(wrong));
    CHECK(Cpu<0, 1>::threads() == 1);  // nobody asks
  }
}

TEST_CASE("logical CPU devices have workers of their own", "[cpu]") {
  const auto first = make_executor<Cpu<0, 2>>(), second = make_executor<Cpu<1, 2>>();
  first->reserve_scratch(100);
  second->reserve_scratch(100);
  CHECK(first->scratch(0) != second->scratch(0));
}

#if defined(__linux__)
TEST_CASE("a device with a number of threads has processors of its own, where there are so many", "[cpu]") {
  const ProcessorSet all = own_processors();
  CHECK(Cpu<>::processors().count() == 0);
  CHECK(Cpu<3>::processors().count() == 0);
  CHECK(Cpu<0, 1>::processors() == some_processors(all, 0, 1));
  CHECK(Cpu<1, 1>::processors() == some_processors(all, 1, 1));
  CHECK(Cpu<0, 2000>::processors().count() == 0);
  if (all.count() < 2) return;
  CHECK(Cpu<0, 1>::processors().count() == 1);
  CHECK_FALSE(Cpu<0, 1>::processors() == Cpu<1, 1>::processors());
  ProcessorSet both = Cpu<0, 1>::processors();
  both.add(Cpu<1, 1>::processors());
  CHECK(both == Cpu<0, 2>::processors());

  const auto processors_of_workers = [](auto executor) {
    ProcessorSet found;
    std::atomic<int> here{0};
    executor->for_each(executor->size(), [&](int, int worker) {
      if (worker == 1) found = own_processors();
      for (++here; here < executor->size();) std::this_thread::yield();
    });
    return found;
  };
  CHECK(processors_of_workers(make_executor<Cpu<0, 2>>()) == Cpu<0, 2>::processors());
  CHECK(processors_of_workers(make_executor<Cpu<0>>(2)) == all);  // replicas have a part of their thread's
  CHECK(processors_of_workers(make_executor<Cpu<4000, 2>>()) == all);
}
#endif
