#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tenet {

template <class Signature>
class Function;

/// Something that can be called, of any type, or nothing: as std::function, whose header would be a sixteenth of what
/// <tenet/tenet.hpp> costs the compiler. Copies share what they call. Nothing is allocated for what is no larger than
/// two pointers, can be copied byte by byte and is not changed by a call, such as most lambdas.
template <class Result, class... Arguments>
class Function<Result(Arguments...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}
  Function(const Function&) = default;
  Function(Function&& other) noexcept : Function(other) { other.drop(); }
  Function& operator=(const Function&) = default;
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      *this = other;
      other.drop();
    }
    return *this;
  }
  /// Nothing, if `callable` is a null pointer, or an empty std::function.
  template <class Callable>
    requires(!std::is_same_v<Callable, Function> && !std::is_member_pointer_v<Callable> &&
             std::is_invocable_r_v<Result, Callable&, Arguments...>)
  Function(Callable callable) {
    // Not "can it be set to null": g++ 12 takes a lambda that was asked so for one that cannot be copied byte by byte.
    if constexpr (requires { callable == nullptr; } && !std::is_empty_v<Callable>)
      if (callable == nullptr) return;
    if constexpr (sizeof(Callable) <= room && alignof(Callable) <= alignof(void*) &&
                  std::is_trivially_copyable_v<Callable> && std::is_invocable_v<const Callable&, Arguments...>)
      new (place_) Callable(std::move(callable));
    else
      // The pointers' types are the same for all callables, so that the compiler makes this once.
      shared_ = {static_cast<void*>(new Callable(std::move(callable))),
                 +[](void* object) { delete static_cast<Callable*>(object); }};
    call_ = [](void* object, Arguments... arguments) {
      return static_cast<Result>((*static_cast<Callable*>(object))(std::forward<Arguments>(arguments)...));
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  /// There must be something to call.
  Result operator()(Arguments... arguments) const {
    return call_(shared_ ? shared_.get() : place_, std::forward<Arguments>(arguments)...);
  }

 private:
  static constexpr std::size_t room = 2 * sizeof(void*);

  void drop() {
    call_ = nullptr;
    shared_.reset();
  }

  Result (*call_)(void*, Arguments...) = nullptr;
  std::shared_ptr<void> shared_;  // null: it lies in `place_`
  alignas(void*) mutable std::byte place_[room]{};
};

}  // namespace tenet
