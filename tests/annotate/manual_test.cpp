// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/annotate/manual.hpp"

#include "annotated.hpp"
#include "shard/base/error.hpp"
#include "shard/collectives/collectives.hpp"
#include "support/thrown.hpp"

namespace annotated_test {

using namespace shard;
using namespace shard::testing;
struct Data;
struct Model;
using Grid   = shard::Mesh<Data, Model>;
using Plane  = Kokkos::View<double**, Kokkos::LayoutRight>;
using Square = shard::Extents<2>;

Grid make_mesh() { return {MPI_COMM_WORLD, {1, ranks()}}; }
/// ceil(n / ranks)
index_t share(index_t n) { return (n + ranks() - 1) / ranks(); }

struct AddOneKernel {
  Plane view;
  KOKKOS_FUNCTION void operator()(int i, int j) const { view(i, j) += 1; }
};
void add_one(const Plane& view) {
  const int rows = static_cast<int>(view.extent(0)), columns = static_cast<int>(view.extent(1));
  Kokkos::parallel_for(
      "add one", Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>>(Space(), {0, 0}, {rows, columns}),
      AddOneKernel{view});
  Kokkos::fence();
}
Plane ones(index_t n) {
  const Plane view = make<Plane>({n, n});
  Kokkos::deep_copy(view, 1.0);
  return view;
}

TEST(Manual, ThereAndBack) {
  const Space space;
  const Grid mesh  = make_mesh();
  const Plane full = make<Plane>({8, 8});
  const PartitionSpec spec{0, 1};
  const Plane local = enable_manual_sharding(space, full, spec, mesh);
  EXPECT_EQ(extents_of(local), (Index{8, share(8)}));
  expect_all(local, 0);  // the padding too
  add_one(local);        // the padding too
  expect_all(full, 0);   // stays as it was
  const auto back = disable_manual_sharding(space, local, spec, {8, 8}, mesh);
  EXPECT_EQ(back.extents(), (Square{8, 8}));
  EXPECT_EQ(back.spec(), spec);
  expect_all(back.gather(space), 1);
  EXPECT_NE(back.local().data(), local.data());  // a copy, on any number of ranks
}

TEST(Manual, InPlace) {
  const Space space;
  const Grid mesh = make_mesh();
  const PartitionSpec spec{none, 1};
  const auto tensor  = wrap_as_sharded(numbered<Plane>({3, 7}));
  const auto other   = tensor;
  const Plane local  = enable_manual_sharding(space, tensor, spec, mesh);
  const index_t from = std::min<index_t>(share(7) * rank(), 7);
  EXPECT_EQ(extents_of(local), (Index{3, share(7)}));
  expect_numbered(local, {0, from}, {3, 7});
  EXPECT_EQ(other.sharding_type(), ShardingType::manual);
  EXPECT_EQ(other.sharding_text(), "{manual}");
  EXPECT_EQ(other.local().data(), local.data());
  const auto negate = [](const Plane& view) {
    on_values(view, [](double& v, const Index&) { v = -v; });
  };
  negate(local);
  disable_manual_sharding(space, tensor, spec, {3, 7}, mesh);
  EXPECT_EQ(other.sharding_type(), mesh.logical().get_op_sharding(spec).type());
  negate(other.local());
  expect_numbered(other.gather(space));

  // the annotation that it has already
  const Plane again = full_to_shard(space, tensor);
  expect_numbered(again, {0, from}, {3, 7});
  disable_manual_sharding(space, other, spec, {3, 7}, mesh);
  expect_numbered(tensor.gather(space));
}

TEST(Manual, TheGlobalMeshUnlessGivenOne) {
  const Space space;
  set_global_mesh(LogicalMesh::of_shape({ranks()}, {"x"}));
  const Plane local = enable_manual_sharding(space, numbered<Plane>({5, 4}), {"x", none});
  const auto back   = disable_manual_sharding(space, local, {"x", none}, {5, 4});
  expect_numbered(back.gather(space));
  shard::set_global_mesh(std::nullopt);
}

TEST(Manual, Collectives) {
  const Space space;
  const Grid mesh    = make_mesh();
  const int n        = ranks();
  const index_t size = 8 % n == 0 ? 8 : 24;
  const Plane full   = ones(size);
  const PartitionSpec copies{none, none};

  // reduce_scatter along the first and the last dimension: n * ones
  const Plane local = enable_manual_sharding(space, full, copies, mesh);
  EXPECT_EQ(extents_of(local), (Index{size, size}));
  const Plane rows = make<Plane>({size / n, size}), columns = make<Plane>({size, size / n});
  shard::reduce_scatter<Model>(space, rows, local, mesh, 0);
  expect_all(rows, n);
  expect_all(disable_manual_sharding(space, rows, {1, none}, {size, size}, mesh).gather(space), n);
  shard::reduce_scatter<Model>(space, columns, local, mesh, -1);
  expect_all(columns, n);
  expect_all(disable_manual_sharding(space, columns, {none, 1}, {size, size}, mesh).gather(space),
             n);

  // all_reduce, and with a scale
  const Plane sum = make<Plane>({size, size});
  shard::all_reduce<Model>(space, sum, local, mesh);
  expect_all(disable_manual_sharding(space, sum, copies, {size, size}, mesh).gather(space), n);
  shard::all_reduce<Model>(space, sum, local, mesh, 0.25);
  expect_all(sum, 0.25 * n);
  expect_all(full, 1);
}

TEST(Manual, StillManual) {
  const Space space;
  const Grid mesh   = make_mesh();
  const auto tensor = wrap_as_sharded(ones(6));
  enable_manual_sharding(space, tensor, {0, 1}, mesh);
  const auto says = [](const auto& use) {
    expect_parts(message_thrown_by<ArgumentError>(use),
                 {"\"tensor\"", "still manual", "(0, 1)", "disable_manual_sharding"});
  };
  says([&] { mark_sharding(space, tensor, mesh, {0, 1}); });
  says([&] { annotate_custom_sharding(space, tensor, mesh, {0, 1}); });
  says([&] { enable_manual_sharding(space, tensor, {0, 1}, mesh); });
  says([&] { full_to_shard(space, tensor); });
  says([&] { clear_sharding(space, tensor); });
  says([&] { shard::unwrap(space, tensor); });
  says([&] { tensor.gather(space); });
  says([&] { tensor.local_shards(space); });
  says([&] { tensor.load_local_shards(space, {tensor.local()}); });
  says([&] { (void)tensor.sharding(); });
  says([&] { (void)tensor.layout(); });
  disable_manual_sharding(space, tensor, {0, 1}, {6, 6}, mesh);
  expect_all(tensor.gather(space), 1);
}

TEST(Manual, Errors) {
  const Space space;
  const Grid mesh   = make_mesh();
  const Plane full  = ones(6);
  const auto tensor = wrap_as_sharded(full);
  expect_parts(message_thrown_by<ArgumentError>([&] { full_to_shard(space, tensor); }),
               {"full_to_shard", "\"tensor\"", "has no annotation", "mark_sharding"});
  // raw data, and what is sharded, is not manual
  const auto disables = [&] { disable_manual_sharding(space, tensor, {0, 1}, {6, 6}, mesh); };
  expect_parts(message_thrown_by<ArgumentError>(disables),
               {"UNKNOWN", "raw data", "not MANUAL", "[6, 6]", "enable_manual_sharding"});
  mark_sharding(space, tensor, mesh, {0, 1});
  expect_parts(message_thrown_by<ArgumentError>(disables),
               {ranks() == 1 ? "MAXIMAL" : "TILED", "not MANUAL"});
  expect_parts(
      message_thrown_by<ArgumentError>([&] { enable_manual_sharding(space, full, {0}, mesh); }),
      {"length (1) should be equal to the tensor's rank (2)"});
  if (ranks() > 1)
    expect_parts(message_thrown_by<ArgumentError>([&] {
                   enable_manual_sharding(space, tensor, {1, 0}, mesh);
                 }),
                 {"enable_manual_sharding", "must be cleared first"});

  const Plane local   = enable_manual_sharding(space, full, {0, 1}, mesh);
  const std::string n = std::to_string(share(6)), padded = "have extents [6, " + n + "]";
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 disable_manual_sharding(space, local, {0}, {6, 6}, mesh);
               }),
               {"length (1)", "rank (2)"});
  const std::string has = "shards of extents [6, " + n + "]";
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 disable_manual_sharding(space, local, {0, 1}, {7, 6}, mesh);
               }),
               {"disable_manual_sharding", has.c_str(), "extents [7, 6]", "[7, "});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 disable_manual_sharding(space, make<Plane>({5, share(6)}), {0, 1}, {6, 6}, mesh);
               }),
               {"shards of extents [5, ", padded.c_str()});
  if (ranks() == 1) return;
  const bool first = rank() == 0;
  expect_parts(message_thrown_by<AgreementError>([&] {
                 disable_manual_sharding(space, local, {0, 1}, Square{6, first ? 6 : 5}, mesh);
               }),
               {"disagree", "[6, 6]", "[6, 5]"});
  expect_parts(
      message_thrown_by<AgreementError>([&] {
        disable_manual_sharding(space, first ? local : make<Plane>({1, 1}), {0, 1}, {6, 6}, mesh);
      }),
      {"disagree", "[1, 1]"});
  expect_parts(message_thrown_by<AgreementError>([&] {
                 enable_manual_sharding(space, full,
                                        first ? PartitionSpec{0, 1} : PartitionSpec{1, 0}, mesh);
               }),
               {"disagree", "(0, 1)", "(1, 0)"});
}

