// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_MANUAL_HPP
#define SHARD_ANNOTATE_MANUAL_HPP

#include <memory>

#include "shard/annotate/annotated_view.hpp"

/// \file
/// Manual mode: a tensor's shards as plain local Views of the same padded extents, for the
/// program's own kernels and collectives. Conventions as in annotated_view.hpp.

namespace shard {

/// Returns this rank's shard of an annotated tensor as a plain View of the padded extents, ceil(n /
/// tiles), zero in the padding. The View is the tensor's memory. The tensor is then MANUAL, for all
/// handles: functions that need it sharded or whole throw until disable_manual_sharding. Throws
/// ArgumentError without an annotation, or in manual mode.
template <class Space, class T, class Layout, class... Device>
Kokkos::View<T, Layout, Device...> full_to_shard(
    const Space& space, const AnnotatedView<T, Layout, Device...>& tensor) {
  impl::require_annotation(tensor.state()->about, "full_to_shard");
  tensor.state()->make_manual(space);
  return tensor.local();
}

/// mark_sharding followed by full_to_shard. Copies a plain View, which every rank has whole; works
/// in place on an AnnotatedView. Collective; errors as of mark_sharding.
template <class Space, class Tensor>
auto enable_manual_sharding(const Space& space, const Tensor& tensor, const PartitionSpec& spec,
                            const DeviceMesh& mesh = DeviceMesh::global()) {
  const auto sharded = wrap_as_sharded(tensor);
  sharded.state()->mark(space, "enable_manual_sharding", mesh, spec, false);
  return full_to_shard(space, sharded);
}

/// Makes an annotated tensor of extents `full_shape` from local shards of the padded extents,
/// without the padding. Plain Views are copied. A MANUAL tensor is converted in place (don't use
/// its View any more). Collective. Throws on every rank: AgreementError if extents, spec or mesh
/// differ between the ranks; ArgumentError for a tensor that isn't MANUAL, a spec of another
/// length, or local extents that aren't the padded ones of `full_shape`, with both.
template <class Space, class T, class... Properties>
auto disable_manual_sharding(
    const Space& space, const Kokkos::View<T, Properties...>& local, const PartitionSpec& spec,
    const Extents<static_cast<int>(Kokkos::View<T, Properties...>::rank())>& full_shape,
    const DeviceMesh& mesh = DeviceMesh::global()) {
  using View = Kokkos::View<T, Properties...>;
  return annotated_view_t<View>(impl::AnnotatedStateOf<View>::join(
      space, "disable_manual_sharding", local, 1, mesh, spec, &full_shape));
}
/// The same for a MANUAL tensor.
template <class Space, class T, class Layout, class... Device>
AnnotatedView<T, Layout, Device...> disable_manual_sharding(
    const Space& space, const AnnotatedView<T, Layout, Device...>& tensor,
    const PartitionSpec& spec, const Extents<AnnotatedView<T, Layout, Device...>::rank>& full_shape,
    const DeviceMesh& mesh = DeviceMesh::global()) {
  tensor.state()->end_manual(space, mesh, spec, full_shape);
  return tensor;
}

}  // namespace shard

#endif
