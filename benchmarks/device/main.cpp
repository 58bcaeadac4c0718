// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// device_bench [FILTER] [--most SECONDS]: times layers, sums and exchanges on the default execution
// space, one rank, float: a line of JSON for each case whose name contains FILTER. Seconds are wall
// clock around a fence, the median of batches. tools/gpu-kit runs it beside torch_bench.py, which
// has the same cases under the same names.

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "report.hpp"
#include "shard/layers/attention/attention.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/resampling/pool.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/shard.hpp"

namespace {

using shard::index_t;

struct Lat;
struct Lon;
using Grid  = shard::Mesh<Lat, Lon>;
using Plain = shard::ShardedView<float****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>,
                                 shard::ShardDim<3, Lon>>;

struct Shape {
  index_t n, c, h, w;
  std::string text() const {
    return std::to_string(n) + "x" + std::to_string(c) + "x" + std::to_string(h) + "x" +
           std::to_string(w);
  }
  double values() const { return static_cast<double>(n * c * h * w); }
};

/// A layer with a window, as many channels out as in.
template <class Layer>
void window(const char* kind, const Grid& mesh, const Layer& layer, const Shape& shape,
            index_t groups = 1) {
  const std::string name = std::string(kind) + " " + shape.text();
  if (!wanted(name)) return;
  using X = shard::ShardedView<float****, Kokkos::LayoutRight,
                               shard::ShardDim<2, Lat, shard::required_halo_t<Layer, 0>>,
                               shard::ShardDim<3, Lon, shard::required_halo_t<Layer, 1>>>;
  const Space space;
  const X x("x", mesh, {shape.n, shape.c, shape.h, shape.w}), dx        = x.like("dx");
  const Plain y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
  const auto p = shard::make_parameters<float>(layer, "p");
  const auto g = shard::make_parameters<float>(layer, "g");
  fill(x.view());
  fill(dy.view());
  fill(p.weight);
  double taps = 1;
  for (int d = 0; d < Layer::dims; ++d) taps *= Layer::window(d).kernel;
  const double out   = static_cast<double>(y.view().size());
  const double least = std::min(out, shape.values());  // transposed: each input is used by all taps
  const double flops = 2.0 * taps * static_cast<double>(shape.c / groups) * least;
  const double bytes = 4.0 * (shape.values() + out);
  report_products(name + " forward", flops, bytes, [&] { layer.apply(space, p, y, x); });
  report_products(name + " input gradient", flops, bytes,
                  [&] { layer.pullback_input(space, p, dx, dy); });
  report_products(name + " weight gradient", flops, bytes,
                  [&] { layer.pullback_parameters(space, g, dy, x); });
}

template <class Layer>
void norm(const char* kind, const Grid& mesh, const Layer& layer, const Shape& shape) {
  const std::string name = std::string(kind) + " " + shape.text();
  if (!wanted(name)) return;
  const Space space;
  const Plain x("x", mesh, {shape.n, shape.c, shape.h, shape.w}),
      y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
  fill(x.view());
  fill(dy.view());
  auto state         = layer.state(x);
  const auto p       = shard::make_parameters<float>(layer, "p");
  const auto g       = shard::make_parameters<float>(layer, "g");
  const double bytes = 4.0 * shape.values();
  report(name + " forward", 0, 2 * bytes, [&] { layer.apply(space, state, p, y, x); });
  report(name + " backward", 0, 3 * bytes, [&] { layer.pullback(space, state, p, g, dx, dy, x); });
}

/// A layer that makes a field finer or coarser.
template <class Layer>
void resample(const char* kind, const Grid& mesh, const Layer& layer, const Shape& shape) {
  const std::string name = std::string(kind) + " " + shape.text();
  if (!wanted(name)) return;
  using X = shard::ShardedView<float****, Kokkos::LayoutRight,
                               shard::ShardDim<2, Lat, shard::required_halo_t<Layer, 0>>,
                               shard::ShardDim<3, Lon, shard::required_halo_t<Layer, 1>>>;
  const Space space;
  const X x("x", mesh, {shape.n, shape.c, shape.h, shape.w}), dx        = x.like("dx");
  const Plain y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
  fill(x.view());
  fill(dy.view());
  const double bytes = 4.0 * (shape.values() + static_cast<double>(y.view().size()));
  if constexpr (requires { layer.state(x); }) {
    auto state = layer.state(x);
    report(name + " forward", 0, bytes, [&] { layer.apply(space, state, y, x); });
    report(name + " backward", 0, bytes, [&] { layer.pullback(space, state, dx, dy, x); });
  } else {
    report(name + " forward", 0, bytes, [&] { layer.apply(space, y, x); });
    report(name + " backward", 0, bytes, [&] { layer.pullback(space, dx, dy, x); });
  }
}

/// A layer without parameters; its state if it has one.
template <class Layer>
void plain(const char* kind, const Grid& mesh, const Layer& layer, const Shape& shape) {
  const std::string name = std::string(kind) + " " + shape.text();
  if (!wanted(name)) return;
  const Space space;
  const Plain x("x", mesh, {shape.n, shape.c, shape.h, shape.w}),
      y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
  fill(x.view());
  fill(dy.view());
  const double bytes = 4.0 * shape.values();
  if constexpr (requires { layer.state(x); }) {
    auto state = layer.state(x);
    report(name + " forward", 0, 2 * bytes, [&] { layer.apply(space, state, y, x); });
    report(name + " backward", 0, 3 * bytes, [&] { layer.pullback(space, state, dx, dy, x); });
  } else {
    report(name + " forward", 0, 2 * bytes, [&] { layer.apply(space, y, x); });
    report(name + " backward", 0, 3 * bytes, [&] { layer.pullback(space, dx, dy, x); });
  }
}

void losses(const Grid& mesh, const Shape& shape) {
  const std::string name = "mean square " + shape.text();
  if (!wanted(name)) return;
  const Space space;
  const Plain x("x", mesh, {shape.n, shape.c, shape.h, shape.w}), y = x.like("y"),
                                                                  dy = x.like("dy");
  fill(x.view());
  shard::MeanSquare loss(x, {});
  const double bytes = 4.0 * shape.values();
  report(name + " forward", 0, 2 * bytes, [&] { static_cast<void>(loss(space, y, x)); });
  report(name + " backward", 0, 3 * bytes, [&] { loss.pullback(space, dy, y, x, 1.0); });
  report("copy " + shape.text() + " forward", 0, 2 * bytes,
         [&] { Kokkos::deep_copy(space, y.view(), x.view()); });
  report("dot " + shape.text() + " forward", 0, 2 * bytes,
         [&] { static_cast<void>(shard::dot(space, x, y)); });
}

/// Windows of 16 x 16 tokens, 4 heads of 32 features.
void attention(const Grid& mesh, const Shape& shape) {
  const std::string name = "window attention " + shape.text();
  if (!wanted(name)) return;
  const Space space;
  const shard::WindowAttention<16, 16> layer{.heads = 4};
  const Plain q("q", mesh, {shape.n, shape.c, shape.h, shape.w}),
      k = q.like("k"), v = q.like("v"), y = q.like("y"), dq = q.like("dq"), dk = q.like("dk"),
      dv = q.like("dv"), dy = q.like("dy");
  for (const Plain* f : {&q, &k, &v, &dy}) fill(f->view());
  auto state         = layer.state(q);
  const double flops = 4.0 * 256 * shape.values(), bytes = 16 * shape.values();
  report(name + " forward", flops, bytes, [&] { layer.apply(space, state, y, q, k, v); });
  report(name + " backward", 2.5 * flops, 2 * bytes,
         [&] { layer.pullback(space, state, dq, dk, dv, dy, q, k, v); });
}

void time_linear(const Grid& mesh, index_t tokens, index_t in, index_t out) {
  const std::string name =
      "linear " + std::to_string(tokens) + "x" + std::to_string(in) + "x" + std::to_string(out);
  if (!wanted(name)) return;
  using T = shard::ShardedView<float***, Kokkos::LayoutRight, shard::ShardDim<0, Lat>>;
  const Space space;
  const T x("x", mesh, {1, tokens, in}), dx = x.like("dx"), y("y", mesh, {1, tokens, out}),
                                         dy = y.like("dy");
  fill(x.view());
  fill(dy.view());
  const shard::Linear layer{in, out};
  const auto p = shard::make_parameters<float>(layer, "p");
  const auto g = shard::make_parameters<float>(layer, "g");
  fill(p.weight);
  const double flops = 2.0 * static_cast<double>(tokens * in * out);
  report_products(name + " forward", flops, 0, [&] { layer.apply(space, p, y, x); });
  report_products(name + " backward", 2 * flops, 0,
                  [&] { layer.pullback(space, p, g, dx, dy, x); });
}

void optimiser(std::size_t count) {
  const std::string name = "adam " + std::to_string(count);
  if (!wanted(name)) return;
  const Space space;
  const Kokkos::View<float*> p("p", count), g("g", count);
  fill(p);
  fill(g);
  shard::Adam<float> adam(static_cast<index_t>(count));
  report(name + " forward", 0, 28.0 * static_cast<double>(count), [&] { adam(space, p, g); });
}

using Halo3 = shard::ShardedView<float***, Kokkos::LayoutRight,
                                 shard::ShardDim<1, Lat, shard::Halo<1>, shard::Periodic>,
                                 shard::ShardDim<2, Lon, shard::Halo<1>, shard::Periodic>>;
struct SmoothKernel {
  Halo3 from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    to(l, i, j) =
        0.25F * (from(l, i - 1, j) + from(l, i + 1, j) + from(l, i, j - 1) + from(l, i, j + 1));
  }
};
struct CopyKernel {
  const float* from;
  float* to;
  KOKKOS_FUNCTION void operator()(int i) const { to[i] = from[i]; }
};
void stencil(const Grid& mesh, index_t levels) {
  const std::string name = "stencil " + std::to_string(levels) + "x721x1440";
  if (!wanted(name)) return;
  const Space space;
  const Halo3 t("t", mesh, {levels, 721, 1440}), u = t.like("u");
  fill(t.view());
  const double bytes = 8.0 * static_cast<double>(levels) * 721 * 1440;
  const double halo  = 4.0 * 4 * static_cast<double>(levels) * (721 + 1440);
  report(name + " exchange", 0, halo, [&] { shard::exchange(space, t); });
  report(name + " exchange adjoint", 0, 2 * halo, [&] { shard::exchange_adjoint(space, t); });
  report(name + " owned", 0, bytes, [&] {
    shard::parallel_for("smooth", space, shard::owned_region(t), SmoothKernel{t, u});
  });
  const int cells = static_cast<int>(levels) * 721 * 1440;
  report(name + " copy by index", 0, bytes, [&] {
    Kokkos::parallel_for("copy",
                         Kokkos::RangePolicy<Space, Kokkos::IndexType<int>>(space, 0, cells),
                         CopyKernel{t.origin(), u.origin()});
  });
}

