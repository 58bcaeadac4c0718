// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/broadcast_kernels.hpp"

#include "device_broadcast.hpp"
#include "elementwise.hpp"
#include "launch.hpp"
#include "row_sums.hpp"

namespace shard::impl {

/// y = a (base + z) + b w + s, without the products and the term that aren't there.
template <class T, bool A, bool B, bool S>
struct CombineKernel {
  RowSplit split;
  Block<T> to;
  Products<T> terms;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r          = split.row(item);
    const Line<T> y       = line_of(to, r);
    const Line<const T> a = line(terms.a, r), z = line(terms.z, r), b = line(terms.b, r),
                        w = line(terms.w, r), s = line(terms.s, r);
    const auto steps = [&](index_t field, index_t value) {
      return y.step == field && (!A || a.step == field) && (!B || b.step == field) &&
             (!A || z.step == value || z.cells == nullptr) && (!B || w.step == value) &&
             (!S || s.step == value);
    };
    // constant steps, so that compilers vectorise
    if (steps(1, 1))
      run(
          r.count, [](index_t) { return index_t{1}; }, [](index_t) { return index_t{1}; }, y, a, z,
          b, w, s);
    else if (steps(1, 0))
      run(
          r.count, [](index_t) { return index_t{1}; }, [](index_t) { return index_t{0}; }, y, a, z,
          b, w, s);
    else
      run(
          r.count, [](index_t step) { return step; }, [](index_t step) { return step; }, y, a, z, b,
          w, s);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION static Line<const T> line(const Block<const T>& b,
                                                        const RowSplit::Row& r) {
    return b.origin == nullptr ? Line<const T>{nullptr, 0} : line_of(b, r);
  }
  template <class FieldStep, class ValueStep>
  KOKKOS_FORCEINLINE_FUNCTION void run(index_t count, const FieldStep& field,
                                       const ValueStep& value, Line<T> y, Line<const T> a,
                                       Line<const T> z, Line<const T> b, Line<const T> w,
                                       Line<const T> s) const {
    const T base    = static_cast<T>(terms.base);
    const auto each = [&](const auto& factor) {
      for (index_t i = 0; i < count; ++i) {
        T sum = T(0);
        if constexpr (A) sum = a.cells[i * field(a.step)] * factor(i);
        if constexpr (B) {
          const T product = b.cells[i * field(b.step)] * w.cells[i * value(w.step)];
          if constexpr (A)
            sum += product;
          else
            sum = product;
        }
        if constexpr (S) {
          if constexpr (A || B)
            sum += s.cells[i * value(s.step)];
          else
            sum = s.cells[i * value(s.step)];
        }
        y.cells[i * field(y.step)] = sum;
      }
    };
    if (z.cells == nullptr)
      each([&](index_t) { return base; });
    else if (base == T(0))  // 0 + -0 isn't -0
      each([&](index_t i) { return z.cells[i * value(z.step)]; });
    else
      each([&](index_t i) { return base + z.cells[i * value(z.step)]; });
  }
};

template <class Use>
void with_flag(bool value, const Use& use) {
  if (value)
    use(std::true_type{});
  else
    use(std::false_type{});
}

template <class Space, class T>
void BroadcastKernels<Space, T>::combine(const Space& space, const Block<T>& y,
                                         const Products<T>& terms) {
  const RowSplit split = RowSplit::of(space, y);
  with_flag(terms.a.origin != nullptr, [&](auto a) {
    with_flag(terms.b.origin != nullptr, [&](auto b) {
      with_flag(terms.s.origin != nullptr, [&](auto s) {
        launch("shard::products", space, split.items(),
               CombineKernel<T, a.value, b.value, s.value>{split, y, terms});
      });
    });
  });
}

/// Adds up products on a host. A work item computes one sum, or the sums of a
/// row of points.
template <class T>
struct ProductSumsRows {
  SumLoops loops;
  double* sums;
  SumPlaces places;
  Block<const T> a, x;

  void operator()(index_t item) const {
    index_t at[4];
    loops.indices(item, 4, at);
    double* const to = sums + places.first + at[0] * places.step[0] + at[1] * places.step[1] +
                       at[2] * places.step[2] + at[3] * places.step[3];
    const index_t count = a.extent(2), step = places.step[4];
    double lanes[sum_lanes] = {};
    loops.rows(at, [&](index_t n, index_t c, index_t z, index_t y) {
      const auto row      = RowOfProducts<T>::of(a, x, n, c, z, y);
      const auto add_each = [&](const auto& term) {
        if (places.keeps[4])
          for (index_t i = 0; i < count; ++i) to[i * step] += term(i);
        else
          add_row(lanes, count, term);
      };
      const auto real       = [](T v) { return static_cast<double>(v); };
      const bool contiguous = row.a_step == 1 && (row.x == nullptr || row.x_step == 1);
      if (contiguous && row.x != nullptr)
        add_each([p = row.a, q = row.x, real](index_t i) { return real(p[i]) * real(q[i]); });
      else if (contiguous)
        add_each([p = row.a, real](index_t i) { return real(p[i]); });
      else if (row.x == nullptr)
        add_each([&](index_t i) { return row.value(i); });
      else
        add_each([&](index_t i) { return row.product(i); });
    });
    if (!places.keeps[4]) *to = add_lanes(lanes);
  }
};

template <class Space, class T>
void BroadcastKernels<Space, T>::sums(const Space& space, double* sums, const SumPlaces& places,
                                      const Block<const T>& a, const Block<const T>& x,
                                      double* scratch) {
  using Sums =
      Kokkos::View<double*, typename Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  Kokkos::deep_copy(space, Sums(sums, static_cast<std::size_t>(places.count)), 0.0);
  const SumLoops loops = SumLoops::of(a, places);
  if constexpr (is_host_v<Space>) {
    launch("shard::product_sums", space, loops.items(4),
           ProductSumsRows<T>{loops, sums, places, a, x});
  } else if (places.keeps_space) {
    launch("shard::product_sums", space, loops.items(5),
           ProductSumsKernel<T>{loops, sums, places, a, x});
  } else {
    const index_t planes = a.batch * a.channels;
    sum_planes("shard::product_sums", space, BroadcastTerm<T>{a, x}, a, scratch, scratch + planes);
    launch("shard::product_sums_folded", space, loops.items(2),
           FoldPlanesKernel{loops, sums, places, scratch, a.channels});
  }
}

template <class T>
struct StoreSumsKernel {
  RowSplit split;
  Block<T> to;
  const double* sums;
  bool adds;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r    = split.row(item);
    const Line<T> y = line_of(to, r);
    const double* const from =
        sums +
        (((r.n * to.channels + r.c) * to.extent(0) + r.z) * to.extent(1) + r.y) * to.extent(2) +
        r.x;
    for (index_t i = 0; i < r.count; ++i) {
      T& value = y.cells[i * y.step];
      value    = adds ? value + static_cast<T>(from[i]) : static_cast<T>(from[i]);
    }
  }
};

template <class Space, class T>
void BroadcastKernels<Space, T>::store(const Space& space, const Block<T>& to, const double* sums,
                                       bool adds) {
  const RowSplit split = RowSplit::of(space, to);
  launch("shard::store_sums", space, split.items(), StoreSumsKernel<T>{split, to, sums, adds});
}

SHARD_KERNELS(BroadcastKernels)

}  // namespace shard::impl
