// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "handles.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/exchange/impl/field_spec.hpp"
#include "shard/view/describe.hpp"
#include "shard/view/partition.hpp"

namespace shard::c {

/// Copies runs of lanes between a blocked array and the field's own memory.
template <class Word>
struct BlockedCopyKernel {
  Word *blocked, *inside;
  bool fetches;
  int rank, dimension;
  index_t lanes, block_stride, count;                           // count: blocks that have elements
  Kokkos::Array<index_t, impl::max_rank> extent, outer, inner;  // strides of both
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t block = item % count;
    index_t rest        = item / count;
    Word* array         = blocked + block * block_stride;
    Word* own           = inside + block * lanes * inner[static_cast<std::size_t>(dimension)];
    for (int d = 0; d < rank; ++d) {
      if (d == dimension) continue;
      const auto at = static_cast<std::size_t>(d);
      array += rest % extent[at] * outer[at];
      own += rest % extent[at] * inner[at];
      rest /= extent[at];
    }
    const auto at      = static_cast<std::size_t>(dimension);
    const index_t left = extent[at] - block * lanes, n = left < lanes ? left : lanes;
    for (index_t i = 0; i < n; ++i)
      if (fetches)
        own[i * inner[at]] = array[i * outer[at]];
      else
        array[i * outer[at]] = own[i * inner[at]];
  }
};

namespace {

using impl::DimType;
using impl::max_rank;
using impl::text;
using impl::throw_argument;
using impl::ValueKind;

std::pair<ValueKind, int> kind_of(int type) {
  switch (type) {
    case shard_float: return {ValueKind::f32, 4};
    case shard_double: return {ValueKind::f64, 8};
    case shard_int32: return {ValueKind::i32, 4};
    case shard_int64: return {ValueKind::i64, 8};
    case shard_complex_float: return {ValueKind::c32, 8};
    case shard_complex_double: return {ValueKind::c64, 16};
    default: throw_argument(field_wrap, {"there is no type ", text(type)});
  }
}

/// What the types of C++ check when they are compiled.
void check(const std::array<DimType, max_rank>& types, int rank) {
  int halos = 0;
  for (int d = 0; d < rank; ++d) {
    const DimType& type = types[impl::Geometry::at(d)];
    halos += type.lo > 0 || type.hi > 0 ? 1 : 0;
    if ((type.low.kind == BoundaryKind::periodic) != (type.high.kind == BoundaryKind::periodic))
      throw_argument(field_wrap,
                     {"dimension ", text(d), " is periodic on one side; it is on both"});
    for (int e = 0; e < d; ++e)
      if (type.axis_count > 0 && types[impl::Geometry::at(e)].axis_count > 0 &&
          types[impl::Geometry::at(e)].axes[0] == type.axes[0])
        throw_argument(field_wrap, {"dimensions ", text(e), " and ", text(d),
                                    " are sharded over one axis; an axis shards one dimension"});
    for (const BoundarySide* side : {&type.low, &type.high}) {
      if (side->longitude < 0) continue;
      const DimType& other = types[impl::Geometry::at(side->longitude)];
      const bool haloed    = other.lo > 0 || other.hi > 0;
      if (side->count > 0 && (other.axis_count > 0 || haloed))
        throw_argument(field_wrap,
                       {"dimension ", text(side->longitude),
                        ", which chooses boundaries, is neither sharded nor has a halo"});
      if (impl::is_north(side->kind) && haloed && other.low.kind != BoundaryKind::periodic)
        throw_argument(field_wrap, {"dimension ", text(side->longitude),
                                    ", the longitude of a north fold, is periodic"});
    }
    if (impl::is_north(type.high.kind) && type.hi == 0)
      throw_argument(field_wrap, {"dimension ", text(d), " has a north fold and no halo there"});
    if (impl::is_north(type.high.kind) && type.low.longitude >= 0)
      throw_argument(field_wrap, {"dimension ", text(d), " has a north fold and another fold"});
  }
  if (halos > 3)
    throw_argument(field_wrap, {text(halos), " dimensions have halos; at most three have"});
}

/// What a rank gives of a field, so that the ranks can compare it.
struct Described {
  std::array<DimType, max_rank> types{};
  std::array<index_t, max_rank> extents{};
  std::array<Partition, max_rank> partitions{};
  std::string description;

