// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_REARRANGE_HPP
#define SHARD_REDISTRIBUTE_REARRANGE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/impl/moved_fields.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/view/impl/host_points.hpp"

/// \file
/// Operations that put the elements of one dimension, sharded or not, in other places: Roll, Flip,
/// Slice, IndexSelect, Split, Concatenate, with the meanings of NumPy and PyTorch. For fields of
/// any partitions over the same mesh axes, by one message for each pair of ranks.
///
/// All are linear and have the protocol of a tape's operations: `apply(space, y, x)` writes y's
/// owned points (halos are neither read nor written), `pushforward(space, ty, tx)` is the same, and
/// `pullback(space, dx, dy)` sets dx's owned points to the transpose of dy; where several elements
/// of y are one of x, their cotangents are added in the order of y, for any partitions. `output(x)`
/// makes a new y. Each is collective over the mesh where its plan has to be made, as
/// `redistribute`; the result is in the order of `space`. Throws ArgumentError on every rank,
/// before anything moves, for a dimension that doesn't exist, extents that don't fit, or a y with
/// memory of x; AgreementError if the ranks' fields or numbers differ (compared when a plan is
/// made).
///
///   const shard::Roll east{3, 20};
///   auto moved = east.output(t);
///   east.apply(space, moved, t);  // moved(.., j) = t(.., j - 20), around the globe

namespace shard {

namespace impl {

/// Throws ArgumentError unless `dim` is a dimension.
void require_dimension(const char* function, int dim, int rank);
/// Throws ArgumentError unless `to` has `extent` elements in dimension `dim`, and those of `from`
/// in the others.
void require_rearranged(const char* function, const Geometry& to, const Geometry& from, int dim,
                        index_t extent);

/// The ranges of the operations, for a dimension of n elements.
std::shared_ptr<const SourceRanges> rolled(index_t n, index_t shift);
std::shared_ptr<const SourceRanges> flipped(index_t n);
std::shared_ptr<const SourceRanges> sliced(index_t begin, index_t count, index_t step);
std::shared_ptr<const SourceRanges> selected(const std::vector<index_t>& indices);
/// Elements [source, source + count) at `target`.
std::shared_ptr<const SourceRanges> placed(index_t target, index_t source, index_t count);

/// Number of elements of a slice. Throws ArgumentError for a slice outside of n elements.
index_t slice_count(index_t n, index_t begin, index_t end, index_t step);
/// The partition of a slice in which each element stays with its owner.
Partition slice_partition(const Partition& of, index_t begin, index_t count, index_t step);
/// Throws ArgumentError, unless all are among n elements.
void require_indices(const std::vector<index_t>& indices, index_t n);
/// Throws ArgumentError unless these are the sizes of the parts of n elements.
void require_sizes(const char* function, const std::vector<index_t>& sizes, index_t n);

/// The first field of a tuple or a set, or the field itself.
template <class Parts>
const auto& first_part(const Parts& parts) {
  if constexpr (AnyShardedView<Parts>)
    return parts;
  else if constexpr (FieldSet<Parts>)
    return parts.data()[0];
  else
    return std::get<0>(parts);
}

/// The type of a new field with X's points, which may be const or strided.
template <class X>
struct Writable;
template <class T, class Layout, class... Options>
struct Writable<ShardedView<T, Layout, Options...>> {
  using type = ShardedView<
      typename ShardedView<T, Layout, Options...>::view_type::non_const_data_type,
      std::conditional_t<std::is_same_v<Layout, Kokkos::LayoutStride>, Kokkos::LayoutRight, Layout>,
      Options...>;
};

/// A new field like x with another partition of dimension `dim`. Collective.
template <class X>
auto with_partition(const X& x, int dim, const Partition& partition) {
  auto partitions               = x.partitions();
  partitions[Geometry::at(dim)] = partition;
  return placed_anew<typename Writable<X>::type>(x.any_geometry(), partitions);
}

/// What the operations have in common. `Op` has `pairs(fields, y, x)`, which adds what moves.
template <class Op>
struct Rearrangement {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted

