// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_SHARDED_VIEW_HPP
#define SHARD_VIEW_SHARDED_VIEW_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shard/base/types.hpp"
#include "shard/config.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/impl/field_type.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/impl/local_field.hpp"
#include "shard/view/partition.hpp"
#include "shard/view/shard_dim.hpp"

namespace shard {

/// A field that is sharded over a process mesh. Each rank has its owned points and the halo around
/// them in one Kokkos allocation.
///
/// \tparam T       a Kokkos data type of rank 1 to 6: `float***`, `const double**`, `int*[3]`
/// \tparam Layout  Kokkos::LayoutRight or LayoutLeft (LayoutStride only as the result of `subview`)
/// \tparam Options one ShardDim per dimension that is sharded or has a halo, a Partial per mesh
/// axis whose ranks have contributions and, as with Kokkos, an optional execution or memory space
/// or device. The field is replicated over axes that no option names.
///
/// In kernels index 0 of `t(i, j, k)` is the first owned point; the halo is at -1 and at extent(d).
/// Kernels copy a ShardedView by value; copies share the allocation. Only the points' values can
/// change after construction.
template <class T, class Layout, class... Options>
class ShardedView {
  using Type = impl::FieldType<T, Layout, Options...>;

 public:
  using view_type            = typename Type::view_type;                  ///< the allocation's type
  using value_type           = typename view_type::value_type;            ///< const if the field is
  using non_const_value_type = typename view_type::non_const_value_type;  ///< never const
  using reference            = typename view_type::reference_type;   ///< returned by operator()
  using layout               = Layout;                               ///< of the allocation
  using device_type          = typename view_type::device_type;      ///< where the points are
  using execution_space      = typename view_type::execution_space;  ///< of the device
  using memory_space         = typename view_type::memory_space;     ///< of the device
  static constexpr int rank  = Type::rank;                           ///< number of dimensions

  /// The ShardDim of dimension `Dim` (Unsharded, without halo, if none was given).
  template <int Dim>
  using shard_dim = typename impl::OfDim<Type, Dim>::type;
  /// Its halo.
  template <int Dim>
  using halo = typename shard_dim<Dim>::halo;
  /// The mesh axis that shards it.
  template <int Dim>
  using axis = typename shard_dim<Dim>::axis;
  /// The boundary.
  template <int Dim>
  using boundary = typename shard_dim<Dim>::boundary;

  /// The mesh axes over which the field is Partial.
  using partial_axes = typename Type::partial_axes;
  using reduction    = typename Type::reduction;  ///< Sum, Max or Min, or void
  /// Whether a mesh with these axes has all axes that the type names.
  template <class... MeshAxes>
  static constexpr bool axes_are_among() {
    return Type::template axes_are_among<MeshAxes...>();
  }

  /// An empty field, to be assigned later: extents of zero, no memory. `owned()`, regions,
  /// `deep_copy` and mirrors are empty. Calls that need its label, partitions or mesh, such as an
  /// exchange, throw ArgumentError.
  ShardedView() = default;

  /// A field of the given global extents, balanced over the mesh, set to zero. Collective over the
  /// mesh. Throws on every rank: AgreementError if the ranks give different extents; ArgumentError
  /// for a negative extent, an odd number of longitudes under a fold, or a reflection of one point.
  template <class... MeshAxes>
  ShardedView(std::string_view label, const Mesh<MeshAxes...>& mesh, const Extents<rank>& extents)
      : ShardedView(Type::make(label, mesh, extents.n.data(), nullptr), nullptr) {}

  /// The same with a partition for each dimension (an unsharded one has one part). Collective;
  /// errors as above, and ArgumentError if a partition's number of parts isn't the number of ranks
  /// along the axes that shard its dimension.
  template <class... MeshAxes>
  ShardedView(std::string_view label, const Mesh<MeshAxes...>& mesh,
              const std::array<Partition, Type::rank>& partitions)
      : ShardedView(Type::make(label, mesh, nullptr, partitions.data()), nullptr) {}

