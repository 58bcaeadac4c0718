// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/embedding_kernels.hpp"

#include <cmath>
#include <string>
#include <type_traits>

#include "elementwise.hpp"
#include "launch.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/layer_checks.hpp"

namespace shard::impl {

RotaryShape rotary_shape(std::string_view field, const Partition& channels, index_t heads,
                         index_t first, index_t count, int dim, int dims, bool halves) {
  const index_t all = channels.size();
  if (heads < 1 || all % heads != 0)
    throw_argument("Rotary", {text(all), " channels of \"", std::string(field),
                              "\" can't be divided into ", text(heads), " heads"});
  const index_t features = all / heads;
  require_whole_groups("Rotary", field, channels, features);
  if (count == 0) count = features - first;
  if (first < 0 || count < 2 || count % 2 != 0 || first + count > features)
    throw_argument("Rotary",
                   {"features ", text(first), " to ", text(first + count - 1), " of a head of ",
                    text(features), " are rotated; an even number of existing ones can be"});
  if (dim < 0 || dim >= dims)
    throw_argument("Rotary", {"positions along spatial dimension ", text(dim), " of ", text(dims)});
  return {features, first, count, halves, 0};
}

void fill_rotary(double* table, index_t begin, index_t positions, index_t count, double theta) {
  double* const sines = table + count / 2 * positions;
  for (index_t i = 0; i < count / 2; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(count));
    for (index_t p = 0; p < positions; ++p) {
      const double angle       = static_cast<double>(begin + p) * frequency;
      table[i * positions + p] = std::cos(angle);
      sines[i * positions + p] = std::sin(angle);
    }
  }
}

/// Two features of a row before and after their rotation.
template <class T>
struct RotatedRow {
  const T *x, *z;
  T *y, *w;
  const double *cosines, *sines;
  double sign;

  /// The steps are constants where they are 1 or 0, so that compilers vectorise.
  template <class In, class Out, class Step>
  KOKKOS_FORCEINLINE_FUNCTION void run(index_t count, In in, Out out, Step step) const {
    for (index_t j = 0; j < count; ++j) {
      const double cosine = cosines[j * step], sine = sign * sines[j * step];
      const auto p = static_cast<double>(x[j * in]), q = static_cast<double>(z[j * in]);
      y[j * out] = static_cast<T>(p * cosine - q * sine);
      w[j * out] = static_cast<T>(q * cosine + p * sine);
    }
  }
};

/// Rotates pairs of features; copies the others, one in place of a pair.
template <class T>
struct RotaryKernel {
  RowSplit split;  ///< its channels are heads times `items`: the pairs, then the other features
  index_t items;
  Block<T> to;
  Block<const T> from;
  RotaryShape shape;
  const double* table;
  bool back;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r         = split.row(item);
    const index_t half   = shape.count / 2;
    const index_t i      = r.c % items;
    const index_t head   = r.c / items * shape.features;
    const bool is_copied = i >= half;
    // the features before the rotated ones, then those after them
    const index_t other = i - half < shape.first ? i - half : i - half + shape.count;
    const index_t a     = head + (is_copied ? other : shape.first + (shape.halves ? i : 2 * i));
    const index_t b     = a + (is_copied ? 0 : shape.halves ? half : 1);
    const T *x = &from.at(r.n, a, r.z, r.y, r.x), *z = &from.at(r.n, b, r.z, r.y, r.x);
    T *y = &to.at(r.n, a, r.z, r.y, r.x), *w = &to.at(r.n, b, r.z, r.y, r.x);
    const index_t in = from.stride[4], out = to.stride[4];
    if (is_copied) {
      for (index_t j = 0; j < r.count; ++j) y[j * out] = x[j * in];
      return;
    }
    const index_t position  = shape.dim == 0 ? r.z : shape.dim == 1 ? r.y : r.x;
    const index_t positions = to.extent(shape.dim);
    const double* cosines   = table + i * positions + position;
    const RotatedRow<T> row{x, z, y, w, cosines, cosines + half * positions, back ? -1.0 : 1.0};
    using One          = std::integral_constant<index_t, 1>;
    using Zero         = std::integral_constant<index_t, 0>;
    const index_t step = shape.dim == 2 ? 1 : 0;
    if (in == 1 && out == 1 && step == 1)
      row.run(r.count, One{}, One{}, One{});
    else if (in == 1 && out == 1)
      row.run(r.count, One{}, One{}, Zero{});
    else
      row.run(r.count, in, out, step);
  }
};

