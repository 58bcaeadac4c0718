// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_C_HANDLES_HPP
#define SHARD_SRC_C_HANDLES_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/c/shard.h"
#include "shard/exchange/impl/field_plan.hpp"
#include "shard/mesh/axis.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/partition.hpp"

/// \file
/// What the handles of the C interface are, and how its functions end.

namespace shard::c {

/// The device's memory; the host's in a build without a device.
using DeviceMemory = Kokkos::DefaultExecutionSpace::memory_space;
using HostSpace    = Kokkos::DefaultHostExecutionSpace;
using DeviceSpace  = Kokkos::DefaultExecutionSpace;

/// Where work on fields in device memory goes: to the stream of shard_set_stream.
DeviceSpace device_space();
/// The same for fields in `Memory`.
template <class Memory>
auto space_of() {
  if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
    return HostSpace();
  else
    return device_space();
}

/// An object for fields in one memory, the host's or the device's, or none. Both are one type in a
/// build without a device.
template <class Host, class Device>
struct OneOf {
  using type = std::variant<std::monostate, Host, Device>;
};
template <class Same>
struct OneOf<Same, Same> {
  using type = std::variant<std::monostate, Same>;
};
template <template <class> class Of>
using OfMemory = typename OneOf<Of<Kokkos::HostSpace>, Of<DeviceMemory>>::type;
/// Calls use(object) unless there is none.
template <class Variant, class Use>
void with(Variant& variant, const Use& use) {
  std::visit(
      [&](auto& of) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(of)>, std::monostate>) use(of);
      },
      variant);
}

/// Keeps an error's sentence, calls the handler, returns the code.
int fail(int code, const char* message) noexcept;
/// The code of the exception that is being handled.
int fail_with_current() noexcept;
/// Throws ArgumentError inside a parallel region of threads, or if Kokkos isn't running.
void require_callable();
[[noreturn]] void throw_null(const char* what);

/// Runs a function's body; no exception leaves it.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    require_callable();
    body();
    return shard_ok;
  } catch (...) {
    return fail_with_current();
  }
}

/// Throws ArgumentError for a null pointer.
template <class T>
T& require(T* pointer, const char* what) {
  if (pointer == nullptr) throw_null(what);
  return *pointer;
}

/// A counted object: the first base of what each handle points to.
struct Counted {
  Counted()                          = default;
  Counted(const Counted&)            = delete;
  Counted& operator=(const Counted&) = delete;
  virtual ~Counted() {}  // NOLINT(modernize-use-equals-default): hipcc
  virtual std::string describe() const { return {}; }
  std::atomic<int> owners{1};
};
template <class Handle>
int retain(Handle handle, const char* what) noexcept {
  return guarded([&] { ++require(handle, what).owners; });
}
template <class Handle>
int release(Handle* handle, const char* what) noexcept {
  return guarded([&] {
    Handle& held = require(handle, what);
    if (held == nullptr) return;
    if (--held->owners == 0) delete held;
    held = nullptr;
  });
}

/// The kind of elements of all index spaces that C makes.
struct Elements;
inline impl::AxisId elements_of_c() { return impl::axis_id<Elements>(); }

/// In the sentences of errors.
inline constexpr const char* field_wrap = "field_wrap";

/// A boundary of C as the engine has it; `high`: of a dimension's high side. Those of by_index live
/// as long as the process, since plans keep pointers to them. Throws ArgumentError.
BoundarySide side_of(const shard_boundary& boundary, int own_dimension, int rank, bool high);

}  // namespace shard::c

extern "C" {
/// One owner more, or less, of whatever a handle points to: for the Fortran module, whose objects
/// share one procedure.
int shard_object_retain(void* object);
int shard_object_release(void** object);  ///< as above; *object becomes NULL
/// Ends a call of the Fortran module with shard_error_argument and this sentence.
int shard_argument_refused(const char* message);
/// As shard_field_rebind, of an array that tells its type, extents and strides: Fortran's. Error
/// unless they are those of the array that was wrapped.
int shard_field_rebind_checked(shard_field field, void* data, int type, int rank,
                               const int64_t* local, const int64_t* strides);
}

struct shard_mesh_s : shard::c::Counted {
  std::shared_ptr<shard::impl::MeshState> state;

  std::string describe() const override { return state->text(); }
};

struct shard_space_s : shard::c::Counted {
  std::shared_ptr<shard::impl::MeshState> mesh;
  shard::Partition partition;
  int axis = 0;

  std::string describe() const override {
    return "index space over axis " + shard::impl::text(axis) + ": " + partition.describe() + "\n";
  }
};

namespace shard::c {

/// An array in which one dimension of a field is in blocks (nproma, ..., block). The field itself
/// is a copy of it in order; see shard_field_wrap_blocked.
struct Blocks {
  std::byte* data = nullptr;                      // the array
  int dimension   = -1;                           // of the field
  index_t lanes   = 0;                            // elements of a block
  index_t stride  = 0;                            // of blocks, in values
  std::array<index_t, impl::max_rank> strides{};  // in values; of `dimension`: of lanes
  std::array<index_t, impl::max_rank> extents{};  // of the field's copy, with its halo
  Kokkos::View<std::byte*, DeviceMemory> device{};
  Kokkos::View<std::byte*, Kokkos::HostSpace> host{};
};

}  // namespace shard::c

struct shard_field_s : shard::c::Counted {
  shard::impl::Geometry geometry;
  std::array<shard::impl::DimType, shard::impl::max_rank> types{};
  shard::impl::ValueKind kind = shard::impl::ValueKind::opaque;
  int value_size              = 0;
  bool left                   = false;  // the first dimension is the fastest
  bool on_device              = false;
  bool is_reversed            = false;
  std::array<shard::index_t, shard::impl::max_rank> stride{};  // in values
  shard::index_t front = 0;                                    // values before the first owned one
  std::byte* origin    = nullptr;                              // the first owned value
  std::unique_ptr<shard::c::Blocks> blocks{};                  // of a blocked array

  /// Before values are read, and after they were written: copies a blocked array to the field's
  /// memory and back. Nothing for others.
  void fetch() const {
    if (blocks != nullptr) copy_blocks(true);
  }
  void store() const {
    if (blocks != nullptr) copy_blocks(false);
  }
  std::string describe() const override;

 private:
  void copy_blocks(bool fetches) const;
};

namespace shard::c {

/// A field's geometry with dimensions of one element in front, so that it has this rank.
impl::Geometry lifted_geometry(const shard_field_s& field, int rank);
/// The spec of a field's exchange.
impl::FieldSpec spec_of(const shard_field_s& field);

}  // namespace shard::c

#endif
