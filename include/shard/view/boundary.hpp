// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_BOUNDARY_HPP
#define SHARD_VIEW_BOUNDARY_HPP

#include <Kokkos_Macros.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace shard {

/// Boundaries define the values outside the global domain. Each is a total map of indices, so a
/// halo may be wider than the domain (view/index_map.hpp has the formulas). They are types without
/// data, arguments of a ShardDim.

/// Zeros outside the domain. The default boundary of a ShardDim.
struct Zero {};

/// The value `Value` outside the domain, converted to the field's value type. 64-bit integers and
/// -0.0 are exact.
template <auto Value>
struct Constant {};

/// Index g is g mod N.
struct Periodic {};

/// Mirrored about the edge point, which isn't repeated (numpy's and PyTorch's "reflect"): -1 is 1,
/// N is N - 2. One point alone can't be reflected: an extent of 1 throws.
struct Reflect {};

/// Mirrored about the edge itself, the edge point is repeated (numpy's "symmetric"): -1 is 0, and N
/// is N - 1.
struct Symmetric {};

/// The edge point repeated (PyTorch's padding mode "replicate").
struct Clamp {};

/// Where a latitude axis has its poles: on the first and last row (-1 is row 1), or half a cell
/// outside of them (-1 is row 0).
enum class Pole : std::uint8_t { on_row, between_rows };

/// How a field behaves across the pole: a scalar keeps its sign, a component of a vector changes
/// it.
enum class Parity : std::uint8_t { even, odd };

/// Across the poles of a latitude-longitude grid: a row beyond the pole is the mirrored row, half
/// the globe away in dimension `LongitudeDim`. The extent of that dimension must be even, else the
/// field's constructor throws. Each crossing shifts longitude by half the globe and, for
/// `Parity::odd`, changes the sign; two crossings cancel.
template <int LongitudeDim, Pole P, Parity S = Parity::even>
struct PoleFold {};

/// The mirrored value with the sign changed at each crossing: `Odd<Symmetric>` or `Odd<Reflect>`.
/// The boundary of a velocity normal to a wall without friction (free slip), and of an odd function
/// at a symmetry plane. The edge point of `Odd<Reflect>` is on the wall, so its value should be 0;
/// the exchange doesn't change it.
template <class Mirror>
struct Odd {
  static_assert(std::is_same_v<Mirror, Reflect> || std::is_same_v<Mirror, Symmetric>,
                "Odd takes Reflect or Symmetric; a PoleFold and a NorthFold have a Parity");
};

/// The point about which the northern edge of a tripolar grid is folded. `t_point`, `u_point`: the
/// last row of cells is folded on itself about one of its centres or eastern faces. `f_point`: the
/// northern edge of that row is folded about a corner of cells. `t_point` is in column 0 (and half
/// the globe away), the others are between the last column and column 0.
///
/// NEMO's T pivot and "tripoleT" of CICE and POP are `t_point`; NEMO's F pivot, "tripole" of CICE
/// and POP, MOM6 and Oceananigans' RightFaceFolded are `f_point`; RightCenterFolded is `u_point`.
enum class Pivot : std::uint8_t { t_point, u_point, f_point };

/// Where a field's point (i, j) is in cell (i, j): at its centre, on a face, or at a corner. NEMO,
/// POP, CICE and MOM6 count velocities on eastern and northern faces, Oceananigans on western and
/// southern ones. About `f_point`, a field of southern points has one row more than the cells.
enum class At : std::uint8_t { centre, east, north, north_east, west, south, south_west };

/// Across the folded northern edge of a tripolar grid: a row beyond it is the mirrored row with
/// longitudes in reverse order. At the high end of a dimension with a halo there:
/// `Sides<Clamp, NorthFold<...>>`. `LongitudeDim` is Periodic, its extent may be odd. For
/// `Parity::odd` (both components of a vector) the sign changes at each crossing.
///
/// If the last row is on the fold, half of it is a copy of the other half; if it is beyond the
/// fold, all of it. The exchange writes these owned elements too. Its adjoint adds them to their
/// source and sets them to zero; reductions leave them out.
template <int LongitudeDim, Pivot P, At Position = At::centre, Parity S = Parity::even>
struct NorthFold {};

/// The exchange leaves the elements outside the domain to the caller, corners too. SHARD_CHECK
/// doesn't watch them.
struct Given {};

