// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_NEIGHBOURHOOD_ROWS_HPP
#define SHARD_SRC_LAYERS_NEIGHBOURHOOD_ROWS_HPP

#include <Kokkos_Core.hpp>

#include <utility>

#include "lanes.hpp"
#include "product_tile.hpp"
#include "shard/layers/impl/neighbourhood_kernels.hpp"

/// \file
/// What the kernels of neighbourhood attention share. A work item is a few neighbouring points of a
/// row (the lanes): on a host some vectors, on a device one. The points that they see along a row
/// are as many neighbouring points, a step further for each point of the window. So products of
/// features are vectors of lanes, and nothing is gathered, but for points near the ends of a
/// domain.

namespace shard::impl {

/// Points of a window along a row that are taken at once.
inline constexpr int steps_at_once = 8;

/// Lanes of a host.
template <class T>
inline constexpr int host_lanes = 4 * Tile<T>::lanes;

/// A row of points of one head: feature f of point x is at origin[f * feature + x * point].
template <class T>
struct FeatureRow {
  T* origin;
  index_t feature, point;

  KOKKOS_FORCEINLINE_FUNCTION T& at(index_t f, index_t x) const {
    return origin[f * feature + x * point];
  }
};

/// A block's row, null for a block without memory.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION FeatureRow<T> row_of(const Block<T>& b, index_t n, index_t channel,
                                                 index_t z, index_t y) {
  return {b.origin == nullptr ? nullptr : &b.at(n, channel, z, y, 0), b.stride[1], b.stride[4]};
}

/// The points of the other side that the lanes meet first.
template <int Width>
struct OtherPoints {
  index_t at[Width];
  bool even;  ///< neighbouring lanes have neighbouring points
};

/// Values of the lanes, for each of some points of a window.
template <class T, int Width>
using LaneValues = T[steps_at_once][Width];

/// Sums over features, and over points.
template <class T, int Width>
struct LaneSums {
  index_t features;

  /// s[lane] = the product of the features of point `x` + lane and of at[lane] + shift.
  KOKKOS_FORCEINLINE_FUNCTION void dots(const FeatureRow<const T>& own, index_t x, index_t count,
                                        const FeatureRow<const T>& other,
                                        const OtherPoints<Width>& points, index_t shift,
                                        T (&s)[Width]) const {
    index_t done = 0;  // lanes
#if !defined(__CUDACC__)
    if constexpr (Width > 1)
      if (points.even && own.point == 1 && other.point == 1) {
        const T *const a = own.origin + x, *const b = other.origin + points.at[0] + shift;
        if (count == Width) {
          dot_vectors<4>(a, own.feature, b, other.feature, s);
          return;
        }
        for (; done + lanes <= count; done += lanes)
          dot_vectors<1>(a + done, own.feature, b + done, other.feature, s + done);
      }
#endif
    for (index_t l = done; l < count; ++l) s[l] = T(0);
    for (index_t f = 0; f < features; ++f)
      for (index_t l = done; l < count; ++l)
        s[l] = multiplied_and_added(s[l], own.at(f, x + l), other.at(f, points.at[l] + shift));
  }