template <class Space, class T>
void EmbeddingKernels<Space, T>::rotate(const Space& space, const Block<T>& y,
                                        const Block<const T>& x, const RotaryShape& shape,
                                        const double* table, bool back) {
  const index_t items  = shape.features - shape.count / 2;
  const RowSplit split = RowSplit::of(space, y, y.channels / shape.features * items);
  launch("shard::rotary", space, split.items(),
         RotaryKernel<T>{split, items, y, x, shape, table, back});
}

template <class T>
struct WavesKernel {
  T* y;
  index_t y_step;
  const T* t;
  WaveTable table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n = item / table.count, i = item % table.count;
    const double angle = table.frequencies[i] * static_cast<double>(t[n]);
    T* const row       = y + n * y_step;
    row[table.cosines_first ? i + table.count : i] = static_cast<T>(Kokkos::sin(angle));
    row[table.cosines_first ? i : i + table.count] = static_cast<T>(Kokkos::cos(angle));
  }
};

template <class T>
struct WavesPullbackKernel {
  T* dt;
  const T* dy;
  index_t dy_step;
  const T* t;
  WaveTable table;

  KOKKOS_FUNCTION void operator()(index_t n) const {
    const T* const row = dy + n * dy_step;
    double sum         = 0.0;
    for (index_t i = 0; i < table.count; ++i) {
      const double f = table.frequencies[i], angle = f * static_cast<double>(t[n]);
      sum += f * (static_cast<double>(row[table.cosines_first ? i + table.count : i]) *
                      Kokkos::cos(angle) -
                  static_cast<double>(row[table.cosines_first ? i : i + table.count]) *
                      Kokkos::sin(angle));
    }
    dt[n] = static_cast<T>(sum);
  }
};

template <class T>
struct WavesPushforwardKernel {
  T* ty;
  index_t ty_step;
  const T *tt, *t;
  WaveTable table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n = item / table.count, i = item % table.count;
    const double f = table.frequencies[i], angle = f * static_cast<double>(t[n]);
    const double slope                             = f * static_cast<double>(tt[n]);
    T* const row                                   = ty + n * ty_step;
    row[table.cosines_first ? i + table.count : i] = static_cast<T>(slope * Kokkos::cos(angle));
    row[table.cosines_first ? i : i + table.count] = static_cast<T>(-slope * Kokkos::sin(angle));
  }
};

template <class Space, class T>
void EmbeddingKernels<Space, T>::waves(const Space& space, T* y, index_t y_step, const T* t,
                                       index_t points, const WaveTable& table) {
  launch("shard::waves", space, points * table.count, WavesKernel<T>{y, y_step, t, table});
}
template <class Space, class T>
void EmbeddingKernels<Space, T>::waves_pullback(const Space& space, T* dt, const T* dy,
                                                index_t dy_step, const T* t, index_t points,
                                                const WaveTable& table) {
  launch("shard::waves_pullback", space, points, WavesPullbackKernel<T>{dt, dy, dy_step, t, table});
}
template <class Space, class T>
void EmbeddingKernels<Space, T>::waves_pushforward(const Space& space, T* ty, index_t ty_step,
                                                   const T* tt, const T* t, index_t points,
                                                   const WaveTable& table) {
  launch("shard::waves_pushforward", space, points * table.count,
         WavesPushforwardKernel<T>{ty, ty_step, tt, t, table});
}

SHARD_KERNELS(EmbeddingKernels)

}  // namespace shard::impl
