// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans against the oracle, cell by cell: every boundary, every pair of boundaries, and whatever
// the dice give: extents, partitions, widths, ranks, layouts, value types, meshes, numbers of
// fields.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "exchange/runtime_field.hpp"
#include "shard/comm/impl/shared_pool.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/index_map.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using impl::DimType;
using impl::ValueKind;
using namespace shard::testing;

std::shared_ptr<impl::MeshState> mesh_of(std::vector<int> shape) {
  return impl::MeshState::make(MPI_COMM_WORLD, std::move(shape), {});
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
  all.push_back({side(K::symmetric, true), side(K::reflect, true)});
  all.push_back({side(K::given), side(K::clamp)});
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
  const auto folds        = boundaries(2);
  const std::size_t first = boundaries(-1).size();
  for (std::size_t a = first; a < folds.size(); ++a)
    for (std::size_t b = first; b < folds.size(); ++b) {
      FieldDescription field;
      field.dims       = {dimension(folds[a], 2, 1, {0}), dimension(folds[b], 1, 3, {}),
                          dimension(boundaries(-1)[2], 1, 2, {1})};
      field.partitions = {partition(dice, 3, mesh->extent(0)), Partition::balanced(2, 1),
                          partition(dice, 6, mesh->extent(1))};
      run(mesh, {field}, dice.bits());
    }
}

/// The high end of a tripolar grid.
BoundarySide north(Dice& dice, int longitude) {
  constexpr BoundaryKind kinds[] = {BoundaryKind::north_between_rows, BoundaryKind::north_on_row,
                                    BoundaryKind::north_before_row};
  BoundarySide side{kinds[dice.below(3)], dice.one_in(2), longitude};
  side.opposite = dice.between(-2, 1);
  return side;
}

TEST(Plans, NorthFolds) {
  const auto mesh = mesh_of({0, 0});
  Dice dice(4);
  const auto lows = boundaries(-1);
  for (const BoundaryKind kind : {BoundaryKind::north_between_rows, BoundaryKind::north_on_row,
                                  BoundaryKind::north_before_row})
    for (int opposite = -2; opposite < 2; ++opposite)
      for (const bool wide : {false, true}) {
        std::vector<FieldDescription> fields(2);
        for (FieldDescription& field : fields) {
          const int y = dice.below(2), x = 1 - y;  // either dimension may be the latitude
          BoundarySide high = side(kind, dice.one_in(2), x);
          high.opposite     = opposite;
          const Ends ends{
              lows[static_cast<std::size_t>(dice.below(static_cast<int>(lows.size())))].low, high};
          field.dims.resize(2);
          field.partitions.resize(2);
          const auto at = [](int d) { return static_cast<std::size_t>(d); };
          field.dims[at(y)] =
              dimension({ends.low.kind == BoundaryKind::periodic ? lows[0].low : ends.low, high},
                        dice.below(wide ? 9 : 3), dice.between(1, wide ? 9 : 3), {0});
          field.dims[at(x)] = dimension(lows[2], dice.below(wide ? 9 : 3), dice.below(3), {1});
          field.partitions[at(y)] = partition(dice, dice.between(2, 7), mesh->extent(0));
          field.partitions[at(x)] = partition(dice, dice.between(1, 11), mesh->extent(1));
        }
        run(mesh, fields, dice.bits());
      }
}

/// Boundaries for up to 12 indices.
BoundarySide by_index(int dim, int first, index_t count) {
  using K                           = BoundaryKind;
  static const BoundarySide sides[] = {
      side(K::clamp),         side(K::symmetric, true), side(K::constant), side(K::reflect),
      side(K::reflect, true), side(K::given),           side(K::periodic), side(K::clamp),
      side(K::symmetric),     side(K::clamp),           side(K::clamp),    side(K::symmetric, true),
      side(K::constant),      side(K::clamp),           side(K::periodic)};
  BoundarySide all{K::by_index, false, dim};
  all.sides = sides + first;
  all.count = static_cast<int>(count);
  return all;
}

