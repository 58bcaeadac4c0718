// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Couplings of index spaces by their global ids, and of tiles that are cut into other blocks.
#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "coupling_support.hpp"

namespace coupling_test {

struct Cell;
struct Tag;

/// Owned ids of this rank, along the axis of this communicator: each of the ids has a random owner.
std::vector<std::int64_t> random_ids(std::mt19937_64& random, MPI_Comm axis, int count) {
  int parts = 1, part = 0;
  MPI_Comm_size(axis, &parts);
  MPI_Comm_rank(axis, &part);
  std::vector<std::int64_t> all, own;
  for (int k = 0; k < count; ++k) all.push_back(7 + 3 * k);
  std::shuffle(all.begin(), all.end(), random);
  const bool one = random() % 3 == 0;  // has all: the others have none
  for (const std::int64_t id : all) {
    const auto owner = random() % static_cast<std::uint64_t>(parts);
    if (static_cast<int>(one ? 0 : owner) == part) own.push_back(id);
  }
  return own;
}

using Points     = Field<Kokkos::LayoutLeft, ShardDim<0, A, Indices<Cell>>, ShardDim<1, B>>;
using ToPoints   = Field<Kokkos::LayoutRight, ShardDim<0, D, Indices<Cell>>>;
using SwapPoints = Field<Kokkos::LayoutLeft, ShardDim<1, C, Indices<Cell>>, ShardDim<0, D>>;

/// Fields over index spaces of the same ids on two groups' meshes.
template <class ToType, int D0>
void check_ids(std::mt19937_64& random, const Group& to_ranks, const Group& from_ranks,
               const char* what) {
  using ToAxis                = typename ToType::template axis<D0>;
  const int count             = static_cast<int>(random() % 30);
  const std::uint64_t seeds[] = {random(), random()};
  const Partition levels      = Partition::whole(4);
  std::optional<Points> from, from2;
  std::optional<ToType> to, to2;
  std::vector<std::int64_t> to_ids, from_ids;
  if (from_ranks.comm() != MPI_COMM_NULL) {
    std::mt19937_64 same(seeds[0]);
    const Mesh<A, B> mesh(from_ranks.comm(), {0, 0});
    from_ids = random_ids(same, mesh.template communicator<A>(), count);
    const IndexSpace<Cell, A> cells(mesh,
                                    by_global_ids(from_ids, static_cast<index_t>(from_ids.size())));
    from.emplace("from", mesh,
                 std::array<Partition, 2>{cells, Partition::balanced(4, mesh.template size<B>())});
    from2 = from->like("from2");
  }
  if (to_ranks.comm() != MPI_COMM_NULL) {
    std::mt19937_64 same(seeds[1]);
    const Mesh<C, D> mesh(to_ranks.comm(), {0, 0});
    to_ids = random_ids(same, mesh.template communicator<ToAxis>(), count);
    const IndexSpace<Cell, ToAxis> cells(
        mesh, by_global_ids(to_ids, static_cast<index_t>(to_ids.size())));
    if constexpr (D0 == 0)
      to.emplace("to", mesh, std::array<Partition, 2>{cells, levels});
    else
      to.emplace("to", mesh,
                 std::array<Partition, 2>{Partition::balanced(4, mesh.template size<D>()), cells});
    to2 = to->like("to2");
  }
  const auto fill = [&](const std::optional<Points>& f, int salt) {
    if (f) each(*f, [&](double& v, index_t, index_t) { v = 0; });
    for (index_t i = 0; f && i < f->extent(0); ++i)
      for (index_t k = 0; k < f->extent(1); ++k)
        (*f)(i, k) = value_of(from_ids[static_cast<std::size_t>(i)], f->to_global(1, k), salt);
  };
  const auto expect = [&](const std::optional<ToType>& f, int salt) {
    if (!f) return;
    int wrong = 0;
    for (index_t i = 0; i < f->extent(0); ++i)
      for (index_t j = 0; j < f->extent(1); ++j) {
        const index_t place = D0 == 0 ? i : j;
        const index_t level = D0 == 0 ? f->to_global(1, j) : f->to_global(0, i);
        wrong +=
            (*f)(i, j) == value_of(to_ids[static_cast<std::size_t>(place)], level, salt) ? 0 : 1;
      }
    EXPECT_EQ(wrong, 0) << what << ", SHARD_SEED=" << shard::testing::seed();
  };
  const CouplingOptions options{.permute = D0 == 0 ? std::vector<int>{} : std::vector<int>{1, 0}};
  Coupling<ToType, Points> coupling(MPI_COMM_WORLD, pointer(to), pointer(from), options);
  fill(from, 1);
  coupling(Space());
  expect(to, 1);
  expect_transpose(random, coupling, to, from, what);
  std::vector<ToType> tos;
  std::vector<Points> froms;
  if (to) tos = {*to, *to2};
  if (from) froms = {*from, *from2};
  Coupling<std::vector<ToType>, std::vector<Points>> set(MPI_COMM_WORLD, to ? &tos : nullptr,
                                                         from ? &froms : nullptr, options);
  fill(from, 2);
  fill(from2, 3);
  set(Space());
  expect(to, 2);
  expect(to2, 3);
  EXPECT_EQ(set.sends(), coupling.sends());
  if (D0 != 0 || !to || !from || ranks() != from->any_geometry().mesh->size() ||
      ranks() != to->any_geometry().mesh->size())
    return;
  if constexpr (D0 == 0) {
    fill(from, 4);
    redistribute(Space(), *to, *from);
    expect(to, 4);
    redistribute(Space(), tos, froms);
    expect(to2, 3);
    double sums[] = {0, 0};
    each(*to, [&](double& v, index_t i, index_t k) {
      const auto dy = static_cast<double>((i + 3 * k) % 7);
      sums[0] += v * dy;
      v = dy;
    });
    Kokkos::deep_copy(from2->view(), 0);
    redistribute_adjoint(Space(), *from2, *to);
    redistribute_adjoint(Space(), *from2, *to);  // adds
    for (index_t i = 0; i < from->extent(0); ++i)
      for (index_t k = 0; k < from->extent(1); ++k) sums[1] += (*from2)(i, k) / 2 * (*from)(i, k);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    sums[0] /= to->any_geometry().mesh->extent(0);  // all replicas of dy count once
    EXPECT_EQ(sums[0], sums[1]) << what << ", SHARD_SEED=" << shard::testing::seed();
  }
}

TEST(Coupling, IndexSpacesByTheirIds) {
  std::mt19937_64 random(shard::testing::seed() + 7);
  for (int trial = 0; trial < 6; ++trial) {
    const auto bits = random();
    const auto in   = [&](unsigned side) {
      if (trial % 3 == 0 || ranks() == 1) return true;
      if (trial % 3 == 1) return (rank() < 1) == (side == 0);
      return rank() == 0 || (bits >> (2U * static_cast<unsigned>(rank()) + side) & 1U) != 0;
    };
    const Group to(in(0), ranks() - rank()), from(in(1), rank());
    check_ids<ToPoints, 0>(random, to, from, "ids, replicated");
    check_ids<SwapPoints, 1>(random, to, from, "ids, permuted");
  }
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 1});
  const Mesh<C, D> there(MPI_COMM_WORLD, {1, 0});
  const std::int64_t id = rank();
  const IndexSpace<Cell, A> cells(here, by_global_ids({id}, 1));
  const IndexSpace<Cell, D> others(there, by_global_ids({id + 1}, 1));
  const Points x("x", here, {cells, Partition::whole(2)});
  const ToPoints y("y", there, {others, Partition::whole(2)});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { const Coupling<ToPoints, Points> c(MPI_COMM_WORLD, &y, &x); }),
               {"shard::Coupling: ", "needs the id ", "no rank owns it"});
  const ToParts plain("plain", there, {ranks(), 2});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { const Coupling<ToParts, Points> c(MPI_COMM_WORLD, &plain, &x); }),
               {"index space", "in dimension 0"});
}

