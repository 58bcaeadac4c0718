// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_REFERENCE_HPP
#define SHARD_TESTS_LAYERS_REFERENCE_HPP

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "layers/layer_support.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/index_map.hpp"

namespace shard::testing {

/// The two dimensions in space of a serial field [batch, channel, y, x]: what lies beyond them.
struct Surroundings {
  BoundarySide low[2], high[2];

  template <class B0, class B1>
  static Surroundings of() {
    return {{impl::BoundaryTraits<B0>::low, impl::BoundaryTraits<B1>::low},
            {impl::BoundaryTraits<B0>::high, impl::BoundaryTraits<B1>::high}};
  }

  /// The cell whose value stands at (y, x), beyond the world too, and its sign; none for zeros.
  struct Source {
    index_t y, x;
    double sign;
  };
  std::optional<Source> source(index_t y, index_t x, index_t ny, index_t nx) const {
    const BoundarySide& sy = y < 0 ? low[0] : high[0];
    const Image iy         = image_of(sy.kind, y, ny);
    if (iy.constant) return std::nullopt;
    double sign = 1.0;
    const bool fold =
        sy.kind == BoundaryKind::fold_on_row || sy.kind == BoundaryKind::fold_between_rows;
    const BoundarySide& sx = x < 0 ? low[1] : high[1];
    const Image ix         = image_of(sx.kind, x, nx);
    if (ix.constant) return std::nullopt;
    index_t column = ix.source;
    if (fold && iy.crossed % 2 != 0) {
      column = (column + nx / 2) % nx;
      if (sy.odd) sign = -1.0;
    }
    return Source{iy.source, column, sign};
  }
};

/// a + b c, rounded once where the library's kernels do so: with the machine's fused multiply-add.
template <class T>
T multiply_add(T a, T b, T c) {
#if defined(__FMA__) && defined(__OPTIMIZE__)
  return std::fma(b, c, a);
#else
  return a + b * c;
#endif
}

/// A convolution written out: five loops and the batch, sums in the documented order.
struct SerialConv {
  Window window[2];
  index_t groups = 1;
  Surroundings around;

  template <class T>
  World<4> apply(const World<4>& x, const std::vector<double>& w, const std::vector<double>* bias,
                 index_t out) const {
    const index_t per = x.n[1] / groups;
    World<4> y({x.n[0], out, conv_output_extent(window[0], x.n[2]),
                conv_output_extent(window[1], x.n[3])});
    for_taps(x.n, y.n, per,
             [&](std::size_t o, std::size_t k, std::size_t i, double sign, bool first) {
               if (first) y.v[o] = bias == nullptr ? 0.0 : (*bias)[o_channel(o, y.n)];
               if (i != nothing)
                 y.v[o] = static_cast<double>(multiply_add(
                     static_cast<T>(y.v[o]), static_cast<T>(w[k]), static_cast<T>(sign * x.v[i])));
             });
    return y;
  }

  /// dx and dw of dy.
  void pullback(const World<4>& x, const std::vector<double>& w, const World<4>& dy, World<4>& dx,
                std::vector<double>& dw) const {
    dx = World<4>(x.n);
    dw.assign(w.size(), 0.0);
    for_taps(x.n, dy.n, x.n[1] / groups,
             [&](std::size_t o, std::size_t k, std::size_t i, double sign, bool) {
               if (i == nothing) return;
               dx.v[i] += sign * w[k] * dy.v[o];
               dw[k] += sign * x.v[i] * dy.v[o];
             });
  }

  static constexpr std::size_t nothing = ~std::size_t{0};

 private:
  static std::size_t o_channel(std::size_t o, const std::array<index_t, 4>& n) {
    return o / static_cast<std::size_t>(n[2] * n[3]) % static_cast<std::size_t>(n[1]);
  }