/// Kernels and collectives of one's own between enable and disable, with other layouts and types.
template <class View>
void check_manual(const Index& n, const PartitionSpec& spec) {
  const Space space;
  const Grid mesh  = make_mesh();
  const auto local = enable_manual_sharding(space, numbered<View>(n), spec, mesh);
  const shard::ShardLayout layout(mesh.logical().get_op_sharding(spec), n);
  EXPECT_EQ(extents_of(local), layout.shard_shape());
  const shard::DeviceShard mine = layout.shard(rank());
  expect_numbered(local, mine.begin, mine.end);
  shard::Extents<static_cast<int>(View::rank())> shape;
  for (int d = 0; d < static_cast<int>(View::rank()); ++d)
    shape[d] = n[static_cast<std::size_t>(d)];
  expect_numbered(disable_manual_sharding(space, local, spec, shape, mesh).gather(space));
}
TEST(Manual, OtherTensors) {
  check_manual<Kokkos::View<float*, Kokkos::LayoutRight>>({3}, {1});
  check_manual<Kokkos::View<float*, Kokkos::LayoutRight>>({0}, {{0, 1}});
  check_manual<Kokkos::View<double***, Kokkos::LayoutLeft>>({5, 4, 9}, {none, 1, 0});
  check_manual<Kokkos::View<double*****, Kokkos::LayoutRight>>({1, 2, 3, 4, 5},
                                                               {none, none, 0, none, 1});
}

}  // namespace annotated_test
