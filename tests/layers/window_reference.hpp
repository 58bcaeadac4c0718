// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_WINDOW_REFERENCE_HPP
#define SHARD_TESTS_LAYERS_WINDOW_REFERENCE_HPP

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layers/layer_support.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/view/index_map.hpp"

namespace shard::testing {

/// A serial field [batch, channel, z, y, x]; fields of fewer dimensions have leading ones of 1.
using Extents = std::array<index_t, 5>;

template <std::size_t Rank>
Extents five(const std::array<index_t, Rank>& n) {
  Extents all{n[0], n[1], 1, 1, 1};
  for (std::size_t d = 2; d < Rank; ++d) all[d + 5 - Rank] = n[d];
  return all;
}
template <int Rank>
std::array<index_t, static_cast<std::size_t>(Rank)> of_rank(const Extents& n) {
  std::array<index_t, static_cast<std::size_t>(Rank)> some{n[0], n[1]};
  for (std::size_t d = 2; d < Rank; ++d) some[d] = n[d + 5 - Rank];
  return some;
}
template <int Rank>
World<Rank> world_of(const Extents& n, const std::vector<double>& v) {
  World<Rank> w;
  w.n = of_rank<Rank>(n);
  w.v = v;
  return w;
}
inline std::size_t count_of(const Extents& n) {
  return static_cast<std::size_t>(n[0] * n[1] * n[2] * n[3] * n[4]);
}
inline std::size_t place(const Extents& n, index_t b, index_t c, index_t z, index_t y, index_t x) {
  return static_cast<std::size_t>((((b * n[1] + c) * n[2] + z) * n[3] + y) * n[4] + x);
}

inline std::vector<double> some_values(std::size_t n, Random& random) {
  std::vector<double> v(n);
  for (double& x : v) x = random.real();
  return v;
}

/// What lies beyond a serial world. A fold's longitude is x.
struct Beyond {
  BoundarySide low[3]{}, high[3]{};

  /// Dimension `D` in space of a field with `Rank` dimensions.
  template <class Field>
  static Beyond of() {
    Beyond b;
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((b.low[D + 5 - Field::rank] =
            impl::BoundaryTraits<typename Field::template boundary<D + 2>>::low,
        b.high[D + 5 - Field::rank] =
            impl::BoundaryTraits<typename Field::template boundary<D + 2>>::high),
       ...);
    }
    (std::make_integer_sequence<int, Field::rank - 2>{});
    return b;
  }

  struct Source {
    std::size_t at;
    double sign;
  };
  /// The cell whose value stands at (z, y, x), and its sign; none for zeros.
  std::optional<Source> source(const Extents& n, index_t b, index_t c,
                               std::array<index_t, 3> at) const {
    double sign  = 1.0;
    index_t turn = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      const BoundarySide& side = at[d] < 0 ? low[d] : high[d];
      if (at[d] >= 0 && at[d] < n[d + 2]) continue;
      const Image image = image_of(side.kind, at[d], n[d + 2]);
      if (image.constant) return std::nullopt;
      at[d] = image.source;
      if (image.crossed % 2 != 0) {
        if (side.longitude >= 0) turn = n[4] / 2;
        if (side.odd) sign = -sign;
      }
    }
    return Source{place(n, b, c, at[0], at[1], (at[2] + turn) % n[4]), sign};
  }
};

/// A convolution, or a transposed one, written out.
struct SerialWindow {
  std::array<Window, 3> window{};
  bool transposed = false;
  index_t groups  = 1;
  Beyond beyond{};

  /// Calls visit(output, weight, input, sign) for each product.
  template <class Visit>
  void products(const Extents& nx, const Extents& ny, const Visit& visit) const {
    const index_t in = nx[1] / groups, out = ny[1] / groups;
    const index_t kz = window[0].kernel, ky = window[1].kernel, kx = window[2].kernel;
    for (index_t o = 0; o < static_cast<index_t>(count_of(ny)); ++o) {
      const index_t x = o % ny[4], y = o / ny[4] % ny[3], z = o / ny[4] / ny[3] % ny[2],
                    a = o / ny[4] / ny[3] / ny[2] % ny[1], n = o / ny[4] / ny[3] / ny[2] / ny[1];
      const std::array<index_t, 3> at{z, y, x};
      for (index_t b = 0; b < in; ++b)
        for (index_t k = 0; k < kz * ky * kx; ++k) {
          const std::array<index_t, 3> tap{k / kx / ky, k / kx % ky, k % kx};
          std::array<index_t, 3> from{};
          bool lands = true;
          for (std::size_t d = 0; d < 3; ++d) {
            const Window& w = window[d];
            from[d]         = transposed ? at[d] + w.padding_lo - tap[d] * w.dilation
                                         : at[d] * w.stride - w.padding_lo + tap[d] * w.dilation;
            if (!transposed) continue;
            lands   = lands && from[d] % w.stride == 0;
            from[d] = floor_div(from[d], w.stride);
          }
          if (!lands) continue;
          const index_t c   = a / out * in + b;
          const auto source = beyond.source(nx, n, c, from);
          if (!source) continue;
          const index_t weight =
              transposed ? (c * out + a % out) * kz * ky * kx + k : (a * in + b) * kz * ky * kx + k;
          visit(static_cast<std::size_t>(o), static_cast<std::size_t>(weight), source->at,
                source->sign);
        }
    }
  }

