// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/loss/mean_error.hpp"
#include "shard/layers/loss/mean_square.hpp"
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
       {"gradient_norm/float/-", time_norm<float>}});
}
