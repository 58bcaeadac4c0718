// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Halo exchanges of a cubed sphere in blocks, three cells wide: by plans over MPI and over shared
// memory, and by hand: for each field lists of cells are packed, sent (MPI_Isend), received
// (MPI_Irecv) and unpacked, one message for each neighbour and field. The ways alternate; times are
// medians of the slowest rank's. Prints a table: microseconds, and the hand-written time over ours.
//
// mpirun -n 2 tiles [--quick | CELLS CUTS LEVELS FIELDS]: one case
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shard/shard.hpp"
#include "support/turns.hpp"

namespace {

struct Ranks;
struct Sphere;
using shard::index_t;
using Space         = Kokkos::DefaultHostExecutionSpace;
using Grid          = shard::BlockGrid<Sphere, Ranks>;
constexpr int width = 3;
/// field(block, level, y, x)
using Field = shard::ShardedView<
    double****, Kokkos::LayoutRight, shard::ShardDim<0, Ranks, shard::Blocks<Sphere>>,
    shard::ShardDim<2, shard::Unsharded, shard::Halo<width>, shard::LinkedY>,
    shard::ShardDim<3, shard::Unsharded, shard::Halo<width>, shard::LinkedX>, Kokkos::HostSpace>;

/// The blocks of all ranks, each rank's one after the other.
std::vector<std::pair<int, shard::TileBlock>> blocks_of_all(MPI_Comm comm, const Grid& grid) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  const int mine = static_cast<int>(grid.count() * 3);
  std::vector<index_t> own;
  for (index_t b = 0; b < grid.count(); ++b)
    own.insert(own.end(), {grid.block(b).tile, grid.block(b).y, grid.block(b).x});
  std::vector<int> counts(static_cast<std::size_t>(ranks)), begins(counts.size(), 0);
  MPI_Allgather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, comm);
  for (std::size_t r = 1; r < counts.size(); ++r) begins[r] = begins[r - 1] + counts[r - 1];
  std::vector<index_t> all(static_cast<std::size_t>(begins.back() + counts.back()));
  MPI_Allgatherv(own.data(), mine, MPI_INT64_T, all.data(), counts.data(), begins.data(),
                 MPI_INT64_T, comm);
  std::vector<std::pair<int, shard::TileBlock>> blocks;
  for (int r = 0; r < ranks; ++r)
    for (int k = 0; k < counts[static_cast<std::size_t>(r)]; k += 3) {
      const index_t* at = all.data() + begins[static_cast<std::size_t>(r)] + k;
      blocks.push_back({r, {static_cast<int>(at[0]), at[1], at[2]}});
    }
  return blocks;
}

/// The exchange of one field of scalars, written by hand.
class ByHand {
 public:
  ByHand(MPI_Comm comm, const Grid& grid, const Field& f) : comm_(comm), levels_(f.extent(1)) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    const index_t ny = f.extent(2), nx = f.extent(3);
    level_           = f.stride(1);
    const auto place = [&](index_t block, index_t j, index_t i) {
      return block * f.stride(0) + j * f.stride(2) + i;
    };
    const auto blocks = blocks_of_all(comm, grid);
    std::vector<index_t> local(blocks.size());  // number on its rank
    for (std::size_t b = 1; b < blocks.size(); ++b)
      local[b] = blocks[b].first == blocks[b - 1].first ? local[b - 1] + 1 : 0;
    const auto block_at = [&](int tile, index_t y, index_t x) {
      std::size_t b = 0;
      while (blocks[b].second.tile != tile || blocks[b].second.y != y / ny * ny ||
             blocks[b].second.x != x / nx * nx)
        ++b;
      return b;
    };
    for (std::size_t b = 0; b < blocks.size(); ++b)
      for (index_t j = -width; j < ny + width; ++j)
        for (index_t i = -width; i < nx + width; ++i) {
          if (j >= 0 && j < ny && i >= 0 && i < nx) continue;
          const shard::TileBlock& here = blocks[b].second;
          const auto at =
              shard::image_of(grid.tiles(), here.tile, 2 * (here.y + j) + 1, 2 * (here.x + i) + 1);
          if (!at.exists) continue;
          const std::size_t of = block_at(at.tile, at.y / 2, at.x / 2);
          const int to = blocks[b].first, from = blocks[of].first;
          const index_t source = place(local[of], at.y / 2 % ny, at.x / 2 % nx),
                        target = place(local[b], j, i);
          if (to == rank && from == rank)
            here_.push_back({target, source});
          else if (to == rank)
            from_[from].places.push_back(target);
          else if (from == rank)
            to_[to].places.push_back(source);
        }
    for (auto* side : {&to_, &from_})
      for (auto& [peer, list] : *side)
        list.buffer.resize(list.places.size() * static_cast<std::size_t>(levels_));
  }
  /// `origin`: the first cell of a field's first block.
  void operator()(double* origin) {
    requests_.clear();
    for (auto& [rank, list] : from_)
      MPI_Irecv(list.buffer.data(), static_cast<int>(list.buffer.size()), MPI_DOUBLE, rank, 0,
                comm_, &requests_.emplace_back());
    for (auto& [rank, list] : to_) {
      double* buffer = list.buffer.data();
      for (index_t l = 0; l < levels_; ++l)
        for (const index_t place : list.places) *buffer++ = origin[l * level_ + place];
      MPI_Isend(list.buffer.data(), static_cast<int>(list.buffer.size()), MPI_DOUBLE, rank, 0,
                comm_, &requests_.emplace_back());
    }
    for (index_t l = 0; l < levels_; ++l)
      for (const auto& [target, source] : here_)
        origin[l * level_ + target] = origin[l * level_ + source];
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (auto& [rank, list] : from_) {
      const double* buffer = list.buffer.data();
      for (index_t l = 0; l < levels_; ++l)
        for (const index_t place : list.places) origin[l * level_ + place] = *buffer++;
    }
  }

 private:
  struct List {
    std::vector<index_t> places;
    std::vector<double> buffer;
  };
  MPI_Comm comm_;
  index_t levels_, level_ = 0;
  std::vector<std::pair<index_t, index_t>> here_;
  std::map<int, List> to_, from_;
  std::vector<MPI_Request> requests_;
};

