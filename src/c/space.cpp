// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <memory>
#include <string>

#include "handles.hpp"
#include "shard/view/impl/index_halo.hpp"
#include "shard/view/partition.hpp"

int shard_space_create(shard_mesh mesh, int axis, int64_t places, const int64_t* ids, int64_t owned,
                       const int* layers, shard_space* space) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    shard_space& made = require(space, "the index space to be made");
    const auto& state = require(mesh, "the mesh").state;
    std::string wrong;
    if (axis < 0 || axis >= state->axes())
      wrong = "there is no axis " + impl::text(axis);
    else if (owned < 0 || places < owned)
      wrong = impl::text(owned) + " of " + impl::text(places) + " places can't be owned";
    else if (places > 0 && ids == nullptr)
      wrong = "the list of ids is null";
    impl::require_no_error(state->comm(), "space_create", wrong);
    impl::require_agreement(state->comm(), "space_create", "axis " + impl::text(axis));
    impl::IndexInput input;
    input.function = "space_create";
    input.ids.assign(ids, ids + places);
    input.owned = owned;
    if (layers != nullptr) input.layers.assign(layers, layers + (places - owned));
    auto handle       = std::make_unique<shard_space_s>();
    handle->mesh      = state;
    handle->axis      = axis;
    handle->partition = impl::gather_partition(state->axis_comm(axis), owned);
    handle->partition = impl::with_space(
        handle->partition, impl::make_index_halo(state->axis_comm(axis), elements_of_c(), input));
    made = handle.release();
  });
}

int shard_space_retain(shard_space space) { return shard::c::retain(space, "the index space"); }
int shard_space_release(shard_space* space) { return shard::c::release(space, "the index space"); }
