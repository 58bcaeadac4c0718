// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_OWN_EXCHANGE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_OWN_EXCHANGE_HPP

#include <memory>

#include "halo/subject.hpp"
#include "measure.hpp"
#include "synthetic.hpp"

namespace scaling {

using TwoRanks = shard::Mesh<halo::First>;

/// Shard's own exchange of a made-up field with the two faces of `Faces`, by plans that measure
/// nothing: what a machine takes for copies of one shape as the library makes them.
class OwnExchange {
 public:
  OwnExchange()                              = default;
  OwnExchange(const OwnExchange&)            = delete;
  OwnExchange& operator=(const OwnExchange&) = delete;
  virtual ~OwnExchange()                     = default;

  /// Whether the field lies in memory that both ranks see.
  virtual bool has_windows() const = 0;
  /// By a message to the other rank.
  virtual Timed over_mpi() const = 0;
  /// Over shared memory: straight out of the other rank's field, and by way of a window.
  virtual Timed direct() const = 0;
  virtual Timed window() const = 0;
};

/// Collective. The shape's runs are those of `Faces`: of 1, 2, 3 or 5 doubles, or one float, where
/// they are short, and of doubles where they are long.
std::unique_ptr<OwnExchange> make_own_exchange(const TwoRanks& mesh, const Shape& shape);

/// Shard's own exchange of fields that have two boxes each, of one run.
class OwnBoxes {
 public:
  OwnBoxes()                           = default;
  OwnBoxes(const OwnBoxes&)            = delete;
  OwnBoxes& operator=(const OwnBoxes&) = delete;
  virtual ~OwnBoxes()                  = default;

  /// Each box in a message of its own.
  virtual Timed over_mpi() const = 0;
  /// Straight out of the other rank's fields.
  virtual Timed direct() const = 0;
};

/// Collective. Of 2, 4, 8 or 16 boxes of so many bytes, a multiple of 8.
std::unique_ptr<OwnBoxes> make_own_boxes(const TwoRanks& mesh, int boxes, index_t bytes);

}  // namespace scaling

#endif
