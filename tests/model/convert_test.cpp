// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The unit cases of credit.domain_parallel (tests/test_domain_parallel.py), and the report.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "model_support.hpp"
#include "shard/layers/window/periodic_conv.hpp"
#include "shard/model/conversion_report.hpp"
#include "shard/model/replace.hpp"
#include "shard/model/validate_sharding.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

using OverRows  = impl::CutAxesOf<2, Lat>::type;             // [batch, channel, height, width]
using OverRows3 = impl::CutAxesOf<3, Unsharded, Lat>::type;  // [..., time, height, width]
template <class Layer>
constexpr bool needs_halo = impl::looks_past_any_shard_v<Layer, OverRows>;
template <class Layer>
constexpr bool needs_halo_3d = impl::looks_past_any_shard_v<Layer, OverRows3>;
template <class Layer, int D = 0>
constexpr bool halo_is(int width) {
  const LowHigh s = Layer::aligned_halo_bound(D);
  return s.lo == width && s.hi == width;
}

using Wide   = Conv<Kernel<1, 3>, Padding<0, 1>>;
using Up2    = ConvTranspose<Kernel<2, 2>, Stride<2, 2>>;
using Up4    = ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>;
using Patch3 = ConvTranspose<Kernel<2, 4, 4>, Stride<2, 4, 4>>;
using Cube3  = ConvTranspose<Kernel<2, 2, 2>, Stride<2, 2, 2>>;
using Up3    = ConvTranspose<Kernel<2, 4, 4>, Stride<2, 2, 2>, Padding<0, 1, 1>>;

// needs-halo 2-D (6)
static_assert(!needs_halo<Conv1> && needs_halo<Conv3> && !needs_halo<Wide>);
static_assert(needs_halo<Conv<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>>);
static_assert(!needs_halo<Up2> && needs_halo<Up4>);
// Conv2d halo width (6)
static_assert(halo_is<Conv3>(1) && halo_is<Conv<Kernel<5, 5>, Padding<2, 2>>>(2));
static_assert(halo_is<Conv<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>>(1));
static_assert(halo_is<Conv<Kernel<8, 8>, Stride<2, 2>, Padding<3, 3>>>(3));
static_assert(halo_is<Conv<Kernel<16, 16>, Stride<2, 2>, Padding<7, 7>>>(7));
static_assert(halo_is<Conv<Kernel<32, 32>, Stride<2, 2>, Padding<15, 15>>>(15));
// needs-halo and halo width of ConvTranspose3d (3 + 3)
static_assert(!needs_halo_3d<Patch3> && !needs_halo_3d<Cube3> && needs_halo_3d<Up3>);
static_assert(halo_is<Patch3, 1>(0) && halo_is<Cube3, 1>(0) && halo_is<Up3, 1>(1));

// what may take the partitions of the skip that it meets
static_assert(impl::can_meet_v<Up4> && impl::can_meet_v<Interpolate<2, Meets<2>>>);
static_assert(!impl::can_meet_v<Interpolate<2>> && !impl::can_meet_v<PixelShuffle<2>>);
static_assert(!impl::can_meet_v<Conv3>);

template <class Layer, class... Cuts, class T, class Memory>
constexpr bool is_replaced(const Module<T, Memory, DomainParallel<Layer, Cuts...>>*) {
  return true;
}
template <class Layer, class... Cuts, class T, class Memory>
constexpr bool is_replaced(const Module<T, Memory, Layer>*) {
  return false;
}
template <class Layer, class... Cuts, class M>
constexpr bool replaced_in(const M& m) {
  return is_replaced<Layer, Cuts...>(&m);
}

Mesh<Lat> rows() { return Mesh<Lat>(MPI_COMM_WORLD, {0}); }

