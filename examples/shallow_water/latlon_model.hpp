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

#include <shard/shard.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "williamson.hpp"

struct Lat;
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;
using shard::Parity;
using shard::Pole;

template <Pole Where, Parity Sign>
using Points =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, Lat, shard::Halo<1>, shard::PoleFold<1, Where, Sign>>,
                       shard::ShardDim<1, Lon, shard::Halo<1>, shard::Periodic>>;
using Centres = Points<Pole::between_rows, Parity::even>;  // (j, i): cells
using Wests   = Points<Pole::between_rows, Parity::odd>;   // the western edge of cell (j, i)
using Souths  = Points<Pole::on_row, Parity::odd>;         // its southern edge; one row more
using Corners = Points<Pole::on_row, Parity::even>;        // its south-western corner
using Circles =                                            // whole circles of latitude
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, shard::Axes<Lat, Lon>>>;

/// Distances, and the cosines of latitude by global row.
struct Metric {
  explicit Metric(shard::index_t rows)
      : step(pi / static_cast<double>(rows)),
        centre("cosines of centres", static_cast<std::size_t>(rows)),
        edge("cosines of edges", static_cast<std::size_t>(rows) + 1) {
    const auto at_centre = Kokkos::create_mirror_view(centre);
    const auto at_edge   = Kokkos::create_mirror_view(edge);
    for (shard::index_t j = 0; j < rows; ++j)
      at_centre(j) = Kokkos::sin((static_cast<double>(j) + 0.5) * step);
    for (shard::index_t j = 1; j < rows; ++j)
      at_edge(j) = Kokkos::sin(static_cast<double>(j) * step);
    Kokkos::deep_copy(centre, at_centre);
    Kokkos::deep_copy(edge, at_edge);  // 0 at the poles
  }
  template <class Field>
  KOKKOS_FUNCTION double cos_centre(const Field& f, int j) const {
    return centre(f.to_global(0, j));
  }
  template <class Field>
  KOKKOS_FUNCTION double cos_edge(const Field& f, int j) const {
    return edge(f.to_global(0, j));
  }
  /// Whether a row of edges is neither pole.
  template <class Field>
  KOKKOS_FUNCTION bool inside(const Field& f, int j) const {
    return f.to_global(0, j) > 0 && f.to_global(0, j) + 1 < f.global_extent(0);
  }

  double step;  // between rows and between columns, in radians
  Kokkos::View<double*, Space::memory_space> centre, edge;
};

