// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/loss/mean_error.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/model/sequential.hpp"
#include "shard/train/gradient_norm.hpp"
#include "shard/train/optimisers.hpp"
#include "timing.hpp"

namespace {

template <class T, class Make>
Case loss(Make make) {
  return [make](const Grid& mesh, double least) {
    const Space space;
    const Plain<T> y("y", mesh, {1, 64, 181, 360}), target = y.like("target"), dy = y.like("dy");
    fill(y.view());
    auto of              = make(y);
    volatile double keep = 0;
    answer<T>(
        least, {0, 2 * bytes_of(y), 3 * bytes_of(y)}, [&] { keep = of(space, y, target); },
        [&] {
          of.pullback(space, dy, y, target, 1.0);
          space.fence();
        });
    static_cast<void>(keep);
  };
}

constexpr index_t count = 16000000;

/// A step, forward and "backward" alike; `arrays` are read or written.
template <class T, class Optimiser>
Case step(Optimiser (*make)(), int arrays) {
  return [make, arrays](const Grid&, double least) {
    const Space space;
    const Kokkos::View<T*, Kokkos::LayoutRight> values("values", count),
        gradients("gradients", count);
    fill(values);
    fill(gradients);
    Optimiser optimiser = make();
    const auto call     = [&] {
      optimiser(space, values, gradients);
      space.fence();
    };
    const double bytes = static_cast<double>(arrays) * static_cast<double>(count * sizeof(T));
    answer<T>(least, {0, bytes, bytes}, call, call);
  };
}

/// The norm, and clipping by it.
template <class T>
void time_norm(const Grid&, double least) {
  const Space space;
  const Kokkos::View<T*, Kokkos::LayoutRight> gradients("gradients", count);
  fill(gradients);
  const shard::GradientNorm<T> norm(count);
  volatile double keep = 0;
  const double bytes   = static_cast<double>(count * sizeof(T));
  answer<T>(
      least, {0, bytes, 3 * bytes}, [&] { keep = norm(space, gradients); },
      [&] {
        norm.clip(space, gradients, 1.0);
        space.fence();
      });
  static_cast<void>(keep);
}

/// A training step of two units of convolution, norm and SiLU: forward, loss, gradients, Adam.
void time_training_step(const Grid& mesh, double least) {
  using Wide      = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
  const auto unit = [](index_t in, index_t out) {
    return shard::block(Wide{in, out}, shard::GroupNorm{8, out}, shard::SiLU{});
  };
  const Space space;
  auto model =
      shard::sequential<float>(unit(4, 64), unit(64, 64), shard::Conv<shard::Kernel<1, 1>>{64, 4});
  auto sharded = shard::domain_parallel<Lat, Lon>(model, mesh);
  const auto x = sharded.input("x", {1, 4, 90, 180});
  const auto y = sharded.output(x), dy = y.like("dy"), target = y.like("target");
  fill(x.view());
  fill(target.view());
  shard::MeanSquare loss(target, {});
  shard::Adam<float> adam(static_cast<index_t>(model.parameters().values().extent(0)));
  volatile double keep = 0;
  const auto step      = [&] {
    Kokkos::deep_copy(space, sharded.gradients().values(), 0.0F);
    sharded.apply(space, y, x);
    keep = loss(space, y, target);
    loss.pullback(space, dy, y, target);
    sharded.pullback(space, shard::not_wanted, dy, x);
    adam(space, model.parameters().values(), sharded.gradients().values());
    space.fence();
  };
  static_cast<void>(keep);
  const double flops = 6.0 * 90 * 180 * (9 * 4 * 64 + 9 * 64 * 64 + 64 * 4);
  answer<float>(least, {flops}, step, step);
}

}  // namespace

// op/type/-
void add_training(Cases& cases) {
  cases.insert(
      {{"mean_square/float/-", loss<float>([](const auto& y) { return shard::MeanSquare(y, {}); })},
       {"mean_absolute/float/-",
        loss<float>([](const auto& y) { return shard::MeanAbsolute(y, {}); })},
       {"huber/float/-", loss<float>([](const auto& y) { return shard::Huber(y, {}, 0.5); })},
       {"adam/float/-", step<float>(
                            +[] { return shard::Adam<float>(count); }, 7)},
       {"adam/double/-", step<double>(
                             +[] { return shard::Adam<double>(count); }, 7)},
       {"adamw/float/-", step<float>(
                             +[] { return shard::AdamW<float>(count); }, 7)},
       {"sgd/float/-", step<float>(
                           +[] { return shard::SGD<float>(count); }, 3)},
       {"sgd_momentum/float/-",
        step<float>(
            +[] { return shard::SGD<float>(count, {.momentum = 0.9}); }, 5)},
       {"gradient_norm/float/-", time_norm<float>},
       {"training_step/float/4x90x180", time_training_step}});
}
