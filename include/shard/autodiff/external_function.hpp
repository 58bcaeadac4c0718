// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_EXTERNAL_FUNCTION_HPP
#define SHARD_AUTODIFF_EXTERNAL_FUNCTION_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <utility>

#include "shard/autodiff/operation.hpp"
#include "shard/exchange/stale.hpp"

namespace shard {

/// Wraps an operation for other AD tools (CoDiPack's and ADOL-C's external functions, Enzyme's
/// custom rules). Inputs and outputs are this rank's owned points as a flat array of doubles, the
/// last dimension fastest. Copies share everything. Each call is collective and blocking: all ranks
/// must make the same calls in the same order, forward and backward.
template <class Space, class Op, AnyShardedView X, AnyShardedView Y>
class ExternalFunction {
 public:
  /// For inputs like x. Allocates all its fields.
  ExternalFunction(const Space& space, const Op& op, const X& x, const Y& y)
      : space_(space),
        op_(op),
        x_(x.like("shard::external x")),
        y_(y.like("shard::external y")),
        dx_(x.like("shard::external dx")),
        dy_(y.like("shard::external dy")) {}

  /// Number of inputs: this rank's owned points of x.
  index_t inputs() const { return cells(x_); }
  /// Number of outputs.
  index_t outputs() const { return cells(y_); }

  /// out = op(in).
  void apply(const double* in, double* out) const {
    put_values(x_, in);
    op_.apply(space_, y_, x_);
    take(out, y_);
  }
  /// Sets `in_adjoint` = J' `out_adjoint` at the inputs `in` of an earlier apply. Applies the
  /// operation again first, to restore its state.
  void pullback(double* in_adjoint, const double* out_adjoint, const double* in) const {
    put_values(x_, in);
    op_.apply(space_, y_, x_);
    put(dy_, out_adjoint);
    impl::call_pullback(op_, space_, dx_, dy_, x_);
    take(in_adjoint, dx_);
  }
  /// out_tangent = J in_tangent at the inputs `in`.
  void pushforward(double* out_tangent, const double* in_tangent, const double* in) const {
    put_values(x_, in);
    op_.apply(space_, y_, x_);
    put_values(dx_, in_tangent);
    impl::call_pushforward(op_, space_, dy_, dx_, x_);
    take(out_tangent, dy_);
  }

 private:
  template <class Field>
  static index_t cells(const Field& f) {
    index_t n = 1;
    for (int d = 0; d < Field::rank; ++d) n *= f.extent(d);
    return n;
  }
  /// Copies between a field's owned points and the flat array.
  template <class Field, class T>
  static auto flat(const Field& f, T* values) {
    using View = Kokkos::View<
        typename Kokkos::View<typename Field::view_type::non_const_data_type>::data_type,
        Kokkos::LayoutRight, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    static_assert(std::is_same_v<typename Field::non_const_value_type, double>,
                  "an external function's fields hold doubles");
    Kokkos::LayoutRight layout;
    for (int d = 0; d < Field::rank; ++d)
      layout.dimension[d] = static_cast<std::size_t>(f.extent(d));
    return View(const_cast<double*>(values), layout);
  }
  template <class Field>
  void put(const Field& f, const double* values) const {
    const auto host = create_mirror_view(f);
    Kokkos::deep_copy(space_, host.owned(), flat(f, values));
    if constexpr (!std::is_same_v<typename Field::memory_space, Kokkos::HostSpace>)
      deep_copy(space_, f, host);
  }
  /// Marks a field whose halo an exchange has to fill; not a gradient.
  template <class Field>
  void put_values(const Field& f, const double* values) const {
    put(f, values);
    mark_written(space_, f);
  }
  template <class Field>
  void take(double* values, const Field& f) const {
    const auto host = create_mirror_view(f);
    if constexpr (!std::is_same_v<typename Field::memory_space, Kokkos::HostSpace>)
      deep_copy(space_, host, f);
    Kokkos::deep_copy(space_, flat(f, values), host.owned());
    space_.fence("shard::ExternalFunction: values for the caller");
  }

  Space space_;
  Op op_;
  X x_;
  Y y_;
  X dx_;
  Y dy_;
};

}  // namespace shard

#endif
