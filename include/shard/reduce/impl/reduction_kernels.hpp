// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_REDUCTION_KERNELS_HPP
#define SHARD_REDUCE_IMPL_REDUCTION_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "shard/base/impl/team_sums.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
#include "shard/reduce/impl/folded_sum.hpp"
#include "shard/reduce/impl/reduction_accumulator.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/impl/local_field.hpp"
#include "shard/view/index_map.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

/// Throws ArgumentError, on every rank, unless both fields have the same elements on the same
/// ranks.
void require_reduced_alike(std::string_view function, const Geometry& a, const Geometry& b);
/// Throws ArgumentError, on every rank, if the field has no element on any rank.
void require_cells(std::string_view function, const Geometry& geometry);
/// Collective: throws ArgumentError on every rank unless each has a weight for each of its rows.
void require_row_weights(std::string_view function, const Geometry& geometry, int dim,
                         index_t weights);

/// Owned elements that are copies of others. Of a NorthFold: those with index `row` in dimension
/// `fold` and an index in one of the ascending ranges [begin, end) in dimension `along`. Over
/// blocks: those whose `mask` isn't 0. None if `fold` is negative and `mask` is null.
struct Copies {
  int fold = -1, along = -1;
  index_t row      = 0;
  index_t begin[2] = {}, end[2] = {};
  const std::uint8_t* mask      = nullptr;
  index_t mask_stride[max_rank] = {};

  bool any() const { return fold >= 0 || mask != nullptr; }
  KOKKOS_FUNCTION bool has(index_t i) const {
    return (i >= begin[0] && i < end[0]) || (i >= begin[1] && i < end[1]);
  }
  /// Whether the element at these indices is a copy.
  KOKKOS_FUNCTION bool has(const index_t* index) const {
    constexpr int inner = max_rank - 1;
    bool is_copy        = true;
    parts(inner, index, index[inner], index[inner] + 1, [&](index_t, index_t) { is_copy = false; });
    return is_copy;
  }
  /// Calls part(first, last) for the parts of a line [first, last) along dimension `inner` that
  /// aren't copies; `index` is that of its first element.
  template <class Part>
  KOKKOS_FORCEINLINE_FUNCTION void parts(int inner, const index_t* index, index_t first,
                                         index_t last, const Part& part) const {
    if (mask != nullptr) return unmasked(inner, index, first, last, part);
    if (fold < 0 || (fold != inner && index[fold] != row)) return part(first, last);
    if (inner != along) {
      // a row with copies is the last one
      if (has(index[along])) last = fold != inner ? first : last < row ? last : row;
      if (first < last) part(first, last);
      return;
    }
    for (int k = 0; k < 2; ++k) {
      const index_t until = begin[k] < last ? begin[k] : last;
      if (end[k] <= begin[k] || end[k] <= first) continue;
      if (first < until) part(first, until);
      first = end[k];
    }
    if (first < last) part(first, last);
  }

 private:
  template <class Part>
  KOKKOS_FUNCTION void unmasked(int inner, const index_t* index, index_t first, index_t last,
                                const Part& part) const {
    const std::uint8_t* line = mask;
    for (int d = 0; d < max_rank; ++d)
      if (d != inner) line += index[d] * mask_stride[d];
    const index_t step = mask_stride[inner];
    while (first < last) {
      while (first < last && line[first * step] != 0) ++first;
      index_t until = first;
      while (until < last && line[until * step] == 0) ++until;
      if (first < until) part(first, until);
      first = until;
    }
  }
};

/// A rank's owned elements in memory order, divided into runs of `length` elements (the last one
/// shorter). Always max_rank dimensions, the last the fastest; leading ones have extent 1.
struct CellRuns {
  index_t extent[max_rank] = {1, 1, 1, 1, 1, 1};
  index_t cells            = 1;
  index_t length           = 1;
  Copies copies{};  ///< elements that are left out

  index_t runs() const { return (cells + length - 1) / length; }

