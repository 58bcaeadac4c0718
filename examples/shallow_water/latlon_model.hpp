// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water on a latitude-longitude C-grid that is cut in both directions: the equations in
// vector-invariant form, discretised so that they conserve energy, and potential enstrophy too
// where the flow has no divergence (Arakawa and Lamb 1981, Mon. Weather Rev. 109, 18-36, without
// the terms for divergence: EEN of NEMO). Poleward of 60 degrees a filter damps short waves in both
// mass fluxes and in the whole tendencies of both velocities. Where a flux appears in the
// equations, so does the tendency of its velocity, transposed; the filter is symmetric, so energy
// is kept.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_LATLON_MODEL_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_LATLON_MODEL_HPP

#include <array>
#include <cstddef>

#include "../latlon_filter.hpp"

using latlon::AtPoints;
using latlon::Lat;
using latlon::Lon;
using latlon::Metric;
using latlon::Space;
using Centres = latlon::Centres<double>;
using Wests   = latlon::Wests<double>;
using Souths  = latlon::Souths<double>;
using Corners = latlon::Corners<double>;

/// The mass fluxes h u and h v cos(latitude).
struct EastFluxKernel {
  Centres h;
  Wests u, flux;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    flux(j, i) = 0.5 * (h(j, i - 1) + h(j, i)) * u(j, i);
  }
};
struct NorthFluxKernel {
  Metric m;
  Centres h;
  Souths v, flux;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    flux(j, i) = 0.5 * (h(j - 1, i) + h(j, i)) * v(j, i) * m.cos_edge(v, j);
  }
};
/// Potential vorticity: (f + curl of the velocity) / h. Not at the poles (see PoleKernel): kernels
/// have no branches, so that compilers make vector instructions of them.
struct VorticityKernel {
  Metric m;
  Centres h;
  Wests u;
  Souths v;
  Corners f, q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double north = m.cos_centre(q, j), south = m.cos_centre(q, j - 1);
    const double curl = (v(j, i) - v(j, i - 1) - north * u(j, i) + south * u(j - 1, i)) /
                        (radius * m.cos_edge(q, j) * m.step);
    const double depth = 0.25 * (h(j, i) + h(j, i - 1) + h(j - 1, i) + h(j - 1, i - 1));
    q(j, i)            = (f(j, i) + curl) / depth;
  }
};
/// The potential vorticity at a pole is the mean of the two values across it.
struct PoleKernel {
  Corners q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    q(j, i) = 0.5 * (q(j - 1, i) + q(j + 1, i));
  }
};
template <class F>
auto at_poles(const F& q) {
  const auto rows = q.global_extent(0);
  return latlon::global_rows(q, {{0, 1}, {rows - 1, rows}});
}
/// Bernoulli's function: g (h + ground) + kinetic energy.
struct BernoulliKernel {
  Metric m;
  Centres h, ground, bernoulli;
  Wests u;
  Souths v;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double x = u(j, i) * u(j, i) + u(j, i + 1) * u(j, i + 1);
    const double y =
        m.cos_edge(h, j) * v(j, i) * v(j, i) + m.cos_edge(h, j + 1) * v(j + 1, i) * v(j + 1, i);
    bernoulli(j, i) = gravity * (h(j, i) + ground(j, i)) + 0.25 * (x + y / m.cos_centre(h, j));
  }
};
/// Several kernels in one pass, so that what they share is read once.
template <class... Kernels>
struct Together : Kernels... {
  KOKKOS_FUNCTION void operator()(int j, int i) const { (Kernels::operator()(j, i), ...); }
};
template <class... Kernels>
Together(Kernels...) -> Together<Kernels...>;
/// What becomes of a tendency: it is kept, or a stage of the time step takes it. sum += a d, from
/// start in the first stage (`before`), and next = start + c d, where the next stage is.
template <class F>
struct Keep {
  F d;
  KOKKOS_FUNCTION void add(int j, int i, double tendency) const { d(j, i) = tendency; }
};
template <class F>
struct Stage {
  F start, before, sum, next;
  double a, c;
  KOKKOS_FUNCTION void add(int j, int i, double d) const {
    sum(j, i)  = before(j, i) + a * d;
    next(j, i) = start(j, i) + c * d;
  }
};
/// A tendency that was kept goes on.
template <class F, class To>
struct PassKernel {
  F d;
  To to;
  KOKKOS_FUNCTION void operator()(int j, int i) const { to.add(j, i, d(j, i)); }
};
/// dh/dt = - div(h u)
template <class To>
struct ContinuityKernel {
  Metric m;
  Wests east;
  Souths north;
  To h;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    h.add(j, i,
          -(east(j, i + 1) - east(j, i) + north(j + 1, i) - north(j, i)) /
              (radius * m.cos_centre(east, j) * m.step));
  }
};
/// du/dt = q h v - dB/dx and dv/dt = - q h u - dB/dy. A flux beside an edge is multiplied by the
/// mean potential vorticity of three corners: the two of the edge and the one that the flux is on.
template <class To>
struct EastKernel {
  Metric m;
  Corners q;
  Souths north;
  Centres bernoulli;
  To u;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double both = q(j, i) + q(j + 1, i);
    const double turned =
        (both + q(j, i - 1)) * north(j, i - 1) + (both + q(j, i + 1)) * north(j, i) +
        (both + q(j + 1, i - 1)) * north(j + 1, i - 1) + (both + q(j + 1, i + 1)) * north(j + 1, i);
    const double slope = (bernoulli(j, i) - bernoulli(j, i - 1)) / (radius * m.step);
    u.add(j, i, (turned / 12 - slope) / m.cos_centre(bernoulli, j));
  }
};
template <class To>
struct NorthKernel {
  Metric m;
  Corners q;
  Wests east;
  Centres bernoulli;
  To v;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double both = q(j, i) + q(j, i + 1);
    const double turned =
        (both + q(j - 1, i)) * east(j - 1, i) + (both + q(j - 1, i + 1)) * east(j - 1, i + 1) +
        (both + q(j + 1, i)) * east(j, i) + (both + q(j + 1, i + 1)) * east(j, i + 1);
    v.add(j, i, -turned / 12 - (bernoulli(j, i) - bernoulli(j - 1, i)) / (radius * m.step));
  }
};
/// No flow crosses a pole.
struct NoFlowKernel {
  Souths v;
  KOKKOS_FUNCTION void operator()(int j, int i) const { v(j, i) = 0; }
};
/// Mass and energy of a cell, in units of its area at the equator.
struct BudgetKernel {
  Metric m;
  Centres h, ground;
  Wests u;
  Souths v;
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int j, int i) const {
    const double x = (h(j, i - 1) + h(j, i)) * u(j, i) * u(j, i);
    const double y = (h(j - 1, i) + h(j, i)) * v(j, i) * v(j, i);
    const double c = m.cos_centre(h, j);
    return {c * h(j, i), c * (gravity * h(j, i) * (0.5 * h(j, i) + ground(j, i)) + 0.25 * x) +
                             0.25 * m.cos_edge(h, j) * y};
  }
};

