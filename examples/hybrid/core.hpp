// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A time step of the core as an operation with a tangent and an adjoint.
#ifndef SHARD_EXAMPLES_HYBRID_CORE_HPP
#define SHARD_EXAMPLES_HYBRID_CORE_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../latlon_filter.hpp"
#include "core_kernels.hpp"

namespace hybrid {

/// One step of Runge and Kutta's method of fourth order. Copies share their memory.
template <class T>
class Core {
 public:
  static constexpr bool remembers = true;  ///< the stages
  std::uint64_t applied() const { return applies_.value(); }

  Core(const Grid& grid, double dt) : grid_(grid), m_(grid.rows), dt_(dt) {
    for (Stage& s : stage_) {
      s              = {grid.state<T>(),
                        grid.staggered<Souths<T>>("north flux"),
                        grid.staggered<Corners<T>>("q"),
                        grid.cells<Wests<T>>("smooth east flux"),
                        {}};
      s.beside_poles = filter_.caps(s.east, std::get<1>(d_));
    }
  }

  void apply(const Space& space, const State<T>& y, const State<T>& x) const {
    applies_.add();
    fill(space, stage_[0].x, x);
    fill(space, y, x);
    for (std::size_t s = 0; s < 4; ++s) {
      tendencies(space, stage_[s]);
      combine(space, y, 1, y, dt_ * share[s], d_);
      if (s < 3) combine(space, stage_[s + 1].x, 1, x, dt_ * reach[s], d_);
    }
  }

  /// Exact to rounding: the same step of complex numbers (Squire and Trapp 1998). For tests.
  void pushforward(const Space& space, const State<T>& ty, const State<T>& tx,
                   const State<T>& x) const;

  /// Of the last apply.
  void pullback(const Space& space, const State<T>& dx, const State<T>& dy) const {
    combine(space, dx, 1, dy, 0, dy);
    fill(space, a_x_, 0.0);
    for (std::size_t s = 4; s-- > 0;) {
      combine(space, a_d_, dt_ * share[s], dy, dt_ * reach[s], a_x_);
      tendencies_adjoint(space, stage_[s]);
      combine(space, dx, 1, dx, 1, a_x_);
    }
  }

  const Grid& grid() const { return grid_; }
  const Metric& metric() const { return m_; }
  double dt() const { return dt_; }

 private:
  static constexpr std::array<double, 4> share{1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0},
      reach{0.5, 0.5, 1.0, 0.0};

  using Caps = typename latlon::PolarFilter<T>::Fields;

  /// A stage's state, and the values that the tendencies' adjoint needs.
  struct Stage {
    State<T> x;
    Souths<T> north;
    Corners<T> q;
    Wests<T> east;
    Caps beside_poles;  // of the flux and of the tendency
  };

  template <class F, class Kernel>
  void run(const Space& space, const char* label, const F& over, const Kernel& kernel) const {
    shard::parallel_for(label, space, shard::owned_region(over), kernel);
  }

  /// d_ = the tendencies of a stage's state.
  void tendencies(const Space& space, const Stage& s) const {
    const auto& [h, u, v]    = s.x;
    const auto& [dh, du, dv] = d_;
    shard::exchange(space, h, u, v);
    run(space, "east flux", u, EastFlux<T>{h, u, s.east});
    run(space, "north flux", v, NorthFlux<T>{m_, h, v, s.north});
    run(space, "vorticity", s.q, Vorticity<T>{m_, h, u, v, s.q});
    run(space, "Bernoulli", h, Bernoulli<T>{m_, h, u, v, b_});
    shard::exchange(space, s.q);
    run(space, "pole", s.q, PoleMean<T>{m_, s.q});
    shard::exchange(space, s.north, s.q, b_);
    run(space, "momentum", u, EastMomentum<T>{m_, s.q, s.north, b_, du});
    filter_(space, s.beside_poles);
    shard::exchange(space, s.east);
    run(space, "continuity", h, Continuity<T>{m_, s.east, s.north, dh});
    run(space, "momentum", v, NorthMomentum<T>{m_, s.q, s.east, b_, dv});
  }

