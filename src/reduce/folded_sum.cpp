// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/reduce/impl/folded_sum.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "shard/reduce/impl/reduction_accumulator.hpp"

namespace shard::impl {

namespace {

constexpr int lanes  = FoldedSum::lanes;
constexpr int levels = FoldedSum::levels;

/// Exponents of the levels, from that of the first fold: the carries, and three folds of 45 bits.
constexpr int fold[levels] = {32, 0, -45, -90};
/// A term is at most 2^-8 of the first fold, so the sum of the 64 terms of a lane between two
/// carries is at most a quarter of it.
constexpr int headroom = 8;
/// Range of the first fold's exponent without overflow or underflow of a level.
constexpr int least_exponent = -600, most_exponent = 980;
/// Blocks with three folds after one that two didn't hold, before two are tried again.
constexpr int blocks_until_retry = 8;
/// The rounding error of a smaller product may not be representable.
constexpr double least_product = 0x1p-968;

/// x y = product + error, exactly, unless one of them over- or underflows.
struct Product {
  double product, error;

  Product(double x, double y) {
#if defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__)
    // a plain x * y might be contracted with a following addition
    product = std::fma(x, y, 0.0);
    error   = std::fma(x, y, -product);
#else
    // T. J. Dekker, "A floating-point technique for extending the available precision", 1971
    product                = x * y;
    constexpr double split = 0x1p27 + 1.0;
    const double xs = split * x, ys = split * y;
    const double x1 = xs - (xs - x), y1 = ys - (ys - y), x0 = x - x1, y0 = y - y1;
    error = ((x1 * y1 - product) + x1 * y0 + x0 * y1) + x0 * y0;
#endif
  }
};

/// Adds the high part of x to a level, and leaves the remainder in x.
inline void deposit(double& level, double& x) {
  const double sum = level + x;
  x -= sum - level;
  level = sum;
}

/// Properties of a block of terms.
struct Seen {
  double most = 0.0, least = 0.0;  ///< magnitudes
  bool number = true;              ///< neither NaN nor infinity
  bool rest   = false;             ///< some remainder is below the levels
};

/// Adds up to FoldedSum::block terms to the levels; writes the remainders to `rest`, two values for
/// each lane.
template <bool IsProduct>
Seen add_block(double (&level)[levels][lanes], const double* x, const double* y, index_t n,
               double* rest) {
  double first[lanes], second[lanes], third[lanes], most[lanes], least[lanes], left[lanes];
  for (int l = 0; l < lanes; ++l) {
    first[l]  = level[1][l];
    second[l] = level[2][l];
    third[l]  = level[3][l];
    most[l]   = 0.0;
    least[l]  = HUGE_VAL;
    left[l]   = 0.0;
  }
  const auto add = [&](const double* xs, const double* ys, double* rests) {
    for (int l = 0; l < lanes; ++l) {
      double term = xs[l], error = 0.0;
      if constexpr (IsProduct) {
        const Product p(xs[l], ys[l]);
        term  = p.product;
        error = p.error;
      }
      const double size = std::fabs(term);
      most[l]           = size > most[l] ? size : most[l];
      if constexpr (IsProduct) least[l] = size < least[l] ? size : least[l];
      deposit(first[l], term);
      deposit(second[l], term);
      if constexpr (IsProduct) {
        deposit(second[l], error);
        deposit(third[l], error);
        rests[lanes + l] = error;
        left[l] += std::fabs(error);
      } else {
        deposit(third[l], term);
      }
      rests[l] = term;
      left[l] += std::fabs(term);
    }
  };
  const index_t whole = n / lanes * lanes;
  for (index_t i = 0; i < whole; i += lanes) add(x + i, IsProduct ? y + i : y, rest + 2 * i);
  if (whole < n) {
    double xs[lanes] = {}, ys[lanes] = {}, before[lanes];
    for (index_t i = whole; i < n; ++i) xs[i - whole] = x[i];
    if constexpr (IsProduct) {
      for (index_t i = whole; i < n; ++i) ys[i - whole] = y[i];
      std::copy_n(least, lanes, before);
    }
    add(xs, ys, rest + 2 * whole);
    if constexpr (IsProduct)
      for (index_t l = n - whole; l < lanes; ++l) least[l] = before[l];
  }
  Seen seen;
  seen.least = HUGE_VAL;
  for (int l = 0; l < lanes; ++l) {
    level[1][l] = first[l];
    level[2][l] = second[l];
    level[3][l] = third[l];
    seen.most   = std::max(seen.most, most[l]);
    seen.least  = std::min(seen.least, least[l]);
    seen.number = seen.number && (first[l] - first[l]) + (second[l] - second[l]) == 0.0;
    seen.rest   = seen.rest || left[l] != 0.0;
  }
  return seen;
}

/// The first two folds after some terms.
struct TwoFolds {
  double first[lanes], second[lanes];
  bool exact;  ///< no term was above the limit or has a remainder below the second fold
};

/// Adds values that two folds hold, as most blocks of a field do: two thirds of the work, and no
/// remainders are written.
TwoFolds add_to_two(const double (&level)[levels][lanes], double limit, const double* x,
                    index_t n) {
  TwoFolds folds;
  double *const first = folds.first, *const second = folds.second;
  std::int64_t above[lanes] = {}, left[lanes] = {};
  std::copy_n(level[1], lanes, first);
  std::copy_n(level[2], lanes, second);
  // Magnitudes are compared as integers: of two numbers the greater one has the greater bits.
  const auto most = std::bit_cast<std::int64_t>(limit);
  const auto add  = [&](const double* xs) {
    for (int l = 0; l < lanes; ++l) {
      double term = xs[l];
      above[l] |= most - std::bit_cast<std::int64_t>(std::fabs(term));
      deposit(first[l], term);
      deposit(second[l], term);
      left[l] |= std::bit_cast<std::int64_t>(term);
    }
  };
  const index_t whole = n / lanes * lanes;
  for (index_t i = 0; i < whole; i += lanes) add(x + i);
  if (whole < n) {
    double xs[lanes] = {};
    std::copy_n(x + whole, n - whole, xs);
    add(xs);
  }
  std::int64_t any_above = 0, any_left = 0;
  for (int l = 0; l < lanes; ++l) {
    any_above |= above[l];
    any_left |= left[l];
  }
  constexpr std::int64_t digits = std::numeric_limits<std::int64_t>::max();  // -0 isn't a remainder
  folds.exact                   = any_above >= 0 && (any_left & digits) == 0;
  return folds;
}

/// Carries each level into the one above it.
void carry_levels(double (&level)[levels][lanes], const double (&empty)[levels]) {
  for (int k = levels - 1; k > 0; --k)
    for (int l = 0; l < lanes; ++l) {
      double more        = level[k][l] - empty[k];
      const double there = more;
      deposit(level[k - 1][l], more);
      level[k][l] -= there - more;
    }
}

}  // namespace

FoldedSum::FoldedSum(index_t* sum) : sum_(sum) { ExactSum::clear(sum_); }

void FoldedSum::finish() {
  flush();
  ExactSum::carry(sum_);
}

void FoldedSum::add(const double* x, index_t n) {
  for (index_t i = 0; i < n; i += block) add_some<false>(x + i, nullptr, std::min(block, n - i));
}

void FoldedSum::add_products(const double* x, const double* y, index_t n) {
  for (index_t i = 0; i < n; i += block) add_some<true>(x + i, y + i, std::min(block, n - i));
}

/// Adds the levels to the long accumulator.
void FoldedSum::flush() {
  for (int k = 0; k < levels; ++k)
    for (int l = 0; l < lanes; ++l) {
      add_exactly(level_[k][l] - empty_[k]);
      level_[k][l] = empty_[k];
    }
  uncarried_ = 0;
}

void FoldedSum::add_exactly(double x) {
  if (x == 0.0) return;
  ExactSum::add(sum_, x);
  count_term();
}

void FoldedSum::count_term() {
  if (++terms_ < ExactSum::most_terms) return;
  ExactSum::carry(sum_);
  terms_ = 0;
}

/// Carries the levels, unless they have room for another block after these terms of a lane.
void FoldedSum::carry_after(index_t terms) {
  uncarried_ += terms;
  if (uncarried_ < block / lanes) return;
  carry_levels(level_, empty_);
  uncarried_ = 0;
}

/// Sets the levels for terms of this magnitude.
void FoldedSum::fit(double most) {
  flush();
  deep_              = 0;
  const int exponent = std::max(std::ilogb(most) + 1 + headroom, least_exponent);
  limit_             = std::ldexp(1.0, exponent - headroom);
  for (int k = 0; k < levels; ++k) {
    empty_[k] = std::ldexp(1.5, exponent + fold[k]);
    std::fill_n(level_[k], lanes, empty_[k]);
  }
}

template <bool IsProduct>
void FoldedSum::add_some(const double* x, const double* y, index_t n) {
  double rest[2 * block], tried[levels][lanes];
  if constexpr (!IsProduct)
    if (deep_-- <= 0) {
      const TwoFolds folds = add_to_two(level_, limit_, x, n);
      if (folds.exact) {
        deep_ = 0;
        std::copy_n(folds.first, lanes, level_[1]);
        std::copy_n(folds.second, lanes, level_[2]);
        carry_after((n + lanes - 1) / lanes);
        return;
      }
      deep_ = blocks_until_retry;
    }
  carry_after(block / lanes);
  const auto run = [&] {
    std::copy_n(&level_[0][0], levels * lanes, &tried[0][0]);
    return add_block<IsProduct>(tried, x, y, n, rest);
  };
  Seen seen            = run();
  constexpr double few = 0x1p-24;  // relative to the levels' magnitude
  if (!seen.number || seen.most > limit_ || (seen.rest && seen.most < few * limit_)) {
    if (!seen.number || seen.most > std::ldexp(1.0, most_exponent - headroom)) {
      for (index_t i = 0; i < n; ++i) {
        if constexpr (IsProduct)
          ExactSum::add_product(sum_, x[i], y[i]);
        else
          ExactSum::add(sum_, x[i]);
        count_term();
      }
      return;
    }
    fit(seen.most);
    seen = run();
  }
  if constexpr (IsProduct)
    if (seen.least < least_product) {
      double others[block];
      bool any = false;
      for (index_t i = 0; i < n; ++i) {
        const bool tiny = x[i] != 0.0 && y[i] != 0.0 && std::fabs(x[i] * y[i]) < least_product;
        others[i]       = tiny ? 0.0 : x[i];
        any             = any || tiny;
      }
      if (any) {
        for (index_t i = 0; i < n; ++i)
          if (others[i] != x[i]) {
            ExactSum::add_product(sum_, x[i], y[i]);
            count_term();
          }
        return add_some<true>(others, y, n);
      }
    }
  carry_levels(tried, empty_);
  std::copy_n(&tried[0][0], levels * lanes, &level_[0][0]);
  if (seen.rest)
    for (index_t i = 0; i < (n + lanes - 1) / lanes * lanes; ++i) {
      const double* const both = rest + i / lanes * 2 * lanes + i % lanes;
      add_exactly(both[0]);
      if constexpr (IsProduct) add_exactly(both[lanes]);
    }
}

}  // namespace shard::impl
