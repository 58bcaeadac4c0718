// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/loss/mean_error.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/model/sequential.hpp"
#include "shard/train/gradient_norm.hpp"
#include "shard/train/optimisers.hpp"
#include "timing.hpp"

namespace {

template <class T, class Make>
Case loss(Make make, index_t batch = 1) {
  return [make, batch](const Grid& mesh, double least) {
    const Space space;
    const Plain<T> y("y", mesh, {batch, 64, 181, 360}), target = y.like("target"),
                                                        dy = y.like("dy");
    fill(y.view());
    auto of              = make(y);
    volatile double keep = 0;
    answer<T>(
        least, {0, 2 * bytes_of(y), 3 * bytes_of(y)},
        {[&] { keep = of(space, y, target); }, [&] { of.pullback(space, dy, y, target, 1.0); }});
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
    const auto call     = [&] { optimiser(space, values, gradients); };
    const double bytes  = static_cast<double>(arrays) * static_cast<double>(count * sizeof(T));
    answer<T>(least, {0, bytes, bytes}, {call, call});
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
  answer<T>(least, {0, bytes, 3 * bytes},
            {[&] { keep = norm(space, gradients); }, [&] { norm.clip(space, gradients, 1.0); }});
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
  };
  static_cast<void>(keep);
  const double flops = 6.0 * 90 * 180 * (9 * 4 * 64 + 9 * 64 * 64 + 64 * 4);
  answer<float>(least, {flops}, {step, step});
}

/// A U-Net of three levels, w channels in the finest: the emulator's network without its poles.
auto u_net(index_t channels, index_t w) {
  using namespace shard;
  using Same      = Conv<Kernel<3, 3>, Padding<1, 1>>;
  using Down      = Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
  using Up        = ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
  const auto unit = [](const auto& conv) {
    return block(named<"conv">(conv), named<"norm">(GroupNorm{4, conv.out}), SiLU{});
  };
  const auto same   = [&](index_t in, index_t out) { return unit(Same{in, out, 1, false}); };
  const auto down   = [&](index_t in, index_t out) { return unit(Down{in, out, 1, false}); };
  const auto level2 = concat(named<"down">(down(2 * w, 4 * w)), named<"refine">(same(4 * w, 4 * w)),
                             named<"up">(Up{4 * w, 2 * w}));
  const auto level1 = concat(named<"down">(down(w, 2 * w)), named<"refine">(same(2 * w, 2 * w)),
                             named<"level2">(level2), named<"merge">(same(4 * w, 2 * w)),
                             named<"up">(Up{2 * w, w}));
  return sequential<float>(named<"change">(residual(
      named<"enter">(same(channels, w)), named<"refine">(same(w, w)), named<"level1">(level1),
      named<"merge">(same(2 * w, w)), named<"head">(Conv<Kernel<1, 1>>{w, channels}))));
}

/// Forward, and a training step: forward, loss, backward, Adam.
void time_u_net(const Grid& mesh, double least) {
  const Space space;
  auto model = u_net(6, 64);
  auto net   = shard::domain_parallel<Lat, Lon>(model, mesh);
  using Net  = decltype(net);
  model.initialise(space, 1);
  const auto x = net.input("x", {1, 6, 181, 360});
  const typename Net::Output target("target", mesh, x.partitions()), dy = target.like("dy");
  fill(x.view());
  fill(target.view());
  shard::MeanSquare loss(target, {});
  const auto weights = net.parameters().values(), gradients = net.gradients().values();
  shard::Adam<float> adam(static_cast<index_t>(weights.extent(0)), {.learning_rate = 1e-6});
  answer<float>(least, {},
                {[&] { static_cast<void>(net(space, x)); },
                 [&] {
                   const auto& y = net(space, x);
                   static_cast<void>(loss(space, y, target));
                   loss.pullback(space, dy, y, target);
                   Kokkos::deep_copy(space, gradients, 0.0F);
                   net.pullback(space, shard::not_wanted, dy, x);
                   adam(space, weights, gradients);
                 }});
}

}  // namespace

// op/type/-
void add_training(Cases& cases, bool large) {
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
  if (!large) return;
  cases.insert({{"mean_square/float/8x64x181x360",
                 loss<float>([](const auto& y) { return shard::MeanSquare(y, {}); }, 8)},
                {"u_net/float/6x181x360", time_u_net}});
}
