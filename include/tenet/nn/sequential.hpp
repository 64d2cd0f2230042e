#pragma once

#include <tenet/nn/module.hpp>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/shape.hpp>
#include <utility>

namespace tenet {

namespace detail {

// A module at place I. Inheriting from several of these is a tuple whose element access costs the compiler nothing.
template <int I, class Module>
struct Child {
  Module module;
};

template <class Indices, class... Modules>
struct Children;
template <int... I, class... Modules>
struct Children<std::integer_sequence<int, I...>, Modules...> : Child<I, Modules>... {};

template <int I, class Module>
constexpr const Module& child(const Child<I, Module>& holder) {
  return holder.module;
}
template <int I, class Module>
constexpr Module& child(Child<I, Module>& holder) {
  return holder.module;
}

}  // namespace detail

namespace detail {
// By its members, not by a specialization: nvcc matches none for a class-type template argument.
template <class Module>
concept IsNamed = requires(Module& object) {
  Module::name.view();
  object.module;
};
}  // namespace detail

/// Modules one after the other: x -> last(…first(x)). Children are named "0", "1", … or as `Named` says.
template <class... Modules>
struct Sequential {
  static constexpr bool sound = (IsModule<Modules> && ...);
  static_assert((detail::is_module<Modules> && ...),
                "Sequential<...>: every template argument has to be a layer or a module, a class with a forward");
  detail::Children<std::make_integer_sequence<int, static_cast<int>(sizeof...(Modules))>, Modules...> children;

  constexpr auto forward(AnySymbol auto x) const { return from<0>(x); }
  constexpr auto operator()(AnySymbol auto x) const { return from<0>(x); }

  /// Calls function(name or number, child) for every child.
  template <class Function>
  constexpr void visit_children(Function&& function) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (visit<I, Modules>(function), ...);
    }(std::make_integer_sequence<int, static_cast<int>(sizeof...(Modules))>{});
  }

 private:
  template <int I, class Module, class Function>
  constexpr void visit(Function&& function) {
    auto& module = detail::child<I>(children);
    if constexpr (detail::IsNamed<Module>)
      function(Module::name.view(), module.module);
    else
      function(static_cast<long>(I), module);
  }

  template <int I>
  constexpr auto from(AnySymbol auto x) const {
    if constexpr (I == sizeof...(Modules))
      return x;
    else
      return from<I + 1>(call(detail::child<I>(children), x));
  }
};

/// A child of a container with a name of its own: Sequential<Named<"stem", Conv2d<1, 64, 3>>, …>.
template <FixedString name_, class Module>
struct Named {
  static_assert(detail::is_module<Module>,
                "Named<name, Module>: the second argument has to be a layer or a module, a class with a forward");
  static constexpr auto name = name_;
  Module module;

  constexpr auto forward(AnySymbol auto x) const { return call(module, x); }

  template <class Function>
  constexpr void visit_children(Function&& function) {
    function(name.view(), module);
  }
};

/// The module Count times, with parameters of its own each time: children "0" … .
template <int Count, class Module>
struct Repeat {
  static_assert(Count > 0, "Repeat<Count, Module>: Count is positive");
  static_assert(detail::is_module<Module>,
                "Repeat<Count, Module>: the second argument has to be a layer or a module, a class with a forward");
  Module modules[static_cast<std::size_t>(Count)];

  constexpr auto forward(AnySymbol auto x) const {
    auto y = call(modules[0], x);
    if constexpr (std::is_same_v<decltype(y), decltype(x)>) {
      for (int i = 1; i < Count; ++i) y = call(modules[i], y);
      return y;
    } else if constexpr (Count > 1) {
      mistake::report<Mistake::repeat, decltype(x)::Type::info, decltype(y)::Type::info>(x.context);
      return x;
    } else {
      return y;
    }
  }
  constexpr auto operator()(AnySymbol auto x) const { return forward(x); }

  template <class Function>
  constexpr void visit_children(Function&& function) {
    for (long i = 0; i < Count; ++i) function(i, modules[i]);
  }
};

/// body(x) + shortcut(x); the shortcut is the input itself if it is not given. Children "body" and "shortcut".
template <class Body, class Shortcut = void>
struct Residual {
  static_assert(detail::is_module<Body> && detail::is_module<Shortcut>,
                "Residual<Body, Shortcut>: both have to be layers or modules, classes with a forward");
  Body body;
  Shortcut shortcut;
  constexpr auto forward(AnySymbol auto x) const { return call(body, x) + call(shortcut, x); }
  constexpr auto operator()(AnySymbol auto x) const { return forward(x); }
};
template <class Body>
struct Residual<Body, void> {
  static_assert(detail::is_module<Body>,
                "Residual<Body>: the argument has to be a layer or a module, a class with a forward");
  Body body;
  constexpr auto forward(AnySymbol auto x) const { return call(body, x) + x; }
  constexpr auto operator()(AnySymbol auto x) const { return forward(x); }
};

/// The branches' results side by side along dimension Dim: Concat<1, …> joins channels of images.
template <int Dim, class First, class... Rest>
struct Concat {
  Sequential<First, Rest...> branches;

  constexpr auto forward(AnySymbol auto x) const {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return concatenate<Dim>(call(detail::child<I>(branches.children), x)...);
    }(std::make_integer_sequence<int, 1 + static_cast<int>(sizeof...(Rest))>{});
  }
  constexpr auto operator()(AnySymbol auto x) const { return forward(x); }

  template <class Function>
  constexpr void visit_children(Function&& function) {
    branches.visit_children(function);
  }
};

}  // namespace tenet
