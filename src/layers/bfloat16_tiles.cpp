// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bfloat16_tiles.hpp"

#include <algorithm>
#include <type_traits>

#include "bfloat16.hpp"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__CUDACC__) && \
    !defined(__HIPCC__)
#define SHARD_HAS_TILE_REGISTERS
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace shard::impl {

namespace {

bool emulated = false;

constexpr index_t pairs_of_tile = bfloat16_terms / 2;

/// Two values in bfloat16. Denormal ones become zeros, as the processor's instructions take them.
std::uint32_t pair_of(float first, float second) {
  constexpr float least = Kokkos::Experimental::norm_min_v<float>;
  const auto normal     = [](float v) { return v < least && v > -least ? 0.0F : v; };
  return bfloat16_pair(normal(first), normal(second));
}

/// The pair of terms 2 * pair and 2 * pair + 1 of a packed row.
std::uint32_t& pair_of_row(std::uint32_t* packed, index_t steps, index_t m, index_t pair) {
  return packed[(m / bfloat16_lanes * steps + pair / pairs_of_tile) * bfloat16_tile +
                m % bfloat16_lanes * pairs_of_tile + pair % pairs_of_tile];
}
/// The same pair of a packed group of columns.
std::uint32_t* pairs_of_columns(std::uint32_t* packed, index_t steps, index_t column,
                                index_t pair) {
  return packed + column / bfloat16_lanes * steps * bfloat16_tile + pair * bfloat16_lanes;
}

template <class Terms>
void pack_rows(const float* from, index_t rows, index_t row, const Terms& term, index_t count,
               std::uint32_t* to) {
  const index_t steps = bfloat16_steps(count);
  for (index_t p = 0; p < steps * pairs_of_tile; ++p) {
    const bool first = 2 * p < count, second = 2 * p + 1 < count;
    const index_t first_term = first ? term(2 * p) : 0, second_term = second ? term(2 * p + 1) : 0;
    for (index_t m = 0; m < rows; ++m)
      pair_of_row(to, steps, m, p) = pair_of(first ? from[m * row + first_term] : 0.0F,
                                             second ? from[m * row + second_term] : 0.0F);
  }
}

template <class Terms>
void pack_columns(const float* panel, const Terms& term, index_t count, index_t used,
                  std::uint32_t* to) {
  const index_t steps = bfloat16_steps(count);
  for (index_t p = 0; p < steps * pairs_of_tile; ++p)
    for (index_t j = 0; j < used; j += bfloat16_lanes) {
      const float* const first   = 2 * p < count ? panel + term(2 * p) + j : nullptr;
      const float* const second  = 2 * p + 1 < count ? panel + term(2 * p + 1) + j : nullptr;
      std::uint32_t* const pairs = pairs_of_columns(to, steps, j, p);
      for (index_t i = 0; i < bfloat16_lanes; ++i)
        pairs[i] =
            pair_of(first != nullptr ? first[i] : 0.0F, second != nullptr ? second[i] : 0.0F);
    }
}

/// The sums of up to two tiles of rows and three of columns.
constexpr index_t part_rows = 2 * bfloat16_lanes, part_columns = bfloat16_columns;

/// part[m * part_columns + j] = sum over r of a(m, r) b(r, j) in the order of the registers' tiles:
/// each adds the even terms, the odd ones, both, and that to the earlier sum.
void multiply_emulated(const std::uint32_t* a, index_t row_tiles, const std::uint32_t* b,
                       index_t column_tiles, index_t steps, float* part) {
  const auto low  = [](std::uint32_t pair) { return Kokkos::bit_cast<float>(pair << 16U); };
  const auto high = [](std::uint32_t pair) { return Kokkos::bit_cast<float>(pair & 0xffff0000U); };
  for (index_t m = 0; m < row_tiles * bfloat16_lanes; ++m)
    for (index_t j = 0; j < column_tiles * bfloat16_lanes; ++j) {
      float sum = 0.0F;
      for (index_t s = 0; s < steps; ++s) {
        const std::uint32_t* const row = a + (m / bfloat16_lanes * steps + s) * bfloat16_tile +
                                         m % bfloat16_lanes * pairs_of_tile;
        const std::uint32_t* const column =
            b + (j / bfloat16_lanes * steps + s) * bfloat16_tile + j % bfloat16_lanes;
        float even = 0.0F, odd = 0.0F;
        for (index_t p = 0; p < pairs_of_tile; ++p) {
          const std::uint32_t left = row[p], right = column[p * bfloat16_lanes];
          even += low(left) * low(right);
          odd += high(left) * high(right);
        }
        sum += even + odd;
      }
      part[m * part_columns + j] = sum;
    }
}

void pack_lines_of_columns(const float* from, const index_t* column, index_t count, index_t used,
                           std::uint32_t* to) {
  const index_t steps = bfloat16_steps(count);
  for (index_t j = 0; j < used; ++j)
    for (index_t p = 0; p < steps * pairs_of_tile; ++p) {
      const float* const values = from + column[j] + 2 * p;
      pairs_of_columns(to, steps, j / bfloat16_lanes * bfloat16_lanes, p)[j % bfloat16_lanes] =
          2 * p < count ? pair_of(values[0], 2 * p + 1 < count ? values[1] : 0.0F) : 0U;
    }
}

#ifdef SHARD_HAS_TILE_REGISTERS
/// The content of the register that describes the tiles.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16]       = {16, 16, 16, 16, 16, 16, 16, 16};
};

[[gnu::target("amx-tile")]] void begin_tiles() {
  static constexpr TileShapes shapes;
  _tile_loadconfig(&shapes);
}
[[gnu::target("amx-tile")]] void end_tiles() { _tile_release(); }

// The roundings of AVX512-BF16 take denormal values for zeros, as the products do.

/// The first `count` of 16 values, and zeros.
[[gnu::target("avx512f")]] inline __m512 some_values(const float* from, index_t count) {
  const auto mask = count >= 16 ? 0xffffU : count > 0 ? (1U << count) - 1U : 0U;
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
}

/// The pairs of up to 32 neighbouring values.
[[gnu::target("avx512f,avx512bf16")]] inline __m512i pairs_of_line(const float* from,
                                                                   index_t count) {
  return (__m512i)_mm512_cvtne2ps_pbh(some_values(from + 16, count - 16), some_values(from, count));
}

/// pack_rows for contiguous terms.
[[gnu::target("avx512f,avx512bf16")]] void pack_lines(const float* from, index_t rows, index_t row,
                                                      index_t count, std::uint32_t* to) {
  const index_t steps = bfloat16_steps(count);
  for (index_t m = 0; m < rows; ++m)
    for (index_t s = 0; s < steps; ++s)
      _mm512_storeu_si512(
          &pair_of_row(to, steps, m, s * pairs_of_tile),
          pairs_of_line(from + m * row + s * bfloat16_terms, count - s * bfloat16_terms));
}

/// Stores a tile's 16 rows of pairs as its columns.
[[gnu::target("avx512f")]] inline void store_transposed(__m512i (&r)[16], std::uint32_t* to) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i]     = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i]     = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  constexpr int even = 0x88, odd = 0xdd;  // quarters of a register
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], even),
                  b = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], even),
                  c = _mm512_shuffle_i32x4(r[i], r[i + 4], odd),
                  d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], odd);
    _mm512_storeu_si512(to + 16 * i, _mm512_shuffle_i32x4(a, b, even));
    _mm512_storeu_si512(to + 16 * (i + 4), _mm512_shuffle_i32x4(c, d, even));
    _mm512_storeu_si512(to + 16 * (i + 8), _mm512_shuffle_i32x4(a, b, odd));
    _mm512_storeu_si512(to + 16 * (i + 12), _mm512_shuffle_i32x4(c, d, odd));
  }
}