  /// to[lane] = to[lane] * less[lane] + sum over c of w[c][lane] times the features of at[lane] +
  /// shift + c * step. Without `less` it is added; with `anew` the earlier values are zeros.
  KOKKOS_FORCEINLINE_FUNCTION void add(const FeatureRow<T>& to, index_t x, index_t count, bool anew,
                                       const T* less, const LaneValues<T, Width>& w, index_t terms,
                                       const FeatureRow<const T>& other,
                                       const OtherPoints<Width>& points, index_t shift,
                                       index_t step) const {
    index_t done = 0;  // lanes
#if !defined(__CUDACC__)
    if constexpr (Width > 1)
      if (points.even && to.point == 1 && other.point == 1) {
        const T* const b = other.origin + points.at[0] + shift;
        if (count == Width) {
          add_vectors<4>(to.origin + x, to.feature, anew, less, w, 0, terms, b, other.feature,
                         step);
          return;
        }
        for (; done + lanes <= count; done += lanes)
          add_vectors<1>(to.origin + x + done, to.feature, anew, less, w, done, terms, b + done,
                         other.feature, step);
      }
#endif
    for (index_t f = 0; f < features; ++f)
      for (index_t l = done; l < count; ++l) {
        T& sum  = to.at(f, x + l);
        T total = anew ? T(0) : less != nullptr ? sum * less[l] : sum;
        for (index_t c = 0; c < terms; ++c)
          total =
              multiplied_and_added(total, w[c][l], other.at(f, points.at[l] + shift + c * step));
        sum = total;
      }
  }

#if !defined(__CUDACC__)
 private:
  static constexpr int lanes = Tile<T>::lanes;

  static const Lanes<T>& vector(const T* from) { return *reinterpret_cast<const Lanes<T>*>(from); }
  static Lanes<T>& vector(T* from) { return *reinterpret_cast<Lanes<T>*>(from); }

  // fold expressions instead of loops, so that compilers keep the sums in registers
  template <int Vectors>
  void dot_vectors(const T* a, index_t a_feature, const T* b, index_t b_feature, T* s) const {
    [&]<int... V>(std::integer_sequence<int, V...>) {
      Lanes<T> sums[] = {(static_cast<void>(V), Lanes<T>{})...};
      for (index_t f = 0; f < features; ++f, a += a_feature, b += b_feature)
        (add_products<T>(sums[V], vector(a + V * lanes), vector(b + V * lanes)), ...);
      ((vector(s + V * lanes) = sums[V]), ...);
    }
    (std::make_integer_sequence<int, Vectors>());
  }
  /// The lanes from `first` on; `to` and `b` are theirs.
  template <int Vectors>
  void add_vectors(T* to, index_t to_feature, bool anew, const T* less,
                   const LaneValues<T, Width>& w, index_t first, index_t terms, const T* b,
                   index_t b_feature, index_t step) const {
    [&]<int... V>(std::integer_sequence<int, V...>) {
      for (index_t f = 0; f < features; ++f, to += to_feature, b += b_feature) {
        const auto earlier = [&](int v) {
          if (anew) return Lanes<T>{};
          const Lanes<T> value = vector(to + v * lanes);
          return less == nullptr ? value : value * vector(less + first + v * lanes);
        };
        Lanes<T> sums[] = {earlier(V)...};
        for (index_t c = 0; c < terms; ++c) {
          const T *const p = w[c] + first, *const from = b + c * step;
          (add_products<T>(sums[V], vector(p + V * lanes), vector(from + V * lanes)), ...);
        }
        ((vector(to + V * lanes) = sums[V]), ...);
      }
    }
    (std::make_integer_sequence<int, Vectors>());
  }
#endif
};

/// The blocks of a row: of up to `width` points, in three parts, so that those of the middle part
/// all see alike.
struct RowBlocks {
  index_t cut[4];
  index_t width;

  static RowBlocks of(index_t begin, index_t first, index_t second, index_t end, index_t width) {
    const index_t a = first < begin ? begin
                      : first > end ? end
                                    : first,
                  b = second < a     ? a
                      : second > end ? end
                                     : second;
    return {{begin, a, b, end}, width};
  }
  KOKKOS_FUNCTION index_t blocks(int part) const {
    return (cut[part + 1] - cut[part] + width - 1) / width;
  }
  KOKKOS_FUNCTION index_t blocks() const { return blocks(0) + blocks(1) + blocks(2); }
  /// Sets the first point of a block, and returns their number.
  KOKKOS_FUNCTION index_t find(index_t block, index_t& x) const {
    int part = 0;
    for (; part < 2 && block >= blocks(part); ++part) block -= blocks(part);
    x                  = cut[part] + block * width;
    const index_t rest = cut[part + 1] - x;
    return rest < width ? rest : width;
  }
};

