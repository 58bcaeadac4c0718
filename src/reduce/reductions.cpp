// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/reduce/impl/reduction_accumulator.hpp"
#include "shard/reduce/impl/reduction_kernels.hpp"

namespace shard::impl {

namespace {

/// mantissa * 2^exponent, the mantissa an integer of at most 53 bits.
struct Rounded {
  double mantissa;
  int exponent;
};

/// The sum rounded to 53 bits, none below 2^least; to nearest, ties to even.
Rounded round(const index_t* sum, int least) {
  std::array<index_t, ExactSum::width> size{};
  std::copy_n(sum, ExactSum::width, size.begin());
  const bool negative = sum[ExactSum::digits - 1] < 0;
  if (negative) {
    for (index_t& d : size) d = -d;
    ExactSum::carry(size.data());
  }
  const auto bit = [&](int p) {
    return p < 0 ? index_t{0} : size[static_cast<std::size_t>(p / 32)] >> (p % 32) & 1;
  };
  int top = 32 * ExactSum::digits - 1;
  while (top >= 0 && bit(top) == 0) --top;
  const int last   = std::max(top - 52, least - ExactSum::lowest);
  index_t mantissa = 0;
  for (int p = top; p >= last; --p) mantissa = 2 * mantissa + bit(p);
  bool below = false;  // anything after the bit after the last
  for (int p = 0; p < last - 1 && !below; ++p) below = bit(p) != 0;
  if (bit(last - 1) != 0 && (below || mantissa % 2 != 0)) ++mantissa;
  return {static_cast<double>(negative ? -mantissa : mantissa), last + ExactSum::lowest};
}

/// The result of a sum with infinities or NaNs; 0 if there are none.
double special(const index_t* sum) {
  const index_t* const count = sum + ExactSum::digits;
  const index_t nan = count[0], up = count[1], down = count[2];
  if (nan != 0 || (up != 0 && down != 0)) return std::numeric_limits<double>::quiet_NaN();
  if (up != 0) return std::numeric_limits<double>::infinity();
  return down != 0 ? -std::numeric_limits<double>::infinity() : 0.0;
}

}  // namespace

double ExactSum::value(const index_t* sum) {
  const double s = special(sum);
  if (s != 0.0) return s;
  const Rounded r = round(sum, -1074);
  return std::ldexp(r.mantissa, r.exponent);
}

double ExactSum::root(const index_t* sum) {
  const double s = special(sum);
  if (s != 0.0) return std::sqrt(s);
  const Rounded r = round(sum, lowest);
  const int odd   = r.exponent & 1;
  return std::ldexp(std::sqrt(r.mantissa * (odd + 1)), (r.exponent - odd) / 2);
}

void require_cells(std::string_view function, const Geometry& geometry) {
  for (int d = 0; d < geometry.rank; ++d)
    if (geometry.global(d) == 0)
      throw_argument(function, {"field \"", geometry.label, "\" has no cells: its dimension ",
                                text(d), " is empty"});
}

void require_row_weights(std::string_view function, const Geometry& geometry, int dim,
                         index_t weights) {
  const index_t rows = geometry.owned(dim);
  const Watched watched({.what = "other ranks to check their weights, for field",
                         .rank = geometry.mesh->rank(),
                         .of   = &geometry.label});
  require_no_error(geometry.mesh->comm(), function,
                   weights == rows ? std::string()
                                   : "there are " + text(weights) + " weights for the " +
                                         text(rows) + " rows that this rank owns of dimension " +
                                         text(dim) + " of \"" + geometry.label + "\"");
}

}  // namespace shard::impl
