// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Long steps for the latitude-longitude model: the implicit midpoint rule, x' = x + dt F((x +
// x')/2), by Newton's method with the gravity waves alone as Jacobian, as semi-implicit models do.
// Velocity is eliminated from each linear system; the Helmholtz problem for the depth that is left
// is solved by conjugate gradients on whole circles of latitude, where the polar filter is local.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_LATLON_SEMI_IMPLICIT_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_LATLON_SEMI_IMPLICIT_HPP

#include <shard/solve/cg.hpp>

#include <algorithm>

#include "latlon_model.hpp"

using Rows =  // whole circles, and the ones beside them
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, shard::Axes<Lat, Lon>, shard::Halo<1>>>;
using latlon::Numbers;

/// Differences of x at the western and southern edges, the first divided by cos(latitude).
struct CircleSlopeKernel {
  Metric m;
  Rows x, east, north;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const int west = i > 0 ? i - 1 : static_cast<int>(x.extent(1)) - 1;
    east(j, i)     = (x(j, i) - x(j, west)) / m.cos_centre(x, j);
    north(j, i)    = x(j, i) - x(j - 1, i);
  }
};
/// Fluxes: these times the depth, the second times cos(latitude) too.
struct CircleFluxKernel {
  Metric m;
  Rows h, east, north;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const int west = i > 0 ? i - 1 : static_cast<int>(h.extent(1)) - 1;
    east(j, i) *= 0.5 * (h(j, west) + h(j, i));
    north(j, i) *= 0.5 * (h(j - 1, i) + h(j, i)) * m.cos_edge(h, j);
  }
};
/// y = cos(latitude) x - scale div(fluxes).
struct HelmholtzKernel {
  Metric m;
  Rows x, east, north, y;
  double scale;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const int next = i + 1 < static_cast<int>(x.extent(1)) ? i + 1 : 0;
    y(j, i)        = m.cos_centre(x, j) * x(j, i) -
              scale * (east(j, next) - east(j, i) + north(j + 1, i) - north(j, i));
  }
};
/// x - scale div(h grad x) times cos(latitude), with the filter as in the model: symmetric,
/// positive.
struct Helmholtz {
  static constexpr bool is_symmetric = true;

  Metric m;
  latlon::PolarRows filter;
  Rows h;
  double scale;
  Rows east = h.like("slopes and fluxes east"), north = h.like("slopes and fluxes north");

  void apply(const Space& space, const Rows& y, const Rows& x) const {
    const auto all                             = shard::owned_region(x);
    const latlon::PolarRows::Rows<Rows> both[] = {{east, 0, m.centre}, {north, 0, m.edge}};
    shard::exchange(space, x);
    shard::parallel_for("slopes", space, all, CircleSlopeKernel{m, x, east, north});
    filter(space, both[0], both[1]);
    shard::parallel_for("fluxes", space, all, CircleFluxKernel{m, h, east, north});
    filter(space, both[0], both[1]);
    shard::exchange(space, north);
    shard::parallel_for("Helmholtz", space, all, HelmholtzKernel{m, x, east, north, y, scale});
  }
};

/// Division by the operator's diagonal for a mean depth, the preconditioner.
struct RowScaling {
  struct Kernel {
    Rows z, r;
    Numbers diagonal;
    KOKKOS_FUNCTION void operator()(int j, int i) const {
      z(j, i) = r(j, i) / diagonal(r.to_global(0, j));
    }
  };
  Numbers diagonal;
  void apply(const Space& space, const Rows& z, const Rows& r) const {
    shard::parallel_for("scale rows", space, shard::owned_region(r), Kernel{z, r, diagonal});
  }
};

/// stage = (before + now) / 2
template <class F>
struct MidpointKernel {
  F before, now, stage;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    stage(j, i) = 0.5 * (before(j, i) + now(j, i));
  }
};
/// d = before + dt d - now
template <class F>
struct ResidualKernel {
  F before, now, d;
  double dt;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    d(j, i) = before(j, i) + dt * d(j, i) - now(j, i);
  }
};
/// b = cos(latitude) (d + tau change)
struct RightSideKernel {
  Metric m;
  Centres d, change, b;
  double tau;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    b(j, i) = m.cos_centre(b, j) * (d(j, i) + tau * change(j, i));
  }
};
/// The accelerations by a change of depth.
struct EastSlopeKernel {
  Metric m;
  Centres x;
  Wests du;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    du(j, i) = -gravity * (x(j, i) - x(j, i - 1)) / (radius * m.step * m.cos_centre(du, j));
  }
};
struct NorthSlopeKernel {
  Metric m;
  Centres x;
  Souths dv;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    dv(j, i) = m.inside(dv, j) ? -gravity * (x(j, i) - x(j - 1, i)) / (radius * m.step) : 0;
  }
};
/// d += tau change, now += d
template <class F>
struct CorrectKernel {
  F now, d, change;
  double tau;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    d(j, i) += tau * change(j, i);
    now(j, i) += d(j, i);
  }
};

