// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/dlpack.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Rows;
using Memory = Kokkos::DefaultExecutionSpace::memory_space;
using Field  = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Rows, Halo<1>>,
                          ShardDim<1, Unsharded, Halo<2>>>;

// Owned elements without the halo, in the same memory, which outlives the field.
TEST(Dlpack, RoundTrip) {
  const Mesh<Rows> mesh(MPI_COMM_WORLD, {0});
  DlpackPointer tensor;
  const double* data = nullptr;
  {
    const Field f("f", mesh, {11, 5});
    deep_copy(Kokkos::DefaultExecutionSpace(), f, 3.0);
    Kokkos::fence();
    tensor = to_dlpack(f);
    data   = f.owned().data();
  }
  const dlpack::Tensor& t = tensor->tensor;
  const auto rows         = Partition::balanced(11, mesh.size()).count(mesh.rank());
  EXPECT_EQ(t.data, data);
  EXPECT_EQ(t.rank, 2);
  EXPECT_EQ(t.type.code, 2);
  EXPECT_EQ(t.type.bits, 64);
  EXPECT_EQ(t.shape[0], rows);
  EXPECT_EQ(t.shape[1], 5);
  EXPECT_EQ(t.strides[0], 9);
  EXPECT_EQ(t.strides[1], 1);
  using Strided   = Kokkos::View<double**, Kokkos::LayoutStride, Memory>;
  const auto view = from_dlpack<Strided>(*tensor);
  EXPECT_EQ(view.data(), data);
  // no copy of strided device memory to the host
  const Kokkos::View<double**, Kokkos::LayoutRight, Memory> dense("dense", view.extent(0),
                                                                  view.extent(1));
  Kokkos::deep_copy(dense, view);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), dense);
  for (std::size_t i = 0; i < view.extent(0); ++i)
    for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(host(i, j), 3.0);

  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { (void)from_dlpack<Kokkos::View<double*, Memory>>(*tensor); }),
               {"from_dlpack", "2 dimensions and the View 1"});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { (void)from_dlpack<Kokkos::View<float**, Memory>>(*tensor); }),
               {"code 2 with 64 bits", "32 bits"});
  if (rows > 1)
    expect_parts(message_thrown_by<ArgumentError>([&] {
                   using Right = Kokkos::View<double**, Kokkos::LayoutRight, Memory>;
                   (void)from_dlpack<Right>(*tensor);
                 }),
                 {"stride in dimension 0 is 9", "needs 5", "LayoutStride"});
}

// What another library gives: without strides, at an offset; its deleter runs once.
TEST(Dlpack, OthersArrays) {
  Kokkos::View<std::int32_t[24], Memory> numbers("numbers");
  std::int64_t shape[] = {2, 5};
  static int deleted   = 0;
  deleted              = 0;
  dlpack::ManagedTensor managed;
  managed.tensor.data   = numbers.data();
  managed.tensor.device = impl::dlpack_device<Memory>();
  managed.tensor.rank   = 2;
  managed.tensor.type   = {0, 32, 1};
  managed.tensor.shape  = shape;
  managed.tensor.offset = 16;
  managed.deleter       = [](dlpack::ManagedTensor*) { ++deleted; };
  {
    const DlpackPointer tensor(&managed);
    const auto view =
        from_dlpack<Kokkos::View<std::int32_t**, Kokkos::LayoutRight, Memory>>(*tensor);
    EXPECT_EQ(view.data(), numbers.data() + 4);
    EXPECT_EQ(view.stride(0), 5U);
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);

  // what can't be a View: misaligned, null, too large; a tensor without elements has any strides
  using Right        = Kokkos::View<std::int32_t**, Kokkos::LayoutRight, Memory>;
  const auto refused = [&](const char* why) {
    expect_parts(message_thrown_by<ArgumentError>([&] { (void)from_dlpack<Right>(managed); }),
                 {"from_dlpack", why});
  };
  managed.tensor.offset = 3;
  refused("not aligned");
  managed.tensor.offset = 0;
  managed.tensor.data   = nullptr;
  refused("10 elements and no memory");
  shape[0] = std::int64_t{1} << 62;
  refused("too large");
  shape[0] = -1;
  refused("extent in dimension 0 is -1");
  std::int64_t strides[] = {1, 1};
  managed.tensor.strides = strides;
  shape[0]               = 5;
  shape[1]               = 0;
  EXPECT_EQ(from_dlpack<Right>(managed).size(), 0U);
  shape[0]   = 0;
  shape[1]   = 5;
  using Left = Kokkos::View<std::int32_t**, Kokkos::LayoutLeft, Memory>;
  EXPECT_EQ(from_dlpack<Left>(managed).size(), 0U);
}

}  // namespace
}  // namespace shard::testing
