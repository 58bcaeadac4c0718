// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/annotate/annotated_view.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>

#include "annotated.hpp"
#include "shard/base/error.hpp"
#include "support/thrown.hpp"

namespace annotated_test {

using namespace shard;
using namespace shard::testing;
using Line   = Kokkos::View<double*, Kokkos::LayoutRight>;
using Plane  = Kokkos::View<double**, Kokkos::LayoutRight>;
using Volume = Kokkos::View<double***, Kokkos::LayoutRight>;

DeviceMesh make_mesh(const std::vector<int>& shape, const std::vector<std::string>& names = {}) {
  return {MPI_COMM_WORLD, LogicalMesh::of_shape(shape, names)};
}
/// A mesh of all ranks in one line.
DeviceMesh line_mesh() { return make_mesh({ranks()}, {"x"}); }

/// A shape of `axes` axes for all ranks, and devices in any order; the same on every rank.
LogicalMesh some_mesh(int axes, std::mt19937_64& random) {
  std::vector<int> shape(static_cast<std::size_t>(axes), 1), ids(static_cast<std::size_t>(ranks()));
  for (int left = ranks(), factor = 2; left > 1; ++factor)
    for (; left % factor == 0; left /= factor) shape[random() % shape.size()] *= factor;
  std::iota(ids.begin(), ids.end(), 0);
  if (random() % 2 == 0) std::shuffle(ids.begin(), ids.end(), random);
  return {ids, shape};
}
/// A spec for this many dimensions over some of the mesh's axes, tuples too.
PartitionSpec some_spec(int dims, int axes, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(axes));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::vector<shard::SpecAxis>> entries(static_cast<std::size_t>(dims));
  for (const int axis : order)
    if (random() % 4 != 0) entries[random() % entries.size()].emplace_back(axis);
  std::vector<shard::SpecEntry> spec;
  for (auto& entry : entries) spec.emplace_back(entry);
  return PartitionSpec(spec);
}

template <class Tensor>
void expect_shard(const Tensor& tensor) {
  const DeviceShard mine = tensor.layout().shard(tensor.mesh().rank());
  EXPECT_EQ(extents_of(tensor.local()), mine.extent());
  EXPECT_TRUE(tensor.local().span_is_contiguous());
  expect_numbered(tensor.local(), mine.begin, mine.end);
  const auto shards = tensor.local_shards(Space());
  ASSERT_EQ(shards.size(), 1U);
  EXPECT_EQ(shards[0].device, rank());
  EXPECT_EQ(shards[0].replica_id, tensor.sharding().replica_id(rank()));
  EXPECT_EQ(shards[0].text(), mine.text());
  EXPECT_EQ(extents_of(shards[0].data), tensor.layout().shard_shape());
  expect_numbered(shards[0].data, mine.begin, mine.end);
  EXPECT_EQ(extents_of(shards[0].unpadded_data()), mine.extent());
}

/// Everything there and back, for any mesh, spec and extents.
template <class View>
void check_random(int trials) {
  constexpr int dims = static_cast<int>(View::rank());
  std::mt19937_64 random(shard::testing::seed() + View::rank());
  const Space space;
  for (int trial = 0; trial < trials; ++trial) {
    const LogicalMesh logical = some_mesh(1 + trial % 3, random);
    const DeviceMesh mesh(MPI_COMM_WORLD, logical);
    const PartitionSpec spec = some_spec(dims, logical.rank(), random),
                        next = some_spec(dims, logical.rank(), random);
    Index n;
    for (int d = 0; d < dims; ++d)
      n.push_back(static_cast<index_t>(random() % (trial % 4 == 0 ? 4 : 8)));
    SCOPED_TRACE(logical.text() + " " + spec.text() + " " + next.text());
    const View whole = numbered<View>(n);
    auto tensor      = mark_sharding(space, whole, mesh, spec);
    EXPECT_EQ(tensor.spec(), spec);
    expect_shard(tensor);
    const auto shards = tensor.local_shards(space);
    const auto joined = from_local_shards(space, std::vector{shards[0].data}, mesh, spec,
                                          std::optional(tensor.extents()));
    EXPECT_EQ(joined.sharding(), tensor.sharding());
    expect_shard(joined);
    const View everything = tensor.gather(space);
    EXPECT_EQ(extents_of(everything), n);
    expect_numbered(everything);

    const auto clone = tensor.clone(space);
    annotate_custom_sharding(space, tensor, mesh, next);
    EXPECT_EQ(tensor.sharding(), logical.get_op_sharding(next));
    expect_shard(tensor);
    expect_shard(clone);
    EXPECT_EQ(clone.sharding(), logical.get_op_sharding(spec));
    const View cleared = clear_sharding(space, tensor);
    EXPECT_EQ(tensor.sharding_type(), ShardingType::unknown);
    EXPECT_EQ(extents_of(cleared), n);
    expect_numbered(cleared);
  }
}