/// Steps of `dt` seconds of a model. `corrections`: Newton's.
class SemiImplicit {
 public:
  SemiImplicit(LatLon& model, double dt, int corrections = 4)
      : model_(model),
        dt_(dt),
        corrections_(corrections),
        x_("change of depth", model.mesh_, {rows(), 2 * rows()}),
        b_(x_.like("right side")),
        depth_(x_.like("depth on circles")),
        cg_(x_, Helmholtz{model.m_, model.filter_.rows(), depth_, scale()}, RowScaling{diagonal()},
            {.relative = 1e-3, .determinism = shard::Determinism::ordered}) {}

  void step() {
    LatLon& m   = model_;
    iterations_ = 0;
    shard::deep_copy(m.space_, m.h_sum_, m.h);  // the sums have the state before
    shard::deep_copy(m.space_, m.u_sum_, m.u);
    shard::deep_copy(m.space_, m.v_sum_, m.v);
    shard::exchange(m.space_, m.h_sum_);
    shard::redistribute(m.space_, depth_, m.h_sum_);
    shard::exchange(m.space_, depth_);
    for (int k = 0; k < corrections_; ++k) correct();
  }

  /// Of the conjugate gradients, in the last step.
  int iterations() const { return iterations_; }

 private:
  shard::index_t rows() const { return model_.h.global_extent(0); }
  double scale() const {
    const double tau = dt_ / 2 / (radius * model_.m_.step);
    return gravity * tau * tau;
  }

  void correct() {
    LatLon& m = model_;
    m.run("midpoint", m.h, MidpointKernel<Centres>{m.h_sum_, m.h, m.h_stage_});
    m.run("midpoint", m.u, MidpointKernel<Wests>{m.u_sum_, m.u, m.u_stage_});
    m.run("midpoint", m.v, MidpointKernel<Souths>{m.v_sum_, m.v, m.v_stage_});
    m.tendencies(m.h_stage_, m.u_stage_, m.v_stage_, Keep<Centres>{dh_}, Keep<Wests>{m.du_},
                 Keep<Souths>{m.dv_});
    m.run("residual", m.h, ResidualKernel<Centres>{m.h_sum_, m.h, dh_, dt_});
    m.run("residual", m.u, ResidualKernel<Wests>{m.u_sum_, m.u, m.du_, dt_});
    m.run("residual", m.v, ResidualKernel<Souths>{m.v_sum_, m.v, m.dv_, dt_});

    const Centres &change = m.h_stage_, &spare = m.bernoulli_;
    carry(change);
    m.run("right side", m.h, RightSideKernel{m.m_, dh_, change, spare, dt_ / 2});
    shard::redistribute(m.space_, b_, spare);
    Kokkos::deep_copy(m.space_, x_.view(), 0.0);
    const shard::SolveResult solved = cg_(m.space_, x_, b_);
    if (!solved) throw shard::Error("SemiImplicit: " + solved.text());
    iterations_ += solved.iterations;
    shard::redistribute(m.space_, spare, x_);
    shard::exchange(m.space_, spare);
    m.run("slope", m.u, EastSlopeKernel{m.m_, spare, m.east_});
    m.run("slope", m.v, NorthSlopeKernel{m.m_, spare, m.north_});
    m.filter_(m.space_, m.fluxes_);
    m.run("correct", m.u, CorrectKernel<Wests>{m.u, m.du_, m.east_, dt_ / 2});
    m.run("correct", m.v, CorrectKernel<Souths>{m.v, m.dv_, m.north_, dt_ / 2});
    carry(change);  // by fluxes, so that mass is kept to rounding
    m.run("correct", m.h, CorrectKernel<Centres>{m.h, dh_, change, dt_ / 2});
  }
  /// change = -div(h d), with the depth before the step and the corrections d of velocity.
  void carry(const Centres& change) {
    LatLon& m = model_;
    m.run("east flux", m.u, EastFluxKernel{m.h_sum_, m.du_, m.east_});
    m.run("north flux", m.v, NorthFluxKernel{m.m_, m.h_sum_, m.dv_, m.north_});
    m.filter_(m.space_, m.fluxes_);
    shard::exchange(m.space_, m.east_, m.north_);
    m.continuity(Keep<Centres>{change});
  }

  Numbers diagonal() const {
    const auto n       = static_cast<std::size_t>(rows());
    const double step  = model_.m_.step;
    const double depth = model_.budget()[0] / budget_of_one();
    return latlon::numbers(rows(), [&](double j) {
      const double c = std::sin((j + 0.5) * step);
      double waves   = 0;  // the mean square of 2 sin(n step / 2), as damped
      for (std::size_t k = 0; k < 2 * n; ++k) {
        const double wave = std::sin(static_cast<double>(k) * step / 2);
        waves += std::min(wave, 2 * c) * std::min(wave, 2 * c) * 4 / static_cast<double>(2 * n);
      }
      return c + scale() * depth * (waves / c + 2 * c);
    });
  }
  /// The sum of all cells' areas, as in LatLon::budget.
  double budget_of_one() const {
    double sum = 0;
    for (shard::index_t j = 0; j < rows(); ++j)
      sum += 2 * static_cast<double>(rows()) *
             std::sin((static_cast<double>(j) + 0.5) * model_.m_.step);
    return sum;
  }

  LatLon& model_;
  double dt_;
  int corrections_, iterations_ = 0;
  Centres dh_ = model_.h.like("dh");
  Rows x_, b_, depth_;
  shard::CG<Rows, Helmholtz, RowScaling> cg_;
};

#endif
