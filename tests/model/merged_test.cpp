// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Halos merged: which layers, by which costs, with how many messages; and the numbers of the model
// that exchanges before each layer.
#include <gtest/gtest.h>

#include <string>

#include "merged_support.hpp"
#include "model_checks.hpp"
#include "shard/model/conversion_report.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

using Globe = PeriodicConv<Kernel<3, 3>>;
using Wraps = Conv<Kernel<3, 3>, Padding<1, 1>, PaddingMode<Periodic>>;

template <class... Layers>
using Net = decltype(sequential<double>(std::declval<Layers>()...));

template <class ModelType, class Merging, class... Cuts>
constexpr HaloChains chains = halo_chains<ModelType, MergeHalos<Merging>, Cuts...>();
template <class ModelType, class... Cuts>
constexpr HaloChains most = chains<ModelType, MergeAlways, Cuts...>;
constexpr HaloChain chain(int first, int layers, int rows, int columns) {
  return {first, layers, {{{rows, rows}, {columns, columns}, {0, 0}}}};
}

// what stands between windows is taken along, what stands at the ends isn't
static_assert(most<Net<SiLU, Conv3, SiLU, Conv1, Conv3, SiLU>, Lat>.count == 1);
static_assert(most<Net<SiLU, Conv3, SiLU, Conv1, Conv3, SiLU>, Lat>.list[0] == chain(1, 4, 2, 0));
static_assert(most<Net<Conv3, Conv3, Conv3>, Lat, Lon>.list[0] == chain(0, 3, 3, 3));
static_assert(most<Net<Conv3>, Lat>.count == 0 && most<Net<Conv3, Conv3>>.count == 0);
// a norm ends a chain, a stride and a transposed window too
using Normed = Net<Conv3, SiLU, Conv3, GroupNorm, Conv3, Conv3>;
static_assert(most<Normed, Lat>.count == 2 && most<Normed, Lat>.list[0] == chain(0, 3, 2, 0) &&
              most<Normed, Lat>.list[1] == chain(4, 2, 2, 0));
static_assert(most<Net<Conv3, Down, Conv3, Up, Conv3>, Lat>.count == 0);
static_assert(most<Net<Conv3, SpatialSoftmax<-1>, Conv3>, Lat>.count == 0);
// blocks are taken apart, residual and concat have chains of their own
using Blocks = Net<Sequence<Conv3, SiLU>, Sequence<Conv3>, Residual<Conv3, Conv3>, Conv3>;
static_assert(most<Blocks, Lat>.count == 2 && most<Blocks, Lat>.list[0] == chain(0, 3, 2, 0) &&
              most<Blocks, Lat>.list[1] == chain(3, 2, 2, 0));
// a world that wraps where the layer before has ended it: images lie on other ranks
static_assert(most<Net<Conv3, Wraps>, Lat>.count == 0 && most<Net<Wraps, Conv3>, Lat>.count == 1);
static_assert(most<Net<Conv3, Wraps>, Unsharded, Lon>.count == 0);
static_assert(most<Net<Globe, Globe>, Lat, Lon>.list[0] == chain(0, 2, 2, 2));
using Along = Conv<Kernel<1, 3>, Padding<0, 1>>;
static_assert(most<Net<Conv3, Along, Wraps>, Unsharded, Lon>.count == 1);  // of the first two

// the cost decides: small shards are all latency, large ones all arithmetic
using Small = ExpectedShard<1, 8, 6, 12>;
using Large = ExpectedShard<1, 64, 360, 720>;
using Three = Net<Conv3, SiLU, Conv3, SiLU, Conv3>;
static_assert(chains<Three, Small, Lat>.list[0] == chain(0, 5, 3, 0));
static_assert(chains<Three, Large, Lat>.count == 0 && chains<Three, MergeNever, Lat>.count == 0);
inline constexpr MergeMachine slow_network{1e-2, 1e9, 7.5e10};
static_assert(halo_chains<Three, MergeHalos<Large, OnMachine<slow_network>>, Lat>().count == 1);
// two of the three: the second exchange is saved, the third would cost too much arithmetic
inline constexpr MergeMachine between{5e-5, 1e9, 1e9};
using Wide = Conv<Kernel<9, 9>, Padding<4, 4>>;
static_assert(halo_chains<Net<Conv3, Conv3, Wide>, MergeHalos<Small, OnMachine<between>>, Lat>()
                  .list[0] == chain(0, 2, 2, 0));
// the same of layers with their own channels, in figures
constexpr Conv3 narrow{8, 8}, broad{64, 64};
constexpr MergingCost cheap = merging_cost<Lat>(std::array<index_t, 4>{1, 8, 6, 12}, 8,
                                                MergeMachine{}, narrow, SiLU{}, narrow),
                      dear  = merging_cost<Lat>(std::array<index_t, 4>{1, 64, 360, 720}, 8,
                                               MergeMachine{}, broad, SiLU{}, broad);
