// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that are structs.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "merged_support.hpp"
#include "model_checks.hpp"
#include "shard/autodiff/operation_graph.hpp"
#include "shard/model/validate_sharding.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

using Globe3 = Conv<Kernel<3, 3>, Padding<1, 1>, PaddingMode<Reflect, Periodic>>;
using Wide5  = Conv<Kernel<5, 5>, Padding<2, 2>, PaddingMode<Clamp, Periodic>>;

struct Bottleneck {
  Conv3 conv1, conv2;
  SiLU act{};
  auto operator()(auto& m, const auto& x) const {
    return m.run(Add{}, x, m.run(conv2, m.run(act, m.run(conv1, x))));
  }
};

struct Encoder {
  Conv3 stem{2, 4};
  std::vector<Bottleneck> blocks{{{4, 4}, {4, 4}}, {{4, 4}, {4, 4}}};
  auto operator()(auto& m, const auto& x) const {
    auto h = m.run(stem, x);
    for (const auto& block : blocks) h = m.run(block, h);
    return h;
  }
};

/// The struct form of `network`.
struct Network {
  Encoder encoder{};
  Down down{4, 8};
  std::array<GroupNorm, 1> norms{{{2, 8}}};
  SiLU act{};
  Up up{8, 4};
  Conv1 head{8, 2};
  auto operator()(auto& m, const auto& x) const {
    const auto fine   = m.run(encoder, x);
    const auto coarse = m.run(act, m.run(norms[0], m.run(down, fine)));
    const auto joined = m.run(Concatenate{1}, std::tuple(fine, m.run_like(fine, up, coarse)));
    return m.run(head, joined);
  }
};

auto network() {
  return sequential<double>(Conv3{2, 4}, residual(Conv3{4, 4}, SiLU{}, Conv3{4, 4}),
                            residual(Conv3{4, 4}, SiLU{}, Conv3{4, 4}),
                            concat(Down{4, 8}, GroupNorm{2, 8}, SiLU{}, Up{8, 4}), Conv1{8, 2});
}

template <class A, class B>
void copy_parameters(const A& to, const B& from) {
  ASSERT_EQ(to.parameters().values().extent(0), from.parameters().values().extent(0));
  Kokkos::deep_copy(to.parameters().values(), from.parameters().values());
}

TEST(Structs, AreTheSameModelAsAList) {
  const auto list      = network();
  const auto as_struct = model<double>(Network{});
  copy_parameters(as_struct, list);
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const Pieces whole       = some_pieces({2, 2, 13, 11}, {1, 1, 1, 1}, true, random);
  const WithTangent serial = run_all(domain_parallel<>(list, self), whole);
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto one = domain_parallel<Lat, Lon>(list, mesh);
    const auto two = domain_parallel<Lat, Lon>(as_struct, mesh);
    for (const bool balanced : {true, false}) {
      const Pieces cut =
          some_pieces({2, 2, 13, 11}, {1, 1, mesh.size<Lat>(), mesh.size<Lon>()}, balanced, random);
      const WithTangent a = run_all(one, cut), b = run_all(two, cut);
      EXPECT_EQ(a.y, b.y);
      EXPECT_EQ(a.ty, b.ty);
      expect_near(a.dx, b.dx, 1e-14);
      expect_near(a.gradients, b.gradients, 1e-14);
      expect_near(b.y, serial.y, 1e-12);
      expect_near(b.gradients, serial.gradients, 1e-12);
    }
    expect_pair(two, {1, 2, 13, 11});
    expect_steady(two, {1, 2, 13, 11});
  }
}

TEST(Structs, NameTheirParametersByMembers) {
  const auto m = model<double>(Network{});
  std::vector<std::string> names;
  for (const auto& entry : m.parameters().entries()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "encoder.stem.weight", "encoder.stem.bias", "encoder.blocks.0.conv1.weight",
                       "encoder.blocks.0.conv1.bias", "encoder.blocks.0.conv2.weight",
                       "encoder.blocks.0.conv2.bias", "encoder.blocks.1.conv1.weight",
                       "encoder.blocks.1.conv1.bias", "encoder.blocks.1.conv2.weight",
                       "encoder.blocks.1.conv2.bias", "down.weight", "down.bias", "norms.0.weight",
                       "norms.0.bias", "up.weight", "up.bias", "head.weight", "head.bias"}));
  const auto& module = m.get<"encoder.blocks.1.conv2">();
  EXPECT_EQ(module.weight().data(),
            m.parameters().values().data() + m.parameters().entries()[8].offset);
  EXPECT_THROW(m.get<"encoder.blocks.2.conv2">(), std::out_of_range);
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto report = conversion_report(m, domain_parallel<Lat, Lon>(m, mesh));
  ASSERT_EQ(report.layers.size(), 12u);
  EXPECT_EQ(report.layers[4].name, "encoder.blocks.1.conv1");
  EXPECT_EQ(report.layers[4].halo, "1+1 x 1+1");
}

