// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_RUNNER_SKIPS_HPP
#define SHARD_MODEL_RUNNER_SKIPS_HPP

#include <array>

#include "shard/layers/pointwise.hpp"
#include "shard/model/runner.hpp"

/// \file
/// The Runners of skip connections: see runner.hpp.

namespace shard::impl {

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
  template <class Walk, class Mesh>
  void activations(Walk& walk, const Node& n, const Mesh& mesh, const Partitions& in,
                   const Partitions*) {
    inner_.activations(walk, n.inner, mesh, in, &in);
  }
  template <class Walk>
  void adjoints(Walk& walk, int dx, int dy) {
    walk.hold(dy);
    inner_.adjoints(walk, dx, dy);
    walk.end(dy);
  }
  template <class Walk>
  void tangents(Walk& walk, int ty, int tx) {
    walk.hold(tx);
    inner_.tangents(walk, ty, tx);
    walk.end(tx);
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
  template <class Walk, class Mesh>
  void activations(Walk& walk, const Node& n, const Mesh& mesh, const Partitions& in,
                   const Partitions*) {
    inner_.activations(walk, n.inner, mesh, in, &in);
    walk.take(f_, "shard::skipped", mesh, Inner::partitions(n.inner, in, &in));
  }
  template <class Walk>
  void adjoints(Walk& walk, int dx, int dy) {
    const int df   = walk.take_like(df_, "shard::adjoint of the skipped", f_);
    const int skip = walk.take_like(skip_, "shard::adjoint of the skip", x_);
    walk.begin(df);
    walk.begin(skip);
    walk.end(dy);
    inner_.adjoints(walk, dx, df);
    walk.end(skip);
  }
  template <class Walk>
  void tangents(Walk& walk, int ty, int tx) {
    const int tf = walk.take_like(tf_, "shard::tangent of the skipped", f_);
    walk.hold(tx);
    inner_.tangents(walk, tf, tx);
    walk.begin(ty);
    walk.end(tf);
    walk.end(tx);
  }
  template <class Mesh>
  void build(const Node& n, const Mesh& mesh, const In& x, const Partitions*) {
    const Partitions in = x.partitions();
    inner_.build(n.inner, mesh, x, &in);
    x_ = x;
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
    if constexpr (is_wanted_v<DX>) add(space, dx, dx, skip_);
  }

 private:
  Inner inner_;
  In x_;
  Plain f_, df_, tf_, skip_;
};

}  // namespace shard::impl

#endif