TEST(Plans, BoundariesByIndex) {
  const auto mesh = mesh_of({0, 0});
  Dice dice(5);
  for (int i = 0; i < 12; ++i) {
    FieldDescription field;
    field.left      = dice.one_in(2);
    const index_t n = dice.between(1, 8);
    field.dims      = {
             dimension({by_index(1, 0, n), by_index(1, 3, n)}, dice.below(4), 2, {0}),
             dimension(boundaries(-1)[0], 0, 0, {}),
             dimension({by_index(1, 2, n), dice.one_in(2) ? by_index(1, 1, n) : boundaries(-1)[5].low},
                       1, dice.below(4), {1})};
    field.partitions = {partition(dice, dice.between(2, 9), mesh->extent(0)),
                        Partition::balanced(n, 1),
                        partition(dice, dice.between(2, 9), mesh->extent(1))};
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
    if (field.kind == ValueKind::opaque || field.kind == ValueKind::boolean)
      for (Ends& e : choice) e.low.odd = e.high.odd = false;
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
  // a tripolar grid
  if (rank > 1 && field.kind != ValueKind::boolean && field.kind != ValueKind::opaque &&
      dice.one_in(5)) {
    const auto at = [](int d) { return static_cast<std::size_t>(d); };
    const int y = dice.below(rank), x = (y + 1 + dice.below(rank - 1)) % rank;
    if (field.dims[at(y)].hi > 0) {
      for (DimType& other : field.dims)
        for (BoundarySide* end : {&other.low, &other.high})
          if (end->longitude == x || end->longitude == y) *end = side(BoundaryKind::clamp);
      field.dims[at(x)].low = field.dims[at(x)].high = side(BoundaryKind::periodic);
      if (field.dims[at(y)].low.kind == BoundaryKind::periodic ||
          field.dims[at(y)].low.longitude >= 0)
        field.dims[at(y)].low = side(BoundaryKind::reflect);
      field.dims[at(y)].high = north(dice, x);
    }
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

/// What is hard in a plan.
struct Traits {
  bool empty   = false;  ///< a rank owns nothing of a field that others own
  bool hops    = false;  ///< a halo deeper than a neighbour's shard
  bool fold    = false;  ///< a halo beyond a pole
  bool unequal = false;  ///< other widths or other boundaries at the two ends
  bool wider   = false;  ///< a halo wider than the domain
};

/// Whether the halo of part `p` at one end takes values from beyond the neighbouring part: walks
/// outwards, owner after owner.
bool has_several_hops(const DimType& d, const Partition& partition, int p, bool low) {
  const index_t n         = partition.size();
  const BoundarySide& end = low ? d.low : d.high;
  int first               = -1;
  for (index_t i = 0; i < (low ? d.lo : d.hi); ++i) {
    index_t g = low ? partition.begin(p) - 1 - i : partition.end(p) + i;
    if (g < 0 || g >= n) {
      const Image image = image_of(g < 0 ? d.low.kind : d.high.kind, g, n);
      if (image.constant) return false;
      // images of a mirror come back over this rank's own cells, which is no hop
      if (first < 0 && end.kind != BoundaryKind::periodic) return false;
      g = image.source;
    }
    const int owner = partition.owner(g);
    if (first < 0)
      first = owner;
    else if (owner != first)
      return first != p;
  }
  return false;
}

Traits traits_of(const std::vector<FieldDescription>& fields) {
  const auto folds = [](const BoundarySide& s) {
    return s.kind == BoundaryKind::fold_on_row || s.kind == BoundaryKind::fold_between_rows;
  };
  const auto same = [](const BoundarySide& a, const BoundarySide& b) {
    return a.kind == b.kind && a.odd == b.odd && a.value == b.value;
  };
  Traits t;
  for (const FieldDescription& f : fields)
    for (std::size_t i = 0; i < f.dims.size(); ++i) {
      const DimType& d   = f.dims[i];
      const Partition& p = f.partitions[i];
      t.fold             = t.fold || (d.lo > 0 && folds(d.low)) || (d.hi > 0 && folds(d.high));
      t.unequal          = t.unequal || d.lo != d.hi || (d.lo > 0 && !same(d.low, d.high));
      t.wider            = t.wider || std::max(d.lo, d.hi) > p.size();
      for (int part = 0; part < p.parts(); ++part) {
        if (p.count(part) == 0)
          t.empty = true;
        else
          t.hops =
              t.hops || has_several_hops(d, p, part, true) || has_several_hops(d, p, part, false);
      }
    }
  return t;
}

/// Meshes of one to four axes over these ranks, in their order or another, on one node or on nodes
/// of two. Collective over `comm`.
std::vector<std::shared_ptr<impl::MeshState>> some_meshes(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::vector<std::shared_ptr<impl::MeshState>> meshes;
  for (int m = 0; m < 8; ++m) {
    const shard::testing::ScopedVariable nodes("SHARD_RANKS_PER_NODE", m % 2 == 0 ? "0" : "2");
    std::vector<int> order;
    if (m >= 4)
      for (int r = 0; r < size; ++r)
        order.push_back(size % 5 == 0 ? size - 1 - r : (r * 5 + 3) % size);
    constexpr int axes[] = {1, 2, 2, 1, 3, 1, 4, 2};
    meshes.push_back(impl::MeshState::make(
        comm, std::vector<int>(static_cast<std::size_t>(axes[m]), 0), {.order = order}));
    impl::SharedPool::of(*meshes.back());  // looks at the variable
  }
  return meshes;
}

struct Counted {
  int plans = 0, empty = 0, hops = 0, fold = 0, unequal = 0, wider = 0, nodes_of_two = 0,
      checked = 0, by_dimension = 0, failed = 0;
};

/// So many random plans on one world. Collective over `comm`; stops on all ranks at the first
/// failure.
Counted random_plans(MPI_Comm comm, int plans, std::uint64_t salt) {
  Counted counted;
  const auto meshes = some_meshes(comm);
  const bool alone  = meshes.front()->size() == 1;
  for (int plan = 0; plan < plans && counted.failed == 0; ++plan) {
    Dice dice(salt + static_cast<std::uint64_t>(plan));
    const auto number = static_cast<std::size_t>(dice.below(static_cast<int>(meshes.size())));
    const bool check  = dice.one_in(2);
    // drawn again until the plan has what is its turn to have
    std::vector<FieldDescription> fields;
    Traits traits;
    const auto as_wanted = [&] {
      switch (plan % 4) {
        case 0: return alone || traits.empty;
        case 1: return alone || traits.hops;
        case 2: return traits.fold;
        default: return traits.unequal;
      }
    };
    for (int draw = 0; draw < 1000 && (fields.empty() || !as_wanted()); ++draw) {
      fields.clear();
      for (int f = dice.between(1, 3); f > 0; --f)
        fields.push_back(random_field(dice, *meshes[number]));
      traits = traits_of(fields);
    }
    const shard::testing::ScopedVariable checked("SHARD_CHECK", check ? "1" : "0");
    SCOPED_TRACE("plan " + std::to_string(plan) + " on " + std::to_string(meshes.front()->size()) +
                 " ranks, mesh " + std::to_string(number));
    MessageLayout layout{};
    const std::string wrong = check_exchange(meshes[number], fields, dice.bits(), &layout);
    EXPECT_EQ(wrong, "") << "SHARD_SEED=" << shard::testing::seed();
    int failed = wrong.empty() ? 0 : 1;
    MPI_Allreduce(&failed, &counted.failed, 1, MPI_INT, MPI_MAX, comm);
    ++counted.plans;
    counted.empty += traits.empty ? 1 : 0;
    counted.hops += traits.hops ? 1 : 0;
    counted.fold += traits.fold ? 1 : 0;
    counted.unequal += traits.unequal ? 1 : 0;
    counted.wider += traits.wider ? 1 : 0;
    counted.nodes_of_two += number % 2 == 0 ? 0 : 1;
    counted.checked += check ? 1 : 0;
    counted.by_dimension += layout == MessageLayout::by_dimension ? 1 : 0;
  }
  for (const auto& mesh : meshes) mesh->resource()->release();
  return counted;
}

/// Two thousand plans on eight ranks, in worlds of one to eight: the ranks are divided into worlds
/// of s and of the rest, each with plans of its own, for every s in turn. Fewer where the ranks are
/// fewer, unless all is to be thorough. SHARD_TEST_PLANS is another number of them.
TEST(Plans, RandomOnes) {
  const char* text  = std::getenv("SHARD_TEST_PLANS");
  const int wanted  = text != nullptr ? std::atoi(text) : shard::testing::thorough() ? 2000 : 400;
  const int turns   = ranks() / 2 + 1;
  const int worlds  = 2 * turns - 1;
  const int in_each = (wanted + worlds - 1) / worlds;
  const int rank    = shard::testing::rank();
  Counted mine;
  for (int s = 0; s < turns && mine.failed == 0; ++s) {
    const int world = rank < s ? 1 : 0;
    MPI_Comm comm   = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world, rank, &comm);
    const Counted c =
        random_plans(comm, in_each, 1000 + 10000 * static_cast<std::uint64_t>(2 * s + world));
    mine.failed = c.failed;
    MPI_Allreduce(MPI_IN_PLACE, &mine.failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    int place = 0;
    MPI_Comm_rank(comm, &place);
    if (place == 0) {
      mine.plans += c.plans;
      mine.empty += c.empty;
      mine.hops += c.hops;
      mine.fold += c.fold;
      mine.unequal += c.unequal;
      mine.wider += c.wider;
      mine.nodes_of_two += c.nodes_of_two;
      mine.checked += c.checked;
      mine.by_dimension += c.by_dimension;
    }
    MPI_Comm_free(&comm);
  }
  int sums[] = {mine.plans, mine.empty,        mine.hops,    mine.fold,        mine.unequal,
                mine.wider, mine.nodes_of_two, mine.checked, mine.by_dimension};
  MPI_Allreduce(MPI_IN_PLACE, sums, 9, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const auto [plans, empty, hops, fold, unequal, wider, nodes, checked, by_dimension] = sums;
  if (rank == 0)
    std::printf(
        "%d random plans on worlds of 1 to %d ranks: an empty shard %d, several hops %d, a fold "
        "%d, unequal sides %d, a halo wider than the domain %d; on nodes of two %d, checked %d, "
        "dimension by dimension %d\n",
        plans, ranks(), empty, hops, fold, unequal, wider, nodes, checked, by_dimension);
  if (mine.failed != 0) return;
  EXPECT_GE(plans, wanted);
  if (plans < 100) return;
  EXPECT_GE(4 * fold, plans);
  EXPECT_GE(4 * unequal, plans);
  EXPECT_GE(20 * wider, plans);
  EXPECT_GE(4 * nodes, plans);
  EXPECT_GE(4 * checked, plans);
  EXPECT_GE(20 * by_dimension, plans);
  if (ranks() < 4) return;  // of fewer, too many worlds have one rank
  EXPECT_GE(4 * empty, plans);
  EXPECT_GE(4 * hops, plans);
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
