// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "launch.hpp"
#include "neighbourhood_rows.hpp"
#include "shard/layers/impl/neighbourhood_kernels.hpp"
#include "vector_functions.hpp"

namespace shard::impl {

/// A query's scores are taken a few keys of a row at a time, with a running largest score (Milakov
/// and Gimelshein 2018).
template <class T, int Width>
struct NeighbourhoodKernel {
  QueryLanes<T, Width> all;
  Block<T> out;
  double* sums;
  Block<const T> q, k, v;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    constexpr T none   = -Kokkos::Experimental::infinity_v<T>;
    const auto w       = all.queries(item);
    const index_t of_q = w.h * all.features, of_k = w.h / all.shape.heads_per_key * all.features;
    const auto mine     = row_of(q, w.n, of_q, w.z, w.y);
    const auto to       = row_of(out, w.n, of_q, w.z, w.y);
    const T scale       = static_cast<T>(all.shape.scale);
    const T* const bias = all.bias_of(all.bias, w.h);
    T largest[Width], sum[Width], less[Width];
    for (index_t l = 0; l < w.count; ++l) {
      largest[l] = none;
      sum[l]     = T(0);
    }
    bool anew = true;
    all.for_keys(w, [&](index_t z, index_t y, const OtherPoints<Width>& points, index_t t,
                        index_t terms, const auto& place) {
      LaneValues<T, Width> s;
      const auto keys        = row_of(k, w.n, of_k, z, y);
      const index_t dilation = all.shape.dims[2].dilation;
      for (index_t c = 0; c < terms; ++c) {
        all.lanes.dots(mine, w.x, w.count, keys, points, (t + c) * dilation, s[c]);
        for (index_t l = 0; l < w.count; ++l)
          s[c][l] = scale * s[c][l] + (bias == nullptr ? T(0) : bias[place(l, c)]);
      }
      for (index_t l = 0; l < w.count; ++l) {
        T most = largest[l];
        for (index_t c = 0; c < terms; ++c) most = s[c][l] > most ? s[c][l] : most;
        less[l]    = exponential_of_part(largest[l] - most);
        largest[l] = most;
        sum[l] *= less[l];
      }
      for (index_t c = 0; c < terms; ++c)
        for (index_t l = 0; l < w.count; ++l) {
          s[c][l] = exponential_of_part(s[c][l] - largest[l]);
          sum[l] += s[c][l];
        }
      all.lanes.add(to, w.x, w.count, anew, less, s, terms, row_of(v, w.n, of_k, z, y), points,
                    t * dilation, dilation);
      anew = false;
    });
    for (index_t f = 0; f < all.features; ++f)
      for (index_t l = 0; l < w.count; ++l) to.at(f, w.x + l) /= sum[l];
    double* const slots = sums + all.number(w.n, w.h, w.z, w.y, w.x);
    for (index_t l = 0; l < w.count; ++l)
      slots[l] = static_cast<double>(largest[l]) + Kokkos::log(static_cast<double>(sum[l]));
  }
};

/// A query's weights exp(score - log of the sum) of some keys of a row.
template <class T, int Width, class Place>
KOKKOS_FORCEINLINE_FUNCTION void weigh_keys(const QueryLanes<T, Width>& all,
                                            const typename QueryLanes<T, Width>::Who& w,
                                            const FeatureRow<const T>& mine,
                                            const FeatureRow<const T>& keys,
                                            const OtherPoints<Width>& points, index_t t,
                                            index_t terms, const T* bias, const double* slots,
                                            const Place& place, LaneValues<T, Width>& p) {
  const T scale = static_cast<T>(all.shape.scale);
  for (index_t c = 0; c < terms; ++c) {
    all.lanes.dots(mine, w.x, w.count, keys, points, (t + c) * all.shape.dims[2].dilation, p[c]);
    for (index_t l = 0; l < w.count; ++l) {
      const T score = scale * p[c][l] + (bias == nullptr ? T(0) : bias[place(l, c)]);
      p[c][l]       = exponential_of_part(score - static_cast<T>(slots[l]));
    }
  }
}

