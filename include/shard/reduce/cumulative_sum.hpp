// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_CUMULATIVE_SUM_HPP
#define SHARD_REDUCE_CUMULATIVE_SUM_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>

#include "shard/base/impl/launch.hpp"
#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/reduce/reductions.hpp"

namespace shard {

namespace impl {

/// The ranks before and after this one along a dimension of a field, without those that own nothing
/// there; ranks of the mesh, -1 for none.
struct ChainPlace {
  MeshState* mesh = nullptr;
  int before = -1, after = -1;
};
/// Throws ArgumentError on every rank unless it is a dimension of the field. `reverse`: from the
/// last element on.
ChainPlace chain_place(const char* function, const Geometry& field, int dim, bool reverse);

/// What ranks hand on along a dimension. `Space` is an enabled execution space.
template <class Space>
class ChainMessages {
 public:
  /// Collective over the mesh the first time.
  explicit ChainMessages(const ChainPlace& place);
  /// Receives 8-byte values from the rank before, or sends them to the one after, in the order of
  /// `space`; nothing without such a rank.
  void receive(const Space& space, void* values, index_t count) const;
  void send(const Space& space, void* values, index_t count) const;

 private:
  void run(const Space& space, void* values, index_t count, bool sends) const;
  ChainPlace place_;
  std::shared_ptr<CachedPlan> group_;
};

/// The owned elements of two fields as lines along one dimension: the others' extents and strides,
/// the last the fastest.
struct ScanLines {
  index_t extent[max_rank] = {1, 1, 1, 1, 1, 1};
  index_t to[max_rank] = {}, from[max_rank] = {};  ///< strides
  index_t length = 0, to_step = 0, from_step = 0;  ///< along the lines; backwards if negative