template <int K, int S = 1>
using Square = shard::Conv<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<K / 2, K / 2>>;
using Upward = shard::ConvTranspose<shard::Kernel<4, 4>, shard::Stride<2, 2>, shard::Padding<1, 1>>;

void run(const Grid& mesh) {
  const Shape fine{1, 64, 181, 360}, many{8, 64, 181, 360};
  stencil(mesh, 1);
  stencil(mesh, 32);
  plain("silu", mesh, shard::SiLU{}, fine);
  plain("silu", mesh, shard::SiLU{}, many);
  plain("gelu", mesh, shard::GELU{}, many);
  plain("softmax", mesh, shard::Softmax{}, fine);
  norm("groupnorm", mesh, shard::GroupNorm{8, 64}, fine);
  norm("groupnorm", mesh, shard::GroupNorm{8, 64}, many);
  norm("layernorm", mesh, shard::LayerNorm{64}, fine);
  losses(mesh, fine);
  losses(mesh, many);
  optimiser(std::size_t{16} << 20U);
  window("conv1", mesh, Square<1>{64, 64}, fine);
  window("conv3", mesh, Square<3>{64, 64}, fine);
  window("conv3", mesh, Square<3>{128, 128}, {1, 128, 181, 360});
  window("conv3 stride 2", mesh, Square<3, 2>{64, 64}, fine);
  window("conv transposed 4 stride 2", mesh, Upward{64, 64}, {1, 64, 90, 180});
  window("conv3 depthwise", mesh, Square<3>{64, 64, 64}, fine, 64);
  window("conv3", mesh, Square<3>{64, 64}, {1, 64, 721, 1440});
  window("conv3", mesh, Square<3>{128, 128}, {1, 128, 721, 1440});
  time_linear(mesh, 4096, 512, 2048);
  attention(mesh, {1, 128, 192, 384});
  using Two = shard::Kernel<2, 2>;
  resample("average pool 2", mesh, shard::AvgPool<Two, shard::Stride<2, 2>>{}, fine);
  resample("max pool 2", mesh, shard::MaxPool<Two, shard::Stride<2, 2>>{}, fine);
  resample("bilinear 2", mesh, shard::Interpolate<2>{.scale = 2}, fine);
  time_training();
  time_solvers();
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--most" && i + 1 < argc)
      most = std::atof(argv[++i]);
    else
      filter = argv[i];
  }
  run(Grid(environment.world(), {1, 1}));
}