  /// Calls line(offset in x, offset in y, cells) for each part of a line of elements in a run,
  /// without copies.
  template <class X, class Y, class Line>
  KOKKOS_FORCEINLINE_FUNCTION void lines(index_t run, const X& x, const Y& y,
                                         const Line& line) const {
    constexpr int inner     = max_rank - 1;
    index_t left            = cells - run * length;
    index_t index[max_rank] = {}, at_x = 0, at_y = 0, rest = run * length;
    if (left > length) left = length;
    for (int d = inner; d >= 0 && rest > 0; --d) {
      index[d] = rest % extent[d];
      rest /= extent[d];
      at_x += index[d] * x.stride[d];
      at_y += index[d] * y.stride[d];
    }
    while (left > 0) {
      index_t count = extent[inner] - index[inner];
      if (count > left) count = left;
      const index_t first = index[inner];
      copies.parts(inner, index, first, first + count, [&](index_t begin, index_t end) {
        line(at_x + (begin - first) * x.stride[inner], at_y + (begin - first) * y.stride[inner],
             end - begin);
      });
      left -= count;
      at_x -= index[inner] * x.stride[inner];
      at_y -= index[inner] * y.stride[inner];
      index[inner] = 0;
      for (int d = inner - 1; d >= 0; --d) {
        at_x += x.stride[d];
        at_y += y.stride[d];
        if (++index[d] < extent[d]) break;
        at_x -= extent[d] * x.stride[d];
        at_y -= extent[d] * y.stride[d];
        index[d] = 0;
      }
    }
  }

  /// Calls visit(offset in x, offset in y) for each element of a run.
  template <class X, class Y, class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void visit(index_t run, const X& x, const Y& y,
                                         const Visit& visit) const {
    constexpr int inner = max_rank - 1;
    lines(run, x, y, [&](index_t at_x, index_t at_y, index_t count) {
      for (index_t i = 0; i < count; ++i)
        visit(at_x + i * x.stride[inner], at_y + i * y.stride[inner]);
    });
  }
};

/// One value for each element, indexed as CellRuns; a stride of zero repeats a value.
template <class T>
struct CellValues {
  T* origin                = nullptr;
  index_t stride[max_rank] = {};
};

/// The same elements in the same order as a three-dimensional box, so that the elements of a run of
/// `length` are near each other; none if that is impossible.
template <class A, class B>
std::optional<BoxStrides<2>> box_of_runs(CellRuns runs, CellValues<A> a, CellValues<B> b,
                                         index_t length) {
  if (runs.copies.any()) return std::nullopt;
  int at = max_rank - 1;
  for (int d = max_rank - 2; d >= 0; --d) {
    const index_t n = runs.extent[d];
    if (n == 1) continue;
    const bool joins = runs.extent[at] == 1 || (a.stride[d] == runs.extent[at] * a.stride[at] &&
                                                b.stride[d] == runs.extent[at] * b.stride[at]);
    if (joins && runs.extent[at] != 1) {
      runs.extent[at] *= n;
    } else {
      if (!joins) --at;
      runs.extent[at] = n;
      a.stride[at]    = a.stride[d];
      b.stride[at]    = b.stride[d];
    }
    if (d != at) runs.extent[d] = 1;
  }
  constexpr int first = max_rank - 3, last = max_rank - 1;
  if (at < first) return std::nullopt;
  const bool long_line = at == last && runs.extent[last] >> 31 != 0;
  if (long_line) {  // divided into planes of lines of 2^20 elements
    constexpr index_t part = index_t{1} << 20;
    runs.extent[last - 1] = runs.extent[last] = part;
    const auto widen                          = [](index_t* stride) {
      stride[last - 1] = part * stride[last];
      stride[first]    = part * stride[last - 1];
    };
    widen(a.stride);
    widen(b.stride);
  }
  BoxStrides<2> box{};
  for (int d = 0; d < 3; ++d) {
    box.extent[d]    = runs.extent[first + d];
    box.stride[0][d] = a.stride[first + d];
    box.stride[1][d] = b.stride[first + d];
  }
  box = box.merged();
  if (!box.are_short(length)) return std::nullopt;
  return box;
}

