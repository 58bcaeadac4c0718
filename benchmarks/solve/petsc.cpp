// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PETSc on the same cells: CG, and as preconditioner PCMG (levels of the DMDA, Chebyshev with
// Jacobi twice before and after, as our cycle), GAMG or hypre's BoomerAMG. The operator is the same
// seven points, assembled.
#include <petscdmda.h>
#include <petscksp.h>

#include <stdexcept>

#include "poisson.hpp"

namespace poisson {

namespace {

void check(PetscErrorCode code, const char* what) {
  if (code != PETSC_SUCCESS) throw std::runtime_error(std::string("PETSc: ") + what + " failed");
}

/// The matrix of a DMDA's cells, fluxes through faces; a wall is at half the distance.
PetscErrorCode operators(KSP ksp, Mat, Mat matrix, void*) {
  DM da = nullptr;
  DMDALocalInfo info;
  check(KSPGetDM(ksp, &da), "KSPGetDM");
  check(DMDAGetLocalInfo(da, &info), "DMDAGetLocalInfo");
  const PetscInt n = info.mx;
  const double w   = 1.0 / static_cast<double>(n);
  for (PetscInt k = info.zs; k < info.zs + info.zm; ++k)
    for (PetscInt j = info.ys; j < info.ys + info.ym; ++j)
      for (PetscInt i = info.xs; i < info.xs + info.xm; ++i) {
        MatStencil row{k, j, i, 0}, columns[7];
        PetscScalar values[7];
        PetscInt count = 0;
        double here    = 0.0;
        for (int d = 0; d < 3; ++d)
          for (int side = -1; side <= 1; side += 2) {
            MatStencil c    = row;
            PetscInt& along = d == 0 ? c.i : d == 1 ? c.j : c.k;
            along += side;
            if (along < 0 || along >= n) {
              here += 2.0 * w;
              continue;
            }
            here += w;
            columns[count]  = c;
            values[count++] = -w;
          }
        columns[count]  = row;
        values[count++] = here;
        check(MatSetValuesStencil(matrix, 1, &row, count, columns, values, INSERT_VALUES),
              "values");
      }
  check(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY), "assembly");
  check(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY), "assembly");
  return PETSC_SUCCESS;
}

PetscErrorCode right_hand_sides(KSP ksp, Vec b, void*) {
  DM da = nullptr;
  DMDALocalInfo info;
  check(KSPGetDM(ksp, &da), "KSPGetDM");
  check(DMDAGetLocalInfo(da, &info), "DMDAGetLocalInfo");
  PetscScalar*** values = nullptr;
  const double volume   = 1.0 / (static_cast<double>(info.mx) * info.my * info.mz);
  check(DMDAVecGetArray(da, b, &values), "an array");
  for (PetscInt k = info.zs; k < info.zs + info.zm; ++k)
    for (PetscInt j = info.ys; j < info.ys + info.ym; ++j)
      for (PetscInt i = info.xs; i < info.xs + info.xm; ++i)
        values[k][j][i] = volume * right_hand_side(k, j, i);
  check(DMDAVecRestoreArray(da, b, &values), "an array");
  return PETSC_SUCCESS;
}

}  // namespace

struct Petsc::State {
  std::string kind;
  DM da   = nullptr;
  KSP ksp = nullptr;
};

Petsc::Petsc(MPI_Comm comm, int n, const char* kind) : state_(std::make_shared<State>()) {
  State& s = *state_;
  s.kind   = kind;
  PetscBool is_there;
  check(PetscInitialized(&is_there), "PetscInitialized");
  if (!is_there) {
    PETSC_COMM_WORLD = comm;
    check(PetscInitializeNoArguments(), "PetscInitialize");
  }
  int levels = 1;
  for (int cells = n; cells > 4 && cells % 2 == 0; cells /= 2) ++levels;
  const std::string prefix = s.kind + "_";
  const auto set           = [&](const char* name, const std::string& value) {
    check(PetscOptionsSetValue(nullptr, ("-" + prefix + name).c_str(), value.c_str()), name);
  };
  set("ksp_type", "cg");
  set("ksp_norm_type", "unpreconditioned");
  set("pc_type", kind);
  if (s.kind == "mg") {
    set("pc_mg_levels", std::to_string(levels));
    set("pc_mg_galerkin", "none");
    set("mg_levels_ksp_type", "chebyshev");
    set("mg_levels_pc_type", "jacobi");
    set("mg_levels_ksp_max_it", "2");
    set("mg_coarse_pc_type", "redundant");
  }
  // dimension 0 of ours is the slowest: z
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  check(DMDACreate3d(comm, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR,
                     n, n, n, 1, ranks <= 2 ? 1 : PETSC_DECIDE, ranks <= 2 ? ranks : PETSC_DECIDE,
                     1, 1, nullptr, nullptr, nullptr, &s.da),
        "DMDACreate3d");
  check(DMDASetInterpolationType(s.da, DMDA_Q0), "the interpolation between cells");
  check(DMSetUp(s.da), "DMSetUp");
  check(KSPCreate(comm, &s.ksp), "KSPCreate");
  check(KSPSetOptionsPrefix(s.ksp, prefix.c_str()), "KSPSetOptionsPrefix");
  check(KSPSetDM(s.ksp, s.da), "KSPSetDM");
  check(KSPSetComputeRHS(s.ksp, right_hand_sides, nullptr), "KSPSetComputeRHS");
  check(KSPSetComputeOperators(s.ksp, operators, nullptr), "KSPSetComputeOperators");
  check(KSPSetTolerances(s.ksp, tolerance, 0.0, PETSC_DEFAULT, 500), "KSPSetTolerances");
  check(KSPSetFromOptions(s.ksp), "KSPSetFromOptions");
  check(KSPSetUp(s.ksp), "KSPSetUp");
}

std::string Petsc::name() const { return "CG, " + state_->kind; }

Solved Petsc::solve() {
  State& s = *state_;
  check(KSPSolve(s.ksp, nullptr, nullptr), "KSPSolve");
  PetscInt iterations = 0;
  PetscReal residual = 0.0, rhs = 0.0;
  KSPConvergedReason reason;
  Vec b = nullptr;
  check(KSPGetIterationNumber(s.ksp, &iterations), "KSPGetIterationNumber");
  check(KSPGetResidualNorm(s.ksp, &residual), "KSPGetResidualNorm");
  check(KSPGetConvergedReason(s.ksp, &reason), "KSPGetConvergedReason");
  check(KSPGetRhs(s.ksp, &b), "KSPGetRhs");
  check(VecNorm(b, NORM_2, &rhs), "VecNorm");
  return {reason > 0 ? static_cast<int>(iterations) : -1, residual / rhs};
}

}  // namespace poisson