/// The same as pack_lines_of_columns.
[[gnu::target("avx512f,avx512bf16")]] void pack_transposed(const float* from, const index_t* column,
                                                           index_t count, index_t used,
                                                           std::uint32_t* to) {
  const index_t steps = bfloat16_steps(count);
  for (index_t j = 0; j < used; j += bfloat16_lanes)
    for (index_t s = 0; s < steps; ++s) {
      __m512i pairs[16];
      for (index_t l = 0; l < bfloat16_lanes; ++l)
        pairs[l] = j + l < used ? pairs_of_line(from + column[j + l] + s * bfloat16_terms,
                                                count - s * bfloat16_terms)
                                : _mm512_setzero_si512();
      store_transposed(pairs, pairs_of_columns(to, steps, j, s * pairs_of_tile));
    }
}

/// Pairs of two lines' values.
[[gnu::target("avx512f,avx512bw,avx512bf16")]] inline __m512i pairs_of(__m512 first,
                                                                       __m512 second) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}
/// 16 values, or zeros for null.
[[gnu::target("avx512f")]] inline __m512 values_at(const float* from) {
  return from != nullptr ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
}
[[gnu::target("avx512f")]] inline __m512 values_at(const float* from, __m512i places) {
  return from != nullptr ? _mm512_i32gather_ps(places, from, sizeof(float)) : _mm512_setzero_ps();
}
/// 0, step, 2 step, ...
[[gnu::target("avx512f")]] inline __m512i multiples_of(index_t step) {
  return _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                            _mm512_set1_epi32(static_cast<int>(step)));
}

