// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_FOLDED_SUM_HPP
#define SHARD_REDUCE_IMPL_FOLDED_SUM_HPP

#include "shard/base/types.hpp"

namespace shard::impl {

/// An exact sum of doubles, or of products of two, with vector instructions, for a host's threads.
/// The result is added to the digits of an ExactSum.
///
/// Each term is split by error-free additions into parts in folds of 45 bits below the largest term
/// so far. The parts of each fold are added, also without rounding. Unlike binned sums (J. Demmel,
/// H. D. Nguyen, "Parallel reproducible summation", IEEE Transactions on Computers 64, 2015) it
/// doesn't drop the remainder below the last fold, but adds it to the ExactSum, as in S. Collange,
/// D. Defour, S. Graillat, R. Iakymchuk (see there). Three folds hold a product that is at least
/// 2^-29 of the largest; smaller ones are rare.
class FoldedSum {
 public:
  static constexpr int lanes     = 16;
  static constexpr int levels    = 4;    ///< carries, and three folds
  static constexpr index_t block = 512;  ///< terms between two carries
  static constexpr index_t part = 128;  ///< values to add at a time while later ones are prefetched

  /// `sum`: an ExactSum's digits, which are set to zero.
  explicit FoldedSum(index_t* sum);
  /// Adds values.
  void add(const double* x, index_t n);
  /// Adds the products of values.
  void add_products(const double* x, const double* y, index_t n);
  /// Adds all folds to the ExactSum, and carries.
  void finish();

 private:
  template <bool IsProduct>
  void add_some(const double* x, const double* y, index_t n);
  void add_exactly(double x);
  void count_term();
  void carry_after(index_t terms);
  void fit(double most);
  void flush();

  index_t* sum_;
  index_t terms_               = 0;    // of the ExactSum since the last carry
  index_t uncarried_           = 0;    // terms of a lane since the levels were carried
  int deep_                    = 0;    // blocks for which two folds aren't tried
  double limit_                = 0.0;  // the greatest term that the levels are for
  double empty_[levels]        = {};   // initial value of a level
  double level_[levels][lanes] = {};
};

}  // namespace shard::impl

#endif