void run(const shard::Mesh<Ranks>& mesh, index_t cells, index_t cuts, index_t levels, int count,
         int turns) {
  const Grid grid(mesh, shard::cubed_sphere(cells), {.block = {cells / cuts, cells / cuts}});
  std::vector<Field> fields, others;
  for (auto* list : {&fields, &others})
    for (int f = 0; f < count; ++f) {
      list->emplace_back("field", mesh,
                         std::array{grid.at(shard::At::centre), shard::Partition::whole(levels),
                                    grid.y(), grid.x()});
      for (index_t b = 0; b < grid.count(); ++b)
        for (index_t l = 0; l < levels; ++l)
          for (index_t j = 0; j < cells / cuts; ++j)
            for (index_t i = 0; i < cells / cuts; ++i) {
              const shard::TileBlock& at = grid.block(b);
              list->back()(b, l, j, i)   = static_cast<double>(
                  ((at.tile * cells + at.y + j) * cells + at.x + i) * 100 + l + f);
            }
    }
  ByHand by_hand(mesh.communicator(), grid, fields.front());
  const shard::Exchange over_mpi(shard::Tuning{.transport = shard::TransportKind::mpi}, fields);
  const shard::Exchange shared(fields);
  const Space serial;
  const std::vector<double> times =
      support::in_turns(mesh.communicator(), turns, 4,
                        {[&] {
                           for (const Field& f : others) by_hand(f.origin());
                         },
                         [&] { over_mpi(serial); }, [&] { shared(serial); }});
  int wrong        = 0;
  const auto& ours = fields.back().view();
  const auto& hand = others.back().view();
  for (std::size_t n = 0; n < ours.size(); ++n) wrong += ours.data()[n] == hand.data()[n] ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, mesh.communicator());
  if (mesh.rank() == 0)
    std::printf(
        "C%-3d in %3d blocks, %2d levels, %d fields: by hand %8.1f us, MPI %8.1f (%.2f), shared "
        "memory %8.1f (%.2f)%s\n",
        static_cast<int>(cells), static_cast<int>(6 * cuts * cuts), static_cast<int>(levels), count,
        times[0], times[1], times[0] / times[1], times[2], times[0] / times[2],
        wrong == 0 ? "" : ", WRONG VALUES");
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const shard::Mesh<Ranks> mesh(environment.world(), {0});
  if (argc > 4) {
    run(mesh, std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), 1001);
    return 0;
  }
  for (const index_t cells : quick ? std::vector<index_t>{12} : std::vector<index_t>{48, 192})
    for (const index_t cuts : {1, 2})
      for (const index_t levels : {1, 32})
        for (const int count : {1, 8}) run(mesh, cells, cuts, levels, count, quick ? 3 : 101);
  return 0;
}
