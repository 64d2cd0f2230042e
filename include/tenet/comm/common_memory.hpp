#pragma once

#include <tenet/comm/collectives.hpp>
#include <tenet/core/buffer.hpp>

/// Memory that ranks read and write together.
namespace tenet {

/// A `Transport` whose ranks can have memory in common: `memory(floats)` takes some, `place_of` says where it lies in a
/// way that all ranks understand, and `at` makes an address of that.
template <class T>
concept SharesMemory = Transport<T> && requires(T& transport, const float* data, long place) {
  { transport.memory(0L) } -> std::same_as<float*>;
  { transport.place_of(data) } -> std::same_as<long>;
  { transport.at(place) } -> std::same_as<float*>;
};

/// So many zeros, at the same place for all ranks, who call this together. They live as long as the transport of rank
/// 0.
template <SharesMemory T>
float* common_memory(T& transport, long floats, MessageLabel label) {
  long place = transport.rank() == 0 ? transport.place_of(transport.memory(floats)) : 0;
  float message[sizeof place / sizeof(float)];
  std::memcpy(message, &place, sizeof place);
  broadcast(transport, 0, message, sizeof place / sizeof(float), label);
  std::memcpy(&place, message, sizeof place);
  return transport.at(place);
}

/// Zeros of one rank, in memory that its transport sends from without a copy: where the ranks can have memory in
/// common, there is room, and `are_sent`. Else in memory of the rank alone. They live as long as this and the
/// transport.
class OwnNumbers {
 public:
  template <Transport T>
  OwnNumbers([[maybe_unused]] T& transport, long floats, [[maybe_unused]] bool are_sent = true) {
    if constexpr (SharesMemory<T>) {
      try {
        if (are_sent) data_ = transport.memory(floats);
      } catch (const Error&) {  // the shared memory of a container is small, as a rule: what is sent is copied then
      }
    }
    if (data_ != nullptr) return;
    alone_.grow(floats);
    data_ = alone_.data();
  }

  float* data() const { return data_; }

 private:
  Buffer alone_;
  float* data_ = nullptr;
};

}  // namespace tenet