// convert (4)
TEST(Convert, WindowsAreReplacedAndPointwiseOnesStay) {
  const auto model   = sequential<float>(Conv3{3, 8}, Conv1{8, 4});
  const auto sharded = domain_parallel<Lat>(model, rows());
  EXPECT_TRUE((replaced_in<Conv3, Lat>(sharded.get<0>())));
  EXPECT_FALSE((replaced_in<Conv1, Lat>(sharded.get<1>())));
  EXPECT_EQ(sharded.get<0>().weight().data(), model.get<0>().weight().data());
  EXPECT_EQ(sharded.get<0>().bias().data(), model.get<0>().bias().data());
}
TEST(Convert, GroupNormIsReplaced) {
  const auto model   = sequential<float>(Conv1{3, 8}, GroupNorm{4, 8});
  const auto sharded = domain_parallel<Lat>(model, rows());
  const auto& norm   = sharded.get<1>();
  EXPECT_TRUE((replaced_in<GroupNorm, Lat>(norm)));
  EXPECT_EQ(norm.layer().num_groups(), 4);
  EXPECT_EQ(norm.layer().num_channels(), 8);
  EXPECT_EQ(norm.layer().eps, 1e-5);
  EXPECT_TRUE(norm.layer().affine);
  EXPECT_EQ(norm.weight().data(), model.get<1>().weight().data());
}
TEST(Convert, TransposedConvolutionsThatLookPastAreReplaced) {
  const auto sharded = domain_parallel<Lat>(sequential<float>(Up2{4, 4}, Up4{4, 4}), rows());
  EXPECT_FALSE((replaced_in<Up2, Lat>(sharded.get<0>())));
  EXPECT_TRUE((replaced_in<Up4, Lat>(sharded.get<1>())));
  EXPECT_EQ(sharded.get<1>().layer().kernel(0), 4);
  EXPECT_EQ(sharded.get<1>().layer().stride(0), 2);
}
TEST(Convert, BlocksAreWalked) {
  const auto model   = sequential<float>(named<"encoder">(
      block(named<"conv">(Conv3{3, 8}), residual(Conv3{8, 8}), named<"proj">(Conv1{8, 4}))));
  const auto sharded = domain_parallel<Lat>(model, rows());
  EXPECT_TRUE((replaced_in<Conv3, Lat>(sharded.get<"encoder.conv">())));
  EXPECT_TRUE((replaced_in<Conv3, Lat>(sharded.get<"encoder.1.0">())));
  EXPECT_FALSE((replaced_in<Conv1, Lat>(sharded.get<"encoder.proj">())));
  EXPECT_EQ(model.parameters().entries()[0].name, "encoder.conv.weight");
  EXPECT_EQ(model.parameters().entries()[2].name, "encoder.1.0.weight");
}
// shard_tensor (6)
TEST(Convert, B12_FieldsAreCutAsTheModelIs) {
  const auto sharded = domain_parallel<Lat>(sequential<float>(Conv3{8, 8}), rows());
  const auto mesh    = sharded.mesh();
  for (const index_t n : {index_t{100}, index_t{101}}) {
    const auto x = sharded.input("x", {2, 8, n, 20});
    index_t sum  = x.extent(2);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sum, n);
    if (mesh.size<Lat>() == 2) {
      EXPECT_EQ(x.extent(2), mesh.coordinate<Lat>() == 0 ? n - 50 : 50);
      EXPECT_EQ(x.begin(2), mesh.coordinate<Lat>() == 0 ? 0 : n - 50);
    }
  }
  const auto cube = domain_parallel<ShardDim<-2, Lat>>(
      sequential<float>(Conv<Kernel<1, 3, 3>, Padding<0, 1, 1>>{2, 2}), mesh);
  const auto x = cube.input("x", {1, 2, 3, 50, 6});
  EXPECT_EQ(x.extent(2), 3);
  EXPECT_EQ(x.partition(3).parts(), mesh.size<Lat>());
}
/// Their "same object" where nothing is cut: the same memory.
TEST(Convert, AFieldThatIsNotCutIsTheCallersMemory) {
  using Whole  = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
  using Nobody = ShardedView<float****, Kokkos::LayoutRight>;
  const Mesh<Lat> alone(MPI_COMM_SELF, {1});
  const Whole::view_type theirs("theirs", 2, 3, 20, 10);
  const std::array<Partition, 4> all{Partition::balanced(2, 1), Partition::balanced(3, 1),
                                     Partition::balanced(20, 1), Partition::balanced(10, 1)};
  EXPECT_EQ(Whole(alone, theirs, all).origin(), theirs.data());
  EXPECT_EQ(Whole(alone, theirs, all).extent(2), 20);
  EXPECT_EQ(Nobody(rows(), theirs, all).origin(), theirs.data());
}
// convert of ConvTranspose3d (3)
TEST(Convert, ThreeDimensions) {
  using Down3        = Conv<Kernel<2, 4, 4>, Stride<2, 4, 4>>;
  const auto sharded = domain_parallel<ShardDim<-2, Lat>>(
      sequential<float>(Down3{2, 4}, Patch3{4, 2}, Up3{2, 2}, Cube3{2, 2}), rows());
  EXPECT_FALSE((replaced_in<Patch3, ShardDim<-2, Lat>>(sharded.get<1>())));
  EXPECT_TRUE((replaced_in<Up3, ShardDim<-2, Lat>>(sharded.get<2>())));
  EXPECT_FALSE((replaced_in<Cube3, ShardDim<-2, Lat>>(sharded.get<3>())));
}

