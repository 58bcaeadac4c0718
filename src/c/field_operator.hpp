// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_C_FIELD_OPERATOR_HPP
#define SHARD_SRC_C_FIELD_OPERATOR_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "handles.hpp"
#include "shard/shard.hpp"
#include "shard/solve/operators.hpp"
#include "shard/view/impl/field_type.hpp"

/// \file
/// A stencil whose coefficients are fields of the C interface, as an operator of the solvers.

namespace shard::c {

constexpr int most_points    = 27;
constexpr int rank_of_solver = 3;

/// What the solvers iterate on: the owned elements of a field, those of fewer dimensions in the
/// last ones. Its type has no sharded dimension; its geometry has.
template <class Memory>
using Vector = ShardedView<double***, Kokkos::LayoutRight, Memory>;

using Strides = Kokkos::Array<index_t, rank_of_solver>;

/// The strides of a field's dimensions as a Vector has them.
inline Strides strides_of(const shard_field_s& field) {
  Strides strides{};
  const int first = rank_of_solver - field.geometry.rank;
  for (int d = 0; d < field.geometry.rank; ++d)
    strides[impl::Geometry::at(first + d)] = field.stride[impl::Geometry::at(d)];
  return strides;
}

template <class Memory>
Vector<Memory> vector_like(const shard_field_s& field) {
  return impl::FieldAccess::allocate<Vector<Memory>>(lifted_geometry(field, rank_of_solver));
}

/// A vector into a field.
template <class V>
struct StoreVectorKernel {
  V from;
  double* to;
  Strides stride;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to[i * stride[0] + j * stride[1] + k * stride[2]] = from(i, j, k);
  }
};
/// A field into a vector.
template <class V>
struct LoadVectorKernel {
  V to;
  const double* from;
  Strides stride;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to(i, j, k) = from[i * stride[0] + j * stride[1] + k * stride[2]];
  }
};

struct StencilPoint {
  const double* coefficient;
  Strides stride;
  index_t offset;  // in x
};
/// y = the sum over the points of coefficient times x at the point; `x` has its halo.
template <class V>
struct FieldStencilKernel {
  V y;
  const double* x;
  Strides stride;
  Kokkos::Array<StencilPoint, most_points> point;
  int points;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    const double* const here = x + (i * stride[0] + j * stride[1] + k * stride[2]);
    double sum               = 0.0;
    for (int p = 0; p < points; ++p) {
      const StencilPoint& of = point[static_cast<std::size_t>(p)];
      sum +=
          of.coefficient[i * of.stride[0] + j * of.stride[1] + k * of.stride[2]] * here[of.offset];
    }
    y(i, j, k) = sum;
  }
};

inline double* values_of(const shard_field_s& field) {
  return reinterpret_cast<double*>(field.origin);
}

/// What an operator of fields was given.
struct StencilOfFields {
  std::vector<shard_field> coefficients;  // retained
  std::vector<std::array<int, rank_of_solver>> offsets;

  StencilOfFields()                                  = default;
  StencilOfFields(const StencilOfFields&)            = delete;
  StencilOfFields& operator=(const StencilOfFields&) = delete;
  ~StencilOfFields() {
    for (shard_field& field : coefficients) shard_field_release(&field);
  }
};

/// The stencil as an operator of the solvers.
template <class Memory>
class FieldOperator {
  using V = Vector<Memory>;

 public:
  // CG takes symmetric operators alone; whether this one is, the caller knows
  static constexpr bool is_symmetric = true;

