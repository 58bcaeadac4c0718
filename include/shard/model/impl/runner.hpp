// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RUNNER_HPP
#define SHARD_MODEL_IMPL_RUNNER_HPP

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>

#include "shard/model/arena.hpp"
#include "shard/model/impl/model_fields.hpp"
#include "shard/model/impl/layer_call.hpp"
#include "shard/model/module.hpp"

/// \file
/// Runners execute a model's modules on sharded fields. A Runner has the fields between its
/// modules: each activation exists once, with its consumer's halo. So the type of a module's output
/// depends on the modules after it.
///
/// Fields are in two arenas of the model (see arena.hpp), one for activations, which live from step
/// to step, and one that adjoints and tangents share. A Runner<Types, Cuts, Node, OutWants> has the
/// types Node, In, InWants, Out and Partitions, and
///
/// - `partitions(node, in, meet)`, static: the output's partitions; `meet` are those of a finer
///   level, or null
/// - `activations(arena, node, mesh, in, meet)`: takes its activations from the arena
/// - `build(node, mesh, x, meet)`, once after that: makes the layers' states. x has partitions and
///   memory; its values don't matter
/// - `adjoints(arena, dx, dy)`: takes the fields that only a pullback needs, and marks when they,
///   dx and dy are in use: `begin` before the first write to a field, `end` after the last read, in
///   the order of the pullback. If a field has several readers, call `hold` for each but the first.
/// - `tangents(arena, ty, tx)`: the same for the pushforward
/// - optionally `outputs(arena, y, x)`: the same for apply, for activations stored in two bytes per
///   value; default: begin y, then end x. Activations with a number (see
///   FieldArena::take_activation) are rounded after they are written, stored after their consumer
///   has filled their halo, and restored before it reads them again.
/// - `apply`, `pushforward`, `pullback`, which allocate nothing. Each overwrites its whole result,
///   because adjoints and tangents share memory.

namespace shard::impl {

template <class T, class Memory, class Cuts>
struct RunTypes {
  using value_type = T;
  template <class WantsOfIt>
  using Field      = ModelField<T, Memory, Cuts, WantsOfIt>;
  using Partitions = std::array<Partition, static_cast<std::size_t>(Cuts::rank)>;
};

/// Whether a layer's output may have the partitions of a finer level.
template <class Layer>
inline constexpr bool can_meet_v = requires {
  requires Layer::can_meet;
};
template <class Node>
inline constexpr bool node_can_meet_v = false;
template <class T, class Memory, class Layer>
inline constexpr bool node_can_meet_v<Module<T, Memory, Layer>> = can_meet_v<Layer>;

/// The runner of a module whose output has `OutWants`.
template <class Types, class Cuts, class Node, class OutWants>
class Runner;

/// What runners without runners below have in common: no values between input and output.
struct LeafRunner {
  template <class Arena, class Node, class Mesh, class Partitions>
  static void activations(Arena&, const Node&, const Mesh&, const Partitions&, const Partitions*) {}
  template <class Arena>
  static void adjoints(Arena& arena, int dx, int dy) {
    arena.begin(dx);
    arena.end(dy);
  }
  template <class Arena>
  static void tangents(Arena& arena, int ty, int tx) {
    arena.begin(ty);
    arena.end(tx);
  }
};

/// One layer.
template <class Types, class Cuts, class T, class Memory, class Layer, class OutWants>
class Runner<Types, Cuts, Module<T, Memory, Layer>, OutWants> : public LeafRunner {
 public:
  using Node       = Module<T, Memory, Layer>;
  using InWants    = LayerWants<Layer, Cuts>;
  using In         = typename Types::template Field<InWants>;
  using Out        = typename Types::template Field<OutWants>;
  using Partitions = typename Types::Partitions;

  static Partitions partitions(const Node& node, const Partitions& in, const Partitions* meet) {
    Partitions out = partitions_after(node.layer(), in);
    if constexpr (can_meet_v<Layer>)
      if (meet != nullptr)
        for (std::size_t d = 2; d < out.size(); ++d) out[d] = (*meet)[d];
    return out;
  }
  /// Collective over the mesh.
  template <class Mesh>
  void build(const Node& node, const Mesh&, const In& x, const Partitions*) {
    if constexpr (!std::is_same_v<State, NoState>)
      state_.emplace(node.layer().state(x));
    else
      state_.emplace();
    if constexpr (requires { node.layer().use_buffers(*state_, node.buffers()); })
      node.layer().use_buffers(*state_, node.buffers());
  }
  template <class Space, class X>
  void apply(const Node& node, const Space& space, const Out& y, const X& x) {
    apply_module(node, *state_, space, y, x);
  }
  template <class Space, class X>
  void pushforward(const Node& node, const Space& space, const Out& ty, const In& tx, const X& x) {
    push_module(node, *state_, space, ty, tx, x);
  }
  template <class Space, class DX, class X>
  void pullback(const Node& node, const Space& space, const DX& dx, const Out& dy, const X& x) {
    pull_module(node, *state_, space, dx, dy, x);
  }