TEST(AnnotatedView, ThereAndBackLine) { check_random<Line>(12); }
TEST(AnnotatedView, ThereAndBackPlane) { check_random<Plane>(24); }
TEST(AnnotatedView, ThereAndBackFloat) {
  check_random<Kokkos::View<float**, Kokkos::LayoutRight>>(12);
}
TEST(AnnotatedView, ThereAndBackLeft) {
  check_random<Kokkos::View<double***, Kokkos::LayoutLeft>>(24);
}
TEST(AnnotatedView, ThereAndBackFour) {
  check_random<Kokkos::View<double****, Kokkos::LayoutRight>>(12);
}
TEST(AnnotatedView, ThereAndBackFive) {
  check_random<Kokkos::View<double*****, Kokkos::LayoutRight>>(12);
}
/// No number that kernels know, three units of two bytes.
struct Triple {
  std::int16_t low, high, check;
  Triple() = default;
  explicit Triple(double value)
      : low(static_cast<std::int16_t>(static_cast<int>(value) % 1000)),
        high(static_cast<std::int16_t>(static_cast<int>(value) / 1000)),
        check(static_cast<std::int16_t>(-low)) {}
  explicit operator double() const { return check == -low ? low + 1000.0 * high : -1; }
};
TEST(AnnotatedView, ThereAndBackStructs) {
  check_random<Kokkos::View<Triple**, Kokkos::LayoutRight>>(8);
}
TEST(AnnotatedView, LongMessagesGoInSteps) {
  const ScopedVariable limit("SHARD_MESSAGE_LIMIT", "13");
  check_random<Volume>(6);
}

/// What the originals' tests fix, on n devices.
TEST(AnnotatedView, GoldenShardings) {
  const int n = ranks(), half = n / 2;
  if (n % 2 != 0) return;
  const auto marked = [](const auto& view, const std::vector<int>& shape,
                         const PartitionSpec& spec) {
    return mark_sharding(Space(), view, make_mesh(shape), spec);
  };
  const auto begins = [](const std::string& text, const std::string& with) {
    EXPECT_EQ(text.substr(0, with.size()), with);
  };
  std::string all;
  for (int i = 0; i < n; ++i) all += (i == 0 ? "" : ",") + std::to_string(i);
  const std::string h = std::to_string(half);

  const auto four = numbered<Kokkos::View<double****, Kokkos::LayoutRight>>({2, 2, 4, 8});
  EXPECT_EQ(marked(four, {1, 1, 2, half}, {0, 1, 2, 3}).sharding_text(),
            "{devices=[1,1,2," + h + "]" + all + "}");
  const auto rows = marked(numbered<Plane>({2 * n, 3}), {1, n}, {1, 0});
  EXPECT_EQ(extents_of(rows.local()), (Index{2, 3}));  // dimension 0 is cut
  EXPECT_EQ(rows.layout().shard(rank()).begin, (Index{2 * rank(), 0}));
  const auto swapped = marked(numbered<Volume>({4, 8, 16}), {2, 1, half}, {1, 2, 0});
  EXPECT_EQ(extents_of(swapped.local_shards(Space())[0].data),
            (Index{4, (8 + half - 1) / half, 8}));
  expect_shard(swapped);
  const auto turned =
      marked(numbered<decltype(four)>({32, 4, 8, 16}), {2, 1, 1, half}, {3, 1, 2, 0});
  EXPECT_EQ(extents_of(turned.local_shards(Space())[0].data),
            (Index{(32 + half - 1) / half, 4, 8, 8}));
  const auto cut_and_copied = marked(numbered<Plane>({8, 7}), {2, half}, {0, none});
  if (half > 1) {
    EXPECT_EQ(cut_and_copied.sharding_text(),
              "{devices=[2,1," + h + "]" + all + " last_tile_dim_replicate}");
    EXPECT_EQ(cut_and_copied.layout().shard(0).text(), cut_and_copied.layout().shard(1).text());
    EXPECT_EQ(cut_and_copied.layout().shard(1).replica_id, 1);
    begins(marked(numbered<Volume>({2, 3, 4}), {2, 1, half}, {1, none, 0}).sharding_text(),
           "{devices=[1,1,2," + h + "]");
    EXPECT_EQ(cut_and_copied.sharding_type(), ShardingType::partial);
  }
  expect_shard(cut_and_copied);
  EXPECT_EQ(marked(numbered<Line>({3 * n}), {2, half}, {{0, 1}}).sharding_text(),
            "{devices=[" + std::to_string(n) + "]" + all + "}");
  begins(marked(numbered<Volume>({2, 2, 8}), {2, half}, {none, 0, 1}).sharding_text(),
         "{devices=[1,2," + h + "]");
  if (half > 1)
    begins(marked(numbered<Plane>({2, 8}), {2, half, 1}, {2, 1}).sharding_text(),
           "{devices=[1," + h + ",2]");
  const auto columns = marked(numbered<Plane>({16, 16}), {half, 2}, {none, 1});
  EXPECT_EQ(columns.layout().shard(rank()).begin, (Index{0, rank() % 2 * 8}));
  EXPECT_EQ(columns.layout().shard(rank()).replica_id, rank() / 2);
  expect_shard(columns);
}

