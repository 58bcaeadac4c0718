// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model of the kind that exists before shard: a slice of a stratified atmosphere over a mountain.
// It has its own MPI calls, decomposition and arrays with ghost cells. It includes nothing of
// shard, and model.hpp and model.cpp stay as they are when shard is taken in.
//
// Compressible Euler equations in two dimensions as deviations from a hydrostatic background,
// finite volumes of fourth order, one direction after the other, three stages of Runge and Kutta
// for each. The algorithm is that of miniWeather (Norman 2020).
#ifndef HOST_MODEL_MODEL_HPP
#define HOST_MODEL_MODEL_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <array>

namespace host {

using Space   = Kokkos::DefaultHostExecutionSpace;
using Profile = Kokkos::View<double*, Kokkos::HostSpace>;
/// state(variable, z, x), with ghost cells on both sides of z and x.
using State = Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace>;

/// Density and density x potential temperature are deviations from the background.
enum Variable { density, momentum_x, momentum_z, density_theta, variables };
constexpr int ghosts = 2;

constexpr double gravity = 9.81, gas = 287.0, heat_p = 1004.0, heat_v = 717.0, surface = 1e5;

/// The pressure of a density x potential temperature.
KOKKOS_INLINE_FUNCTION double pressure(double rho_theta) {
  return surface * Kokkos::pow(gas * rho_theta / surface, heat_p / heat_v);
}

/// The domain, and this rank's columns of it.
struct Grid {
  MPI_Comm comm = MPI_COMM_NULL;
  int columns = 0, levels = 0;  // of the domain
  int first = 0, nx = 0;        // this rank's columns
  double dx = 0, dz = 0, dt = 0;
};

/// The state of rest, and the ground.
struct Background {
  Profile density, theta, pressure;                 // of levels, ghost cells included
  Profile face_density, face_theta, face_pressure;  // between levels
  Profile slope;                                    // of the ground, in each column
};

/// Mass and energy of a cell, per area.
struct CellTotals {
  State q;
  Background at_rest;
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int k, int i) const {
    const int z = k + ghosts, x = i + ghosts;
    const double rho = q(density, z, x) + at_rest.density(z),
                 p   = pressure(q(density_theta, z, x) + at_rest.theta(z)),
                 u = q(momentum_x, z, x) / rho, w = q(momentum_z, z, x) / rho;
    return {rho, heat_v / gas * p + 0.5 * rho * (u * u + w * w)};
  }
};

/// The model. Its functions are virtual only so that one program can compare them with those that
/// replace them.
class Model {
 public:
  Model(MPI_Comm comm, int columns, int levels);
  Model(const Model&)            = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model()               = default;

  void step();
  /// Mass and energy of the domain.
  virtual std::array<double, 2> totals() const;

  const Grid& grid() const { return grid_; }
  const State& state() const { return state_; }

 protected:
  /// Fills the ghost cells at the sides: those of the neighbours, periodic.
  virtual void fill_x(const State& q);
  /// Fills the ghost cells below the ground and above the lid.
  virtual void fill_z(const State& q);
  /// What a cell's own processes change in a step.
  virtual void physics(const State&) {}

  Grid grid_;
  Background at_rest_;

  State state_;

 private:
  void sweep(bool vertical);
  void stage(bool vertical, const State& q, const State& to, double dt);

  State work_, flux_;
  int steps_ = 0;
};

}  // namespace host

#endif
