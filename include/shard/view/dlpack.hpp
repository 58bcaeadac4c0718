// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_DLPACK_HPP
#define SHARD_VIEW_DLPACK_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// DLPack: arrays that PyTorch, JAX, CuPy and NumPy share without copies. The structs have the
/// layout of dlpack.h (its unversioned DLManagedTensor); a pointer to one is a pointer to the
/// other.

namespace shard {

namespace dlpack {

/// Where an array is: DLDevice.
struct Device {
  std::int32_t type = 1;  ///< 1: CPU, 2: CUDA, 10: ROCm, 13: managed memory of CUDA
  std::int32_t id   = 0;  ///< number of the device
};
/// The type of an element: DLDataType.
struct DataType {
  std::uint8_t code   = 2;  ///< 0: signed integer, 1: unsigned, 2: floating-point, 5: complex
  std::uint8_t bits   = 0;  ///< of an element
  std::uint16_t lanes = 1;  ///< 1
};
/// An array: DLTensor.
struct Tensor {
  void* data = nullptr;             ///< the memory
  Device device{};                  ///< where it is
  std::int32_t rank = 0;            ///< number of dimensions
  DataType type{};                  ///< of elements
  std::int64_t* shape   = nullptr;  ///< extents
  std::int64_t* strides = nullptr;  ///< in elements; null: the last dimension is contiguous
  std::uint64_t offset  = 0;        ///< of the first element, in bytes
};
/// An array and who frees it: DLManagedTensor.
struct ManagedTensor {
  Tensor tensor{};                            ///< the array
  void* context                   = nullptr;  ///< the owner's
  void (*deleter)(ManagedTensor*) = nullptr;  ///< called once, by who has it last
};
static_assert(sizeof(DataType) == 4 && offsetof(Tensor, rank) == sizeof(void*) + 8 &&
              sizeof(Tensor) == 24 + 3 * sizeof(void*) &&
              offsetof(ManagedTensor, deleter) == sizeof(Tensor) + sizeof(void*));

/// Calls a tensor's deleter.
struct Delete {
  /// As it says.
  void operator()(ManagedTensor* tensor) const {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
};

}  // namespace dlpack

/// A tensor that its owner frees; `release()` gives it to a Python capsule named "dltensor".
using DlpackPointer = std::unique_ptr<dlpack::ManagedTensor, dlpack::Delete>;

namespace impl {

template <class T>
constexpr dlpack::DataType dlpack_type() {
  constexpr auto bits = static_cast<std::uint8_t>(8 * sizeof(T));
  if constexpr (std::is_same_v<T, Kokkos::complex<float>> ||
                std::is_same_v<T, Kokkos::complex<double>>) {
    return {5, bits, 1};
  } else {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>,
                  "a DLPack tensor is of numbers");
    return {std::uint8_t{std::is_floating_point_v<T> ? 2U
                         : std::is_unsigned_v<T>     ? 1U
                                                     : 0U},
            bits, 1};
  }
}

/// The device of a memory space.
template <class Memory>
dlpack::Device dlpack_device() {
#ifdef KOKKOS_ENABLE_CUDA
  if constexpr (std::is_same_v<Memory, Kokkos::CudaSpace>) return {2, Kokkos::device_id()};
  if constexpr (std::is_same_v<Memory, Kokkos::CudaUVMSpace>) return {13, Kokkos::device_id()};
#endif
#ifdef KOKKOS_ENABLE_HIP
  if constexpr (std::is_same_v<Memory, Kokkos::HIPSpace>) return {10, Kokkos::device_id()};
#endif
  if constexpr (!Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible)
    throw_argument("to_dlpack", {"DLPack has no device for this memory space"});
  return {};
}

/// Whether the tensor has no elements. Throws ArgumentError where it has, and its memory is null or
/// not aligned for the View's type, and for extents and strides that are negative or too large.
inline bool require_dlpack_memory(const dlpack::Tensor& t, std::size_t size,
                                  std::size_t alignment) {
  constexpr std::int64_t most = PTRDIFF_MAX;
  bool empty                  = false;
  for (int d = 0; d < t.rank; ++d) {
    if (t.shape[d] < 0)
      throw_argument("from_dlpack", {"the tensor's extent in dimension ", text(index_t{d}), " is ",
                                     text(static_cast<index_t>(t.shape[d]))});
    empty = empty || t.shape[d] == 0;
  }
  if (empty) return true;
  std::int64_t elements = 1, last = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    const std::int64_t stride = t.strides != nullptr ? t.strides[d] : elements;
    if (t.shape[d] > 1 && stride < 0)
      throw_argument("from_dlpack", {"the tensor's stride in dimension ", text(index_t{d}), " is ",
                                     text(static_cast<index_t>(stride)), "; copy the tensor"});
    if (t.shape[d] > most / static_cast<std::int64_t>(size) / elements ||
        (t.shape[d] > 1 &&
         stride > (most / static_cast<std::int64_t>(size) - last) / (t.shape[d] - 1)))
      throw_argument("from_dlpack", {"the tensor's extents are too large for any memory"});
    elements *= t.shape[d];
    if (t.shape[d] > 1) last += (t.shape[d] - 1) * stride;
  }
  if (t.data == nullptr)
    throw_argument("from_dlpack", {"the tensor has ", text(static_cast<index_t>(elements)),
                                   " elements and no memory"});
  if ((reinterpret_cast<std::uintptr_t>(t.data) + t.offset) % alignment != 0)
    throw_argument("from_dlpack",
                   {"the tensor's elements are not aligned: its offset is ",
                    text(static_cast<index_t>(t.offset)), " bytes; copy the tensor"});
  return false;
}

}  // namespace impl