TEST(AnnotatedView, GoldenPadding) {
  const Space space;
  const int n = ranks();
  // one cell more than devices: two each, of which the last ones are padding
  const auto one_more = mark_sharding(space, numbered<Line>({n + 1}), line_mesh(), {0});
  const index_t each  = (n + 1 + n - 1) / n;
  EXPECT_EQ(extents_of(one_more.local_shards(space)[0].data), Index{each});
  EXPECT_EQ(one_more.layout().shard(rank()).begin, Index{std::min<index_t>(each * rank(), n + 1)});
  expect_shard(one_more);
  if (n == 4) {
    const auto tensor = mark_sharding(space, numbered<Plane>({8, 7}), make_mesh({2, 2}), {0, 1});
    const char* const texts[] = {"[0:4, 0:4]", "[0:4, 4:7]", "[4:8, 0:4]", "[4:8, 4:7]"};
    EXPECT_EQ(tensor.local_shards(space)[0].text(), texts[rank()]);
    const Plane data = tensor.local_shards(space)[0].data;
    EXPECT_EQ(extents_of(data), (Index{4, 4}));
    on_values(data, [](double& v, const Index& i) {
      if (i[1] == 3 && rank() % 2 == 1) {
        EXPECT_EQ(v, 0);
      }
    });
    const auto copies =
        mark_sharding(space, numbered<Plane>({8, 7}), make_mesh({2, 2}), {none, none});
    EXPECT_EQ(copies.local_shards(space)[0].text(), "...");
    EXPECT_EQ(copies.local_shards(space)[0].replica_id, rank());
    EXPECT_EQ(copies.sharding_type(), ShardingType::replicated);
  }
  if (n != 8) return;
  // the shard of the last device, and the padded one
  const auto last = [&](const auto& whole, const LogicalMesh& mesh, const PartitionSpec& spec,
                        const Index& extents, const Index& padded) {
    const auto tensor = mark_sharding(space, whole, DeviceMesh(MPI_COMM_WORLD, mesh), spec);
    expect_shard(tensor);
    EXPECT_EQ(extents_of(tensor.local_shards(space)[0].data), padded);
    if (rank() == 7) {
      EXPECT_EQ(extents_of(tensor.local()), extents);
    }
  };
  const Volume three = numbered<Volume>({8, 7, 4});
  const auto shape   = [](std::vector<int> of) { return LogicalMesh::of_shape(std::move(of)); };
  last(numbered<Line>({8}), shape({8}), {0}, {1}, {1});
  last(three, shape({2, 4}), {0, 1, none}, {4, 1, 4}, {4, 2, 4});
  last(three, shape({1, 4, 2}), {0, 1, 2}, {8, 1, 2}, {8, 2, 2});
  last(numbered<Kokkos::View<double****, Kokkos::LayoutRight>>({1, 8, 7, 4}), shape({1, 1, 4, 2}),
       {0, 1, 2, 3}, {1, 8, 1, 2}, {1, 8, 2, 2});
  last(numbered<Kokkos::View<double*****, Kokkos::LayoutRight>>({10, 1, 8, 7, 4}),
       shape({1, 1, 2, 2, 2}), {0, 1, 2, 3, 4}, {10, 1, 4, 3, 2}, {10, 1, 4, 4, 2});
  last(three, LogicalMesh({4, 5, 0, 1, 6, 7, 2, 3}, {2, 4}), {0, 1, none}, {4, 2, 4}, {4, 2, 4});
  last(three, LogicalMesh({0, 1, 4, 5, 2, 3, 6, 7}, {2, 4}), {0, 1, none}, {4, 1, 4}, {4, 2, 4});
}