static_assert(cheap.merged < cheap.separate && dear.merged > dear.separate);
static_assert(cheap.separate - cheap.merged < 16e-6);  // of two messages, forward and backward

auto blocks() {
  return sequential<double>(named<"in">(block(Conv3{2, 4}, SiLU{})), block(Conv3{4, 4}),
                            residual(Globe{4, 4}, SiLU{}, Globe{4, 4}), GroupNorm{2, 4},
                            concat(Conv3{4, 2}, Tanh{}, Conv3{2, 3}), Conv3{7, 4}, Conv3{4, 2});
}

TEST(Merged, BlocksResidualsAndConcatsAreTheSameModel) {
  const auto model = blocks();
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  const auto plain  = domain_parallel<Lat, Lon>(model, mesh);
  const auto merged = domain_parallel<Lat, Lon>(model, mesh, merge_halos<MergeAlways>());
  std::mt19937_64 random(seed());
  for (const bool balanced : {true, false}) {
    const Pieces whole = some_pieces({1, 2, 13, 10}, {1, 1, 1, 1}, true, random),
                 cut   = some_pieces({1, 2, 13, 10}, {1, 1, mesh.size<Lat>(), mesh.size<Lon>()},
                                     balanced, random);
    const WithTangent unmerged = run_all(plain, cut), now = run_all(merged, cut);
    expect_same(now, unmerged, true);
    const WithTangent serial = run_all(domain_parallel<>(model, self), whole);
    expect_near(now.y, serial.y, 1e-12);
    expect_near(now.gradients, serial.gradients, 1e-12);
    if (ranks() == 1) {
      EXPECT_EQ(now.y, serial.y);
    }
  }
  EXPECT_EQ(merged.get<"in.0">().weight().data(), model.get<"in.0">().weight().data());
  EXPECT_EQ(merged.get<"2.2">().weight().data(), plain.get<"2.2">().weight().data());
  EXPECT_EQ(merged.get<6>().weight().data(), plain.get<6>().weight().data());
}

TEST(Merged, TheReportSaysWhichAndHowDeep) {
  const auto model  = blocks();
  const auto mesh   = Mesh<Lat, Lon>(MPI_COMM_WORLD, {0, 0});
  const auto merged = domain_parallel<Lat, Lon>(model, mesh, merge_halos<MergeAlways>());
  const ConversionReport report = conversion_report(model, merged);
  ASSERT_EQ(report.layers.size(), 12u);
  for (const int l : {0, 1, 2}) EXPECT_EQ(report.layers[l].merged, "in.0 to 1.0, halo 2+2 x 2+2");
  for (const int l : {3, 4, 5}) EXPECT_EQ(report.layers[l].merged, "2.0 to 2.2, halo 2+2 x 2+2");
  EXPECT_EQ(report.layers[6].merged, "");
  for (const int l : {7, 9}) EXPECT_EQ(report.layers[l].merged, "4.0 to 4.2, halo 2+2 x 2+2");
  for (const int l : {10, 11}) EXPECT_EQ(report.layers[l].merged, "5 to 6, halo 2+2 x 2+2");
  EXPECT_EQ(report.layers[0].halo, "1+1 x 1+1");
  EXPECT_NE(report.text().find("; one exchange for 5 to 6, halo 2+2 x 2+2\n"), std::string::npos)
      << report.text();
  const auto plain = domain_parallel<Lat, Lon>(model, mesh, merge_halos<MergeNever>());
  for (const auto& layer : conversion_report(model, plain).layers) EXPECT_EQ(layer.merged, "");
}

TEST(Merged, ConvertersComeFirstAndTheirWindowsStayAlone) {
  const auto model = sequential<double>(Conv3{2, 2}, Globe{2, 2}, Conv3{2, 2}, Conv3{2, 2});
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const auto merged =
      domain_parallel<Lat>(model, mesh, merge_halos<MergeAlways>(),
                           on<PeriodicConv>([](const auto& module) { return module; }));
  const ConversionReport report = conversion_report(model, merged);
  EXPECT_EQ(report.layers[0].merged, "");
  EXPECT_EQ(report.layers[1].merged, "");
  EXPECT_EQ(report.layers[3].merged, "2 to 3, halo 2+2 x 0+0");
}

auto three() { return sequential<double>(Conv3{2, 4}, SiLU{}, Globe{4, 4}, SiLU{}, Conv3{4, 2}); }