  Described(const impl::MeshState& mesh, int rank, const shard_dimension* dimensions) {
    if (rank < 1 || rank > max_rank)
      throw_argument(field_wrap, {"a field of rank ", text(rank), "; it is 1 to ", text(max_rank)});
    require(dimensions, "the list of dimensions");
    for (int d = 0; d < rank; ++d) {
      const shard_dimension& of = dimensions[d];
      DimType& type             = types[impl::Geometry::at(d)];
      type.lo                   = of.halo_low;
      type.hi                   = of.halo_high;
      if (of.halo_low < 0 || of.halo_high < 0)
        throw_argument(field_wrap, {"dimension ", text(d), " has a halo of ", text(of.halo_low),
                                    " and ", text(of.halo_high), " elements"});
      if (of.axis < -1 || of.axis >= mesh.axes())
        throw_argument(field_wrap, {"dimension ", text(d), " is sharded over axis ", text(of.axis),
                                    "; the mesh has ", text(mesh.axes()), ", and -1 is none"});
      type.low  = side_of(of.low, d, rank, false);
      type.high = side_of(of.high, d, rank, true);
      if (of.axis >= 0) {
        type.axis_count = 1;
        type.axes[0]    = of.axis;
      }
      extents[impl::Geometry::at(d)] = of.extent;
      if (of.space != nullptr) {
        if (of.space->mesh.get() != &mesh || of.space->axis != of.axis)
          throw_argument(field_wrap,
                         {"the index space of dimension ", text(d),
                          " is of another mesh, or over another axis than ", text(of.axis)});
        if (of.halo_low > 0 || of.halo_high > 0)
          throw_argument(field_wrap, {"dimension ", text(d),
                                      " has an index space, whose halo the space tells; give 0"});
        type.indices                      = elements_of_c();
        partitions[impl::Geometry::at(d)] = of.space->partition;
        extents[impl::Geometry::at(d)]    = of.space->partition.size();
        description += " [index space";
      } else {
        description += " [" + text(of.extent);
      }
      if (of.begins != nullptr && of.space == nullptr) {
        const int parts = of.axis < 0 ? 1 : mesh.extent(of.axis);
        partitions[impl::Geometry::at(d)] =
            Partition::explicit_begins({of.begins, of.begins + parts + 1});
        if (partitions[impl::Geometry::at(d)].size() != of.extent)
          throw_argument(field_wrap, {"dimension ", text(d), " has ", text(of.extent),
                                      " elements, and its last begin is ",
                                      text(partitions[impl::Geometry::at(d)].size())});
        description += " " + partitions[impl::Geometry::at(d)].describe();
      }
      description += ", axis " + text(of.axis) + ", halo " + text(of.halo_low) + "+" +
                     text(of.halo_high) + ", " + text(type.low) + "/" + text(type.high) + "]";
    }
    check(types, rank);
  }
};

}  // namespace

template <class Word, class Space>
void copy_blocks(const Space& space, const shard_field_s& field, bool fetches) {
  const Blocks& blocks = *field.blocks;
  const auto at        = impl::Geometry::at(blocks.dimension);
  const index_t count  = (blocks.extents[at] + blocks.lanes - 1) / blocks.lanes;
  BlockedCopyKernel<Word> kernel{reinterpret_cast<Word*>(blocks.data),
                                 reinterpret_cast<Word*>(field.origin) - field.front,
                                 fetches,
                                 field.geometry.rank,
                                 blocks.dimension,
                                 blocks.lanes,
                                 blocks.stride,
                                 count,
                                 {},
                                 {},
                                 {}};
  index_t items = count;
  for (int d = 0; d < field.geometry.rank; ++d) {
    const auto e     = impl::Geometry::at(d);
    kernel.extent[e] = blocks.extents[e];
    kernel.outer[e]  = blocks.strides[e];
    kernel.inner[e]  = field.stride[e];
    if (d != blocks.dimension) items *= blocks.extents[e];
  }
  impl::launch("shard::blocked_copy", space, items, kernel);
}

