#pragma once

#include <bit>
#include <cstdint>
#include <tenet/comm/transport.hpp>

namespace tenet {

/// What a message is about as one number, which libraries carry beside a message: from 0 to `most`, of which MPI
/// promises 32767 and Open MPI has 2^31 - 1. A third of its bits each are of the label's number, of the step and of the
/// message's length, so that two messages that differ have different tags unless what differs is a multiple of 1024 (32
/// where there are 15 bits), or, of lengths, one of 2048 (32) falls on the same number.
class MessageTags {
 public:
  explicit MessageTags(long most = 32767)
      : bits_(std::bit_width(static_cast<unsigned long>(most) + 1) - 1), field_(bits_ / 3) {}

  int tag(const MessageLabel& label, long floats) const {
    const std::uint64_t length = (static_cast<std::uint64_t>(floats) * 0x9e3779b97f4a7c15u) >> (64 - length_bits());
    return static_cast<int>((length << 2 * field_) | (low(label.step) << field_) | low(label.number));
  }

  /// What a tag is about, if number and step are less than half a field from those of `near`.
  MessageLabel label(int tag, const MessageLabel& near) const {
    return {near.what, nearest(tag, near.number), nearest(tag >> field_, near.step)};
  }

 private:
  int length_bits() const { return bits_ - 2 * field_; }
  std::uint64_t low(long value) const { return static_cast<std::uint64_t>(value) & ((1u << field_) - 1); }
  long nearest(int field, long near) const {
    const long size = 1L << field_, behind = static_cast<long>(low(field - near));
    return near + (behind < size / 2 ? behind : behind - size);
  }

  int bits_, field_;
};

}  // namespace tenet