/// Two inputs, two outputs; one value is read with different halos and boundaries; a module twice.
struct Branches {
  Conv3 first{2, 3};
  Globe3 globe{3, 3};
  Wide5 wide{3, 3};
  Conv1 again{3, 3};
  auto operator()(auto& m, const auto& x, const auto& z) const {
    const auto h = m.run(first, x);
    const auto a = m.run(globe, h), b = m.run(wide, h), c = m.run(first, x);
    // a is a term of two sums
    const auto two  = m.run(Add{}, m.run(Add{}, a, b), a);
    const auto sum  = m.run(Axpby{0.5, 2.0}, two, m.run(again, m.run(again, z)));
    const auto rows = m.run(Split{2, {4, 2, 7}}, c);
    const auto back = m.run(Concatenate{2}, std::tuple(rows[2], rows[0], rows[1]));
    return std::tuple(m.run(Add{}, sum, back), h, m.run(Roll{3, 2}, m.run(Flip{2}, sum)));
  }
};

template <class Net, class MeshType>
std::vector<std::vector<double>> run_branches(const Net& net, const MeshType&, const Pieces& cut) {
  const Space space;
  auto pieces = cut;
  const typename Net::Input x("x", net.mesh(), pieces);
  pieces[1] = Partition::balanced(3, 1);
  const typename Net::Input z("z", net.mesh(), pieces);
  fill(x, 0.1);
  fill(z, 0.7);
  const auto dx = x.like("dx"), dz = z.like("dz");
  const auto y = net.output(x, z), dy = net.output(x, z), ty = net.output(x, z);
  fill(std::get<0>(dy), 0.2);
  fill(std::get<1>(dy), 0.3);
  fill(std::get<2>(dy), 0.4);
  net.apply(space, y, x, z);
  Kokkos::deep_copy(space, net.gradients().values(), 0.0);
  net.pullback(space, dx, dz, dy, x, z);
  space.fence("gradients");
  std::vector<std::vector<double>> all{world(std::get<0>(y)),
                                       world(std::get<1>(y)),
                                       world(std::get<2>(y)),
                                       world(dx),
                                       world(dz),
                                       summed(net.gradients().values(), x.communicator())};
  // <dy, J t> = <J' dy, t>
  const auto tx = x.like("tx"), tz = z.like("tz");
  fill(tx, 0.5);
  fill(tz, 0.6);
  net.pushforward(space, ty, tx, tz, x, z);
  const double left = dot(space, std::get<0>(ty), std::get<0>(dy)) +
                      dot(space, std::get<1>(ty), std::get<1>(dy)) +
                      dot(space, std::get<2>(ty), std::get<2>(dy));
  const double right = dot(space, tx, dx) + dot(space, tz, dz);
  EXPECT_NEAR(left, right, 1e-12 * (1.0 + std::abs(left)));
  // one of the adjoints alone
  net.pullback(space, not_wanted, dz, dy, x, z);
  EXPECT_EQ(world(dz), all[4]);
  net.pullback(space, dx, not_wanted, dy, x, z);
  EXPECT_EQ(world(dx), all[3]);
  return all;
}

TEST(Structs, HaveSeveralInputsAndOutputsAndReadersOfOneValue) {
  const auto m = model<double>(Branches{});
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const Pieces whole = some_pieces({2, 2, 13, 11}, {1, 1, 1, 1}, true, random);
  const auto serial  = run_branches(domain_parallel<>(m, self), self, whole);
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto net = domain_parallel<Lat, Lon>(m, mesh);
    for (const bool balanced : {true, false}) {
      const Pieces cut =
          some_pieces({2, 2, 13, 11}, {1, 1, mesh.size<Lat>(), mesh.size<Lon>()}, balanced, random);
      const auto here = run_branches(net, mesh, cut);
      for (std::size_t r = 0; r < here.size(); ++r) {
        SCOPED_TRACE(r);
        expect_near(here[r], serial[r], 1e-12);
      }
      EXPECT_EQ(here[0], serial[0]);
    }
  }
}

/// Inputs of Branches.
template <class Net>
auto inputs_of(const Net& net) {
  const auto x = net.input("x", {1, 2, 13, 11}), z = net.input("z", {1, 3, 13, 11});
  fill(x, 0.1);
  fill(z, 0.7);
  return std::pair(x, z);
}