impl::Geometry lifted_geometry(const shard_field_s& field, int rank) {
  impl::Geometry geometry = field.geometry;
  const int first         = rank - geometry.rank;
  geometry.rank           = rank;
  for (int d = 0; d < rank; ++d) {
    impl::DimGeometry whole;
    whole.partition = Partition::whole(1);
    geometry.dims[impl::Geometry::at(d)] =
        d < first ? whole : field.geometry.dims[impl::Geometry::at(d - first)];
  }
  return geometry;
}
impl::FieldSpec spec_of(const shard_field_s& field) {
  return impl::exchange_spec(field.geometry, field.types.data(), field.kind, field.value_size,
                             field.left, field.stride.data());
}

}  // namespace shard::c

std::string shard_field_s::describe() const {
  return shard::impl::shard_picture(geometry, types.data(), value_size).text();
}
void shard_field_s::copy_blocks(bool fetches) const {
  const auto in = [&](const auto& space) {
    if (value_size == 4)
      shard::c::copy_blocks<std::uint32_t>(space, *this, fetches);
    else if (value_size == 8)
      shard::c::copy_blocks<std::uint64_t>(space, *this, fetches);
    else
      shard::c::copy_blocks<Kokkos::complex<double>>(space, *this, fetches);
  };
  if (on_device)
    in(shard::c::device_space());
  else
    in(shard::c::HostSpace());
}

