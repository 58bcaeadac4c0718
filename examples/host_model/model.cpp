// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's equations. They don't know who fills the ghost cells.
#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace host {

namespace {

constexpr double pi = 3.14159265358979323846, length = 20000, height = 10000, wind = 15;

/// flux(v, k, i) through the face before cell (k, i), along x or along z.
struct FluxKernel {
  State q, flux;
  Background at_rest;
  int levels;
  double viscosity;
  bool vertical;

  KOKKOS_FUNCTION double cell(int v, int k, int i, int shift) const {
    return vertical ? q(v, k + ghosts + shift, i + ghosts) : q(v, k + ghosts, i + ghosts + shift);
  }
  KOKKOS_FUNCTION void operator()(int k, int i) const {
    double mean[variables], third[variables];  // at the face: the value, the third difference
    for (int v = 0; v < variables; ++v) {
      const double a = cell(v, k, i, -2), b = cell(v, k, i, -1), c = cell(v, k, i, 0),
                   d = cell(v, k, i, 1);
      mean[v]        = (7 * (b + c) - (a + d)) / 12;
      third[v]       = 3 * (b - c) - (a - d);
    }
    const int z      = k + ghosts;
    const double rho = mean[density] + (vertical ? at_rest.face_density(k) : at_rest.density(z)),
                 rho_theta =
                     mean[density_theta] + (vertical ? at_rest.face_theta(k) : at_rest.theta(z)),
                 excess = pressure(rho_theta) -
                          (vertical ? at_rest.face_pressure(k) : at_rest.pressure(z));
    double speed = mean[vertical ? momentum_z : momentum_x] / rho;
    if (vertical && (k == 0 || k == levels)) {  // nothing passes the ground and the lid
      speed          = 0;
      third[density] = 0;
    }
    const double values[variables] = {rho, mean[momentum_x], mean[momentum_z], rho_theta};
    for (int v = 0; v < variables; ++v)
      flux(v, k, i) = speed * values[v] + viscosity * third[v] +
                      (v == (vertical ? momentum_z : momentum_x) ? excess : 0.0);
  }
};

/// to = state + dt tendency(q); `to` may be q.
struct UpdateKernel {
  State state, q, flux, to;
  double dt, spacing;
  bool vertical;

  KOKKOS_FUNCTION void operator()(int k, int i) const {
    const int z = k + ghosts, x = i + ghosts;
    const double weight = vertical ? gravity * q(density, z, x) : 0.0;
    for (int v = 0; v < variables; ++v) {
      const double next = vertical ? flux(v, k + 1, i) : flux(v, k, i + 1);
      to(v, z, x)       = state(v, z, x) +
                    dt * ((flux(v, k, i) - next) / spacing - (v == momentum_z ? weight : 0.0));
    }
  }
};

template <class Kernel>
void over(const char* label, int levels, int columns, const Kernel& kernel) {
  using Policy = Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>>;
  Kokkos::parallel_for(label, Policy(Space(), {0, 0}, {levels, columns}), kernel);
}

/// Density and density x potential temperature at rest, of constant stability.
std::array<double, 2> rest_at(double z) {
  constexpr double stability = 1e-4, ground = 300;
  const double theta = ground * std::exp(stability / gravity * z);
  const double exner = 1 - gravity * gravity / (heat_p * ground * stability) * (1 - ground / theta);
  const double rho   = surface / (gas * theta) * std::pow(exner, heat_v / gas);
  return {rho, rho * theta};
}

}  // namespace

Model::Model(MPI_Comm comm, int columns, int levels) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  grid_.comm    = comm;
  grid_.columns = columns;
  grid_.levels  = levels;
  grid_.first   = columns * rank / ranks;
  grid_.nx      = columns * (rank + 1) / ranks - grid_.first;
  grid_.dx      = length / columns;
  grid_.dz      = height / levels;
  grid_.dt      = std::min(grid_.dx, grid_.dz) / 400;

  const int nx = grid_.nx + 2 * ghosts, nz = levels + 2 * ghosts;
  const auto profile = [](int n) { return Profile("profile", static_cast<std::size_t>(n)); };
  at_rest_           = {profile(nz),         profile(nz),         profile(nz), profile(levels + 1),
                        profile(levels + 1), profile(levels + 1), profile(nx)};
  for (int z = 0; z < nz; ++z) {
    const auto [rho, theta] = rest_at((z - ghosts + 0.5) * grid_.dz);
    at_rest_.density(z)     = rho;
    at_rest_.theta(z)       = theta;
    at_rest_.pressure(z)    = pressure(theta);
  }
  for (int k = 0; k <= levels; ++k) {
    const auto [rho, theta]   = rest_at(k * grid_.dz);
    at_rest_.face_density(k)  = rho;
    at_rest_.face_theta(k)    = theta;
    at_rest_.face_pressure(k) = pressure(theta);
  }
  for (int x = 0; x < nx; ++x) {  // a ridge of 400 m, a quarter of the domain wide
    const double at   = (grid_.first + x - ghosts + 0.5) * grid_.dx / length - 0.5;
    at_rest_.slope(x) = std::fabs(at) < 0.125 ? -400 * 4 * pi / length * std::sin(8 * pi * at) : 0;
  }
  const auto make = [&](const char* label, int levels_in, int columns_in) {
    return State(label, variables, static_cast<std::size_t>(levels_in),
                 static_cast<std::size_t>(columns_in));
  };
  state_ = make("state", nz, nx);
  work_  = make("work", nz, nx);
  flux_  = make("flux", levels + 1, grid_.nx + 1);
  for (int z = 0; z < nz; ++z)
    for (int x = 0; x < nx; ++x) state_(momentum_x, z, x) = wind * at_rest_.density(z);
}

void Model::stage(bool vertical, const State& q, const State& to, double dt) {
  vertical ? fill_z(q) : fill_x(q);
  const double spacing = vertical ? grid_.dz : grid_.dx;
  over("flux", grid_.levels + (vertical ? 1 : 0), grid_.nx + (vertical ? 0 : 1),
       FluxKernel{q, flux_, at_rest_, grid_.levels, 0.05 * spacing / (16 * dt), vertical});
  over("update", grid_.levels, grid_.nx, UpdateKernel{state_, q, flux_, to, dt, spacing, vertical});
}

void Model::sweep(bool vertical) {
  stage(vertical, state_, work_, grid_.dt / 3);
  stage(vertical, work_, work_, grid_.dt / 2);
  stage(vertical, work_, state_, grid_.dt);
}

void Model::step() {
  const bool vertical_first = steps_++ % 2 != 0;
  sweep(vertical_first);
  sweep(!vertical_first);
  physics(state_);
  Kokkos::fence("the step is done");
}

}  // namespace host
