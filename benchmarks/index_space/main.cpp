// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Halo exchanges of an icosahedral Voronoi mesh, three layers of cells: by plans over MPI and over
// shared memory, and by hand as Omega's Halo does: for each field lists of cells are packed, sent
// (MPI_Isend), received (MPI_Irecv) and unpacked, one message for each neighbour and field. The
// ways alternate; times are medians of the slowest rank's. Prints a table: microseconds, and the
// hand-written time over ours.
//
// mpirun -n 2 index_space [--quick]
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "shard/shard.hpp"
#include "voronoi_mesh.hpp"
#include "support/turns.hpp"

namespace {

struct Ranks;
struct Cell;
using shard::index_t;
using Space = Kokkos::DefaultHostExecutionSpace;
using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, Ranks, shard::Indices<Cell>>, Kokkos::HostSpace>;
constexpr int layers = 3;

/// This rank's cells: its own, then the halo by layer, owner and id.
struct Cells {
  std::vector<std::int64_t> ids;
  std::vector<int> owner, layer;  // of the halo
  index_t owned = 0;

  Cells(const voronoi::Mesh& mesh, const std::vector<int>& owners, int rank) {
    std::vector<int> seen(mesh.cell.size(), -1);
    std::vector<int> rim;
    for (std::size_t c = 0; c < owners.size(); ++c)
      if (owners[c] == rank) {
        ids.push_back(static_cast<std::int64_t>(c));
        seen[c] = 0;
        rim.push_back(static_cast<int>(c));
      }
    owned = static_cast<index_t>(ids.size());
    for (int l = 1; l <= layers; ++l) {
      std::set<std::pair<int, int>> next;  // owner and id
      for (const int c : rim)
        for (const int e : mesh.edges_on_cell[static_cast<std::size_t>(c)])
          for (const int n : mesh.cells_on_edge[static_cast<std::size_t>(e)])
            if (seen[static_cast<std::size_t>(n)] < 0)
              next.emplace(owners[static_cast<std::size_t>(n)], n);
      rim.clear();
      for (const auto& [o, n] : next) {
        seen[static_cast<std::size_t>(n)] = l;
        ids.push_back(n);
        owner.push_back(o);
        layer.push_back(l);
        rim.push_back(n);
      }
    }
  }
};

/// The exchange of one field, written by hand.
class ByHand {
 public:
  ByHand(MPI_Comm comm, const Cells& cells, index_t levels) : comm_(comm), levels_(levels) {
    std::map<int, std::vector<std::int64_t>> wanted;
    for (std::size_t h = 0; h < cells.owner.size(); ++h) {
      wanted[cells.owner[h]].push_back(cells.ids[static_cast<std::size_t>(cells.owned) + h]);
      from_[cells.owner[h]].places.push_back(static_cast<int>(cells.owned) + static_cast<int>(h));
    }
    std::map<std::int64_t, int> place;
    for (index_t i = 0; i < cells.owned; ++i)
      place[cells.ids[static_cast<std::size_t>(i)]] = static_cast<int>(i);
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    std::vector<int> ask(static_cast<std::size_t>(ranks)), asked(ask.size());
    for (const auto& [rank, ids] : wanted)
      ask[static_cast<std::size_t>(rank)] = static_cast<int>(ids.size());
    MPI_Alltoall(ask.data(), 1, MPI_INT, asked.data(), 1, MPI_INT, comm);
    std::vector<MPI_Request> requests;
    for (auto& [rank, ids] : wanted)
      MPI_Isend(ids.data(), static_cast<int>(ids.size()), MPI_INT64_T, rank, 1, comm,
                &requests.emplace_back());
    for (int rank = 0; rank < ranks; ++rank) {
      if (asked[static_cast<std::size_t>(rank)] == 0) continue;
      std::vector<std::int64_t> ids(
          static_cast<std::size_t>(asked[static_cast<std::size_t>(rank)]));
      MPI_Recv(ids.data(), static_cast<int>(ids.size()), MPI_INT64_T, rank, 1, comm,
               MPI_STATUS_IGNORE);
      for (const std::int64_t id : ids) to_[rank].places.push_back(place.at(id));
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (auto* side : {&to_, &from_})
      for (auto& [rank, list] : *side)
        list.buffer.resize(list.places.size() * static_cast<std::size_t>(levels));
  }
  void operator()(double* values) {
    requests_.clear();
    for (auto& [rank, list] : from_)
      MPI_Irecv(list.buffer.data(), static_cast<int>(list.buffer.size()), MPI_DOUBLE, rank, 0,
                comm_, &requests_.emplace_back());
    for (auto& [rank, list] : to_) {
      double* buffer = list.buffer.data();
      for (const int place : list.places)
        for (index_t k = 0; k < levels_; ++k) *buffer++ = values[place * levels_ + k];
      MPI_Isend(list.buffer.data(), static_cast<int>(list.buffer.size()), MPI_DOUBLE, rank, 0,
                comm_, &requests_.emplace_back());
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (auto& [rank, list] : from_) {
      const double* buffer = list.buffer.data();
      for (const int place : list.places)
        for (index_t k = 0; k < levels_; ++k) values[place * levels_ + k] = *buffer++;
    }
  }

 private:
  struct List {
    std::vector<int> places;
    std::vector<double> buffer;
  };
  MPI_Comm comm_;
  index_t levels_;
  std::map<int, List> to_, from_;
  std::vector<MPI_Request> requests_;
};

void run(const shard::Mesh<Ranks>& mesh, const Cells& cells, std::size_t all, index_t levels,
         int count, int turns) {
  const shard::IndexSpace<Cell, Ranks> space(
      mesh, shard::by_global_ids(cells.ids, cells.owned, cells.layer));
  std::vector<Field> fields;
  for (int f = 0; f < count; ++f) {
    fields.emplace_back("field", mesh,
                        std::array{space.partition(), shard::Partition::whole(levels)});
    for (index_t i = 0; i < cells.owned; ++i)
      for (index_t k = 0; k < levels; ++k)
        fields.back()(i, k) =
            static_cast<double>(cells.ids[static_cast<std::size_t>(i)] * 100 + k + f);
  }
  ByHand by_hand(mesh.communicator(), cells, levels);
  const shard::Exchange over_mpi(shard::Tuning{.transport = shard::TransportKind::mpi}, fields);
  const shard::Exchange shared(fields);
  const Space serial;
  const std::vector<double> times =
      support::in_turns(mesh.communicator(), turns, 4,
                        {[&] {
                           for (const Field& f : fields) by_hand(f.view().data());
                         },
                         [&] { over_mpi(serial); }, [&] { shared(serial); }});
  int wrong = 0;
  for (std::size_t i = 0; i < cells.ids.size(); ++i)
    wrong += fields.back()(i, levels - 1) ==
                     static_cast<double>(cells.ids[i] * 100 + levels - 1 + count - 1)
                 ? 0
                 : 1;
  if (mesh.rank() == 0)
    std::printf(
        "%7zu cells, %2d levels, %d fields: by hand %8.1f us, MPI %8.1f (%.2f), shared memory "
        "%8.1f (%.2f)%s\n",
        all, static_cast<int>(levels), count, times[0], times[1], times[0] / times[1], times[2],
        times[0] / times[2], wrong == 0 ? "" : ", WRONG VALUES");
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const shard::Mesh<Ranks> mesh(environment.world(), {0});
  for (const int level : quick ? std::vector{3} : std::vector{5, 7}) {
    const voronoi::Mesh globe(level);
    const Cells cells(globe, shard::bisection(globe.cell, mesh.size()), mesh.rank());
    for (const index_t levels : {1, 60})
      for (const int count : {1, 8})
        run(mesh, cells, globe.cell.size(), levels, count, quick ? 3 : 101);
  }
  return 0;
}
