// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_ANNOTATED_VIEW_HPP
#define SHARD_ANNOTATE_ANNOTATED_VIEW_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"
#include "shard/annotate/impl/annotated_state.hpp"
#include "shard/annotate/impl/annotation.hpp"
#include "shard/annotate/device_mesh.hpp"

/// \file
/// Tensors whose sharding is chosen at run time, with the names of torch_xla.distributed.spmd. They
/// are the counterpart of ShardedView for meshes and specs from a file or a command line. One rank
/// is one device.
///
/// All functions take plain Views and AnnotatedViews. Functions that move elements or change an
/// annotation are collective over the mesh and blocking. The ranks first compare their arguments:
/// every rank throws AgreementError if they differ, and ArgumentError, with the values, if they are
/// invalid.

namespace shard {

/// The shard of an annotated tensor on one device: its place (device, replica_id, begin, end,
/// padded_extent, text()) and a copy of its elements.
template <class View>
struct LocalShard : DeviceShard {
  View data;  ///< of the padded extents, zero in the padding

  /// The elements without padding, a subview of `data`.
  auto unpadded_data() const {
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return Kokkos::subview(data,
                             Kokkos::pair<std::size_t, std::size_t>(
                                 0, static_cast<std::size_t>(this->end[D] - this->begin[D]))...);
    }
    (std::make_index_sequence<View::rank()>{});
  }
};

/// A tensor with an optional annotation: a mesh and a PartitionSpec chosen at run time. With an
/// annotation each rank has its shard; without one every rank has the whole tensor, with the same
/// values.
///
/// \tparam T      a Kokkos data type of rank 1 to 6 with run-time extents: `float***`
/// \tparam Layout Kokkos::LayoutRight or LayoutLeft
/// \tparam Device as with Kokkos, an optional execution or memory space or device
///
/// A handle: copies share the tensor, and changes "in place" apply to all of them. Pass `local()`
/// to kernels. A rank's elements are contiguous, without padding, so that a ShardedView can share
/// them.
template <class T, class Layout, class... Device>
class AnnotatedView {
  using State = impl::AnnotatedStateOf<Kokkos::View<T, Layout, Device...>>;

 public:
  using view_type           = Kokkos::View<T, Layout, Device...>;  ///< of a rank's elements
  using value_type          = typename view_type::value_type;      ///< of the elements
  static constexpr int rank = State::rank;                         ///< number of dimensions
  using shard_type          = LocalShard<view_type>;               ///< returned by local_shards
  using shards_type         = std::vector<view_type>;  ///< argument of load_local_shards

  /// A tensor without an annotation that shares this View's memory. Local.
  explicit AnnotatedView(const view_type& whole) : state_(State::make(whole)) {}
  /// The same tensor with an equivalent device type.
  template <class... Others>
  requires(std::is_same_v<State, impl::AnnotatedStateOf<Kokkos::View<T, Layout, Others...>>>)
      AnnotatedView(const AnnotatedView<T, Layout, Others...>& other)
      : state_(other.state()) {}

  /// The View's label.
  const std::string& label() const { return about().label; }
  /// Global extent of dimension d.
  index_t extent(int d) const { return about().extents[static_cast<std::size_t>(d)]; }
  /// The global extents.
  Extents<rank> extents() const {
    Extents<rank> all;
    for (int d = 0; d < rank; ++d) all[d] = extent(d);
    return all;
  }

  /// UNKNOWN without an annotation, MANUAL in manual mode, else that of sharding().
  ShardingType sharding_type() const { return about().type(); }
  /// Which device has which tile. Throws ArgumentError without an annotation, or in manual mode.
  const OpSharding& sharding() const { return layout("sharding").sharding(); }
  /// The effective sharding as XLA's text: empty without an annotation, "{manual}", or
  /// OpSharding::text().
  std::string sharding_text() const { return about().text(); }
  /// Which device has which indices. Throws as sharding().
  const ShardLayout& layout() const { return layout("layout"); }
  /// The original spec. Throws as sharding().
  const PartitionSpec& spec() const { return layout("spec"), about().spec; }
  /// The mesh. Throws as sharding().
  const DeviceMesh& mesh() const { return layout("mesh"), *about().mesh; }

