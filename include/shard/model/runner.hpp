// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_RUNNER_HPP
#define SHARD_MODEL_RUNNER_HPP

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>

#include "shard/layers/pointwise.hpp"
#include "shard/model/cut.hpp"
#include "shard/model/layer_call.hpp"
#include "shard/model/module.hpp"

/// \file
/// What runs a model's modules on sharded fields. A Runner holds what lies between them: each
/// activation is allocated once, with the halo that its consumer wants, and so is its adjoint (a
/// tangent takes the same memory). Consumers are known from the end: the type of a module's output
/// follows from what comes after it.

namespace shard::impl {

template <class T, class Memory, class Cuts>
struct RunTypes {
  template <class WantsOfIt>
  using Field      = ModelField<T, Memory, Cuts, WantsOfIt>;
  using Partitions = std::array<Partition, static_cast<std::size_t>(Cuts::rank)>;
};

/// Whether a layer's output may be given the partitions of a finer level that it meets.
template <class Layer>
inline constexpr bool can_meet_v = requires {
  requires Layer::can_meet;
};
template <class Node>
inline constexpr bool node_can_meet_v = false;
template <class T, class Memory, class Layer>
inline constexpr bool node_can_meet_v<Module<T, Memory, Layer>> = can_meet_v<Layer>;

/// The runner of a module whose output is to have `OutWants`.
template <class Types, class Cuts, class Node, class OutWants>
class Runner;

/// One layer.
template <class Types, class Cuts, class T, class Memory, class Layer, class OutWants>
class Runner<Types, Cuts, Module<T, Memory, Layer>, OutWants> {
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

/// The modules from the I-th of a tuple of children on, one after the other.
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

  /// The last of the children that can meet a finer level, or none.
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
  using Partitions = typename Types::Partitions;

  static Partitions partitions(const Tuple& all, const Partitions& in, const Partitions* meet) {
    const Partitions next = Head::partitions(node(all), in, meet_here(meet));
    if constexpr (last)
      return next;
    else
      return Tail::partitions(all, next, meet);
  }
  template <class Mesh>
  void build(const Tuple& all, const Mesh& mesh, const In& x, const Partitions* meet) {
    head_.build(node(all), mesh, x, meet_here(meet));
    if constexpr (!last) {
      y_ = Middle("shard::activation " + std::to_string(I), mesh,
                  Head::partitions(node(all), x.partitions(), meet_here(meet)));
      tail_.build(all, mesh, y_, meet);
    }
  }
  template <class Space, class X>
  void apply(const Tuple& all, const Space& space, const Out& y, const X& x) {
    if constexpr (last) {
      head_.apply(node(all), space, y, x);
    } else {
      head_.apply(node(all), space, y_, x);
      tail_.apply(all, space, y, y_);
    }
  }
  template <class Space, class X>
  void pushforward(const Tuple& all, const Space& space, const Out& ty, const In& tx, const X& x) {
    if constexpr (last) {
      head_.pushforward(node(all), space, ty, tx, x);
    } else {
      head_.pushforward(node(all), space, partner(), tx, x);
      tail_.pushforward(all, space, ty, partner(), y_);
    }
  }
  template <class Space, class DX, class X>
  void pullback(const Tuple& all, const Space& space, const DX& dx, const Out& dy, const X& x) {
    if constexpr (last) {
      head_.pullback(node(all), space, dx, dy, x);
    } else {
      tail_.pullback(all, space, partner(), dy, y_);
      head_.pullback(node(all), space, dx, partner(), x);
    }
  }

 private:
  static const Node& node(const Tuple& all) { return std::get<I>(all).module; }
  static const Partitions* meet_here(const Partitions* meet) {
    return static_cast<int>(I) == meeting ? meet : nullptr;
  }
  /// The adjoint or tangent of y_, made when it is first needed.
  const Middle& partner() {
    if (!partner_) partner_.emplace(y_.like("shard::adjoint " + std::to_string(I)));
    return *partner_;
  }

  Head head_;
  Tail tail_;
  Middle y_;
  std::optional<Middle> partner_;
};

/// Modules one after the other.
template <class Types, class Cuts, class... Children, class OutWants>
class Runner<Types, Cuts, ModuleList<Children...>, OutWants> {
  using Chain = ChainRunner<Types, Cuts, OutWants, 0, Children...>;

 public:
  using Node       = ModuleList<Children...>;
  using InWants    = typename Chain::InWants;
  using In         = typename Chain::In;
  using Out        = typename Chain::Out;
  using Partitions = typename Types::Partitions;

