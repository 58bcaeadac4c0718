// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <type_traits>

#include "correlate_rows.hpp"
#include "correlate_tiles.hpp"
#include "correlate_weights_rows.hpp"
#include "correlate_weights_tiles.hpp"
#include "correlation.hpp"
#include "device_correlation.hpp"
#include "device_correlation_weights.hpp"
#include "fixed_window.hpp"
#include "launch.hpp"
#include "shard/layers/impl/convolution_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The bias gradient on a host: a work item sums one channel over all cells and batch entries.
template <class T>
struct SumChannel {
  T* sums;
  Block<const T> from;

  void operator()(index_t channel) const {
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

/// Makes one line of the cells of both blocks if a window of one cell reads contiguous planes:
/// tiles then don't end with a row.
template <class A, class B>
void flatten(const LocalWindow& window, Block<A>& a, Block<B>& b) {
  const auto contiguous = [](const auto& block) {
    return block.stride[3] == block.stride[4] * block.extent(2) &&
           (block.extent(0) == 1 || block.stride[2] == block.stride[3] * block.extent(1));
  };
  if (window.taps() != 1 || !contiguous(a) || !contiguous(b)) return;
  for (int d = 0; d < 3; ++d)
    if (window.stride[d] != 1 || window.offset[d] != 0 || a.begin[d] != b.begin[d] ||
        a.end[d] != b.end[d])
      return;
  const auto flat = [](auto& block) {
    block.origin   = &block.at(0, 0, block.begin[0], block.begin[1], block.begin[2]);
    const auto all = block.cells();
    for (int d = 0; d < 3; ++d) {
      block.begin[d] = 0;
      block.end[d]   = d == 2 ? all : 1;
    }
  };
  flat(a);
  flat(b);
}

template <bool Transposed, class Space, class T>
void launch_correlate(const Space& space, const Block<T>& out, const Block<const T>& in,
                      const T* weight, const T* bias, const LocalWindow& window,
                      bool onto = false) {
  if (out.batch * out.channels * out.cells() == 0) return;
  const char* const name = Transposed ? "shard::correlate_transposed" : "shard::correlate";
  if constexpr (is_host_v<Space>) {
    const CorrelateRows<T, Transposed> rows({out, in, weight, bias, window, onto});
    if (rows.fits())
      launch(name, space, rows.items(), rows);
    else
      with_window(window, [&]<class Window>(const Window& w) {
        Block<T> to         = out;
        Block<const T> from = in;
        flatten(window, to, from);
        const CorrelateTiles<T, Transposed, Window> functor(
            {to, from, weight, bias, w, onto}, static_cast<index_t>(space.concurrency()));
        launch(name, space, functor.items(), functor);
      });
  } else {
    correlate_on_device<Space, T, Transposed>(name, space, {out, in, weight, bias, window, onto});
  }
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
    const CorrelateWeightsRows<T> rows(weight_gradient, coarse, fine, window);
    if (rows.fits())
      launch("shard::correlate_weights", space, rows.items(), rows);
    else
      with_window(window, [&]<class Window>(const Window& w) {
        Block<const T> small = coarse, large = fine;
        flatten(window, small, large);
        const CorrelateWeightsTiles<T, Window> functor(weight_gradient, small, large, w,
                                                       static_cast<index_t>(space.concurrency()));
        launch("shard::correlate_weights", space, functor.items(), functor);
      });
  } else {
    correlate_weights_on_device("shard::correlate_weights", space, weight_gradient, coarse, fine,
                                window);
  }
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::sum_channels(const Space& space, T* bias_gradient,
                                                const Block<const T>& dy) {
  if constexpr (is_host_v<Space>)
    launch("shard::sum_channels", space, dy.channels, SumChannel<T>{bias_gradient, dy});
  else
    sum_channels_on_device("shard::sum_channels", space, bias_gradient, dy);
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

SHARD_KERNELS(ConvolutionKernels)
SHARD_KERNELS(ConvolutionSumKernels)

}  // namespace shard::impl
