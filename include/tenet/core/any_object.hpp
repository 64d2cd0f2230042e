#pragma once

#include <memory>
#include <utility>

namespace tenet {

/// Owns one object, whose type only those name who make and use it, so that it is compiled there alone. A
/// std::shared_ptr<void> would do, but has the compiler make some fifteen functions for each type, where this has one.
class AnyObject {
 public:
  /// Makes the object; one that was there before is destroyed.
  template <class T, class... Arguments>
  T& emplace(Arguments&&... arguments) {
    T* const made = new T(std::forward<Arguments>(arguments)...);
    object_ = {made, [](void* object) { delete static_cast<T*>(object); }};
    return *made;
  }
  bool has_value() const { return object_ != nullptr; }
  /// The object, as which it was made.
  template <class T>
  T& as() const {
    return *static_cast<T*>(object_.get());
  }

 private:
  std::unique_ptr<void, void (*)(void*)> object_{nullptr, nullptr};
};

}  // namespace tenet
