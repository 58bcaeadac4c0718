// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "collective.hpp"

namespace shard::impl {

namespace {

std::string along(const CollectiveCall& call) { return ", dimension " + text(call.dim); }
std::string scaled_by(const CollectiveCall& call) {
  constexpr const char* names[] = {"sum", "max", "min"};
  return std::string(", ") + names[static_cast<std::size_t>(call.op)] + ", scale " +
         text_of(call.scale);
}

/// The reduction of all ranks' packed values, a share of which each rank makes. Padded to equal
/// shares, of which the values' tail has nothing.
template <class Space>
index_t reduce_shares(Collective<Space>& all) {
  const index_t share = (all.values() + all.size() - 1) / all.size();
  const index_t bytes = share * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  all.pack(0, 1);
  all.clear_sent(all.values() * all.value_size(), bytes * all.size());
  all.all_to_all(bytes);
  all.combine(share, all.size());
  return bytes;
}

}  // namespace

template <class Space>
void Collectives<Space>::all_reduce(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(scaled_by(call));
  all.require_same();
  all.require_scalable();
  if (all.size() == 1) return scaled_copy(space, call);
  all.all_gather(reduce_shares(all));
  all.unpack(0, 1, true);
  all.fence();
}

template <class Space>
void Collectives<Space>::all_gather(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(along(call) + scaled_by(call));
  const int d = all.dim("the dimension", call.dim);
  all.require_same(d);
  all.require_extent(d, call.from.extent[Geometry::at(d)] * all.size(), ", which over all ranks");
  all.require_scalable();
  const index_t bytes = all.values() * all.value_size();
  all.reserve(bytes, bytes * all.size());
  all.pack(0, 1);
  all.scale(all.values());
  all.all_gather(bytes);
  all.unpack(d, all.size(), true);
  all.fence();
}

template <class Space>
void Collectives<Space>::reduce_scatter(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  int d = 0;
  // first, for shards of a length that can't be shared equally differ by rank
  all.agree(along(call) + scaled_by(call), -1, all.wrong_in([&] {
    d = all.dim("the dimension", call.dim);
    all.require_divides(d);
  }));
  all.require_same(d);
  all.require_extent(d, call.from.extent[Geometry::at(d)] / all.size(), ", a shard of which");
  all.require_scalable();
  const index_t count = all.values() / all.size();
  const index_t bytes = count * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  all.pack(d, all.size());
  if (all.size() > 1) {
    all.all_to_all(bytes);
    all.combine(count, all.size());
  } else {
    all.scale(count);
  }
  all.unpack(0, 1, false);
  all.fence();
}

template <class Space>
void Collectives<Space>::all_to_all(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  int split = 0, concat = 0;
  all.agree(", split dimension " + text(call.dim) + ", concat dimension " + text(call.concat_dim),
            -1, all.wrong_in([&] {
              split  = all.dim("the split dimension", call.dim);
              concat = all.dim("the concat dimension", call.concat_dim);
              all.require_divides(split);
            }));
  if (split == concat) {
    all.require_same();
  } else {
    all.require_same(split, concat);
    all.require_extent(split, call.from.extent[Geometry::at(split)] / all.size(),
                       ", a piece of which");
    all.require_extent(concat, call.from.extent[Geometry::at(concat)] * all.size(),
                       ", which over all ranks");
  }
  const index_t bytes = all.values() / all.size() * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  all.all_to_all({all.whole(call.from, split, all.size())},
                 {all.whole(call.to, concat, all.size())}, bytes);
  all.fence();
}

template <class Space>
void Collectives<Space>::broadcast(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(", root " + text(call.root));
  all.require_same();
  all.require_root();
  const index_t bytes = all.values() * all.value_size();
  all.reserve(bytes, bytes);
  const bool root = all.coordinate() == call.root;
  if (root) all.pack(0, 1);
  all.broadcast(bytes);
  all.unpack(0, 1, !root);
  all.fence();
}

template <class Space>
void Collectives<Space>::reduce(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(", root " + text(call.root));
  all.require_same();
  all.require_root();
  if (all.size() == 1) return scaled_copy(space, call);
  all.gather(reduce_shares(all));
  const bool root = all.coordinate() == call.root;
  if (!root) all.clear_sent(0, all.values() * all.value_size());
  all.unpack(0, 1, root);
  all.fence();
}

template <class Space>
void Collectives<Space>::scaled_copy(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.require_same();
  all.require_scalable();
  all.reserve_here(all.values() * all.value_size());
  all.pack(0, 1);
  all.scale(all.values());
  all.unpack(0, 1, false);
  all.fence();
}

#if defined(KOKKOS_ENABLE_SERIAL)
template struct Collectives<Kokkos::Serial>;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template struct Collectives<Kokkos::OpenMP>;
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template struct Collectives<Kokkos::Threads>;
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct Collectives<Kokkos::DefaultExecutionSpace>;
#endif

}  // namespace shard::impl
