// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on fields over index spaces, point by point, with tangents and adjoints.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_POINTWISE_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_POINTWISE_HPP

#include <shard/shard.hpp>

#include <cstddef>

struct Ranks;  // the mesh axis
struct Cell;   // the index spaces
struct Edge;
struct Vertex;
struct Observation;

using Space  = Kokkos::DefaultExecutionSpace;
using Memory = Space::memory_space;
template <class Tag>
using Field = shard::ShardedView<double*, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Ranks, shard::Indices<Tag>>, Memory>;

template <class F, class Kernel>
void each_point(const char* label, const Space& space, const F& over, const Kernel& kernel) {
  shard::parallel_for(label, space, shard::owned_region(over), kernel);
}

template <class F>
struct TimesKernel {
  F y, a, b;
  double c;
  KOKKOS_FUNCTION void operator()(int i) const { y(i) = c * a(i) * b(i); }
};
template <class F>
struct TimesTangentKernel {
  F ty, ta, tb, a, b;
  double c;
  KOKKOS_FUNCTION void operator()(int i) const { ty(i) = c * (ta(i) * b(i) + a(i) * tb(i)); }
};
template <class F>
struct TimesAdjointKernel {
  F da, db, dy, a, b;
  double c;
  KOKKOS_FUNCTION void operator()(int i) const {
    da(i) = c * dy(i) * b(i);
    db(i) = c * dy(i) * a(i);
  }
};
/// y = c a b.
struct Times {
  double c = 1;
  template <class F>
  void apply(const Space& space, const F& y, const F& a, const F& b) const {
    each_point("times", space, y, TimesKernel<F>{y, a, b, c});
  }
  template <class F>
  void pushforward(const Space& space, const F& ty, const F& ta, const F& tb, const F& a,
                   const F& b) const {
    each_point("times, tangent", space, ty, TimesTangentKernel<F>{ty, ta, tb, a, b, c});
  }
  template <class F>
  void pullback(const Space& space, const F& da, const F& db, const F& dy, const F& a,
                const F& b) const {
    each_point("times, adjoint", space, dy, TimesAdjointKernel<F>{da, db, dy, a, b, c});
  }
};

template <class F, std::size_t N>
struct SumKernel {
  F y;
  Kokkos::Array<F, N> x;
  Kokkos::Array<double, N> c;
  KOKKOS_FUNCTION void operator()(int i) const {
    double sum = 0;
    for (std::size_t k = 0; k < N; ++k) sum += c[k] * x[k](i);
    y(i) = sum;
  }
};
template <class F, std::size_t N>
struct SumAdjointKernel {
  Kokkos::Array<F, N> dx;
  F dy;
  Kokkos::Array<double, N> c;
  KOKKOS_FUNCTION void operator()(int i) const {
    for (std::size_t k = 0; k < N; ++k) dx[k](i) = c[k] * dy(i);
  }
};
/// y = c_0 x_0 + c_1 x_1 + ...
template <std::size_t N>
struct Sum {
  Kokkos::Array<double, N> c;
  template <class F, class... X>
  void apply(const Space& space, const F& y, const F& first, const X&... x) const {
    each_point("sum", space, y, SumKernel<F, N>{y, {first, x...}, c});
  }
  template <class F, class... X>
  requires(sizeof...(X) == N - 1)  //
      void pushforward(const Space& space, const F& ty, const F& first, const X&... tx) const {
    apply(space, ty, first, tx...);
  }
  template <class F, class... DX>
  requires(sizeof...(DX) == N)  //
      void pullback(const Space& space, const F& first, const DX&... rest) const {
    const F fields[] = {first, rest...};  // dx..., dy
    SumAdjointKernel<F, N> kernel{{}, fields[N], c};
    for (std::size_t k = 0; k < N; ++k) kernel.dx[k] = fields[k];
    each_point("sum, adjoint", space, kernel.dy, kernel);
  }
};
/// The sum with these factors.
template <class... C>
Sum<sizeof...(C)> sum(C... c) {
  return {{static_cast<double>(c)...}};
}

/// y = by x, with a field of factors.
template <class F>
struct Scaled {
  F by;
  void apply(const Space& space, const F& y, const F& x) const {
    each_point("scaled", space, y, TimesKernel<F>{y, by, x, 1});
  }
  void pushforward(const Space& space, const F& ty, const F& tx) const { apply(space, ty, tx); }
  void pullback(const Space& space, const F& dx, const F& dy) const { apply(space, dx, dy); }
};

/// y = x + by, with a field that isn't differentiated. y is like that field.
template <class F>
struct Added {
  F by;
  F output(const F&) const { return by.like("added"); }
  void apply(const Space& space, const F& y, const F& x) const {
    each_point("added", space, y, SumKernel<F, 2>{y, {x, by}, {1, 1}});
  }
  void pushforward(const Space& space, const F& ty, const F& tx) const { copy(space, ty, tx); }
  void pullback(const Space& space, const F& dx, const F& dy) const { copy(space, dx, dy); }

 private:
  static void copy(const Space& space, const F& to, const F& from) {
    each_point("added, derivative", space, to, SumKernel<F, 1>{to, {from}, {1}});
  }
};

#endif
