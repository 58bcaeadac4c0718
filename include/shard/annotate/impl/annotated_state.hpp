// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_IMPL_ANNOTATED_STATE_HPP
#define SHARD_ANNOTATE_IMPL_ANNOTATED_STATE_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/annotate/impl/annotation.hpp"

namespace shard::impl {

template <class View>
std::vector<index_t> extents_of_view(const View& view) {
  std::vector<index_t> extents;
  for (std::size_t d = 0; d < View::rank(); ++d)
    extents.push_back(static_cast<index_t>(view.extent(d)));
  return extents;
}

/// The state that the handles of an annotated tensor share. `View` is the canonical type of
/// equivalent Views.
template <class View>
struct AnnotatedState {
  static constexpr int rank = static_cast<int>(View::rank());
  using Layout              = typename View::array_layout;
  using T                   = typename View::value_type;

  static_assert(rank >= 1 && rank <= max_rank, "an AnnotatedView has rank 1 to 6");
  static_assert(std::is_same_v<Layout, Kokkos::LayoutRight> ||
                    std::is_same_v<Layout, Kokkos::LayoutLeft>,
                "an AnnotatedView's layout is LayoutRight or LayoutLeft");
  static_assert(View::rank_dynamic == View::rank(), "an AnnotatedView has run-time extents");
  static_assert(!std::is_const_v<T>, "an AnnotatedView's values are not const");
  static_assert(std::is_trivially_copyable_v<T>, "an AnnotatedView's cells are moved as bytes");

  /// The functions that move a tensor's elements.
  template <class Space>
  struct MovesIn : AnnotationMoves<Space> {
    static_assert(Kokkos::SpaceAccessibility<Space, typename View::memory_space>::accessible,
                  "the execution space doesn't reach the tensor's memory");
  };

  Annotation about;
  View cells;  ///< this rank's, without padding; the whole tensor; the padded shard if manual

  static std::shared_ptr<AnnotatedState> make(const View& whole) {
    auto state                      = std::make_shared<AnnotatedState>();
    state->cells                    = whole;
    state->about.label              = whole.label();
    state->about.extents            = extents_of_view(whole);
    state->about.cell.rank          = rank;
    state->about.cell.value_size    = static_cast<int>(sizeof(T));
    state->about.cell.first_is_fast = std::is_same_v<Layout, Kokkos::LayoutLeft>;
    return state;
  }

  /// A new View of these extents under the tensor's name.
  template <class... Properties>
  View allocate(const std::vector<index_t>& extents, const Properties&... properties) const {
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return View(Kokkos::view_alloc(about.label, properties...),
                  static_cast<std::size_t>(extents[D])...);
    }
    (std::make_index_sequence<View::rank()>{});
  }

