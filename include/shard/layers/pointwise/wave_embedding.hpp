// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_WAVE_EMBEDDING_HPP
#define SHARD_LAYERS_POINTWISE_WAVE_EMBEDDING_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/embedding_kernels.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Embeds numbers t[n] (lead times, noise levels, positions, pressures) as waves, in double:
///
///   y[n, :] = [sin(f_0 t), sin(f_1 t), ..., cos(f_0 t), cos(f_1 t), ...]
///
/// y is a plain View [N, 2 frequencies], t a View [N] of the same value type, on every rank; or
/// they are fields [N, 2 frequencies, 1...] and [N, 1, 1...], as in a model. Local. An operation
/// for a tape; its gradient is that of t.
template <class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class WaveEmbedding {
 public:
  static constexpr bool takes_not_wanted  = true;                  ///< dt may be not_wanted
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< of the batch

  /// Of angular frequencies f.
  explicit WaveEmbedding(const std::vector<double>& frequencies, bool cosines_first = false)
      : frequencies_("shard::frequencies", frequencies.size()), cosines_first_(cosines_first) {
    const auto host = Kokkos::create_mirror_view(frequencies_);
    for (std::size_t i = 0; i < frequencies.size(); ++i) host(i) = frequencies[i];
    Kokkos::deep_copy(frequencies_, host);
  }
  /// `size` numbers of f_i = period^(-2i / size) (Vaswani et al. 2017). Diffusion models have the
  /// cosines first (Peebles and Xie 2023). Throws ArgumentError for an odd size.
  static WaveEmbedding sinusoidal(index_t size, double period = 10000.0,
                                  bool cosines_first = false) {
    return WaveEmbedding(with_each(size,
                                   [&](double i, double) {
                                     return std::pow(period, -2.0 * i / static_cast<double>(size));
                                   }),
                         cosines_first);
  }
  /// `size` numbers of f_i = 2 pi / wavelength, size / 2 wavelengths from `shortest` to `longest`
  /// with equal ratios (Aurora's FourierExpansion, Bodnar et al. 2025). Aurora rounds the result to
  /// float. Throws ArgumentError for an odd size, or unless 0 < shortest < longest.
  static WaveEmbedding fourier(index_t size, double shortest, double longest) {
    if (!(shortest > 0.0 && shortest < longest))
      impl::throw_argument("WaveEmbedding::fourier",
                           {"wavelengths from ", std::to_string(shortest), " to ",
                            std::to_string(longest), "; they rise and are above 0"});
    constexpr double two_pi = 6.283185307179586476925;
    return WaveEmbedding(with_each(size, [&](double i, double last) {
      const double low = std::log10(shortest), high = std::log10(longest);
      return two_pi / std::pow(10.0, last > 0.0 ? low + (high - low) * (i / last) : low);
    }));
  }

  /// The partitions of a field y.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(std::array<Partition, Rank> t) const {
    t[1] = Partition::balanced(static_cast<index_t>(2 * frequencies_.extent(0)), t[1].parts());
    return t;
  }
  /// A View y for these t.
  template <class Numbers>
  auto output(const Numbers& t) const {
    return Kokkos::View<typename Numbers::non_const_value_type**, Kokkos::LayoutRight,
                        typename Numbers::memory_space>("shard::output", t.extent(0),
                                                        2 * frequencies_.extent(0));
  }
  /// Computes y. Throws ArgumentError for other extents.
  template <class Space, class Y, class Numbers>
  void apply(const Space& space, const Y& y, const Numbers& t) const {
    require(y, t);
    Kernels<Space, Y>::waves(space, data(y), step(y), data(t), count(t), table());
    if constexpr (is_sharded_view_v<Y>) mark_written(space, y);
  }
  /// The tangent of y for the tangent tt of t.
  template <class Space, class TY, class TT, class Numbers>
  void pushforward(const Space& space, const TY& ty, const TT& tt, const Numbers& t) const {
    require(ty, t);
    require(ty, tt);
    Kernels<Space, TY>::waves_pushforward(space, data(ty), step(ty), data(tt), data(t), count(t),
                                          table());
    if constexpr (is_sharded_view_v<TY>) mark_written(space, ty);
  }
  /// Sets dt = dJ/dt from dy = dJ/dy.
  template <class Space, class DT, class DY, class Numbers>
  void pullback(const Space& space, const DT& dt, const DY& dy, const Numbers& t) const {
    require(dy, t);
    if constexpr (is_wanted_v<DT>) {
      require(dy, dt);
      Kernels<Space, DT>::waves_pullback(space, data(dt), data(dy), step(dy), data(t), count(t),
                                         table());
    }
  }

 private:
  template <class Space, class V>
  using Kernels = impl::EmbeddingKernels<Space, typename V::non_const_value_type>;

  /// value(i, last i) of the size / 2 frequencies.
  template <class Value>
  static std::vector<double> with_each(index_t size, const Value& value) {
    if (size < 2 || size % 2 != 0)
      impl::throw_argument("WaveEmbedding", {impl::text(size), " numbers; each frequency has two"});
    std::vector<double> all;
    for (index_t i = 0; i < size / 2; ++i)
      all.push_back(value(static_cast<double>(i), static_cast<double>(size / 2 - 1)));
    return all;
  }
  template <class V>
  static index_t step(const V& v) {
    return static_cast<index_t>(v.stride(0));
  }
  template <class V>
  static index_t count(const V& v) {
    return static_cast<index_t>(v.extent(0));
  }
  template <class V>
  static auto* data(const V& v) {
    if constexpr (is_sharded_view_v<V>)
      return v.origin();
    else
      return v.data();
  }
  /// Fields of one point.
  template <class Y, class Numbers>
  requires(is_sharded_view_v<Y>&& is_sharded_view_v<Numbers>) void require(const Y& y,
                                                                           const Numbers& t) const {
    static_assert(
        std::is_same_v<typename Y::layout, Kokkos::LayoutRight> && Y::rank == Numbers::rank,
        "a WaveEmbedding works on fields of LayoutRight");
    const auto right = static_cast<index_t>(2 * frequencies_.extent(0));
    bool fits =
        y.extent(0) == t.extent(0) && y.extent(1) == right && t.extent(1) == 1 && t.stride(0) == 1;
    for (int d = 2; d < Y::rank; ++d)
      fits = fits && y.global_extent(d) == 1 && t.global_extent(d) == 1;
    if (!fits)
      impl::throw_argument("WaveEmbedding", {"a field \"", y.label(), "\" [N, ", impl::text(right),
                                             ", 1...] of numbers [N, 1, 1...]"});
  }
  template <class Y, class Numbers>
  requires(!is_sharded_view_v<Y>) void require(const Y& y, const Numbers& t) const {
    static_assert(Y::rank() == 2 && Numbers::rank() == 1 &&
                      std::is_same_v<typename Y::array_layout, Kokkos::LayoutRight> &&
                      !std::is_same_v<typename Numbers::array_layout, Kokkos::LayoutStride>,
                  "a WaveEmbedding takes a contiguous View [N] and gives a View [N, 2 frequencies] "
                  "of LayoutRight");
    if (y.extent(0) != t.extent(0) || y.extent(1) != 2 * frequencies_.extent(0))
      impl::throw_argument(
          "WaveEmbedding",
          {"a View of ", impl::text(count(y)), " x ", impl::text(static_cast<index_t>(y.extent(1))),
           " for ", impl::text(count(t)), " numbers and ",
           impl::text(static_cast<index_t>(frequencies_.extent(0))), " frequencies"});
  }
  impl::WaveTable table() const {
    return {frequencies_.data(), static_cast<index_t>(frequencies_.extent(0)), cosines_first_};
  }

  Kokkos::View<double*, Memory> frequencies_;
  bool cosines_first_ = false;
};

}  // namespace shard

#endif
