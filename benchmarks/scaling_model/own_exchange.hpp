// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_OWN_EXCHANGE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_OWN_EXCHANGE_HPP

#include <memory>

#include "halo/subject.hpp"
#include "measure.hpp"
#include "peers/problem.hpp"

namespace scaling {

using peers::index_t;
using TwoRanks = shard::Mesh<halo::First>;

/// Of the two faces of one field or several: bytes of a run that lies in one piece, and from one to
/// the next. Short runs are rows of a face where the fastest dimension is cut, long ones lie each
/// in a plane of its own, of which the second dimension is.
struct Shape {
  int value_bytes = 8;
  index_t run = 0, pitch = 0;
  index_t runs = 0;  ///< of both faces of all fields
  int fields   = 1;

  static constexpr index_t longest_short = 64;  // bytes
  index_t memory() const { return runs / 2 * pitch; }
};

/// Shard's own exchange of made-up fields with such faces, by plans that measure nothing: what a
/// machine takes for copies of one shape as the library makes them.
class OwnExchange {
 public:
  OwnExchange()                              = default;
  OwnExchange(const OwnExchange&)            = delete;
  OwnExchange& operator=(const OwnExchange&) = delete;
  virtual ~OwnExchange()                     = default;

  /// Whether the fields lie in memory that both ranks see.
  virtual bool has_windows() const = 0;
  /// By a message to the other rank.
  virtual Timed over_mpi() const = 0;
  /// Over shared memory: straight out of the other rank's fields, and by way of a window.
  virtual Timed direct() const = 0;
  virtual Timed window() const = 0;
  /// Within each of as many fields that a rank has alone.
  virtual Timed copies() const = 0;
};

/// Collective. `alone`: a mesh of this rank. Of one field or eight with runs of 1, 2, 3 or 5
/// doubles, or one float, where they are short, and of one field and doubles where they are long.
std::unique_ptr<OwnExchange> make_own_exchange(const TwoRanks& mesh, const TwoRanks& alone,
                                               const Shape& shape);

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