  /// Wraps an existing View: its extents must be the owned points plus the halo on both sides.
  /// Collective; throws ArgumentError on every rank, with the numbers, if they aren't on some rank.
  template <class... MeshAxes>
  ShardedView(const Mesh<MeshAxes...>& mesh, const view_type& view,
              const std::array<Partition, Type::rank>& partitions)
      : view_(view) {
    auto geometry = Type::make(view.label(), mesh, nullptr, partitions.data());
    impl::require_local_extents(geometry, Type::types.data(), Type::extents_of(view).data());
    state_ = impl::store(std::move(geometry), nullptr, Type::halo_widths.data());
    place();
  }

  /// Conversion to a const field or to a narrower halo, sharing the memory. Exchanges of the
  /// narrower field fill its own halo only.
  template <class OtherT, class... OtherOptions>
  requires(impl::FieldType<OtherT, Layout, OtherOptions...>::template converts_to<Type>())
      ShardedView(const ShardedView<OtherT, Layout, OtherOptions...>& other)
      : view_(other.view_),
        state_(other.state_),
        origin_(other.origin_),
        stride_(other.stride_),
        extent_(other.extent_),
        begin_(other.begin_),
        global_(other.global_) {}

  /// The point at local indices, counted from the first owned one; from -halo to extent + halo - 1
  /// in each dimension. With SHARD_ENABLE_BOUNDS_CHECK any other index ends the program.
  template <std::integral... I>
  requires(sizeof...(I) ==
           static_cast<std::size_t>(Type::rank)) KOKKOS_FORCEINLINE_FUNCTION reference
  operator()(I... i) const {
#if defined(SHARD_ENABLE_BOUNDS_CHECK) || defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
    check_bounds(std::make_integer_sequence<int, rank>{}, static_cast<index_t>(i)...);
#endif
    // unsigned, so that compilers may reorder the additions, which saves several instructions a
    // line
    return origin_[static_cast<index_t>(
        offset(std::make_integer_sequence<int, rank>{}, static_cast<index_t>(i)...))];
  }

  /// Points that this rank owns along dimension d.
  KOKKOS_FUNCTION index_t extent(int d) const { return extent_[d]; }
  /// Global index of the first of them.
  KOKKOS_FUNCTION index_t begin(int d) const { return begin_[d]; }
  /// Points of the global domain along dimension d.
  KOKKOS_FUNCTION index_t global_extent(int d) const { return global_[d]; }
  /// Global index of local index i along dimension d; outside the domain for points of the outer
  /// halo.
  KOKKOS_FUNCTION index_t to_global(int d, index_t i) const { return begin_[d] + i; }
  /// Local index of global index g along dimension d.
  KOKKOS_FUNCTION index_t to_local(int d, index_t g) const { return g - begin_[d]; }
  /// Whether this rank owns global index g along dimension d.
  KOKKOS_FUNCTION bool owns(int d, index_t g) const {
    return g >= begin_[d] && g < begin_[d] + extent_[d];
  }
  /// Distance in memory between neighbours along dimension d, in values.
  KOKKOS_FUNCTION index_t stride(int d) const { return stride_[d]; }
  /// Address of the first owned point.
  KOKKOS_FUNCTION value_type* origin() const { return origin_; }
  /// Width of the halo before the owned points along dimension d.
  static constexpr int halo_lo(int d) { return Type::halo_widths[impl::Geometry::at(d)][0]; }
  /// Width of the halo after them.
  static constexpr int halo_hi(int d) { return Type::halo_widths[impl::Geometry::at(d)][1]; }

  /// The whole allocation, halos included (the wider halos of the original field if this one was
  /// converted).
  const view_type& view() const { return view_; }
  /// The owned points, a subview of the allocation.
  auto owned() const { return part(std::make_integer_sequence<int, rank>{}, false); }
  /// The owned points and this field's halo.
  auto haloed() const { return part(std::make_integer_sequence<int, rank>{}, true); }
  /// The owned points as an mdspan, if Kokkos has it.
  auto to_mdspan() const requires requires(view_type v) { v.to_mdspan(); }
  { return owned().to_mdspan(); }

