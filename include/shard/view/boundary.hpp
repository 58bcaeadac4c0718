// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_BOUNDARY_HPP
#define SHARD_VIEW_BOUNDARY_HPP

#include <cstdint>
#include <type_traits>

namespace shard {

/// Boundaries: what lies beyond the edge of the world. Each is a total map of indices, so a halo
/// may be wider than the world (see view/index_map.hpp for the formulas). Types without data; they
/// stand in a ShardDim.

/// Zeros beyond the edge. The boundary of a ShardDim that names none.
struct Zero {};

/// The value `Value` (converted to the field's value type) beyond the edge.
template <auto Value>
struct Constant {};

/// Index g is g mod N.
struct Periodic {};

/// Mirrored about the edge cell, which isn't repeated (numpy's and PyTorch's "reflect"): -1 is 1, N
/// is N - 2. One cell alone can't be reflected: an extent of 1 throws.
struct Reflect {};

/// Mirrored about the edge itself, the edge cell is repeated (numpy's "symmetric"): -1 is 0, N is N
/// - 1.
struct Symmetric {};

/// The edge cell again and again (PyTorch's padding mode "replicate").
struct Clamp {};

/// Where a latitude axis has its pole: on the first and last row (-1 is row 1), or half a cell
/// beyond them (-1 is row 0).
enum class Pole : std::uint8_t { on_row, between_rows };

/// How a field behaves across the pole: a scalar keeps its sign, a component of a vector changes
/// it.
enum class Parity : std::uint8_t { even, odd };

/// Across the poles of a latitude-longitude grid: a row beyond the pole is a mirrored row, half the
/// globe away in dimension `LongitudeDim`, whose extent must be even (else the field's constructor
/// throws, with the number). At each crossing longitude turns by half the globe and, for
/// `Parity::odd`, the sign changes: after two poles both are back.
template <int LongitudeDim, Pole P, Parity S = Parity::even>
struct PoleFold {};

/// Different boundaries at the low and the high end of a dimension. Not with Periodic: a world that
/// wraps has no ends.
template <class Low, class High>
struct Sides {};

/// A boundary at run time, one side of one dimension.
enum class BoundaryKind : std::uint8_t {
  constant,
  periodic,
  reflect,
  symmetric,
  clamp,
  fold_on_row,
  fold_between_rows
};

/// One side of a dimension at run time, as the plan and the index map see it.
struct BoundarySide {
  BoundaryKind kind = BoundaryKind::constant;  ///< which map
  bool odd          = false;                   ///< the sign changes at each crossing of a pole
  int longitude     = -1;                      ///< dimension that a fold turns, else -1
  double value      = 0.0;                     ///< of a constant

  /// Whether all members are equal.
  friend constexpr bool operator==(const BoundarySide&, const BoundarySide&) = default;
};

namespace impl {

template <class B>
struct BoundaryTraits {
  static constexpr bool valid = false;
};

template <BoundaryKind Kind>
struct SimpleBoundary {
  static constexpr bool valid = true;
  static constexpr BoundarySide low{Kind}, high{Kind};
};

template <>
struct BoundaryTraits<Zero> : SimpleBoundary<BoundaryKind::constant> {};
template <>
struct BoundaryTraits<Periodic> : SimpleBoundary<BoundaryKind::periodic> {};
template <>
struct BoundaryTraits<Reflect> : SimpleBoundary<BoundaryKind::reflect> {};
template <>
struct BoundaryTraits<Symmetric> : SimpleBoundary<BoundaryKind::symmetric> {};
template <>
struct BoundaryTraits<Clamp> : SimpleBoundary<BoundaryKind::clamp> {};

template <auto Value>
struct BoundaryTraits<Constant<Value>> {
  static constexpr bool valid = true;
  static constexpr BoundarySide low{BoundaryKind::constant, false, -1, static_cast<double>(Value)};
  static constexpr BoundarySide high = low;
};

template <int LongitudeDim, Pole P, Parity S>
struct BoundaryTraits<PoleFold<LongitudeDim, P, S>> {
  static constexpr bool valid = true;
  static constexpr BoundarySide low{
      P == Pole::on_row ? BoundaryKind::fold_on_row : BoundaryKind::fold_between_rows,
      S == Parity::odd, LongitudeDim, 0.0};
  static constexpr BoundarySide high = low;
};

template <class Low, class High>
struct BoundaryTraits<Sides<Low, High>> {
  static_assert(!std::is_same_v<Low, Periodic> && !std::is_same_v<High, Periodic>,
                "a Periodic dimension has no sides");
  static constexpr bool valid        = BoundaryTraits<Low>::valid && BoundaryTraits<High>::valid;
  static constexpr BoundarySide low  = BoundaryTraits<Low>::low;
  static constexpr BoundarySide high = BoundaryTraits<High>::high;
};

/// `B` with the fold's longitude dimension renumbered by `Shift` (used where a subview drops
/// dimensions).
template <class B, class Renumber>
struct RenumberBoundary {
  using type = B;
};
template <int LongitudeDim, Pole P, Parity S, class Renumber>
struct RenumberBoundary<PoleFold<LongitudeDim, P, S>, Renumber> {
  using type = PoleFold<Renumber::template of<LongitudeDim>, P, S>;
};
template <class Low, class High, class Renumber>
struct RenumberBoundary<Sides<Low, High>, Renumber> {
  using type = Sides<typename RenumberBoundary<Low, Renumber>::type,
                     typename RenumberBoundary<High, Renumber>::type>;
};

}  // namespace impl
}  // namespace shard

#endif
