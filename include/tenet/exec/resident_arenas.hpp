#pragma once

#include <array>
#include <cstdint>
#include <tenet/device/own_memory.hpp>
#include <tenet/exec/execution.hpp>
#include <utility>

/// What a trainer's programs share in the memory of a device.
namespace tenet {

/// Parameters, buffers, gradients and optimizer states in a device's memory, shared by all programs of a trainer, and
/// where the host's copies lie. Parameters and buffers are copied in when the host has changed its own, and out when
/// the host asks for what a step here has changed.
template <class Executor>
class ResidentArenas {
 public:
  explicit ResidentArenas(Executor& executor) : executor_(&executor) {}

  /// Room for an arena of so many floats; `host`: the host's copy, null if there is none.
  float* place(Arena arena, float* host, long floats) {
    Part& part = parts_[index(arena)];
    part.host = host;
    part.memory.grow(*executor_, floats, name(arena));
    return part.memory.data();
  }

  /// The host's parameters and buffers have this version: they are brought here if what is here has another.
  void bring_in(std::uint64_t version) {
    if (version == version_) return;
    version_ = version;
    for (const Arena arena : {Arena::parameters, Arena::buffers}) {
      Part& part = parts_[index(arena)];
      if (part.memory.size() > 0) executor_->copy_in(part.memory.data(), part.host, bytes(part));
    }
  }
  /// Where an arena is here.
  float* memory(Arena arena) { return parts_[index(arena)].memory.data(); }
  /// A program has changed them here: they have this version now, which the host has not.
  void has_changed(std::uint64_t version) {
    version_ = version;
    host_is_old_ = true;
  }
  /// The host wants to read its copies, or to change them.
  void bring_back() {
    if (!std::exchange(host_is_old_, false)) return;
    copy_out(Arena::parameters);
    copy_out(Arena::buffers);
    executor_->synchronize();
  }
  void bring_back_gradients() {
    copy_out(Arena::gradients);
    executor_->synchronize();
  }

 private:
  struct Part {
    float* host = nullptr;
    DeviceBuffer<Executor> memory;
  };
  static std::size_t index(Arena arena) { return static_cast<std::size_t>(arena); }
  static long bytes(const Part& part) { return part.memory.size() * 4; }
  static const char* name(Arena arena) {
    return arena == Arena::parameters  ? "the parameters"
           : arena == Arena::gradients ? "the gradients"
           : arena == Arena::buffers   ? "the network's buffers"
                                       : "the optimizer's states";
  }
  void copy_out(Arena arena) {
    const Part& part = parts_[index(arena)];
    if (part.memory.size() > 0 && part.host != nullptr) executor_->copy_out(part.host, part.memory.data(), bytes(part));
  }

  Executor* executor_;
  std::array<Part, 8> parts_;
  std::uint64_t version_ = ~std::uint64_t{0};
  bool host_is_old_ = false;
};

/// One device with a memory of its own, and what a trainer's programs share there.
template <class Device, class Kernels>
class ResidentDevice : public OneDevice<Device, Kernels> {
 public:
  using Executor = typename Kernels::Executor;
  ResidentArenas<Executor>& arenas() { return arenas_; }
  void has_changed(std::uint64_t version) { arenas_.has_changed(version); }
  void bring_back() { arenas_.bring_back(); }

 private:
  ResidentArenas<Executor> arenas_{this->executor()};
};

}  // namespace tenet
