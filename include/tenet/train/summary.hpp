#pragma once

#include <cstdio>
#include <string>
#include <tenet/graph/dot.hpp>
#include <tenet/train/policies.hpp>
#include <tenet/train/programs.hpp>

/// What a network is and what was planned for it, as text and as a picture.
namespace tenet {

namespace detail {

template <class Net>
std::string slot_name(int slot) {
  std::string name;
  Net net = numbered<Net>();
  for_each_slot(net, Text{}, [&](const Text& path, auto& member) {
    if (member.slot == slot) name = std::string(path.view());
  });
  return name;
}

inline std::string with_commas(long number) {
  std::string digits = std::to_string(number);
  for (long at = static_cast<long>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

inline std::string megabytes(long floats) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", static_cast<double>(floats) * 4e-6);
  return text;
}

/// Few bytes as they are, many as megabytes.
inline std::string bytes_text(double bytes) {
  if (bytes < 1e5) return with_commas(static_cast<long>(bytes + 0.5)) + " bytes";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", bytes * 1e-6);
  return text;
}

/// `text` padded to `width` columns; multiplication signs and the like count as one.
inline std::string padded(std::string text, std::size_t width) {
  std::size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  if (columns < width) text.append(width - columns, ' ');
  text += "  ";
  return text;
}

/// One row for each layer that the forward pass goes through.
template <class Net, class P>
std::string layer_table() {
  std::string table =
      padded("layer", 24) + padded("operations", 34) + padded("output", 22) + padded("parameters", 12) + "FLOPs\n";
  const auto& graph = P::graph;
  bool counted[P::slots.count + 1]{};
  for (int i = 0; i < graph.forward_count;) {
    if (!graph.nodes[i].is_computed()) {
      ++i;
      continue;
    }
    const int layer = graph.nodes[i].layer;
    std::string operations, last;
    long flops = 0, parameters = 0;
    const TensorInfo* type = nullptr;
    for (; i < graph.forward_count && graph.nodes[i].layer == layer; ++i) {
      const auto& node = graph.nodes[i];
      if (!node.is_computed()) {
        if (node.source != Source::parameter || counted[node.index]) continue;
        counted[node.index] = true;
        parameters += node.type->size();
        continue;
      }
      if (node.operation->kind != Kind::view && node.operation->name != last)
        operations += (operations.empty() ? "" : " ") + std::string(node.operation->name);
      last = node.operation->name;
      flops += node.operation->flops.per_sample + node.operation->flops.fixed;
      if (node.type->batched) type = node.type;
    }
    // A layer's parameters may stand before its first operation.
    for (int slot = 0; slot < P::slots.count; ++slot)
      if (!counted[slot] && P::slots.slots[slot].kind == SlotKind::parameter && layer >= 0 &&
          layer_path<Net>(slot).view() == layer_path<Net>(layer).view()) {
        counted[slot] = true;
        parameters += P::slots.slots[slot].type->size();
      }
    if (operations.size() > 34) operations = operations.substr(0, 31) + "…";
    table += padded(layer < 0 ? "" : std::string(layer_path<Net>(layer).view()), 24) + padded(operations, 34) +
             padded(type == nullptr ? "" : to_string(*type), 22) +
             padded(parameters > 0 ? with_commas(parameters) : "", 12) + with_commas(flops) + "\n";
  }
  return table;
}

/// Steps, memory and work of a program.
template <class P>
std::string plan_text(const char* name) {
  const auto& plan = P::plan;
  const double share = plan.unplanned_per_sample_floats > 0 ? static_cast<double>(plan.per_sample_floats) /
                                                                  static_cast<double>(plan.unplanned_per_sample_floats)
                                                            : 1.0;
  int operations = 0;  // views cost nothing
  for (const auto& node : P::graph.nodes) operations += node.is_computed() && node.operation->kind != Kind::view;
  int narrow = 0;
  for (int i = 0; i < P::graph.count; ++i) narrow += P::storage.is_narrow(i);
  std::string more;
  const auto add = [&](int count, const char* what) {
    if (count > 0) more.append(", ").append(std::to_string(count)).append(what);
  };
  add(narrow, " values as bfloat16");
  add(P::graph.count - P::traced_graph.count, " operations computed again");
  if (P::lowered.scratch > 0) more += ", " + megabytes(P::lowered.scratch) + " of scratch a thread";
  char text[512];
  std::snprintf(text, sizeof text,
                "%s: %d operations in %d steps, %d distinct fused loops; %s FLOPs a sample\n"
                "  memory: %s a sample (%.3f of one buffer a value), %s fixed, %d results in place%s\n",
                name, operations, P::lowered.used.steps, P::lowered.used.programs,
                with_commas(P::flops.per_sample).c_str(), megabytes(plan.per_sample_floats).c_str(), share,
                megabytes(plan.fixed_floats).c_str(), plan.reused_in_place, more.c_str());
  return text;
}

template <class Device>
std::string device_text(const typename Device::Kernels::Executor& executor, int replicas = 1) {
  std::string result = "device: ";
  if (replicas > 1) result = std::to_string(replicas) + " devices, each: ";
  result += Device::Kernels::name;
  if constexpr (requires { executor.description(); }) result += ", " + executor.description();
  if constexpr (requires { executor.size(); }) {
    char text[64];
    std::snprintf(text, sizeof text, ", %d threads, vectors of %d floats", executor.size(), vector_width);
    result += text;
  }
  result += "\n";
  return result;
}

/// The same of a device that is not used otherwise; one with a memory of its own is not looked for, as it may be that
/// of another machine.
template <class Device>
std::string started_device_text(int replicas) {
  if constexpr (HasOwnMemory<typename Device::Kernels::Executor>)
    return std::string("device: ") + Device::Kernels::name + "\n";
  else
    return device_text<Device>(*make_executor<Device>(), replicas);
}

/// A training's parameters, and what it keeps of their size.
template <class Training, class Optimizer, class Chosen>
std::string parameters_text() {
  constexpr bool gradients = Chosen::Update::keeps_gradients;
  const std::string kept =
      Chosen::has_states ? std::string(gradients ? "gradients and " : "") + Optimizer::name : "gradients";
  return "parameters: " + with_commas(Training::slots.parameter_count) + " (" +
         megabytes(Training::slots.parameter_floats) + ", with " + kept + " " +
         megabytes((1 + gradients + (Chosen::has_states ? Optimizer::state_count : 0)) *
                   Training::slots.parameter_floats) +
         (Chosen::has_states ? ""
                             : std::string("; ") + Optimizer::name + "'s state lies " +
                                   (Chosen::has_own_memory && Chosen::asks_servers ? "in the hosts' memory"
                                    : Chosen::has_ranks                            ? "with the ranks"
                                                                                   : "with the devices") +
                                   ", in parts") +
         ")\n";
}

/// How a training step's batch is cut; nothing where it is not.
template <class Shards>
std::string shards_text() {
  if constexpr (Shards::in_all > 0)
    return "batch: in " + std::to_string(Shards::in_all) + " shards, for any number of workers\n";
  else if constexpr (Shards::of_worker > 1)
    return "batch: in " + std::to_string(Shards::of_worker) + " micro-batches, one after the other\n";
  else
    return "";
}

/// How a program's steps lie on several devices; nothing on one. Times are the cost model's, see
/// graph/device_schedule.hpp.
template <class P>
std::string schedule_text() {
  if constexpr (P::order.devices == 1) {
    return "";
  } else {
    const auto& order = P::order;
    long flops = 0;
    for (const long each : order.flops) flops += each;
    std::string result = "steps on " + std::to_string(order.devices) + " devices, with";
    char text[96];
    for (int d = 0; d < order.devices; ++d) {
      std::snprintf(text, sizeof text, "%s %.0f %%",
                    d == 0                   ? ""
                    : d + 1 == order.devices ? " and"
                                             : ",",
                    100.0 * static_cast<double>(order.flops[d]) / static_cast<double>(flops > 0 ? flops : 1));
      result += text;
    }
    const auto sum = static_cast<double>(order.sum > 0 ? order.sum : 1);
    std::snprintf(text, sizeof text,
                  " of the FLOPs: %.2f of the time of one device expected, the longest chain takes %.2f\n",
                  static_cast<double>(order.end) / sum, static_cast<double>(order.longest) / sum);
    return result + text;
  }
}

/// What a worker moves of the numbers in such parts; where the number of workers is not known, 0, as a formula.
inline std::string moved_text(const Moving& moving, int workers, const long* floats, int parts) {
  double moved = 0;
  for (int i = 0; i < parts; ++i)
    moved += workers > 0 ? moving.moved(workers, floats[i]) : static_cast<double>(floats[i]);
  std::string result = moving.verb;
  result += moving.at_most ? " at most " : " ";
  if (workers == 0 && *moving.share != 0) result.append(moving.share).append(" · ");
  return result + bytes_text(4 * moved);
}

/// What each of some workers, a step.
inline std::string traffic_text(const Traffic& traffic, int workers, const long* floats, int parts) {
  if (!traffic.is_known) return "; what is sent is not known";
  if (!traffic.moves() || workers == 1) return "; nothing is sent";
  std::string result = "; each of ";
  result.append(workers > 0 ? std::to_string(workers) + " devices " : std::string("n ranks "));
  if (traffic.inside) result.append("of a machine ");
  if (traffic.gradients != nullptr)
    result.append(moved_text(*traffic.gradients, workers, floats, parts)).append(" of gradients");
  if (traffic.parameters != nullptr)
    result
        .append(traffic.inside                 ? " a step, each of the n ranks of all machines "
                : traffic.gradients != nullptr ? " and "
                                               : "")
        .append(moved_text(*traffic.parameters, workers, floats, parts))
        .append(" of parameters");
  if (traffic.steps == 1) return result + " a step";
  const std::string steps = std::to_string(traffic.steps);
  return result + " every " + steps + " steps, 1/" + steps + " of it a step";
}

/// How far workers may be apart.
inline std::string staleness_text(long most_ahead) {
  if (most_ahead == 0) return " (synchronous)";
  if (most_ahead >= Traffic::unbounded) return " (any number of steps ahead)";
  return " (at most " + std::to_string(most_ahead) + (most_ahead == 1 ? " step ahead)" : " steps ahead)");
}

/// How a training step's workers come to the same parameters, and what they send for it; nothing on one device.
template <class Chosen, class Training>
std::string synchronisation_text() {
  if constexpr (std::is_void_v<typename Chosen::Synchronisation>) {
    return "";
  } else {
    constexpr Traffic traffic = Chosen::traffic();
    constexpr int workers = Chosen::has_ranks ? 0 : Chosen::Strategy::replicas;
    std::string result = shards_text<typename Chosen::Shards>() + "synchronisation: ";
    result.append(Chosen::Synchronisation::name);
    if constexpr (requires { Chosen::Synchronisation::Place::name; })
      result.append(" ").append(Chosen::Synchronisation::Place::name);
    // Replicas of Hogwild meet behind each step, but nobody waits for another one's updates within it.
    if constexpr (traffic.is_known &&
                  !(SharesWithoutLocks<typename Chosen::Synchronisation> && traffic.most_ahead == 0))
      result.append(staleness_text(traffic.most_ahead));
    if constexpr (SharesWithoutLocks<typename Chosen::Synchronisation>) {
      result.append(" with updates by ")
          .append(std::to_string(Chosen::Synchronisation::samples_of_update))
          .append(" samples");
      if constexpr (Training::slots.table_count > 0) result.append(", of the rows that these choose");
    }
    if constexpr (Chosen::sends_buckets()) {
      constexpr auto plan = plan_buckets(Training::lowered, Training::slots, Chosen::Buckets::bucket_bytes / 4);
      long floats[static_cast<std::size_t>(plan.count) + 1]{};
      for (std::size_t b = 0; b < static_cast<std::size_t>(plan.count); ++b) floats[b] = plan.buckets[b].floats;
      const int before = Training::lowered.first_update;
      result.append(traffic_text(traffic, workers, floats, plan.count));
      result.append(", in ").append(std::to_string(plan.count)).append(plan.count == 1 ? " bucket" : " buckets");
      result.append(", the first after ").append(std::to_string(plan.buckets[0].ready)).append(" of ");
      result.append(std::to_string(before)).append(" steps");
    } else {
      result.append(traffic_text(traffic, workers, &Training::slots.parameter_floats, 1));
    }
    if constexpr (Training::is_on_part) {
      int sums = 0;
      long floats[static_cast<std::size_t>(Training::lowered.first_update)]{}, all = 0;
      for (int s = 0; s < Training::lowered.first_update; ++s)
        if (is_sum_over_workers(Training::lowered.steps[s])) {
          floats[sums] = Training::lowered.steps[s].attribute;
          all += floats[sums++];
        }
      result.append("; in its passes ").append(std::to_string(sums)).append(" sums over all workers, of ");
      result.append(bytes_text(4.0 * static_cast<double>(all))).append(" together");
      if constexpr (workers != 1)
        result.append(", for which each ").append(moved_text(all_reduce_moves, workers, floats, sums));
    }
    return result.append("\n");
  }
}

}  // namespace detail

/// Layers, shapes, parameters, FLOPs and planned memory of a network for inference, and the device as it is:
/// summary<LeNet, Image<1, 28, 28>>(). A `Trainer` has one of its training step besides.
template <class Net, class... Tags>
std::string summary() {
  if constexpr (std::is_void_v<detail::BrokenBy<Net, Tags...>>) {
    using Chosen = Policies<Tags...>;
    using Device = typename Chosen::Device;
    using P =
        typename Chosen::template ProgramOf<InferenceProgram<Net, typename Chosen::Input, typename Chosen::Kernels>>;
    return detail::layer_table<Net, P>() + "parameters: " + detail::with_commas(P::slots.parameter_count) + " (" +
           detail::megabytes(P::slots.parameter_floats) + ")\n" + detail::plan_text<P>("inference") +
           detail::schedule_text<P>() + detail::started_device_text<Device>(P::order.devices);
  } else {
    return std::string(sizeof(detail::BrokenBy<Net, Tags...>), ' ');  // stops the compilation
  }
}

/// A program as a picture in Graphviz' language: fused steps as boxes, buffers by arena and offset.
template <class Net, class P>
std::string dot_of() {
  return to_dot(P::graph, P::fusion, P::order, P::plan, [](int slot) { return detail::slot_name<Net>(slot); });
}

/// The inference graph of a network: graph<LeNet, Image<1, 28, 28>>(). A `Trainer` has one of its training step.
template <class Net, class... Tags>
std::string graph() {
  if constexpr (std::is_void_v<detail::BrokenBy<Net, Tags...>>) {
    using Chosen = Policies<Tags...>;
    return dot_of<Net, typename Chosen::template ProgramOf<
                           InferenceProgram<Net, typename Chosen::Input, typename Chosen::Kernels>>>();
  } else {
    return std::string(sizeof(detail::BrokenBy<Net, Tags...>), ' ');  // stops the compilation
  }
}

}  // namespace tenet