/// The position of dimension d of a field among CellRuns' dimensions.
template <class Field>
constexpr int run_dim(int d) {
  return std::is_same_v<typename Field::layout, Kokkos::LayoutLeft> ? max_rank - 1 - d
                                                                    : max_rank - Field::rank + d;
}

/// The copies of points that several blocks have, of a field's block dimension: a mask of this
/// rank's blocks. Cached in the mesh.
template <class Memory>
class BlockCopies : public CachedPlan {
 public:
  static std::shared_ptr<BlockCopies> of(const Geometry& geometry, int block) {
    const DimGeometry& dim = geometry.dims[Geometry::at(block)];
    const PlanKey key{
        std::is_same_v<Memory, Kokkos::HostSpace> ? 0x736861726564ULL : 0x736861726565ULL,
        dim.partition.hash(hash_seed)};
    if (auto found = std::static_pointer_cast<BlockCopies>(geometry.mesh->find(key))) return found;
    auto made        = std::make_shared<BlockCopies>();
    made->partition_ = dim.partition;
    made->share      = share_of_owners(dim.partition);
    const auto mask  = mask_of_copies(dim.partition, dim.coordinate);
    made->mask       = Kokkos::View<std::uint8_t*, Memory>(
        Kokkos::view_alloc("shard::copies", Kokkos::WithoutInitializing), mask.size());
    Kokkos::deep_copy(
        made->mask, Kokkos::View<const std::uint8_t*, Kokkos::HostSpace>(mask.data(), mask.size()));
    geometry.mesh->keep(KeptKind::operand, key, made);
    return made;
  }
  std::size_t bytes() const override { return mask.size(); }

  Kokkos::View<std::uint8_t*, Memory> mask;  ///< [block][y][x]; 0: an owner
  double share = 1;                          ///< of owners among the points of all ranks

 private:
  Partition partition_;
};

/// The dimensions of a field over blocks; -1 if there are none.
struct BlockDims {
  int block = -1, y = -1, x = -1;
};
template <class Field>
constexpr BlockDims block_dims() {
  BlockDims dims;
  for (int d = 0; d < Field::rank; ++d) {
    const DimType& type = FieldTypeOf<Field>::types[Geometry::at(d)];
    if (type.blocks != nullptr) dims.block = d;
    if (type.low.kind == BoundaryKind::linked_y) dims.y = d;
    if (type.low.kind == BoundaryKind::linked_x) dims.x = d;
  }
  return dims;
}
/// Whether fields of this type may have copies among their owned elements.
template <class Field>
inline constexpr bool may_have_copies_v = [] {
  bool may = block_dims<Field>().block >= 0;
  for (const DimType& type : FieldTypeOf<Field>::types) may = may || shares_row(type.high.kind);
  return may;
}();

/// This rank's copies of elements, in the last row of a NorthFold or on the edges of blocks.
template <class Field>
Copies copies_of(const Field& f) {
  Copies copies;
  constexpr BlockDims dims = block_dims<Field>();
  if constexpr (dims.block >= 0) {
    if (!has_shared_points(f.any_geometry(), dims.block)) return copies;
    copies.mask =
        BlockCopies<typename Field::memory_space>::of(f.any_geometry(), dims.block)->mask.data();
    copies.mask_stride[run_dim<Field>(dims.x)]     = 1;
    copies.mask_stride[run_dim<Field>(dims.y)]     = f.extent(dims.x);
    copies.mask_stride[run_dim<Field>(dims.block)] = f.extent(dims.x) * f.extent(dims.y);
  }
  for (int d = 0; d < Field::rank; ++d) {
    const BoundarySide& high = FieldTypeOf<Field>::types[Geometry::at(d)].high;
    const index_t row        = f.global_extent(d) - 1 - f.begin(d);
    if (!shares_row(high.kind) || row < 0 || row >= f.extent(d)) continue;
    const int l   = high.longitude;
    copies.fold   = run_dim<Field>(d);
    copies.along  = run_dim<Field>(l);
    copies.row    = row;
    const auto in = copied_longitudes(high, f.global_extent(l));
    for (int k = 0; k < 2; ++k) {
      copies.begin[k] = in.begin[k] - f.begin(l);
      copies.end[k]   = in.end[k] - f.begin(l);
    }
  }
  return copies;
}