TEST(AnnotatedView, MarkingAgain) {
  const Space space;
  const DeviceMesh mesh                                      = make_mesh({ranks(), 1}, {"x", "y"});
  const Plane whole                                          = numbered<Plane>({7, 5});
  shard::AnnotatedView<double**, Kokkos::LayoutRight> tensor = wrap_as_sharded(whole);
  EXPECT_EQ(tensor.sharding_type(), ShardingType::unknown);
  EXPECT_EQ(tensor.sharding_text(), "");
  EXPECT_EQ(tensor.local().data(), whole.data());

  // over none, and over what replicates
  const auto other = mark_sharding(space, tensor, mesh, {none, none});
  EXPECT_EQ(other, tensor);  // in place
  EXPECT_NE(tensor.local().data(), whole.data());
  EXPECT_TRUE(tensor.sharding().replicated());
  mark_sharding(space, tensor, mesh, {"x", none});
  expect_shard(other);
  expect_numbered(whole);

  // the same again: nothing happens, whatever it is called
  const double* cells = tensor.local().data();
  mark_sharding(space, tensor, mesh, {0, none});
  mark_sharding(space, tensor, mesh, {"x", "y"});
  mark_sharding(space, tensor, line_mesh(), {"x", none});
  EXPECT_EQ(tensor.local().data(), cells);

  // another one
  const auto marks_columns = [&] { mark_sharding(space, tensor, mesh, {none, "x"}); };
  const auto marks_copies  = [&] { mark_sharding(space, tensor, mesh, {none, none}); };
  if (ranks() > 1) {
    expect_parts(message_thrown_by<ArgumentError>(marks_columns),
                 {"must be cleared first", "before applying a new one", "\"tensor\"", "('x', None)",
                  "(None, 'x')"});
    expect_parts(message_thrown_by<ArgumentError>(marks_copies), {"must be cleared first"});
    expect_shard(tensor);
  }
  const Plane back = clear_sharding(space, tensor);
  EXPECT_EQ(other.sharding_type(), ShardingType::unknown);
  EXPECT_EQ(back.data(), other.local().data());
  EXPECT_EQ(clear_sharding(space, tensor).data(), back.data());  // again: as it is
  EXPECT_EQ(clear_sharding(space, whole).data(), whole.data());
  marks_columns();
  expect_shard(tensor);

  // whatever there was
  annotate_custom_sharding(space, tensor, mesh, {"x", none});
  expect_shard(tensor);
  const auto moved = annotate_custom_sharding(space, whole, mesh, {"x", none});
  expect_shard(moved);
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { annotate_custom_sharding(space, tensor, mesh, {"x"}); }),
               {"length (1) should be equal to the tensor's rank (2)"});
}