/// pack_rows for as many rows as fill tiles.
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void pack_whole_rows(const float* from, index_t rows,
                                                                    index_t row, ListedRows term,
                                                                    index_t count,
                                                                    std::uint32_t* to) {
  const index_t steps  = bfloat16_steps(count);
  const __m512i packed = multiples_of(pairs_of_tile), places = multiples_of(row);
  for (index_t p = 0; p < steps * pairs_of_tile; ++p) {
    const float* first  = 2 * p < count ? from + term(2 * p) : nullptr;
    const float* second = 2 * p + 1 < count ? from + term(2 * p + 1) : nullptr;
    for (index_t m = 0; m < rows; m += bfloat16_lanes) {
      const __m512i pairs = row == 1
                                ? pairs_of(values_at(first), values_at(second))
                                : pairs_of(values_at(first, places), values_at(second, places));
      _mm512_i32scatter_epi32(&pair_of_row(to, steps, m, p), packed, pairs, sizeof(std::uint32_t));
      if (first != nullptr) first += bfloat16_lanes * row;
      if (second != nullptr) second += bfloat16_lanes * row;
    }
  }
}

template <class Terms>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void pack_panel(const float* panel,
                                                               const Terms& term, index_t count,
                                                               index_t used, std::uint32_t* to) {
  const index_t steps = bfloat16_steps(count);
  for (index_t p = 0; p < steps * pairs_of_tile; ++p) {
    const float* const first  = 2 * p < count ? panel + term(2 * p) : nullptr;
    const float* const second = 2 * p + 1 < count ? panel + term(2 * p + 1) : nullptr;
    for (index_t j = 0; j < used; j += bfloat16_lanes)
      _mm512_storeu_si512(pairs_of_columns(to, steps, j, p),
                          pairs_of(values_at(first != nullptr ? first + j : nullptr),
                                   values_at(second != nullptr ? second + j : nullptr)));
  }
}

/// multiply_emulated in registers 0 to 5; 6 and 7 hold the operands.
[[gnu::target("amx-tile,amx-bf16")]] void multiply_in_registers(const std::uint32_t* a,
                                                                index_t row_tiles,
                                                                const std::uint32_t* b,
                                                                index_t column_tiles, index_t steps,
                                                                float* part) {
  asm volatile("" ::: "memory");  // compilers don't know what the loads below read
  constexpr int line = 64, part_line = part_columns * sizeof(float);
  const std::uint32_t* const second = a + steps * bfloat16_tile;
  const index_t b_tile              = steps * bfloat16_tile;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (index_t s = 0; s < steps; ++s) {
    const index_t at               = s * bfloat16_tile;
    const std::uint32_t* const b_s = b + at;
    _tile_loadd(6, a + at, line);
    _tile_loadd(7, b_s, line);
    _tile_dpbf16ps(0, 6, 7);
    if (column_tiles > 1) {
      _tile_loadd(7, b_s + b_tile, line);
      _tile_dpbf16ps(1, 6, 7);
    }
    if (column_tiles > 2) {
      _tile_loadd(7, b_s + 2 * b_tile, line);
      _tile_dpbf16ps(2, 6, 7);
    }
    if (row_tiles == 1) continue;
    _tile_loadd(6, second + at, line);
    if (column_tiles > 2) _tile_dpbf16ps(5, 6, 7);
    if (column_tiles > 1) {
      _tile_loadd(7, b_s + b_tile, line);
      _tile_dpbf16ps(4, 6, 7);
    }
    _tile_loadd(7, b_s, line);
    _tile_dpbf16ps(3, 6, 7);
  }
  float* const lower = part + bfloat16_lanes * part_columns;
  _tile_stored(0, part, part_line);
  if (column_tiles > 1) _tile_stored(1, part + bfloat16_lanes, part_line);
  if (column_tiles > 2) _tile_stored(2, part + 2 * bfloat16_lanes, part_line);
  if (row_tiles == 1) return;
  _tile_stored(3, lower, part_line);
  if (column_tiles > 1) _tile_stored(4, lower + bfloat16_lanes, part_line);
  if (column_tiles > 2) _tile_stored(5, lower + 2 * bfloat16_lanes, part_line);
}

