// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/annotate/as_sharded.hpp"

#include <optional>
#include <type_traits>

#include "annotated.hpp"
#include "shard/base/error.hpp"
#include "shard/redistribute/axis_placements.hpp"
#include "shard/annotate/manual.hpp"
#include "shard/annotate/shard_inputs.hpp"
#include "support/thrown.hpp"

namespace annotated_test {

using namespace shard;
using namespace shard::testing;
struct Lat;
struct Lon;
using Grid  = shard::Mesh<Lat, Lon>;
using Plane = Kokkos::View<double**, Kokkos::LayoutRight>;
template <class... Dims>
using Field  = shard::ShardedView<double**, Kokkos::LayoutRight, Dims...>;
using Tiles  = Field<ShardDim<0, Lat>, ShardDim<1, Lon>>;
using Turned = Field<ShardDim<0, Lon>, ShardDim<1, Lat>>;
using Rows   = Field<ShardDim<0, Axes<Lat, Lon>>>;
using Lines  = Field<ShardDim<1, Axes<Lon, Lat>>>;
using Copies = Field<>;
using Haloed = Field<ShardDim<0, Lat, shard::Halo<1>>>;

Grid make_mesh(bool square = true) {
  return square ? Grid(MPI_COMM_WORLD, {0, 0}) : Grid(MPI_COMM_WORLD, {1, ranks()});
}

/// A field's owned cells have the numbers of their global indices.
template <class F>
void expect_field(const F& field) {
  Index begin, end;
  for (int d = 0; d < F::rank; ++d) {
    begin.push_back(field.begin(d));
    end.push_back(field.begin(d) + field.extent(d));
  }
  EXPECT_EQ(extents_of(field.owned()), (Index{field.extent(0), field.extent(1)}));
  expect_numbered(field.owned(), begin, end);
}

/// From the spec to the type: the same memory, there and back.
template <class F>
void check_shares(const Grid& mesh) {
  const Space space;
  const PartitionSpec spec = partition_spec<F, Grid>();
  for (const Index& n : {Index{7, 5}, Index{8, 8}, Index{1, 3}, Index{0, 4}}) {
    SCOPED_TRACE(spec.text() + " " + std::to_string(n[0]) + " x " + std::to_string(n[1]));
    const auto tensor = mark_sharding(space, numbered<Plane>(n), mesh, spec);
    const F field     = as_sharded<F>(tensor, mesh);
    EXPECT_EQ(field.view().data(), tensor.local().data());
    EXPECT_EQ(field.global_extent(0), n[0]);
    EXPECT_EQ(field.global_extent(1), n[1]);
    EXPECT_EQ(field.label(), "tensor");
    expect_field(field);
    EXPECT_EQ(partition_spec(field), spec);

    const auto wrapped = wrap_if_sharded(field);
    EXPECT_EQ(wrapped.local().data(), tensor.local().data());
    EXPECT_EQ(wrapped.sharding(), tensor.sharding());
    expect_numbered(wrapped.gather(space));
    // a balanced field, too, and back
    const F balanced("balanced", mesh, {n[0], n[1]});
    on_values(balanced.owned(), [&](double& v, Index i) {
      for (int d = 0; d < 2; ++d) i[static_cast<std::size_t>(d)] += balanced.begin(d);
      v = number_of(i);
    });
    const auto from_balanced = shard::wrap_as_sharded(balanced);
    expect_numbered(from_balanced.gather(space));
    expect_field(as_sharded<F>(from_balanced, mesh));
    mark_sharding(space, from_balanced, mesh, spec);  // is so marked
    EXPECT_EQ(from_balanced.local().data(), balanced.view().data());
    const auto moved = annotate_custom_sharding(space, from_balanced.clone(space), mesh, spec);
    for (int d = 0; d < 2; ++d)
      EXPECT_EQ(moved.layout().partition(d), tensor.layout().partition(d));
    expect_field(as_sharded<F>(moved, mesh));
  }
}

TEST(AsSharded, SharesMemory) {
  for (const bool square : {true, false}) {
    const Grid mesh = make_mesh(square);
    check_shares<Tiles>(mesh);
    check_shares<Turned>(mesh);
    check_shares<Rows>(mesh);
    check_shares<Lines>(mesh);
    check_shares<Field<ShardDim<1, Lat>>>(mesh);
    check_shares<Copies>(mesh);
  }
}

TEST(AsSharded, OtherTypes) {
  const Space space;
  const Grid mesh = make_mesh();
  using Left      = Kokkos::View<float***, Kokkos::LayoutLeft>;
  using LeftField =
      shard::ShardedView<float***, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<2, Lon>>;
  const auto left  = mark_sharding(space, numbered<Left>({2, 5, 7}), mesh, {none, 0, 1});
  const auto field = as_sharded<LeftField>(left, mesh);
  expect_numbered(field.owned(), {0, field.begin(1), field.begin(2)},
                  {2, field.begin(1) + field.extent(1), field.begin(2) + field.extent(2)});
  // to const
  const auto tensor = mark_sharding(space, numbered<Plane>({4, 6}), mesh, {0, 1});
  using Constant =
      shard::ShardedView<const double**, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  const auto constant = as_sharded<Constant>(tensor, mesh);
  EXPECT_EQ(constant.origin(), tensor.local().data());
  EXPECT_TRUE((std::is_same_v<decltype(wrap_if_sharded(constant)), Constant>));
}

/// The specs of a type: by its mesh, or of its own axes alone.
TEST(AsSharded, PartitionSpecOfATypeAndB20) {
  EXPECT_EQ((partition_spec<Tiles, Grid>()), (PartitionSpec{0, 1}));
  EXPECT_EQ((partition_spec<Turned, Grid>()), (PartitionSpec{1, 0}));
  EXPECT_EQ(partition_spec<Turned>(), (PartitionSpec{0, 1}));
  EXPECT_EQ((partition_spec<Rows, Grid>()), (PartitionSpec{{0, 1}, none}));
  EXPECT_EQ((partition_spec<Lines, Grid>()), (PartitionSpec{none, {1, 0}}));
  EXPECT_EQ(partition_spec<Lines>(), (PartitionSpec{none, {0, 1}}));
  EXPECT_EQ((partition_spec<Field<ShardDim<1, Lon>>, Grid>()), (PartitionSpec{none, 1}));
  EXPECT_EQ((partition_spec<Copies, Grid>()), (PartitionSpec{none, none}));
  EXPECT_EQ((partition_spec<Haloed, shard::Mesh<Lon, Lat>>()), (PartitionSpec{1, none}));

  // B20: names and tuples are what they say, not Replicate
  const Space space;
  const Grid grid = make_mesh();
  const DeviceMesh named(grid, {"lat", "lon"});
  const auto tensor = mark_sharding(space, numbered<Plane>({9, 4}), named, {{"lat", "lon"}, none});
  expect_field(as_sharded<Rows>(tensor, grid));
  const auto swapped = mark_sharding(space, numbered<Plane>({4, 9}), named, {none, {"lon", "lat"}});
  expect_field(as_sharded<Lines>(swapped, grid));
  // the order within the tuple matters
  if (grid.size<Lat>() > 1 && grid.size<Lon>() > 1)
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { as_sharded<Field<ShardDim<1, Axes<Lat, Lon>>>>(swapped, grid); }),
                 {"(None, ('lon', 'lat'))", "(None, (0, 1))", "partition_spec"});
}