using Tiled   = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, A, Blocks<Tag>>,
                          ShardDim<1, B>, ShardDim<2, Unsharded, Halo<1, 2>, LinkedY>,
                          ShardDim<3, Unsharded, Halo<1>, LinkedX>, Kokkos::HostSpace>;
using ToTiled = ShardedView<double****, Kokkos::LayoutLeft, ShardDim<0, D, Blocks<Tag>>,
                            ShardDim<2, Unsharded, Halo<1>, LinkedY>,
                            ShardDim<3, Unsharded, Halo<1>, LinkedX>, Kokkos::HostSpace>;

/// Calls use(value, number of the level and the cell) for the owned points.
template <class F, class Grid, class Use>
void each_cell(const F& f, const Grid& grid, const Use& use) {
  for (index_t b = 0; b < f.extent(0); ++b)
    for (index_t k = 0; k < f.extent(1); ++k)
      for (index_t j = 0; j < f.extent(2); ++j)
        for (index_t i = 0; i < f.extent(3); ++i) {
          const TileBlock& at = grid.block(b);
          use(f(b, k, j, i),
              static_cast<double>(((f.to_global(1, k) * 6 + at.tile) * 12 + at.y + j) * 12 + at.x +
                                  i));
        }
}

TEST(Coupling, RedistributeBetweenOtherBlocksSaysSo) {
  const Mesh<A, B> mesh(MPI_COMM_WORLD, {0, 1});
  const auto field = [&](const BlockGrid<Tag, A>& grid) {
    return Tiled("blocks", mesh,
                 std::array<Partition, 4>{grid, Partition::whole(2), grid.y(), grid.x()});
  };
  const BlockGrid<Tag, A> tiles(mesh, cubed_sphere(12)),
      halves(mesh, cubed_sphere(12), BlockOptions{{6, 12}, {}, {}});
  expect_parts(
      message_thrown_by<ArgumentError>([&] { redistribute(Space(), field(halves), field(tiles)); }),
      {"dimension 0 has 6 elements", "and 12", "a shard::Coupling moves fields between grids"});
}