 private:
  using State = typename StateOf<Layer, In>::type;
  std::optional<State> state_;
};

/// Marks when a runner's output and input are in use in apply.
template <class R, class Arena>
void outputs_of(R& runner, Arena& arena, int y, int x) {
  if constexpr (requires { runner.outputs(arena, y, x); }) {
    runner.outputs(arena, y, x);
  } else {
    arena.begin(y);
    arena.end(x);
  }
}

/// The input partitions of a chain's modules, from the current one back to the first.
template <class Partitions>
struct Levels {
  const Partitions& in;
  const Levels* before;
};

/// The modules from the I-th of a tuple of children on, in sequence.
template <class Types, class Cuts, class OutWants, std::size_t I, class... Children>
class ChainRunner {
  using Tuple                = std::tuple<Children...>;
  using Node                 = decltype(std::tuple_element_t<I, Tuple>::module);
  static constexpr bool last = I + 1 == sizeof...(Children);
  struct Nothing {
    using InWants = OutWants;
  };
  template <bool Last, class = void>
  struct TailOf {
    using type = ChainRunner<Types, Cuts, OutWants, I + 1, Children...>;
  };
  template <class Unused>
  struct TailOf<true, Unused> {
    using type = Nothing;
  };
  using Tail = typename TailOf<last>::type;
  using Head = Runner<Types, Cuts, Node, typename Tail::InWants>;

  /// The last of the children that can take a finer level's partitions, or none.
  static constexpr int meeting = [] {
    constexpr bool can[] = {node_can_meet_v<decltype(Children::module)>...};
    int at               = -1;
    for (int i = 0; i < static_cast<int>(sizeof...(Children)); ++i)
      if (can[i]) at = i;
    return at;
  }();

 public:
  using InWants    = typename Head::InWants;
  using In         = typename Types::template Field<InWants>;
  using Out        = typename Types::template Field<OutWants>;
  using Middle     = typename Types::template Field<typename Tail::InWants>;
  using KeptOf     = KeptActivation<typename Types::value_type>;
  using Partitions = typename Types::Partitions;

  using LevelsOf = Levels<Partitions>;

  static Partitions partitions(const Tuple& all, const Partitions& in, const Partitions* meet,
                               const LevelsOf* before = nullptr) {
    const LevelsOf levels{in, before};
    const Partitions next = head_partitions(all, levels, meet);
    if constexpr (last)
      return next;
    else
      return Tail::partitions(all, next, meet, &levels);
  }
  // Below, x is the number of the input activation, if it is the chain's own, and `kept` its
  // storage; else none and null.

  template <class Arena, class Mesh>
  void activations(Arena& arena, const Tuple& all, const Mesh& mesh, const Partitions& in,
                   const Partitions* meet, const LevelsOf* before = nullptr) {
    head_.activations(arena, node(all), mesh, in, meet_here(meet));
    if constexpr (!last) {
      const LevelsOf levels{in, before};
      const Partitions next = head_partitions(all, levels, meet);
      piece_ =
          arena.take_activation(y_, kept_, "shard::activation " + std::to_string(I), mesh, next);
      tail_.activations(arena, all, mesh, next, meet, &levels);
    }
  }
  template <class Arena>
  void outputs(Arena& arena, int y, int x) {
    arena.hold(x);  // until it is stored
    outputs_of(head_, arena, last ? y : piece_, x);
    arena.end(x);
    if constexpr (!last) tail_.outputs(arena, y, piece_);
  }
  template <class Arena>
  void adjoints(Arena& arena, int dx, int dy, int x = Arena::none) {
    int between = dy;
    if constexpr (!last) {
      between = arena.take_like(dy_, "shard::adjoint " + std::to_string(I), y_);
      tail_.adjoints(arena, between, dy, piece_);
    }
    arena.begin(x);
    head_.adjoints(arena, dx, between);
    arena.end(x);
  }
  template <class Arena>
  void tangents(Arena& arena, int ty, int tx, int x = Arena::none) {
    int between = ty;
    if constexpr (!last) between = arena.take_like(ty_, "shard::tangent " + std::to_string(I), y_);
    arena.begin(x);
    head_.tangents(arena, between, tx);
    arena.end(x);
    if constexpr (!last) tail_.tangents(arena, ty, between, piece_);
  }
  template <class Mesh>
  void build(const Tuple& all, const Mesh& mesh, const In& x, const Partitions* meet) {
    head_.build(node(all), mesh, x, meet_here(meet));
    if constexpr (!last) tail_.build(all, mesh, y_, meet);
  }
  template <class Space, class X>
  void apply(const Tuple& all, const Space& space, const Out& y, const X& x,
             const KeptOf* kept = nullptr) {
    if constexpr (last)
      head_.apply(node(all), space, y, x);
    else
      head_.apply(node(all), space, y_, x);
    if (kept != nullptr) kept->store(space);
    if constexpr (!last) {
      kept_.round(space);
      tail_.apply(all, space, y, y_, &kept_);
    }
  }
  template <class Space, class X>
  void pushforward(const Tuple& all, const Space& space, const Out& ty, const In& tx, const X& x,
                   const KeptOf* kept = nullptr) {
    if (kept != nullptr) kept->restore(space);
    if constexpr (last) {
      head_.pushforward(node(all), space, ty, tx, x);
    } else {
      head_.pushforward(node(all), space, ty_, tx, x);
      tail_.pushforward(all, space, ty, ty_, y_, &kept_);
    }
  }
  template <class Space, class DX, class X>
  void pullback(const Tuple& all, const Space& space, const DX& dx, const Out& dy, const X& x,
                const KeptOf* kept = nullptr) {
    if constexpr (!last) tail_.pullback(all, space, dy_, dy, y_, &kept_);
    if (kept != nullptr) kept->restore(space);
    if constexpr (last)
      head_.pullback(node(all), space, dx, dy, x);
    else
      head_.pullback(node(all), space, dx, dy_, x);
  }