template <class T, int Width>
struct NeighbourhoodTangentKernel {
  QueryLanes<T, Width> all;
  Block<T> ty;
  const double* sums;
  Block<const T> out, q, k, v, tq, tk, tv;
  const T* bias_tangent;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w       = all.queries(item);
    const index_t of_q = w.h * all.features, of_k = w.h / all.shape.heads_per_key * all.features;
    const auto mine     = row_of(q, w.n, of_q, w.z, w.y);
    const auto moves    = row_of(tq, w.n, of_q, w.z, w.y);
    const auto to       = row_of(ty, w.n, of_q, w.z, w.y);
    const T scale       = static_cast<T>(all.shape.scale);
    const T *const bias = all.bias_of(all.bias, w.h), *const grows = all.bias_of(bias_tangent, w.h);
    const double* const slots = sums + all.number(w.n, w.h, w.z, w.y, w.x);
    T mean[Width];
    for (index_t l = 0; l < w.count; ++l) mean[l] = T(0);
    bool anew = true;
    all.for_keys(w, [&](index_t z, index_t y, const OtherPoints<Width>& points, index_t t,
                        index_t terms, const auto& place) {
      LaneValues<T, Width> p, share;
      T part[Width];
      const auto keys = row_of(k, w.n, of_k, z, y), grown = row_of(tk, w.n, of_k, z, y),
                 values = row_of(v, w.n, of_k, z, y), more = row_of(tv, w.n, of_k, z, y);
      const index_t dilation = all.shape.dims[2].dilation;
      weigh_keys(all, w, mine, keys, points, t, terms, bias, slots, place, p);
      for (index_t c = 0; c < terms; ++c) {
        const index_t shift = (t + c) * dilation;
        for (index_t l = 0; l < w.count; ++l) share[c][l] = T(0);
        if (moves.origin != nullptr) {
          all.lanes.dots(moves, w.x, w.count, keys, points, shift, part);
          for (index_t l = 0; l < w.count; ++l) share[c][l] += part[l];
        }
        if (grown.origin != nullptr) {
          all.lanes.dots(mine, w.x, w.count, grown, points, shift, part);
          for (index_t l = 0; l < w.count; ++l) share[c][l] += part[l];
        }
        for (index_t l = 0; l < w.count; ++l) {
          const T slope = scale * share[c][l] + (grows == nullptr ? T(0) : grows[place(l, c)]);
          share[c][l]   = p[c][l] * slope;
          mean[l] += share[c][l];
        }
      }
      all.lanes.add(to, w.x, w.count, anew, nullptr, share, terms, values, points, t * dilation,
                    dilation);
      if (more.origin != nullptr)
        all.lanes.add(to, w.x, w.count, false, nullptr, p, terms, more, points, t * dilation,
                      dilation);
      anew = false;
    });
    const auto results = row_of(out, w.n, of_q, w.z, w.y);
    for (index_t f = 0; f < all.features; ++f)
      for (index_t l = 0; l < w.count; ++l)
        to.at(f, w.x + l) =
            multiplied_and_added(to.at(f, w.x + l), -mean[l], results.at(f, w.x + l));
  }
};

template <class T, int Width>
struct NeighbourhoodQueriesKernel {
  QueryLanes<T, Width> all;
  Block<T> dq;
  const double* sums;
  Block<const T> dy, q, k, v;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w       = all.queries(item);
    const index_t of_q = w.h * all.features, of_k = w.h / all.shape.heads_per_key * all.features;
    const auto mine             = row_of(q, w.n, of_q, w.z, w.y);
    const auto outer            = row_of(dy, w.n, of_q, w.z, w.y);
    const auto to               = row_of(dq, w.n, of_q, w.z, w.y);
    const T scale               = static_cast<T>(all.shape.scale);
    const T* const bias         = all.bias_of(all.bias, w.h);
    const double* const slots   = sums + all.number(w.n, w.h, w.z, w.y, w.x);
    const double* const product = slots + all.numbers();
    bool anew                   = true;
    all.for_keys(w, [&](index_t z, index_t y, const OtherPoints<Width>& points, index_t t,
                        index_t terms, const auto& place) {
      LaneValues<T, Width> p;
      T part[Width];
      const auto keys = row_of(k, w.n, of_k, z, y), values = row_of(v, w.n, of_k, z, y);
      const index_t dilation = all.shape.dims[2].dilation;
      weigh_keys(all, w, mine, keys, points, t, terms, bias, slots, place, p);
      for (index_t c = 0; c < terms; ++c) {
        all.lanes.dots(outer, w.x, w.count, values, points, (t + c) * dilation, part);
        for (index_t l = 0; l < w.count; ++l)
          p[c][l] = scale * p[c][l] * (part[l] - static_cast<T>(product[l]));
      }
      all.lanes.add(to, w.x, w.count, anew, nullptr, p, terms, keys, points, t * dilation,
                    dilation);
      anew = false;
    });
  }
};

