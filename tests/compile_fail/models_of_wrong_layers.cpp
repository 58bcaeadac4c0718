// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a model has at least one layer
// expect: the layers of a model have as many spatial dimensions as its cuts, or any
// expect: the path goes on below a layer that has no layers in it
// expect: a layer of a list has one input, and this one has several, as attention has
// expect: a model is a plain struct (an aggregate) with at least one member that is a
// expect: a model's function runs operations on values that it was given or that run
// expect: the argument of MeanSquare, MeanAbsolute and Huber is a memory space: name the
#include <shard/layers/attention/attention.hpp>
#include <shard/layers/loss/mean_square.hpp>
#include <shard/shard.hpp>

struct Lat;

auto nothing() { return shard::sequential<float>(); }

auto mixed(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<Lat>(
      shard::sequential<float>(shard::Conv<shard::Kernel<1, 1>>{1, 1},
                               shard::Conv<shard::Kernel<1>>{1, 1}),
      mesh);
}

const void* below() {
  const auto model = shard::sequential<float>(shard::SiLU{});
  return &model.get<"0.1">();
}

auto attentive() {
  return shard::sequential<float>(shard::SiLU{}, shard::WindowAttention<4, 4>{}, shard::SiLU{});
}

struct Empty {
  int depth = 3;
  auto operator()(auto&, const auto& x) const { return x; }
};
auto of_nothing() { return shard::model<float>(Empty{}); }

struct OfNumbers {
  shard::SiLU act{};
  auto operator()(auto& m, const auto& x) const { return m.run(shard::Add{}, m.run(act, x), 1.0); }
};
auto of_numbers(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<Lat>(shard::model<float>(OfNumbers{}), mesh);
}

using Plane = shard::ShardedView<float****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;
void loss_of(const Plane& y) { shard::MeanSquare<Plane>(y, {}); }