namespace shard::c {

namespace {

/// Makes the field's own memory, and returns its extents: those of the array with the blocks in a
/// row. Throws ArgumentError for blocks that don't have them.
std::array<int64_t, max_rank> set_blocks(shard_field_s& field, int dimension, const int64_t* local,
                                         const int64_t* strides) {
  const int rank   = field.geometry.rank;
  field.blocks     = std::make_unique<Blocks>();
  Blocks& blocks   = *field.blocks;
  blocks.dimension = dimension;
  blocks.lanes     = local[dimension];
  blocks.stride    = strides[rank];
  const auto at    = impl::Geometry::at(dimension);
  std::array<int64_t, max_rank> extents{};
  for (int d = 0; d < rank; ++d) {
    blocks.strides[impl::Geometry::at(d)] = strides[d];
    extents[impl::Geometry::at(d)]        = local[d];
  }
  extents[at] = field.types[at].lo + field.geometry.owned(dimension) +
                field.geometry.index_halo(dimension) + field.types[at].hi;
  const std::string wrong = local[dimension] * local[rank] >= extents[at] && local[dimension] > 0
                                ? ""
                                : text(local[rank]) + " blocks of " + text(local[dimension]) +
                                      " don't have the elements of dimension " + text(dimension) +
                                      ", which with the halo are " + text(extents[at]);
  impl::require_no_error(field.geometry.mesh->comm(), field_wrap, wrong);
  for (int d = 0; d < rank; ++d)
    blocks.extents[impl::Geometry::at(d)] = extents[impl::Geometry::at(d)];
  return extents;
}

/// Where an array is, by the device's runtime; -1 for none.
int memory_of(const void* data) {
  if (data == nullptr) return -1;
#if defined(KOKKOS_ENABLE_CUDA)
  cudaPointerAttributes of{};
  if (cudaPointerGetAttributes(&of, data) != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (of.type == cudaMemoryTypeDevice || of.type == cudaMemoryTypeManaged) return shard_device;
#elif defined(KOKKOS_ENABLE_HIP)
  hipPointerAttribute_t of{};
  // memory that HIP doesn't know is an error, and the host's
  if (hipPointerGetAttributes(&of, data) != hipSuccess)
    static_cast<void>(hipGetLastError());
  else if (of.type == hipMemoryTypeDevice || of.type == hipMemoryTypeManaged)
    return shard_device;
#endif
  return shard_host;
}
/// The same for all ranks, some of which may have no elements. Collective; throws ArgumentError on
/// every rank if some arrays are in device memory and some aren't.
int agreed_memory(const impl::MeshState& mesh, const void* data) {
  const int mine = memory_of(data);
  int any[2]     = {mine == shard_host ? 1 : 0, mine == shard_device ? 1 : 0};
  impl::await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, static_cast<void*>(any), 2, MPI_INT,
                  MPI_MAX, mesh.comm());
  if (any[0] != 0 && any[1] != 0)
    impl::throw_argument(field_wrap,
                         {"some ranks' arrays are in device memory, others' in host memory"});
  return any[1] != 0 ? shard_device : shard_host;
}

/// As shard_field_wrap; `blocked`: the dimension in blocks, or -1.
int wrap(shard_mesh mesh, const char* name, void* data, int type, int memory, int rank,
         const shard_dimension* dimensions, int blocked, const int64_t* local,
         const int64_t* strides, shard_field* field) {
  return guarded([&] {
    shard_field& made                             = require(field, "the field to be made");
    const std::shared_ptr<impl::MeshState>& state = require(mesh, "the mesh").state;
    // what one rank gets wrong is an error on all
    std::optional<Described> given;
    std::pair<impl::ValueKind, int> kind;
    std::string wrong;
    try {
      kind = kind_of(type);
      if (memory < shard_host || memory > shard_asked)
        impl::throw_argument(field_wrap, {"there is no memory ", impl::text(memory)});
      require(local, "the list of local extents");
      given.emplace(*state, rank, dimensions);
      if (blocked < -1 || blocked >= rank)
        impl::throw_argument(
            field_wrap, {"there is no dimension ", impl::text(blocked), " that can be in blocks"});
      if (blocked >= 0) require(strides, "the list of strides of a blocked array");
    } catch (const Error& error) {
      wrong = error.what();
    }
    impl::require_no_error(state->comm(), field_wrap, wrong);
    impl::require_agreement(
        state->comm(), field_wrap,
        "type " + impl::text(type) + ", memory " + impl::text(memory) +
            (blocked < 0 ? "" : ", blocks in dimension " + impl::text(blocked)) +
            given->description);
    if (memory == shard_asked) memory = agreed_memory(*state, data);

    auto handle   = std::make_unique<shard_field_s>();
    handle->types = given->types;
    handle->geometry =
        impl::make_geometry(name == nullptr ? "" : name, state, rank, given->types.data(),
                            given->extents.data(), given->partitions.data());
    std::array<int64_t, max_rank> extents{};
    if (blocked >= 0)
      extents = set_blocks(*handle, blocked, local, strides);
    else
      std::copy_n(local, rank, extents.begin());
    impl::require_local_extents(handle->geometry, given->types.data(), extents.data());
    handle->kind       = kind.first;
    handle->value_size = kind.second;
    handle->on_device  = memory == shard_device && !std::is_same_v<DeviceMemory, Kokkos::HostSpace>;
    index_t contiguous = 1;
    for (int d = rank - 1; d >= 0; --d) {
      const auto at      = impl::Geometry::at(d);
      handle->stride[at] = strides == nullptr || blocked >= 0 ? contiguous : strides[d];
      contiguous *= extents[at];
      handle->front += given->types[at].lo * handle->stride[at];
    }
    // an array without elements, or of one, doesn't tell
    const int here =
        contiguous > 1 && handle->stride[0] < handle->stride[impl::Geometry::at(rank - 1)];
    int somewhere = 0;
    impl::await_mpi("MPI_Allreduce", MPI_Allreduce, static_cast<const void*>(&here),
                    static_cast<void*>(&somewhere), 1, MPI_INT, MPI_MAX, state->comm());
    handle->left = somewhere != 0;
    auto* first  = static_cast<std::byte*>(data);
    if (blocked >= 0) {
      Blocks& blocks   = *handle->blocks;
      const auto bytes = static_cast<std::size_t>(contiguous * handle->value_size);
      blocks.data      = first;
      if (handle->on_device)
        blocks.device = Kokkos::View<std::byte*, DeviceMemory>("shard::blocks", bytes);
      if (!handle->on_device)
        blocks.host = Kokkos::View<std::byte*, Kokkos::HostSpace>("shard::blocks", bytes);
      first = handle->on_device ? blocks.device.data() : blocks.host.data();
    }
    handle->origin = first + handle->front * handle->value_size;
    made           = handle.release();
  });
}

}  // namespace

}  // namespace shard::c

