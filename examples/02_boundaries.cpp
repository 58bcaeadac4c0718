// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values outside the global domain, drawn as text: a field of 4 rows and 6 columns with the
// values 10 row + column and a halo of 2. Each picture has another boundary of the rows; columns
// wrap round.
#include <shard/shard.hpp>

#include <cstdio>
#include <string>

struct Rows;

template <class Boundary>
void draw(const char* name, const shard::Mesh<Rows>& mesh) {
  using Field = shard::ShardedView<
      double**, Kokkos::LayoutRight, shard::ShardDim<0, Rows, shard::Halo<2>, Boundary>,
      shard::ShardDim<1, shard::Unsharded, shard::Halo<2>, shard::Periodic>, Kokkos::HostSpace>;
  Field t("t", mesh, {4, 6});
  for (int i = 0; i < t.extent(0); ++i)
    for (int j = 0; j < t.extent(1); ++j)
      t(i, j) =
          10.0 * static_cast<double>(t.to_global(0, i)) + static_cast<double>(t.to_global(1, j));
  shard::exchange(Kokkos::DefaultHostExecutionSpace(), t);

  // Each rank draws its shard, the owned points between bars; rank 0 prints the pictures in order.
  std::string picture = "rank " + std::to_string(mesh.rank()) + " owns " +
                        std::to_string(t.extent(0)) + " rows from " + std::to_string(t.begin(0)) +
                        "\n";
  for (int i = -2; i < t.extent(0) + 2; ++i) {
    for (int j = -2; j < t.extent(1) + 2; ++j) {
      const bool bar   = (j == 0 || j == t.extent(1)) && i >= 0 && i < t.extent(0);
      const auto value = std::to_string(static_cast<int>(t(i, j)));
      picture += (bar ? " |" : "  ") + std::string(4 - value.size(), ' ') + value;
    }
    picture += '\n';
  }
  const int length = static_cast<int>(picture.size());
  if (mesh.rank() != 0) MPI_Send(picture.data(), length, MPI_CHAR, 0, 0, mesh.communicator());
  if (mesh.rank() == 0) std::printf("\n%s\n%s", name, picture.c_str());
  for (int rank = 1; rank < mesh.size() && mesh.rank() == 0; ++rank) {
    MPI_Status status;
    int count = 0;
    MPI_Probe(rank, 0, mesh.communicator(), &status);
    MPI_Get_count(&status, MPI_CHAR, &count);
    std::string theirs(static_cast<std::size_t>(count), ' ');
    MPI_Recv(theirs.data(), count, MPI_CHAR, rank, 0, mesh.communicator(), MPI_STATUS_IGNORE);
    std::printf("%s", theirs.c_str());
  }
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Rows> mesh(environment.world(), {0});
  draw<shard::Zero>("Zero", mesh);
  draw<shard::Constant<99>>("Constant<99>", mesh);
  draw<shard::Periodic>("Periodic", mesh);
  draw<shard::Reflect>("Reflect: the edge row is not repeated", mesh);
  draw<shard::Symmetric>("Symmetric: the edge row is repeated", mesh);
  draw<shard::Clamp>("Clamp", mesh);
  draw<shard::Sides<shard::Clamp, shard::Zero>>("Sides<Clamp, Zero>", mesh);
  draw<shard::PoleFold<1, shard::Pole::on_row>>(
      "PoleFold, the poles on the first and last row: row -1 is row 1, half the globe away", mesh);
  draw<shard::PoleFold<1, shard::Pole::between_rows, shard::Parity::odd>>(
      "PoleFold, the poles between rows, a vector's component: row -1 is row 0, half the globe "
      "away, with the other sign",
      mesh);
}