  /// The elements redistributed to another layout. Collective.
  template <class Space>
  View moved(const Space& space, const char* function, const DeviceMesh& mesh,
             const ShardLayout& want, const ShardLayout& have) const {
    View made;
    std::string wrong;
    try {
      made = allocate(want.shard(mesh.rank()).extent(), Kokkos::WithoutInitializing);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    MovesIn<Space>::move(space, function, about.cell, mesh, want, plain_view(made), have,
                         plain_view(cells), std::move(wrong));
    return made;
  }
  template <class Space>
  View gathered(const Space& space, const char* function) const {
    agree_on(function, about);
    return moved(space, function, *about.mesh, replicated_layout(*about.mesh, about.extents),
                 *about.layout);
  }

  template <class Space>
  void mark(const Space& space, const char* function, const DeviceMesh& mesh,
            const PartitionSpec& spec, bool again) {
    std::optional<ShardLayout> want = plan_marking(function, about, mesh, spec, again);
    if (!want) return;
    if (!about.layout && value_kind<T>() != ValueKind::opaque && values_are_compared())
      agree_on_values(function, mesh, hash(space));
    // Without an annotation the elements are the caller's View, which isn't changed. A whole tensor
    // needs no message, for any mesh that it was replicated over.
    if (!about.layout || !about.whole() || !want->sharding().replicated()) {
      const ShardLayout have =
          about.whole() ? replicated_layout(mesh, about.extents) : *about.layout;
      cells = moved(space, function, mesh, *want, have);
    }
    about.mesh   = mesh;
    about.spec   = spec;
    about.layout = std::move(want);
  }
  /// A hash of the elements' bytes.
  template <class Space>
  std::uint64_t hash(const Space& space) const {
    const auto near = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), clone(space)->cells);
    return hash_bytes(near.data(), near.size() * sizeof(T), hash_seed);
  }
  template <class Space>
  void clear(const Space& space) {
    require_not_manual(about, "clear_sharding");
    if (!about.whole()) cells = gathered(space, "clear_sharding");
    about.layout.reset();
  }

  /// The elements padded with zeros to the largest shard. Local.
  template <class Space>
  View padded_copy(const Space& space) const {
    const View made = allocate(about.layout->shard_shape(), space);
    copy_owned(space, made, cells);
    return made;
  }
  template <class Space>
  void load(const Space& space, const View& shard) const {
    copy_owned(space, cells, shard);
    space.fence("shard: local shards are loaded");
  }
  /// The elements that aren't padding; both Views begin with them in each dimension.
  template <class Space>
  void copy_owned(const Space& space, const View& to, const View& from) const {
    const std::vector<index_t> owned = about.layout->shard(about.mesh->rank()).extent();
    const std::vector<index_t> begin(owned.size(), 0);
    MovesIn<Space>::copy(space, about.cell, part_of(plain_view(to), begin, owned),
                         part_of(plain_view(from), begin, owned));
  }

  template <class Space>
  std::shared_ptr<AnnotatedState> clone(const Space& space) const {
    auto copy   = std::make_shared<AnnotatedState>(*this);
    copy->cells = allocate(extents_of_view(cells), Kokkos::WithoutInitializing);
    MovesIn<Space>::copy(space, about.cell, plain_view(copy->cells), plain_view(cells));
    space.fence("shard: an annotated tensor is cloned");
    return copy;
  }

  /// Whether this rank's shard has no padding.
  bool is_full() const {
    return about.layout->shard(about.mesh->rank()).extent() == about.layout->shard_shape();
  }
  /// Switches to manual mode: returns the padded shard, in place.
  template <class Space>
  void make_manual(const Space& space) {
    if (!is_full()) cells = padded_copy(space);
    space.fence("shard: a manual shard is ready");
    about.manual = true;
  }
  /// Sets this tensor's elements from a padded shard; shares its memory if allowed and without
  /// padding. By value, because it may be this tensor's.
  template <class Space>
  void take(const Space& space, const View shard, const DeviceMesh& mesh, const PartitionSpec& spec,
            ShardLayout layout, bool may_share) {
    about.extents = layout.extents();
    about.mesh    = mesh;
    about.spec    = spec;
    about.layout  = std::move(layout);
    about.manual  = false;
    cells         = shard;
    if (may_share && is_full()) return;
    cells = allocate(about.layout->shard(mesh.rank()).extent(), Kokkos::WithoutInitializing);
    load(space, shard);
  }
  /// Leaves manual mode: the shard becomes that of a tensor of these extents. Collective.
  template <class Space>
  void end_manual(const Space& space, const DeviceMesh& mesh, const PartitionSpec& spec,
                  const Extents<rank>& shape) {
    require_manual(about, mesh, "disable_manual_sharding");
    const std::vector<index_t> wanted(shape.n.begin(), shape.n.end());
    take(space, cells, mesh, spec,
         plan_joining("disable_manual_sharding", mesh, spec, about.cell, 1, extents_of_view(cells),
                      &wanted),
         true);
  }
  /// A tensor from this rank's padded shard, the first of `count`. Collective.
  template <class Space>
  static std::shared_ptr<AnnotatedState> join(const Space& space, const char* function,
                                              const View& shard, index_t count,
                                              const DeviceMesh& mesh, const PartitionSpec& spec,
                                              const Extents<rank>* shape) {
    const auto state = make(shard);
    std::vector<index_t> wanted;
    if (shape != nullptr) wanted.assign(shape->n.begin(), shape->n.end());
    state->take(space, shard, mesh, spec,
                plan_joining(function, mesh, spec, state->about.cell, count, state->about.extents,
                             shape != nullptr ? &wanted : nullptr),
                false);
    return state;
  }
};

template <class View>
using AnnotatedStateOf =
    AnnotatedState<Kokkos::View<typename View::data_type, typename View::array_layout,
                                typename View::device_type>>;

}  // namespace shard::impl

#endif