/// The same in parts: each layer a model of its own, put together by hand.
TEST(Structs, ReadersOfOneValueGetTheirOwnHalos) {
  const auto m = model<double>(Branches{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const Space space;
  const auto net    = domain_parallel<Lat, Lon>(m, mesh);
  const auto inputs = inputs_of(net);
  const auto &x = inputs.first, &z = inputs.second;
  const auto y      = net(space, x, z);
  const auto single = [&](const auto& layer, const auto& module, const auto& in) {
    const auto alone = sequential<double>(layer);
    Kokkos::deep_copy(alone.template get<0>().weight(), module.weight());
    Kokkos::deep_copy(alone.template get<0>().bias(), module.bias());
    const auto sharded = domain_parallel<Lat, Lon>(alone, mesh);
    const typename decltype(sharded)::Input copy("in", mesh, in.partitions());
    copy_owned(space, copy, in);
    const auto out = sharded.output(copy);
    sharded.apply(space, out, copy);
    return out;
  };
  const auto h = single(Conv3{2, 3}, m.get<"first">(), x);
  EXPECT_EQ(world(std::get<1>(y)), world(h));
  const auto a  = single(Globe3{3, 3}, m.get<"globe">(), h);
  const auto b  = single(Wide5{3, 3}, m.get<"wide">(), h);
  const auto c  = single(Conv1{3, 3}, m.get<"again">(), single(Conv1{3, 3}, m.get<"again">(), z));
  auto expected = world(a);
  const auto wa = world(a), wb = world(b), wc = world(c), wh = world(h);
  // rows of h: 6 to 12, 0 to 3, 4 and 5
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t column = i % 11, row = i / 11 % 13, map = i / 143;
    const std::size_t from = row < 7 ? row + 6 : row - 7;
    expected[i] = 0.5 * (2.0 * wa[i] + wb[i]) + 2.0 * wc[i] + wh[map * 143 + from * 11 + column];
  }
  expect_near(world(std::get<0>(y)), expected, 1e-14);
}

/// The gradient of a kernel reads the halo that its own layer filled. The output is linear in it.
TEST(Structs, GradientsReadTheHaloOfTheirOwnLayer) {
  const auto m = model<double>(Branches{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const Space space;
  const auto net    = domain_parallel<Lat, Lon>(m, mesh);
  const auto inputs = inputs_of(net);
  const auto &x = inputs.first, &z = inputs.second;
  const auto y = net.output(x, z), dy = net.output(x, z);
  fill(std::get<0>(dy), 0.2);
  const auto cost = [&] {
    net.apply(space, y, x, z);
    return dot(space, std::get<0>(y), std::get<0>(dy));
  };
  cost();
  Kokkos::deep_copy(space, net.gradients().values(), 0.0);
  net.pullback(space, not_wanted, not_wanted, dy, x, z);
  const auto gradients = summed(net.gradients().values(), mesh.communicator());
  const auto change    = [&](std::size_t at, double by) {
    const auto one = Kokkos::subview(net.parameters().values(), at);
    double value   = 0.0;
    Kokkos::deep_copy(value, one);
    Kokkos::deep_copy(one, value + by);
  };
  for (const auto& entry : m.parameters().entries()) {
    if (entry.name != "globe.weight" && entry.name != "wide.weight") continue;
    const auto at = static_cast<std::size_t>(entry.offset);  // a corner of the window
    change(at, 0.5);
    const double up = cost();
    change(at, -1.0);
    const double down = cost();
    change(at, 0.5);
    EXPECT_NEAR(up - down, gradients[at], 1e-11 * std::abs(up)) << entry.name;
  }
}

/// Conditioned by numbers that aren't sharded: a time for each sample.
struct Timed {
  WaveEmbedding<Space::memory_space> waves = WaveEmbedding<Space::memory_space>::sinusoidal(6);
  Conv1 embed{6, 8}, gate{6, 3}, term{6, 3};
  Conv3 stem{2, 4};
  Modulated<GroupNorm> norm{{2, 4, 1e-5, false}};
  Conv3 out{4, 3};
  auto operator()(auto& m, const auto& x, const auto& t) const {
    const auto e         = m.run(SiLU{}, m.run(waves, t));
    const auto modulated = m.run(Split{1, {4, 4}}, m.run(embed, e));
    const auto h         = m.run(norm, m.run(stem, x), modulated[0], modulated[1]);
    const auto y         = m.run(Multiply{}, m.run(out, h), m.run(gate, e));
    return m.run(AddBroadcast{}, y, m.run(term, e));
  }
};

/// y, dx, dt, gradients, ty; dt and gradients are summed over the ranks.
template <class Net>
std::vector<std::vector<double>> run_timed(const Net& net, const Pieces& cut) {
  const Space space;
  const typename Net::Input x("x", net.mesh(), cut);
  const auto t = net.replicated("t", {2, 1, 1, 1});
  fill(x, 0.1);
  const auto set = [&](const auto& to, double a, double b) {
    const auto host  = Kokkos::create_mirror_view(to.view());
    host(0, 0, 0, 0) = a;
    host(1, 0, 0, 0) = b;
    Kokkos::deep_copy(to.view(), host);
  };
  set(t, 0.3, 1.7);
  const auto dx = x.like("dx"), tx = x.like("tx");
  const auto dt = t.like("dt"), tt = t.like("tt");
  const auto y = net.output(x, t), dy = net.output(x, t), ty = net.output(x, t);
  fill(dy, 0.2);
  fill(tx, 0.5);
  set(tt, -0.4, 0.9);
  net.apply(space, y, x, t);
  Kokkos::deep_copy(space, net.gradients().values(), 0.0);
  net.pullback(space, dx, dt, dy, x, t);
  space.fence("gradients");
  const std::vector<double> whole_dt =
      summed(Kokkos::View<double*, Space::memory_space>(dt.view().data(), 2), x.communicator());
  net.pushforward(space, ty, tx, tt, x, t);
  EXPECT_NEAR(dot(space, ty, dy), dot(space, tx, dx) - 0.4 * whole_dt[0] + 0.9 * whole_dt[1],
              1e-12 * (1.0 + std::abs(dot(space, ty, dy))));
  return {world(y), world(dx), whole_dt, summed(net.gradients().values(), x.communicator()),
          world(ty)};
}

TEST(Structs, HaveReplicatedValues) {
  const auto m = model<double>(Timed{});
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const auto serial = run_timed(domain_parallel<>(m, self),
                                some_pieces({2, 2, 13, 11}, {1, 1, 1, 1}, true, random));
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto net = domain_parallel<Lat, Lon>(m, mesh);
    for (const bool balanced : {true, false}) {
      const auto here =
          run_timed(net, some_pieces({2, 2, 13, 11}, {1, 1, mesh.size<Lat>(), mesh.size<Lon>()},
                                     balanced, random));
      for (std::size_t r = 0; r < here.size(); ++r) {
        SCOPED_TRACE(r);
        expect_near(here[r], serial[r], 1e-12);
      }
    }
    const auto x = net.input("x", {2, 2, 13, 11});
    const auto t = net.replicated("t", {2, 1, 1, 1});
    const auto y = net.output(x, t), dy = net.output(x, t);
    const auto dx = x.like("dx"), dt = t.like("dt");
    const auto step = [&] {
      net.apply(Space(), y, x, t);
      net.pullback(Space(), dx, dt, dy, x, t);
    };
    step();
    EXPECT_EQ(count(step).allocations, 0);
  }
}

/// Of a replicated value and a sharded one.
struct Mixed {
  Conv1 conv{1, 2};
  int kind = 0;
  auto operator()(auto& m, const auto& x, const auto& t) const {
    if (kind == 0) return m.run(Add{}, m.run(conv, x), m.run(conv, t));
    if (kind == 1) return m.run(conv, t);
    return m.run(Multiply{}, m.run(conv, t), m.run(conv, x));
  }
};

TEST(Structs, RefuseReplicatedValuesInOtherPlaces) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  if (mesh.size() == 1) return;  // there a replicated value is like any other
  for (int kind = 0; kind < 3; ++kind) {
    Mixed mixed;
    mixed.kind     = kind;
    const auto net = domain_parallel<Lat, Lon>(model<double>(mixed), mesh);
    const auto x   = net.input("x", {1, 1, 13, 11});
    EXPECT_THROW(net.output(x, net.replicated("t", {1, 1, 1, 1})), ArgumentError) << kind;
  }
}

/// All points pooled to nodes, whose channels are mixed, and back: values of nodes are replicated.
struct Pooled {
  Conv3 stem{2, 4};
  SpatialPool<2> pool{5, {13, 11}};
  Conv1 mix{4, 6};
  SpatialUnpool<2> unpool{5, {13, 11}};
  Conv3 out{6, 3};
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(stem, x);
    const auto s = m.run(mix, m.run(pool, h));
    const auto y = m.run(Add{}, m.run(unpool, h, s), m.run(unpool, h, m.run(SiLU{}, s)));
    return m.run(out, m.run(SiLU{}, y));
  }
};

