// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_BFLOAT16_TILES_HPP
#define SHARD_SRC_LAYERS_BFLOAT16_TILES_HPP

#include <cstdint>
#include <type_traits>

#include "product_tile.hpp"
#include "scratch.hpp"
#include "shard/layers/product_precision.hpp"

/// \file
/// Products of floats that a host rounds to bfloat16, in the tile registers of x86-64 processors
/// (AMX-BF16). A tile has 16 rows of 16 pairs: in a first operand 16 rows and 32 terms, in a second
/// one 32 terms and 16 columns, each pair two terms. Terms are padded with zeros.

namespace shard::impl {

inline constexpr index_t bfloat16_terms = 32, bfloat16_lanes = 16,
                         bfloat16_tile = bfloat16_terms / 2 * bfloat16_lanes;

/// The tiles of `count` terms.
inline index_t bfloat16_steps(index_t count) {
  return (count + bfloat16_terms - 1) / bfloat16_terms;
}
/// The pairs of a packed first operand.
inline index_t bfloat16_pairs(index_t rows, index_t count) {
  return (rows + bfloat16_lanes - 1) / bfloat16_lanes * bfloat16_steps(count) * bfloat16_tile;
}

/// True if this processor has the tile registers and Linux lets the process use them, or if they
/// are emulated.
bool has_bfloat16_tiles();
/// For tests: computes on any processor, slowly, what the registers would, with the same bits but
/// for sums below the smallest normal float, which the registers make zeros. Don't call it while
/// kernels run.
void emulate_bfloat16_tiles(bool emulate);

/// True if products of T on a host are rounded to bfloat16.
template <class T>
bool rounds_to_bfloat16() {
  if constexpr (std::is_same_v<T, float>)
    return product_precision() == ProductPrecision::bfloat16 && has_bfloat16_tiles();
  return false;
}
/// True if the products of a convolution with `some` input and `others` output channels in a group
/// are rounded. With fewer channels than a tile has rows, float is faster.
template <class T>
bool rounds_to_bfloat16(index_t some, index_t others) {
  return some >= bfloat16_lanes && others >= bfloat16_lanes && rounds_to_bfloat16<T>();
}

/// Packs a first operand. Element (m, r) is from[m * row + term(r)]; EvenRows have step 1.
void pack_bfloat16_rows(const float* from, index_t rows, index_t row, EvenRows term, index_t count,
                        std::uint32_t* to);
void pack_bfloat16_rows(const float* from, index_t rows, index_t row, ListedRows term,
                        index_t count, std::uint32_t* to);

/// Packs the first `used` columns of a second operand, whose row r is panel + term(r). Reads whole
/// groups of bfloat16_lanes columns.
template <class Terms>
void pack_bfloat16_columns(const float* panel, const Terms& term, index_t count, index_t used,
                           std::uint32_t* to);

/// The same if element (r, j) is from[column[j] + r].
void pack_bfloat16_lines(const float* from, const index_t* column, index_t count, index_t used,
                         std::uint32_t* to);

/// The most columns of add_bfloat16_products.
inline constexpr index_t bfloat16_columns = 48;

/// to[m * to_row + j] = sums[m * sums_row + j] + sum over r of a(m, r) b(r, j), the sum over r
/// first, for packed operands a and b. Other columns of the last bfloat16_lanes may be changed.
void add_bfloat16_products(index_t rows, index_t used, const std::uint32_t* a,
                           const std::uint32_t* b, index_t count, const float* sums,
                           index_t sums_row, float* to, index_t to_row);

/// Lets the calling thread use the tile registers, and gives them back. In between the thread may
/// not call another library that uses them.
void begin_bfloat16_tiles();
void end_bfloat16_tiles();

/// The products of a work item if they are rounded: its first operand, packed once for a block of
/// terms, and a panel of the second one.
template <class T>
class Bfloat16Products {
  static_assert(Tile<float>::columns % bfloat16_lanes == 0 &&
                Tile<float>::columns <= bfloat16_columns);

 public:
  Bfloat16Products(bool rounded, index_t rows, index_t columns, index_t terms)
      : rounded_(rounded), rows_(rows) {
    if (!rounded_) return;
    a_ =
        scratch_values<std::uint32_t>(bfloat16_pairs(rows, terms) + bfloat16_pairs(columns, terms));
    begin_bfloat16_tiles();
  }
  ~Bfloat16Products() {
    if (rounded_) end_bfloat16_tiles();
  }
  Bfloat16Products(const Bfloat16Products&)            = delete;
  Bfloat16Products& operator=(const Bfloat16Products&) = delete;

  explicit operator bool() const { return rounded_; }

  /// Sets a(m, r) = from[m * row + term(r)] for r < count.
  template <class Terms>
  void set_rows(const T* from, index_t row, const Terms& term, index_t count) {
    count_ = count;
    if constexpr (std::is_same_v<T, float>) pack_bfloat16_rows(from, rows_, row, term, count, a_);
  }
  /// Sets b(r, j) = panel[term(r) + j] for j < used.
  template <class Terms>
  void set_columns(const T* panel, const Terms& term, index_t used) {
    used_ = used;
    if constexpr (std::is_same_v<T, float>) pack_bfloat16_columns(panel, term, count_, used, b());
  }
  /// Sets b(r, j) = from[column[j] + r] for j < used.
  void set_lines(const T* from, const index_t* column, index_t used) {
    used_ = used;
    if constexpr (std::is_same_v<T, float>) pack_bfloat16_lines(from, column, count_, used, b());
  }
  /// to[m][j] = sums[m * sums_row + j] + sum over r of a(m, r) b(r, j).
  template <class To>
  void add(const T* sums, index_t sums_row, const To& to) const {
    if constexpr (std::is_same_v<T, float>)
      add_bfloat16_products(rows_, used_, a_, b(), count_, sums, sums_row, to.begin, to.step);
  }

 private:
  std::uint32_t* b() const { return a_ + bfloat16_pairs(rows_, count_); }

  bool rounded_;
  index_t rows_, count_ = 0, used_ = 0;
  std::uint32_t* a_ = nullptr;
};

}  // namespace shard::impl

#endif