  template <class Visit>
  void for_taps(const std::array<index_t, 4>& nx, const std::array<index_t, 4>& ny, index_t per,
                const Visit& visit) const {
    const World<4> xi = indices(nx), yi = indices(ny);
    for (index_t n = 0; n < ny[0]; ++n)
      for (index_t a = 0; a < ny[1]; ++a)
        for (index_t oy = 0; oy < ny[2]; ++oy)
          for (index_t ox = 0; ox < ny[3]; ++ox) {
            bool first = true;
            for (index_t b = 0; b < per; ++b)
              for (int ky = 0; ky < window[0].kernel; ++ky)
                for (int kx = 0; kx < window[1].kernel; ++kx, first = false) {
                  const index_t iy = oy * window[0].stride - window[0].padding_lo +
                                     ky * window[0].dilation,
                                ix = ox * window[1].stride - window[1].padding_lo +
                                     kx * window[1].dilation;
                  const auto s    = around.source(iy, ix, nx[2], nx[3]);
                  const index_t c = a / (ny[1] / groups) * per + b;
                  visit(yi.at({n, a, oy, ox}),
                        static_cast<std::size_t>(
                            ((a * per + b) * window[0].kernel + ky) * window[1].kernel + kx),
                        s ? xi.at({n, c, s->y, s->x}) : nothing, s ? s->sign : 0.0, first);
                }
          }
  }
  static World<4> indices(const std::array<index_t, 4>& n) {
    World<4> w;
    w.n = n;
    return w;
  }
};

/// A transposed convolution written out: input cells beyond the world are what surrounds it.
struct SerialConvTranspose {
  Window window[2];
  Surroundings around;

  template <class Visit>
  void for_taps(const std::array<index_t, 4>& nx, const std::array<index_t, 4>& ny,
                const Visit& visit) const {
    World<4> xi, yi;
    xi.n = nx;
    yi.n = ny;
    for (index_t n = 0; n < ny[0]; ++n)
      for (index_t b = 0; b < ny[1]; ++b)
        for (index_t oy = 0; oy < ny[2]; ++oy)
          for (index_t ox = 0; ox < ny[3]; ++ox)
            for (index_t a = 0; a < nx[1]; ++a)
              for (int ky = 0; ky < window[0].kernel; ++ky)
                for (int kx = 0; kx < window[1].kernel; ++kx) {
                  const index_t fy = oy + window[0].padding_lo - ky * window[0].dilation,
                                fx = ox + window[1].padding_lo - kx * window[1].dilation;
                  if (fy % window[0].stride != 0 || fx % window[1].stride != 0) continue;
                  const auto s =
                      around.source(fy / window[0].stride, fx / window[1].stride, nx[2], nx[3]);
                  if (!s) continue;
                  visit(yi.at({n, b, oy, ox}),
                        static_cast<std::size_t>(
                            ((a * ny[1] + b) * window[0].kernel + ky) * window[1].kernel + kx),
                        xi.at({n, a, s->y, s->x}), s->sign, b);
                }
  }

  template <class T>
  World<4> apply(const World<4>& x, const std::vector<double>& w, const std::vector<double>& bias,
                 const std::array<index_t, 4>& ny) const {
    World<4> y(ny);
    for (std::size_t o = 0; o < y.v.size(); ++o)
      y.v[o] = bias[o / static_cast<std::size_t>(ny[2] * ny[3]) % static_cast<std::size_t>(ny[1])];
    for_taps(x.n, ny, [&](std::size_t o, std::size_t k, std::size_t i, double sign, index_t) {
      y.v[o] = static_cast<double>(multiply_add(static_cast<T>(y.v[o]), static_cast<T>(w[k]),
                                                static_cast<T>(sign * x.v[i])));
    });
    return y;
  }

  void pullback(const World<4>& x, const std::vector<double>& w, const World<4>& dy, World<4>& dx,
                std::vector<double>& dw) const {
    dx = World<4>(x.n);
    dw.assign(w.size(), 0.0);
    for_taps(x.n, dy.n, [&](std::size_t o, std::size_t k, std::size_t i, double sign, index_t) {
      dx.v[i] += sign * w[k] * dy.v[o];
      dw[k] += sign * x.v[i] * dy.v[o];
    });
  }
};

inline std::vector<double> random_values(std::size_t n, Random& random) {
  std::vector<double> v(n);
  for (double& x : v) x = random.real();
  return v;
}

}  // namespace shard::testing

#endif