/// The model on the ranks of a communicator: `rows` x 2 `rows` cells.
class LatLon {
 public:
  template <class Case>
  LatLon(MPI_Comm comm, const Case& of, shard::index_t rows)
      : mesh_(comm, {0, 0}),
        m_(rows),
        h("h", mesh_, {rows, 2 * rows}),
        u("u", mesh_, h_parts()),
        v("v", mesh_, corner_parts()),
        f_("f", mesh_, corner_parts()) {
    shard::distribute(space_, h, AtPoints<&Case::depth>{of, m_.step, 0.5, 0.5});
    shard::distribute(space_, ground_, AtPoints<&Case::relief>{of, m_.step, 0.5, 0.5});
    shard::distribute(space_, u, AtPoints<&Case::east>{of, m_.step, 0.5, 0});
    shard::distribute(space_, v, AtPoints<&Case::north>{of, m_.step, 0, 0.5});
    shard::distribute(space_, f_, AtPoints<&Case::coriolis>{of, m_.step, 0, 0});
  }

  /// One step of Runge and Kutta's method of fourth order.
  void step(double dt) {
    for (int s = 0; s < 4; ++s)
      tendencies(s == 0 ? h : h_stage_, s == 0 ? u : u_stage_, s == 0 ? v : v_stage_,
                 stage(s, dt, h, h_sum_, h_stage_), stage(s, dt, u, u_sum_, u_stage_),
                 stage(s, dt, v, v_sum_, v_stage_));
    swap(h, h_sum_), swap(u, u_sum_), swap(v, v_sum_);
  }

  /// The same for the depth alone, in the wind that is there.
  void advect(double dt) {
    for (int s = 0; s < 4; ++s) {
      const Centres& depth = s == 0 ? h : h_stage_;
      shard::exchange(space_, depth);
      run("east flux", u, EastFluxKernel{depth, u, east_});
      run("north flux", v, NorthFluxKernel{m_, depth, v, north_});
      filter_(space_, fluxes_);
      shard::exchange(space_, east_, north_);
      continuity(stage(s, dt, h, h_sum_, h_stage_));
    }
    swap(h, h_sum_);
  }

  /// Mass and energy; the same on any number of ranks.
  auto budget() {
    shard::exchange(space_, h, u, v);
    return shard::reduce<shard::Determinism::ordered>(space_, h,
                                                      BudgetKernel{m_, h, ground_, u, v});
  }