  /// Computes y.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    move(space, Direction::forward, y, x);
    for_parts([&](const auto& part) { mark_written(space, part); }, y);
  }
  /// The tangent: the operation itself.
  template <class Space, class TY, class TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    apply(space, ty, tx);
  }
  /// Sets dx's owned points from dy; does nothing if dx is not_wanted.
  template <class Space, class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    if constexpr (is_wanted_v<DX>) {
      for_parts(
          [&](const auto& part) {
            using Value = typename std::remove_cvref_t<decltype(part)>::value_type;
            static_assert(can_add_v<std::remove_cvref_t<decltype(part)>>,
                          "the transpose adds: it needs an arithmetic value type");
            fill_view(space, part.owned(), Value{});
          },
          dx);
      move(space, Direction::adjoint, dy, dx);
    }
  }

 private:
  const Op& self() const { return static_cast<const Op&>(*this); }
  template <class Space, class To, class From>
  void move(const Space& space, Direction direction, const To& to, const From& from) const {
    using Field = std::remove_cvref_t<decltype(first_part(to))>;
    check_reach<Space, Field>();
    MovedFields<PlanMemory<Field>> fields(Op::name);
    self().pairs(fields, to, from);
    fields.run(space, direction);
  }
};

/// Adds a pair whose elements in dimension `dim` are those of the ranges.
template <class Fields, class To, class From>
void add_pair(Fields& fields, const To& to, const From& from, int dim,
              std::shared_ptr<const SourceRanges> ranges) {
  check_redistribution<To, From>();
  Reindexing dims[To::rank];
  dims[dim].ranges = std::move(ranges);
  fields.add(to, from, dims);
}

/// Of the operations with one x and one y: `Op` has a `dim`, and for a dimension of n elements
/// `extent(n)` and `ranges(n)` of y; `partition(p)` of a new y.
template <class Op>
struct OneToOne : Rearrangement<Op> {
  /// A new y. Collective.
  template <AnyShardedView X>
  auto output(const X& x) const {
    const auto& op = static_cast<const Op&>(*this);
    require_dimension(Op::name, op.dim, X::rank);
    return with_partition(x, op.dim, op.partition(x.partition(op.dim)));
  }

 private:
  friend Rearrangement<Op>;
  template <class Fields, class Y, class X>
  void pairs(Fields& fields, const Y& y, const X& x) const {
    const auto& op = static_cast<const Op&>(*this);
    require_dimension(Op::name, op.dim, X::rank);
    const index_t n = x.global_extent(op.dim);
    require_rearranged(Op::name, y.geometry(), x.geometry(), op.dim, op.extent(n));
    add_pair(fields, y, x, op.dim, op.ranges(n));
  }
};

}  // namespace impl

/// y[i] = x[(i - shift) mod n] in dimension `dim`: elements move up by `shift`, any number, and
/// come in again at the other end. A new y has x's partitions.
struct Roll : impl::OneToOne<Roll> {
  int dim       = 0;  ///< the dimension
  index_t shift = 0;  ///< places

  Roll() = default;
  /// Local.
  Roll(int d, index_t places) : dim(d), shift(places) {}

 private:
  friend impl::OneToOne<Roll>;
  friend impl::Rearrangement<Roll>;
  static constexpr const char* name = "Roll";
  index_t extent(index_t n) const { return n; }
  auto ranges(index_t n) const { return impl::rolled(n, shift); }
  Partition partition(const Partition& p) const { return p; }
};

/// y[i] = x[n - 1 - i] in dimension `dim`. A new y has x's partitions.
struct Flip : impl::OneToOne<Flip> {
  int dim = 0;  ///< the dimension

  Flip() = default;
  /// Local.
  explicit Flip(int d) : dim(d) {}

 private:
  friend impl::OneToOne<Flip>;
  friend impl::Rearrangement<Flip>;
  static constexpr const char* name = "Flip";
  index_t extent(index_t n) const { return n; }
  auto ranges(index_t n) const { return impl::flipped(n); }
  Partition partition(const Partition& p) const { return p; }
};

/// y = x[begin : end : step] in dimension `dim`: elements begin, begin + step, ... before `end`. In
/// a new y each element stays with its owner, so that nothing is sent.
struct Slice : impl::OneToOne<Slice> {
  int dim       = 0;                                    ///< the dimension
  index_t begin = 0;                                    ///< the first element, from 0 to n
  index_t end   = std::numeric_limits<index_t>::max();  ///< from `begin` on; larger than n is n
  index_t step  = 1;                                    ///< 1 or more

  Slice() = default;
  /// Local.
  Slice(int d, index_t first, index_t last = std::numeric_limits<index_t>::max(),
        index_t stride = 1)
      : dim(d), begin(first), end(last), step(stride) {}

 private:
  friend impl::OneToOne<Slice>;
  friend impl::Rearrangement<Slice>;
  static constexpr const char* name = "Slice";
  index_t extent(index_t n) const { return impl::slice_count(n, begin, end, step); }
  auto ranges(index_t n) const { return impl::sliced(begin, extent(n), step); }
  Partition partition(const Partition& p) const {
    return impl::slice_partition(p, begin, extent(p.size()), step);
  }
};