// PeriodicConv (4)
using Globe = PeriodicConv<Kernel<3, 3>>;

/// A user's layer in place of a PeriodicConv.
struct Mine : Globe {};

TEST(Convert, PeriodicConvKeepsItsFigures) {
  const auto model   = sequential<float>(Globe{3, 8}, Conv1{8, 2});
  const auto sharded = domain_parallel<Lat, Lon>(model, Mesh<Lat, Lon>(MPI_COMM_WORLD, {0, 0}));
  const auto& module = sharded.get<0>();
  EXPECT_TRUE((replaced_in<Globe, Lat, Lon>(module)));
  using Layer = std::remove_cvref_t<decltype(module.layer())>;
  static_assert(std::is_same_v<Layer::required_halo<0>, Halo<1, 1>>);
  static_assert(std::is_same_v<Layer::aligned_halo<1>, Halo<1, 1>>);
  using Exchange = decltype(Layer::halo_exchange());
  static_assert(std::is_same_v<Exchange::halo<2>, Halo<1, 1>> &&
                std::is_same_v<Exchange::axis<3>, Lon> &&
                std::is_same_v<Exchange::boundary<2>, Reflect> &&
                std::is_same_v<Exchange::boundary<3>, Periodic>);
  static_assert(std::is_same_v<decltype(module.halo_exchange()), Exchange>);
  EXPECT_EQ(module.layer().layer().window(0).padding_lo, 1);
}
TEST(Convert, CustomConvertersComeFirstAndWhatTheyMakeIsLeftAlone) {
  const auto model   = sequential<float>(Globe{3, 8}, residual(Conv3{8, 8}), Conv3{8, 2});
  const auto mesh    = rows();
  int called         = 0;
  const auto mine    = on<PeriodicConv>([&called](const auto& module) {
    ++called;
    return with_layer(module, Mine{module.layer()});
  });
  const auto sharded = domain_parallel<Lat>(model, mesh, mine);
  EXPECT_EQ(called, 1);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(sharded.get<0>().layer())>, Mine>);
  EXPECT_EQ(sharded.get<0>().weight().data(), model.get<0>().weight().data());
  EXPECT_TRUE((replaced_in<Conv3, Lat>(sharded.get<2>())));

  const ConversionReport report = conversion_report(model, sharded);
  ASSERT_EQ(report.layers.size(), 3u);
  EXPECT_TRUE(report.layers[0].custom);
  EXPECT_EQ(report.layers[0].kind(), "PeriodicConv");
  EXPECT_EQ(report.layers[0].replaced_by, "Mine");
  EXPECT_FALSE(report.layers[1].custom);
  EXPECT_EQ(report.layers[1].name, "1.0");
  EXPECT_EQ(report.layers[1].halo, "1+1 x 1+1");
  EXPECT_EQ(report.replaced("Conv"), 2);
  EXPECT_EQ(report.replaced("PeriodicConv"), 1);
  EXPECT_EQ(report.kept(), 0);
  const std::string text = report.text();
  EXPECT_NE(text.find("1.0: Conv<Kernel<3, 3>, Padding<"), std::string::npos) << text;
  EXPECT_NE(text.find("replaced: 2 Conv 1 PeriodicConv; kept: 0"), std::string::npos) << text;
}
TEST(Convert, TheFirstConverterThatMatchesIsTaken) {
  using Other      = PeriodicConv<Kernel<5, 5>>;
  const auto model = sequential<float>(residual(Globe{3, 3}), block(Globe{3, 8}), Other{8, 2});
  int of_type = 0, of_template = 0;
  const auto one     = on<Globe>([&of_type](const auto& module) {
    ++of_type;
    return with_layer(module, Mine{module.layer()});
  });
  const auto any     = on<PeriodicConv>([&of_template](const auto& module) {
    ++of_template;
    return module;
  });
  const auto sharded = domain_parallel<Lat>(model, rows(), one, any);
  EXPECT_EQ(of_type, 2);
  EXPECT_EQ(of_template, 1);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(sharded.get<"0.0">().layer())>, Mine>);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(sharded.get<2>().layer())>, Other>);
  const auto turned = domain_parallel<Lat>(model, rows(), any, one);
  EXPECT_EQ(of_type, 2);
  EXPECT_EQ(of_template, 4);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(turned.get<"1.0">().layer())>, Globe>);
}
TEST(Convert, AllOfAPeriodicConvIsReplacedWithoutAConverterToo) {
  const auto model   = sequential<float>(Globe{3, 8}, SiLU{});
  const auto sharded = domain_parallel<Lat>(model, rows());
  const auto report  = conversion_report(model, sharded);
  EXPECT_EQ(report.replaced("PeriodicConv"), 1);
  EXPECT_EQ(report.kept(), 1);
  EXPECT_NE(report.layers[0].replaced_by.find("DomainParallel<PeriodicConv<"), std::string::npos)
      << report.layers[0].replaced_by;
}