/// A field's owned elements as a DLPack tensor. It shares the memory and keeps it alive until the
/// tensor is deleted. Local. The caller fences before another library reads.
template <AnyShardedView Field>
DlpackPointer to_dlpack(const Field& field) {
  using View = decltype(field.owned());
  struct Context {
    dlpack::ManagedTensor managed;
    View view;
    std::int64_t numbers[2 * Field::rank];
  };
  auto made             = std::make_unique<Context>(Context{{}, field.owned(), {}});
  dlpack::Tensor& t     = made->managed.tensor;
  made->managed.context = made.get();
  made->managed.deleter = [](dlpack::ManagedTensor* m) {
    delete static_cast<Context*>(m->context);
  };
  t.data    = const_cast<typename Field::non_const_value_type*>(made->view.data());
  t.device  = impl::dlpack_device<typename Field::memory_space>();
  t.rank    = Field::rank;
  t.type    = impl::dlpack_type<typename Field::non_const_value_type>();
  t.shape   = made->numbers;
  t.strides = made->numbers + Field::rank;
  for (int d = 0; d < Field::rank; ++d) {
    t.shape[d]   = static_cast<std::int64_t>(made->view.extent(static_cast<std::size_t>(d)));
    t.strides[d] = static_cast<std::int64_t>(made->view.stride(static_cast<std::size_t>(d)));
  }
  return DlpackPointer(&made.release()->managed);
}

/// A Kokkos View of a DLPack tensor's memory, which a ShardedView can wrap. The caller keeps the
/// tensor while the View is used. Local. Throws ArgumentError unless rank, type of elements, device
/// and strides are those of the View (LayoutStride takes any strides, and a tensor without elements
/// may have any), and for memory that is null or not aligned, and extents that are negative or too
/// large.
///
///   auto view = shard::from_dlpack<Kokkos::View<double**, Kokkos::LayoutRight>>(*tensor);
template <class View>
View from_dlpack(const dlpack::ManagedTensor& managed) {
  using T                 = typename View::non_const_value_type;
  constexpr int rank      = static_cast<int>(View::rank);
  const dlpack::Tensor& t = managed.tensor;
  constexpr auto type     = impl::dlpack_type<T>();
  if (t.rank != rank)
    impl::throw_argument("from_dlpack", {"the tensor has ", impl::text(index_t{t.rank}),
                                         " dimensions and the View ", impl::text(index_t{rank})});
  if (t.type.code != type.code || t.type.bits != type.bits || t.type.lanes != 1)
    impl::throw_argument(
        "from_dlpack",
        {"the tensor's elements have the type code ", impl::text(index_t{t.type.code}), " with ",
         impl::text(index_t{t.type.bits}), " bits, the View's ", impl::text(index_t{type.code}),
         " with ", impl::text(index_t{type.bits}), " bits"});
  if (const auto device = impl::dlpack_device<typename View::memory_space>();
      t.device.type != device.type || t.device.id != device.id)
    impl::throw_argument(
        "from_dlpack",
        {"the tensor is on another device (type ", impl::text(index_t{t.device.type}), ", number ",
         impl::text(index_t{t.device.id}), ") than the View's memory space"});
  const bool empty = impl::require_dlpack_memory(t, sizeof(T), alignof(T));
  typename View::array_layout layout;
  index_t stride[rank];
  for (int d = rank - 1; d >= 0; --d) {
    layout.dimension[d] = static_cast<std::size_t>(t.shape[d]);
    stride[d]           = t.strides != nullptr ? t.strides[d]
                          : d == rank - 1      ? 1
                                               : stride[d + 1] * t.shape[d + 1];
    if constexpr (std::is_same_v<typename View::array_layout, Kokkos::LayoutStride>)
      layout.stride[d] = static_cast<std::size_t>(stride[d]);
  }
  const View view(empty ? nullptr : reinterpret_cast<T*>(static_cast<char*>(t.data) + t.offset),
                  layout);
  for (int d = 0; d < rank; ++d)
    if (!empty && t.shape[d] > 1 &&
        static_cast<index_t>(view.stride(static_cast<std::size_t>(d))) != stride[d])
      impl::throw_argument(
          "from_dlpack",
          {"the tensor's stride in dimension ", impl::text(index_t{d}), " is ",
           impl::text(stride[d]), " and the View's layout needs ",
           impl::text(static_cast<index_t>(view.stride(static_cast<std::size_t>(d)))),
           "; copy it, or use LayoutStride"});
  return view;
}

}  // namespace shard

#endif