/// The operands that all kernels need, and the points of a work item.
template <class T, int Width>
struct NeighbourhoodItem {
  NeighbourhoodShape shape;
  const T* bias;
  index_t batch, features;
  RowBlocks blocks;
  LaneSums<T, Width> lanes;

  struct Who {
    index_t n, h, z, y, x, count;
  };
  /// The points of an item among rows [begin, end) of the first two dimensions.
  KOKKOS_FORCEINLINE_FUNCTION Who who(index_t item, index_t heads, const index_t (&begin)[2],
                                      const index_t (&end)[2]) const {
    Who w{};
    const index_t all = blocks.blocks(), rows = end[1] - begin[1], planes = end[0] - begin[0];
    w.count = blocks.find(item % all, w.x);
    item /= all;
    w.y = begin[1] + item % rows;
    item /= rows;
    w.z = begin[0] + item % planes;
    item /= planes;
    w.h = item % heads;
    w.n = item / heads;
    return w;
  }
  KOKKOS_FORCEINLINE_FUNCTION index_t number(index_t n, index_t h, index_t z, index_t y,
                                             index_t x) const {
    const NeighbourhoodDim* d = shape.dims;
    return (((n * shape.heads + h) * d[0].owned + z) * d[1].owned + y) * d[2].owned + x;
  }
  KOKKOS_FORCEINLINE_FUNCTION index_t numbers() const {
    return batch * shape.heads * shape.dims[0].owned * shape.dims[1].owned * shape.dims[2].owned;
  }
  KOKKOS_FORCEINLINE_FUNCTION const T* bias_of(const T* of, index_t h) const {
    return of == nullptr ? nullptr : of + h * shape.biases();
  }
};

/// What the kernels share whose work items are queries.
template <class T, int Width>
struct QueryLanes : NeighbourhoodItem<T, Width> {
  using Item = NeighbourhoodItem<T, Width>;
  using Item::shape;
  using typename Item::Who;

  KOKKOS_FORCEINLINE_FUNCTION Who queries(index_t item) const {
    const index_t begin[2] = {0, 0}, end[2] = {shape.dims[0].owned, shape.dims[1].owned};
    return this->who(item, shape.heads, begin, end);
  }
  index_t items() const {
    return this->batch * shape.heads * shape.dims[0].owned * shape.dims[1].owned *
           this->blocks.blocks();
  }

  /// Calls use(z, y, points, t, terms, bias) for the keys in ascending order: the row of keys (z,
  /// y), and points t to t + terms of the window along it. bias(l, c) is the place in the bias of
  /// lane l and point t + c.
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION void for_keys(const Who& w, const Use& use) const {
    const NeighbourhoodDim &dz = shape.dims[0], &dy = shape.dims[1], &dx = shape.dims[2];
    OtherPoints<Width> points;
    index_t first[Width];
    points.even = true;
    for (index_t l = 0; l < w.count; ++l) {
      first[l]     = dx.first_step(w.x + l);
      points.at[l] = w.x + l + first[l] * dx.dilation;
      points.even  = points.even && first[l] == first[0];
    }
    const index_t first_z = dz.first_step(w.z), first_y = dy.first_step(w.y);
    for (index_t sz = first_z; sz < first_z + dz.kernel; ++sz)
      for (index_t sy = first_y; sy < first_y + dy.kernel; ++sy)
        for (index_t t = 0; t < dx.kernel; t += steps_at_once) {
          const index_t terms = dx.kernel - t < steps_at_once ? dx.kernel - t : steps_at_once;
          use(w.z + sz * dz.dilation, w.y + sy * dy.dilation, points, t, terms,
              [&](index_t l, index_t c) { return shape.bias(sz, sy, first[l] + t + c); });
        }
  }
};

}  // namespace shard::impl

#endif
