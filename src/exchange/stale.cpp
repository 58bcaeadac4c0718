// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Marks stale values. A stale float is a signalling NaN with a mark in its payload. x86, Arm and
// Power keep the payload in arithmetic and make the NaN quiet, so values computed from it are
// recognised too. Conversions between float and double keep the upper 22 bits of the payload, so
// the mark is in these.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>

#include "for_each_space.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"

namespace shard::impl {

constexpr std::uint32_t stale_mark   = 0x5b9;  // 12 bits, then 10 of the marked field's number
constexpr std::uint32_t number_bits  = 10;
constexpr std::uint64_t stale_number = 0xa57a1e5ac3d21e5bULL;  // for integers

namespace {

std::mutex names_mutex;

std::vector<std::string>& names() {
  static std::vector<std::string> list;
  return list;
}

/// The number of a label. Labels after the first thousand share the last number.
std::uint32_t number_of(const std::string& label) {
  const std::lock_guard<std::mutex> lock(names_mutex);
  constexpr std::size_t most = (1U << number_bits) - 1;
  auto& all                  = names();
  const auto found           = std::find(all.begin(), all.end(), label);
  const auto number          = static_cast<std::size_t>(found - all.begin());
  if (found == all.end() && number < most) all.push_back(label);
  return static_cast<std::uint32_t>(std::min(number, most));
}

std::string name_of(std::uint32_t number) {
  const std::lock_guard<std::mutex> lock(names_mutex);
  return number < names().size() ? "\"" + names()[number] + "\"" : "another field";
}

/// The bytes of a marked value: a signalling NaN, or the integers' pattern; 0 for kinds that aren't
/// marked.
std::uint64_t marked_value(ValueKind kind, std::uint32_t number) {
  const std::uint32_t payload = stale_mark << number_bits | number;
  switch (kind) {
    case ValueKind::f64:
    case ValueKind::c64: return 0x7ff0000000000000ULL | static_cast<std::uint64_t>(payload) << 29U;
    case ValueKind::f32: return 0x7f800000U | payload;
    case ValueKind::c32: return 0x7f8000007f800000ULL | payload | std::uint64_t{payload} << 32U;
    case ValueKind::f16: return 0x7c00U | payload >> 13U;
    case ValueKind::bf16: return 0x7f80U | payload >> 16U;
    case ValueKind::opaque:
    case ValueKind::boolean: return 0;
    default: return stale_number;
  }
}

}  // namespace

/// The number in a NaN's 22-bit payload plus one, or 0 if it isn't marked.
KOKKOS_INLINE_FUNCTION std::uint32_t number_found_in(std::uint32_t payload) {
  return payload >> number_bits == stale_mark ? (payload & ((1U << number_bits) - 1)) + 1 : 0;
}
KOKKOS_INLINE_FUNCTION std::uint32_t number_in_float(std::uint32_t bits) {
  return (bits & 0x7f800000U) == 0x7f800000U ? number_found_in(bits & 0x3fffffU) : 0;
}
KOKKOS_INLINE_FUNCTION std::uint32_t number_in_double(std::uint64_t bits) {
  constexpr std::uint64_t exponent = 0x7ff0000000000000ULL, below = (1ULL << 29U) - 1;
  return (bits & exponent) == exponent && (bits & below) == 0
             ? number_found_in(static_cast<std::uint32_t>(bits >> 29U) & 0x3fffffU)
             : 0;
}

/// Not 0 if a value is marked or was computed from a marked one: the marked field's number plus
/// one, or the largest number if the value has no space for it. 8- and 16-bit integers have too few
/// values for a mark.
KOKKOS_INLINE_FUNCTION std::uint32_t number_in_value(ValueKind kind, const std::byte* value) {
  constexpr std::uint32_t unknown = 1U << number_bits;
  const auto bits16               = [&] {
    return static_cast<std::uint32_t>(*reinterpret_cast<const std::uint16_t*>(value));
  };
  const auto bits32 = [&](int i) { return reinterpret_cast<const std::uint32_t*>(value)[i]; };
  const auto bits64 = [&](int i) { return reinterpret_cast<const std::uint64_t*>(value)[i]; };
  switch (kind) {
    case ValueKind::f64: return number_in_double(bits64(0));
    case ValueKind::c64: {
      const std::uint32_t real = number_in_double(bits64(0));
      return real != 0 ? real : number_in_double(bits64(1));
    }
    case ValueKind::f32: return number_in_float(bits32(0));
    case ValueKind::c32: {
      const std::uint32_t real = number_in_float(bits32(0));
      return real != 0 ? real : number_in_float(bits32(1));
    }
    case ValueKind::f16: return (bits16() & 0x7dffU) == (0x7c00U | stale_mark >> 3U) ? unknown : 0;
    case ValueKind::bf16: return (bits16() & 0x7fbfU) == (0x7f80U | stale_mark >> 6U) ? unknown : 0;
    case ValueKind::i32:
    case ValueKind::u32: return bits32(0) == static_cast<std::uint32_t>(stale_number) ? unknown : 0;
    case ValueKind::i64:
    case ValueKind::u64: return bits64(0) == stale_number ? unknown : 0;
    default: return 0;
  }
}

/// A box of elements in memory. They are numbered with the last dimension the fastest.
struct StaleBox {
  std::byte* origin       = nullptr;
  int rank                = 0;
  index_t begin[max_rank] = {}, extent[max_rank] = {}, stride[max_rank] = {};  // strides in bytes

