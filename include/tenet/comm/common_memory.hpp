#pragma once

#include <tenet/comm/collectives.hpp>
#include <tenet/core/buffer.hpp>

/// Memory that ranks read and write together.
namespace tenet {

/// So many zeros, at the same place for all ranks, who call this together, and have memory in common. They live as long
/// as the transport of rank 0.
template <SharesMemory T>
float* common_memory(T& transport, long floats, MessageLabel label) {
  long place = transport.rank() == 0 ? transport.place_of(transport.memory(floats)) : 0;
  broadcast_value(transport, 0, place, label);
  return transport.at(place);
}

/// Zeros of one rank, in memory that its transport sends from without a copy: where the ranks can have memory in
/// common, there is room, and `are_sent`. Else in memory of the rank alone. They live as long as this and the
/// transport.
class OwnNumbers {
 public:
  template <Transport T>
  OwnNumbers([[maybe_unused]] T& transport, long floats, [[maybe_unused]] bool are_sent = true) {
    if constexpr (MayShareMemory<T>) {
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
