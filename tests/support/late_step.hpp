#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <tenet/tenet.hpp>
#include <thread>

/// Networks of which a step comes late, or not at all, but on threads that are said to be in time.
namespace late_step {

inline std::atomic<int> milliseconds{0};
inline std::atomic<int> runs{0};  // ever
inline std::atomic<bool> fails{false};
inline thread_local bool is_in_time = false;

/// Passes numbers on.
struct Step : tenet::KernelOperation {
  static constexpr const char* name = "late";
  template <class X>
  static constexpr X result(X) {
    return {};
  }
  template <class X>
  static void run(auto& /*executor*/, const auto& arguments, X) {
    ++runs;
    if (!is_in_time) {
      if (fails) tenet::fail("late", "an operation", "nothing", "that it fails");
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    std::memcpy(arguments.template result<float>(), arguments.template operand<float>(0),
                sizeof(float) * static_cast<std::size_t>(X::size * arguments.batch));
  }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return tenet::gradients([=] { return upstream; });
  }
};

/// Of 16 numbers.
struct Net {
  tenet::Linear<16, 8> first;
  tenet::Linear<8, 3> second;
  constexpr auto forward(auto x) const { return second(tenet::apply<Step>(relu(first(x)))); }
};
/// Two towers that can be computed at the same time, one of which is late.
struct Towers {
  tenet::Linear<16, 64> left1, right1;
  tenet::Linear<64, 3> left2, right2;
  constexpr auto forward(auto x) const { return left2(tenet::apply<Step>(relu(left1(x)))) + right2(tanh(right1(x))); }
};

}  // namespace late_step
