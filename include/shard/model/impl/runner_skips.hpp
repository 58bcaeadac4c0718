// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RUNNER_SKIPS_HPP
#define SHARD_MODEL_IMPL_RUNNER_SKIPS_HPP

#include <array>

#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/model/impl/runner.hpp"

/// \file
/// The Runners of skip connections: see runner.hpp.

namespace shard::impl {

/// What both have in common: the layers that are skipped, which meet the input's partitions.
template <class InnerRunner, class Module>
class SkipRunner {
 public:
  using Node       = Module;
  using Inner      = InnerRunner;
  using InWants    = typename Inner::InWants;
  using In         = typename Inner::In;
  using Partitions = typename Inner::Partitions;

  template <class Mesh>
  void build(const Node& n, const Mesh& mesh, const In& x, const Partitions*) {
    const Partitions in = x.partitions();
    inner_.build(n.inner, mesh, x, &in);
  }

 protected:
  Inner inner_;
};

/// y = x + f(x).
template <class Types, class Cuts, class List, class OutWants>
class Runner<Types, Cuts, ResidualModule<List>, OutWants>
    : public SkipRunner<Runner<Types, Cuts, List, OutWants>, ResidualModule<List>> {
  using Base  = SkipRunner<Runner<Types, Cuts, List, OutWants>, ResidualModule<List>>;
  using Inner = typename Base::Inner;
  using Base::inner_;

 public:
  using Node       = typename Base::Node;
  using In         = typename Base::In;
  using Out        = typename Inner::Out;
  using Partitions = typename Base::Partitions;

  static Partitions partitions(const Node& n, const Partitions& in, const Partitions*) {
    return Inner::partitions(n.inner, in, &in);
  }
  template <class Arena, class Mesh>
  void activations(Arena& arena, const Node& n, const Mesh& mesh, const Partitions& in,
                   const Partitions*) {
    inner_.activations(arena, n.inner, mesh, in, &in);
  }
  template <class Arena>
  void outputs(Arena& arena, int y, int x) {
    arena.hold(x);
    inner_.outputs(arena, y, x);
    arena.end(x);
  }
  template <class Arena>
  void adjoints(Arena& arena, int dx, int dy) {
    arena.hold(dy);
    inner_.adjoints(arena, dx, dy);
    arena.end(dy);
  }
  template <class Arena>
  void tangents(Arena& arena, int ty, int tx) {
    arena.hold(tx);
    inner_.tangents(arena, ty, tx);
    arena.end(tx);
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
    if constexpr (is_wanted_v<DX>) add_gradients(space, dx, dx, dy);
  }
};

/// y's channels are x's, then f(x)'s.
template <class Types, class Cuts, class List, class OutWants>
class Runner<Types, Cuts, ConcatModule<List>, OutWants>
    : public SkipRunner<Runner<Types, Cuts, List, NoWants<Cuts::dims>>, ConcatModule<List>> {
  using Base  = SkipRunner<Runner<Types, Cuts, List, NoWants<Cuts::dims>>, ConcatModule<List>>;
  using Inner = typename Base::Inner;
  using Base::inner_;

 public:
  using Node       = typename Base::Node;
  using In         = typename Base::In;
  using Out        = typename Types::template Field<OutWants>;
  using Plain      = typename Inner::Out;
  using Partitions = typename Base::Partitions;

  static Partitions partitions(const Node& n, const Partitions& in, const Partitions*) {
    const Partitions f = Inner::partitions(n.inner, in, &in);
    Partitions out     = in;
    out[1]             = Partition::balanced(in[1].size() + f[1].size(), 1);
    return out;
  }
  template <class Arena, class Mesh>
  void activations(Arena& arena, const Node& n, const Mesh& mesh, const Partitions& in,
                   const Partitions*) {
    inner_.activations(arena, n.inner, mesh, in, &in);
    piece_ = arena.take_passing(f_, "shard::skipped", mesh, Inner::partitions(n.inner, in, &in));
    Arena::without_memory(x_, "shard::skip", mesh, in);
  }
  template <class Arena>
  void outputs(Arena& arena, int y, int x) {
    arena.hold(x);
    inner_.outputs(arena, piece_, x);
    arena.begin(y);
    arena.end(piece_);
    arena.end(x);
  }
  template <class Arena>
  void adjoints(Arena& arena, int dx, int dy) {
    const int df   = arena.take_like(df_, "shard::adjoint of the skipped", f_);
    const int skip = arena.take_like(skip_, "shard::adjoint of the skip", x_);
    arena.begin(df);
    arena.begin(skip);
    arena.end(dy);
    inner_.adjoints(arena, dx, df);
    arena.end(skip);
  }
  template <class Arena>
  void tangents(Arena& arena, int ty, int tx) {
    const int tf = arena.take_like(tf_, "shard::tangent of the skipped", f_);
    arena.hold(tx);
    inner_.tangents(arena, tf, tx);
    arena.begin(ty);
    arena.end(tf);
    arena.end(tx);
  }
  template <class Space, class X>
  void apply(const Node& n, const Space& space, const Out& y, const X& x) {
    inner_.apply(n.inner, space, f_, x);
    concat_channels(space, y, x, f_);
  }
  template <class Space, class X>
  void pushforward(const Node& n, const Space& space, const Out& ty, const In& tx, const X& x) {
    inner_.pushforward(n.inner, space, tf_, tx, x);
    concat_channels(space, ty, tx, tf_);
  }
  template <class Space, class DX, class X>
  void pullback(const Node& n, const Space& space, const DX& dx, const Out& dy, const X& x) {
    split_channels(space, dy, skip_, df_);
    inner_.pullback(n.inner, space, dx, df_, x);
    if constexpr (is_wanted_v<DX>) add_gradients(space, dx, dx, skip_);
  }

 private:
  Plain x_;  // prototype of the skip's adjoints
  Plain f_, df_, tf_, skip_;
  int piece_ = Lifetimes::none;
};

}  // namespace shard::impl

#endif