/// Asks the processor, and Linux for the permission to use the registers, which holds for all
/// threads.
bool find_tile_registers() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned bf16 = 1U << 22U, tile = 1U << 24U;
  if ((d & bf16) == 0 || (d & tile) == 0) return false;
  // a virtual machine may hide them
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw")) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
bool has_tile_registers() {
  static const bool has = find_tile_registers();
  return has;
}
#else
bool has_tile_registers() { return false; }
void begin_tiles() {}
void end_tiles() {}
constexpr auto multiply_in_registers = multiply_emulated;
#endif

}  // namespace

bool has_bfloat16_tiles() { return emulated || has_tile_registers(); }
void emulate_bfloat16_tiles(bool emulate) { emulated = emulate; }

void begin_bfloat16_tiles() {
  if (!emulated) begin_tiles();
}
void end_bfloat16_tiles() {
  if (!emulated) end_tiles();
}

void pack_bfloat16_rows(const float* from, index_t rows, index_t row, EvenRows term, index_t count,
                        std::uint32_t* to) {
#ifdef SHARD_HAS_TILE_REGISTERS
  if (!emulated) return pack_lines(from, rows, row, count, to);
#endif
  pack_rows(from, rows, row, term, count, to);
}
void pack_bfloat16_rows(const float* from, index_t rows, index_t row, ListedRows term,
                        index_t count, std::uint32_t* to) {
#ifdef SHARD_HAS_TILE_REGISTERS
  constexpr index_t most = index_t{1} << 26U;  // 32-bit places
  if (!emulated && row < most) {
    const index_t whole = rows - rows % bfloat16_lanes;
    pack_whole_rows(from, whole, row, term, count, to);
    return pack_rows(from + whole * row, rows - whole, row, term, count,
                     to + bfloat16_pairs(whole, count));
  }
#endif
  pack_rows(from, rows, row, term, count, to);
}

template <class Terms>
void pack_bfloat16_columns(const float* panel, const Terms& term, index_t count, index_t used,
                           std::uint32_t* to) {
#ifdef SHARD_HAS_TILE_REGISTERS
  if (!emulated) return pack_panel(panel, term, count, used, to);
#endif
  pack_columns(panel, term, count, used, to);
}
template void pack_bfloat16_columns(const float*, const EvenRows&, index_t, index_t,
                                    std::uint32_t*);
template void pack_bfloat16_columns(const float*, const ListedRows&, index_t, index_t,
                                    std::uint32_t*);

void pack_bfloat16_lines(const float* from, const index_t* column, index_t count, index_t used,
                         std::uint32_t* to) {
#ifdef SHARD_HAS_TILE_REGISTERS
  if (!emulated) return pack_transposed(from, column, count, used, to);
#endif
  pack_lines_of_columns(from, column, count, used, to);
}

void add_bfloat16_products(index_t rows, index_t used, const std::uint32_t* a,
                           const std::uint32_t* b, index_t count, const float* sums,
                           index_t sums_row, float* to, index_t to_row) {
  const auto multiply        = emulated ? multiply_emulated : multiply_in_registers;
  const index_t steps        = bfloat16_steps(count),
                column_tiles = (used + bfloat16_lanes - 1) / bfloat16_lanes;
  alignas(64) float part[part_rows * part_columns];
  for (index_t m0 = 0; m0 < rows; m0 += part_rows) {
    const index_t some = std::min(rows - m0, part_rows);
    multiply(a + m0 / bfloat16_lanes * steps * bfloat16_tile, some > bfloat16_lanes ? 2 : 1, b,
             column_tiles, steps, part);
    for (index_t m = 0; m < some; ++m) {
      const float* const from = sums + (m0 + m) * sums_row;
      float* const line       = to + (m0 + m) * to_row;
      const auto add          = [&]<int Tiles>(std::integral_constant<int, Tiles>) {
        for (int j = 0; j < Tiles * bfloat16_lanes; ++j)
          line[j] = from[j] + part[m * part_columns + j];
      };
      if (column_tiles == 3)
        add(std::integral_constant<int, 3>());
      else if (column_tiles == 2)
        add(std::integral_constant<int, 2>());
      else
        add(std::integral_constant<int, 1>());
    }
  }
}

}  // namespace shard::impl