TEST(Convert, InterpolateKeepsItsFigures) {
  const auto model = sequential<float>(Conv1{2, 2}, Interpolate<2, Bicubic>{.size = {9, 8}});
  const auto layer = domain_parallel<Lat>(model.get<1>(), rows());
  EXPECT_TRUE((replaced_in<Interpolate<2, Bicubic>, Lat>(layer)));
  EXPECT_EQ(layer.layer().size[0], 9);
  EXPECT_EQ(layer.layer().size[1], 8);
  EXPECT_EQ(layer.layer().mode(), "bicubic");
  using Layer = std::remove_cvref_t<decltype(layer.layer())>;
  static_assert(std::is_same_v<Layer::required_halo<0>, Halo<1, 2>>);
  static_assert(DomainParallel<Interpolate<2>, Lat>::mode() == "linear" &&
                DomainParallel<Interpolate<1, LinearCorners>, Lat>::mode() == "linear" &&
                DomainParallel<Interpolate<2, Area<2>>, Lat>::mode() == "area" &&
                DomainParallel<Interpolate<2, Nearest, Meets<2>>, Lat>::mode() == "nearest");
}
TEST(Convert, OneLayerAloneSharesItsParameters) {
  const auto model = sequential<float>(Conv3{3, 8}, SiLU{});
  const auto layer = domain_parallel<Lat>(model.get<0>(), rows());
  EXPECT_TRUE((replaced_in<Conv3, Lat>(layer)));
  EXPECT_EQ(layer.weight().data(), model.get<0>().weight().data());
  const auto same = domain_parallel<Lat>(model.get<1>(), rows());
  EXPECT_FALSE((replaced_in<SiLU, Lat>(same)));
}