template <class Field>
CellRuns cell_runs(const Field& f, index_t length) {
  CellRuns runs;
  for (int d = 0; d < Field::rank; ++d) {
    runs.extent[run_dim<Field>(d)] = f.extent(d);
    runs.cells *= f.extent(d);
  }
  runs.length = length;
  runs.copies = copies_of(f);
  return runs;
}

/// The elements of `f`, visited in the order of a `Like`.
template <class Like, class Field>
CellValues<typename Field::value_type> cell_values(const Field& f) {
  CellValues<typename Field::value_type> values;
  values.origin = f.origin();
  for (int d = 0; d < Field::rank; ++d) values.stride[run_dim<Like>(d)] = f.stride(d);
  return values;
}

template <class T>
CellValues<const T> as_const(const CellValues<T>& v) {
  CellValues<const T> c;
  c.origin = v.origin;
  for (int d = 0; d < max_rank; ++d) c.stride[d] = v.stride[d];
  return c;
}

/// Calls use(x) with doubles whose exact sum is `a`: two for a 64-bit integer.
template <class A, class Use>
KOKKOS_FORCEINLINE_FUNCTION void for_doubles(A a, const Use& use) {
  if constexpr (std::is_integral_v<A> && sizeof(A) == 8) {
    const A low = a & A(0xffffffff);
    use(static_cast<double>(a - low));
    use(static_cast<double>(low));
  } else {
    use(static_cast<double>(a));
  }
}

/// The terms of a sum: left(a), or the products left(a) right(b).
struct ValueTerm {
  static constexpr bool is_product = false;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return static_cast<double>(a);
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    return static_cast<Sum>(a);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    for_doubles(a, [&](double x) { ExactSum::add(sum, x); });
  }
};
struct MagnitudeTerm {
  static constexpr bool is_product = false;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return Kokkos::fabs(static_cast<double>(a));
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    return Kokkos::fabs(static_cast<Sum>(a));
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    for_doubles(a, [&](double x) { ExactSum::add(sum, a < A(0) ? -x : x); });
  }
};
struct ProductTerm {
  static constexpr bool is_product = true;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return static_cast<double>(a);
  }
  template <class B>
  KOKKOS_FORCEINLINE_FUNCTION double right(B b) const {
    return static_cast<double>(b);
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B b) const {
    return static_cast<Sum>(a) * static_cast<Sum>(b);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B b) const {
    for_doubles(
        a, [&](double x) { for_doubles(b, [&](double y) { ExactSum::add_product(sum, x, y); }); });
  }
};
/// 1 if a element has a value, or that magnitude, else 0.
template <class T>
struct CountTerm {
  T value;
  bool magnitude;
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    T x = static_cast<T>(a);
    if constexpr (std::is_floating_point_v<T>)
      if (magnitude) x = Kokkos::fabs(x);
    return x == value ? Sum(1) : Sum(0);
  }
};