/// A work item is a few keys of a row. They add the gradients of the queries that see them.
template <class T, int Width>
struct NeighbourhoodKeysKernel {
  NeighbourhoodItem<T, Width> all;
  Block<T> dk, dv;
  const double* sums;
  Block<const T> dy, q, k, v;

  index_t items() const {
    const NeighbourhoodDim* d = all.shape.dims;
    return all.batch * all.shape.key_heads() * (d[0].end_key - d[0].first_key) *
           (d[1].end_key - d[1].first_key) * all.blocks.blocks();
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const NeighbourhoodDim &dz = all.shape.dims[0], &dy_dim = all.shape.dims[1],
                           &dx = all.shape.dims[2];
    const index_t begin[2]     = {dz.first_key, dy_dim.first_key},
                  end[2]       = {dz.end_key, dy_dim.end_key};
    const auto w               = all.who(item, all.shape.key_heads(), begin, end);
    StepRange steps[Width];
    StepRange of_all = {0, -1};
    bool even        = true;
    for (index_t l = 0; l < w.count; ++l) {
      steps[l] = dx.steps_to(w.x + l);
      even     = even && steps[l].first == steps[0].first && steps[l].last == steps[0].last;
      if (steps[l].first > steps[l].last) continue;
      const bool some = of_all.first <= of_all.last;
      of_all.first    = some && of_all.first < steps[l].first ? of_all.first : steps[l].first;
      of_all.last     = some && of_all.last > steps[l].last ? of_all.last : steps[l].last;
    }
    const StepRange along_z = dz.steps_to(w.z), along_y = dy_dim.steps_to(w.y);
    const index_t shared = all.shape.heads_per_key;
    for (index_t h = w.h * shared; h < (w.h + 1) * shared; ++h)
      for (index_t sz = along_z.last; sz >= along_z.first; --sz)
        for (index_t sy = along_y.last; sy >= along_y.first; --sy) {
          const index_t z = w.z - sz * dz.dilation, y = w.y - sy * dy_dim.dilation;
          if (even) {
            for (index_t s = of_all.last; s >= of_all.first; s -= steps_at_once) {
              const index_t left = s - of_all.first + 1;
              add(w, h, z, y, w.x, w.count, sz, sy, s, left < steps_at_once ? left : steps_at_once);
            }
            continue;
          }
          for (index_t s = of_all.last; s >= of_all.first; --s)
            for (index_t l = 0; l < w.count;) {  // runs of keys that are seen so
              const index_t from = l;
              while (l < w.count && steps[l].first <= s && s <= steps[l].last) ++l;
              if (l > from) add(w, h, z, y, w.x + from, l - from, sz, sy, s, 1);
              if (l < w.count) ++l;
            }
        }
  }

 private:
  /// Adds for keys x to x + count the parts of the queries of the row (z, y) that are `step` to
  /// step - terms + 1 steps before them.
  KOKKOS_FUNCTION void add(const typename NeighbourhoodItem<T, Width>::Who& w, index_t h, index_t z,
                           index_t y, index_t x, index_t count, index_t sz, index_t sy,
                           index_t step, index_t terms) const {
    const index_t dilation = all.shape.dims[2].dilation, of_q = h * all.features,
                  of_k  = w.h * all.features;
    const T scale       = static_cast<T>(all.shape.scale);
    const T* const bias = all.bias_of(all.bias, h);
    OtherPoints<Width> points;
    points.even = true;
    for (index_t l = 0; l < count; ++l) points.at[l] = x + l - step * dilation;
    const double* const slots   = sums + all.number(w.n, h, z, y, points.at[0]);
    const double* const product = slots + all.numbers();
    const auto mine = row_of(k, w.n, of_k, w.z, w.y), values = row_of(v, w.n, of_k, w.z, w.y);
    const auto asks = row_of(q, w.n, of_q, z, y), outer = row_of(dy, w.n, of_q, z, y);
    LaneValues<T, Width> p;
    for (index_t c = 0; c < terms; ++c) {
      all.lanes.dots(mine, x, count, asks, points, c * dilation, p[c]);
      const T added = bias == nullptr ? T(0) : bias[all.shape.bias(sz, sy, step - c)];
      for (index_t l = 0; l < count; ++l)
        p[c][l] =
            exponential_of_part(scale * p[c][l] + added - static_cast<T>(slots[l + c * dilation]));
    }
    if (dv.origin != nullptr)
      all.lanes.add(row_of(dv, w.n, of_k, w.z, w.y), x, count, false, nullptr, p, terms, outer,
                    points, 0, dilation);
    if (dk.origin == nullptr) return;
    for (index_t c = 0; c < terms; ++c) {
      T part[Width];
      all.lanes.dots(values, x, count, outer, points, c * dilation, part);
      for (index_t l = 0; l < count; ++l)
        p[c][l] = scale * p[c][l] * (part[l] - static_cast<T>(product[l + c * dilation]));
    }
    all.lanes.add(row_of(dk, w.n, of_k, w.z, w.y), x, count, false, nullptr, p, terms, asks, points,
                  0, dilation);
  }
};