TEST(AnnotatedView, SurvivesWritesAndClones) {
  const Space space;
  const auto tensor      = mark_sharding(space, make<Plane>({5, 9}), line_mesh(), {none, 0});
  const DeviceShard mine = tensor.layout().shard(rank());
  on_values(tensor.local(), [&](double& v, Index i) {
    i[1] += mine.begin[1];
    v = number_of(i);
  });
  expect_shard(tensor);
  const auto clone = tensor.clone(space);
  EXPECT_FALSE(clone == tensor);
  EXPECT_EQ(clone.sharding(), tensor.sharding());
  Kokkos::deep_copy(tensor.local(), 0.0);
  expect_shard(clone);
  expect_all(tensor.gather(space), 0);
}

/// Who has a tile takes its cells from itself, who has not from one of those that do, by turns.
TEST(AnnotatedView, ReplicasSendByTurns) {
  const Space space;
  const int replicas = ranks() / 2;
  if (ranks() % 2 != 0) return;
  const auto tensor = mark_sharding(space, make<Line>({2}), make_mesh({2, replicas}), {0});
  Kokkos::deep_copy(tensor.local(), tensor.sharding().replica_id(rank()) + 1.0);
  expect_all(tensor.gather(space), rank() % replicas + 1);
}

TEST(AnnotatedView, WrapsAndUnwraps) {
  const Space space;
  const Plane whole = numbered<Plane>({4, 6});
  const auto tensor = wrap_as_sharded(whole);
  EXPECT_EQ(wrap_as_sharded(tensor), tensor);
  EXPECT_EQ(shard::unwrap(space, whole).data(), whole.data());
  EXPECT_EQ(shard::unwrap(space, tensor).data(), whole.data());
  mark_sharding(space, tensor, line_mesh(), {0, none});
  expect_numbered(shard::unwrap(space, tensor));
  EXPECT_EQ(extents_of(shard::unwrap(space, tensor)), (Index{4, 6}));
  expect_shard(tensor);
}

TEST(AnnotatedView, LoadsLocalShards) {
  const Space space;
  const auto tensor = mark_sharding(space, make<Plane>({3, 10}), line_mesh(), {none, 0});
  const auto wanted = mark_sharding(space, numbered<Plane>({3, 10}), line_mesh(), {none, 0});
  Plane shard       = wanted.local_shards(space)[0].data;
  if (ranks() == 1) {
    expect_parts(
        message_thrown_by<ArgumentError>([&] { tensor.load_local_shards(space, {shard}); }),
        {"replicated and has no shards"});
    return;
  }
  tensor.load_local_shards(space, {shard});
  expect_shard(tensor);
  // one rank's mistake is everyone's
  const bool last = rank() == ranks() - 1;
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 tensor.load_local_shards(space, last ? std::vector<Plane>{} : std::vector{shard});
               }),
               {"0 shards were given", "give all local shards"});
  const Plane narrow       = last ? make<Plane>({3, 1}) : shard;
  const std::string padded = "[3, " + std::to_string((10 + ranks() - 1) / ranks()) + "]";
  if (ranks() < 6)  // else two columns are the shard
    expect_parts(
        message_thrown_by<ArgumentError>([&] { tensor.load_local_shards(space, {narrow}); }),
        {"extents [3, 1]", "\"tensor\"", padded.c_str()});
  const auto plain = wrap_as_sharded(shard);
  expect_parts(message_thrown_by<ArgumentError>([&] { plain.load_local_shards(space, {shard}); }),
               {"has no annotation", "mark_sharding"});
  expect_shard(tensor);
}

