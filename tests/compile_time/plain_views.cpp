// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same two arrays and the same kernel as sharded.cpp without shard.
#include <Kokkos_Core.hpp>
#include <mpi.h>

using Field = Kokkos::View<float***, Kokkos::LayoutRight>;

struct Smooth {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    to(l, i, j) =
        0.25f * (from(l, i - 1, j) + from(l, i + 1, j) + from(l, i, j - 1) + from(l, i, j + 1));
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  {
    const Field t("t", 32, 723, 1442), next("next", 32, 723, 1442);
    const Kokkos::DefaultExecutionSpace space;
    Kokkos::parallel_for("smooth",
                         Kokkos::MDRangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::Rank<3>>(
                             space, {0, 1, 1}, {32, 722, 1441}),
                         Smooth{t, next});
  }
  Kokkos::finalize();
  MPI_Finalize();
}