  static std::size_t channel(const Extents& n, std::size_t cell) {
    return cell / static_cast<std::size_t>(n[2] * n[3] * n[4]) % static_cast<std::size_t>(n[1]);
  }

  /// `bias` is empty where there is none.
  std::vector<double> apply(const Extents& nx, const std::vector<double>& x, const Extents& ny,
                            const std::vector<double>& w, const std::vector<double>& bias) const {
    std::vector<double> y(count_of(ny), 0.0);
    if (!bias.empty())
      for (std::size_t o = 0; o < y.size(); ++o) y[o] = bias[channel(ny, o)];
    products(nx, ny, [&](std::size_t o, std::size_t k, std::size_t i, double sign) {
      y[o] += w[k] * sign * x[i];
    });
    return y;
  }
  void pullback(const Extents& nx, const std::vector<double>& x, const Extents& ny,
                const std::vector<double>& w, const std::vector<double>& dy,
                std::vector<double>& dx, std::vector<double>& dw) const {
    dx.assign(x.size(), 0.0);
    dw.assign(w.size(), 0.0);
    products(nx, ny, [&](std::size_t o, std::size_t k, std::size_t i, double sign) {
      dx[i] += sign * w[k] * dy[o];
      dw[k] += sign * x[i] * dy[o];
    });
  }
};

/// A layer between fields X and Y, its type forgotten: the checks are compiled once for all
/// windows.
template <class X, class Y>
struct AnyConvolution {
  static constexpr std::size_t rank = X::rank;
  using Parts                       = std::array<Partition, rank>;
  using P = impl::WeightAndBias<double, static_cast<int>(rank), Space::memory_space>;

  std::string name;
  SerialWindow serial;
  index_t in = 1, out = 1;
  bool bias                            = true;
  std::array<index_t, rank - 2> padded = {};  ///< output padding
  std::function<P(const char*)> make;
  std::function<Parts(const Parts&)> output;
  std::function<void(const P&, const Y&, const X&)> apply;
  std::function<void(const P&, const P&, const X&, const Y&, const X&)> pullback;
  std::function<void(const P&, const P&, const Y&, const X&, const X&)> pushforward;
  std::function<void(const P&, const Y&, const X&)> pushforward_input;  ///< ty, tx
  std::function<void(const P&, const P&, const Y&, const X&)> pushforward_parameters;
};

/// `Halves`: also the tangents for that of the input and of the parameters alone.
template <class X, class Y, bool Halves = false, class Layer>
AnyConvolution<X, Y> any(const std::string& name, const Layer& layer, const bool transposed,
                         const std::array<index_t, X::rank - 2>& padded = {}) {
  using Any = AnyConvolution<X, Y>;
  using P   = typename Any::P;
  Any a;
  a.name              = name;
  a.serial.transposed = transposed;
  a.serial.groups     = layer.groups;
  a.serial.beyond     = Beyond::of<X>();
  for (int d = 0; d < Layer::dims; ++d)
    a.serial.window[static_cast<std::size_t>(d + 3 - Layer::dims)] = Layer::window(d);
  a.in     = layer.in;
  a.out    = layer.out;
  a.bias   = layer.bias;
  a.padded = padded;
  a.make   = [layer](const char* label) { return make_parameters<double>(layer, label); };
  a.output = [layer, padded](const typename Any::Parts& p) {
    if constexpr (requires { Layer::output_padding(0, 1, 1); })
      return layer.output_partitions(p, padded);
    else
      return layer.output_partitions(p);
  };
  a.apply    = [layer](const P& p, const Y& y, const X& x) { layer.apply(Space(), p, y, x); };
  a.pullback = [layer](const P& p, const P& g, const X& dx, const Y& dy, const X& x) {
    layer.pullback(Space(), p, g, dx, dy, x);
  };
  a.pushforward = [layer](const P& p, const P& tp, const Y& ty, const X& tx, const X& x) {
    layer.pushforward(Space(), p, tp, ty, tx, x);
  };
  if constexpr (Halves) {
    a.pushforward_input = [layer](const P& p, const Y& ty, const X& tx) {
      layer.pushforward(Space(), p, not_wanted, ty, tx, tx);
    };
    a.pushforward_parameters = [layer](const P& p, const P& tp, const Y& ty, const X& x) {
      layer.pushforward(Space(), p, tp, ty, not_wanted, x);
    };
  }
  return a;
}

