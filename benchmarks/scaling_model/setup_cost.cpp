// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank of many takes to be set up, in time and memory: its mesh, plans, coupling and index
// space, each made in this process by the steps that a rank takes between messages. Time in
// messages is not counted, nor the memory of fields and message buffers.
//
// setup_cost [--ranks N] [--rounds N]
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../src/redistribute/coupling_route.hpp"
#include "../../src/view/index_directory.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
#include "shard/shard.hpp"
#include "support/arguments.hpp"
#include "support/counted_memory.hpp"
#include "support/imagined_ranks.hpp"
#include "support/turns.hpp"

namespace {

using namespace shard;
using impl::CoupledSide;
using impl::IndexHalo;
using impl::IndexInput;
using Id = std::int64_t;

struct X;
struct Y;
struct Z;
struct Cell;

template <class Number>
std::size_t at(Number i) {
  return static_cast<std::size_t>(i);
}

struct Cost {
  std::vector<double> microseconds{};
  std::size_t kept = 0, most = 0;  ///< bytes
};

/// The cost of make(), whose result is kept meanwhile.
template <class Make>
void add_cost(Cost& cost, const Make& make) {
  const std::size_t before = counted_memory::start();
  imagined::time_in_mpi();
  const double begin               = MPI_Wtime();
  [[maybe_unused]] const auto made = make();
  cost.microseconds.push_back((MPI_Wtime() - begin) * 1e6 - imagined::time_in_mpi() * 1e-3);
  cost.most = std::max(cost.most, counted_memory::most() - before);
  cost.kept = counted_memory::start() - before;
}

void print(const char* what, int ranks, const Cost& cost) {
  std::printf("| %s | %d | %.0f | %.1f | %.1f |\n", what, ranks, support::median(cost.microseconds),
              static_cast<double>(cost.kept) / 1024, static_cast<double>(cost.most) / 1024);
}

void mesh(int ranks, int rounds) {
  Cost cost;
  for (int round = 0; round < rounds; ++round) {
    imagined::begin(ranks, ranks / 2, impl::choose_shape(ranks, {0, 0, 0}, {}));
    add_cost(cost, [] {
      return std::make_shared<Mesh<X, Y, Z>>(MPI_COMM_SELF, std::vector<int>{0, 0, 0});
    });
    imagined::end();
  }
  print("mesh of three axes", ranks, cost);
}

void exchange_plan(int ranks, int rounds) {
  using Field = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Periodic>,
                            ShardDim<1, Y, Halo<1>, Periodic>, ShardDim<2, Z, Halo<1>, Periodic>,
                            Kokkos::HostSpace>;
  Cost cost;
  imagined::begin(ranks, ranks / 2);
  {
    const Mesh<X, Y, Z> on(MPI_COMM_SELF, {0, 0, 0});
    const Field t("t", on, {32 * on.size<X>(), 32 * on.size<Y>(), 32 * on.size<Z>()});
    for (int round = 0; round < rounds; ++round)
      add_cost(cost, [&] { return std::make_shared<Exchange<Field>>(t); });
  }
  imagined::end();
  print("exchange plan, 26 neighbours", ranks, cost);
}

void transpose_plan(int ranks, int rounds) {
  using From = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Y>, ShardDim<1, X>>;
  using To   = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Y>, ShardDim<2, X>>;
  const std::vector<int> shape = impl::choose_shape(ranks, {0, 0}, {});
  Cost cost;
  for (int round = 0; round < rounds; ++round) {
    imagined::begin(ranks, ranks / 2, shape);
    {
      const Mesh<Y, X> on(MPI_COMM_SELF, {0, 0});
      const std::array<index_t, 3> extents{2 * shape[0], 2 * shape[1], shape[1]};
      const From from("from", on, extents);
      const To to("to", on, extents);
      // kept by the mesh; the moved values are a kilobyte
      add_cost(cost, [&] {
        redistribute(Kokkos::DefaultHostExecutionSpace(), to, from);
        return 0;
      });
    }
    imagined::end();
  }
  print("plan of a transpose in pencils", ranks, cost);
}

/// A two-dimensional field with `points` points, sharded over both axes of a mesh of all ranks.
CoupledSide side_of(int ranks, std::vector<int> shape, index_t points) {
  CoupledSide side;
  side.shape = {shape[0], shape[1]};
  side.mesh_rank.resize(at(ranks));
  std::iota(side.mesh_rank.begin(), side.mesh_rank.end(), 0);
  std::vector<int> numbers(at(ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  side.set_ranks(std::move(numbers), ranks);
  impl::CoupledField field;
  field.rank = 2;
  for (index_t d = 0; d < 2; ++d) {
    impl::CoupledField::Dim dim;
    const auto cut = Partition::balanced(points, shape[at(d)]);
    for (int p = 0; p <= shape[at(d)]; ++p) dim.begin.push_back(cut.begin(p));
    dim.axes = {d};
    field.dims.push_back(dim);
  }
  side.fields = {field};
  return side;
}

void coupling(int ranks, int rounds) {
  const std::vector<int> square = impl::choose_shape(ranks, {0, 0}, {});
  const index_t points          = index_t{16} * square[0];
  Cost cost;
  for (int round = 0; round < rounds; ++round)
    add_cost(cost, [&] {
      struct Made {
        CoupledSide to, from;
        impl::Route route;
      };
      auto made   = std::make_shared<Made>();
      made->to    = side_of(ranks, {square[0] / 4, square[1] * 4}, points);
      made->from  = side_of(ranks, square, points);
      made->route = impl::route_between(made->to, made->from, ranks / 2, false, {""});
      return made;
    });
  print("coupling: both sides and the route", ranks, cost);
}

/// The cells of a torus in compact square parts of `side` x `side` cells, one for each rank.
struct Torus {
  int rows, columns;  ///< of ranks
  Id side;

  Id width() const { return columns * side; }
  Id height() const { return rows * side; }
  Id id(Id i, Id j) const { return (i + height()) % height() * width() + (j + width()) % width(); }
  impl::Home home(Id id) const {
    const Id i = id / width(), j = id % width();
    return {i / side * columns + j / side, i % side * side + j % side};
  }
  /// A rank's cells, and those around them.
  IndexInput input(int rank) const {
    IndexInput made;
    const Id top = rank / columns * side, left = rank % columns * side;
    for (Id i = 0; i < side; ++i)
      for (Id j = 0; j < side; ++j) made.ids.push_back(id(top + i, left + j));
    made.owned = static_cast<index_t>(made.ids.size());
    for (Id i = -1; i <= side; ++i)
      for (Id j = -1; j <= side; ++j)
        if (i < 0 || j < 0 || i == side || j == side) made.ids.push_back(id(top + i, left + j));
    return made;
  }
  std::vector<impl::Home> homes(const IndexInput& input) const {
    std::vector<impl::Home> all;
    for (std::size_t k = at(input.owned); k < input.ids.size(); ++k)
      all.push_back(home(input.ids[k]));
    return all;
  }
};

/// False if the halo isn't that of the torus.
bool index_space(int ranks, int rounds) {
  const std::vector<int> shape = impl::choose_shape(ranks, {0, 0}, {});
  const Torus torus{shape[0], shape[1], 16};
  const int me           = ranks / 2;
  const IndexInput input = torus.input(me);
  impl::IdRange range;
  range.ends[0] = ~Id{0};
  range.ends[1] = torus.width() * torus.height() - 1;
  range.total   = torus.width() * torus.height();
  // the messages that this rank receives
  const Id block = range.ends[1] / ranks + 1;
  impl::Mail announced, asked;
  for (Id id = me * block; id < std::min((me + 1) * block, range.total); ++id) {
    const impl::Home home = torus.home(id);
    auto& list            = announced[static_cast<int>(home.rank)];
    list.push_back(id);
    list.push_back(home.place);
    std::set<int> near;
    for (const Id i : {-1, 0, 1})
      for (const Id j : {-1, 0, 1})
        near.insert(static_cast<int>(
            torus.home(torus.id(id / torus.width() + i, id % torus.width() + j)).rank));
    near.erase(static_cast<int>(home.rank));
    for (const int rank : near) asked[rank].push_back(id);
  }
  std::map<int, std::vector<impl::AskedElement>> of_owners;
  std::set<int> neighbours;
  for (const impl::Home& home : torus.homes(input)) neighbours.insert(static_cast<int>(home.rank));
  for (const int rank : neighbours) {
    IndexHalo theirs;
    const IndexInput of = torus.input(rank);
    const auto homes    = torus.homes(of);
    count_places(of, homes.size(), 1, theirs);
    of_owners[rank] = ask_owners(of, homes, theirs)[me];
  }
  bool right = true;
  Cost cost;
  for (int round = 0; round < rounds; ++round)
    add_cost(cost, [&] {
      std::string wrong;
      const impl::Directory directory(ranks, range);
      static_cast<void>(announcements(directory, input.ids, input.owned));
      const auto questions = impl::questions(directory, input.ids, input.owned);
      static_cast<void>(answers_to(asked, impl::entries_of(announced, wrong)));
      std::map<int, std::vector<impl::Home>> told;
      for (const auto& [rank, list] : questions)
        for (const Id id : list) told[rank].push_back(torus.home(id));
      auto halo        = std::make_shared<IndexHalo>();
      halo->space      = impl::axis_id<Cell>();
      halo->owned      = input.owned;
      halo->ids        = input.ids;
      const auto homes = homes_from(told, directory, input.ids, input.owned);
      count_places(input, homes.size(), 1, *halo);
      static_cast<void>(ask_owners(input, homes, *halo));
      note_asked(of_owners, *halo, wrong);
      index_t received = 0, sent = 0;
      for (const impl::IndexRun& run : halo->received) received += run.count;
      for (const impl::IndexRun& run : halo->sent) sent += run.count;
      right = right && wrong.empty() && received == 4 * torus.side + 4 && sent == received;
      return std::pair(halo,
                       Partition::explicit_counts(std::vector<index_t>(at(ranks), input.owned)));
    });
  print("index space of 256 cells a rank, with its directory", ranks, cost);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  Environment environment(argc, argv);
  int only = 0, rounds = 21;
  support::Arguments given(argc, argv, "[--ranks N] [--rounds N]");
  given.take("--ranks", only, 64);
  given.take("--rounds", rounds, 1);
  if (!given.understood()) return 2;
  std::printf("| of one rank | ranks | us | KiB kept | KiB at most |\n|---|---|---|---|---|\n");
  bool right = true;
  for (const int ranks :
       only > 0 ? std::vector<int>{only} : std::vector<int>{1000, 10000, 100000}) {
    mesh(ranks, rounds);
    exchange_plan(ranks, rounds);
    transpose_plan(ranks, rounds);
    coupling(ranks, rounds);
    right = index_space(ranks, rounds) && right;
  }
  if (!right) std::printf("wrong: the halo of the index space\n");
  return right ? 0 : 1;
}
