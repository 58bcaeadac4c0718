// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SOLVE_POISSON_HPP
#define SHARD_BENCHMARKS_SOLVE_POISSON_HPP

#include <Kokkos_Macros.hpp>
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

/// -div(grad x) = b on n^3 cells of the unit cube, x = 0 at the walls.
namespace poisson {

inline constexpr double tolerance = 1e-8;  ///< of the residual, relative to b

struct Solved {
  int iterations  = 0;  ///< -1 if it didn't converge
  double residual = 0;  ///< relative to b
};

KOKKOS_INLINE_FUNCTION double right_hand_side(std::int64_t i, std::int64_t j, std::int64_t k) {
  const auto bits = static_cast<std::uint64_t>(i * 1'048'583 + j * 4'099 + k) * 0x9e3779b97f4a7c15;
  return static_cast<double>(bits >> 11) * 0x1.0p-52 - 1.0;
}

/// PETSc's conjugate gradients on a DMDA with a preconditioner: "mg", "gamg" or "hypre".
class Petsc {
 public:
  Petsc(MPI_Comm comm, int n, const char* kind);
  std::string name() const;
  Solved solve();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace poisson

#endif