  /// This rank's elements without padding; in manual mode the padded shard. Shares memory. After a
  /// change of the annotation it is another View.
  view_type local() const { return state_->cells; }
  /// Copies of the shards of this rank's devices: one shard, because one rank is one device. Local,
  /// ordered on `space`. Throws as sharding().
  template <class Space>
  std::vector<shard_type> local_shards(const Space& space) const {
    return {
        shard_type{layout("local_shards").shard(about().mesh->rank()), state_->padded_copy(space)}};
  }
  /// Sets the elements from the local shards (one, of the padded extents), without the padding.
  /// Collective. Throws ArgumentError on every rank for a tensor that is replicated or has no
  /// annotation, a number of shards other than one on some rank, or other extents.
  template <class Space>
  void load_local_shards(const Space& space, const shards_type& shards) const {
    std::vector<std::vector<index_t>> extents;
    for (const view_type& shard : shards) extents.push_back(impl::extents_of_view(shard));
    impl::require_loadable(about(), extents);
    state_->load(space, shards.front());
  }
  /// The whole tensor on every rank, a new View. Collective. Throws as sharding().
  template <class Space>
  view_type gather(const Space& space) const {
    impl::require_annotation(about(), "gather");
    return state_->gathered(space, "gather");
  }
  /// A new tensor with the same values and annotation. Local.
  template <class Space>
  AnnotatedView clone(const Space& space) const {
    return AnnotatedView(state_->clone(space));
  }

  /// Whether both are handles of one tensor.
  friend bool operator==(const AnnotatedView& a, const AnnotatedView& b) {
    return a.state_ == b.state_;
  }

