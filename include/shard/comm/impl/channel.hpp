// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_CHANNEL_HPP
#define SHARD_COMM_IMPL_CHANNEL_HPP

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "shard/comm/impl/device_messages.hpp"
#include "shard/comm/impl/transport.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

/// What a plan asks of its channels; the same on every rank.
struct ChannelRequest {
  MeshState& mesh;
  std::optional<DeviceKind> device            = {};  ///< of the fields' memory; none: host memory
  std::string_view only                       = "automatic";  ///< the name of the wanted channel
  std::optional<bool> mpi_takes_device_memory = {};           ///< see Tuning
  std::size_t message_part                    = 0;            ///< see Tuning
  bool joins_hosts                            = false;        ///< see MessageLayout::one_per_host
};

/// The messages of a plan that a channel carries, forward; adjoint ones go the other way.
struct ChannelMessages {
  MPI_Comm comm = MPI_COMM_NULL;
  /// Forward, adjoint. Later plans may have the same tags: messages of one tag and peer are matched
  /// in order, as in MPI.
  std::array<int, 2> tags{};
  std::vector<Message> sends{}, receives{};
  int fields = 0;  ///< of the plan
};

/// MPI can't hand a message of more bytes to the network at once: it sends it in several steps.
inline constexpr std::size_t long_message = 16384;

/// Carries messages of one plan: by MPI, shared memory, NCCL. A plan has a list of channels, in
/// order of preference; the first that serves a peer carries all messages to and from it. The plan
/// then asks, in this order: properties, serves, reserve, connect, make.
class Channel {
 public:
  struct Properties {
    /// Peers read this rank's memory by loads: messages are built in memory of the channel, and
    /// fields can be read in place. A plan has at most one such channel.
    bool mapped = false;
    /// Messages are ordered with the kernels on the execution space's stream; the host never waits.
    bool stream_ordered = false;
    /// Messages of fields in device memory need buffers in pinned host memory.
    bool staged = false;
    /// Messages move only while the ranks call the transport.
    bool needs_calls = false;
  };

  Channel()                          = default;
  Channel(const Channel&)            = delete;
  Channel& operator=(const Channel&) = delete;
  /// May wait until the peers have read this rank's messages, unless it was abandoned.
  virtual ~Channel() = default;

  virtual Properties properties() const { return {}; }
  /// Whether it carries messages to and from a rank of the mesh. Both ends agree.
  virtual bool serves([[maybe_unused]] int peer) const { return true; }
  /// Whether it serves every peer, and `reserve` can't fail. The same on every rank.
  virtual bool serves_all() const { return true; }
  /// Reserves memory for two buffer sets. False if there is none: then the plan doesn't use the
  /// channel. Collective over the ranks that it connects, also those that have no messages; all
  /// return the same.
  virtual bool reserve([[maybe_unused]] const ChannelMessages& messages) { return true; }
  /// Prepares these messages. Only ranks with messages call it, after `reserve` with the same ones.
  virtual void connect(const ChannelMessages& messages) = 0;
  /// The transports of one buffer set, forward and adjoint. Forward messages are consecutive in
  /// `send` and `receive`; adjoint ones the other way. A mapped channel ignores both. Local.
  virtual std::array<std::unique_ptr<Transport>, 2> make(std::byte* send, std::byte* receive) = 0;

  /// Whether its destructor would not wait.
  virtual bool may_end() { return true; }
  /// After an error: peers may never read the messages, so nothing waits for that.
  virtual void abandon() {}
  /// The rank that its destructor waits for.
  virtual const int& waiting_for() const;

  const char* name = "";  ///< of its kind; set by open_channels
};

using Channels = std::vector<std::unique_ptr<Channel>>;

/// A kind of channel. `open` is collective over the mesh; null, on all ranks that the channel would
/// connect, if it can't carry such messages.
struct ChannelKind {
  const char* name;
  std::unique_ptr<Channel> (*open)(const ChannelRequest& request);
};

/// The kinds of channels in order of preference, the one list of them. A test may add its own.
std::vector<ChannelKind>& channel_kinds();

/// The channels of a new plan: those of all kinds, or the wanted one and MPI, as far as they are
/// needed to serve every peer. Collective over the mesh.
Channels open_channels(const ChannelRequest& request);

}  // namespace shard::impl

#endif
