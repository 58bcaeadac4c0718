// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <type_traits>

#include "correlate_tiles.hpp"
#include "correlate_weights_tiles.hpp"
#include "correlation.hpp"
#include "fixed_window.hpp"
#include "launch.hpp"
#include "shard/layers/convolution_kernels.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

/// Correlation and its transpose on a device: one output cell per work item.
template <class T, bool Transposed>
struct CorrelateCellKernel : Correlation<T, Transposed, LocalWindow> {
  using Operands = Correlation<T, Transposed, LocalWindow>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::weight_out, Operands::window;

  explicit CorrelateCellKernel(const Operands& operands) : Operands(operands) {}

  index_t items() const { return out.batch * out.channels * out.cells(); }

  KOKKOS_FUNCTION Sweep sweep_of(int d, index_t cell) const {
    return this->sweep(d, out.begin[d] + cell, 1, 0);
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t ix = item % out.extent(2);
    item /= out.extent(2);
    const index_t iy = item % out.extent(1);
    item /= out.extent(1);
    const index_t iz = item % out.extent(0);
    item /= out.extent(0);
    const index_t channel = item % out.channels, n = item / out.channels,
                  group = channel / out_per_group;
    const Sweep x = sweep_of(2, ix), y = sweep_of(1, iy), z = sweep_of(0, iz);
    const T* weights = this->weights_of(group, channel);
    T& to            = out.at(n, channel, z.first, y.first, x.first);
    T sum            = onto ? to : bias == nullptr ? T(0) : bias[channel];
    for (index_t c = 0; c < in_per_group; ++c)
      for (index_t tz = 0; tz < z.taps; ++tz)
        for (index_t ty = 0; ty < y.taps; ++ty)
          for (index_t tx = 0; tx < x.taps; ++tx) {
            const index_t jz = z.in + tz * z.in_tap_step, jy = y.in + ty * y.in_tap_step,
                          jx = x.in + tx * x.in_tap_step;
            if (jz < in.begin[0] || jz >= in.end[0] || jy < in.begin[1] || jy >= in.end[1] ||
                jx < in.begin[2] || jx >= in.end[2])
              continue;
            sum += weights[c * weight_in + this->tap(z, y, x, tz, ty, tx)] *
                   in.at(n, group * in_per_group + c, jz, jy, jx);
          }
    to = sum;
  }
};

/// Gradient of the weights on a device: one weight per work item.
template <class T>
struct CorrelateWeightsCellKernel {
  T* gradient;
  Block<const T> coarse, fine;
  LocalWindow window;
  index_t coarse_per_group, fine_per_group;

  index_t items() const { return coarse.channels * fine_per_group * window.taps(); }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t kx = item % window.kernel[2], ky = item / window.kernel[2] % window.kernel[1],
                  kz  = item / window.kernel[2] / window.kernel[1] % window.kernel[0],
                  row = item / window.taps();
    const index_t a   = row / fine_per_group,
                  b   = a / coarse_per_group * fine_per_group + row % fine_per_group;
    T sum             = gradient[item];
    for (index_t n = 0; n < coarse.batch; ++n)
      for (index_t z = coarse.begin[0]; z < coarse.end[0]; ++z)
        for (index_t y = coarse.begin[1]; y < coarse.end[1]; ++y)
          for (index_t x = coarse.begin[2]; x < coarse.end[2]; ++x) {
            const index_t jz = z * window.stride[0] + kz * window.dilation[0] + window.offset[0],
                          jy = y * window.stride[1] + ky * window.dilation[1] + window.offset[1],
                          jx = x * window.stride[2] + kx * window.dilation[2] + window.offset[2];
            if (jz < fine.begin[0] || jz >= fine.end[0] || jy < fine.begin[1] ||
                jy >= fine.end[1] || jx < fine.begin[2] || jx >= fine.end[2])
              continue;
            sum += coarse.at(n, a, z, y, x) * fine.at(n, b, jz, jy, jx);
          }
    gradient[item] = sum;
  }
};

/// Sum of a channel's cells over the batch, one channel per work item.
template <class T>
struct SumChannelKernel {
  T* sums;
  Block<const T> from;

