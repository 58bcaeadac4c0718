// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PETSc's scatter at its best: on the halo cells alone, in place, all fields in one. The global
// vector is the memory that the fields span; the local one is the same memory.
#include <petscvec.h>

#include <limits>
#include <stdexcept>

#include "problem.hpp"

namespace peers {

namespace {

void check(PetscErrorCode code, const char* what) {
  if (code != PETSC_SUCCESS) throw std::runtime_error(std::string("PETSc: ") + what + " failed");
}

class Petsc : public Competitor {
 public:
  Petsc(const Problem& p, PetscScalar* base, index_t size, index_t first) {
    const auto local = static_cast<PetscInt>(size);
    check(VecCreateMPIWithArray(p.comm, 1, local, PETSC_DETERMINE, base, &from_), "a vector");
    check(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, local, base, &to_), "a vector");
    // of each rank: where its part of the global vector begins, and each field's first owned cell
    std::vector<index_t> mine{first};
    for (std::byte* origin : p.origins)
      mine.push_back(reinterpret_cast<PetscScalar*>(origin) - base);
    int ranks = 1;
    MPI_Comm_size(p.comm, &ranks);
    std::vector<index_t> all(mine.size() * static_cast<std::size_t>(ranks));
    const int count = static_cast<int>(mine.size());
    MPI_Allgather(mine.data(), count, MPI_INT64_T, all.data(), count, MPI_INT64_T, p.comm);
    const Sources sources(p);
    std::vector<PetscInt> from, to;
    for (std::size_t f = 0; f < p.origins.size(); ++f)
      for (int d = 0; d < dims; ++d)
        if (p.width[static_cast<std::size_t>(d)] > 0)
          for (const Box& box : {low_halo(p, d), high_halo(p, d)})
            for_cells(p, box, [&](const std::array<index_t, dims>& at, index_t offset) {
              const Sources::Source s = sources.of(at);
              const auto* theirs      = &all[static_cast<std::size_t>(s.rank) * mine.size()];
              from.push_back(static_cast<PetscInt>(theirs[0] + theirs[1 + f] + s.offset));
              to.push_back(static_cast<PetscInt>(mine[1 + f] + offset));
            });
    IS is_from = nullptr, is_to = nullptr;
    const auto n = static_cast<PetscInt>(from.size());
    check(ISCreateGeneral(p.comm, n, from.data(), PETSC_COPY_VALUES, &is_from), "an index set");
    check(ISCreateGeneral(PETSC_COMM_SELF, n, to.data(), PETSC_COPY_VALUES, &is_to),
          "an index set");
    check(VecScatterCreate(from_, is_from, to_, is_to, &scatter_), "VecScatterCreate");
    check(ISDestroy(&is_from), "ISDestroy");
    check(ISDestroy(&is_to), "ISDestroy");
  }
  ~Petsc() override {
    static_cast<void>(VecScatterDestroy(&scatter_));
    static_cast<void>(VecDestroy(&from_));
    static_cast<void>(VecDestroy(&to_));
  }
  void exchange() override {
    check(VecScatterBegin(scatter_, from_, to_, INSERT_VALUES, SCATTER_FORWARD), "the scatter");
    check(VecScatterEnd(scatter_, from_, to_, INSERT_VALUES, SCATTER_FORWARD), "the scatter");
  }

 private:
  Vec from_ = nullptr, to_ = nullptr;
  VecScatter scatter_ = nullptr;
};

}  // namespace

std::unique_ptr<Competitor> make_petsc(const Problem& p, std::string& reason) {
  if (p.value_bytes != sizeof(PetscScalar)) {
    reason = "this PETSc's scalars are double";
    return nullptr;
  }
  index_t before = 0, after = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    before += p.width[d] * p.stride[d];
    after += (p.extent[d] - 1 + p.width[d]) * p.stride[d];
  }
  const auto [lowest, highest] = std::minmax_element(p.origins.begin(), p.origins.end());
  auto* base                   = reinterpret_cast<PetscScalar*>(*lowest) - before;
  index_t size = reinterpret_cast<PetscScalar*>(*highest) + after - base, first = 0, total = 0;
  MPI_Exscan(&size, &first, 1, MPI_INT64_T, MPI_SUM, p.comm);
  int rank = 0;
  MPI_Comm_rank(p.comm, &rank);
  if (rank == 0) first = 0;
  MPI_Allreduce(&size, &total, 1, MPI_INT64_T, MPI_SUM, p.comm);
  if (total > std::numeric_limits<PetscInt>::max()) {
    reason = "the fields lie too far apart for this PETSc's indices";
    return nullptr;
  }
  PetscBool running = PETSC_FALSE;
  check(PetscInitialized(&running), "PetscInitialized");
  if (running == PETSC_FALSE) check(PetscInitializeNoArguments(), "PetscInitialize");
  return std::make_unique<Petsc>(p, base, size, first);
}

void end_petsc() {
  PetscBool running = PETSC_FALSE;
  static_cast<void>(PetscInitialized(&running));
  if (running == PETSC_TRUE) static_cast<void>(PetscFinalize());
}

}  // namespace peers
