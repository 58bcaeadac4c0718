// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_C_FIELD_MULTIGRID_HPP
#define SHARD_SRC_C_FIELD_MULTIGRID_HPP

#include <memory>

#include "field_operator.hpp"

namespace shard::c {

/// Multigrid for a FieldOperator: its matrix, linear interpolation between boxes of elements, and
/// Galerkin products. A dimension is coarsened while it couples its elements at least 0.3 times as
/// strongly as the strongest.
template <class Memory>
class FieldMultigrid {
 public:
  static constexpr bool is_symmetric = true;

  /// Collective over the mesh. Errors as GalerkinMultigrid.
  FieldMultigrid(const FieldOperator<Memory>& a, int smoothing);

  /// z = one cycle on A z = r, from 0.
  template <class Space>
  void apply(const Space&, const Vector<Memory>& z, const Vector<Memory>& r) const {
    run(z, r);
  }

 private:
  struct Levels;
  void run(const Vector<Memory>& z, const Vector<Memory>& r) const;
  std::shared_ptr<Levels> levels_;
};

}  // namespace shard::c

#endif
