// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_MODEL_UNET_TRAINING_HPP
#define SHARD_BENCHMARKS_MODEL_UNET_TRAINING_HPP

#include <mpi.h>
#include <shard/model/domain_parallel.hpp>
#include <shard/model/parameter_arena.hpp>
#include <shard/model/sequential.hpp>
#include <shard/shard.hpp>
#include <shard/train/optimisers.hpp>

#include <utility>

/// A U-Net's training step, which several benchmarks take.
namespace unet {

using namespace shard;

struct Lat;
using Space = Kokkos::DefaultExecutionSpace;

template <int S>
auto unit(index_t in, index_t out) {
  return block(Conv<Kernel<3, 3>, Stride<S, S>, Padding<1, 1>>{in, out}, GroupNorm{4, out}, SiLU{});
}

/// Of w, 2 w and 4 w channels.
auto unet(index_t w) {
  const ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>> up1{4 * w, 2 * w}, up0{2 * w, w};
  const auto low = concat(unit<2>(2 * w, 4 * w), unit<1>(4 * w, 4 * w), up1);
  return sequential<float>(unit<1>(4, w),
                           concat(unit<2>(w, 2 * w), low, unit<1>(4 * w, 2 * w), up0),
                           unit<1>(2 * w, w), Conv<Kernel<1, 1>>{w, 4});
}

/// A model with what a step needs, on the ranks of a communicator.
class Training {
 public:
  Training(MPI_Comm comm, index_t width, index_t rows, index_t columns)
      : mesh_(comm, {0}),
        model_(unet(width)),
        sharded_(domain_parallel<Lat>(model_, mesh_)),
        x_(sharded_.input("x", {1, 4, rows, columns})),
        y_(sharded_.output(x_)),
        dy_(y_.like("dy")),
        target_(y_.like("target")),
        loss_(target_, {}),
        sum_(y_, static_cast<index_t>(model_.parameters().values().extent(0))),
        adam_(static_cast<index_t>(model_.parameters().values().extent(0))) {
    Kokkos::deep_copy(space_, x_.view(), 0.5F);
  }

  void step() {
    Kokkos::deep_copy(space_, sharded_.gradients().values(), 0.0F);
    sharded_.apply(space_, y_, x_);
    value_ = loss_(space_, y_, target_);
    loss_.pullback(space_, dy_, y_, target_);
    sharded_.pullback(space_, not_wanted, dy_, x_);
    sum_(space_, sharded_.gradients().values());
    adam_(space_, model_.parameters().values(), sharded_.gradients().values());
    space_.fence();
  }
  double value() const { return value_; }
  auto parameters() const { return model_.parameters().values(); }

 private:
  using Model   = decltype(unet(1));
  using Sharded = decltype(domain_parallel<Lat>(std::declval<Model>(), std::declval<Mesh<Lat>>()));
  using Output  = typename Sharded::Output;

  Space space_;
  Mesh<Lat> mesh_;
  Model model_;
  Sharded sharded_;
  typename Sharded::Input x_;
  Output y_, dy_, target_;
  MeanSquare<Space::memory_space> loss_;
  GradientSum<float> sum_;
  AdamW<float> adam_;
  double value_ = 0;
};

}  // namespace unet

#endif
