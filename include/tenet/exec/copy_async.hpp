#pragma once

#include <tenet/exec/device_array.hpp>

/// Copies between the host and logical devices, and between these, that nobody waits for.
namespace tenet {

namespace detail {

[[gnu::cold]] inline std::string name_of_copy(long numbers, const std::string& from, const std::string& to) {
  return "copy of " + std::to_string(numbers) + " numbers from " + from + " to " + to;
}
inline void check_copy(long from, long to, const std::string& name) {
  if (from != to) fail("copy_async", "numbers of the target, for the " + name, from, to);
}

}  // namespace detail

/// Copies numbers of the host to an array of the same size, in the queue of its device. The host's stay where they are,
/// and as they are, until the event. Throws `Error` if the sizes differ.
template <class T, class Device>
Event copy_async(std::type_identity_t<std::span<const T>> from, DeviceArray<T, Device>& to) {
  using Tasks = detail::DeviceTasks<Device>;
  const long numbers = static_cast<long>(from.size());
  const std::string name = detail::name_of_copy(numbers, "the host", Tasks::name());
  detail::check_copy(numbers, to.size(), name);
  return Tasks::of_process().submit(name, to.bytes(), [from, memory = to.memory(), bytes = to.bytes()] {
    if (bytes == 0) return;
    if constexpr (Tasks::has_own_memory) {
      Tasks::of_process().executor().copy_in(memory->data(), from.data(), bytes);
      Tasks::of_process().executor().synchronize();
    } else {
      std::memcpy(memory->data(), from.data(), static_cast<std::size_t>(bytes));
    }
  });
}

/// The other way. The host's memory is the copy's until the event.
template <class T, class Device>
Event copy_async(const DeviceArray<T, Device>& from, std::type_identity_t<std::span<T>> to) {
  using Tasks = detail::DeviceTasks<Device>;
  const std::string name = detail::name_of_copy(from.size(), Tasks::name(), "the host");
  detail::check_copy(from.size(), static_cast<long>(to.size()), name);
  return Tasks::of_process().submit(name, from.bytes(), [to, memory = from.memory(), bytes = from.bytes()] {
    if (bytes == 0) return;
    if constexpr (Tasks::has_own_memory) {
      Tasks::of_process().executor().copy_out(to.data(), memory->data(), bytes);
      Tasks::of_process().executor().synchronize();
    } else {
      std::memcpy(to.data(), memory->data(), static_cast<std::size_t>(bytes));
    }
  });
}

/// From one device's memory to another one's, behind what both have in their queues; what is queued on either behind it
/// waits for it. It is done by the thread of the device that has a memory of its own; of two such, by that which gets
/// the numbers: from GPU to GPU, without the host where they are peers.
template <class T, class From, class To>
Event copy_async(const DeviceArray<T, From>& from, DeviceArray<T, To>& to) {
  using Giver = detail::DeviceTasks<From>;
  using Taker = detail::DeviceTasks<To>;
  using Runs = std::conditional_t<Taker::has_own_memory || !Giver::has_own_memory, Taker, Giver>;
  const std::string name = detail::name_of_copy(from.size(), Giver::name(), Taker::name());
  detail::check_copy(from.size(), to.size(), name);
  const auto &source = Giver::of_process().queue(), &target = Taker::of_process().queue();
  Runs& runs = Runs::of_process();
  const auto& other = runs.queue() == target ? source : target;
  return runs.submit(
      name, from.bytes(),
      [memory = to.memory(), of = from.memory(), bytes = from.bytes()] {
        if (bytes == 0) return;
        if constexpr (HasOwnMemory<typename Runs::Executor>) {
          auto& executor = Runs::of_process().executor();
          if constexpr (!Taker::has_own_memory)
            executor.copy_out(memory->data(), of->data(), bytes);
          else if constexpr (!Giver::has_own_memory)
            executor.copy_in(memory->data(), of->data(), bytes);
          else
            executor.copy_there(memory->data(), of->data(), bytes);
          executor.synchronize();
        } else {
          std::memmove(memory->data(), of->data(), static_cast<std::size_t>(bytes));
        }
      },
      source == target ? nullptr : other);
}

/// Has a device's queue wait for an event, which may be another device's: wait(Cpu<0>{}, copied). The host goes on.
/// What is queued on the device behind it runs behind the event. Where that has failed, or does not come in time, the
/// next `synchronize(Device{})` says so.
template <class Device>
void wait(Device, const Event& event) {
  using Tasks = detail::DeviceTasks<Device>;
  Tasks::of_process().submit("wait of " + Tasks::name(), 0, [event] { event.wait(); });
}

}  // namespace tenet