  /// For the library's own use: the state that copies of this handle share.
  const std::shared_ptr<State>& state() const { return state_; }
  /// For the library's own use: from that state.
  explicit AnnotatedView(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  const impl::Annotation& about() const { return state_->about; }
  const ShardLayout& layout(const char* function) const {
    impl::require_annotation(about(), function);
    return *about().layout;
  }

  std::shared_ptr<State> state_;
};

/// Whether X is an AnnotatedView.
template <class X>
inline constexpr bool is_annotated_view_v = false;
/// It is one.
template <class T, class Layout, class... Device>
inline constexpr bool is_annotated_view_v<AnnotatedView<T, Layout, Device...>> = true;

namespace impl {

template <class View>
struct AnnotatedOf {
  using type = AnnotatedView<typename View::data_type, typename View::array_layout,
                             typename View::device_type>;
};
template <class T, class Layout, class... Device>
requires(Kokkos::is_array_layout<Layout>::value &&
         (Kokkos::is_space<Device>::value &&
          ...)) struct AnnotatedOf<Kokkos::View<T, Layout, Device...>> {
  using type = AnnotatedView<T, Layout, Device...>;
};

}  // namespace impl

/// The AnnotatedView type of a plain View.
template <class View>
using annotated_view_t = typename impl::AnnotatedOf<View>::type;

/// A plain View as a tensor without an annotation, sharing the memory; an AnnotatedView is returned
/// unchanged. Local.
template <class T, class... Properties>
auto wrap_as_sharded(const Kokkos::View<T, Properties...>& whole) {
  return annotated_view_t<Kokkos::View<T, Properties...>>(whole);
}
/// Returns it unchanged.
template <class T, class Layout, class... Device>
AnnotatedView<T, Layout, Device...> wrap_as_sharded(
    const AnnotatedView<T, Layout, Device...>& tensor) {
  return tensor;
}

/// Annotates a tensor: each rank keeps its shard of ceil(n / tiles) indices per dimension. In
/// place: all handles of the tensor are annotated. From a plain View it makes a new tensor with its
/// own memory. Does nothing if the tensor has this sharding; a replicated tensor (or one without
/// annotation) may get any. Collective over the mesh.
///
/// Throws on every rank: ArgumentError if the tensor has another sharding, which must be cleared
/// first; in manual mode; for a spec whose length isn't the tensor's rank or that doesn't fit the
/// mesh. AgreementError if extents, spec, mesh or annotation differ between the ranks, and under
/// SHARD_CHECK=1 if the values of a tensor without annotation differ.
template <class Space, class Tensor>
auto mark_sharding(const Space& space, const Tensor& tensor, const DeviceMesh& mesh,
                   const PartitionSpec& spec) {
  auto marked = wrap_as_sharded(tensor);
  marked.state()->mark(space, "mark_sharding", mesh, spec, false);
  return marked;
}
/// The same on the global mesh.
template <class Space, class Tensor>
auto mark_sharding(const Space& space, const Tensor& tensor, const PartitionSpec& spec) {
  return mark_sharding(space, tensor, DeviceMesh::global(), spec);
}

/// Gives a tensor another annotation, and redistributes its elements. In place, collective. Errors
/// as of mark_sharding, but the old annotation need not be cleared; ArgumentError if a mesh of
/// other ranks is given for a sharded tensor.
template <class Space, class Tensor>
auto annotate_custom_sharding(const Space& space, const Tensor& tensor, const DeviceMesh& mesh,
                              const PartitionSpec& spec) {
  auto marked = wrap_as_sharded(tensor);
  marked.state()->mark(space, "annotate_custom_sharding", mesh, spec, true);
  return marked;
}

/// Removes the annotation, in place, and returns the whole tensor on every rank. A plain View, or a
/// tensor without annotation, is returned unchanged. Collective over the tensor's mesh. Throws
/// ArgumentError in manual mode.
template <class Space, class Tensor>
auto clear_sharding(const Space& space, const Tensor& tensor) {
  if constexpr (is_annotated_view_v<Tensor>) {
    tensor.state()->clear(space);
    return tensor.local();
  } else {
    return tensor;
  }
}

/// The whole tensor on every rank; the annotation is unchanged. With an annotation this is
/// `gather`, which is collective; without one it returns the View. Throws ArgumentError in manual
/// mode.
template <class Space, class Tensor>
auto unwrap(const Space& space, const Tensor& tensor) {
  if constexpr (is_annotated_view_v<Tensor>)
    return tensor.sharding_type() == ShardingType::unknown ? tensor.local() : tensor.gather(space);
  else
    return tensor;
}

/// A tensor from its shards, one per local device with the padded extents (the padding is ignored),
/// annotated as by `mark_sharding`. `shape` has its extents; by default shards * tiles. Collective.
/// Throws ArgumentError on every rank unless the spec has one entry per dimension, each rank gives
/// one shard, and the padded shards of `shape` have these extents.
template <class Space, class View>
annotated_view_t<View> from_local_shards(
    const Space& space, const std::vector<View>& shards, const DeviceMesh& mesh,
    const PartitionSpec& spec,
    const std::optional<Extents<static_cast<int>(View::rank())>>& shape = std::nullopt) {
  return annotated_view_t<View>(impl::AnnotatedStateOf<View>::join(
      space, "from_local_shards", shards.empty() ? View() : shards.front(),
      static_cast<index_t>(shards.size()), mesh, spec, shape ? &*shape : nullptr));
}

/// The operation "annotate": returns an annotated clone of its argument; its transpose annotates
/// the gradient with the same spec. Collective; errors as of mark_sharding.
struct MarkShardingWithGradients {
  DeviceMesh mesh;     ///< of both
  PartitionSpec spec;  ///< of both

  /// An annotated clone of x.
  template <class Space, class X>
  auto apply(const Space& space, const X& x) const {
    return mark_sharding(space, wrap_as_sharded(x).clone(space), mesh, spec);
  }
  /// The tangent: the operation itself.
  template <class Space, class DX>
  auto pushforward(const Space& space, const DX& dx) const {
    return apply(space, dx);
  }
  /// The gradient, annotated in place.
  template <class Space, class DY>
  auto pullback(const Space& space, const DY& dy) const {
    return mark_sharding(space, dy, mesh, spec);
  }
};

/// MarkShardingWithGradients as a function.
template <class Space, class Tensor>
auto mark_sharding_with_gradients(const Space& space, const Tensor& tensor, const DeviceMesh& mesh,
                                  const PartitionSpec& spec) {
  return MarkShardingWithGradients{mesh, spec}.apply(space, tensor);
}

}  // namespace shard

#endif