TEST(Convert, OneLayerIsReplacedByItsName) {
  const auto model = sequential<double>(
      named<"encoder">(block(named<"block1">(Conv3{2, 4}), residual(Conv3{4, 4}))), Conv1{4, 2});
  using Conv5        = Conv<Kernel<5, 5>, Padding<2, 2>>;
  const auto changed = replace<"encoder.block1">(model, Conv5{2, 4});
  static_assert(
      std::is_same_v<std::remove_cvref_t<decltype(changed.get<"encoder.block1">().layer())>,
                     Conv5>);
  static_assert(
      std::is_same_v<std::remove_cvref_t<decltype(changed.get<"encoder.1.0">().layer())>, Conv3>);
  const auto value = [](const auto& view) {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view).data()[0];
  };
  EXPECT_EQ(value(changed.get<"encoder.1.0">().weight()),
            value(model.get<"encoder.1.0">().weight()));
  EXPECT_EQ(value(changed.get<1>().weight()), value(model.get<1>().weight()));
  EXPECT_NE(changed.get<1>().weight().data(), model.get<1>().weight().data());
  EXPECT_EQ(changed.get<"encoder.block1">().weight().extent(2), 5u);
}

// validate_sharding
using Wide5 = Conv<Kernel<9, 9>, Padding<4, 4>>;
using Back  = ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>;
auto levels() {
  return sequential<float>(Conv3{1, 1},
                           concat(Down{1, 1}, Down{1, 1}, Wide5{1, 1}, Up4{1, 1}, Back{1, 1}));
}
using Levels = decltype(levels());
// 32 rows over 2 and over 4 fit but for the wide window of the coarsest level: 8 rows
static_assert(sharding_findings<Levels, 2>({32, 32}, {2, 1}).empty());
static_assert(sharding_findings<Levels, 2>({32, 32}, {4, 1}).count == 1);
static_assert(sharding_findings<Levels, 2>({32, 32}, {4, 1}).list[0] ==
              Finding{3, 2, Misfit::shard_below_halo, 2, 4, 2.0});
// 34 over 2: 17 and 17, the second begins at an odd row
static_assert(sharding_findings<Levels, 2>({34, 32}, {2, 1}).list[0] ==
              Finding{1, 2, Misfit::window_across_shards, 1, 2, 1.0});
// 3 over 4: one has nothing, the largest a third more than the mean
static_assert(sharding_findings<Levels, 2>({3, 32}, {4, 1}).list[1] ==
              Finding{0, 2, Misfit::empty_shard, 4, 3, 1.0});
static_assert(sharding_findings<Levels, 2>({3, 32}, {4, 1}).list[2] ==
              Finding{0, 2, Misfit::uneven_work, 4, 1, 0.25});

constexpr bool finds(const Findings& found, const Finding& wanted) {
  for (int i = 0; i < found.count; ++i)
    if (found.list[static_cast<std::size_t>(i)] == wanted) return true;
  return false;
}
// coarser levels too: 16 rows over 8 ranks are 4 on the third level, which half of them own
static_assert(finds(sharding_findings<Levels, 2>({16, 32}, {8, 1}),
                    Finding{2, 2, Misfit::empty_shard, 8, 4, 4.0}));
// and behind shuffled pixels: 9 rows over 2 are 5 and 4, then 10 and 8, which a stride of 2 fits
auto shuffled() { return sequential<float>(PixelShuffle<2>{}, Down{1, 1}); }
using Shuffled = decltype(shuffled());
static_assert(!finds(sharding_findings<Shuffled, 2>({9, 32}, {2, 1}),
                     Finding{1, 2, Misfit::window_across_shards, 1, 2, 1.0}));
using Unshuffled = decltype(sequential<float>(PixelUnshuffle<2>{}, Down{4, 1}));
static_assert(finds(sharding_findings<Unshuffled, 2>({12, 32}, {2, 1}),
                    Finding{1, 2, Misfit::window_across_shards, 1, 2, 1.0}));
// rows that are kept: 12 over 4 begin at 0, 3, 6 and 9
using KeptRows =
    decltype(sequential<float>(PixelUnshuffle<2, 2, PixelOrder::channels_first, 1>{}, Down{2, 1}));
static_assert(finds(sharding_findings<KeptRows, 2>({12, 32}, {4, 1}),
                    Finding{1, 2, Misfit::window_across_shards, 1, 2, 1.0}));

