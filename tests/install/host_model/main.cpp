// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A host model in small: MPI, Kokkos, the communicator, the decomposition and the Views with ghost
// cells are its own. shard wraps them in place, exchanges, and leaves everything running. All ranks
// return 0 if every ghost cell holds what it should.
#include <shard/shard.hpp>

#include <cstdio>

namespace host {

constexpr int rows = 23, columns = 12, levels = 3;
constexpr int ghosts = 2;  // rows on each side; columns are not cut, one ghost on each side

// The model's own way of cutting: the first rank takes half of what a fair share would be, the last
// one the rest.
struct Domain {
  MPI_Comm comm;
  int rank = 0, size = 1, first = 0, count = 0;

  explicit Domain(MPI_Comm c) : comm(c) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int fair = rows / size;
    count          = rank == 0 ? fair / 2 : fair;
    first          = rank == 0 ? 0 : fair / 2 + (rank - 1) * fair;
    if (rank == size - 1) count = rows - first;
  }
};

using Array =
    Kokkos::View<double***, Kokkos::LayoutRight>;  // level x row x column, with ghost cells

double value(int level, int row, int column) { return 10000.0 * level + 100.0 * row + column; }

}  // namespace host

struct Rows;  // shard's name of the host's one axis

using Field =
    shard::ShardedView<double***, Kokkos::LayoutRight,
                       shard::ShardDim<1, Rows, shard::Halo<host::ghosts>, shard::Clamp>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<1>, shard::Periodic>>;

namespace {

/// Wrong ghost and owned cells of this rank.
int count_wrong(const host::Domain& domain, const host::Array& array) {
  const auto cells = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), array);
  int wrong        = 0;
  for (int l = 0; l < host::levels; ++l)
    for (int i = -host::ghosts; i < domain.count + host::ghosts; ++i)
      for (int j = -1; j <= host::columns; ++j) {
        int row = domain.first + i;
        row     = row < 0 ? 0 : row >= host::rows ? host::rows - 1 : row;
        wrong += cells(l, i + host::ghosts, j + 1) !=
                         host::value(l, row, (j + host::columns) % host::columns)
                     ? 1
                     : 0;
      }
  return wrong;
}

int run(const host::Domain& domain) {
  const host::Array array("host's temperature", host::levels, domain.count + 2 * host::ghosts,
                          host::columns + 2);
  const auto mirror = Kokkos::create_mirror_view(array);
  for (int l = 0; l < host::levels; ++l)
    for (int i = 0; i < domain.count; ++i)
      for (int j = 0; j < host::columns; ++j)
        mirror(l, i + host::ghosts, j + 1) = host::value(l, domain.first + i, j);
  Kokkos::deep_copy(array, mirror);

  const shard::Mesh<Rows> mesh(domain.comm, {domain.size});
  const Field field(mesh, array,
                    {shard::Partition::balanced(host::levels, 1),
                     shard::partition_from_counts<Rows>(mesh, domain.count),
                     shard::Partition::balanced(host::columns, 1)});
  const Kokkos::DefaultExecutionSpace space;
  shard::exchange(space, field);
  space.fence();
  return count_wrong(domain, array);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  int wrong = 0, rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  {
    // a communicator of the model's own, ranks in another order
    MPI_Comm model = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &model);
    const host::Domain domain(model);
    wrong = run(domain) + run(domain);

    // shard is gone; the host goes on with what is its own
    const Kokkos::View<int*> still("still running", 4);
    Kokkos::deep_copy(still, 1);
    int mine = 1, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, model);
    if (all != size || !Kokkos::is_initialized()) ++wrong;
    MPI_Comm_free(&model);
  }
  int total = 0;
  MPI_Allreduce(&wrong, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("host model on %d ranks: %d wrong cells\n", size, total);
  Kokkos::finalize();
  MPI_Finalize();
  return total == 0 ? 0 : 1;
}
