#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tenet/core/buffer.hpp>
#include <tenet/core/error.hpp>
#include <tenet/core/random.hpp>
#include <tenet/io/safetensors.hpp>
#include <tenet/nn/module.hpp>
#include <vector>

namespace tenet {

/// A network's numbers: parameters in one array, buffers in another, and the count of training steps.
///
/// Programs for inference keep what they derive from the weights (scales of a batch norm, weights in a kernel's own
/// order) until `version()` says that these have changed: it counts steps, loads, and each time that one of the
/// functions here gives access for writing. Whoever writes through a pointer or span from an earlier call says so by
/// `changed()`.
template <class Net>
class Weights {
 public:
  static constexpr const auto& table = slot_table<Net>;

  /// Parameters start as their layers say, the same for the same seed.
  explicit Weights(std::uint64_t seed = 0) : parameters_(table.parameter_floats), buffers_(table.buffer_floats) {
    initialize(seed);
  }

  void initialize(std::uint64_t seed) {
    fetch();  // what is not newer is not brought again
    changed();
    steps_ = 0;
    for (int i = 0; i < table.count; ++i) {
      const SlotInfo& slot = table.slots[i];
      Random random(seed, static_cast<std::uint64_t>(i));  // a stream of its own for every slot
      if (slot.initialize != nullptr) slot.initialize(data(slot), slot.type->size(), &random);
    }
  }

  float* parameters() {
    fetch();
    changed();
    return parameters_.data();
  }
  float* buffers() {
    fetch();
    changed();
    return buffers_.data();
  }
  std::int64_t steps() const { return steps_; }
  void count_step() {
    changed();
    ++steps_;
  }

  std::uint64_t version() const { return version_; }
  void changed() { ++version_; }

  /// Newer values may lie elsewhere, as in a device's memory: bring(keeper) brings them before anybody reads or writes
  /// these.
  void kept_by(void* keeper, void (*bring)(void* keeper)) {
    keeper_ = keeper;
    bring_ = bring;
  }

  /// The numbers of one parameter or buffer, by its name in `state_dict`; throws `Error` if there is none.
  std::span<float> operator[](const std::string& name) {
    fetch();
    changed();
    const SlotInfo& slot = slot_of(name);
    return {data(slot), static_cast<std::size_t>(slot.type->size())};
  }

  /// Type and place of one parameter or buffer, by its name; throws `Error` if there is none.
  static const SlotInfo& slot_of(const std::string& name) {
    for (const Entry& entry : entries())
      if (entry.name == name && entry.slot->type != nullptr) return *entry.slot;
    fail("network", "no such parameter or buffer", "one of those that names() lists", "'" + name + "'");
  }

  /// The part of an array over all parameters (gradients, say) that belongs to the parameter of that name.
  static std::span<const float> part_of(const float* all, const std::string& name) {
    const SlotInfo& slot = slot_of(name);
    if (slot.kind != SlotKind::parameter) fail("network", "'" + name + "' has no gradient", "a parameter", "a buffer");
    return {all + slot.offset, static_cast<std::size_t>(slot.type->size())};
  }

  /// Names of all parameters and buffers, in the order of `state_dict`.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Entry& entry : entries()) result.push_back(entry.name);
    return result;
  }

  /// Writes all of them to a safetensors file, under the names that PyTorch would give them.
  void save(const std::string& path) {
    fetch();
    std::vector<NamedTensor> tensors;
    for (const Entry& entry : entries()) {
      if (entry.slot->kind == SlotKind::counter)
        tensors.push_back({entry.name, "I64", {}, &steps_});
      else
        tensors.push_back({entry.name, "F32", shape(entry), data(*entry.slot)});
    }
    write_safetensors(path, tensors, {{"format", "pt"}});
  }

  /// Reads all of them from a safetensors file. Throws `Error` and changes nothing if one is missing, has another shape
  /// or type, or if the file holds one that the network has not.
  void load(const std::string& path) {
    const SafetensorsFile file(path);
    const std::string where = "load '" + path + "'";
    const std::vector<Entry> all = entries();
    std::vector<const NamedTensor*> found;
    for (const Entry& entry : all) {
      const bool counter = entry.slot->kind == SlotKind::counter;
      const NamedTensor* const tensor = file.find(entry.name);
      found.push_back(tensor);
      if (tensor == nullptr) {
        if (counter) continue;  // old files do without
        fail(where, "a tensor is missing", "'" + entry.name + "' " + text(shape(entry)),
             std::to_string(file.tensors().size()) + " tensors without it");
      }
      if (tensor->dtype != (counter ? "I64" : "F32"))
        fail(where, "'" + entry.name + "' has another type", counter ? "I64" : "F32", tensor->dtype);
      if (tensor->shape != shape(entry))
        fail(where, "'" + entry.name + "' has another shape", text(shape(entry)), text(tensor->shape));
    }
    for (const NamedTensor& tensor : file.tensors()) {
      bool known = false;
      for (const Entry& entry : all) known = known || entry.name == tensor.name;
      if (!known)
        fail(where, "a tensor that the network has not", "the network's parameters only", "'" + tensor.name + "'");
    }
    fetch();
    changed();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (found[i] == nullptr) continue;
      if (all[i].slot->kind == SlotKind::counter)
        std::memcpy(&steps_, found[i]->data, sizeof steps_);
      else
        std::memcpy(data(*all[i].slot), found[i]->data,
                    static_cast<std::size_t>(all[i].slot->type->size()) * sizeof(float));
    }
  }

 private:
  struct Entry {
    std::string name;
    const SlotInfo* slot;
  };

  static std::vector<Entry> entries() {
    std::vector<Entry> result;
    Net net = numbered<Net>();
    for_each_slot(net, Text{}, [&](const Text& path, auto& member) {
      const SlotInfo& slot = table.slots[member.slot];
      if (slot.kind != SlotKind::marker) result.push_back({std::string(path.view()), &slot});
    });
    return result;
  }

  static std::vector<long> shape(const Entry& entry) {
    if (entry.slot->type == nullptr) return {};
    return {entry.slot->type->extents, entry.slot->type->extents + entry.slot->type->rank};
  }

  static std::string text(const std::vector<long>& shape) {
    std::string result = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) result += (i ? ", " : "") + std::to_string(shape[i]);
    return result + ")";
  }

  void fetch() {
    if (bring_ != nullptr) bring_(keeper_);
  }

  float* data(const SlotInfo& slot) {
    return (slot.kind == SlotKind::parameter ? parameters_ : buffers_).data() + slot.offset;
  }

  Buffer parameters_, buffers_;
  std::int64_t steps_ = 0;
  std::uint64_t version_ = 0;
  void* keeper_ = nullptr;
  void (*bring_)(void*) = nullptr;
};

}  // namespace tenet