TEST(AsSharded, Errors) {
  const Space space;
  const Grid mesh   = make_mesh(false);
  const Plane whole = numbered<Plane>({6, 5});
  const auto tensor = shard::wrap_as_sharded(whole);
  const auto uses   = [&] { as_sharded<Tiles>(tensor, mesh); };
  expect_parts(message_thrown_by<ArgumentError>(uses),
               {"as_sharded", "has no annotation", "mark_sharding"});
  mark_sharding(space, tensor, mesh, {1, 0});
  if (ranks() > 1) {
    expect_parts(message_thrown_by<ArgumentError>(uses),
                 {"\"tensor\"", "sharded by (1, 0)", "the field's type says (0, 1)"});
    const auto clone = tensor.clone(space);
    annotate_custom_sharding(space, clone, mesh, {0, 1});
    const auto either = rank() == 0 ? tensor : clone;
    expect_parts(message_thrown_by<AgreementError>([&] { as_sharded<Tiles>(either, mesh); }),
                 {"disagree"});
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank(), &reversed);
    const Grid elsewhere(reversed, {1, ranks()});
    MPI_Comm_free(&reversed);
    expect_parts(message_thrown_by<ArgumentError>([&] { as_sharded<Turned>(tensor, elsewhere); }),
                 {"another communicator's ranks"});
  }
  full_to_shard(space, tensor);
  expect_parts(message_thrown_by<ArgumentError>(uses), {"still manual", "disable_manual_sharding"});
}