template <class Case>
Case case_of(double (Case::*)(double, double) const);
/// A function of the case at points that are `row` and `column` steps from the pole and Greenwich.
template <auto value>
struct AtPoints {
  decltype(case_of(value)) of;
  double step, row, column;
  KOKKOS_FUNCTION double operator()(shard::index_t j, shard::index_t i) const {
    return (of.*value)((static_cast<double>(j) + row) * step - pi / 2,
                       (static_cast<double>(i) + column) * step);
  }
};

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
/// Potential vorticity: (f + curl of the velocity) / h.
struct VorticityKernel {
  Metric m;
  Centres h;
  Wests u;
  Souths v;
  Corners f, q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(q, j)) return;  // see PoleKernel
    const double north = m.cos_centre(q, j), south = m.cos_centre(q, j - 1);
    const double curl = (v(j, i) - v(j, i - 1) - north * u(j, i) + south * u(j - 1, i)) /
                        (radius * m.cos_edge(q, j) * m.step);
    const double depth = 0.25 * (h(j, i) + h(j, i - 1) + h(j - 1, i) + h(j - 1, i - 1));
    q(j, i)            = (f(j, i) + curl) / depth;
  }
};
/// The potential vorticity at a pole is the mean of the two values across it.
struct PoleKernel {
  Metric m;
  Corners q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(q, j)) q(j, i) = 0.5 * (q(j - 1, i) + q(j + 1, i));
  }
};
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
/// A circular convolution of each row with its weights.
template <class F>
struct FilterKernel {
  F in, out;
  Kokkos::View<double**, Kokkos::LayoutRight, Space::memory_space> weight;  // by distance
  double filtered_rows;                                                     // beside each pole
  double first = 0.5;  // rows between the pole and the first one
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const auto row = in.to_global(0, j), rows = in.global_extent(0);
    const double south = static_cast<double>(row) + first;
    if (Kokkos::fmin(south, static_cast<double>(rows) - south) >= filtered_rows) {
      out(j, i) = in(j, i);
      return;
    }
    double sum = 0;
    for (int k = 0; k < static_cast<int>(in.extent(1)); ++k)
      sum += weight(row, k < i ? i - k : k - i) * in(j, k);
    out(j, i) = sum;
  }
};
/// dh/dt = - div(h u)
struct ContinuityKernel {
  Metric m;
  Wests east;
  Souths north;
  Centres dh;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    dh(j, i) = -(east(j, i + 1) - east(j, i) + north(j + 1, i) - north(j, i)) /
               (radius * m.cos_centre(dh, j) * m.step);
  }
};
/// du/dt = q h v - dB/dx and dv/dt = - q h u - dB/dy. A flux beside an edge is multiplied by the
/// mean potential vorticity of three corners: the two of the edge and the one that the flux is on.
struct EastKernel {
  Metric m;
  Corners q;
  Souths north;
  Centres bernoulli;
  Wests du;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double both = q(j, i) + q(j + 1, i);
    const double turned =
        (both + q(j, i - 1)) * north(j, i - 1) + (both + q(j, i + 1)) * north(j, i) +
        (both + q(j + 1, i - 1)) * north(j + 1, i - 1) + (both + q(j + 1, i + 1)) * north(j + 1, i);
    const double slope = (bernoulli(j, i) - bernoulli(j, i - 1)) / (radius * m.step);
    du(j, i)           = (turned / 12 - slope) / m.cos_centre(du, j);
  }
};
struct NorthKernel {
  Metric m;
  Corners q;
  Wests east;
  Centres bernoulli;
  Souths dv;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(dv, j)) return;
    const double both = q(j, i) + q(j, i + 1);
    const double turned =
        (both + q(j - 1, i)) * east(j - 1, i) + (both + q(j - 1, i + 1)) * east(j - 1, i + 1) +
        (both + q(j + 1, i)) * east(j, i) + (both + q(j + 1, i + 1)) * east(j, i + 1);
    dv(j, i) = -turned / 12 - (bernoulli(j, i) - bernoulli(j - 1, i)) / (radius * m.step);
  }
};
/// sum += a d, and stage = now + c d.
template <class F>
struct StageKernel {
  F now, d, sum, stage;
  double a, c;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    sum(j, i) += a * d(j, i);
    stage(j, i) = now(j, i) + c * d(j, i);
  }
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
        f_("f", mesh_, corner_parts()),
        circles_{Circles("u on circles", mesh_, {rows, 2 * rows}),
                 Circles("v on circles", mesh_, {rows, 2 * rows})} {
    shard::distribute(space_, h, AtPoints<&Case::depth>{of, m_.step, 0.5, 0.5});
    shard::distribute(space_, ground_, AtPoints<&Case::relief>{of, m_.step, 0.5, 0.5});
    shard::distribute(space_, u, AtPoints<&Case::east>{of, m_.step, 0.5, 0});
    shard::distribute(space_, v, AtPoints<&Case::north>{of, m_.step, 0, 0.5});
    shard::distribute(space_, f_, AtPoints<&Case::coriolis>{of, m_.step, 0, 0});
    make_filter(static_cast<int>(rows));
  }

  /// One step of Runge and Kutta's method of fourth order.
  void step(double dt) {
    const double a[] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}, c[] = {0.5, 0.5, 1.0, 0.0};
    copy(h_sum_, h), copy(u_sum_, u), copy(v_sum_, v);
    copy(h_stage_, h), copy(u_stage_, u), copy(v_stage_, v);
    for (int s = 0; s < 4; ++s) {
      tendencies();
      run("depth", h, StageKernel<Centres>{h, dh_, h_sum_, h_stage_, dt * a[s], dt * c[s]});
      run("east", u, StageKernel<Wests>{u, du_, u_sum_, u_stage_, dt * a[s], dt * c[s]});
      run("north", v, StageKernel<Souths>{v, dv_, v_sum_, v_stage_, dt * a[s], dt * c[s]});
    }
    swap(h, h_sum_), swap(u, u_sum_), swap(v, v_sum_);
  }

  /// The same for the depth alone, in the wind that is there.
  void advect(double dt) {
    const double a[] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}, c[] = {0.5, 0.5, 1.0, 0.0};
    copy(h_sum_, h), copy(h_stage_, h);
    for (int s = 0; s < 4; ++s) {
      shard::exchange(space_, h_stage_);
      run("east flux", u, EastFluxKernel{h_stage_, u, east_});
      run("north flux", v, NorthFluxKernel{m_, h_stage_, v, north_});
      filter(fluxes_);
      shard::exchange(space_, east_, north_);
      run("continuity", h, ContinuityKernel{m_, east_, north_, dh_});
      run("depth", h, StageKernel<Centres>{h, dh_, h_sum_, h_stage_, dt * a[s], dt * c[s]});
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

  void tendencies() {
    shard::exchange(space_, h_stage_, u_stage_, v_stage_);
    run("east flux", u, EastFluxKernel{h_stage_, u_stage_, east_});
    run("north flux", v, NorthFluxKernel{m_, h_stage_, v_stage_, north_});
    run("vorticity", q_, VorticityKernel{m_, h_stage_, u_stage_, v_stage_, f_, q_});
    run("Bernoulli", h, BernoulliKernel{m_, h_stage_, ground_, bernoulli_, u_stage_, v_stage_});
    shard::exchange(space_, q_);
    run("pole", q_, PoleKernel{m_, q_});
    filter(fluxes_);
    shard::exchange(space_, east_, north_, q_, bernoulli_);
    run("continuity", h, ContinuityKernel{m_, east_, north_, dh_});
    run("momentum", u, EastKernel{m_, q_, north_, bernoulli_, du_});
    run("momentum", v, NorthKernel{m_, q_, east_, bernoulli_, dv_});
    filter(changes_);
  }

  /// Both fields go to whole circles in one message for each pair of ranks, and back.
  void filter(const std::vector<Wests>& of) {
    shard::redistribute(space_, circles_, of);
    for (std::size_t k = 0; k < 2; ++k)
      run("filter", circles_[k],
          FilterKernel<Circles>{circles_[k], smooth_[k], weight_[k], filtered_rows_,
                                k == 0 ? 0.5 : 0.0});
    shard::redistribute(space_, of, smooth_);
  }
  /// The southern edges of cells as a field like u: those of `f`, of which the pole's row is cut.
  Wests southern(const Souths& f) const {
    const std::pair<std::size_t, std::size_t> rows(0, u.view().extent(0));
    return {mesh_, Kokkos::subview(f.view(), rows, Kokkos::ALL), h_parts()};
  }

  /// The factor of zonal wave number n is min(1, cos(latitude) / (cos(60 degrees) sin(n step /
  /// 2))).
  void make_filter(int rows) {
    const int columns = 2 * rows;
    filtered_rows_    = rows / 6.0;
    for (std::size_t of = 0; of < 2; ++of) {  // u's rows, v's rows
      weight_[of] =
          Weights("weights", static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
      const auto weight = Kokkos::create_mirror_view(weight_[of]);
      for (int j = 0; j < rows; ++j) {
        const double slow = 2 * std::sin((of == 0 ? j + 0.5 : j) * m_.step);
        for (int k = 0; k < columns; ++k)
          for (int n = 0; n < columns; ++n) {
            const double wave = std::sin(n * m_.step / 2);
            weight(j, k) += (wave > slow ? slow / wave : 1.0) *
                            std::cos(((n * k) % columns) * m_.step) / columns;
          }
      }
      Kokkos::deep_copy(weight_[of], weight);
    }
  }

  template <class F, class Kernel>
  void run(const char* label, const F& over, const Kernel& kernel) {
    shard::parallel_for(label, space_, shard::owned_region(over), kernel);
  }
  template <class F>
  void copy(const F& to, const F& from) {
    shard::deep_copy(space_, to, from);
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
  Centres ground_ = h.like("ground"), bernoulli_ = h.like("Bernoulli"), dh_ = h.like("dh"),
          h_sum_ = h.like("h sum"), h_stage_ = h.like("h stage");
  Wests east_ = u.like("east flux"), du_ = u.like("du"), u_sum_ = u.like("u sum"),
        u_stage_ = u.like("u stage");
  Souths north_ = v.like("north flux"), dv_ = v.like("dv"), v_sum_ = v.like("v sum"),
         v_stage_ = v.like("v stage");
  std::vector<Wests> fluxes_{east_, southern(north_)}, changes_{du_, southern(dv_)};
  std::vector<Circles> circles_,
      smooth_{circles_[0].like("smooth u"), circles_[1].like("smooth v")};
  using Weights = Kokkos::View<double**, Kokkos::LayoutRight, Space::memory_space>;
  std::array<Weights, 2> weight_;
  double filtered_rows_ = 0;
};

#endif
