// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/channel.hpp"

#include <utility>

namespace shard::impl {

// each in the file of its transport, *_channel.cpp
std::unique_ptr<Channel> open_shared_channel(const ChannelRequest& request);
std::unique_ptr<Channel> open_nccl_channel(const ChannelRequest& request);
std::unique_ptr<Channel> open_host_channel(const ChannelRequest& request);
std::unique_ptr<Channel> open_mpi_channel(const ChannelRequest& request);

const int& Channel::waiting_for() const {
  static constexpr int unknown = -1;
  return unknown;
}

std::vector<ChannelKind>& channel_kinds() {
  static std::vector<ChannelKind> kinds{{"shared", open_shared_channel},
                                        {"nccl", open_nccl_channel},
                                        {"hosts", open_host_channel},
                                        {"mpi", open_mpi_channel}};
  return kinds;
}

Channels open_channels(const ChannelRequest& request) {
  Channels channels;
  if (request.device && request.mesh.size() == 1) return channels;  // no messages: MPI isn't asked
  bool mapped = false;
  for (const ChannelKind& kind : channel_kinds()) {
    const bool wanted = request.only == "automatic" || request.only == kind.name;
    if (!wanted && &kind != &channel_kinds().back()) continue;
    auto channel = kind.open(request);
    if (!channel || (mapped && channel->properties().mapped)) continue;
    mapped        = mapped || channel->properties().mapped;
    channel->name = kind.name;
    channels.push_back(std::move(channel));
    if (channels.back()->serves_all()) break;
  }
  return channels;
}

}  // namespace shard::impl
