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

/// Mirrored about the edge itself, the edge point is repeated (numpy's "symmetric"): -1 is 0, N is
/// N
/// - 1.
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

/// Different boundaries at the low and the high end of a dimension. Not with Periodic. Each end
/// uses its own boundary's map at any distance: in `Sides<Reflect, Zero>` of 3 points those at -1,
/// -2, -3 and -4 are 1, 2, 1 and 0, and those from 3 on are zero.
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
  bool odd          = false;                   ///< the sign changes at each crossing of a pole
  int longitude     = -1;                      ///< the longitude dimension of a fold, else -1
  BoundaryValue value{};                       ///< of a constant

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

/// Whether a type is a boundary. A failed check shows its name.
template <class B>
struct is_boundary {
  static constexpr bool value = BoundaryTraits<B>::valid;
};

template <class Low, class High>
struct BoundaryTraits<Sides<Low, High>> {
  static_assert(is_boundary<Low>::value && is_boundary<High>::value,
                "the Sides of a dimension are two of Zero, Constant, Reflect, Symmetric, Clamp and "
                "PoleFold");
  static_assert(!std::is_same_v<Low, Periodic> && !std::is_same_v<High, Periodic>,
                "a Periodic dimension has no sides");
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
template <class Low, class High, class Renumber>
struct RenumberBoundary<Sides<Low, High>, Renumber> {
  using type = Sides<typename RenumberBoundary<Low, Renumber>::type,
                     typename RenumberBoundary<High, Renumber>::type>;
};

}  // namespace impl
}  // namespace shard

#endif