TEST(Coupling, TilesInOtherBlocks) {
  for (const bool apart : {false, true}) {
    const bool is_to = !apart || rank() == 0, is_from = !apart || ranks() == 1 || rank() > 0;
    const Group to_ranks(is_to, -rank()), from_ranks(is_from, rank());
    for (const auto& [ny, nx] : {std::pair(4, 6), std::pair(12, 12), std::pair(3, 2)}) {
      const auto keep = [](const TileBlock& block) { return block.tile != 4; };
      std::optional<BlockGrid<Tag, A>> from_grid;
      std::optional<BlockGrid<Tag, D>> to_grid;
      std::optional<Tiled> from;
      std::optional<ToTiled> to;
      if (is_from) {
        const Mesh<A, B> mesh(from_ranks.comm(), {0, 0});
        from_grid.emplace(mesh, cubed_sphere(12), BlockOptions{{6, 4}, keep, {}});
        from.emplace("from", mesh,
                     std::array<Partition, 4>{*from_grid, Partition::balanced(2, mesh.size<B>()),
                                              from_grid->y(), from_grid->x()});
      }
      if (is_to) {
        const Mesh<C, D> mesh(to_ranks.comm(), {1, 0});
        to_grid.emplace(mesh, cubed_sphere(12), BlockOptions{{ny, nx}, keep, {}});
        to.emplace(
            "to", mesh,
            std::array<Partition, 4>{*to_grid, Partition::whole(2), to_grid->y(), to_grid->x()});
      }
      const auto number_of = [](double number, std::size_t f) {
        return number + 100000 * static_cast<double>(f);
      };
      // one field, then a set of two
      for (const std::size_t n : {1U, 2U}) {
        std::vector<Tiled> froms;
        std::vector<ToTiled> tos;
        for (std::size_t f = 0; f < n; ++f) {
          if (from) froms.push_back(f == 0 ? *from : from->like("second"));
          if (to) tos.push_back(f == 0 ? *to : to->like("second"));
        }
        for (std::size_t f = 0; f < froms.size(); ++f)
          each_cell(froms[f], *from_grid, [&](double& v, double at) { v = number_of(at, f); });
        Coupling<std::vector<ToTiled>, std::vector<Tiled>> coupling(
            MPI_COMM_WORLD, to ? &tos : nullptr, from ? &froms : nullptr);
        coupling(Space());
        int wrong      = 0;
        double sums[2] = {0, 0};
        for (std::size_t f = 0; f < tos.size(); ++f)
          each_cell(tos[f], *to_grid, [&](double& v, double at) {
            wrong += v == number_of(at, f) ? 0 : 1;
            const auto dy = static_cast<double>(static_cast<int>(at) % 13 + static_cast<int>(f));
            sums[0] += v * dy;
            v = dy;
          });
        EXPECT_EQ(wrong, 0) << ny << " x " << nx << ", fields: " << n;
        for (const Tiled& x : froms) Kokkos::deep_copy(x.view(), 0);
        coupling.adjoint(Space());
        for (std::size_t f = 0; f < froms.size(); ++f)
          each_cell(froms[f], *from_grid,
                    [&](double v, double at) { sums[1] += v * number_of(at, f); });
        MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        EXPECT_EQ(sums[0], sums[1]);
      }
      if (apart || ny != 4) continue;
      each_cell(*from, *from_grid, [](double& v, double number) { v = number; });
      redistribute(Space(), *to, *from);
      int wrong = 0;
      each_cell(*to, *to_grid, [&](double v, double number) { wrong += v == number ? 0 : 1; });
      EXPECT_EQ(wrong, 0) << "redistribute";
      const Mesh<C, D> mesh(to_ranks.comm(), {1, 0});
      const BlockGrid<Tag, D> grid(mesh, cubed_sphere(12), BlockOptions{{4, 6}, {}, {}});
      const ToTiled more("more", mesh, {grid, Partition::whole(2), grid.y(), grid.x()});
      expect_parts(message_thrown_by<ArgumentError>([&] {
                     const Coupling<ToTiled, Tiled> c(MPI_COMM_WORLD, &more, pointer(from));
                   }),
                   {"tile 4", "0 of 24 cells"});
    }
  }
}

}  // namespace coupling_test
