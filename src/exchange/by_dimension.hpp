// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_BY_DIMENSION_HPP
#define SHARD_SRC_EXCHANGE_BY_DIMENSION_HPP

#include <string>
#include <vector>

#include "shard/exchange/impl/route.hpp"

namespace shard::impl {

/// The routes of a halo exchange that goes through one dimension after the other.
///
/// A phase moves the halo along one dimension. In dimensions of earlier phases its pieces include
/// the halo, which is filled by then, so corners travel in several hops. In dimensions of later
/// phases they have owned elements only. So its peers have this rank's coordinates along all other
/// dimensions, except for folds, which shift a longitude too.
class PhasedFields {
 public:
  explicit PhasedFields(const std::vector<FieldSpec>& fields);

  /// 0 if there is only one phase, or no corner: the direct exchange does the same.
  int phases() const { return phases_; }
  /// Why an exchange by dimension would give another result than the direct one; else empty.
  const std::string& wrong() const { return wrong_; }
  /// Local.
  Route route(const MeshState& mesh, int phase) const;

 private:
  const std::vector<FieldSpec>& fields_;
  std::vector<std::vector<int>> orders_;  // of each field's dimensions
  int phases_ = 0;
  std::string wrong_;
};

}  // namespace shard::impl

#endif