TEST(AnnotatedView, FromLocalShards) {
  const Space space;
  const DeviceMesh mesh = line_mesh();
  const int n           = ranks();
  using Shape           = shard::Extents<1>;
  // shards of n in n tiles: any length above n * n - n, up to n * n
  const Line shard = make<Line>({n});
  const auto joins = [&](index_t length) {
    return from_local_shards(space, std::vector{shard}, mesh, {0}, std::optional(Shape{length}));
  };
  for (index_t length = n * n - n + 1; length <= n * n; ++length)
    EXPECT_EQ(joins(length).extent(0), length);
  for (const index_t length : {n * n - n, n * n + 1}) {
    const std::string is = "[" + std::to_string(length) + "]";
    expect_parts(message_thrown_by<ArgumentError>([&] { joins(length); }),
                 {"don't make a tensor of extents", is.c_str(), "padded shards"});
  }
  // each rank's part of a batch
  const auto batch =
      from_local_shards(space, std::vector{make<Volume>({2, 7, 4})}, mesh, {"x", none, none});
  EXPECT_EQ(batch.extents(), (shard::Extents<3>{2 * n, 7, 4}));
  EXPECT_EQ(extents_of(batch.local()), (Index{2, 7, 4}));
  // without a shape: shards * tiles, or the shard where it is everything
  EXPECT_EQ(from_local_shards(space, std::vector{shard}, mesh, {0}).extent(0), n * n);
  const auto copies = from_local_shards(space, std::vector{shard}, mesh, {none});
  EXPECT_EQ(copies.extent(0), n);
  EXPECT_NE(copies.local().data(), shard.data());

  expect_parts(message_thrown_by<ArgumentError>([&] {
                 from_local_shards(space, std::vector{shard}, mesh, {0, none});
               }),
               {"length (2)", "shards' rank (1)"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 from_local_shards(space, std::vector{shard, shard}, mesh, {0});
               }),
               {"2 shards were given", "one shard per local device"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 from_local_shards(space, std::vector{shard}, mesh, {none},
                                   std::optional(Shape{n + 1}));
               }),
               {"don't make a tensor"});
  if (n > 1)
    expect_parts(message_thrown_by<AgreementError>([&] {
                   from_local_shards(space, std::vector{make<Line>({rank() == 0 ? 1 : 2})}, mesh,
                                     {0});
                 }),
                 {"disagree", "extents [1]", "extents [2]"});
}

TEST(AnnotatedView, WithGradients) {
  const Space space;
  const shard::MarkShardingWithGradients annotate{line_mesh(), {none, 0}};
  const Plane x = numbered<Plane>({3, 7});
  const auto y  = annotate.apply(space, x);
  expect_shard(y);
  EXPECT_NE(y.local().data(), x.data());
  expect_numbered(x);
  expect_shard(annotate.pushforward(space, x));
  expect_shard(mark_sharding_with_gradients(space, x, annotate.mesh, annotate.spec));
  const auto dy = wrap_as_sharded(numbered<Plane>({3, 7}));
  const auto dx = annotate.pullback(space, dy);
  EXPECT_EQ(dx, dy);
  EXPECT_EQ(dx.sharding(), y.sharding());
  expect_shard(dx);
  expect_shard(annotate.pullback(space, dx));  // has it already
  const auto already = wrap_as_sharded(numbered<Plane>({3, 7}));
  mark_sharding(space, already, annotate.mesh, {0, none});
  if (ranks() > 1)
    expect_parts(message_thrown_by<ArgumentError>([&] { annotate.pullback(space, already); }),
                 {"must be cleared first"});
}