/// y, dx, gradients summed over the ranks, ty.
template <class Net>
std::vector<std::vector<double>> run_pooled(const Net& net, const Pieces& cut) {
  const Space space;
  const typename Net::Input x("x", net.mesh(), cut);
  fill(x, 0.1);
  const auto dx = x.like("dx"), tx = x.like("tx");
  const auto y = net.output(x), dy = net.output(x), ty = net.output(x);
  fill(dy, 0.2);
  fill(tx, 0.5);
  net.apply(space, y, x);
  Kokkos::deep_copy(space, net.gradients().values(), 0.0);
  net.pullback(space, dx, dy, x);
  net.pushforward(space, ty, tx, x);
  space.fence("gradients");
  EXPECT_NEAR(dot(space, ty, dy), dot(space, tx, dx), 1e-12 * (1.0 + std::abs(dot(space, ty, dy))));
  const auto step = [&] {
    net.apply(space, y, x);
    net.pullback(space, dx, dy, x);
  };
  const auto gradients = summed(net.gradients().values(), x.communicator());
  EXPECT_EQ(count(step).allocations, 0);
  return {world(y), world(dx), gradients, world(ty)};
}

TEST(Structs, PoolAllPointsAndSpreadThem) {
  const auto m = model<double>(Pooled{});
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const Extents<4> extents{2, 2, 13, 11};
  const auto serial =
      run_pooled(domain_parallel<>(m, self), some_pieces(extents, {1, 1, 1, 1}, true, random));
  const auto expect_serial = [&](const std::vector<std::vector<double>>& here) {
    for (std::size_t r = 0; r < here.size(); ++r) {
      SCOPED_TRACE(r);
      expect_near(here[r], serial[r], 1e-12);
    }
  };
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const int lats = mesh.size<Lat>(), lons = mesh.size<Lon>();
    const auto in_space = domain_parallel<Lat, Lon>(m, mesh);
    const auto in_batch = domain_parallel<ShardDim<0, Lat>, ShardDim<-1, Lon>>(m, mesh);
    for (const bool balanced : {true, false}) {
      expect_serial(
          run_pooled(in_space, some_pieces(extents, {1, 1, lats, lons}, balanced, random)));
      expect_serial(
          run_pooled(in_batch, some_pieces(extents, {lats, 1, 1, lons}, balanced, random)));
    }
  }
  for (const char* name : {"pool.weight", "unpool.weight"})
    EXPECT_EQ(std::count_if(m.parameters().entries().begin(), m.parameters().entries().end(),
                            [&](const auto& entry) { return entry.name == name; }),
              1);
}

