#pragma once

#include <map>

namespace tenet::gpu {

/// What a library is to be told of each kind of call, made when it is met first.
template <class Key, class Plan>
class Plans {
 public:
  /// The plan for a key; if there is none yet, make(plan) completes an empty one. What make throws leaves none.
  template <class Make>
  const Plan& get(const Key& key, const Make& make) {
    const auto [found, is_new] = plans_.try_emplace(key);
    if (!is_new) return found->second;
    try {
      make(found->second);
    } catch (...) {
      plans_.erase(found);
      throw;
    }
    return found->second;
  }
  void clear() { plans_.clear(); }

 private:
  std::map<Key, Plan> plans_;
};

}  // namespace tenet::gpu
