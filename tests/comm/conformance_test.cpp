// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/conformance.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/channel_factory.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/shard.hpp"

namespace shard::testing {
namespace {

using impl::Stream;

/// The simplest transport there is: it shows that the suite asks for no more than MPI gives, and
/// that plans use any channel.
class PlainTransport final : public impl::Transport {
 public:
  PlainTransport(MPI_Comm comm, int tag, std::vector<Message> sends, std::vector<Message> receives,
                 std::byte* send, std::byte* receive)
      : comm_(comm), tag_(tag), sends_(std::move(sends)), receives_(std::move(receives)) {
    for (const Message& m : sends_) outgoing_.push_back(std::exchange(send, send + m.bytes));
    for (const Message& m : receives_)
      incoming_.push_back(std::exchange(receive, receive + m.bytes));
    requests_.resize(sends_.size() + receives_.size(), MPI_REQUEST_NULL);
  }

  void post_receives(std::uint64_t) override {
    for (std::size_t i = 0; i < receives_.size(); ++i)
      MPI_Irecv(incoming_[i], static_cast<int>(receives_[i].bytes), MPI_BYTE, receives_[i].peer,
                tag_, comm_, &requests_[i]);
  }
  std::byte* outgoing(std::size_t i) const override { return outgoing_[i]; }
  void send_all(Stream) override {
    for (std::size_t i = 0; i < sends_.size(); ++i)
      MPI_Isend(outgoing_[i], static_cast<int>(sends_[i].bytes), MPI_BYTE, sends_[i].peer, tag_,
                comm_, &requests_[receives_.size() + i]);
  }
  bool has_arrived() override {
    int done = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  }
  void wait(Stream) override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }
  const std::byte* incoming(std::size_t i) const override { return incoming_[i]; }
  bool abandon() override { return has_arrived(); }
  const int& waiting_for() const override { return peer_; }

 private:
  MPI_Comm comm_;
  int tag_, peer_ = -1;
  std::vector<Message> sends_, receives_;
  std::vector<std::byte*> outgoing_, incoming_;
  std::vector<MPI_Request> requests_;
};

class PlainChannel final : public impl::Channel {
 public:
  static int made;  // transports

  /// Serves ranks of the same parity, and leaves the others to the next channel.
  explicit PlainChannel(int rank) : rank_(rank) {}
  bool serves(int peer) const override { return (peer - rank_) % 2 == 0; }
  bool serves_all() const override { return false; }
  void connect(const impl::ChannelMessages& messages) override { messages_ = messages; }
  std::array<std::unique_ptr<impl::Transport>, 2> make(std::byte* send,
                                                       std::byte* receive) override {
    const impl::ChannelMessages& m = messages_;
    made += 2;
    return {
        std::make_unique<PlainTransport>(m.comm, m.tags[0], m.sends, m.receives, send, receive),
        std::make_unique<PlainTransport>(m.comm, m.tags[1], m.receives, m.sends, receive, send)};
  }

 private:
  int rank_;
  impl::ChannelMessages messages_;
};
int PlainChannel::made = 0;

std::unique_ptr<impl::Channel> open_plain(const impl::ChannelRequest& request) {
  return std::make_unique<PlainChannel>(request.mesh.rank());
}

struct PlainFactory : HostFactory {
  static std::string unusable(MPI_Comm) { return {}; }

  struct Held {
    PlainTransport made;
    std::vector<std::byte> send, receive;
    impl::Transport& transport() { return made; }
  };

  explicit PlainFactory(MPI_Comm comm) : comm_(comm) {}
  std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    std::vector<std::byte> send(total(sends)), receive(total(receives));
    std::byte *const from = send.data(), *const to = receive.data();
    return std::unique_ptr<Held>(
        new Held{{comm_, tag, sends, receives, from, to}, std::move(send), std::move(receive)});
  }
  static std::size_t total(const std::vector<Message>& messages) {
    std::size_t bytes = 0;
    for (const Message& m : messages) bytes += m.bytes;
    return bytes;
  }

 private:
  MPI_Comm comm_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Plain, TransportConformance, PlainFactory);

struct MpiKind : HostFactory {
  static constexpr const char* name = "mpi";
  static constexpr bool persistent  = true;
};
using MpiFactory = ChannelFactory<MpiKind>;
INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, TransportConformance, MpiFactory);

struct SharedKind : HostFactory {
  static constexpr const char* name = "shared";
  static constexpr bool persistent  = true;
};
using SharedFactory        = ChannelFactory<SharedKind>;
using SharedAdjointFactory = ChannelFactory<SharedKind, true>;
INSTANTIATE_TYPED_TEST_SUITE_P(Shared, TransportConformance, SharedFactory);
INSTANTIATE_TYPED_TEST_SUITE_P(SharedAdjoint, TransportConformance, SharedAdjointFactory);

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
  const auto mesh    = mesh_of(MPI_COMM_SELF);
  const auto channel = channel_kind("mpi").open({.mesh = *mesh});
  channel->connect(
      {.comm = MPI_COMM_SELF, .tags = {5, 6}, .sends = messages, .receives = messages});
  const auto transport = std::move(channel->make(out.get(), in.get())[0]);
  transport->post_receives(0);
  transport->send_all({});
  transport->wait({});
  EXPECT_EQ(in[last], std::byte{7});
  EXPECT_EQ(in[bytes], std::byte{8});
}

// A plan uses a channel that it doesn't know, for the peers that the channel serves, beside others.
TEST(Channels, APlanUsesAnyChannel) {
  struct X {};
  using Field = ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, X, Halo<3>, Periodic>,
                            Kokkos::HostSpace>;
  std::vector<impl::ChannelKind>& kinds = impl::channel_kinds();
  kinds.insert(kinds.begin(), {"plain", open_plain});
  PlainChannel::made = 0;
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const int ranks = mesh.size<X>(), rank = mesh.coordinate<X>(), n = 2 * ranks;
  Field t("t", mesh, {n});
  const Exchange halos(t);
  kinds.erase(kinds.begin());
  const double first = 2 * rank;
  for (int i = 0; i < 2; ++i) t(i) = first + i;
  for (int run = 0; run < 3; ++run) halos(Kokkos::DefaultHostExecutionSpace(), t);
  for (int i = -3; i < 5; ++i) EXPECT_EQ(t(i), (2 * rank + i + 3 * n) % n) << i;
  for (int i = -3; i < 5; ++i) t(i) = 1;
  halos.adjoint(Kokkos::DefaultHostExecutionSpace(), t);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(t(i), 4) << i;  // three copies of each
  if (ranks > 2 && rank == 0) {
    EXPECT_GT(PlainChannel::made, 0);
  }
}

}  // namespace
}  // namespace shard::testing
