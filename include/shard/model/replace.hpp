// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_REPLACE_HPP
#define SHARD_MODEL_REPLACE_HPP

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "shard/model/sequential.hpp"

namespace shard {

namespace impl {

/// The layers of modules, with another one at the end of the path.
template <FixedString Path, class Layer>
struct Replacement {
  const Layer& layer;

  /// Outside the path.
  template <class T, class Memory, class Other>
  static Other same(const Module<T, Memory, Other>& m) {
    return m.layer();
  }
  template <class... Children>
  static auto same(const ModuleList<Children...>& list) {
    return std::apply([](const auto&... c) { return block(keep_name(c, same(c.module))...); },
                      list.children);
  }
  template <class List>
  static auto same(const ResidualModule<List>& m) {
    return as_residual(same(m.inner));
  }
  template <class List>
  static auto same(const ConcatModule<List>& m) {
    return as_concat(same(m.inner));
  }

  /// On the path, whose rest begins at `Begin`.
  template <std::size_t Begin, class... Children>
  auto on_path(const ModuleList<Children...>& list) const {
    constexpr int index = child_index<Path, Begin, Children...>();
    static_assert(index >= 0, "the model has no layer of this name");
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return block(child<Begin, static_cast<int>(I) == index>(std::get<I>(list.children))...);
    }
    (std::index_sequence_for<Children...>{});
  }
  template <std::size_t Begin, class List>
  auto on_path(const ResidualModule<List>& m) const {
    return as_residual(on_path<Begin>(m.inner));
  }
  template <std::size_t Begin, class List>
  auto on_path(const ConcatModule<List>& m) const {
    return as_concat(on_path<Begin>(m.inner));
  }

 private:
  template <std::size_t Begin, bool Here, class C>
  auto child(const C& c) const {
    constexpr std::size_t end = PathPart<Path>::end(Begin);
    if constexpr (!Here)
      return keep_name(c, same(c.module));
    else if constexpr (end < Path.size())
      return keep_name(c, on_path<end + 1>(c.module));
    else
      return keep_name(c, layer);
  }
  template <class C, class L>
  static auto keep_name(const C&, const L& l) {
    if constexpr (C::name.size() > 0)
      return Named<C::name, L>{l};
    else
      return l;
  }
  template <class... Layers>
  static Residual<Layers...> as_residual(const Sequence<Layers...>& b) {
    return {b.layers};
  }
  template <class... Layers>
  static Concat<Layers...> as_concat(const Sequence<Layers...>& b) {
    return {b.layers};
  }
};

}  // namespace impl

/// A model with another layer (or block) in place of the one at a path of names and numbers:
/// `replace<"encoder.block1">(model, layer)`. The other layers' parameters are copied into the new
/// model's array; the new layer's are initialised as `sequential` does. The original model isn't
/// changed. Local; fences.
template <impl::FixedString Path, class T, class Memory, class Root, class Layer>
auto replace(const Model<T, Memory, Root>& model, const Layer& layer) {
  const impl::Replacement<Path, Layer> replacement{layer};
  const auto layers = replacement.template on_path<0>(model.root());
  auto changed =
      std::apply([](const auto&... l) { return sequential<T, Memory>(l...); }, layers.layers);
  const std::string path(Path.text);
  const auto copy = [&path](const auto& into, const auto& of) {
    const auto part = [](const auto& arena, const ParameterEntry& e) {
      return Kokkos::subview(arena.values(),
                             std::pair<index_t, index_t>(e.offset, e.offset + e.count()));
    };
    for (const ParameterEntry& to : into.entries())
      if (to.name.rfind(path + ".", 0) != 0)
        for (const ParameterEntry& from : of.entries())
          if (from.name == to.name) Kokkos::deep_copy(part(into, to), part(of, from));
  };
  copy(changed.parameters(), model.parameters());
  copy(changed.buffers(), model.buffers());
  changed.set_training(model.is_training());
  return changed;
}

}  // namespace shard

#endif