  index_t lines() const {
    index_t n = 1;
    for (const index_t e : extent) n *= e;
    return n;
  }
};

/// Lines that a work item adds side by side, so that a host's loops are vectorised and read memory
/// in order.
template <class Space>
inline constexpr int scan_width = is_host_space_v<Space> ? 32 : 1;

/// Adds up lines from `first` on; `carry` has the sums before them, and then those after them.
template <class T, class Sum, int Width>
struct ScanKernel {
  ScanLines lines;
  T* to;
  const T* from;
  Sum* carry;
  index_t first, end;
  bool from_zero;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t line = first + item * Width;
    const auto count   = static_cast<int>(end - line < Width ? end - line : Width);
    index_t at_to[Width], at_from[Width];
    Sum sum[Width] = {};
    for (int l = 0; l < count; ++l) {
      at_to[l] = at_from[l] = 0;
      index_t rest          = line + l;
      for (int d = max_rank - 1; d >= 0; --d) {
        const index_t i = rest % lines.extent[d];
        rest /= lines.extent[d];
        at_to[l] += i * lines.to[d];
        at_from[l] += i * lines.from[d];
      }
      if (!from_zero) sum[l] = carry[line + l];
    }
    if (count == Width && at_to[Width - 1] - at_to[0] == Width - 1 &&
        at_from[Width - 1] - at_from[0] == Width - 1) {
      T* y       = to + at_to[0];
      const T* x = from + at_from[0];
      for (index_t i = 0; i < lines.length; ++i, y += lines.to_step, x += lines.from_step)
        for (int l = 0; l < Width; ++l) {
          sum[l] += static_cast<Sum>(x[l]);
          y[l] = static_cast<T>(sum[l]);
        }
    } else {
      for (index_t i = 0; i < lines.length; ++i)
        for (int l = 0; l < count; ++l) {
          sum[l] += static_cast<Sum>(from[at_from[l] + i * lines.from_step]);
          to[at_to[l] + i * lines.to_step] = static_cast<T>(sum[l]);
        }
    }
    for (int l = 0; l < count; ++l) carry[line + l] = sum[l];
  }
};

/// The lines of two fields along `dim`, and their first elements.
template <class Y, class X, class T>
ScanLines scan_lines(const Y& y, const X& x, int dim, bool reverse, T*& to, const T*& from) {
  ScanLines lines;
  for (int d = 0; d < Y::rank; ++d) {
    if (d == dim) continue;
    const int at     = run_dim<Y>(d);
    lines.extent[at] = y.extent(d);
    lines.to[at]     = y.stride(d);
    lines.from[at]   = x.stride(d);
  }
  lines.length    = y.extent(dim);
  lines.to_step   = y.stride(dim);
  lines.from_step = x.stride(dim);
  to              = y.origin();
  from            = x.origin();
  if (reverse && lines.length > 0) {
    to += (lines.length - 1) * lines.to_step;
    from += (lines.length - 1) * lines.from_step;
    lines.to_step   = -lines.to_step;
    lines.from_step = -lines.from_step;
  }
  return lines;
}

template <class Space, class Y, class X>
void scan(const char* function, const Space& space, const Y& y, const X& x, int dim, bool reverse) {
  using T = typename X::non_const_value_type;
  static_assert(check_reduced<X>() && std::is_same_v<typename Y::value_type, T>,
                "the sums are written to a field of the same value type that isn't const");
  using Sum        = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  const auto place = chain_place(function, x.geometry(), dim, reverse);
  check_alike(function, y, x);
  T* to                 = nullptr;
  const T* from         = nullptr;
  const ScanLines lines = scan_lines(y, x, dim, reverse, to, from);
  const index_t count   = lines.lines();
  const ChainMessages<Space> chain(place);
  if (count == 0 || lines.length == 0) return;
  constexpr int width = scan_width<Space>;
  const auto scratch  = ReductionScratch<typename Y::memory_space>::of(*y.geometry().mesh);
  Sum* const carry    = scratch->template reserve<Sum>(count).data();
  // in pieces, so that the ranks after this one need not wait for all of it
  constexpr index_t least = 1024, most = 8;
  const bool alone     = place.before < 0 && place.after < 0;
  const index_t pieces = alone ? 1 : Kokkos::clamp<index_t>(count / least, 1, most);
  for (index_t p = 0; p < pieces; ++p) {
    const index_t first = count * p / pieces, end = count * (p + 1) / pieces;
    chain.receive(space, carry + first, end - first);
    launch("shard::cumulative_sum", space, (end - first + width - 1) / width,
           ScanKernel<T, Sum, width>{lines, to, from, carry, first, end, place.before < 0});
    chain.send(space, carry + first, end - first);
  }
}

}  // namespace impl

/// y[i] is the sum of x[0] to x[i] in dimension `dim`, sharded or not; with `reverse` that of x[i]
/// to x[n - 1]. NumPy's cumulative_sum, an operation for a tape.
///
/// Sums are in double (integers modulo 2^64), added in the order of the elements: the bits are
/// those of a loop, for every partition and mesh. Along a sharded dimension each rank waits for the
/// one before, in up to eight pieces; they send one message for each piece. y and x have the same
/// partitions; y may be x. Halos are neither read nor written. Copies of elements (NorthFold,
/// blocks) count as elements. Collective over the mesh; the result is in the order of `space`.
/// Throws ArgumentError on every rank for a dimension that doesn't exist, or other partitions.
struct CumulativeSum {
  static constexpr bool takes_not_wanted = true;   ///< dx may be not_wanted
  int dim                                = 0;      ///< the dimension
  bool reverse                           = false;  ///< from the last element on

  /// Computes y's owned elements.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::scan("CumulativeSum", space, y, x, dim, reverse);
    mark_written(space, y);
  }
  /// The tangent: the operation itself.
  template <class Space, AnyShardedView TY, AnyShardedView TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    apply(space, ty, tx);
  }
  /// Sets dx's owned elements: the sums of dy from the other end.
  template <class Space, class DX, AnyShardedView DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    if constexpr (is_wanted_v<DX>) impl::scan("CumulativeSum", space, dx, dy, dim, !reverse);
  }
};

}  // namespace shard

#endif