/// A functor of the caller's computes the elements outside the domain, corners too, at the end of
/// the exchange, when all other halos are filled: `functor(field, at)` returns the value at an
/// OutsidePoint. Of several Custom dimensions the highest is computed first, and a corner by the
/// lowest one's functor. So a functor may read owned elements, other halos, and elements outside of
/// higher Custom dimensions. Exchange::with passes the functor objects, which have the data:
/// profiles, the time.
///
/// `Adjoint` is the functor of the adjoint: `functor(field, at, cotangent)` adds to the elements
/// that F read, by Kokkos::atomic_add where several points read one. The cotangent at the point is
/// 0 after that.
template <class F, class Adjoint = void>
struct Custom {};

/// A boundary for each index of an unsharded dimension: `ByIndex<0, Clamp, Clamp, Odd<Symmetric>>`
/// clamps variables 0 and 1 and mirrors variable 2 with its sign changed. Dimension `Dim` has no
/// halo and as many elements as there are boundaries. The boundaries are Zero, Constant, Periodic
/// (of all), Reflect, Symmetric, Odd, Clamp, Given or Sides of them.
template <int Dim, class... Boundaries>
struct ByIndex {};

/// The boundaries of the two dimensions of a field over blocks (see BlockGrid) that have a block's
/// points along y and along x: the halo has the points of the blocks around it, in the same tile or
/// beyond a contact, turned as the contact says. It is zero beyond a side without contact, in a
/// dropped block, and beyond two sides where a point has no image (the corners of a cubed sphere).
struct LinkedY {};
struct LinkedX {};

/// Different boundaries at the low and the high end of a dimension. Not with Periodic. Each end
/// uses its own boundary's map at any distance: in `Sides<Reflect, Zero>` of 3 points those at -1,
/// -2, -3 and -4 are 1, 2, 1 and 0, and those from 3 on are zero.
template <class Low, class High>
struct Sides {};

/// The map of a boundary at run time.
enum class BoundaryKind : std::uint8_t {
  constant,
  periodic,
  reflect,
  symmetric,
  clamp,
  fold_on_row,
  fold_between_rows,
  north_between_rows,  ///< a NorthFold half a row after the last one
  north_on_row,        ///< on the last row
  north_before_row,    ///< between the last two rows
  given,
  by_index,
  linked_y,  ///< LinkedY
  linked_x   ///< LinkedX
};

/// The value of a Constant at run time: a double, or an integer of up to 64 bits.
class BoundaryValue {
 public:
  /// How it is stored. An integer that a double can represent is stored as a double: 5 and 5.0 are
  /// equal.
  enum class Form : std::uint8_t { real, positive, negative };

  /// +0.0
  constexpr BoundaryValue() = default;
  /// From any arithmetic value or enumerator; a long double is rounded.
  template <class V>
  requires(std::is_arithmetic_v<V> || std::is_enum_v<V>) constexpr BoundaryValue(V value) {
    if constexpr (std::is_floating_point_v<V>) {
      real_ = static_cast<double>(value);
    } else {
      constexpr auto exact = std::int64_t{1} << 53;
      const auto wide      = static_cast<std::int64_t>(value);
      whole_               = static_cast<std::uint64_t>(value);
      if (std::is_signed_v<V> && wide < -exact)
        form_ = Form::negative;
      else if ((!std::is_signed_v<V> || wide > 0) && whole_ > static_cast<std::uint64_t>(exact))
        form_ = Form::positive;
      else
        *this = static_cast<double>(value);
    }
  }

  /// The value as a field of T has it.
  template <class T>
  KOKKOS_FUNCTION constexpr T as() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // a double outside T's range wraps, as the original integer would
      if (form_ == Form::real)
        return real_ < 0x1p63 ? static_cast<T>(static_cast<std::int64_t>(real_))
                              : static_cast<T>(static_cast<std::uint64_t>(real_));
    }
    if (form_ == Form::real) return static_cast<T>(real_);
    const auto from = [](auto whole) {
      if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(whole);
      else  // complex and short floats
        return static_cast<T>(static_cast<double>(whole));
    };
    return form_ == Form::negative ? from(static_cast<std::int64_t>(whole_)) : from(whole_);
  }

  /// How it is stored.
  constexpr Form form() const { return form_; }
  /// Identifies values of one form: the bits of a double, so that -0.0 isn't +0.0.
  constexpr std::uint64_t bits() const {
    return form_ == Form::real ? std::bit_cast<std::uint64_t>(real_) : whole_;
  }
  /// Whether its bytes are all zero.
  constexpr bool is_zero() const { return *this == BoundaryValue(); }
  /// Whether both are the same, bitwise.
  friend constexpr bool operator==(const BoundaryValue& a, const BoundaryValue& b) {
    return a.form_ == b.form_ && a.bits() == b.bits();
  }

 private:
  double real_         = 0.0;
  std::uint64_t whole_ = 0;
  Form form_           = Form::real;
};