int shard_field_wrap(shard_mesh mesh, const char* name, void* data, int type, int memory, int rank,
                     const shard_dimension* dimensions, const int64_t* local,
                     const int64_t* strides, shard_field* field) {
  return shard::c::wrap(mesh, name, data, type, memory, rank, dimensions, -1, local, strides,
                        field);
}
int shard_field_wrap_blocked(shard_mesh mesh, const char* name, void* data, int type, int memory,
                             int rank, const shard_dimension* dimensions, int blocked,
                             const int64_t* local, const int64_t* strides, shard_field* field) {
  return shard::c::wrap(mesh, name, data, type, memory, rank, dimensions, blocked, local, strides,
                        field);
}

int shard_field_retain(shard_field field) { return shard::c::retain(field, "the field"); }
int shard_field_release(shard_field* field) { return shard::c::release(field, "the field"); }

int shard_field_rebind(shard_field field, void* data) {
  return shard::c::guarded([&] {
    auto& f = shard::c::require(field, "the field");
    if (f.blocks != nullptr)
      f.blocks->data = static_cast<std::byte*>(data);
    else
      f.origin = static_cast<std::byte*>(data) + f.front * f.value_size;
  });
}

int shard_field_rebind_checked(shard_field field, void* data, int type, int rank,
                               const int64_t* local, const int64_t* strides) {
  using namespace shard;
  const int code = c::guarded([&] {
    const auto& f      = c::require(field, "the field");
    const c::Blocks* b = f.blocks.get();
    const int own      = f.geometry.rank + (b != nullptr ? 1 : 0);
    const auto refuse  = [&](const std::string& what) {
      impl::throw_argument("field_rebind",
                            {"\"", f.geometry.label, "\": the other array has ", what});
    };
    if (type < shard_float || type > shard_complex_double || c::kind_of(type).first != f.kind)
      refuse("another type");
    if (rank != own) refuse(impl::text(rank) + " dimensions, not " + impl::text(own));
    for (int d = 0; d < rank; ++d) {
      const auto at     = impl::Geometry::at(d);
      const bool counts = b != nullptr && d == own - 1;  // blocks
      index_t extent = local[d], stride = 0;
      if (counts) {
        stride = b->stride;
        if (extent * b->lanes < b->extents[impl::Geometry::at(b->dimension)])
          refuse("too few blocks: " + impl::text(extent));
      } else if (b != nullptr) {
        stride = b->strides[at];
        extent = d == b->dimension ? b->lanes : b->extents[at];
      } else {
        stride = f.stride[at];
        extent = f.types[at].lo + f.geometry.owned(d) + f.geometry.index_halo(d) + f.types[at].hi;
      }
      if (local[d] != extent)
        refuse(impl::text(local[d]) + " elements in dimension " + impl::text(d) + ", not " +
               impl::text(extent));
      if (local[d] > 1 && strides[d] != stride)
        refuse("stride " + impl::text(strides[d]) + " in dimension " + impl::text(d) + ", not " +
               impl::text(stride));
    }
  });
  return code != shard_ok ? code : shard_field_rebind(field, data);
}

int shard_field_owned(shard_field field, int dimension, int64_t* first, int64_t* count) {
  return shard::c::guarded([&] {
    const auto& geometry = shard::c::require(field, "the field").geometry;
    if (dimension < 0 || dimension >= geometry.rank)
      shard::impl::throw_argument("field_owned",
                                  {"there is no dimension ", shard::impl::text(dimension)});
    if (first != nullptr) *first = geometry.begin(dimension);
    if (count != nullptr) *count = geometry.owned(dimension);
  });
}
