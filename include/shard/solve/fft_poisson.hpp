// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_FFT_POISSON_HPP
#define SHARD_SOLVE_FFT_POISSON_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/impl/box_transforms.hpp"
#include "shard/solve/impl/operands.hpp"

namespace shard {

/// Whether this build has FFTW. Otherwise the constructor of FFTPoisson throws an Error that says
/// how to build it.
bool fftw_available();

namespace impl {

/// A field of whole lines: dimension `Dim` is sharded over all of the axes, the others aren't.
template <class Field, int Dim, class Layout, class Axes>
struct LinesOf;
template <class Field, int Dim, class Layout, class... A>
struct LinesOf<Field, Dim, Layout, AxisList<A...>> {
  using data = std::conditional_t<Field::rank == 1, double*,
                                  std::conditional_t<Field::rank == 2, double**, double***>>;
  using type = ShardedView<data, Layout, ShardDim<Dim, Axes<A...>>, typename Field::memory_space>;
};
template <class Field, int Dim, class Layout>
struct LinesOf<Field, Dim, Layout, AxisList<>> {
  using type = ShardedView<typename LinesOf<Field, Dim, Layout, AxisList<void>>::data, Layout,
                           typename Field::memory_space>;
};

/// The axes that shard a field.
template <class Field, class Dims = std::make_integer_sequence<int, Field::rank>>
struct ShardingAxes;
template <class Field, int... D>
struct ShardingAxes<Field, std::integer_sequence<int, D...>> {
  using type =
      typename Concatenate<typename AxesOf<typename Field::template axis<D>>::type...>::type;
};

}  // namespace impl

/// The inverse of a Diffusion with k = 1 by real Fourier transforms (Schumann and Sweet 1988), as a
/// direct solver, or as a preconditioner of an operator that is near to it. Each pair of walls has
/// its transform: Periodic the Fourier transform, two walls without flux cosines, two of the value
/// 0 sines, and one of each those of a quarter wave. Of a singular operator (no wall with the value
/// 0, shift 0) it is the pseudo-inverse: it leaves the mean of b out and returns an x of mean 0.
///
///   const shard::FFTPoisson inverse(a);
///   inverse.apply(space, x, b);              // solves A x = b
///   shard::CG cg(x, variable, inverse);      // preconditions
///
/// `apply` moves the field to whole lines and back, four times with two or three dimensions: all
/// ranks send to all. A dimension is sharded over all ranks then, so more ranks than it has points
/// don't help. The bits are the same for every number of ranks. For fields of double; those on a
/// device are copied to the host, which transforms them. A handle: copies share the memory; one
/// `apply` at a time.
template <class Field>
class FFTPoisson {
  static_assert(std::is_same_v<typename Field::value_type, double>,
                "FFTPoisson is for fields of double; Converted makes one of another type");
  static constexpr int rank = Field::rank;
  using AllAxes             = typename impl::ShardingAxes<Field>::type;
  // lines along dimension 0: of a field of rank 1 each rank has the whole line
  using First =
      typename impl::LinesOf<Field, rank == 1 ? 0 : 1, Kokkos::LayoutLeft,
                             std::conditional_t<rank == 1, impl::AxisList<>, AllAxes>>::type;
  using Others = typename impl::LinesOf<Field, 0, Kokkos::LayoutRight, AllAxes>::type;

 public:
  static constexpr bool is_symmetric = true;  ///< A' = A

  /// For this operator. Collective. Throws Error without FFTW, and ArgumentError on every rank for
  /// an operator that is singular because of its shift.
  explicit FFTPoisson(const Diffusion<Field>& a)
      : state_(std::make_shared<State>(a.like(), dimensions(a))) {
    const auto box = box_of(state_->first);
    impl::require_no_error(a.like().communicator(), "FFTPoisson",
                           impl::singular_shift(state_->dims, rank, a.options().shift, box));
    state_->shift = a.options().shift;
  }
  /// x = A^-1 b; x may be b. Collective; fences `space`. Throws ArgumentError on every rank for
  /// fields of other partitions than the operator's.
  template <class Space>
  void apply(const Space& space, const Field& x, const Field& b) const {
    impl::require_alike("FFTPoisson", state_->like, x, b);
    const First& lines = state_->first;
    if constexpr (rank == 1) {
      redistribute(space, lines, b);
    } else {
      redistribute(space, state_->others, b);
      transform(space, false);
      redistribute(space, lines, state_->others);
    }
    on_host(space, lines, state_->first_host, [&](double* data) {
      impl::solve_lines(state_->along_first, state_->dims, rank, state_->shift, box_of(lines),
                        data);
    });
    if constexpr (rank == 1) {
      redistribute(space, x, lines);
    } else {
      redistribute(space, state_->others, lines);
      transform(space, true);
      redistribute(space, x, state_->others);
    }
  }

 private:
  using Dimensions = std::array<impl::BoxDimension, 3>;
  template <class F>
  using HostOf = decltype(Kokkos::create_mirror_view(std::declval<F>().view()));
  struct State {
    State(const Field& like_field, const Dimensions& all)
        : like(like_field),
          dims(all),
          along_first(&dims[0], 1),
          along_others(&dims[1], rank - 1),
          first(impl::placed_anew<First>(like.geometry(), {})),
          others(impl::placed_anew<Others>(like.geometry(), {})),
          first_host(Kokkos::create_mirror_view(first.view())),
          others_host(Kokkos::create_mirror_view(others.view())) {}
    Field like;
    Dimensions dims;
    impl::BoxTransforms along_first, along_others;
    First first;
    Others others;
    HostOf<First> first_host;  // the same memory where the host can read it
    HostOf<Others> others_host;
    double shift = 0.0;
  };

  static Dimensions dimensions(const Diffusion<Field>& a) {
    Dimensions dims;
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((dims[D] = impl::BoxDimension(
            a.like().global_extent(D), a.options().spacing[D],
            impl::BoundaryTraits<typename Field::template boundary<D>>::low.kind,
            impl::BoundaryTraits<typename Field::template boundary<D>>::high.kind)),
       ...);
    }
    (std::make_integer_sequence<int, rank>{});
    return dims;
  }
  /// The lines along dimension 0 that this rank has.
  static impl::BoxLines box_of(const First& lines) {
    impl::BoxLines box;
    for (int d = 1; d < rank; ++d) {
      box.begin[d]  = lines.begin(d);
      box.extent[d] = lines.extent(d);
    }
    return box;
  }
  template <class Space>
  void transform(const Space& space, bool back) const {
    on_host(space, state_->others, state_->others_host,
            [&](double* data) { state_->along_others.run(data, state_->others.extent(0), back); });
  }
  /// Runs work(address) on the host, on a field's memory or a copy.
  template <class Space, class F, class Work>
  static void on_host(const Space& space, const F& field, const HostOf<F>& host, const Work& work) {
    constexpr bool copies =
        !Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename F::memory_space>::accessible;
    if constexpr (copies) Kokkos::deep_copy(space, host, field.view());
    space.fence("shard::FFTPoisson");
    work(host.data());
    if constexpr (copies) Kokkos::deep_copy(space, field.view(), host);
  }

  std::shared_ptr<State> state_;
};

}  // namespace shard

#endif
