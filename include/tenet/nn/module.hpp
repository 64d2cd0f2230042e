#pragma once

#include <tenet/core/fixed_string.hpp>
#include <tenet/core/reflect.hpp>
#include <tenet/graph/slots.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/ops/symbol.hpp>

/// Modules: any struct with a `forward(x)`, whose members are modules, parameters and buffers. This header walks them.
namespace tenet {

namespace detail {

template <class T>
concept SlotMember = requires(T member) {
  T::slot_kind;
  member.slot;
};

struct Ignore {  // a lambda in a concept is too much for nvcc
  constexpr void operator()(auto, auto&) const {}
};
template <class T>
concept HasChildren = requires(T& object) { object.visit_children(Ignore{}); };

template <class T>
concept ModuleArray = requires(T& object) {
  object.begin();
  object.end();
};

/// "layer1" + "0" -> "layer1.0"
constexpr Text joined(const Text& path, std::string_view name) {
  Text result = path;
  if (result.size > 0) result.put(".");
  return result.put(name);
}
constexpr Text joined(const Text& path, long number) {
  Text result = path;
  if (result.size > 0) result.put(".");
  return result.put(number);
}

}  // namespace detail

/// Calls function(path, slot member) for every parameter, buffer and marker of a module, in the order of members, which
/// is PyTorch's order of `state_dict`; paths are named as PyTorch names them: "layer1.0.conv1.weight".
template <class Module, class Function>
constexpr void for_each_slot(Module& object, const Text& path, Function&& function) {
  if constexpr (detail::SlotMember<Module>) {
    function(path, object);
  } else if constexpr (detail::HasChildren<Module>) {
    object.visit_children([&](auto name, auto& child) { for_each_slot(child, detail::joined(path, name), function); });
  } else if constexpr (detail::ModuleArray<Module>) {
    long i = 0;
    for (auto& child : object) for_each_slot(child, detail::joined(path, i++), function);
  } else if constexpr (std::is_aggregate_v<Module>) {
    reflect::for_each_member(object, [&](std::string_view name, auto& member) {
      for_each_slot(member, detail::joined(path, name), function);
    });
  }
}

/// The same without paths, which costs the compiler less.
template <class Module, class Function>
constexpr void for_each_slot(Module& object, Function&& function) {
  if constexpr (detail::SlotMember<Module>)
    function(object);
  else if constexpr (detail::HasChildren<Module>)
    object.visit_children([&](auto, auto& child) { for_each_slot(child, function); });
  else if constexpr (detail::ModuleArray<Module>)
    for (auto& child : object) for_each_slot(child, function);
  else if constexpr (std::is_aggregate_v<Module>)
    reflect::visit_members(object, [&](auto&... members) { (for_each_slot(members, function), ...); });
}

/// The network with its slots numbered.
template <class Net>
constexpr Net numbered() {
  Net net{};
  int next = 0;
  for_each_slot(net, [&](auto& member) { member.slot = next++; });
  return net;
}

namespace detail {
// Functions, not lambdas in the initializers below: nvcc cannot compile a generic lambda inside those.
template <class Net>
constexpr int count_slots() {
  Net net{};
  int count = 0;
  for_each_slot(net, [&](auto&) { ++count; });
  return count;
}
template <class Net, int Count>
constexpr auto make_slot_table() {
  SlotTable<Count> table;
  Net net{};
  int next = 0;
  for_each_slot(net, [&](auto& member) { table.slots[next++] = member.info(); });
  table.lay_out();
  return table;
}
}  // namespace detail

template <class Net>
inline constexpr int slot_count = detail::count_slots<Net>();

/// The network's slots with their places in the arenas.
template <class Net>
inline constexpr auto slot_table = detail::make_slot_table<Net, slot_count<Net>>();

/// "layer1.0.conv1" for the slot of layer1.0.conv1.weight.
template <class Net>
constexpr Text layer_path(int slot) {
  Text result;
  Net net = numbered<Net>();
  for_each_slot(net, Text{}, [&](const Text& path, auto& member) {
    if (member.slot == slot) result = path;
  });
  while (result.size > 0 && result.text[result.size - 1] != '.') result.text[--result.size] = 0;
  if (result.size > 0) result.text[--result.size] = 0;
  if (result.size == 0) result.put("forward");
  return result;
}

namespace detail {
// A name is ambiguous in a class that inherits it twice: so it can be asked whether a class has it, templates included.
struct NamesForward {
  int forward;
};
struct NamesCall {
  void operator()();
};
template <class Module>
struct WithForward : Module, NamesForward {};
template <class Module>
struct WithCall : Module, NamesCall {};
template <class T>
concept Complete = requires { sizeof(T); };
template <class Module>
concept HasForward = !requires { &WithForward<Module>::forward; };
template <class Module>
concept HasCall = !requires { &WithCall<Module>::operator(); };
}  // namespace detail

/// Whether T can be called as a layer: a class with a `forward` or an `operator()`.
template <class T>
concept IsModule =
    std::is_class_v<T> && detail::Complete<T> && (std::is_final_v<T> || detail::HasForward<T> || detail::HasCall<T>);

namespace detail {
// Variables, for compilers print less about those than about concepts.
template <class T>
inline constexpr bool is_module = IsModule<T>;

/// Whether a container has said already that one of its arguments is no module.
template <class Net>
concept SaidUnsound = !Net::sound;
template <class Net>
concept MadeAtCompileTime = requires { typename std::bool_constant<(static_cast<void>(Net{}), true)>; };
}  // namespace detail

/// x passed through a module or a layer.
template <class Module, class X>
constexpr auto call(const Module& module, X x) {
  if constexpr (requires { module.forward(x); }) {
    return module.forward(x);
  } else if constexpr (requires { module(x, SourceLine{}); }) {
    return module(x, SourceLine{});  // a line of this header would tell the user nothing
  } else if constexpr (requires { module(x); }) {
    return module(x);
  } else {
    constexpr Mistake kind = IsModule<Module> ? Mistake::forward : Mistake::explained;
    mistake::report<kind, TensorInfo{}, X::Type::info>(x.context);
    return x;
  }
}

}  // namespace tenet