/// Forward, all gradients and tangents on these meshes of the communicator, random partitions and
/// on the first mesh balanced ones too, against the serial layer.
template <class X, class Y>
void check_on(MPI_Comm comm, const std::vector<std::array<int, 2>>& meshes,
              const AnyConvolution<X, Y>& layer,
              const std::array<index_t, static_cast<std::size_t>(X::rank)>& extents) {
  constexpr int rank = X::rank;
  SCOPED_TRACE(layer.name + ", seed " + std::to_string(seed()));
  Random random(seed());
  using P         = typename AnyConvolution<X, Y>::P;
  const P weights = layer.make("p"), changes = layer.make("tp");
  const Extents nx = five(extents);
  const auto w0    = some_values(weights.weight.size(), random),
             b0 = some_values(weights.bias.size(), random), tw0 = some_values(w0.size(), random),
             tb0 = some_values(b0.size(), random), x0 = some_values(count_of(nx), random),
             tx0 = some_values(count_of(nx), random);
  set_values(weights.weight, w0);
  set_values(weights.bias, b0);
  set_values(changes.weight, tw0);
  set_values(changes.bias, tb0);

  std::vector<double> y0, dy0, dx0, dw0, db0, ty_input, ty_weights;
  Extents ny{};
  for (const auto& shape : meshes) {
    const Grid mesh(comm, {shape[0], shape[1]});
    for (int which = shape == meshes.front() ? 0 : 1; which < (mesh.size() > 1 ? 2 : 1); ++which) {
      SCOPED_TRACE("mesh " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   ", partition " + std::to_string(which));
      const X x("x", mesh, some_partitions(extents, shape, which, random));
      const X dx = x.like("dx"), tx = x.like("tx");
      const Y y("y", mesh, layer.output(x.partitions()));
      const Y dy = y.like("dy"), ty = y.like("ty");
      if (y0.empty()) {
        std::array<index_t, rank> n{};
        for (std::size_t d = 0; d < rank; ++d) n[d] = y.global_extent(static_cast<int>(d));
        ny  = five(n);
        y0  = layer.serial.apply(nx, x0, ny, w0, b0);
        dy0 = some_values(y0.size(), random);
        layer.serial.pullback(nx, x0, ny, w0, dy0, dx0, dw0);
        db0.assign(b0.size(), 0.0);
        if (layer.bias)
          for (std::size_t o = 0; o < dy0.size(); ++o) db0[SerialWindow::channel(ny, o)] += dy0[o];
        ty_input   = layer.serial.apply(nx, tx0, ny, w0, {});
        ty_weights = layer.serial.apply(nx, x0, ny, tw0, tb0);
      }
      const auto close = [&](const Y& is, const std::vector<double>& should_be) {
        return difference(is, world_of<rank>(ny, should_be));
      };
      scatter(x, world_of<rank>(nx, x0));
      layer.apply(weights, y, x);
      EXPECT_LT(close(y, y0), 1e-12);
      scatter(dy, world_of<rank>(ny, dy0));
      scatter(dx, World<rank>(extents));
      const P gradients = layer.make("g");
      layer.pullback(weights, gradients, dx, dy, x);
      EXPECT_LT(difference(dx, world_of<rank>(nx, dx0)), 1e-12);
      EXPECT_LT(difference(summed(gradients.weight, x), dw0), 1e-12);
      EXPECT_LT(difference(summed(gradients.bias, x), db0), 1e-12);

      scatter(tx, world_of<rank>(nx, tx0));
      layer.pushforward(weights, changes, ty, tx, x);
      std::vector<double> both = ty_input;
      for (std::size_t o = 0; o < both.size(); ++o) both[o] += ty_weights[o];
      EXPECT_LT(close(ty, both), 1e-12);
      if (!layer.pushforward_input) continue;
      layer.pushforward_parameters(weights, changes, ty, x);
      EXPECT_LT(close(ty, ty_weights), 1e-12);
      layer.pushforward_input(weights, ty, tx);
      EXPECT_LT(close(ty, ty_input), 1e-12);
    }
  }
}

template <class X, class Y>
void check_everywhere(const AnyConvolution<X, Y>& layer,
                      const std::array<index_t, static_cast<std::size_t>(X::rank)>& extents) {
  check_on(MPI_COMM_WORLD, shapes(world_size()), layer, extents);
}

}  // namespace shard::testing

#endif