TEST(Merged, OneExchangeForwardAndOneBackward) {
  const auto model = three();
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 1});
  const auto merged = domain_parallel<Lat>(model, mesh, merge_halos<MergeAlways>());
  const Space space;
  const auto x = merged.input("x", {1, 2, 24, 6}), dx = x.like("dx");
  static_assert(std::is_same_v<decltype(merged)::Input::halo<2>, Halo<3, 3>>);
  const auto y = merged.output(x), dy = y.like("dy");
  fill(x, 0.1);
  fill(dy, 0.2);
  const auto messages = [](const auto& call) {
    call();  // plans are made, with messages of their own
    call();
    return count(call).messages;
  };
  const auto once = messages([&] { exchange(space, x); });
  EXPECT_EQ(once > 0, ranks() > 1);
  EXPECT_EQ(messages([&] { merged.apply(space, y, x); }), once);
  EXPECT_EQ(messages([&] { merged.pullback(space, dx, dy, x); }),
            messages([&] { exchange_adjoint(space, dx); }));
  EXPECT_EQ(messages([&] { merged.pushforward(space, dy, dx, x); }), once);
  EXPECT_EQ(messages([&] { merged.pullback(space, not_wanted, dy, x); }), 0);
  // the model as it is exchanges before each window
  const auto plain = domain_parallel<Lat>(model, mesh);
  const auto from  = plain.input("from", {1, 2, 24, 6});
  EXPECT_EQ(messages([&] { plain.apply(space, y, from); }), 3 * once);
}

TEST(Merged, FrozenParametersAndUnwantedInputsCostNothing) {
  const auto model = three();
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const auto merged = domain_parallel<Lat>(model, mesh, merge_halos<MergeAlways>());
  const Space space;
  const auto x = merged.input("x", {1, 2, 13, 6}), dx = x.like("dx");
  fill(x, 0.1);
  const auto& y = merged(space, x);
  const auto dy = y.like("dy");
  fill(dy, 0.4);
  const auto pull = [&](const auto& to) {
    Kokkos::deep_copy(space, merged.gradients().values(), 0.0);
    merged.pullback(space, to, dy, x);
    return summed(merged.gradients().values(), mesh.communicator());
  };
  const auto all   = pull(dx);
  const auto all_x = world(dx);
  EXPECT_EQ(pull(not_wanted), all);
  model.get<0>().freeze();
  model.get<2>().freeze();
  const auto some   = pull(not_wanted);
  const auto frozen = static_cast<std::size_t>(parameter_count(model.get<0>().layer()) +
                                               parameter_count(model.get<2>().layer()));
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i], i < frozen ? 0.0 : all[i]) << i;
  EXPECT_EQ(pull(dx), some);
  EXPECT_EQ(world(dx), all_x);
  // only the last layer's parameters: two kernels, and the copy of zeros
  const Counts last = count([&] { merged.pullback(space, not_wanted, dy, x); });
  EXPECT_EQ(last.kernels, 2) << last;
  model.get<4>().freeze();
  EXPECT_EQ(count([&] { merged.pullback(space, not_wanted, dy, x); }).kernels, 0);
}

TEST(Merged, TangentAndAdjointAreAPair) {
  const auto model = blocks();
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto merged = domain_parallel<Lat, Lon>(model, mesh, merge_halos<MergeAlways>());
  expect_pair(merged, {1, 2, 9, 12});
}

TEST(Merged, NothingIsAllocatedAfterTheFirstStep) {
  const auto model = three();
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const auto merged = domain_parallel<Lat>(model, mesh, merge_halos<MergeAlways>());
  expect_steady(merged, {1, 2, 13, 12});
}

TEST(Merged, WhatDoesNotFitIsSaidOnAllRanks) {
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const auto merge = merge_halos<MergeAlways>();
  const auto wrong =
      domain_parallel<Lat>(sequential<double>(Conv3{2, 3}, Conv3{4, 2}), mesh, merge);
  EXPECT_THROW(wrong.prepare(wrong.input("x", {1, 2, 9, 6})), ArgumentError);
  using Shrinks  = Conv<Kernel<3, 3>, Valid>;
  const auto odd = domain_parallel<Lat>(
      sequential<double>(
          Shrinks{2, 2},
          Conv<Kernel<3, 2>, Padding<1, 0>, PaddingMode<PoleFold<3, Pole::on_row>, Zero>>{2, 2}),
      mesh, merge);
  EXPECT_NO_THROW(odd.prepare(odd.input("x", {1, 2, 9, 8})));
  EXPECT_THROW(odd.prepare(odd.input("x", {1, 2, 9, 9})), ArgumentError);
  const auto flat =
      domain_parallel<Lat>(sequential<double>(Shrinks{2, 2}, Globe{2, 2}), mesh, merge);
  EXPECT_THROW(flat.prepare(flat.input("x", {1, 2, 3, 8})), ArgumentError);
  const auto right = domain_parallel<Lat>(three(), mesh, merge);
  const auto x     = right.input("x", {1, 2, 16, 6});
  decltype(right)::Output y("y", mesh, {1, 2, 17, 6});
  EXPECT_THROW(right.apply(Space(), y, x), ArgumentError);
}

}  // namespace
