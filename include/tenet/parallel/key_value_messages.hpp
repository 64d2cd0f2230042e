#pragma once

#include <array>
#include <bit>
#include <span>
#include <tenet/comm/transport.hpp>
#include <tenet/parallel/key_value_shards.hpp>
#include <utility>
#include <vector>

namespace tenet::detail {

/// What the ranks of a key-value store tell each other: headers, and numbers behind those that say so. Each rank
/// receives what another one has sent it in that order.
template <Transport T>
class StoreMessages {
 public:
  explicit StoreMessages(T transport)
      : transport_(std::move(transport)), peers_(static_cast<std::size_t>(transport_.size())) {}

  T& transport() { return transport_; }
  int rank() const { return transport_.rank(); }
  int size() const { return static_cast<int>(peers_.size()); }

  bool arrived(int from) { return transport_.arrived(from); }

  void send(int to, const StoreHeader& header) {
    Peer& peer = peer_of(to);
    Numbers& memory = peer.headers[static_cast<std::size_t>(peer.sent) % peer.headers.size()];
    memory = std::bit_cast<Numbers>(header);
    send(to, memory);
  }
  /// They may change when the other rank has answered.
  void send(int to, std::span<const float> values) {
    transport_.send(to, values.data(), static_cast<long>(values.size()), label(peer_of(to).sent));
  }

  StoreHeader receive(int from) {
    Numbers memory;
    receive_into(from, memory);
    return std::bit_cast<StoreHeader>(memory);
  }
  void receive_into(int from, std::span<float> values) {
    transport_.receive_into(from, values.data(), static_cast<long>(values.size()), label(peer_of(from).received));
  }

 private:
  using Numbers = std::array<float, StoreHeader::floats_of>;
  struct Peer {
    // Where a header lies until it has been received. More are never under way: a rank asks for few things at a time,
    // and is told one or two of each.
    std::array<Numbers, 32> headers;
    long sent = 0, received = 0;
  };

  Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  static MessageLabel label(long& number) { return {"message of a key-value store", number++, 0}; }

  T transport_;
  std::vector<Peer> peers_;
};

}  // namespace tenet::detail
