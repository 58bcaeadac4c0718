// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/loss/crps.hpp"
#include "shard/layers/loss/energy_score.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/norm/modulated.hpp"
#include "shard/layers/pointwise/dropout.hpp"
#include "shard/layers/pointwise/gated.hpp"
#include "shard/layers/pointwise/layer_scale.hpp"
#include "shard/layers/pointwise/multiply.hpp"
#include "shard/layers/pointwise/rotary.hpp"
#include "shard/layers/resampling/pixel_shuffle.hpp"
#include "shard/layers/resampling/spatial_pool.hpp"
#include "timing.hpp"

namespace {

constexpr index_t channels = 64, rows = 181, columns = 360;

template <class T>
Plain<T> field(const Grid& mesh, const char* name, index_t batch = 1,
               index_t of_channels = channels) {
  const Plain<T> f(name, mesh, {batch, of_channels, rows, columns});
  fill(f.view());
  return f;
}

/// A product with a field like x, or with a View of gates.
template <class T, bool IsField>
void multiply(const Grid& mesh, double least) {
  const Space space;
  const auto x = field<T>(mesh, "x"), y = field<T>(mesh, "y"), dx = field<T>(mesh, "dx");
  const shard::Multiply layer;
  const auto run = [&](const auto& z, const auto& dz, double bytes) {
    answer<T>(
        least, {0, 2 * bytes_of(x) + bytes, 3 * bytes_of(x) + 2 * bytes},
        {[&] { layer.apply(space, y, x, z); }, [&] { layer.pullback(space, dx, dz, y, x, z); }});
  };
  if constexpr (IsField) {
    run(field<T>(mesh, "z"), field<T>(mesh, "dz"), bytes_of(x));
  } else {
    const Kokkos::View<T**, Kokkos::LayoutRight> z("z", 1, channels), dz("dz", 1, channels);
    fill(z);
    run(z, dz, 0.0);
  }
}

template <class T>
void layer_scale(const Grid& mesh, double least) {
  const Space space;
  const auto x = field<T>(mesh, "x"), y = field<T>(mesh, "y"), dx = field<T>(mesh, "dx");
  const shard::LayerScale layer{channels};
  const auto p = shard::make_parameters<T>(layer, "p"), g = shard::make_parameters<T>(layer, "g");
  answer<T>(least, {0, 2 * bytes_of(x), 3 * bytes_of(x)},
            {[&] { layer.apply(space, p, y, x); }, [&] { layer.pullback(space, p, g, dx, y, x); }});
}

/// Of 64 channels, which become 32.
template <class T, class Layer>
void gated(const Grid& mesh, double least) {
  const Space space;
  const auto x = field<T>(mesh, "x"), dx = field<T>(mesh, "dx"),
             y = field<T>(mesh, "y", 1, channels / 2);
  const Layer layer;
  answer<T>(least, {0, bytes_of(x) + bytes_of(y), 2 * bytes_of(x) + bytes_of(y)},
            {[&] { layer.apply(space, y, x); }, [&] { layer.pullback(space, dx, y, x); }});
}

/// Layer norm with a scale and a shift of each sample.
template <class T>
void modulated(const Grid& mesh, double least) {
  const Space space;
  const auto x = field<T>(mesh, "x"), y = field<T>(mesh, "y"), dx = field<T>(mesh, "dx");
  const Kokkos::View<T**, Kokkos::LayoutRight> scale("scale", 1, channels),
      shift("shift", 1, channels), dscale("dscale", 1, channels), dshift("dshift", 1, channels);
  fill(scale);
  fill(shift);
  const shard::Modulated<shard::LayerNorm> layer{{channels, 1e-5, false}};
  const auto none = shard::make_parameters<T>(layer, "none");
  auto state      = layer.state(x);
  answer<T>(least, {0, 2 * bytes_of(x), 3 * bytes_of(x)},
            {[&] { layer.apply(space, state, none, y, x, scale, shift); },
             [&] {
               layer.pullback(space, state, none, shard::not_wanted, dx, dscale, dshift, y, x,
                              scale, shift);
             }});
}

template <class T, shard::RotaryPairs Pairs>
void rotary(const Grid& mesh, double least) {
  const Space space;
  const auto x = field<T>(mesh, "x"), y = field<T>(mesh, "y"), dx = field<T>(mesh, "dx");
  const shard::Rotary layer{.heads = 4, .pairs = Pairs, .dim = 1};
  const auto state = layer.state(x);
  answer<T>(
      least, {0, 2 * bytes_of(x), 2 * bytes_of(x)},
      {[&] { layer.apply(space, state, y, x); }, [&] { layer.pullback(space, state, dx, y, x); }});
}

/// All points to 64 nodes, or back.
template <class T, bool Back>
void nodes(const Grid& mesh, double least) {
  constexpr index_t count = 64;
  const Space space;
  const auto x = field<T>(mesh, "x"), dx                   = field<T>(mesh, "dx");
  const Plain<T> s("s", mesh, {1, channels, count, 1}), ds = s.like("ds");
  fill(s.view());
  const std::conditional_t<Back, shard::SpatialUnpool<2>, shard::SpatialPool<2>> layer{
      count, {rows, columns}};
  const auto p = shard::make_parameters<T>(layer, "p"), g = shard::make_parameters<T>(layer, "g");
  fill(p.weight);
  const double flops   = 2.0 * channels * count * rows * columns;
  const double weights = bytes_of(x) / channels * count;
  const Work work{flops, bytes_of(x) + weights, 2 * bytes_of(x) + 3 * weights};
  if constexpr (Back) {
    auto state = layer.state(x, s);
    answer<T>(least, work,
              {[&] { layer.apply(space, state, p, dx, x, s); },
               [&] { layer.pullback(space, state, p, g, shard::not_wanted, ds, x, x, s); }});
  } else {
    auto state = layer.state(x);
    answer<T>(least, work,
              {[&] { layer.apply(space, state, p, ds, x); },
               [&] { layer.pullback(space, state, p, g, dx, s, x); }});
  }
}

template <class T>
void draw_normal(const Grid& mesh, double least) {
  const Space space;
  const auto y = field<T>(mesh, "y");
  answer<T>(least, {0, bytes_of(y), 0}, {[&] { shard::normal(space, y, 1, 2); }});
}

/// The fair score of 8 members: at points, or of whole maps, which are read for each of 36 pairs.
template <class T, template <class, class> class Score, int Reads>
void score(const Grid& mesh, double least) {
  const Space space;
  const auto y = field<T>(mesh, "y", 8, 8), dy = field<T>(mesh, "dy", 8, 8),
             target = field<T>(mesh, "target", 1, 8);
  Score<std::remove_const_t<decltype(y)>, std::remove_const_t<decltype(target)>> loss(y, target,
                                                                                      {});
  volatile double keep = 0;
  const double bytes   = Reads * bytes_of(target);
  answer<T>(least, {0, bytes, bytes + bytes_of(y)},
            {[&] { keep = loss(space, y, target); }, [&] { loss.pullback(space, dy, y, target); }});
  static_cast<void>(keep);
}

}  // namespace

// op/type/-, or batch x channels x rows x columns
void add_gates(Cases& cases) {
  cases.insert({{"multiply/float/-", multiply<float, true>},
                {"multiply_gate/float/-", multiply<float, false>},
                {"layer_scale/float/-", layer_scale<float>},
                {"glu/float/-", gated<float, shard::GLU>},
                {"swiglu/float/-", gated<float, shard::SwiGLU>},
                {"geglu/float/-", gated<float, shard::GEGLU>},
                {"ada_layer_norm/float/-", modulated<float>},
                {"rotary/float/-", rotary<float, shard::RotaryPairs::neighbours>},
                {"rotary_halves/float/-", rotary<float, shard::RotaryPairs::halves>},
                {"pool_to_nodes/float/-", nodes<float, false>},
                {"unpool_from_nodes/float/-", nodes<float, true>},
                {"normal/float/-", draw_normal<float>},
                {"crps/float/8x8x181x360", score<float, shard::CRPS, 9>},
                {"energy_score/float/8x8x181x360", score<float, shard::EnergyScore, 72>}});
}