  /// The field's name.
  const std::string& label() const { return any_geometry().label; }
  /// The partition of dimension d.
  const Partition& partition(int d) const {
    return any_geometry().dims[impl::Geometry::at(d)].partition;
  }
  /// The partitions of all dimensions, as the constructor takes them.
  std::array<Partition, Type::rank> partitions() const {
    std::array<Partition, Type::rank> all;
    for (int d = 0; d < rank; ++d) all[impl::Geometry::at(d)] = partition(d);
    return all;
  }
  /// The mesh's communicator.
  MPI_Comm communicator() const { return any_geometry().mesh->comm(); }

  /// A new field of the same type, mesh and partitions, set to zero; in shared memory if this one
  /// is and there is space. Local.
  ShardedView like(std::string_view label) const {
    return impl::FieldAccess::allocate_like<ShardedView>(*this, label);
  }
  /// A new field like this one for the points half-way between the cells of the dimension that
  /// `Axis` shards: point i is between the cells i - 1 and i. There is one more point than cells,
  /// which belongs to the last rank that owns any; in a Periodic dimension there are as many. A
  /// mirror or a fold is at another distance from staggered points, so it needs a field of another
  /// type (see docs/fields.md). Collective.
  template <class Axis>
  ShardedView staggered(std::string_view label) const {
    constexpr int d = Type::template dim_cut_by<Axis>();
    static_assert(d >= 0, "no dimension of the field is sharded over this mesh axis");
    static_assert(
        impl::suits_staggered_v<boundary<d>>,
        "staggered() keeps the boundary, and a mirror or a fold is at another distance "
        "from points half-way between cells: make a field with Reflect in place of Symmetric, or "
        "Pole::on_row in place of between_rows, and the other way round");
    auto partitions = this->partitions();
    if constexpr (!std::is_same_v<boundary<d>, Periodic>)
      partitions[impl::Geometry::at(d)] = partition(d).staggered();
    return ShardedView(Type::remake(label, any_geometry(), partitions.data()), nullptr);
  }
  /// The same under the label "<label> staggered".
  template <class Axis>
  ShardedView staggered() const {
    return staggered<Axis>(label() + " staggered");
  }

  /// Exchanges the two fields' memory and state. An Exchange that was made for one of them still
  /// fills the memory that it was made for: after `swap(now, then)` give it the field to fill,
  /// `halos(space, now)`.
  friend void swap(ShardedView& a, ShardedView& b) {
    ShardedView c = std::move(a);
    a             = std::move(b);
    b             = std::move(c);
  }

  /// For the library's own use, by operations that need the field's values.
  const impl::Geometry& geometry() const {
    static_assert(!Type::is_partial,
                  "this needs the field's values, and a Partial field holds contributions to them: "
                  "redistribute it first");
    return any_geometry();
  }
  /// The same, for Partial fields too.
  const impl::Geometry& any_geometry() const { return impl::FieldAccess::state_of(*this).geometry; }

 private:
  template <class, class, class...>
  friend class ShardedView;
  friend struct impl::FieldAccess;

  ShardedView(impl::Geometry geometry, std::shared_ptr<impl::FieldMemory> memory)
      : view_(memory ? Type::lying_at(geometry,
                                      static_cast<typename view_type::pointer_type>(memory->data()))
                     : Type::allocate(geometry)),
        state_(impl::store(std::move(geometry), std::move(memory), Type::halo_widths.data())) {
    place();
  }
  ShardedView(impl::StoredState state, const view_type& view)
      : view_(view), state_(std::move(state)) {
    place();
  }

  void place() {
    const impl::Geometry& g = state_().geometry;
    index_t front           = 0;
    for (int d = 0; d < rank; ++d) {
      stride_[d] = static_cast<index_t>(view_.stride(d));
      extent_[d] = g.owned(d);
      begin_[d]  = g.begin(d);
      global_[d] = g.global(d);
      front += stride_[d] * state_().front[impl::Geometry::at(d)];
    }
    origin_ = view_.data() == nullptr ? nullptr : view_.data() + front;
  }

