// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that one rank computes.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#include "merged_support.hpp"
#include "shard/model/gathered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

/// y = x + the sum of the points of z before it, along latitude. It has no sharding rule, and works
/// on unsharded fields of the host.
struct SumBefore {
  static constexpr int inputs = 2;

  template <class Y, class X, class Z>
  void apply(const Space&, const Y& y, const X& x, const Z& z) const {
    static_assert(std::is_same_v<typename X::template shard_dim<2>::axis, Unsharded>);
    each(y, [&](index_t n, index_t c, index_t j) {
      double sum = 0.0;
      for (index_t i = 0; i < y.extent(2); ++i) {
        at(y, n, c, i, j) = at(x, n, c, i, j) + sum;
        sum += at(z, n, c, i, j);
      }
    });
  }
  template <class TY, class TX, class TZ>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const TZ& tz) const {
    apply(space, ty, tx, tz);
  }
  template <class DX, class DZ, class DY>
  void pullback(const Space&, const DX& dx, const DZ& dz, const DY& dy) const {
    each(dy, [&](index_t n, index_t c, index_t j) {
      double sum = 0.0;
      for (index_t i = dy.extent(2) - 1; i >= 0; --i) {
        if constexpr (is_wanted_v<DX>) at(dx, n, c, i, j) = at(dy, n, c, i, j);
        if constexpr (is_wanted_v<DZ>) at(dz, n, c, i, j) = sum;
        sum += at(dy, n, c, i, j);
      }
    });
  }

 private:
  template <class F, class Visit>
  static void each(const F& f, const Visit& visit) {
    for (index_t n = 0; n < f.extent(0); ++n)
      for (index_t c = 0; c < f.extent(1); ++c)
        for (index_t j = 0; j < f.extent(3); ++j) visit(n, c, j);
  }
  template <class F>
  static auto& at(const F& f, index_t n, index_t c, index_t i, index_t j) {
    return f.origin()[n * f.stride(0) + c * f.stride(1) + i * f.stride(2) + j * f.stride(3)];
  }
};

using Globe3 = Conv<Kernel<3, 3>, Padding<1, 1>, PaddingMode<Reflect, Periodic>>;

/// With layers that one rank computes, or the same sharded.
template <class Middle, class Coarse>
struct Column {
  Conv3 stem{2, 4};
  Middle middle;
  Coarse coarse;
  Up up{6, 4};
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(stem, x);
    const auto s = m.run(gathered(SumBefore{}), h, m.run(middle, h));
    return m.run_like(s, up, m.run(coarse, s));
  }
};
using Sharded  = Column<Globe3, Down>;
using OneRanks = Column<Gathered<Globe3>, Gathered<Down>>;

TEST(Gathered, IsTheOperationOnOneRank) {
  const auto m =
      model<double>(OneRanks{{2, 4}, Gathered(Globe3{4, 4}), Gathered(Down{4, 6}), {6, 4}});
  const auto same = model<double>(Sharded{{2, 4}, {4, 4}, {4, 6}, {6, 4}});
  ASSERT_EQ(m.parameters().entries().size(), same.parameters().entries().size());
  EXPECT_EQ(m.parameters().entries()[2].name, "middle.weight");
  Kokkos::deep_copy(same.parameters().values(), m.parameters().values());
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const Pieces whole = some_pieces({2, 2, 13, 11}, {1, 1, 1, 1}, true, random);
  const auto serial  = run_all(domain_parallel<>(same, self), whole);
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto net = domain_parallel<Lat, Lon>(m, mesh);
    for (const bool balanced : {true, false})
      expect_same(
          run_all(net, some_pieces({2, 2, 13, 11},
                                   {1, 1, mesh.template size<Lat>(), mesh.template size<Lon>()},
                                   balanced, random)),
          serial, false);
  }
}

TEST(Gathered, OneRankForEachPartOfTheBatch) {
  const auto m =
      model<double>(OneRanks{{2, 4}, Gathered(Globe3{4, 4}), Gathered(Down{4, 6}), {6, 4}});
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const auto serial =
      run_all(domain_parallel<>(m, self), some_pieces({3, 2, 13, 11}, {1, 1, 1, 1}, true, random));
  const Mesh<Data, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto net = domain_parallel<ShardDim<0, Data>, ShardDim<3, Lon>>(m, mesh);
  expect_same(run_all(net, some_pieces({3, 2, 13, 11}, {mesh.size<Data>(), 1, 1, mesh.size<Lon>()},
                                       false, random)),
              serial, false);
}

TEST(Gathered, IsALayerOfAListAndStandsInTheReport) {
  const auto m = sequential<double>(Conv3{2, 4}, gathered(Globe3{4, 4}), SiLU{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto net    = domain_parallel<Lat, Lon>(m, mesh);
  const auto report = conversion_report(m, net);
  EXPECT_FALSE(report.layers[0].gathered);
  EXPECT_TRUE(report.layers[1].gathered);
  EXPECT_NE(report.text().find("computed by one rank"), std::string::npos) << report.text();
  const auto same = sequential<double>(Conv3{2, 4}, Globe3{4, 4}, SiLU{});
  Kokkos::deep_copy(same.parameters().values(), m.parameters().values());
  const auto x = net.input("x", {1, 2, 13, 11});
  expect_near(run_on(net, x), run_on(domain_parallel<Lat, Lon>(same, mesh), x), 1e-12);
}

}  // namespace
