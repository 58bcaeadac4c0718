// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_COMPLEX_STEP_HPP
#define SHARD_AUTODIFF_COMPLEX_STEP_HPP

#include <Kokkos_Core.hpp>

#include <cmath>

#include "shard/autodiff/checks.hpp"
#include "shard/base/impl/launch.hpp"

namespace shard {

namespace impl {

/// float*** as Kokkos::complex<float>***
template <class T>
struct ComplexData {
  using type = Kokkos::complex<T>;
};
template <class T>
struct ComplexData<T*> {
  using type = typename ComplexData<T>::type*;
};

template <class Value>
struct ComplexOf;
template <class T, class Layout, class... Options>
struct ComplexOf<ShardedView<T, Layout, Options...>> {
  using type = ShardedView<typename ComplexData<T>::type, Layout, Options...>;
};

template <class T>
struct ToComplexKernel {
  Kokkos::complex<T>* to;
  const T* real;
  const T* imaginary;
  T step;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    to[i] = Kokkos::complex<T>(real[i], step * imaginary[i]);
  }
};
template <class T>
struct ImaginaryPartKernel {
  T* to;
  const Kokkos::complex<T>* from;
  T scale;

  KOKKOS_FUNCTION void operator()(index_t i) const { to[i] = scale * from[i].imag(); }
};

template <class Field>
auto complex_like(const Field& f) {
  return FieldAccess::allocate_like<typename ComplexOf<Field>::type>(f, "shard::complex");
}

}  // namespace impl

/// The relative difference of a tangent from the complex step, Im f(x + i h tx) / h with h = 1e-30,
/// which has no cancellation (Squire and Trapp 1998). For analytic operations (no absolute values,
/// no maxima) that also accept fields of Kokkos::complex. x and y are fields. Collective; allocates
/// and fences.
template <class Space, class Op, AnyShardedView X, AnyShardedView Y>
double complex_step_error(const Space& space, const Op& op, const X& x, const X& tx,
                          const Y& like_y) {
  using T          = typename X::non_const_value_type;
  constexpr T step = static_cast<T>(1e-30);
  const auto cells = [](const auto& f) { return static_cast<index_t>(f.view().span()); };
  const auto zx = impl::complex_like(x), zy = impl::complex_like(like_y);
  const Y y = like_y.like("shard::y"), ty = like_y.like("shard::ty"), z = like_y.like("shard::z");
  // copies with the memory layout of the complex fields
  const X real = x.like("shard::x"), tangent = tx.like("shard::tx");
  impl::copy_value(space, real, x);
  impl::copy_value(space, tangent, tx);
  impl::launch(
      "shard::to complex", space, cells(real),
      impl::ToComplexKernel<T>{zx.view().data(), real.view().data(), tangent.view().data(), step});
  op.apply(space, zy, zx);
  impl::launch("shard::imaginary part", space, cells(z),
               impl::ImaginaryPartKernel<T>{z.view().data(), zy.view().data(), T(1) / step});
  op.apply(space, y, real);
  impl::call_pushforward(op, space, ty, tangent, real);
  const double size = impl::dot_value(space, ty, ty);
  impl::add_value(space, z, ty, -1.0);
  const double off = impl::dot_value(space, z, z);
  return std::sqrt(size > 0.0 ? off / size : off);
}

}  // namespace shard

#endif
