#pragma once

#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/transport.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace tenet {

/// One of some transports, as it turns out when the program runs: on all ranks the same one.
template <Transport... Transports>
class EitherTransport {
 public:
  template <class T>
    requires(false || ... || std::is_same_v<T, Transports>)
  EitherTransport(T transport) : transport_(std::move(transport)) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(transport_);
  }

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
    requires(false || ... || ExpectsMessages<Transports>)
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
  Doorbell* doorbell()
    requires(false || ... || HasDoorbell<Transports>)
  {
    return visit([]<class T>(T& it) -> Doorbell* {
      if constexpr (HasDoorbell<T>) return it.doorbell();
      return nullptr;
    });
  }
  void finish() {
    visit([](auto& it) { it.finish(); });
  }

  // Of those that know which ranks run on one machine; null of the others.
  const MachineTopology* machines() const
    requires(false || ... || KnowsMachines<Transports>)
  {
    return visit([]<class T>(T& it) -> const MachineTopology* {
      if constexpr (KnowsMachines<std::remove_const_t<T>>) return it.machines();
      return nullptr;
    });
  }
  template <class Use>
  bool share_inside(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires(false || ... || SharesInside<Transports>)
  {
    return visit([&]<class T>(T& it) {
      if constexpr (SharesInside<T>) return it.share_inside(data, floats, label, weight, use);
      return false;
    });
  }

  // Of those whose ranks can have memory in common; null of the others.
  float* memory(long floats)
    requires(false || ... || MayShareMemory<Transports>)
  {
    return visit([&]<class T>(T& it) -> float* {
      if constexpr (MayShareMemory<T>) return it.memory(floats);
      return nullptr;
    });
  }
  long place_of(const float* data) const
    requires(false || ... || SharesMemory<Transports>)
  {
    return visit([&]<class T>(T& it) -> long {
      if constexpr (SharesMemory<std::remove_const_t<T>>) return it.place_of(data);
      return 0;
    });
  }
  float* at(long place)
    requires(false || ... || SharesMemory<Transports>)
  {
    return visit([&]<class T>(T& it) -> float* {
      if constexpr (SharesMemory<T>) return it.at(place);
      return nullptr;
    });
  }
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires(false || ... || MayShareMemory<Transports>)
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

  std::variant<Transports...> transport_;
};

}  // namespace tenet