  index_t cells() const {
    index_t n = 1;
    for (int d = 0; d < rank; ++d) n *= extent[d];
    return n;
  }
  KOKKOS_FUNCTION std::byte* at(index_t cell, index_t* index) const {
    std::byte* value = origin;
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = begin[d] + cell % extent[d];
      cell /= extent[d];
      value += index[d] * stride[d];
    }
    return value;
  }
};

struct StaleFillKernel {
  StaleBox box;
  std::uint64_t pattern;
  int value_size;
  index_t kept_begin[max_rank] = {}, kept_end[max_rank] = {};
  index_t given_below[max_rank] = {}, given_from[max_rank] = {};  ///< the caller's

  KOKKOS_FUNCTION void operator()(index_t cell) const {
    index_t index[max_rank] = {};
    std::byte* value        = box.at(cell, index);
    bool inside             = true;
    for (int d = 0; d < box.rank; ++d) {
      if (index[d] < given_below[d] || index[d] >= given_from[d]) return;
      inside = inside && index[d] >= kept_begin[d] && index[d] < kept_end[d];
    }
    if (inside) return;
    switch (value_size) {
      case 1: *reinterpret_cast<std::uint8_t*>(value) = static_cast<std::uint8_t>(pattern); break;
      case 2: *reinterpret_cast<std::uint16_t*>(value) = static_cast<std::uint16_t>(pattern); break;
      case 4: *reinterpret_cast<std::uint32_t*>(value) = static_cast<std::uint32_t>(pattern); break;
      default:
        for (int word = 0; word < value_size / 8; ++word)
          reinterpret_cast<std::uint64_t*>(value)[word] = pattern;
    }
  }
};

/// The first marked element.
struct StaleScanKernel {
  StaleBox box;
  ValueKind kind;

  KOKKOS_FUNCTION void operator()(index_t cell, index_t& first) const {
    index_t index[max_rank] = {};
    if (cell < first && number_in_value(kind, box.at(cell, index)) != 0) first = cell;
  }
};

/// The mark of one element.
struct StaleReadKernel {
  StaleBox box;
  ValueKind kind;
  index_t cell;

  KOKKOS_FUNCTION void operator()(index_t, std::uint32_t& found) const {
    index_t index[max_rank] = {};
    found                   = number_in_value(kind, box.at(cell, index));
  }
};

FlatBox owned_box(const Geometry& geometry) {
  FlatBox box;
  for (int d = 0; d < geometry.rank; ++d) box.end[Geometry::at(d)] = geometry.owned(d);
  return box;
}