/// Nodes where a field is needed.
struct PooledWrong {
  Conv1 conv{1, 1};
  SpatialPool<2> pool{2, {13, 11}};
  SpatialUnpool<2> unpool{2, {13, 11}};
  int kind = 0;
  auto operator()(auto& m, const auto& x) const {
    const auto s = m.run(pool, x);
    if (kind == 0) return m.run(conv, s);
    if (kind == 1) return m.run(Add{}, m.run(conv, x), s);
    return m.run(unpool, s, x);
  }
};

TEST(Structs, RefuseNodesWhereFieldsAreNeeded) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  if (mesh.size() == 1) return;  // there no value is replicated
  for (int kind = 0; kind < 3; ++kind) {
    PooledWrong wrong;
    wrong.kind     = kind;
    const auto net = domain_parallel<Lat, Lon>(model<double>(wrong), mesh);
    EXPECT_THROW(net.output(net.input("x", {1, 1, 13, 11})), ArgumentError) << kind;
  }
}

struct Attentive {
  Conv1 q{4, 4}, k{4, 4}, v{4, 4};
  WindowAttention<4, 3> attention{};
  Conv3 out{4, 2};
  bool twice = false;
  auto operator()(auto& m, const auto& x) const {
    auto h = m.run(attention, m.run(q, x), m.run(k, x), m.run(v, x));
    if (twice) h = m.run(attention, h, h, h);
    return m.run(out, h);
  }
};

TEST(Structs, HaveAttention) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  for (const bool twice : {false, true}) {
    Attentive attentive;
    attentive.twice           = twice;
    attentive.attention.heads = 2;
    attentive.attention.shift = {2, 1};
    const auto m              = model<double>(attentive);
    const auto serial         = domain_parallel<>(m, self);
    const auto sharded        = domain_parallel<Lat, Lon>(m, mesh);
    expect_near(run(sharded, {1, 4, 13, 11}), run(serial, {1, 4, 13, 11}), 1e-12);
    expect_pair(sharded, {1, 4, 13, 11});
    expect_steady(sharded, {1, 4, 13, 11});
  }
}

/// Scaled cosine attention with a bias, as in Swin transformers v2, and CrossFormer's.
struct Swin2 {
  Conv1 q{4, 4}, k{4, 4}, v{4, 4};
  CosineNorm cosine{2}, unit{2, false};
  HeadNorm<RMSNorm> qk_norm{{2, 0.1}, 2};
  Biased<WindowAttention<4, 3>, ContinuousBias> attention{
      {.heads = 2, .scale = 1.0, .shift = {2, 1}}, {8}};
  Biased<WindowAttention<2, 3>, DynamicBias> dynamic{{.heads = 2}, {5}};
  Conv3 out{4, 2};
  auto operator()(auto& m, const auto& x) const {
    const auto h =
        m.run(attention, m.run(cosine, m.run(q, x)), m.run(unit, m.run(k, x)), m.run(v, x));
    return m.run(out, m.run(dynamic, m.run(qk_norm, h), h, h));
  }
};

TEST(Structs, HaveBiasesOfAttention) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  const auto m       = model<double>(Swin2{});
  const auto serial  = domain_parallel<>(m, self);
  const auto sharded = domain_parallel<Lat, Lon>(m, mesh);
  expect_near(run(sharded, {1, 4, 13, 11}), run(serial, {1, 4, 13, 11}), 1e-12);
  expect_pair(sharded, {1, 4, 13, 11});
  expect_steady(sharded, {1, 4, 13, 11});
  std::string names;
  for (const auto& entry : m.parameters().entries()) names += entry.name + " ";
  for (const char* name : {"cosine.logit_scale", "attention.cpb_mlp.2.weight",
                           "dynamic.layers.9.bias", "qk_norm.weight"})
    EXPECT_NE(names.find(name), std::string::npos) << name;
}