  FieldOperator(const shard_field_s& like, std::shared_ptr<const StencilOfFields> stencil)
      : stencil_(std::move(stencil)), work_(std::make_shared<shard_field_s>()) {
    work_->geometry   = like.geometry;
    work_->types      = like.types;
    work_->kind       = like.kind;
    work_->value_size = like.value_size;
    index_t step = 1, front = 0;
    for (int d = like.geometry.rank - 1; d >= 0; --d) {
      const auto at     = impl::Geometry::at(d);
      work_->stride[at] = step;
      front += step * like.types[at].lo;
      step *= like.types[at].lo + like.geometry.owned(d) + like.types[at].hi;
    }
    memory_       = Kokkos::View<double*, Memory>("shard::solver", static_cast<std::size_t>(step));
    work_->origin = reinterpret_cast<std::byte*>(memory_.data() + front);
    plan_         = impl::FieldPlan<Memory>::make(*like.geometry.mesh, {spec_of(*work_)});
  }

  template <class Space>
  void apply(const Space& space, const V& y, const V& x) const {
    impl::require_operands("solver_apply", y, x);
    spread(space, x);
    impl::write_points("shard::stencil_of_fields", space, y, kernel(y));
  }
  template <class Space>
  void diagonal(const Space& space, const V& d) const {
    const std::array<int, rank_of_solver> here{};
    for (std::size_t p = 0; p < stencil_->offsets.size(); ++p) {
      if (stencil_->offsets[p] != here) continue;
      const shard_field_s& c = *stencil_->coefficients[p];
      impl::write_points("shard::field_to_vector", space, d,
                         LoadVectorKernel<V>{d, values_of(c), strides_of(c)});
    }
  }

  const StencilOfFields& stencil() const { return *stencil_; }
  const shard_field_s& like() const { return *work_; }
  /// x with its halo, on the host: the value of each point of each element, in the order of
  /// elements (the last dimension the fastest), then of points.
  template <class Space>
  std::vector<double> around(const Space& space, const V& x) const {
    spread(space, x);
    space.fence("shard_solver: the values around each element");
    const auto values    = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), memory_);
    const auto kernel_of = kernel(x);
    const auto front     = values_of(*work_) - memory_.data();
    std::vector<double> found;
    for (index_t i = 0; i < x.extent(0); ++i)
      for (index_t j = 0; j < x.extent(1); ++j)
        for (index_t k = 0; k < x.extent(2); ++k)
          for (int p = 0; p < kernel_of.points; ++p) {
            const auto& s = kernel_of.stride;
            found.push_back(values(
                static_cast<std::size_t>(front + i * s[0] + j * s[1] + k * s[2] +
                                         kernel_of.point[static_cast<std::size_t>(p)].offset)));
          }
    return found;
  }

 private:
  /// x with its halo, in the operator's own memory.
  template <class Space>
  void spread(const Space& space, const V& x) const {
    parallel_for("shard::vector_to_field", space, owned_region(x),
                 StoreVectorKernel<V>{x, values_of(*work_), strides_of(*work_)});
    void* const at                 = work_->origin;
    const impl::Geometry* const of = &work_->geometry;
    const impl::StartedExchange exchanged =
        plan_->start(space, impl::FieldAddresses{&at, &at, &of}, impl::Direction::forward);
    plan_->finish(space, exchanged);
  }
  FieldStencilKernel<V> kernel(const V& y) const {
    FieldStencilKernel<V> made{y, values_of(*work_), strides_of(*work_), {}, 0};
    for (std::size_t p = 0; p < stencil_->offsets.size(); ++p) {
      const shard_field_s& c = *stencil_->coefficients[p];
      index_t offset         = 0;
      for (int d = 0; d < work_->geometry.rank; ++d)
        offset +=
            stencil_->offsets[p][impl::Geometry::at(d)] * work_->stride[impl::Geometry::at(d)];
      made.point[p] = {values_of(c), strides_of(c), offset};
    }
    made.points = static_cast<int>(stencil_->offsets.size());
    return made;
  }

  std::shared_ptr<const StencilOfFields> stencil_;
  std::shared_ptr<shard_field_s> work_;
  Kokkos::View<double*, Memory> memory_;
  std::shared_ptr<impl::FieldPlan<Memory>> plan_;
};

}  // namespace shard::c

#endif