/// sums[run] = the sum of a run's terms. Several accumulators are interleaved along each line, so
/// that compilers vectorise the loop.
template <class Term, class Sum, class A, class B, int Lanes>
struct SumRunsKernel {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  Sum* sums;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    const index_t step_a = a.stride[max_rank - 1], step_b = b.stride[max_rank - 1];
    Sum sum[Lanes] = {};
    runs.lines(run, a, b, [&](index_t i, index_t j, index_t count) {
      if (step_a == 1 && step_b == 1)
        add(sum, a.origin + i, b.origin + j, count, One{}, One{});
      else
        add(sum, a.origin + i, b.origin + j, count, step_a, step_b);
    });
    for (int half = Lanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) sum[l] += sum[l + half];
    sums[run] = sum[0];
  }

 private:
  struct One {
    KOKKOS_FUNCTION constexpr operator index_t() const { return 1; }
  };

  template <class StepA, class StepB>
  KOKKOS_FORCEINLINE_FUNCTION void add(Sum (&sum)[Lanes], const A* x, const B* y, index_t count,
                                       StepA step_a, StepB step_b) const {
    index_t i      = 0;
    const auto one = [&](int l) {
      sum[l] += what.template term<Sum>(x[(i + l) * step_a], y[(i + l) * step_b]);
    };
    for (; i + Lanes <= count; i += Lanes)
      for (int l = 0; l < Lanes; ++l) one(l);
    const int rest = static_cast<int>(count - i);
    for (int l = 0; l < rest; ++l) one(l);
  }
};

/// sums[team] = the sum of a run's terms, on a device: by a team, with consecutive threads on
/// consecutive elements.
template <class Term, class Sum, class A, class B>
struct SumRunsTeamKernel {
  CellRuns runs;
  BoxCells<2, int> cells;
  Term what;
  const A* a;
  const B* b;
  Sum* sums;

  struct Pair {
    A x;
    B y;
  };
  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const index_t begin = static_cast<index_t>(team.league_rank()) * runs.length;
    const index_t end   = begin + runs.length < runs.cells ? begin + runs.length : runs.cells;
    Sum sum[1]          = {};
    for_own_cells(
        cells, begin + team.team_rank(), end, team.team_size(),
        [&](const BoxCells<2, int>::Cell& cell) {
          return Pair{a[cell.offset[0]], b[cell.offset[1]]};
        },
        [&](const Pair& pair) { sum[0] += what.template term<Sum>(pair.x, pair.y); });
    team_sum(team, team_memory<Sum>(team, team.team_size()), sum);
    if (team.team_rank() == 0) sums[team.league_rank()] = sum[0];
  }
};

/// *whole = the sums of all runs, by one team.
template <class Sum>
struct SumTeamsKernel {
  const Sum* sums;
  index_t runs;
  Sum* whole;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    Sum sum[1] = {};
    for (index_t r = team.team_rank(); r < runs; r += team.team_size()) sum[0] += sums[r];
    team_sum(team, team_memory<Sum>(team, team.team_size()), sum);
    if (team.team_rank() == 0) *whole = sum[0];
  }
};

/// sums[run] = the exact sum of a run's terms, for a device.
template <class Term, class A, class B>
struct ExactRunsKernel {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  index_t* sums;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    constexpr index_t doubles = 4;  // per term: a 64-bit integer is two doubles
    index_t* const sum        = sums + run * ExactSum::width;
    index_t terms             = 0;
    ExactSum::clear(sum);
    runs.visit(run, a, b, [&](index_t i, index_t j) {
      what.add(sum, a.origin[i], b.origin[j]);
      if (++terms % (ExactSum::most_terms / doubles) == 0) ExactSum::carry(sum);
    });
    ExactSum::carry(sum);
  }
};

/// The same on a host, with few, long work items.
template <class Term, class A, class B>
struct FoldedRuns {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  index_t* sums;

