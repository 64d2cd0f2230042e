#pragma once

#include <chrono>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/core/timeline.hpp>
#include <utility>

namespace tenet {

/// A transport whose messages are recorded: how long each was waited for, and how long it took from then on. It has a
/// row of its own, beside that of the device whose numbers it moves.
template <Transport T>
class RecordedTransport {
 public:
  /// Adds the row `name` to those of the device's recorder.
  RecordedTransport(T transport, TimelineRow& device, std::string name)
      : timeline_row(&device.recorder().add_row(std::move(name), transport.rank())),
        device_{&device},
        transport_(std::move(transport)) {
    device.recorder().describe_link({transport_.size(), transport_.link()});
  }

  TimelineRow* timeline_row;
  /// Where waiting for what is moved is recorded.
  auto& device() { return device_; }

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  LinkCost link() const { return transport_.link(); }
  std::chrono::nanoseconds limit() const { return transport_.limit(); }
  bool arrived(int from) { return transport_.arrived(from); }
  Doorbell* doorbell()
    requires HasDoorbell<T>
  {
    return transport_.doorbell();
  }

  void send(int to, const float* data, long floats, MessageLabel label) {
    const OpenSpan span(timeline_row, message("send", to, floats, label));
    transport_.send(to, data, floats, label);
  }
  void expect(int from, long floats, MessageLabel label, float* to)
    requires ExpectsMessages<T>
  {
    transport_.expect(from, floats, label, to);
  }
  /// Until the first part has come it waits; then it moves or adds up what comes.
  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    Span moved = message("receive", from, floats, label), waited = moved;
    waited.kind = SpanKind::wait;
    waited.name = "a message of rank";
    waited.begin = timeline_now();
    transport_.receive(from, floats, label, [&](const float* part, long first, long count) {
      if (waited.end == 0) {
        moved.begin = waited.end = timeline_now();
        timeline_row->add(waited);
      }
      use(part, first, count);
    });
    moved.end = timeline_now();
    if (waited.end == 0) moved.begin = waited.begin;  // without numbers there are no parts
    timeline_row->add(moved);
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    const OpenSpan span(timeline_row, message("receive", from, floats, label));
    transport_.receive_into(from, to, floats, label);
  }
  void finish() {
    const OpenSpan span(timeline_row, {.name = "receivers", .kind = SpanKind::wait});
    transport_.finish();
  }
  // Of a transport whose ranks can have memory in common.
  float* memory(long floats)
    requires MayShareMemory<T>
  {
    return transport_.memory(floats);
  }
  long place_of(const float* data) const
    requires SharesMemory<T>
  {
    return transport_.place_of(data);
  }
  float* at(long place)
    requires SharesMemory<T>
  {
    return transport_.at(place);
  }
  /// It waits until all ranks have come, and moves numbers from then on.
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires MayShareMemory<T>
  {
    return record_shared("the numbers of all ranks", floats, label, [&](auto recorded) {
      return transport_.share(data, floats, label, weight, [&](const SharedNumbers* shared) {
        recorded();
        use(shared);
      });
    });
  }
  // Of one that knows which ranks run on one machine.
  const MachineTopology* machines() const
    requires KnowsMachines<T>
  {
    return transport_.machines();
  }
  template <class Use>
  bool share_inside(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires SharesInside<T>
  {
    return record_shared("the numbers of a machine's ranks", floats, label, [&](auto recorded) {
      return transport_.share_inside(data, floats, label, weight, [&](const SharedNumbers* shared) {
        recorded();
        use(shared);
      });
    });
  }
  auto abandon() noexcept
    requires requires(T& transport) { transport.abandon(); }
  {
    return transport_.abandon();
  }

 private:
  struct Device {
    TimelineRow* timeline_row;
  };

  /// share(recorded) calls recorded() when all numbers are there.
  template <class Share>
  bool record_shared(const char* awaited, long floats, const MessageLabel& label, Share share) {
    Span moved = message("share", -1, floats, label), waited = moved;
    waited.kind = SpanKind::wait;
    waited.name = awaited;
    waited.begin = timeline_now();
    const bool are_shared = share([&] { moved.begin = waited.end = timeline_now(); });
    moved.end = timeline_now();
    if (waited.end == 0) moved.begin = waited.end = moved.end;
    timeline_row->add(waited);
    timeline_row->add(moved);
    return are_shared;
  }
  static Span message(const char* name, int peer, long floats, const MessageLabel& label) {
    return {.name = name,
            .subject = label.what,
            .number = label.number,
            .step = label.step,
            .bytes = 4 * floats,
            .peer = peer,
            .kind = SpanKind::message};
  }

  Device device_;
  T transport_;
};

}  // namespace tenet