  static Partitions partitions(const Node& n, const Partitions& in, const Partitions* meet) {
    return Chain::partitions(n.children, in, meet);
  }
  template <class Mesh>
  void build(const Node& n, const Mesh& mesh, const In& x, const Partitions* meet) {
    chain_.build(n.children, mesh, x, meet);
  }
  template <class Space, class X>
  void apply(const Node& n, const Space& space, const Out& y, const X& x) {
    chain_.apply(n.children, space, y, x);
  }
  template <class Space, class X>
  void pushforward(const Node& n, const Space& space, const Out& ty, const In& tx, const X& x) {
    chain_.pushforward(n.children, space, ty, tx, x);
  }
  template <class Space, class DX, class X>
  void pullback(const Node& n, const Space& space, const DX& dx, const Out& dy, const X& x) {
    chain_.pullback(n.children, space, dx, dy, x);
  }

 private:
  Chain chain_;
};

/// y = x + f(x).
template <class Types, class Cuts, class List, class OutWants>
class Runner<Types, Cuts, ResidualModule<List>, OutWants> {
  using Inner = Runner<Types, Cuts, List, OutWants>;

 public:
  using Node       = ResidualModule<List>;
  using InWants    = typename Inner::InWants;
  using In         = typename Inner::In;
  using Out        = typename Inner::Out;
  using Partitions = typename Types::Partitions;

  static Partitions partitions(const Node& n, const Partitions& in, const Partitions*) {
    return Inner::partitions(n.inner, in, &in);
  }
  template <class Mesh>
  void build(const Node& n, const Mesh& mesh, const In& x, const Partitions*) {
    const Partitions in = x.partitions();
    inner_.build(n.inner, mesh, x, &in);
  }
  template <class Space, class X>
  void apply(const Node& n, const Space& space, const Out& y, const X& x) {
    inner_.apply(n.inner, space, y, x);
    add(space, y, y, x);
  }
  template <class Space, class X>
  void pushforward(const Node& n, const Space& space, const Out& ty, const In& tx, const X& x) {
    inner_.pushforward(n.inner, space, ty, tx, x);
    add(space, ty, ty, tx);
  }
  template <class Space, class DX, class X>
  void pullback(const Node& n, const Space& space, const DX& dx, const Out& dy, const X& x) {
    inner_.pullback(n.inner, space, dx, dy, x);
    if constexpr (is_wanted_v<DX>) add(space, dx, dx, dy);
  }

 private:
  Inner inner_;
};

/// y's channels are x's, then f(x)'s.
template <class Types, class Cuts, class List, class OutWants>
class Runner<Types, Cuts, ConcatModule<List>, OutWants> {
  using Inner = Runner<Types, Cuts, List, NoWants<Cuts::dims>>;

 public:
  using Node       = ConcatModule<List>;
  using InWants    = typename Inner::InWants;
  using In         = typename Inner::In;
  using Out        = typename Types::template Field<OutWants>;
  using Plain      = typename Inner::Out;
  using Partitions = typename Types::Partitions;

  static Partitions partitions(const Node& n, const Partitions& in, const Partitions*) {
    const Partitions f = Inner::partitions(n.inner, in, &in);
    Partitions out     = in;
    out[1]             = Partition::balanced(in[1].size() + f[1].size(), 1);
    return out;
  }
  template <class Mesh>
  void build(const Node& n, const Mesh& mesh, const In& x, const Partitions*) {
    const Partitions in = x.partitions();
    inner_.build(n.inner, mesh, x, &in);
    f_ = Plain("shard::skipped", mesh, Inner::partitions(n.inner, in, &in));
    x_ = x;
  }
  template <class Space, class X>
  void apply(const Node& n, const Space& space, const Out& y, const X& x) {
    inner_.apply(n.inner, space, f_, x);
    concat_channels(space, y, x, f_);
  }
  template <class Space, class X>
  void pushforward(const Node& n, const Space& space, const Out& ty, const In& tx, const X& x) {
    make_partners();
    inner_.pushforward(n.inner, space, *df_, tx, x);
    concat_channels(space, ty, tx, *df_);
  }
  template <class Space, class DX, class X>
  void pullback(const Node& n, const Space& space, const DX& dx, const Out& dy, const X& x) {
    make_partners();
    split_channels(space, dy, *skip_, *df_);
    inner_.pullback(n.inner, space, dx, *df_, x);
    if constexpr (is_wanted_v<DX>) add(space, dx, dx, *skip_);
  }

 private:
  void make_partners() {
    if (df_) return;
    df_.emplace(f_.like("shard::adjoint of the skipped"));
    skip_.emplace(x_.like("shard::adjoint of the skip"));
  }

  Inner inner_;
  Plain f_;
  In x_;
  std::optional<Plain> df_;
  std::optional<In> skip_;
};

}  // namespace shard::impl

#endif
