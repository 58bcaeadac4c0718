// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/conformance.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "shard/comm/impl/mpi_transport.hpp"
#include "shard/comm/impl/shared_pool.hpp"
#include "shard/comm/impl/shared_transport.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::testing {

using impl::Stream;

/// The plainest transport there is: it shows that the suite asks for no more than MPI gives.
class PlainTransport {
 public:
  static constexpr bool stream_ordered      = false;
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = false;

  PlainTransport(MPI_Comm comm, int tag, std::vector<Message> sends, std::vector<Message> receives)
      : comm_(comm), tag_(tag), sends_(std::move(sends)), receives_(std::move(receives)) {
    for (const Message& m : sends_) outgoing_.emplace_back(m.bytes);
    for (const Message& m : receives_) incoming_.emplace_back(m.bytes);
    requests_.resize(sends_.size() + receives_.size(), MPI_REQUEST_NULL);
  }

  void begin(std::uint64_t) {
    for (std::size_t i = 0; i < receives_.size(); ++i)
      MPI_Irecv(incoming_[i].data(), static_cast<int>(receives_[i].bytes), MPI_BYTE,
                receives_[i].peer, tag_, comm_, &requests_[i]);
  }
  std::byte* outgoing(std::size_t i) const { return const_cast<std::byte*>(outgoing_[i].data()); }
  void start(Stream) {
    for (std::size_t i = 0; i < sends_.size(); ++i)
      MPI_Isend(outgoing_[i].data(), static_cast<int>(sends_[i].bytes), MPI_BYTE, sends_[i].peer,
                tag_, comm_, &requests_[receives_.size() + i]);
  }
  void wait(Stream) {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }
  const std::byte* incoming(std::size_t i) const { return incoming_[i].data(); }
  void release() {}

 private:
  MPI_Comm comm_;
  int tag_;
  std::vector<Message> sends_, receives_;
  std::vector<std::vector<std::byte>> outgoing_, incoming_;
  std::vector<MPI_Request> requests_;
};

namespace {

struct PlainFactory : HostFactory {
  using Transport                  = PlainTransport;
  static constexpr bool takes_self = true;
  static std::string unusable(MPI_Comm) { return {}; }

  struct Held {
    PlainTransport transport;
  };

  explicit PlainFactory(MPI_Comm comm) : comm_(comm) {}
  std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    return std::make_unique<Held>(Held{PlainTransport(comm_, tag, sends, receives)});
  }

 private:
  MPI_Comm comm_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Plain, TransportConformance, PlainFactory);

std::size_t total(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& m : messages) bytes += m.bytes;
  return bytes;
}

struct MpiFactory : HostFactory {
  using Transport                  = impl::MpiTransport;
  static constexpr bool takes_self = true;
  static std::string unusable(MPI_Comm) { return {}; }

  struct Held {
    Held(MPI_Comm comm, int tag, const std::vector<Message>& sends,
         const std::vector<Message>& receives)
        : out(total(sends)),
          in(total(receives)),
          transport(comm, tag, sends, out.data(), receives, in.data()) {}
    std::vector<std::byte> out, in;
    impl::MpiTransport transport;
  };

  explicit MpiFactory(MPI_Comm comm) : comm_(comm) {}
  std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    return std::make_unique<Held>(comm_, tag, sends, receives);
  }

 private:
  MPI_Comm comm_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, TransportConformance, MpiFactory);

// Counted in bytes it would be more than MPI's counts hold. 2 GiB of memory: what is sent is zero
// where nobody wrote it, and takes none.
TEST(MpiTransport, MessagesOfMoreThanTwoToThe31Bytes) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) return;  // one such message is enough
  constexpr std::size_t bytes = (std::size_t{1} << 31U) + 64, last = bytes - 1;
  const auto all = [](std::size_t n) { return std::unique_ptr<std::byte[]>(new std::byte[n]); };
  const auto out = all(bytes + 64), in = all(bytes + 64);
  out[last]     = std::byte{7};
  out[bytes]    = std::byte{8};
  in[last]      = std::byte{1};
  in[bytes + 1] = std::byte{2};
  const std::vector<Message> messages{{0, bytes}, {0, 64}};
  impl::MpiTransport transport(MPI_COMM_SELF, 5, messages, out.get(), messages, in.get());
  transport.begin(0);
  transport.start({});
  transport.wait({});
  EXPECT_EQ(in[last], std::byte{7});
  EXPECT_EQ(in[bytes], std::byte{8});
}

/// Runs of a channel, forward or, the messages going the other way, adjoint.
template <bool adjoint>
struct SharedFactory : HostFactory {
  using Transport                  = impl::SharedTransport;
  static constexpr bool takes_self = true;

  /// A pool of all ranks, or null.
  static std::shared_ptr<impl::MeshState> mesh_of_one_node(MPI_Comm comm) {
    int size = 1;
    MPI_Comm_size(comm, &size);
    auto mesh       = impl::MeshState::make(comm, {size}, {});
    const auto pool = impl::SharedPool::of(*mesh);
    int together    = pool->usable() ? 1 : 0;
    for (int rank = 0; rank < size; ++rank)
      if (pool->place_of(rank) < 0) together = 0;
    // Ranks may share their memory with some others only.
    MPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_INT, MPI_MIN, comm);
    if (together == 0) mesh.reset();
    return mesh;
  }
  static std::string unusable(MPI_Comm comm) {
    return mesh_of_one_node(comm) ? ""
                                  : "no windows of shared memory here: one rank, or an MPI that "
                                    "takes each for a node of its own";
  }

  struct Held {
    Held(const std::shared_ptr<impl::SharedPool>& pool, MPI_Comm comm, int tag,
         const std::vector<Message>& sends, const std::vector<Message>& receives)
        : channel(pool, comm, tag, adjoint ? receives : sends, adjoint ? sends : receives, 0) {
      buffer.piece = channel.allocate();
    }
    impl::SharedBuffer buffer;  // given back when the channel knows that it was read
    impl::SharedChannel channel;
    impl::SharedTransport transport{channel, buffer, adjoint};
  };

  explicit SharedFactory(MPI_Comm comm) : mesh_(mesh_of_one_node(comm)) {}
  std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    const auto pool         = impl::SharedPool::of(*mesh_);
    const std::size_t bytes = impl::SharedChannel::buffer_bytes(sends, receives);
    if (!pool->reserve(std::max<std::size_t>(bytes, 1), 1, impl::SharedChannel::flag_bytes(0)))
      throw std::runtime_error("no room in shared memory");
    return std::make_unique<Held>(pool, mesh_->comm(), tag, sends, receives);
  }

 private:
  std::shared_ptr<impl::MeshState> mesh_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Shared, TransportConformance, SharedFactory<false>);
INSTANTIATE_TYPED_TEST_SUITE_P(SharedAdjoint, TransportConformance, SharedFactory<true>);

}  // namespace
}  // namespace shard::testing