/// A work item is an entry of the bias.
template <class T, int Width>
struct NeighbourhoodBiasKernel {
  NeighbourhoodItem<T, Width> all;
  T* bias_gradient;
  const double* sums;
  Block<const T> dy, q, k, v;

  index_t items() const { return all.shape.heads * all.shape.biases(); }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const NeighbourhoodDim* const d = all.shape.dims;
    index_t step[3], rest = item;
    for (int a = 2; a >= 0; --a) {
      step[a] = rest % (2 * d[a].kernel - 1) - d[a].kernel + 1;
      rest /= 2 * d[a].kernel - 1;
    }
    const index_t h = rest;
    const T added   = all.bias == nullptr ? T(0) : all.bias[item];
    double sum      = 0.0;
    for (index_t n = 0; n < all.batch; ++n)
      for (index_t z = 0; z < d[0].owned; ++z) {
        if (!sees(d[0], z, step[0])) continue;
        for (index_t y = 0; y < d[1].owned; ++y) {
          if (!sees(d[1], y, step[1])) continue;
          for (index_t x = 0; x < d[2].owned;) {
            const index_t from = x;
            while (x < d[2].owned && x - from < Width && sees(d[2], x, step[2])) ++x;
            if (x > from) add(n, h, z, y, from, x - from, step, added, sum);
            if (x == from) ++x;
          }
        }
      }
    bias_gradient[item] = static_cast<T>(static_cast<double>(bias_gradient[item]) + sum);
  }

 private:
  KOKKOS_FUNCTION static bool sees(const NeighbourhoodDim& d, index_t local, index_t step) {
    const index_t first = d.first_step(local);
    return first <= step && step < first + d.kernel;
  }
  KOKKOS_FUNCTION void add(index_t n, index_t h, index_t z, index_t y, index_t x, index_t count,
                           const index_t (&step)[3], T added, double& sum) const {
    const NeighbourhoodDim* const d = all.shape.dims;
    const index_t of_q = h * all.features, of_k = h / all.shape.heads_per_key * all.features;
    const index_t key_z = z + step[0] * d[0].dilation, key_y = y + step[1] * d[1].dilation;
    OtherPoints<Width> points;
    points.even = true;
    for (index_t l = 0; l < count; ++l) points.at[l] = x + l + step[2] * d[2].dilation;
    T score[Width], outer[Width];
    all.lanes.dots(row_of(q, n, of_q, z, y), x, count, row_of(k, n, of_k, key_z, key_y), points, 0,
                   score);
    all.lanes.dots(row_of(dy, n, of_q, z, y), x, count, row_of(v, n, of_k, key_z, key_y), points, 0,
                   outer);
    const double* const slots   = sums + all.number(n, h, z, y, x);
    const double* const product = slots + all.numbers();
    const T scale               = static_cast<T>(all.shape.scale);
    for (index_t l = 0; l < count; ++l) {
      score[l] = exponential_of_part(scale * score[l] + added - static_cast<T>(slots[l])) *
                 (outer[l] - static_cast<T>(product[l]));
      sum += static_cast<double>(score[l]);
    }
  }
};

template <class Space, class T>
inline constexpr int lanes_in = is_host_v<Space> ? host_lanes<T> : 1;

template <int Width, class T>
NeighbourhoodItem<T, Width> neighbourhood_item(const NeighbourhoodShape& shape, const T* bias,
                                               const Block<const T>& q, const RowBlocks& blocks) {
  const index_t features = shape.heads > 0 ? q.channels / shape.heads : 0;
  return {shape, bias, q.batch, features, blocks, {features}};
}
/// The rows of queries. Those that are half a window from the domain's ends see alike.
template <int Width, class T>
QueryLanes<T, Width> query_lanes(const NeighbourhoodShape& shape, const T* bias,
                                 const Block<const T>& q) {
  const NeighbourhoodDim& d = shape.dims[2];
  const index_t near        = d.periodic ? 0 : d.radius() * d.dilation;
  return {neighbourhood_item<Width>(
      shape, bias, q, RowBlocks::of(0, near - d.begin, d.extent - near - d.begin, d.owned, Width))};
}

