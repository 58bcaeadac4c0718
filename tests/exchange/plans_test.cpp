// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans against the oracle, cell by cell: every boundary, every pair of boundaries, and whatever
// the dice give: extents, partitions, widths, ranks, layouts, value types, meshes, numbers of
// fields.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <random>

#include "exchange/runtime_field.hpp"
#include "shard/mesh/mesh.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using impl::DimType;
using impl::ValueKind;
using shard::testing::check_exchange;
using shard::testing::FieldDescription;

int ranks() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::shared_ptr<impl::MeshState> mesh_of(std::vector<int> shape) {
  return impl::MeshState::make(MPI_COMM_WORLD, std::move(shape), {}, {});
}

/// The same numbers on every rank.
class Dice {
 public:
  explicit Dice(std::uint64_t salt) : random_(shard::testing::seed() * 1000003 + salt) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int n) { return below(n) == 0; }
  std::uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

BoundarySide side(BoundaryKind kind, bool odd = false, int longitude = -1, double value = 0) {
  return {kind, odd, longitude, value};
}

struct Ends {
  BoundarySide low, high;
};

/// All boundaries of a dimension whose folds turn dimension `longitude` (if there is one).
std::vector<Ends> boundaries(int longitude) {
  using K = BoundaryKind;
  std::vector<Ends> all;
  for (const BoundarySide& s :
       {side(K::constant), side(K::constant, false, -1, 7), side(K::periodic), side(K::reflect),
        side(K::symmetric), side(K::clamp)})
    all.push_back({s, s});
  all.push_back({side(K::clamp), side(K::constant, false, -1, 3)});
  all.push_back({side(K::symmetric), side(K::reflect)});
  if (longitude < 0) return all;
  for (const K kind : {K::fold_on_row, K::fold_between_rows})
    for (const bool odd : {false, true})
      all.push_back({side(kind, odd, longitude), side(kind, odd, longitude)});
  all.push_back({side(K::fold_between_rows, true, longitude), side(K::clamp)});
  all.push_back({side(K::reflect), side(K::fold_on_row, false, longitude)});
  return all;
}

Partition partition(Dice& dice, index_t n, int parts) {
  switch (dice.below(4)) {
    case 0: return Partition::balanced(n, parts);
    case 1: return Partition::ceil(n, parts);
    default: {  // uneven, with empty parts anywhere
      std::vector<index_t> begins{0};
      for (int r = 1; r < parts; ++r) begins.push_back(dice.between(0, static_cast<int>(n)));
      begins.push_back(n);
      std::sort(begins.begin(), begins.end());
      return Partition::explicit_begins(begins);
    }
  }
}

DimType dimension(const Ends& ends, int lo, int hi, std::vector<int> axes) {
  DimType d;
  d.lo         = lo;
  d.hi         = hi;
  d.low        = ends.low;
  d.high       = ends.high;
  d.axis_count = static_cast<int>(axes.size());
  std::copy(axes.begin(), axes.end(), d.axes.begin());
  return d;
}

int parts_of(const impl::MeshState& mesh, const DimType& d) {
  int parts = 1;
  for (int a = 0; a < d.axis_count; ++a) parts *= mesh.extent(d.axes[static_cast<std::size_t>(a)]);
  return parts;
}

void run(const std::shared_ptr<impl::MeshState>& mesh, const std::vector<FieldDescription>& fields,
         std::uint64_t salt) {
  const std::string wrong = check_exchange(mesh, fields, salt);
  EXPECT_EQ(wrong, "") << "SHARD_SEED=" << shard::testing::seed();
}

TEST(Plans, EveryPairOfBoundaries) {
  const auto mesh = mesh_of({0, 0});
  Dice dice(1);
  for (const Ends& y : boundaries(1))
    for (const Ends& x : boundaries(0)) {
      FieldDescription field;
      field.kind       = ValueKind::i64;
      field.left       = dice.one_in(2);
      field.dims       = {dimension(y, dice.below(3), dice.below(3), {0}),
                          dimension(x, dice.below(3), dice.below(3), {1})};
      field.partitions = {partition(dice, 2 * dice.between(1, 4), mesh->extent(0)),
                          partition(dice, 2 * dice.between(1, 4), mesh->extent(1))};
      run(mesh, {field}, dice.bits());
    }
}

TEST(Plans, EveryBoundaryInHalosWiderThanTheWorld) {
  const auto mesh = mesh_of({0, 0});
  Dice dice(2);
  for (const Ends& y : boundaries(1)) {
    FieldDescription field;
    field.kind       = ValueKind::i32;
    field.value_size = 4;
    field.dims       = {dimension(y, 11, 8, {0}), dimension(boundaries(-1)[2], 1, 9, {1})};
    field.partitions = {partition(dice, 3, mesh->extent(0)), partition(dice, 4, mesh->extent(1))};
    run(mesh, {field}, dice.bits());
  }
}

TEST(Plans, TwoFoldsOverOneLongitude) {
  const auto mesh = mesh_of({0, 0});
  Dice dice(3);
  const auto folds = boundaries(2);
  for (std::size_t a = 8; a < folds.size(); ++a)
    for (std::size_t b = 8; b < folds.size(); ++b) {
      FieldDescription field;
      field.dims       = {dimension(folds[a], 2, 1, {0}), dimension(folds[b], 1, 3, {}),
                          dimension(boundaries(-1)[2], 1, 2, {1})};
      field.partitions = {partition(dice, 3, mesh->extent(0)), Partition::balanced(2, 1),
                          partition(dice, 6, mesh->extent(1))};
      run(mesh, {field}, dice.bits());
    }
}