TEST(WrapIfSharded, WrapsWhatHasAnAnnotation) {
  const Grid mesh   = make_mesh(false);
  const Plane plain = make<Plane>({2, 2});
  EXPECT_EQ(wrap_if_sharded(plain).data(), plain.data());
  EXPECT_EQ(wrap_if_sharded(7), 7);
  EXPECT_EQ(wrap_if_sharded(std::string("words")), "words");
  const auto tensor = shard::wrap_as_sharded(plain);
  EXPECT_EQ(wrap_if_sharded(tensor), tensor);
  const Haloed haloed("haloed", mesh, {4, 4});
  EXPECT_TRUE((std::is_same_v<decltype(wrap_if_sharded(haloed)), Haloed>));
  EXPECT_EQ(wrap_if_sharded(haloed).origin(), haloed.origin());
  const Tiles tiles("tiles", mesh, {4, 6});
  const auto wrapped = wrap_if_sharded(tiles);
  EXPECT_TRUE(shard::is_annotated_view_v<decltype(wrap_if_sharded(tiles))>);
  EXPECT_EQ(wrapped.label(), "tiles");
  EXPECT_EQ(wrapped.local().data(), tiles.origin());
  EXPECT_EQ(wrapped.spec(), (PartitionSpec{0, 1}));
  // what can't be said by an annotation
  const Field<ShardDim<0, Lat>> narrow(
      Field<ShardDim<0, Lat, shard::Halo<1>>>("wide", mesh, {4, 4}));
  expect_parts(message_thrown_by<ArgumentError>([&] { wrap_if_sharded(narrow); }),
               {"\"wide\"", "with a halo"});
  if (ranks() == 1) return;
  std::vector<index_t> begins(static_cast<std::size_t>(ranks()) + 1, 0);
  begins.back() = 6;  // all of them with the last rank
  const Tiles uneven("uneven", mesh,
                     {shard::Partition::balanced(4, 1), shard::Partition::explicit_begins(begins)});
  expect_parts(message_thrown_by<ArgumentError>([&] { wrap_if_sharded(uneven); }),
               {"\"uneven\"", "neither balanced nor ceil", "redistribute"});
}