  template <int... D, class... I>
  KOKKOS_FORCEINLINE_FUNCTION std::size_t offset(std::integer_sequence<int, D...>, I... i) const {
    return (... + (D == Type::unit_stride_dim
                       ? static_cast<std::size_t>(i)
                       : static_cast<std::size_t>(i) * static_cast<std::size_t>(stride_[D])));
  }

  template <int... D>
  auto part(std::integer_sequence<int, D...>, bool with_halo) const {
    const bool made  = impl::FieldAccess::is_made(*this);
    const auto range = [&](int d, int lo, int hi) {
      if (!made) return std::pair<index_t, index_t>(0, 0);
      const index_t first = state_().front[impl::Geometry::at(d)] - (with_halo ? lo : 0);
      const index_t behind =
          Type::types[impl::Geometry::at(d)].indices != nullptr ? any_geometry().index_halo(d) : hi;
      return std::pair<index_t, index_t>(first, first + extent_[d] + (with_halo ? lo + behind : 0));
    };
    return Kokkos::subview(view_, range(D, halo_lo(D), halo_hi(D))...);
  }

#if defined(SHARD_ENABLE_BOUNDS_CHECK) || defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
  template <int... D, class... I>
  KOKKOS_FUNCTION void check_bounds(std::integer_sequence<int, D...>, I... i) const {
    if (((i >= -halo<D>::lo && i < bound<D>()) && ...)) return;
    KOKKOS_IF_ON_HOST((const index_t index[] = {i...}; impl::abort_outside(
                           state_.data() == nullptr ? nullptr : &state_.data()->geometry, rank,
                           index, extent_.data(), Type::halo_widths.data());))
    // the label and the rank are on the host
    KOKKOS_IF_ON_DEVICE(
        ((print_outside<D>(i), ...);
         Kokkos::abort("shard::ShardedView: an index is outside the owned cells and their halo");))
  }
  /// One past the last local index. A View that is wrapped may be longer than an index space.
  template <int D>
  KOKKOS_FUNCTION index_t bound() const {
    return Type::template has_indices<D> ? static_cast<index_t>(view_.extent(D))
                                         : extent_[D] + halo<D>::hi;
  }
  template <int D>
  KOKKOS_FUNCTION void print_outside(index_t i) const {
    if (i < -halo<D>::lo || i >= bound<D>())
      Kokkos::printf(
          "shard::ShardedView: index %lld in dimension %d is outside of its %lld owned cells and "
          "the"
          " halo of %d + %d\n",
          static_cast<long long>(i), D, static_cast<long long>(extent_[D]), halo<D>::lo,
          halo<D>::hi);
  }
#endif

  view_type view_;
  impl::StoredState state_;
  value_type* origin_ = nullptr;
  Kokkos::Array<index_t, static_cast<std::size_t>(rank)> stride_{}, extent_{}, begin_{}, global_{};
};

/// Whether F is a ShardedView.
template <class F>
inline constexpr bool is_sharded_view_v = false;
/// It is one.
template <class T, class Layout, class... Options>
inline constexpr bool is_sharded_view_v<ShardedView<T, Layout, Options...>> = true;

namespace impl {

template <class Field>
struct FieldTypeOfView;
template <class T, class Layout, class... Options>
struct FieldTypeOfView<ShardedView<T, Layout, Options...>> {
  using type = FieldType<T, Layout, Options...>;
};
template <class Field>
using FieldTypeOf = typename FieldTypeOfView<Field>::type;

}  // namespace impl

/// A ShardedView of any type.
template <class F>
concept AnyShardedView = is_sharded_view_v<std::remove_cvref_t<F>>;

/// Collective over the ranks along `Axis`: the partition in which each of them owns the number of
/// indices that it passes. For host models with their own decomposition.
template <class Axis, class... MeshAxes>
Partition partition_from_counts(const Mesh<MeshAxes...>& mesh, index_t mine) {
  return impl::gather_partition(mesh.template communicator<Axis>(), mine);
}

}  // namespace shard

#endif