  /// a_x_ = the adjoint of the tendencies at a stage, applied to a_d_: the same in reverse order.
  void tendencies_adjoint(const Space& space, const Stage& s) const {
    const auto& [h, u, v]          = s.x;
    const auto& [a_h, a_u, a_v]    = a_x_;
    const auto& [a_dh, a_du, a_dv] = a_d_;
    fill(space, a_x_, 0.0);
    zero(space, a_north_, a_q_, a_b_, a_east_);
    run(space, "momentum", v, NorthMomentumAdjoint{m_, s.q, a_q_, s.east, a_east_, a_b_, a_dv});
    run(space, "continuity", h, ContinuityAdjoint{m_, a_east_, a_north_, a_dh});
    shard::exchange_adjoint(space, a_east_);
    filter_(space, a_beside_poles_);
    run(space, "momentum", u, EastMomentumAdjoint{m_, s.q, a_q_, s.north, a_north_, a_b_, a_du});
    shard::exchange_adjoint(space, a_north_, a_q_, a_b_);
    run(space, "pole", s.q, PoleMeanAdjoint{m_, a_q_});
    shard::exchange_adjoint(space, a_q_);
    run(space, "Bernoulli", h, BernoulliAdjoint{m_, u, a_u, v, a_v, a_h, a_b_});
    run(space, "vorticity", s.q, VorticityAdjoint{m_, h, a_h, a_u, a_v, s.q, a_q_});
    run(space, "north flux", v, NorthFluxAdjoint{m_, h, a_h, v, a_v, a_north_});
    run(space, "east flux", u, EastFluxAdjoint{h, a_h, u, a_u, a_east_});
    shard::exchange_adjoint(space, a_h, a_u, a_v);
  }

  template <class... F>
  void zero(const Space& space, const F&... f) const {
    (shard::deep_copy(space, f, T(0)), ...);
  }

  Grid grid_;
  Metric m_;
  double dt_;
  State<T> d_ = grid_.state<T>(), a_d_ = grid_.state<T>(), a_x_ = grid_.state<T>();
  latlon::PolarFilter<T> filter_{grid_.mesh, std::get<0>(d_), m_, m_.centre, m_.centre};
  std::array<Stage, 4> stage_;
  shard::ApplyCount applies_;
  Centres<T> b_ = grid_.cells<Centres<T>>("Bernoulli"), a_b_ = b_.like("its adjoint");
  Wests<T> a_east_     = grid_.cells<Wests<T>>("adjoint of the smooth east flux");
  Souths<T> a_north_   = grid_.staggered<Souths<T>>("adjoint of the north flux");
  Corners<T> a_q_      = grid_.staggered<Corners<T>>("adjoint of q");
  Caps a_beside_poles_ = filter_.caps(a_east_, std::get<1>(a_d_));
};

/// z = x + i step tx, and ty = the imaginary part of z / step.
template <class Z, class F>
struct ToComplexKernel {
  Z z;
  F x, tx;
  double step;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    z(j, i) = Kokkos::complex<double>(x(j, i), step * tx(j, i));
  }
};
template <class Z, class F>
struct ImaginaryKernel {
  Z z;
  F ty;
  double step;
  KOKKOS_FUNCTION void operator()(int j, int i) const { ty(j, i) = z(j, i).imag() / step; }
};

template <class T>
void Core<T>::pushforward(const Space& space, const State<T>& ty, const State<T>& tx,
                          const State<T>& x) const {
  constexpr double step = 1e-30;
  using Number          = Kokkos::complex<double>;
  const Core<Number> core(grid_, dt_);
  const State<Number> zx = grid_.state<Number>(), zy = grid_.state<Number>();
  const auto enter = [&](const auto& z, const auto& f, const auto& tf) {
    run(space, "to complex", f,
        ToComplexKernel<std::remove_cvref_t<decltype(z)>, std::remove_cvref_t<decltype(f)>>{
            z, f, tf, step});
  };
  const auto leave = [&](const auto& z, const auto& tf) {
    run(space, "imaginary part", tf,
        ImaginaryKernel<std::remove_cvref_t<decltype(z)>, std::remove_cvref_t<decltype(tf)>>{z, tf,
                                                                                             step});
  };
  enter(std::get<0>(zx), std::get<0>(x), std::get<0>(tx));
  enter(std::get<1>(zx), std::get<1>(x), std::get<1>(tx));
  enter(std::get<2>(zx), std::get<2>(x), std::get<2>(tx));
  core.apply(space, zy, zx);
  leave(std::get<0>(zy), std::get<0>(ty));
  leave(std::get<1>(zy), std::get<1>(ty));
  leave(std::get<2>(zy), std::get<2>(ty));
}

}  // namespace hybrid

#endif
