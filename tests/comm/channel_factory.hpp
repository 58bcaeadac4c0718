// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_COMM_CHANNEL_FACTORY_HPP
#define SHARD_TESTS_COMM_CHANNEL_FACTORY_HPP

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "comm/conformance.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::testing {

/// The kind of channel with this name.
inline const impl::ChannelKind& channel_kind(std::string_view name) {
  for (const impl::ChannelKind& kind : impl::channel_kinds())
    if (kind.name == name) return kind;
  throw std::runtime_error("no such channel");
}

inline std::shared_ptr<impl::MeshState> mesh_of(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return impl::MeshState::make(comm, {size}, {});
}

/// For the conformance suite: the transports of a channel for fields in host memory, forward or
/// adjoint. `Kind` has the channel's `name`, and what differs from HostFactory.
template <class Kind, bool adjoint = false>
struct ChannelFactory : Kind {
  static std::string unusable(MPI_Comm comm) {
    const auto mesh    = mesh_of(comm);
    const auto channel = channel_kind(Kind::name).open({.mesh = *mesh, .only = Kind::name});
    int all            = channel ? 1 : 0;
    for (int rank = 0; rank < mesh->size() && all != 0; ++rank) all = channel->serves(rank) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm);
    return all != 0 ? "" : "this channel doesn't connect all ranks here";
  }

  struct Held {
    Held(std::unique_ptr<impl::Channel> of, const impl::ChannelMessages& messages)
        : send(total(messages.sends)), receive(total(messages.receives)), channel(std::move(of)) {
      if (!channel->reserve(messages)) throw std::runtime_error("no memory");
      channel->connect(messages);
      made = channel->make(send.data(), receive.data());
    }
    static std::size_t total(const std::vector<Message>& messages) {
      std::size_t bytes = 0;
      for (const Message& m : messages) bytes += m.bytes;
      return bytes;
    }
    std::vector<std::byte> send, receive;
    std::unique_ptr<impl::Channel> channel;
    std::array<std::unique_ptr<impl::Transport>, 2> made;
    impl::Transport& transport() { return *made[adjoint ? 1 : 0]; }
  };

  explicit ChannelFactory(MPI_Comm comm) : mesh_(mesh_of(comm)) {
    channel_kind(Kind::name)
        .open({.mesh = *mesh_, .only = Kind::name});  // makes what the mesh's channels share
  }
  std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    return std::make_unique<Held>(
        channel_kind(Kind::name).open({.mesh = *mesh_, .only = Kind::name}),
        impl::ChannelMessages{.comm     = mesh_->comm(),
                              .tags     = {tag, tag},
                              .sends    = adjoint ? receives : sends,
                              .receives = adjoint ? sends : receives});
  }

 private:
  std::shared_ptr<impl::MeshState> mesh_;
};

}  // namespace shard::testing

#endif
