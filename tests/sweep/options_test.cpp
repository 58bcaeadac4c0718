// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each option of each collective object, set differently on the last rank: the same exception on
// every rank, with both values, or the right result. Solvers' options are in tests/solve. Options
// that only this rank uses are not here: kernels and functors, labels of fields, optimisers.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/io/matrix_market.hpp"
#include "shard/io/safetensors.hpp"
#include "shard/redistribute/coupling.hpp"
#include "shard/shard.hpp"
#include "shard/solve/sparse_matrix.hpp"
#include "support/support.hpp"
#include "sweep/options.hpp"

namespace sweep_options_test {

struct Lon;
struct Row;
struct Sphere;

using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
using Image = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>, Periodic>,
                          Kokkos::HostSpace>;
using Plane = Mesh<Lat, Lon>;

TEST(Options, OfMeshes) {
  const int n = ranks();
  std::vector<int> turned(static_cast<std::size_t>(n)), straight(turned);
  for (int r = 0; r < n; ++r) {
    straight[static_cast<std::size_t>(r)] = r;
    turned[static_cast<std::size_t>(r)]   = n - 1 - r;
  }
  const auto make = [](const MeshOptions& options) {
    return [options] { const Plane mesh(MPI_COMM_WORLD, {0, 0}, options); };
  };
  const auto node = [](std::vector<bool> periodic, std::vector<DeviceAttributes> devices) {
    return MeshOptions{.placement = RankPlacement::by_node,
                       .periodic  = std::move(periodic),
                       .devices   = std::move(devices)};
  };
  std::vector<DeviceAttributes> devices, others;
  for (int r = 0; r < n; ++r) {
    devices.push_back({.id = r, .granule = r / 2});
    others.push_back({.id = r, .granule = r});
  }
  expect_disagreement(
      {{"shape",
        {std::to_string(n)},
        [&] {
          const Plane mesh(MPI_COMM_WORLD, differs() ? Extents<2>{1, n} : Extents<2>{n, 1});
        }},
       {"order", {}, make({.order = differ(straight, turned)})},
       {"grid", {"100", "101"}, make({.grid = {100, differ<index_t>(100, 101)}})},
       {"placement",
        {},
        make({.placement = differ(RankPlacement::as_given, RankPlacement::by_node)})},
       {"periodic", {}, make(node({true, differ(true, false)}, {}))},
       {"devices", {}, make(node({}, differ(devices, others)))},
       {"kept_plans", {"4", "5"}, make({.kept_plans = differ(4, 5)})},
       {"of_domains", {"1", "2"}, [] { Plane::of_domains(MPI_COMM_WORLD, {differ(1, 2)}); }},
       {"logical mesh",
        {},
        [&] {
          const Plane mesh(MPI_COMM_WORLD, LogicalMesh::of_shape(differs() ? std::vector{1, n}
                                                                           : std::vector{n, 1}));
        }},
       {"SHARD_KEPT_PLANS", {"6", "7"}, [] {
          const ScopedVariable kept("SHARD_KEPT_PLANS", differ("6", "7"));
          line();
        }}});
}

TEST(Options, OfFields) {
  const Line mesh = line();
  const int n     = ranks();
  std::vector<index_t> counts(static_cast<std::size_t>(n), 8), other = counts;
  ++other.front(), --other.back();
  const auto balanced = Partition::explicit_counts(counts),
             moved    = Partition::explicit_counts(other);
  const Tiles small   = cubed_sphere(4);
  const auto grid     = [&](const BlockOptions& options) {
    return [&, options] { const BlockGrid<Sphere, Lat> made(mesh, small, options); };
  };
  expect_disagreement(
      {{"extents", {"24", "25"}, [&] { field(mesh, differ<index_t>(24, 25)); }},
       {"partitions",
        {},
        [&] {
          const Field f("f", mesh, {differ(balanced, moved), Partition::whole(3)});
        }},
       {"shared_field",
        {"24", "25"},
        [&] {
          (void)shared_field<Field>("f", mesh, {differ<index_t>(24, 25), 3});
        }},
       {"wrap",
        {},
        [&] {
          const auto mine = differ(balanced, moved);
          const Field::view_type view("v", static_cast<std::size_t>(mine.count(rank()) + 4), 3U);
          const Field f(mesh, view, {mine, Partition::whole(3)});
        }},
       {"tiles", {}, [&] { const BlockGrid<Sphere, Lat> made(mesh, cubed_sphere(differ(4, 8))); }},
       {"block", {}, grid({.block = {differ<index_t>(4, 2), 4}})},
       {"keep", {}, grid({.keep = [](const TileBlock& b) { return !differs() || b.tile != 2; }})},
       {"weight", {}, grid({.block = {2, 2}, .weight = [](const TileBlock& b) {
                              return differs() && b.tile == 2 ? 5.0 : 1.0;
                            }})}});
  const std::int64_t first = 3 * rank(), last = 3 * n;
  const std::vector<std::int64_t> ids{first, first + 1, first + 2};
  Neighbours around;
  for (const std::int64_t id : ids) around.add({(id + last - 1) % last, (id + 1) % last});
  expect_refused("argument", {{"layers of flood", {"1 layers", "2 on another"}, [&] {
                                 flood<Lat>(mesh, ids, around, differ(1, 2));
                               }}});
}

TEST(Options, OfIndexSpaces) {
  struct Cell;
  using Cells       = IndexSpace<Cell, Lat>;
  const Line mesh   = line();
  const auto own    = static_cast<std::int64_t>(rank());
  const auto ids    = by_global_ids({2 * own, 2 * own + 1, (2 * own + 2) % (2 * ranks())}, 2);
  const auto owners = by_owner({(rank() + 1) % ranks()}, {0}, 2);
  expect_disagreement(
      {{"ids or owners", {"ids", "owners"}, [&] { Cells(mesh, differ(ids, owners)); }},
       {"zero_where_unowned", {"zero where unowned"}, [&] {
          Cells(mesh, differ(ids, ids.zero_where_unowned()));
        }}});
}

TEST(Options, OfExchanges) {
  const Line mesh = line();
  const Field f = field(mesh), g = field(mesh), h = field(mesh);
  const auto make = [&](const Tuning& tuning) {
    return [&, tuning] { const Exchange halos(tuning, f); };
  };
  const auto vectors = [&](int count) {
    std::vector<Field> fields{f, g, h};
    fields.resize(static_cast<std::size_t>(count));
    return fields;
  };
  const Exchange halos(f);
  const Space space;
  using Step = Reach<Halo<1>>;
  expect_disagreement(
      {{"transport",
        {"mpi", "automatic"},
        make({.transport = differ(TransportKind::automatic, TransportKind::mpi)})},
       {"mpi_takes_device_memory",
        {},
        make({.mpi_takes_device_memory = differ(std::optional(true), std::optional(false))})},
       {"direct_run", {"64", "128"}, make({.direct_run = differ<std::size_t>(128, 64)})},
       {"message_part", {"64"}, make({.message_part = differ<std::size_t>(0, 64)})},
       {"messages",
        {},
        make({.messages = differ(MessageLayout::one_per_peer, MessageLayout::one_per_box)})},
       {"measured", {}, make({.measured = differ(false, true)})},
       {"number of fields", {}, [&] { const Exchange all(vectors(differ(2, 3))); }},
       {"the first exchange of a set", {}, [&] { shard::exchange(space, vectors(differ(2, 3))); }},
       {"parts of an exchange",
        {},
        [&] { differs() ? (void)halos.only<Lat>() : (void)Exchange(Tuning{}, f, g); }},
       {"tuning of steps",
        {"64", "128"},
        [&] {
          (void)steps_per_exchange<2>(Tuning{.direct_run = differ<std::size_t>(128, 64)}, Step{},
                                      f);
        }},
       {"SHARD_TRANSPORT",
        {"mpi", "automatic"},
        [&] {
          const ScopedVariable transport("SHARD_TRANSPORT", differ("automatic", "mpi"));
          const Exchange checked(f);
        }},
       {"SHARD_CHECK", {"checked", "not checked"}, [&] {
          const ScopedVariable check("SHARD_CHECK", differ("0", "1"));
          const Exchange checked(f);
        }}});
}

TEST(Options, OfPlacements) {
  const Line mesh = line();
  const Field f = field(mesh), g = field(mesh);
  const Space space;
  const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> array("array", 24, 3);
  using Whole = ShardedView<double**, Kokkos::LayoutRight, Kokkos::HostSpace>;
  const Whole copies("copies", mesh, {24, 3});
  std::vector<index_t> counts(static_cast<std::size_t>(ranks()), 24 / ranks());
  const auto even = Partition::explicit_counts(counts);
  ++counts.front(), --counts.back();
  const auto odd      = Partition::explicit_counts(counts);
  const auto coupling = [&](const CouplingOptions& options) {
    return
        [&, options] { const Coupling<Field, Field> made(mesh.communicator(), &f, &g, options); };
  };
  const Field square("square", mesh, {24, 24}), turned("turned", mesh, {24, 24});
  expect_disagreement(
      {{"root of distribute", {"0", "1"}, [&] { distribute(space, f, array, differ(0, 1)); }},
       {"root of gather", {"0", "1"}, [&] { gather(space, array, f, differ(0, 1)); }},
       {"root of broadcast",
        {"0", "1"},
        [&] { shard::broadcast<Lat>(space, copies, differ(0, 1)); }},
       {"partitions of redistribute",
        {},
        [&] {
          const std::array to{differ(even, odd), Partition::whole(3)};
          (void)redistribute<Field>(space, copies, to);
        }},
       {"tuning of Coupling",
        {"mpi", "automatic"},
        coupling({.tuning = {.transport = differ(TransportKind::automatic, TransportKind::mpi)}})},
       {"sums_replicas", {"sums replicas"}, coupling({.sums_replicas = differ(false, true)})},
       {"permute",
        {},
        [&] {
          const CouplingOptions options{.permute = differ(std::vector{0, 1}, std::vector{1, 0})};
          const Coupling<Field, Field> made(mesh.communicator(), &square, &turned, options);
        }},
       {"SHARD_TRANSPORT of Coupling", {}, [&] {
          const ScopedVariable transport("SHARD_TRANSPORT", differ("automatic", "mpi"));
          coupling({})();
        }}});
}

/// Adds one to each value.
struct ValueOf {
  KOKKOS_FUNCTION double operator()(const Field& f, int i, int j) const { return f(i, j) + 1.0; }
};

TEST(Options, OfReductionsAndCollectives) {
  const Line mesh = line();
  const Space space;
  const Field f = field(mesh), g = field(mesh);
  const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> small("small", 4, 4),
      more("more", 4, 4);
  const auto cut = static_cast<std::size_t>(4 * ranks());
  const Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> cube("cube", cut, cut, cut),
      wide("wide", cut, 4, cut);
  expect_disagreement(
      {{"number of fields of reduce",
        {"2", "1"},
        [&] {
          const std::vector<Field> fields = differs() ? std::vector{f} : std::vector{f, g};
          (void)reduce(space, fields, ValueOf{});
        }},
       {"scale",
        {"0.5", "0.25"},
        [&] { all_reduce<Lat>(space, small, more, mesh, differ(0.5, 0.25)); }},
       {"root",
        {"root 0", "root 1"},
        [&] { broadcast<Lat>(space, small, more, mesh, differ(0, 1)); }},
       {"dimension of all_gather",
        {"dimension 0", "dimension 1"},
        [&] { all_gather<Lat>(space, cube, wide, mesh, differ(0, 1)); }},
       {"dimension of reduce_scatter",
        {"dimension 0", "dimension 1"},
        [&] { reduce_scatter<Lat>(space, wide, cube, mesh, differ(0, 1)); }},
       {"dimensions of all_to_all",
        {"split dimension 0", "split dimension 1"},
        [&] { all_to_all<Lat>(space, cube, cube, mesh, differ(0, 1), 2); }},
       {"name of all_to_all",
        {"split_to_full", "full_to_split"},
        [&] {
          all_to_all<Lat>(space, cube, cube, mesh, differ("split_to_full", "full_to_split"));
        }},
       {"order of all_to_all",
        {"zigzag", "contiguous"},
        [&] { all_to_all<Lat>(space, cube, cube, mesh, "split_to_full", !differs()); }},
       {"dimension of zigzag_split",
        {"dimension 0", "dimension 1"},
        [&] { zigzag_split<Lat>(space, wide, cube, mesh, differ(0, 1)); }},
       {"dimension of zigzag_gather",
        {"dimension 0", "dimension 1"},
        [&] { zigzag_gather<Lat>(space, cube, wide, mesh, differ(0, 1)); }},
       {"size of zigzag contexts", {"sequence of"}, [&] {
          const ZigzagContexts<Lat> contexts{.dim = 2, .size = differ<index_t>(9, 10) * ranks()};
          contexts.apply(space, cube, cube, cube, mesh);
        }}});
}

using Arena = ParameterArena<double, Kokkos::HostSpace>;

TEST(Options, OfWeights) {
  const ScratchFile one("one"), two("two");
  const std::string path = differ(one.path(), two.path());
  Arena arena("arena", 4);
  arena.take_arrays("layer", {{"weight", {4}}});
  save_safetensors(one.path(), arena, MPI_COMM_WORLD);
  const auto save = [&](const SafetensorsOptions& options) {
    return [&, options] { save_safetensors(one.path(), arena, MPI_COMM_WORLD, options); };
  };
  const auto load = [&](const SafetensorsOptions& options) {
    return [&, options] { (void)load_safetensors(one.path(), arena, MPI_COMM_WORLD, options); };
  };
  const std::vector<std::pair<std::string, std::string>> none, rename{{"layer", "other"}};
  expect_disagreement(
      {{"path", {"one", "two"}, [&] { save_safetensors(path, arena, MPI_COMM_WORLD); }},
       {"prefix in save", {"first.", "second."}, save({.prefix = differ("first.", "second.")})},
       {"rename in save", {"other"}, save({.rename = differ(none, rename)})},
       {"type",
        {"type 2", "type 4"},
        save({.type = differ(SafetensorsType::F32, SafetensorsType::BF16)})},
       {"prefix in load", {"first."}, load({.prefix = differ("", "first."), .strict = false})},
       {"rename in load", {"other"}, load({.rename = differ(none, rename), .strict = false})},
       {"strict", {"not strict"}, load({.prefix = "no.", .strict = differ(false, true)})},
       {"path of require_writable", {"one", "two"}, [&] {
          require_writable(path, MPI_COMM_WORLD);
        }}});
}

TEST(Options, OfLayers) {
  const Line mesh = line();
  const Image x("x", mesh, {2, 4, 24, 6});
  const auto state = [&](const auto& layer) { return [&, layer] { (void)layer.state(x); }; };
  std::vector<double> weights(24, 1.0), others = weights;
  others.back()  = 2.0;
  const int half = differ(2, 4);
  expect_disagreement(
      {{"groups", {"2", "4"}, state(GroupNorm{half, 4})},
       {"eps", {"1e-05", "0.001"}, state(GroupNorm{2, 4, differ(1e-5, 1e-3)})},
       {"affine", {"affine 1", "affine 0"}, state(GroupNorm{2, 4, 1e-5, differ(true, false)})},
       {"eps of BatchNorm", {"1e-05", "0.001"}, state(BatchNorm{4, differ(1e-5, 1e-3)})},
       {"momentum", {"0.1", "0.2"}, state(BatchNorm{4, 1e-5, differ(0.1, 0.2)})},
       {"weights of AreaWeighted",
        {"row 23 1", "row 23 2"},
        state(AreaWeighted<GroupNorm>{{2, 4}, differ(weights, others)})},
       {"heads", {"heads", "2", "4"}, state(WindowAttention<4, 3>{.heads = half})},
       {"key heads",
        {"key_heads", "1", "2"},
        state(WindowAttention<4, 3>{.heads = 2, .key_heads = differ(1, 2)})},
       {"key heads of NeighbourhoodAttention",
        {"key_heads", "1", "2"},
        state(NeighbourhoodAttention<Kernel<3, 3>>{.heads = 2, .key_heads = differ(1, 2)})},
       {"scale",
        {"0.5", "0.25"},
        state(WindowAttention<4, 3>{.heads = 2, .scale = differ(0.5, 0.25)})},
       {"shift", {}, state(WindowAttention<4, 3>{.heads = 2, .shift = {differ<index_t>(0, 1), 0}})},
       {"masked",
        {},
        state(WindowAttention<4, 3>{.heads = 2, .shift = {1, 0}, .masked = {differs(), false}})},
       {"centred", {}, state(WindowAttention<4, 5>{.heads = 2, .centred = {false, differs()}})},
       {"weights of MeanSquare",
        {"row 23 1", "row 23 2"},
        [&] { (void)MeanSquare(x, differ(weights, others)); }},
       {"weights of AnomalyCorrelation",
        {"row 23 1", "row 23 2"},
        [&] { (void)AnomalyCorrelation(x, differ(weights, others)); }},
       {"delta", {"0.5", "0.25"}, [&] { (void)Huber(x, weights, differ(0.5, 0.25)); }}});
}

TEST(Options, OfTraining) {
  const Line mesh = line();
  const Image x("x", mesh, {2, 4, 24, 6});
  using Loss      = LossScale<double, Kokkos::HostSpace>;
  const auto loss = [&](const LossScaleOptions& options) {
    return [&, options] { const Loss scale(4, mesh.communicator(), options); };
  };
  Arena arena("arena", 8);
  arena.take_arrays("one", {{"weight", {4}}});
  arena.take_arrays("two", {{"weight", {4}}});
  using Buckets = GradientBuckets<double, Kokkos::HostSpace>;
  using Sum     = GradientSum<double, Kokkos::HostSpace>;
  using Norm    = GradientNorm<double, Kokkos::HostSpace>;
  expect_disagreement(
      {{"initial", {"8", "16"}, loss({.initial = differ(8.0, 16.0)})},
       {"growth", {"2", "4"}, loss({.growth = differ(2.0, 4.0)})},
       {"backoff", {"0.5", "0.25"}, loss({.backoff = differ(0.5, 0.25)})},
       {"interval", {"10", "20"}, loss({.interval = differ<index_t>(10, 20)})},
       {"gradients of GradientSum", {"4", "5"}, [&] { const Sum sum(x, differ<index_t>(4, 5)); }},
       {"channels of GradientSum",
        {},
        [&] {
          const Sum sum(x, 4, differ(GradientsOf::all_channels, GradientsOf::owned_channels));
        }},
       {"gradients of GradientNorm",
        {"4", "5"},
        [&] { const Norm norm(differ<index_t>(4, 5), 2, mesh.communicator()); }},
       {"bytes of GradientBuckets", {"4 4 values", "8 values"}, [&] {
          const Buckets buckets(x, arena, differ<index_t>(64, 32));
        }}});
}

TEST(Options, OfMatrixFiles) {
  const Line mesh       = line();
  const std::int64_t id = rank();
  const SparseMatrix<double, Lat, Row> a(mesh, {id}, {{id, id, 1.0}});
  const ScratchFile one("one"), two("two");
  expect_disagreement({{"path", {"one", "two"}, [&] {
                          write_matrix_market(mesh, differ(one.path(), two.path()), a);
                        }}});
}

TEST(Options, OfCheckpoints) {
  const Line mesh = line();
  const Field f   = field(mesh);
  const ScratchFile one("one"), two("two");
  double step           = 1.0;
  const auto checkpoint = [&](const char* name) {
    Checkpoint state(mesh.communicator());
    state.add(name, step);
    state.add("field", f);
    return state;
  };
  checkpoint("step").save(one.path());
  expect_disagreement(
      {{"name", {"step", "time"}, [&] { checkpoint(differ("step", "time")).save(one.path()); }},
       {"path", {"one", "two"}, [&] { checkpoint("step").save(differ(one.path(), two.path())); }},
       {"name in load", {"step", "time"}, [&] {
          checkpoint(differ("step", "time")).load(one.path());
        }}});
}

/// y = x
struct Same {
  template <class S>
  void apply(const S& space, const Field& y, const Field& x) const {
    Kokkos::deep_copy(space, y.view(), x.view());
  }
  template <class S>
  void pullback(const S& space, const Field& dx, const Field& dy) const {
    Kokkos::deep_copy(space, dx.view(), dy.view());
  }
};

TEST(Options, OfTapesAndAnnotations) {
  const Line mesh = line();
  const Field f   = field(mesh);
  Tape<Space> tape;
  expect_disagreement({{"steps", {"3 steps", "4 steps"}, [&] {
                          (void)tape.loop(Same{}, f, differ<index_t>(3, 4));
                        }}});
  // the fewest checkpoints of all ranks are right: they are a bound
  const auto y = tape.loop(Same{}, f, 6, {.slots = differ<index_t>(4, 2)});
  (void)tape.pullback(y, f, f);
  index_t recomputed[] = {tape.recomputed(), -tape.recomputed()};
  MPI_Allreduce(MPI_IN_PLACE, recomputed, 2, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  EXPECT_EQ(recomputed[0], -recomputed[1]);

  const Space space;
  const DeviceMesh devices(MPI_COMM_WORLD, LogicalMesh::of_shape({ranks()}, {"x"}));
  const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> whole("whole", 12, 12);
  const auto named = [](const char* name) {
    return
        [name] { const DeviceMesh made(MPI_COMM_WORLD, LogicalMesh::of_shape({ranks()}, {name})); };
  };
  const PartitionSpec rows{0, none}, columns{none, 0};
  expect_disagreement(
      {{"names of axes", {"'x'", "'y'"}, named(differ("x", "y"))},
       {"spec",
        {"(0, None)", "(None, 0)"},
        [&] { mark_sharding(space, whole, devices, differ(rows, columns)); }},
       {"spec of inputs",
        {"(0, None)", "(None, 0)"},
        [&] { (void)shard_inputs(space, whole, devices, InputSharding(differ(rows, columns))); }},
       {"manual", {"(0, None)", "(None, 0)"}, [&] {
          (void)enable_manual_sharding(space, whole, differ(rows, columns), devices);
        }}});
}

}  // namespace sweep_options_test