 private:
  static const Node& node(const Tuple& all) { return std::get<I>(all).module; }
  static const Partitions* meet_here(const Partitions* meet) {
    return static_cast<int>(I) == meeting ? meet : nullptr;
  }
  /// The head's output partitions. An upsampling that doesn't have to match a level outside of the
  /// chain takes the partitions of the level in the chain with the same extents, to save later
  /// redistribution.
  static Partitions head_partitions(const Tuple& all, const LevelsOf& levels,
                                    const Partitions* meet) {
    const Partitions out = Head::partitions(node(all), levels.in, meet_here(meet));
    if constexpr (node_can_meet_v<Node>)
      if (meet_here(meet) == nullptr)
        for (const LevelsOf* level = levels.before; level != nullptr; level = level->before) {
          Partitions met = level->in;
          met[1]         = out[1];
          bool same      = true;
          for (std::size_t d = 2; d < out.size(); ++d)
            same = same && met[d].size() == out[d].size();
          if (same) return met;
        }
    return out;
  }

  Head head_;
  Tail tail_;
  Middle y_, dy_, ty_;
  KeptOf kept_;
  int piece_ = Lifetimes::none;
};

/// The part of a node that runs in its place.
template <class Node>
struct Inside;
template <class... Children>
struct Inside<ModuleList<Children...>> {
  static const auto& of(const ModuleList<Children...>& list) { return list.children; }
};

/// Runs a node by its inner node.
template <class Types, class NodeType, class Inner>
class RunnerOfInside {
 public:
  using Node       = NodeType;
  using InWants    = typename Inner::InWants;
  using In         = typename Inner::In;
  using Out        = typename Inner::Out;
  using Partitions = typename Types::Partitions;

  static Partitions partitions(const Node& n, const Partitions& in, const Partitions* meet) {
    return Inner::partitions(Inside<Node>::of(n), in, meet);
  }
  template <class Arena, class Mesh>
  void activations(Arena& arena, const Node& n, const Mesh& mesh, const Partitions& in,
                   const Partitions* meet) {
    inner_.activations(arena, Inside<Node>::of(n), mesh, in, meet);
  }
  template <class Arena>
  void outputs(Arena& arena, int y, int x) {
    inner_.outputs(arena, y, x);
  }
  template <class Arena>
  void adjoints(Arena& arena, int dx, int dy) {
    inner_.adjoints(arena, dx, dy);
  }
  template <class Arena>
  void tangents(Arena& arena, int ty, int tx) {
    inner_.tangents(arena, ty, tx);
  }
  template <class Mesh>
  void build(const Node& n, const Mesh& mesh, const In& x, const Partitions* meet) {
    inner_.build(Inside<Node>::of(n), mesh, x, meet);
  }
  template <class Space, class X>
  void apply(const Node& n, const Space& space, const Out& y, const X& x) {
    inner_.apply(Inside<Node>::of(n), space, y, x);
  }
  template <class Space, class X>
  void pushforward(const Node& n, const Space& space, const Out& ty, const In& tx, const X& x) {
    inner_.pushforward(Inside<Node>::of(n), space, ty, tx, x);
  }
  template <class Space, class DX, class X>
  void pullback(const Node& n, const Space& space, const DX& dx, const Out& dy, const X& x) {
    inner_.pullback(Inside<Node>::of(n), space, dx, dy, x);
  }

 private:
  Inner inner_;
};

/// Modules in sequence.
template <class Types, class Cuts, class... Children, class OutWants>
class Runner<Types, Cuts, ModuleList<Children...>, OutWants>
    : public RunnerOfInside<Types, ModuleList<Children...>,
                            ChainRunner<Types, Cuts, OutWants, 0, Children...>> {};

}  // namespace shard::impl

#endif