/// One side of a dimension at run time, as the plan and the index map see it.
struct BoundarySide {
  BoundaryKind kind = BoundaryKind::constant;  ///< which map
  bool odd          = false;                   ///< the sign changes at each crossing
  int longitude     = -1;  ///< the longitude dimension of a fold, or that of ByIndex, else -1
  BoundaryValue value{};   ///< of a constant
  int opposite = 0;        ///< of a NorthFold: longitude i is opposite to (opposite - i) mod N
  const BoundarySide* sides = nullptr;  ///< of ByIndex: the boundary of each index
  int count                 = 0;        ///< of ByIndex: their number

  /// Whether `is` holds for this side, or for some index of a ByIndex.
  template <class Predicate>
  constexpr bool any(const Predicate& is) const {
    for (int i = 0; i < count; ++i)
      if (is(sides[i])) return true;
    return is(*this);
  }

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
  static constexpr BoundarySide low{BoundaryKind::constant, false, -1, Value};
  static constexpr BoundarySide high = low;
};

template <int LongitudeDim, Pole P, Parity S>
struct BoundaryTraits<PoleFold<LongitudeDim, P, S>> {
  static constexpr bool valid = true;
  static constexpr BoundarySide low{
      P == Pole::on_row ? BoundaryKind::fold_on_row : BoundaryKind::fold_between_rows,
      S == Parity::odd, LongitudeDim};
  static constexpr BoundarySide high = low;
};

template <class Mirror>
struct BoundaryTraits<Odd<Mirror>> {
  static constexpr bool valid = true;
  static constexpr BoundarySide low{BoundaryTraits<Mirror>::low.kind, true};
  static constexpr BoundarySide high = low;
};

template <>
struct BoundaryTraits<Given> : SimpleBoundary<BoundaryKind::given> {};

template <>
struct BoundaryTraits<LinkedY> : SimpleBoundary<BoundaryKind::linked_y> {};
template <>
struct BoundaryTraits<LinkedX> : SimpleBoundary<BoundaryKind::linked_x> {};

constexpr bool is_linked(BoundaryKind kind) {
  return kind == BoundaryKind::linked_y || kind == BoundaryKind::linked_x;
}

template <class F, class Adjoint>
struct BoundaryTraits<Custom<F, Adjoint>> : SimpleBoundary<BoundaryKind::given> {};

template <class B>
inline constexpr bool is_custom_boundary_v = false;
template <class F, class Adjoint>
inline constexpr bool is_custom_boundary_v<Custom<F, Adjoint>> = true;

KOKKOS_INLINE_FUNCTION constexpr bool is_north(BoundaryKind kind) {
  return kind == BoundaryKind::north_between_rows || kind == BoundaryKind::north_on_row ||
         kind == BoundaryKind::north_before_row;
}
/// Whether elements of the last row are copies.
KOKKOS_INLINE_FUNCTION constexpr bool shares_row(BoundaryKind kind) {
  return is_north(kind) && kind != BoundaryKind::north_between_rows;
}

/// The high side of a NorthFold. In half cells a cell's centre is at (2i + 1, 2j + 1) and the fold
/// takes (x, y) to (2 Px - x, 2 Py - y). With north faces at 2j + 2 and south faces at 2j, the last
/// row of a field is before, on or after the fold.
constexpr BoundarySide north_side(Pivot pivot, At position, Parity parity, int longitude) {
  const bool north = position == At::north || position == At::north_east,
             south = position == At::south || position == At::south_west,
             east  = position == At::east || position == At::north_east,
             west  = position == At::west || position == At::south_west;
  const BoundaryKind kind =
      pivot != Pivot::f_point
          ? (north   ? BoundaryKind::north_before_row
             : south ? BoundaryKind::north_between_rows
                     : BoundaryKind::north_on_row)
          : (north || south ? BoundaryKind::north_on_row : BoundaryKind::north_between_rows);
  const int offset = east ? 2 : west ? 0 : 1;
  return {kind, parity == Parity::odd, longitude, {}, (pivot == Pivot::t_point ? 1 : 0) - offset};
}

template <int LongitudeDim, Pivot P, At Position, Parity S>
struct BoundaryTraits<NorthFold<LongitudeDim, P, Position, S>> {
  static constexpr bool valid = true;
  static constexpr BoundarySide low{BoundaryKind::constant};
  static constexpr BoundarySide high = north_side(P, Position, S, LongitudeDim);
};