/// Attention to neighbours, whose keys have halos, and with fewer heads of keys.
struct Neighbours {
  Conv1 q{4, 4}, k{4, 2}, v{4, 2};
  NeighbourhoodAttention<Kernel<3, 5>, PaddingMode<Zero, Periodic>> near{.heads     = 2,
                                                                         .key_heads = 1};
  Biased<NeighbourhoodAttention<Kernel<3, 3>, Dilation<2, 1>>, RelativeBias> biased{{.heads = 2}};
  WindowAttention<4, 3> shared{.heads = 2, .key_heads = 1};
  Masked<WindowAttention<4, 3>> masked{{.heads = 2}, mask()};
  Conv3 out{4, 2};
  auto operator()(auto& m, const auto& x) const {
    const auto few = m.run(k, x), values = m.run(v, x);
    const auto h = m.run(near, m.run(q, x), few, values);
    const auto g = m.run(masked, h, m.run(biased, h, h, h), h);
    return m.run(out, m.run(shared, g, few, values));
  }
  static Kokkos::View<double****, Kokkos::LayoutRight, Kokkos::HostSpace> mask() {
    Kokkos::View<double****, Kokkos::LayoutRight, Kokkos::HostSpace> numbers("mask", 1, 1, 12, 12);
    for (std::size_t i = 0; i < 144; ++i)
      numbers.data()[i] =
          i % 5 == 0 ? -Kokkos::Experimental::infinity_v<double> : 0.1 * static_cast<double>(i % 7);
    return numbers;
  }
};

TEST(Structs, HaveAttentionToNeighbours) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  const auto m       = model<double>(Neighbours{});
  const auto serial  = domain_parallel<>(m, self);
  const auto sharded = domain_parallel<Lat, Lon>(m, mesh);
  expect_near(run(sharded, {1, 4, 13, 11}), run(serial, {1, 4, 13, 11}), 1e-12);
  expect_pair(sharded, {1, 4, 13, 11});
  expect_steady(sharded, {1, 4, 13, 11});
  struct Near {
    using root_type = Module<double, Kokkos::HostSpace, NeighbourhoodAttention<Kernel<5, 5>>>;
  };
  static_assert(sharding_findings<Near, 2>({32, 32}, {2, 1}).empty());
  static_assert(sharding_findings<Near, 2>({8, 32}, {4, 1}).list[0].misfit ==
                Misfit::shard_below_halo);
}

/// Attention from a few levels to all.
struct OverLevels {
  Conv<Kernel<1, 1, 1>> q{4, 4}, k{4, 4}, v{4, 4};
  ColumnAttention columns{.heads = 2};
  auto operator()(auto& m, const auto& x) const {
    return m.run(columns, m.run(q, m.run(Slice{2, 1, 4}, x)), m.run(k, x), m.run(v, x));
  }
};

TEST(Structs, HaveAttentionOverLevels) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  const auto m       = model<double>(OverLevels{});
  const auto serial  = domain_parallel<>(m, self);
  const auto sharded = domain_parallel<Unsharded, Lat, Lon>(m, mesh);
  expect_near(run(sharded, {1, 4, 6, 5, 3}), run(serial, {1, 4, 6, 5, 3}), 1e-12);
  expect_pair(sharded, {1, 4, 6, 5, 3});
}

/// Windows in which pads of zeros attend: layers on the padded field, as in FuXi.
struct PadsAttend {
  Pad<Zero, Zero> pad{.low = {1, 0}, .high = {2, 1}};
  Conv1 q{4, 4}, k{4, 4}, v{4, 4};
  WindowAttention<4, 3> attention{.heads = 2, .shift = {2, 1}, .masked = true};
  Unpad<2> unpad{.low = {1, 0}, .high = {2, 1}};
  bool pads = true;
  auto operator()(auto& m, const auto& x) const {
    const auto attend = [&](const auto& h) {
      return m.run(attention, m.run(q, h), m.run(k, h), m.run(v, h));
    };
    if (pads) return m.run(unpad, attend(m.run(pad, x)));
    return attend(x);
  }
};

TEST(Structs, PadsOfWindowsMayAttend) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  const auto m       = model<double>(PadsAttend{});
  const auto serial  = domain_parallel<>(m, self);
  const auto sharded = domain_parallel<Lat, Lon>(m, mesh);
  expect_near(run(sharded, {1, 4, 13, 11}), run(serial, {1, 4, 13, 11}), 1e-12);
  expect_pair(sharded, {1, 4, 13, 11});
  // the same parameters on a field that is padded beforehand
  PadsAttend bare;
  bare.pads        = false;
  const auto plain = domain_parallel<>(model<double>(bare), self);
  const auto x = serial.input("x", {1, 4, 13, 11}), wide = plain.input("x", {1, 4, 16, 12});
  fill(x, 3);
  Kokkos::deep_copy(wide.view(), 0.0);
  const Space space;
  Pad<Zero, Zero>{.low = {1, 0}, .high = {2, 1}}.apply(space, wide, x);
  const auto y = serial(space, x), all = plain(space, wide);
  space.fence();
  double largest = 0.0;
  for (index_t c = 0; c < 4; ++c)
    for (index_t i = 0; i < 13; ++i)
      for (index_t j = 0; j < 11; ++j)
        largest = std::max(largest, std::abs(y(0, c, i, j) - all(0, c, i + 1, j)));
  EXPECT_LT(largest, 1e-15);
}