/// y[i] = x[indices[i]] in dimension `dim`; an index may be there several times. PyTorch's
/// index_select. A new y is balanced in that dimension.
struct IndexSelect : impl::OneToOne<IndexSelect> {
  int dim = 0;  ///< the dimension

  IndexSelect() = default;
  /// `indices`: all of them, the same on every rank. Local.
  IndexSelect(int d, std::vector<index_t> indices)
      : dim(d), indices_(std::move(indices)), ranges_(impl::selected(indices_)) {}
  /// The indices.
  const std::vector<index_t>& indices() const { return indices_; }

 private:
  friend impl::OneToOne<IndexSelect>;
  friend impl::Rearrangement<IndexSelect>;
  static constexpr const char* name = "IndexSelect";
  index_t extent(index_t n) const {
    impl::require_indices(indices_, n);
    return static_cast<index_t>(indices_.size());
  }
  auto ranges(index_t) const { return ranges_; }
  Partition partition(const Partition& p) const {
    return Partition::balanced(extent(p.size()), p.parts());
  }
  std::vector<index_t> indices_;
  std::shared_ptr<const impl::SourceRanges> ranges_ = impl::selected({});
};

/// y = the fields of x one after the other in dimension `dim`; x is a std::tuple or a set
/// (std::vector) of fields.
struct Concatenate : impl::Rearrangement<Concatenate> {
  int dim = 0;  ///< the dimension

  Concatenate() = default;
  /// Local.
  explicit Concatenate(int d) : dim(d) {}
  /// A new y of the type of the first field, balanced in that dimension. Collective.
  template <class X>
  auto output(const X& x) const {
    const auto& first = impl::first_part(x);
    impl::require_dimension(name, dim, std::remove_cvref_t<decltype(first)>::rank);
    index_t n = 0;
    impl::for_parts([&](const auto& part) { n += part.global_extent(dim); }, x);
    return impl::with_partition(first, dim, Partition::balanced(n, first.partition(dim).parts()));
  }

 private:
  friend impl::Rearrangement<Concatenate>;
  static constexpr const char* name = "Concatenate";
  template <class Fields, class Y, class X>
  void pairs(Fields& fields, const Y& y, const X& x) const {
    impl::require_dimension(name, dim, Y::rank);
    index_t n = 0;
    impl::for_parts([&](const auto& part) { n += part.global_extent(dim); }, x);
    index_t target = 0;
    impl::for_parts(
        [&](const auto& part) {
          impl::require_rearranged(name, y.geometry(), part.geometry(), dim, n);
          const index_t count = part.global_extent(dim);
          impl::add_pair(fields, y, part, dim, impl::placed(target, 0, count));
          target += count;
        },
        x);
  }
};

/// y = x in parts of these sizes in dimension `dim`, a std::tuple or a set (std::vector) of fields.
/// The inverse of Concatenate.
struct Split : impl::Rearrangement<Split> {
  int dim = 0;                 ///< the dimension
  std::vector<index_t> sizes;  ///< of the parts, whose sum is x's extent

  Split() = default;
  /// Local.
  Split(int d, std::vector<index_t> of) : dim(d), sizes(std::move(of)) {}
  /// A new set, in which each element stays with its owner, so that nothing is sent. Collective.
  template <AnyShardedView X>
  auto output(const X& x) const {
    impl::require_dimension(name, dim, X::rank);
    impl::require_sizes(name, sizes, x.global_extent(dim));
    std::vector<typename impl::Writable<X>::type> parts;
    index_t begin = 0;
    for (const index_t count : sizes) {
      parts.push_back(
          impl::with_partition(x, dim, impl::slice_partition(x.partition(dim), begin, count, 1)));
      begin += count;
    }
    return parts;
  }

 private:
  friend impl::Rearrangement<Split>;
  static constexpr const char* name = "Split";
  template <class Fields, class Y, class X>
  void pairs(Fields& fields, const Y& y, const X& x) const {
    impl::require_dimension(name, dim, X::rank);
    std::vector<index_t> given;
    impl::for_parts([&](const auto& part) { given.push_back(part.global_extent(dim)); }, y);
    impl::require_sizes(name, sizes, x.global_extent(dim));
    impl::require_sizes(name, given, x.global_extent(dim));
    index_t begin = 0;
    std::size_t k = 0;
    impl::for_parts(
        [&](const auto& part) {
          impl::require_rearranged(name, part.geometry(), x.geometry(), dim, sizes[k]);
          impl::add_pair(fields, part, x, dim, impl::placed(0, begin, sizes[k]));
          begin += sizes[k++];
        },
        y);
  }
};

}  // namespace shard

#endif