  void operator()(index_t run) const {
    const index_t step_a = a.stride[max_rank - 1], step_b = b.stride[max_rank - 1];
    FoldedSum sum(sums + run * ExactSum::width);
    double left[FoldedSum::block], right[FoldedSum::block];
    index_t filled = 0;
    runs.lines(run, a, b, [&](index_t i, index_t j, index_t count) {
      const A* const x = a.origin + i;
      const B* const y = b.origin + j;
      for (index_t c = 0; c < count;) {
        index_t some = FoldedSum::block - filled;
        if (some > count - c) some = count - c;
        for (index_t n = 0; n < some; ++n) {
          left[filled + n] = what.left(x[(c + n) * step_a]);
          if constexpr (Term::is_product) right[filled + n] = what.right(y[(c + n) * step_b]);
        }
        c += some;
        filled += some;
        if (filled == FoldedSum::block) add(sum, left, right, filled);
      }
    });
    add(sum, left, right, filled);
    sum.finish();
  }

 private:
  static void add(FoldedSum& sum, const double* left, const double* right, index_t& filled) {
    if constexpr (Term::is_product)
      sum.add_products(left, right, filled);
    else
      sum.add(left, filled);
    filled = 0;
  }
};

/// whole[digit] = that digit of all runs, of one or several exact sums; added to what is there if
/// `adds`.
struct MergeDigitsKernel {
  const index_t* sums;
  index_t runs, digits;
  bool adds;
  index_t* whole;

  KOKKOS_FUNCTION void operator()(index_t digit) const {
    index_t sum = adds ? whole[digit] : 0;
    for (index_t r = 0; r < runs; ++r) sum += sums[r * digits + digit];
    whole[digit] = sum;
  }
};

/// The kind of extremum.
enum class Extremum : std::uint8_t { least, greatest, greatest_magnitude };

/// The extremum of two values. NaN takes precedence, and -0 is less than +0, so the result doesn't
/// depend on the order.
template <class T>
KOKKOS_INLINE_FUNCTION T pick(Extremum which, T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  const bool least = which == Extremum::least;
  if (a < b) return least ? a : b;
  if (b < a) return least ? b : a;
  if constexpr (std::is_floating_point_v<T>) return Kokkos::signbit(a) == least ? a : b;
  return a;
}

/// values[run] = the extremum of a run.
template <class T, class A>
struct ExtremumRunsKernel {
  CellRuns runs;
  Extremum which;
  CellValues<const A> a;
  T* values;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    // of a run of copies: the value that loses against any other
    T best = which == Extremum::least      ? Kokkos::reduction_identity<T>::min()
             : which == Extremum::greatest ? Kokkos::reduction_identity<T>::max()
                                           : T(0);
    runs.visit(run, a, a, [&](index_t i, index_t) {
      T x = static_cast<T>(a.origin[i]);
      if constexpr (std::is_floating_point_v<T>)
        if (which == Extremum::greatest_magnitude) x = Kokkos::fabs(x);
      best = pick(which, best, x);
    });
    values[run] = best;
  }
};

/// The factor of a constant gradient.
struct ConstantRule {
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A) const {
    return 1.0;
  }
};
struct SignRule {
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    return a != a ? static_cast<double>(a) : a > A(0) ? 1.0 : a < A(0) ? -1.0 : 0.0;
  }
};
struct ValueRule {
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    return static_cast<double>(a);
  }
};
/// 1 where the value is the extremum, with its sign for a magnitude.
template <class T>
struct ExtremumRule {
  T value;
  bool magnitude;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    const T x = static_cast<T>(a);
    if (x == value) return 1.0;
    if constexpr (std::is_floating_point_v<T>)
      if (magnitude && x == -value) return -1.0;
    return 0.0;
  }
};

/// gradient = scale (rule(a) - offset); 0 if the second factor is 0, also for an infinite or NaN
/// scale.
template <class Rule, class D, class A>
struct ReductionGradientKernel {
  CellRuns runs;
  Rule rule;
  CellValues<D> gradient;
  CellValues<const A> a;
  double scale, offset;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    runs.visit(run, gradient, a, [&](index_t to, index_t i) {
      const double f      = rule.at(a.origin[i]) - offset;
      gradient.origin[to] = f == 0.0 ? D(0) : static_cast<D>(scale * f);
    });
  }
};

}  // namespace shard::impl

#endif
