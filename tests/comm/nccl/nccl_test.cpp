// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL's transport without Kokkos. Where there is a GPU for each rank it runs; everywhere else the
// library is loaded, and says on every rank why no group can be made.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/conformance.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using impl::NcclGroup;
using impl::NcclTransport;

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// Each rank of the node takes the device of its number there, if there is one.
void choose_device(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  if (devices() > 0) cudaSetDevice(rank_of(node) % devices());
  MPI_Comm_free(&node);
}

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Device memory.
class Buffer {
 public:
  explicit Buffer(const std::vector<Message>& messages) {
    std::size_t bytes = 16;
    for (const Message& m : messages) bytes += m.bytes;
    check(cudaMalloc(&data_, bytes));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&)            = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

struct NcclFactory {
  static constexpr bool takes_self     = true;
  static constexpr bool stream_ordered = true;
  static constexpr bool needs_group    = true;
  static constexpr bool honours_tags   = false;
  static constexpr bool persistent     = false;

  struct Held {
    Held(NcclGroup& group, const std::vector<Message>& sends, const std::vector<Message>& receives)
        : out(sends), in(receives), made(group, sends, out.data(), receives, in.data()) {}
    Buffer out, in;
    NcclTransport made;
    impl::Transport& transport() { return made; }
  };

  static std::string unusable(MPI_Comm comm) {
    choose_device(comm);
    try {
      const NcclGroup group(comm);
      return {};
    } catch (const NcclError& error) {
      return error.what();
    }
  }

  explicit NcclFactory(MPI_Comm comm) : group_(comm) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~NcclFactory() { cudaStreamDestroy(stream_); }
  NcclFactory(const NcclFactory&)            = delete;
  NcclFactory& operator=(const NcclFactory&) = delete;

  std::unique_ptr<Held> make(int, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    return std::make_unique<Held>(group_, sends, receives);
  }
  void write(std::byte* to, const std::vector<std::byte>& from) {
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_));
  }
  void read(std::vector<std::byte>& to, const std::byte* from) {
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
  }
  impl::Stream stream() { return {stream_}; }

 private:
  NcclGroup group_;
  cudaStream_t stream_ = nullptr;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Nccl, TransportConformance, NcclFactory);

TEST(Nccl, TheLibraryIsLoaded) {
  int code = 0;
  ASSERT_EQ(ncclGetVersion(&code), ncclSuccess);
  EXPECT_EQ(code / 10000, NCCL_MAJOR);
  EXPECT_EQ(impl::nccl_version(), "NCCL " + std::to_string(code / 10000) + "." +
                                      std::to_string(code % 10000 / 100) + "." +
                                      std::to_string(code % 100));
  if (rank_of(MPI_COMM_WORLD) == 0) std::printf("%s\n", impl::nccl_version().c_str());
}

// Not a crash, nor a rank that waits for ever, however often it is tried.
TEST(Nccl, WithoutAGpuEveryRankIsTold) {
  if (devices() > 0) GTEST_SKIP() << "there is a GPU here";
  for (int i = 0; i < 3; ++i)
    expect_parts(message_thrown_by<NcclError>([] { const NcclGroup group(MPI_COMM_WORLD); }),
                 {"shard::NcclGroup: rank 0: no device for NCCL: ", "a GPU for each rank"});
}

TEST(Nccl, RanksThatShareAGpuAreToldOnEveryRank) {
  if (devices() == 0) GTEST_SKIP() << "there is no GPU here";
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cudaSetDevice(0);
  if (ranks == 1) return;
  const char* share       = std::getenv("SHARD_NCCL_SHARE_GPU");
  const std::string asked = share != nullptr ? share : "0";
  setenv("SHARD_NCCL_SHARE_GPU", "0", 1);
  expect_parts(message_thrown_by<NcclError>([] { const NcclGroup group(MPI_COMM_WORLD); }),
               {"shard::NcclGroup: rank 0: its GPU, ", "is rank 1's too"});
  setenv("SHARD_NCCL_SHARE_GPU", asked.c_str(), 1);
}

}  // namespace
}  // namespace shard::testing