TEST(Validate, FindingsHaveAPlaceAndACost) {
  const Mesh<Lat> mesh = rows();
  const auto found =
      validate_sharding<Lat>(levels(), Extents<4>{1, 1, 8 * mesh.size<Lat>() + 1, 32}, mesh);
  if (mesh.size<Lat>() == 1) {
    EXPECT_TRUE(found.empty());
    return;
  }
  // the first shard has the row that is left over: the others begin at 9, 17, ...
  const auto odd = std::find_if(found.begin(), found.end(), [](const ShardingFinding& f) {
    return f.finding.misfit == Misfit::window_across_shards;
  });
  ASSERT_NE(odd, found.end());
  EXPECT_EQ(odd->place, "1.0, dimension 2");
  EXPECT_EQ(
      odd->text,
      "1.0, dimension 2: shards don't begin at multiples of the stride 2 (one is off by 1), so "
      "the halo is 1 cells wider");
  EXPECT_TRUE(
      validate_sharding<Lat>(levels(), Extents<4>{1, 1, 16 * mesh.size<Lat>(), 32}, mesh).empty());
}
/// The same as a struct.
struct LevelsStruct {
  Conv3 stem{1, 1};
  std::array<Down, 2> down{{{1, 1}, {1, 1}}};
  Wide5 wide{1, 1};
  Up4 up{1, 1};
  Back back{1, 1};
  auto operator()(auto& m, const auto& x) const {
    const auto fine   = m.run(stem, x);
    const auto middle = m.run(down[0], fine);
    const auto coarse = m.run(up, m.run(wide, m.run(down[1], middle)));
    return m.run(Concatenate{1}, std::tuple(fine, m.run_like(fine, back, coarse)));
  }
};
TEST(Validate, FindsTheSameInAStruct) {
  const Mesh<Lat> mesh = rows();
  const auto net       = domain_parallel<Lat>(model<float>(LevelsStruct{}), mesh);
  using Numbers        = std::vector<std::tuple<int, Misfit, index_t, index_t, double>>;
  const auto numbers   = [](const std::vector<ShardingFinding>& found) {
    Numbers all;
    for (const auto& f : found)
      all.emplace_back(f.finding.dim, f.finding.misfit, f.finding.has, f.finding.wants,
                         f.finding.cost);
    std::sort(all.begin(), all.end());
    return all;
  };
  for (const index_t rows : {8 * mesh.size<Lat>() + 1, 8 * mesh.size<Lat>(), 3}) {
    const Extents<4> extents{1, 1, rows, 32};
    EXPECT_EQ(numbers(validate_sharding(net, net.input("x", extents))),
              numbers(validate_sharding<Lat>(levels(), extents, mesh)))
        << rows;
  }
  if (mesh.size<Lat>() == 1) return;
  // any partitions: the second shard begins at an odd row
  std::vector<index_t> counts(static_cast<std::size_t>(mesh.size<Lat>()), 16);
  counts[0]        = 15;
  const auto x     = decltype(net)::Input("x", mesh,
                                          {Partition::whole(1), Partition::whole(1),
                                           Partition::explicit_counts(counts), Partition::whole(32)});
  const auto found = validate_sharding(net, x);
  const auto odd   = std::find_if(found.begin(), found.end(), [](const ShardingFinding& f) {
    return f.finding.misfit == Misfit::window_across_shards;
  });
  ASSERT_NE(odd, found.end());
  EXPECT_EQ(odd->place, "down.0, dimension 2");
}
TEST(Validate, ALocalExtentAndWindowsAsTheOriginalHasThem) {
  EXPECT_TRUE(validate_sharding(80, {10, 10, 10, 10}).empty());
  const auto found = validate_sharding(90, {10, 10, 11});
  ASSERT_EQ(found.size(), 1u);  // 90 / 10, 45 / 10, 22 / 11
  EXPECT_EQ(found[0].place, "level 1");
  EXPECT_EQ(found[0].finding.has, 5);
  EXPECT_THROW(validate_sharding(-1, {1}), ArgumentError);
  EXPECT_THROW(validate_sharding(4, {0}), ArgumentError);
}

}  // namespace