TEST(AnnotatedView, Errors) {
  const Space space;
  const DeviceMesh mesh = make_mesh({ranks(), 1}, {"x", "y"});
  const Plane whole     = make<Plane>({4, 6});
  const auto marks      = [&](const PartitionSpec& spec) {
    return message_thrown_by<ArgumentError>([&] { mark_sharding(space, whole, mesh, spec); });
  };
  expect_parts(marks({0}), {"length (1) should be equal to the tensor's rank (2)"});
  expect_parts(marks({"z", none}), {"axis name z is not defined in the given mesh"});
  expect_parts(marks({2, none}), {"out of bound index into mesh_shape"});
  expect_parts(marks({0, "x"}), {"at most once in partition_spec"});
  const auto plain = wrap_as_sharded(whole);
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)plain.sharding(); }),
               {"\"tensor\"", "[4, 6]", "has no annotation", "mark_sharding"});
  expect_parts(message_thrown_by<ArgumentError>([&] { plain.gather(space); }), {"no annotation"});
  expect_parts(message_thrown_by<ArgumentError>([&] { plain.local_shards(space); }),
               {"no annotation"});
  expect_parts(
      message_thrown_by<ArgumentError>([] { const DeviceMesh wrong = make_mesh({ranks() + 1}); }),
      {"must match the global number of devices"});
  if (ranks() == 1) return;
  const bool first   = rank() == 0;
  const auto differs = [&](const Plane& view, const DeviceMesh& on, const PartitionSpec& spec) {
    return message_thrown_by<AgreementError>([&] { mark_sharding(space, view, on, spec); });
  };
  expect_parts(differs(whole, mesh, first ? PartitionSpec{0, none} : PartitionSpec{none, 0}),
               {"disagree", "(0, None)", "(None, 0)"});
  expect_parts(differs(whole, mesh, first ? PartitionSpec{"z", none} : PartitionSpec{none, 0}),
               {"disagree", "('z', None)"});
  expect_parts(differs(make<Plane>({4, first ? 6 : 5}), mesh, {0, none}),
               {"extents [4, 6]", "extents [4, 5]"});
  const auto tensor = mark_sharding(space, whole, mesh, {0, none});
  const auto clone  = tensor.clone(space);
  annotate_custom_sharding(space, clone, mesh, {none, 0});
  const auto either = first ? tensor : clone;
  expect_parts(message_thrown_by<AgreementError>([&] { either.gather(space); }),
               {"disagree", "annotated"});
  expect_parts(message_thrown_by<AgreementError>([&] { clear_sharding(space, either); }),
               {"disagree"});

  // over the same devices in another order
  std::vector<int> ids(static_cast<std::size_t>(ranks()));
  for (int i = 0; i < ranks(); ++i) ids[static_cast<std::size_t>(i)] = ranks() - 1 - i;
  const DeviceMesh turned(MPI_COMM_WORLD, LogicalMesh(ids, {ranks()}));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 mark_sharding(space, tensor, turned, {0, none});
               }),
               {"must be cleared first"});
  // and over other ranks: the same in another order
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank(), &reversed);
  const DeviceMesh elsewhere(reversed, LogicalMesh::of_shape({ranks()}));
  MPI_Comm_free(&reversed);
  EXPECT_FALSE(elsewhere.same_ranks(mesh));
  EXPECT_TRUE(turned.same_ranks(mesh));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 mark_sharding(space, tensor, elsewhere, {0, none});
               }),
               {"must be cleared first"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 annotate_custom_sharding(space, tensor, elsewhere, {0, none});
               }),
               {"another communicator's ranks", "clear_sharding"});
  const ScopedVariable limit("SHARD_MESSAGE_LIMIT", first ? "none" : "8");
  expect_parts(message_thrown_by<ArgumentError>([&] { tensor.gather(space); }),
               {"SHARD_MESSAGE_LIMIT"});
}

TEST(AnnotatedView, ComparesValuesIfAsked) {
  const Space space;
  const ScopedVariable check("SHARD_CHECK", "1");
  const Plane whole = numbered<Plane>({4, 6});
  expect_shard(mark_sharding(space, whole, line_mesh(), {0, none}));
  if (ranks() == 1) return;
  on_values(whole, [](double& v, const Index& i) {
    if (i[0] == 3 && i[1] == 5 && rank() == ranks() - 1) v = -v;
  });
  const auto tensor = wrap_as_sharded(whole);
  expect_parts(message_thrown_by<AgreementError>([&] {
                 mark_sharding(space, tensor, line_mesh(), {0, none});
               }),
               {"mark_sharding", "disagree", "values have the hash"});
  EXPECT_EQ(tensor.sharding_type(), ShardingType::unknown);
}

TEST(AnnotatedView, TakesTheGlobalMeshUnlessGivenOne) {
  const Space space;
  const Plane whole = numbered<Plane>({4, 6});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 mark_sharding(space, whole, {0, none});
               }),
               {"no global mesh", "set_global_mesh"});
  set_global_mesh(LogicalMesh::of_shape({1, ranks()}, {"x", "y"}));
  const auto tensor = mark_sharding(space, whole, {"y", none});
  expect_shard(tensor);
  EXPECT_EQ(DeviceMesh::global().state(), tensor.mesh().state());  // bound once
  set_global_mesh(LogicalMesh::of_shape({1, ranks()}, {"u", "v"}));
  EXPECT_NE(DeviceMesh::global().state(), tensor.mesh().state());
  if (ranks() > 1) {
    set_global_mesh(rank() == 0 ? std::nullopt : shard::get_global_mesh());
    expect_parts(message_thrown_by<AgreementError>([] { DeviceMesh::global(); }),
                 {"disagree", "no mesh"});
  }
  shard::set_global_mesh(std::nullopt);
}

}  // namespace annotated_test
