// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_LIBRARY_PRODUCT_HPP
#define SHARD_SRC_LAYERS_LIBRARY_PRODUCT_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "product.hpp"
#include "shard/base/impl/divisor.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/config.hpp"
#include "vendor.hpp"
#ifdef SHARD_ENABLE_KERNELS
#include <KokkosBlas3_gemm.hpp>
#endif

/// \file
/// Matrix products by Kokkos Kernels, which calls cuBLAS or rocBLAS, or by the vendor's library on
/// request. The library chooses the order in which it adds, and the order may depend on the
/// extents. The same call gives the same bits; another partition may give others.

namespace shard::impl {

/// The one step of merged dimensions, if they have one.
inline std::optional<index_t> step_of(const Offsets& o) {
  std::optional<index_t> step;
  index_t count = 1;
  for (int d = o.dims - 1; d >= 0; --d) {
    if (o.extent[d] == 1) continue;
    if (!step) step = o.stride[d];
    if (o.stride[d] != count * *step) return std::nullopt;
    count *= o.extent[d];
  }
  return step.value_or(1);
}

/// c(i, j) = start(i): a thread sets a few `slow` elements, consecutive threads consecutive `fast`
/// ones.
template <class T>
struct StartProductKernel {
  static constexpr index_t some = 8;
  T* c;
  const T* start;
  index_t c_slow, c_fast, start_slow, start_fast, slow_count;
  Divisor fast;

  index_t items() const { return (slow_count + some - 1) / some * fast.divisor; }
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto number         = static_cast<std::uint32_t>(item);
    const std::uint32_t group = fast.quotient(number), at = number - group * fast.divisor;
    const index_t first = group * some, end = first + some < slow_count ? first + some : slow_count;
    for (index_t slow = first; slow < end; ++slow)
      c[slow * c_slow + at * c_fast] = start[slow * start_slow + at * start_fast];
  }
};

/// c(i, j) = start(i). `c_column` is the one step of j. Returns false if there are too many
/// elements.
template <class Space, class T>
bool start_product(const Space& space, const Product<T>& p, index_t c_column) {
  if (p.rows * p.columns >> 31 != 0) return false;
  const bool rows_fast = p.c_row == 1;
  const StartProductKernel<T> set =
      rows_fast ? StartProductKernel<T>{p.c, p.start,     c_column,  1,
                                        0,   p.start_row, p.columns, Divisor::of(p.rows)}
                : StartProductKernel<T>{p.c,         p.start, p.c_row, c_column,
                                        p.start_row, 0,       p.rows,  Divisor::of(p.columns)};
  launch("shard::product_start", space, set.items(), set);
  return true;
}

/// Computes a product by the vendor's library, or returns false.
template <class Space, class T>
bool multiply_by_vendor(const Space& space, const Product<T>& p) {
  if constexpr (has_vendor_v<Space, T>) {
    if (!uses_vendor<Space, T>() || !has_vendor_products()) return false;
    std::optional<VendorProduct> v = VendorProduct::of(p);
    if (!v) return false;
    VendorProductPlan* const plan = vendor_product_plan(*v, product_precision());
    if (plan == nullptr) return false;
    if (p.start != nullptr && v->bias == nullptr) {
      const bool batched    = v->count > 1 && !v->sums;
      const index_t batches = batched ? v->count : 1;
      Product<T> part       = p;
      part.columns          = p.columns / batches;
      for (index_t i = 0; i < batches; ++i) {
        part.c = p.c + i * v->batch_d;
        if (!start_product(space, part, v->c_column)) return false;
      }
      v->add = true;
    }
    run_vendor_product(space, *plan, *v);
    return true;
  }
  return false;
}

#ifdef SHARD_ENABLE_KERNELS
inline constexpr bool has_library_products = true;

/// A matrix in memory, or its transpose, as a View whose rows are contiguous.
template <class T, class Space>
struct LibraryMatrix {
  using View =
      Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::Device<Space, typename Space::memory_space>,
                   Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  View view;
  const char* mode;  ///< "N", or "T" if the View is the transpose

  /// Element (i, j) of `rows` x `columns` is at origin[i * row + j * column].
  static std::optional<LibraryMatrix> of(T* origin, index_t rows, index_t columns, index_t row,
                                         index_t column) {
    const auto make = [&](index_t lines, index_t length, index_t pitch, const char* mode) {
      const View whole(origin, static_cast<std::size_t>(lines), static_cast<std::size_t>(pitch));
      return LibraryMatrix{
          Kokkos::subview(whole, Kokkos::ALL,
                          std::pair<std::size_t, std::size_t>(0, static_cast<std::size_t>(length))),
          mode};
    };
    constexpr index_t most = std::numeric_limits<int>::max();
    if (rows > most || columns > most || row > most || column > most) return std::nullopt;
    if (column == 1 && row >= columns) return make(rows, columns, row, "N");
    if (row == 1 && column >= rows) return make(columns, rows, column, "T");
    return std::nullopt;
  }
};

/// Computes a product of plain matrices by Kokkos Kernels, or returns false.
template <class Space, class T>
bool multiply_by_kernels(const Space& space, const Product<T>& p) {
  // Smaller ones aren't worth a call, and Kokkos Kernels adds some of them by atomics.
  constexpr index_t least = 32;
  if (std::min({p.rows, p.columns, p.terms}) < least) return false;
  const auto c_column = step_of(p.c_column), b_column = step_of(p.b_column),
             a_term = step_of(p.a_term), b_term = step_of(p.b_term);
  if (!c_column || !b_column || !a_term || !b_term) return false;
  using To     = LibraryMatrix<T, Space>;
  using From   = LibraryMatrix<const T, Space>;
  const auto a = From::of(p.a, p.rows, p.terms, p.a_row, *a_term);
  const auto b = From::of(p.b, p.terms, p.columns, *b_term, *b_column);
  const auto c = To::of(p.c, p.rows, p.columns, p.c_row, *c_column);
  if (!a || !b || !c) return false;
  if (p.start != nullptr && !start_product(space, p, *c_column)) return false;
  const T beta            = p.add || p.start != nullptr ? T(1) : T(0);
  const auto other        = [](const char* mode) { return *mode == 'N' ? "T" : "N"; };
  const bool is_transpose = *c->mode == 'T';  // c' = b' a'
  if (is_transpose)
    KokkosBlas::gemm(space, other(b->mode), other(a->mode), T(1), b->view, a->view, beta, c->view);
  else
    KokkosBlas::gemm(space, a->mode, b->mode, T(1), a->view, b->view, beta, c->view);
  return true;
}
#else
inline constexpr bool has_library_products = false;
template <class Space, class T>
bool multiply_by_kernels(const Space&, const Product<T>&) {
  return false;
}
#endif

/// Computes a product by the library that was asked for or built in, or returns false.
template <class Space, class T>
bool multiply_by_library(const Space& space, const Product<T>& p) {
  return multiply_by_vendor(space, p) || multiply_by_kernels(space, p);
}

}  // namespace shard::impl

#endif