/// Norms whose scale and shift are fields, and products of fields.
struct Conditioned {
  Conv1 scale{4, 4}, shift{4, 4}, gate{4, 4};
  Modulated<LayerNorm> norm{{4, 1e-5, true}};
  Multiply times{};
  Conv3 out{4, 2};
  auto operator()(auto& m, const auto& x) const {
    const auto condition = m.run(Sigmoid{}, x);
    const auto h         = m.run(norm, x, m.run(scale, condition), m.run(shift, condition));
    return m.run(out, m.run(Multiply{}, m.run(times, h, m.run(gate, condition)), x));
  }
};

TEST(Structs, HaveLayersOfSeveralInputs) {
  const auto m = model<double>(Conditioned{});
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 0});
  const auto sharded = domain_parallel<Lat, Lon>(m, mesh);
  const auto a = run(sharded, {2, 4, 13, 11}), b = run(domain_parallel<>(m, self), {2, 4, 13, 11});
  EXPECT_EQ(a.y, b.y);
  expect_near(a, b, 1e-12);
  expect_pair(sharded, {2, 4, 13, 11});
  expect_steady(sharded, {2, 4, 13, 11});
}

TEST(Structs, AreOperations) {
  const auto m = model<double>(Bottleneck{{3, 3}, {3, 3}});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const Space space;
  const auto net = domain_parallel<Lat, Lon>(m, mesh);
  using Field    = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<2>, Reflect>,
                            ShardDim<3, Lon, Halo<1>, Periodic>>;
  const Field x("x", mesh, {1, 3, 13, 11});
  fill(x, 0.1);
  const auto dy = x.like("dy");
  fill(dy, 0.2);
  // three steps of h + net(h): by hand, by a loop with checkpoints, and by a graph in a loop
  const auto step = operation_graph(
      x, [&](auto& graph, const auto& h) { return graph.run(Axpby{}, h, graph.run(net, h)); });
  const auto by_hand = [&] {
    Tape tape(space);
    auto h = tape.run(Axpby{}, x, x);
    for (int s = 0; s < 3; ++s) h = tape.run(Axpby{}, h, tape.run(net, h));
    const auto y = world(h);
    Kokkos::deep_copy(space, net.gradients().values(), 0.0);
    const auto dx = tape.pullback(h, dy, x);
    return std::tuple(y, world(dx), summed(net.gradients().values(), mesh.communicator()));
  };
  const auto by_loop = [&] {
    Tape tape(space);
    const auto twice = tape.run(Axpby{}, x, x);
    const auto h     = tape.loop(step, twice, 3, Checkpoints{.slots = 2});
    const auto y     = world(h);
    Kokkos::deep_copy(space, net.gradients().values(), 0.0);
    const auto dx = tape.pullback(h, dy, x);
    return std::tuple(y, world(dx), summed(net.gradients().values(), mesh.communicator()));
  };
  const auto a = by_hand();
  const auto b = by_loop();
  EXPECT_EQ(std::get<0>(a), std::get<0>(b));
  expect_near(std::get<1>(b), std::get<1>(a), 1e-14);
  expect_near(std::get<2>(b), std::get<2>(a), 1e-14);
  EXPECT_LT(dot_product_error(space, step, x, dy, dy), 1e-13);
}