TEST(AxisPlacements, B20_tuples_names_and_two_axes_on_one_dimension) {
  const LogicalMesh mesh = LogicalMesh::of_shape({4, 2}, {"x", "y"});
  const auto replicate = AxisPlacement::replicate(), partial = AxisPlacement::partial();
  const auto shard_of = [](int dim) { return AxisPlacement::shard(dim); };
  using All           = std::vector<AxisPlacement>;
  EXPECT_EQ(spec_from_placements({replicate, shard_of(0)}, mesh, 3),
            (PartitionSpec{1, none, none}));
  EXPECT_EQ(spec_from_placements({replicate, shard_of(1)}, mesh, 2), (PartitionSpec{none, 1}));
  EXPECT_EQ(spec_from_placements({shard_of(1), shard_of(-1)}, mesh, 2),
            (PartitionSpec{none, {0, 1}}));
  EXPECT_EQ(spec_from_placements({replicate, replicate}, mesh, 1), (PartitionSpec{none}));
  EXPECT_EQ(placements_from_spec({none, {"x", "y"}}, mesh), (All{shard_of(1), shard_of(1)}));
  EXPECT_EQ(placements_from_spec({"y", none}, mesh), (All{replicate, shard_of(0)}));
  EXPECT_EQ(placements_from_spec({1, 0}, mesh), (All{shard_of(1), shard_of(0)}));
  EXPECT_EQ(placements_from_spec({none}, mesh), (All{replicate, replicate}));
  for (const PartitionSpec& spec :
       {PartitionSpec{{0, 1}, none}, PartitionSpec{1, 0}, PartitionSpec{none, 0}})
    EXPECT_EQ(spec_from_placements(placements_from_spec(spec, mesh), mesh, 2), spec);

  const auto refuses = [](const auto& call) { return message_thrown_by<ArgumentError>(call); };
  expect_parts(refuses([&] { spec_from_placements({shard_of(0)}, mesh, 2); }),
               {"1 placements", "the mesh has 2 axes"});
  expect_parts(refuses([&] {
                 spec_from_placements({shard_of(2), replicate}, mesh, 2);
               }),
               {"mesh axis 0 is Shard(2)", "rank 2 has dimensions 0 to 1"});
  expect_parts(refuses([&] {
                 spec_from_placements({shard_of(0), partial}, mesh, 2);
               }),
               {"mesh axis 1 is Partial", "all_reduce"});
  expect_parts(refuses([&] {
                 placements_from_spec({{"y", "x"}, none}, mesh);
               }),
               {"dimension 0", "mesh axis 1 before 0", "ascending"});
  expect_parts(refuses([&] { placements_from_spec({"z"}, mesh); }), {"z is not defined"});
}

TEST(ShardInputs, OneSpecOnePerKeyOrNone) {
  const Space space;
  const DeviceMesh mesh(MPI_COMM_WORLD, LogicalMesh::of_shape({ranks()}, {"data"}));
  using Named        = std::vector<std::pair<std::string, Plane>>;
  using Specs        = std::vector<std::pair<std::string, PartitionSpec>>;
  const Plane image  = numbered<Plane>({8, 3});
  const Named inputs = {{"image", image}, {"label", numbered<Plane>({5, 2})}};
  const PartitionSpec batch{"data", none};

  const auto one = shard_inputs(space, image, mesh, batch);
  EXPECT_EQ(one.spec(), batch);
  expect_numbered(one.gather(space));
  EXPECT_TRUE(shard_inputs(space, image, mesh, none).sharding().replicated());
  EXPECT_TRUE(shard_inputs(space, image, mesh, PartitionSpec{"data"}).sharding().replicated());

  const auto all = shard_inputs(space, inputs, mesh, batch);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].first, "label");
  EXPECT_EQ(all[1].second.spec(), batch);
  const auto by_key =
      shard_inputs(space, inputs, mesh, Specs{{"label", {none, "data"}}, {"image", batch}});
  EXPECT_EQ(by_key[0].second.spec(), batch);
  EXPECT_EQ(by_key[1].second.spec(), (PartitionSpec{none, "data"}));
  expect_numbered(by_key[1].second.gather(space));

  expect_parts(message_thrown_by<ArgumentError>([&] {
                 shard_inputs(space, inputs, mesh, Specs{{"image", batch}});
               }),
               {"\"label\" has no spec", "{'image': ('data', None)}"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 shard_inputs(space, image, mesh, Specs{{"image", batch}});
               }),
               {"a spec for each key", "bare tensor", "'image'"});
  if (ranks() == 1) return;
  const Specs here = rank() == 0 ? Specs{} : Specs{{"image", batch}};
  expect_parts(message_thrown_by<AgreementError>([&] { shard_inputs(space, inputs, mesh, here); }),
               {"disagree", "'image'"});
}

}  // namespace annotated_test