  const shard::Mesh<Lat, Lon>& mesh() const { return mesh_; }

  /// The owned values of all ranks on rank 0, by row.
  template <class F>
  auto gathered(const F& field) const {
    const bool root = mesh_.rank() == 0;
    Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> all(
        "all", root ? static_cast<std::size_t>(field.global_extent(0)) : 0,
        root ? static_cast<std::size_t>(field.global_extent(1)) : 0);
    shard::gather(space_, all, field);
    return all;
  }

 private:
  friend class SemiImplicit;

  std::array<shard::Partition, 2> h_parts() const { return {h.partition(0), h.partition(1)}; }
  std::array<shard::Partition, 2> corner_parts() const {
    return {h.partition(0).staggered(), h.partition(1)};
  }

  template <class F>
  static Stage<F> stage(int s, double dt, const F& start, const F& sum, const F& next) {
    const double a[] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}, c[] = {0.5, 0.5, 1.0, 0.0};
    return {start, s == 0 ? start : sum, sum, next, dt * a[s], dt * c[s]};
  }

  /// Gives the tendencies of a state to `to_h`, `to_u` and `to_v`.
  template <class ToH, class ToU, class ToV>
  void tendencies(const Centres& hs, const Wests& us, const Souths& vs, const ToH& to_h,
                  const ToU& to_u, const ToV& to_v) {
    shard::exchange(space_, hs, us, vs);
    const EastFluxKernel east{hs, us, east_};
    const NorthFluxKernel north{m_, hs, vs, north_};
    const BernoulliKernel bernoulli{m_, hs, ground_, bernoulli_, us, vs};
    const VorticityKernel vorticity{m_, hs, us, vs, f_, q_};
    shard::parallel_for("diagnostics", space_, latlon::global_rows(h, {{0, 1}}),
                        Together{east, north, bernoulli});
    shard::parallel_for("diagnostics", space_, latlon::global_rows(h, {{1, h.global_extent(0)}}),
                        Together{east, north, bernoulli, vorticity});
    shard::exchange(space_, q_);
    shard::parallel_for("pole", space_, at_poles(q_), PoleKernel{q_});
    filter_(space_, fluxes_);
    shard::exchange(space_, east_, north_, q_, bernoulli_);
    const auto over = [&](const auto& region, const auto& kernel) {
      shard::parallel_for("tendencies", space_, region, kernel);
    };
    const ContinuityKernel<ToH> continuity{m_, east_, north_, to_h};
    over(filter_.others(h), Together{continuity, EastKernel<ToU>{m_, q_, north_, bernoulli_, to_u},
                                     NorthKernel<ToV>{m_, q_, east_, bernoulli_, to_v}});
    over(filter_.filtered(h), continuity);
    over(filter_.filtered(u), EastKernel<Keep<Wests>>{m_, q_, north_, bernoulli_, {du_}});
    over(latlon::between_poles(v, filter_.filtered(v)),
         NorthKernel<Keep<Souths>>{m_, q_, east_, bernoulli_, {dv_}});
    over(at_poles(dv_), NoFlowKernel{dv_});
    filter_(space_, changes_);
    over(filter_.filtered(u), PassKernel<Wests, ToU>{du_, to_u});
    over(filter_.filtered(v), PassKernel<Souths, ToV>{dv_, to_v});
  }
  template <class ToH>
  void continuity(const ToH& to_h) {
    run("continuity", h, ContinuityKernel<ToH>{m_, east_, north_, to_h});
  }

  template <class F, class Kernel>
  void run(const char* label, const F& over, const Kernel& kernel) {
    shard::parallel_for(label, space_, shard::owned_region(over), kernel);
  }
  Space space_;
  shard::Mesh<Lat, Lon> mesh_;
  Metric m_;

 public:
  Centres h;  ///< depth
  Wests u;    ///< velocity towards the east
  Souths v;   ///< velocity towards the north

 private:
  Corners f_, q_ = f_.like("q");
  Centres ground_ = h.like("ground"), bernoulli_ = h.like("Bernoulli"), h_sum_ = h.like("h sum"),
          h_stage_ = h.like("h stage");
  Wests east_ = u.like("east flux"), du_ = u.like("du"), u_sum_ = u.like("u sum"),
        u_stage_ = u.like("u stage");
  Souths north_ = v.like("north flux"), dv_ = v.like("dv"), v_sum_ = v.like("v sum"),
         v_stage_ = v.like("v stage");
  latlon::PolarFilter<double> filter_{mesh_, h, m_, m_.centre, m_.edge};
  latlon::PolarFilter<double>::Fields fluxes_  = filter_.caps(east_, north_),
                                      changes_ = filter_.caps(du_, dv_);
};

#endif
