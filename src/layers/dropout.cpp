// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "elementwise.hpp"
#include "launch.hpp"
#include "normal_numbers.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/dropout_kernels.hpp"
#include "shard/layers/parameters.hpp"

namespace shard::impl {

template <class T>
struct DropoutKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  DropoutMask mask;
  std::uint64_t key, least;  ///< a value is kept if 53 bits of its hash are at least `least`
  T scale;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r        = split.row(item);
    const index_t at[4] = {r.n, r.c, r.z, r.y};
    index_t row         = 0;
    for (int d = 0; d < 4; ++d) row = row * mask.extent[d] + mask.begin[d] + at[d];
    const auto first      = static_cast<std::uint64_t>(row * mask.extent[4] + mask.begin[4] + r.x);
    const Line<T> y       = line_of(to, r);
    const Line<const T> x = line_of(from, r);
    if (mask.of_samples) {
      const auto sample = static_cast<std::uint64_t>(mask.begin[0] + r.n);
      const bool kept   = counter_hash(key, sample) >> 11 >= least;
      for (index_t i = 0; i < r.count; ++i)
        y.cells[i * y.step] = value_if(kept, x.cells[i * x.step] * scale);
    } else if (y.step == 1 && x.step == 1)
      drop(r.count, first, Line<T>{y.cells, 1}, Line<const T>{x.cells, 1});
    else
      drop(r.count, first, y, x);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION void drop(index_t count, std::uint64_t first, Line<T> y,
                                        Line<const T> x) const {
    for (index_t i = 0; i < count; ++i) {
      const std::uint64_t random = counter_hash(key, first + static_cast<std::uint64_t>(i)) >> 11;
      y.cells[i * y.step]        = value_if(random >= least, x.cells[i * x.step] * scale);
    }
  }
};

template <class Space, class T>
void DropoutKernels<Space, T>::apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                                     const DropoutMask& mask) {
  const RowSplit split = RowSplit::of(space, y);
  const T scale        = mask.p < 1.0 ? static_cast<T>(1.0 / (1.0 - mask.p)) : T(0);
  // the integer form of counter_uniform >= p
  const auto least = static_cast<std::uint64_t>(std::ceil(mask.p * 0x1.0p53));
  launch("shard::dropout", space, split.items(),
         DropoutKernel<T>{split, y, x, mask, counter_hash(mask.seed, mask.step), least, scale});
}

/// The index of the first value of a row among all values.
KOKKOS_FORCEINLINE_FUNCTION std::uint64_t first_index(const DropoutMask& points,
                                                      const RowSplit::Row& r) {
  const index_t at[5] = {r.n, r.c, r.z, r.y, r.x};
  index_t first       = 0;
  for (int d = 0; d < 5; ++d) first = first * points.extent[d] + points.begin[d] + at[d];
  return static_cast<std::uint64_t>(first);
}

/// On a device: the numbers of NormalNumbers by its own functions.
template <class T>
struct NormalKernel {
  RowSplit split;
  Block<T> to;
  DropoutMask points;
  std::uint64_t key;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    constexpr double two_pi = 6.283185307179586476925;
    const auto r            = split.row(item);
    const auto first        = first_index(points, r);
    const Line<T> y         = line_of(to, r);
    for (index_t i = 0; i < r.count; ++i) {
      const auto index = 2 * (first + static_cast<std::uint64_t>(i));
      // in (0, 1] and [0, 1)
      const double radius = static_cast<double>((counter_hash(key, index) >> 11) + 1) * 0x1.0p-53;
      const double turn   = static_cast<double>(counter_hash(key, index + 1) >> 11) * 0x1.0p-53;
      y.cells[i * y.step] =
          static_cast<T>(Kokkos::sqrt(-2.0 * Kokkos::log(radius)) * Kokkos::cos(two_pi * turn));
    }
  }
};

template <class T>
struct NormalRows {
  RowSplit split;
  Block<T> to;
  DropoutMask points;
  std::uint64_t key;

  void operator()(index_t item) const {
    const auto r     = split.row(item);
    const auto first = first_index(points, r);
    const Line<T> y  = line_of(to, r);
    NormalNumbers<T> numbers;
    T drawn[NormalNumbers<T>::width];
    for (index_t i = 0; i < r.count; i += NormalNumbers<T>::width) {
      const index_t count = std::min(NormalNumbers<T>::width, r.count - i);
      numbers.draw(key, first + static_cast<std::uint64_t>(i), count, drawn);
      for (index_t j = 0; j < count; ++j) y.cells[(i + j) * y.step] = drawn[j];
    }
  }
};

template <class Space, class T>
void DropoutKernels<Space, T>::normal(const Space& space, const Block<T>& y,
                                      const DropoutMask& points) {
  using Kernel         = std::conditional_t<is_host_v<Space>, NormalRows<T>, NormalKernel<T>>;
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::normal", space, split.items(),
         Kernel{split, y, points, counter_hash(points.seed, points.step)});
}

void require_probability(std::string_view function, double p) {
  if (!(p >= 0.0 && p <= 1.0))
    throw_argument(function,
                   {"the probability of a zero is ", std::to_string(p), "; it lies in [0, 1]"});
}

SHARD_KERNELS(DropoutKernels)

}  // namespace shard::impl
