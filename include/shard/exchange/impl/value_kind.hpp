// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_VALUE_KIND_HPP
#define SHARD_EXCHANGE_IMPL_VALUE_KIND_HPP

#include <Kokkos_Core.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace shard::impl {

/// A field's value type for the compiled kernels. Packing moves bytes and doesn't need it; adding
/// (the transpose) and changing the sign (odd pole folds) do.
enum class ValueKind : std::uint8_t {
  opaque,
  boolean,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  c32,
  c64
};

template <class T>
KOKKOS_FUNCTION constexpr ValueKind value_kind() {
  if constexpr (std::is_same_v<T, bool>)
    return ValueKind::boolean;
  else if constexpr (std::is_same_v<T, float>)
    return ValueKind::f32;
  else if constexpr (std::is_same_v<T, double>)
    return ValueKind::f64;
  else if constexpr (std::is_same_v<T, Kokkos::complex<float>>)
    return ValueKind::c32;
  else if constexpr (std::is_same_v<T, Kokkos::complex<double>>)
    return ValueKind::c64;
  else if constexpr (std::is_same_v<T, Kokkos::Experimental::half_t>)
    return ValueKind::f16;
  else if constexpr (std::is_same_v<T, Kokkos::Experimental::bhalf_t>)
    return ValueKind::bf16;
  else if constexpr (std::integral<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? ValueKind::i8 : ValueKind::u8;
  else if constexpr (std::integral<T> && sizeof(T) == 2)
    return std::is_signed_v<T> ? ValueKind::i16 : ValueKind::u16;
  else if constexpr (std::integral<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? ValueKind::i32 : ValueKind::u32;
  else if constexpr (std::integral<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? ValueKind::i64 : ValueKind::u64;
  else
    return ValueKind::opaque;
}

/// Calls visitor.template operator()<T>() with the type of the kind, for visitors that only add,
/// subtract and negate. In two's complement these are the same for signed and unsigned integers, so
/// only one of them is compiled. Opaque values and booleans have no arithmetic and are skipped.
template <class Visitor>
KOKKOS_FORCEINLINE_FUNCTION void visit_addition(ValueKind kind, const Visitor& visitor) {
  switch (kind) {
    case ValueKind::i8:
    case ValueKind::u8: visitor.template operator()<std::uint8_t>(); break;
    case ValueKind::i16:
    case ValueKind::u16: visitor.template operator()<std::uint16_t>(); break;
    case ValueKind::i32:
    case ValueKind::u32: visitor.template operator()<std::uint32_t>(); break;
    case ValueKind::i64:
    case ValueKind::u64: visitor.template operator()<std::uint64_t>(); break;
    case ValueKind::f16: visitor.template operator()<Kokkos::Experimental::half_t>(); break;
    case ValueKind::bf16: visitor.template operator()<Kokkos::Experimental::bhalf_t>(); break;
    case ValueKind::f32: visitor.template operator()<float>(); break;
    case ValueKind::f64: visitor.template operator()<double>(); break;
    case ValueKind::c32: visitor.template operator()<Kokkos::complex<float>>(); break;
    case ValueKind::c64: visitor.template operator()<Kokkos::complex<double>>(); break;
    case ValueKind::opaque:
    case ValueKind::boolean: break;
  }
}

/// The same with signed and unsigned integers, for visitors that compare or convert values.
template <class Visitor>
KOKKOS_FORCEINLINE_FUNCTION void visit_arithmetic(ValueKind kind, const Visitor& visitor) {
  switch (kind) {
    case ValueKind::i8: visitor.template operator()<std::int8_t>(); break;
    case ValueKind::i16: visitor.template operator()<std::int16_t>(); break;
    case ValueKind::i32: visitor.template operator()<std::int32_t>(); break;
    case ValueKind::i64: visitor.template operator()<std::int64_t>(); break;
    default: visit_addition(kind, visitor);
  }
}

}  // namespace shard::impl

#endif