template <class Space, class T>
void NeighbourhoodKernels<Space, T>::attend(const Space& space, const Block<T>& out, double* sums,
                                            const Block<const T>& q, const Block<const T>& k,
                                            const Block<const T>& v,
                                            const NeighbourhoodShape& shape, const T* bias) {
  constexpr int width = lanes_in<Space, T>;
  const auto all      = query_lanes<width>(shape, bias, q);
  launch("shard::neighbourhood", space, all.items(),
         NeighbourhoodKernel<T, width>{all, out, sums, q, k, v});
}

template <class Space, class T>
void NeighbourhoodKernels<Space, T>::tangent(const Space& space, const Block<T>& ty,
                                             const double* sums, const Block<const T>& out,
                                             const Block<const T> (&qkv)[3],
                                             const Block<const T> (&tangents)[3],
                                             const NeighbourhoodShape& shape, const T* bias,
                                             const T* bias_tangent) {
  constexpr int width = lanes_in<Space, T>;
  const auto all      = query_lanes<width>(shape, bias, qkv[0]);
  launch("shard::neighbourhood_tangent", space, all.items(),
         NeighbourhoodTangentKernel<T, width>{all, ty, sums, out, qkv[0], qkv[1], qkv[2],
                                              tangents[0], tangents[1], tangents[2], bias_tangent});
}

template <class Space, class T>
void NeighbourhoodKernels<Space, T>::pullback_queries(const Space& space, const Block<T>& dq,
                                                      const double* sums, const Block<const T>& dy,
                                                      const Block<const T> (&qkv)[3],
                                                      const NeighbourhoodShape& shape,
                                                      const T* bias) {
  constexpr int width = lanes_in<Space, T>;
  const auto all      = query_lanes<width>(shape, bias, qkv[0]);
  launch("shard::neighbourhood_queries", space, all.items(),
         NeighbourhoodQueriesKernel<T, width>{all, dq, sums, dy, qkv[0], qkv[1], qkv[2]});
}

template <class Space, class T>
void NeighbourhoodKernels<Space, T>::pullback_keys(const Space& space, const Block<T>& dk,
                                                   const Block<T>& dv, const double* sums,
                                                   const Block<const T>& dy,
                                                   const Block<const T> (&qkv)[3],
                                                   const NeighbourhoodShape& shape, const T* bias) {
  constexpr int width = lanes_in<Space, T>;
  // of the keys in the middle, all that see them are this rank's
  const NeighbourhoodDim& d = shape.dims[2];
  const index_t near = d.radius() * d.dilation, at_end = d.periodic ? 0 : d.kernel * d.dilation;
  index_t first = near, second = d.owned - near;
  if (!d.periodic) {
    first  = std::max(first, at_end - d.begin);
    second = std::min(second, d.extent - at_end - d.begin);
  }
  const NeighbourhoodKeysKernel<T, width> kernel{
      neighbourhood_item<width>(shape, bias, qkv[0],
                                RowBlocks::of(d.first_key, first, second, d.end_key, width)),
      dk,
      dv,
      sums,
      dy,
      qkv[0],
      qkv[1],
      qkv[2]};
  launch("shard::neighbourhood_keys", space, kernel.items(), kernel);
}

template <class Space, class T>
void NeighbourhoodKernels<Space, T>::pullback_bias(const Space& space, T* bias_gradient,
                                                   const double* sums, const Block<const T>& dy,
                                                   const Block<const T> (&qkv)[3],
                                                   const NeighbourhoodShape& shape, const T* bias) {
  constexpr int width = lanes_in<Space, T>;
  const NeighbourhoodBiasKernel<T, width> kernel{neighbourhood_item<width>(shape, bias, qkv[0], {}),
                                                 bias_gradient,
                                                 sums,
                                                 dy,
                                                 qkv[0],
                                                 qkv[1],
                                                 qkv[2]};
  launch("shard::neighbourhood_bias", space, kernel.items(), kernel);
}

SHARD_KERNELS(NeighbourhoodKernels)

}  // namespace shard::impl