TEST(Structs, KeepActivationsInTwoBytes) {
  const auto m = model<double>(Network{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto net   = domain_parallel<Lat, Lon>(m, mesh);
  const auto exact = run(net, {1, 2, 13, 11});
  const auto whole = net.memory().activations;
  net.keep_activations(LowPrecision::bfloat16);
  const auto rounded = run(net, {1, 2, 13, 11});
  EXPECT_NE(rounded.y, exact.y);
  expect_near(rounded.y, exact.y, 0.05);
  EXPECT_LT(net.memory().activations, whole / 2);
  expect_pair(net, {1, 2, 13, 11}, false);
  expect_steady(net, {1, 2, 13, 11});
}

struct WithBlock {
  Conv3 stem{2, 4};
  decltype(block(Conv3{4, 4}, SiLU{}, Conv3{4, 4})) tail = block(Conv3{4, 4}, SiLU{}, Conv3{4, 4});
  auto operator()(auto& m, const auto& x) const { return m.run(tail, m.run(stem, x)); }
};

TEST(Structs, MergeTheExchangesOfBlocks) {
  const auto m = model<double>(WithBlock{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto plain  = domain_parallel<Lat, Lon>(m, mesh);
  const auto merged = domain_parallel<Lat, Lon>(m, mesh, merge_halos<MergeAlways>());
  EXPECT_EQ(conversion_report(m, merged).layers[1].merged, "tail.0 to tail.2, halo 2+2 x 2+2");
  const auto a = run(plain, {1, 2, 13, 11}), b = run(merged, {1, 2, 13, 11});
  EXPECT_EQ(a.y, b.y);
  expect_near(b, a, 1e-12);
}

/// Layers that a copy would silence, and operations as members.
struct Members {
  Slice rows{2, 1, 9};
  Axpby sum{0.5, 1.5};
  Conv3 conv{2, 2};
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(rows, x);
    return m.run(sum, h, m.run(Dropout{0.5, 3}, m.run(conv, h)));
  }
};

TEST(Structs, HaveOperationsAsMembersAndDropoutsOfTheModelsMode) {
  const auto m = model<double>(Members{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto net   = domain_parallel<Lat, Lon>(m, mesh);
  const auto first = run(net, {1, 2, 13, 11});
  EXPECT_EQ(first.y.size(), 2U * 8U * 11U);
  EXPECT_NE(run(net, {1, 2, 13, 11}).y, first.y);  // another mask
  m.set_training(false);
  const auto exact = run(net, {1, 2, 13, 11});
  EXPECT_EQ(run(net, {1, 2, 13, 11}).y, exact.y);
  EXPECT_NE(exact.y, first.y);
  expect_pair(net, {1, 2, 13, 11});
}

/// The input of a model isn't rounded.
struct OneConv {
  Conv3 conv{2, 2};
  auto operator()(auto& m, const auto& x) const { return m.run(conv, x); }
};

TEST(Structs, KeepTheirInputsWhole) {
  const auto m = model<double>(OneConv{});
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto net   = domain_parallel<Lat, Lon>(m, mesh);
  const auto whole = run(net, {1, 2, 13, 11});
  net.keep_activations(LowPrecision::bfloat16);
  const auto kept = run(net, {1, 2, 13, 11});
  EXPECT_EQ(kept.y, whole.y);
  EXPECT_EQ(kept.gradients, whole.gradients);
  // and an unwanted adjoint costs nothing
  const Space space;
  const auto x = net.input("x", {1, 2, 13, 11}), dx = x.like("dx");
  const auto y = net.output(x), dy = net.output(x);
  net.apply(space, y, x);
  net.pullback(space, dx, dy, x);
  const auto wanted   = count([&] { net.pullback(space, dx, dy, x); });
  const auto unwanted = count([&] { net.pullback(space, not_wanted, dy, x); });
  EXPECT_EQ(unwanted.kernels, 2) << unwanted;  // of the weights and the bias
  EXPECT_GT(wanted.kernels, unwanted.kernels) << wanted;
}

/// A HaloExchange has one reader, which needs its halo.
struct Unread {
  HaloExchange<ShardDim<2, Lat, Halo<1>, Reflect>> fill{};
  Conv1 conv{2, 2};
  bool returned = false;
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(fill, m.run(conv, x));
    return returned ? h : m.run(conv, h);
  }
};

struct Copies {
  Conv3 conv{2, 2};
  auto operator()(auto& m, const auto& x) const {
    const Conv3 copy = conv;
    return m.run(copy, x);
  }
};

TEST(Structs, RefuseWhatTheyCannotRun) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto net = domain_parallel<Lat, Lon>(model<double>(Copies{}), mesh);
  const auto x   = net.input("x", {1, 2, 9, 8});
  EXPECT_NE(message_thrown_by<ArgumentError>([&] {
              net.prepare(x);
            }).find("isn't a member of the model's struct"),
            std::string::npos);
  for (const bool returned : {false, true}) {
    Unread unread;
    unread.returned  = returned;
    const auto wrong = domain_parallel<Lat, Lon>(model<double>(unread), mesh);
    EXPECT_NE(message_thrown_by<ArgumentError>([&] {
                wrong.prepare(x);
              }).find("is read by one layer, which needs a halo"),
              std::string::npos);
  }
  const auto narrow = domain_parallel<Lat, Lon>(model<double>(Branches{}), mesh);
  const auto one = narrow.input("x", {1, 2, 1, 8}), three = narrow.input("z", {1, 3, 1, 8});
  EXPECT_THROW(narrow.prepare(one, three), ArgumentError);  // Reflect needs two rows
  const auto bottleneck =
      domain_parallel<Lat, Lon>(model<double>(Bottleneck{{3, 3}, {3, 3}}), mesh);
  const auto y = bottleneck.input("y", {1, 3, 9, 8});
  EXPECT_NE(message_thrown_by<ArgumentError>([&] {
              bottleneck.pullback(Space(), y, y, y);
            }).find("there was none"),
            std::string::npos);
}

}  // namespace
