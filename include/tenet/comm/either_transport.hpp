#pragma once

#include <tenet/comm/transport.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace tenet {

/// One of two transports, as it turns out when the program runs: on all ranks the same one.
template <Transport First, Transport Second>
class EitherTransport {
 public:
  EitherTransport(First transport) : transport_(std::in_place_index<0>, std::move(transport)) {}
  EitherTransport(Second transport) : transport_(std::in_place_index<1>, std::move(transport)) {}

  bool is_first() const { return transport_.index() == 0; }

  int rank() const {
    return visit([](const auto& it) { return it.rank(); });
  }
  int size() const {
    return visit([](const auto& it) { return it.size(); });
  }
  LinkCost link() const {
    return visit([](const auto& it) { return it.link(); });
  }
  auto limit() const {
    return visit([](const auto& it) { return it.limit(); });
  }

  void send(int to, const float* data, long floats, MessageLabel label) {
    visit([&](auto& it) { it.send(to, data, floats, label); });
  }
  void expect(int from, long floats, MessageLabel label, float* to)
    requires(ExpectsMessages<First> || ExpectsMessages<Second>)
  {
    visit([&]<class T>(T& it) {
      if constexpr (ExpectsMessages<T>) it.expect(from, floats, label, to);
    });
  }
  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    visit([&](auto& it) { it.receive(from, floats, label, use); });
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    visit([&](auto& it) { it.receive_into(from, to, floats, label); });
  }
  bool arrived(int from) {
    return visit([&](auto& it) { return it.arrived(from); });
  }
  void finish() {
    visit([](auto& it) { it.finish(); });
  }

  // Of the one, or both, whose ranks can have memory in common; null of the other.
  float* memory(long floats)
    requires(MayShareMemory<First> || MayShareMemory<Second>)
  {
    return visit([&]<class T>(T& it) -> float* {
      if constexpr (MayShareMemory<T>) return it.memory(floats);
      return nullptr;
    });
  }
  long place_of(const float* data) const
    requires(SharesMemory<First> || SharesMemory<Second>)
  {
    return visit([&]<class T>(T& it) -> long {
      if constexpr (SharesMemory<std::remove_const_t<T>>) return it.place_of(data);
      return 0;
    });
  }
  float* at(long place)
    requires(SharesMemory<First> || SharesMemory<Second>)
  {
    return visit([&]<class T>(T& it) -> float* {
      if constexpr (SharesMemory<T>) return it.at(place);
      return nullptr;
    });
  }
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires(MayShareMemory<First> || MayShareMemory<Second>)
  {
    return visit([&]<class T>(T& it) {
      if constexpr (MayShareMemory<T>) return it.share(data, floats, label, weight, use);
      return false;
    });
  }

 private:
  template <class Visitor>
  auto visit(Visitor visitor) const {
    return std::visit(visitor, transport_);
  }
  template <class Visitor>
  auto visit(Visitor visitor) {
    return std::visit(visitor, transport_);
  }

  std::variant<First, Second> transport_;
};

}  // namespace tenet