template <int Dim, class... B>
struct BoundaryTraits<ByIndex<Dim, B...>> {
  static constexpr bool valid = sizeof...(B) > 0 && (BoundaryTraits<B>::valid && ...);
  static_assert(
      valid && !(is_custom_boundary_v<B> || ...),
      "ByIndex takes one boundary for each index of its dimension, Custom not among them");
  static_assert(((BoundaryTraits<B>::low.longitude < 0 && BoundaryTraits<B>::high.longitude < 0) &&
                 ...),
                "the boundaries of ByIndex are neither folds nor ByIndex");
  static constexpr BoundarySide lows[]{BoundaryTraits<B>::low...};
  static constexpr BoundarySide highs[]{BoundaryTraits<B>::high...};
  static constexpr int count = static_cast<int>(sizeof...(B));
  static constexpr BoundarySide low{BoundaryKind::by_index, false, Dim, {}, 0, lows, count};
  static constexpr BoundarySide high{BoundaryKind::by_index, false, Dim, {}, 0, highs, count};
};

/// Whether a side is a map of indices or a constant, the same for all elements of the other
/// dimensions: what layers can pad with.
constexpr bool pads(const BoundarySide& side) {
  return !is_north(side.kind) && side.kind != BoundaryKind::given && !is_linked(side.kind) &&
         side.kind != BoundaryKind::by_index;
}
template <class B>
inline constexpr bool pads_v = pads(BoundaryTraits<B>::low) && pads(BoundaryTraits<B>::high);

/// Whether a type is a boundary. A failed check shows its name.
template <class B>
struct is_boundary {
  static constexpr bool value = BoundaryTraits<B>::valid;
};

template <class Low, class High>
struct BoundaryTraits<Sides<Low, High>> {
  static_assert(is_boundary<Low>::value && is_boundary<High>::value,
                "the Sides of a dimension are two of Zero, Constant, Reflect, Symmetric, Odd, "
                "Clamp, PoleFold, NorthFold (high), Given, Custom and ByIndex");
  static_assert(!is_north(BoundaryTraits<Low>::high.kind),
                "a NorthFold is at the high end: Sides<Clamp, NorthFold<...>>");
  static_assert(!is_north(BoundaryTraits<High>::high.kind) ||
                    BoundaryTraits<Low>::low.longitude < 0,
                "a dimension with a NorthFold has no other fold");
  static_assert(!std::is_same_v<Low, Periodic> && !std::is_same_v<High, Periodic>,
                "a Periodic dimension has no sides: write Periodic in the place of Sides<...>");
  static_assert(!is_linked(BoundaryTraits<Low>::low.kind) &&
                    !is_linked(BoundaryTraits<High>::high.kind),
                "LinkedY and LinkedX are the boundaries of both sides");
  static constexpr bool valid        = is_boundary<Low>::value && is_boundary<High>::value;
  static constexpr BoundarySide low  = BoundaryTraits<Low>::low;
  static constexpr BoundarySide high = BoundaryTraits<High>::high;
};

/// Whether staggered points have the same boundary as the cells. Mirrors are at another distance
/// from staggered points than from cells.
template <class B>
inline constexpr bool suits_staggered_v = BoundaryTraits<B>::low.kind == BoundaryKind::constant ||
                                          BoundaryTraits<B>::low.kind == BoundaryKind::clamp ||
                                          BoundaryTraits<B>::low.kind == BoundaryKind::periodic;
template <class Low, class High>
inline constexpr bool suits_staggered_v<Sides<Low, High>> =
    suits_staggered_v<Low>&& suits_staggered_v<High>;

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
template <int LongitudeDim, Pivot P, At Position, Parity S, class Renumber>
struct RenumberBoundary<NorthFold<LongitudeDim, P, Position, S>, Renumber> {
  using type = NorthFold<Renumber::template of<LongitudeDim>, P, Position, S>;
};
template <int Dim, class... B, class Renumber>
struct RenumberBoundary<ByIndex<Dim, B...>, Renumber> {
  using type = ByIndex<Renumber::template of<Dim>, B...>;
};
template <class Low, class High, class Renumber>
struct RenumberBoundary<Sides<Low, High>, Renumber> {
  using type = Sides<typename RenumberBoundary<Low, Renumber>::type,
                     typename RenumberBoundary<High, Renumber>::type>;
};

}  // namespace impl
}  // namespace shard

#endif