  KOKKOS_FUNCTION void operator()(index_t channel) const {
    T lane[sum_lanes] = {};
    for (index_t n = 0; n < from.batch; ++n)
      for (index_t z = from.begin[0]; z < from.end[0]; ++z)
        for (index_t y = from.begin[1]; y < from.end[1]; ++y) {
          const T* row       = &from.at(n, channel, z, y, from.begin[2]);
          const index_t step = from.stride[4], count = from.extent(2),
                        whole = count - count % sum_lanes;
          for (index_t x = 0; x < whole; x += sum_lanes)
            for (int l = 0; l < sum_lanes; ++l) lane[l] += row[(x + l) * step];
          for (index_t x = whole; x < count; ++x) lane[x - whole] += row[x * step];
        }
    T sum = T(0);
    for (int l = 0; l < sum_lanes; ++l) sum += lane[l];
    sums[channel] += sum;
  }
};

namespace {
bool use_fixed = true;
}  // namespace

bool fixed_windows_used() { return use_fixed; }
void use_fixed_windows(bool use) { use_fixed = use; }
bool is_fixed_window(const LocalWindow& window) {
  return call_fixed(
      window, [](const auto&) {}, FixedWindows());
}

template <bool Transposed, class Space, class T>
void launch_correlate(const Space& space, const Block<T>& out, const Block<const T>& in,
                      const T* weight, const T* bias, const LocalWindow& window,
                      bool onto = false) {
  if (out.batch * out.channels * out.cells() == 0) return;
  const auto run = [&](const auto& functor) {
    launch(Transposed ? "shard::correlate_transposed" : "shard::correlate", space, functor.items(),
           functor);
  };
  if constexpr (is_host_v<Space>)
    with_window(window, [&]<class Window>(const Window& w) {
      run(CorrelateTiles<T, Transposed, Window>({out, in, weight, bias, w, onto}));
    });
  else
    run(CorrelateCellKernel<T, Transposed>({out, in, weight, bias, window, onto}));
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::correlate(const Space& space, const Block<T>& coarse,
                                             const Block<const T>& fine, const T* weight,
                                             const T* bias, const LocalWindow& window) {
  launch_correlate<false>(space, coarse, fine, weight, bias, window);
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::correlate_transposed(const Space& space, const Block<T>& fine,
                                                        const Block<const T>& coarse,
                                                        const T* weight, const T* bias,
                                                        const LocalWindow& window) {
  launch_correlate<true>(space, fine, coarse, weight, bias, window);
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::correlate_weights(const Space& space, T* weight_gradient,
                                                     const Block<const T>& coarse,
                                                     const Block<const T>& fine,
                                                     const LocalWindow& window) {
  if constexpr (is_host_v<Space>) {
    with_window(window, [&]<class Window>(const Window& w) {
      const CorrelateWeightsTiles<T, Window> functor(weight_gradient, coarse, fine, w);
      launch("shard::correlate_weights", space, functor.items(), functor);
    });
  } else {
    const CorrelateWeightsCellKernel<T> functor{weight_gradient,
                                                coarse,
                                                fine,
                                                window,
                                                coarse.channels / window.groups,
                                                fine.channels / window.groups};
    launch("shard::correlate_weights", space, functor.items(), functor);
  }
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::sum_channels(const Space& space, T* bias_gradient,
                                                const Block<const T>& dy) {
  launch("shard::sum_channels", space, dy.channels, SumChannelKernel<T>{bias_gradient, dy});
}

template <class Space, class T>
void ConvolutionSumKernels<Space, T>::add_correlation(const Space& space, const Block<T>& coarse,
                                                      const Block<const T>& fine, const T* weight,
                                                      const LocalWindow& window) {
  launch_correlate<false, Space, T>(space, coarse, fine, weight, nullptr, window, true);
}

template <class Space, class T>
void ConvolutionSumKernels<Space, T>::add_correlation_transposed(const Space& space,
                                                                 const Block<T>& fine,
                                                                 const Block<const T>& coarse,
                                                                 const T* weight,
                                                                 const LocalWindow& window) {
  launch_correlate<true, Space, T>(space, fine, coarse, weight, nullptr, window, true);
}

template struct ConvolutionKernels<Kokkos::DefaultExecutionSpace, float>;
template struct ConvolutionKernels<Kokkos::DefaultExecutionSpace, double>;
template struct ConvolutionSumKernels<Kokkos::DefaultExecutionSpace, float>;
template struct ConvolutionSumKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct ConvolutionKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct ConvolutionKernels<Kokkos::DefaultHostExecutionSpace, double>;
template struct ConvolutionSumKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct ConvolutionSumKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