/// A field as the dice have it, on a mesh with so many axes.
FieldDescription random_field(Dice& dice, const impl::MeshState& mesh) {
  struct Kind {
    ValueKind kind;
    int size;
  };
  using H                = Kokkos::Experimental::half_t;
  using B                = Kokkos::Experimental::bhalf_t;
  constexpr Kind kinds[] = {{ValueKind::i8, 1},
                            {ValueKind::i16, 2},
                            {ValueKind::i32, 4},
                            {ValueKind::i64, 8},
                            {ValueKind::u8, 1},
                            {ValueKind::u16, 2},
                            {ValueKind::u32, 4},
                            {ValueKind::u64, 8},
                            {ValueKind::f32, 4},
                            {ValueKind::f64, 8},
                            {ValueKind::c32, 8},
                            {ValueKind::c64, 16},
                            {ValueKind::f16, static_cast<int>(sizeof(H))},
                            {ValueKind::bf16, static_cast<int>(sizeof(B))},
                            {ValueKind::boolean, 1},
                            {ValueKind::opaque, 3},
                            {ValueKind::opaque, 20},
                            {ValueKind::opaque, 48}};
  FieldDescription field;
  const Kind kind  = kinds[static_cast<std::size_t>(dice.below(dice.one_in(4) ? 18 : 14))];
  field.kind       = kind.kind;
  field.value_size = kind.size;
  field.left       = dice.one_in(2);
  const int rank   = dice.between(1, dice.one_in(4) ? 6 : 3);

  std::vector<std::vector<int>> axes(static_cast<std::size_t>(rank));
  for (int a = 0; a < mesh.axes(); ++a)
    if (const int d = dice.below(rank + 1); d < rank)
      axes[static_cast<std::size_t>(d)].push_back(a);
  int halos = 0;
  for (int d = 0; d < rank; ++d) {
    const bool can_fold =
        rank > 1 && field.kind != ValueKind::boolean && field.kind != ValueKind::opaque;
    const int longitude = can_fold ? (d + 1 + dice.below(rank - 1)) % rank : -1;
    auto choice         = boundaries(longitude);
    if (field.kind == ValueKind::opaque)  // has no constants but zero
      for (Ends& e : choice) e.low.value = e.high.value = 0;
    const Ends ends = choice[static_cast<std::size_t>(dice.below(static_cast<int>(choice.size())))];
    const int widest = rank > 3 ? 2 : dice.one_in(6) ? 9 : 3;
    const bool halo  = halos < 3 && !dice.one_in(4);
    halos += halo ? 1 : 0;
    field.dims.push_back(dimension(ends, halo ? dice.below(widest + 1) : 0,
                                   halo ? dice.below(widest + 1) : 0,
                                   axes[static_cast<std::size_t>(d)]));
    const index_t n = rank > 3 ? 2 * dice.between(1, 2) : 2 * dice.between(1, 5);
    field.partitions.push_back(partition(dice, n, parts_of(mesh, field.dims.back())));
  }
  // odd extents too, where nothing folds over them
  for (int d = 0; d < rank; ++d) {
    bool folded = false;
    for (const DimType& other : field.dims)
      folded = folded || other.low.longitude == d || other.high.longitude == d;
    if (!folded && dice.one_in(2)) {
      auto& p = field.partitions[static_cast<std::size_t>(d)];
      p       = partition(dice, p.size() + 1, p.parts());
    }
  }
  return field;
}

TEST(Plans, RandomOnes) {
  const int trials = shard::testing::thorough() ? 2000 : 120;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    Dice dice(1000 + static_cast<std::uint64_t>(trial));
    const int axes = dice.between(1, 4);
    std::vector<int> shape(static_cast<std::size_t>(axes), 0);
    std::vector<int> order;
    if (dice.one_in(3)) {
      for (int r = 0; r < ranks(); ++r) order.push_back((r * 5 + 3) % ranks());
      auto sorted = order;
      std::sort(sorted.begin(), sorted.end());
      if (std::unique(sorted.begin(), sorted.end()) != sorted.end()) order.clear();
    }
    const auto mesh = impl::MeshState::make(MPI_COMM_WORLD, shape, order, {});
    std::vector<FieldDescription> fields;
    for (int f = dice.between(1, 3); f > 0; --f) fields.push_back(random_field(dice, *mesh));
    SCOPED_TRACE("trial " + std::to_string(trial));
    run(mesh, fields, dice.bits());
  }
}

TEST(Plans, T16_values_of_all_sizes_in_one_message_are_aligned) {
  // opaque values of 1, 3, 16, 20 and 48 bytes before and after doubles and complex numbers; and a
  // constant beside values so large that their zero might reach into it
  const auto mesh = mesh_of({0});
  const auto all  = boundaries(-1);
  std::vector<FieldDescription> fields;
  for (const auto& [kind, size] :
       {std::pair{ValueKind::i8, 1}, std::pair{ValueKind::c64, 16}, std::pair{ValueKind::opaque, 3},
        std::pair{ValueKind::f64, 8}, std::pair{ValueKind::opaque, 48},
        std::pair{ValueKind::opaque, 20}, std::pair{ValueKind::i16, 2},
        std::pair{ValueKind::c32, 8}}) {
    FieldDescription field;
    field.kind       = kind;
    field.value_size = size;
    field.dims       = {dimension(kind == ValueKind::opaque ? all[0] : all[1], 1, 2, {0})};
    field.partitions = {Partition::balanced(7, ranks())};
    fields.push_back(field);
  }
  run(mesh, fields, 16);
}

}  // namespace