/// Fills the field and its halo with a pattern, but for `kept` and, if `keeps_given`, for points
/// that the caller fills.
template <class Space>
void fill_around(const char* label, const Space& space, const FieldArgs& field, void* origin,
                 const FlatBox& kept, std::uint64_t pattern, bool keeps_given) {
  StaleFillKernel fill;
  fill.pattern    = pattern;
  fill.value_size = field.value_size;
  fill.box.origin = static_cast<std::byte*>(origin);
  fill.box.rank   = field.geometry->rank;
  for (int d = 0; d < fill.box.rank; ++d) {
    const DimType& type = field.types[d];
    fill.box.begin[d]   = -type.lo;
    fill.box.extent[d]  = type.lo + field.geometry->owned(d) +
                         (type.indices != nullptr ? field.geometry->index_halo(d) : type.hi);
    fill.box.stride[d]  = field.stride[Geometry::at(d)] * field.value_size;
    fill.kept_begin[d]  = kept.begin[Geometry::at(d)];
    fill.kept_end[d]    = kept.end[Geometry::at(d)];
    const auto is_given = [&](const BoundarySide& side) {
      return keeps_given && side.kind == BoundaryKind::given;
    };
    const index_t begin = field.geometry->begin(d);
    fill.given_below[d] = type.low.any(is_given) ? -begin : -type.lo;
    fill.given_from[d]  = type.high.any(is_given) ? field.geometry->global(d) - begin
                                                  : fill.box.begin[d] + fill.box.extent[d];
  }
  launch(label, space, fill.box.cells(), fill);
}

template <class Space>
void mark_stale(const Space& space, const FieldArgs& field, void* origin, const FlatBox& kept) {
  const std::uint64_t pattern = marked_value(field.kind, number_of(field.geometry->label));
  if (pattern != 0) fill_around("shard::mark_written", space, field, origin, kept, pattern, true);
}

template <class Space>
void zero_halo(const Space& space, const FieldArgs& field, void* origin) {
  fill_around("shard::zero_halo", space, field, origin, owned_box(*field.geometry), 0, false);
}

template <class Space>
std::string stale_cell(const Space& space, const std::vector<FieldSpec>& fields,
                       const FieldAddresses& addresses, int rank) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const FieldSpec& spec = fields[f];
    StaleScanKernel scan;
    scan.kind       = spec.kind;
    scan.box.origin = static_cast<std::byte*>(addresses.from[f]);
    scan.box.rank   = spec.rank;
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim = spec.dims[Geometry::at(d)];
      scan.box.extent[d] = dim.from.count(dim.coordinate);
      scan.box.stride[d] = spec.from_stride[Geometry::at(d)] * spec.value_size;
    }
    const index_t cells = scan.box.cells();
    index_t first       = std::numeric_limits<index_t>::max();
    if (cells > 0)
      Kokkos::parallel_reduce("shard::stale", range_policy<StaleScanKernel>(space, cells), scan,
                              Kokkos::Min<index_t>(first));
    if (cells == 0 || first >= cells) continue;
    std::uint32_t found = 0;
    Kokkos::parallel_reduce("shard::stale", range_policy<StaleReadKernel>(space, 1),
                            StaleReadKernel{scan.box, scan.kind, first},
                            Kokkos::Max<std::uint32_t>(found));
    index_t index[max_rank] = {};
    scan.box.at(first, index);
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim = spec.dims[Geometry::at(d)];
      index[d] += dim.from.begin(dim.coordinate);
    }
    return "shard::Exchange: rank " + text(rank) + ": element " + text(index, spec.rank) +
           " (global indices) of \"" +
           (addresses.geometry == nullptr ? spec.label : addresses.geometry[f]->label) +
           "\" was computed from a halo that was out of date, that of " + name_of(found - 1) +
           "; exchange a field after its owned elements were written and before a kernel reads "
           "its halo";
  }
  return {};
}

#define SHARD_STALE(Memory, Space)                                                 \
  template void mark_stale(const Space&, const FieldArgs&, void*, const FlatBox&); \
  template void zero_halo(const Space&, const FieldArgs&, void*);                  \
  template std::string stale_cell(const Space&, const std::vector<FieldSpec>&,     \
                                  const FieldAddresses&, int);
SHARD_FOR_EACH_SPACE(SHARD_STALE)
#undef SHARD_STALE

}  // namespace shard::impl
