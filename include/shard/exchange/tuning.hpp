// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_TUNING_HPP
#define SHARD_EXCHANGE_TUNING_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace shard {

/// The transport of a plan's messages.
enum class TransportKind : std::uint8_t {
  automatic,  ///< default: see Tuning::transport
  mpi,        ///< MPI for all
  nccl,       ///< NCCL (RCCL on HIP): fields in device memory only
};

/// How a plan groups its boxes into messages.
enum class MessageLayout : std::uint8_t {
  one_per_peer,   ///< one message for each rank
  one_per_field,  ///< a message for each field
  one_per_box,    ///< a message for each box of each field
  /// The halo of one dimension after the other. Corners travel in several hops, so a rank has two
  /// neighbours in each sharded dimension, and at most half as many messages. The result is bitwise
  /// the same; if folds and constants would change it, one_per_peer is used, and the log says so.
  /// `start` waits for the neighbours' `start` in all dimensions but the last. The transpose uses
  /// one_per_peer, so that the order of additions doesn't change.
  by_dimension,
  /// Several boxes in a message of up to 4000 bytes; a larger box is a message of its own. Such
  /// messages use MPI's eager protocol (OpenMPI's limit is 4096 bytes with its header).
  by_size,
  /// One message for each pair of hosts: the ranks of a host join theirs in memory that they share,
  /// if all messages of the plan to other hosts have at most 2048 bytes. A rank's exchange may need
  /// calls of another rank of its host. Otherwise as one_per_peer.
  one_per_host,
};

namespace impl {
/// Bytes of a message of MessageLayout::by_size.
inline constexpr std::size_t short_message = 4000;
}  // namespace impl

/// Options of a plan. They must be the same on every rank.
struct Tuning {
  /// Times the candidates when the plan is made, and keeps the fastest.
  static const Tuning measure;

  /// `automatic` uses, for fields in host memory, shared memory within a node if available, and MPI
  /// for the rest. For fields in device memory it uses NCCL (RCCL) if it was built in and all ranks
  /// can make a communicator, else MPI, direct if MPI is GPU-aware, staged in pinned host memory if
  /// not. If `nccl` is requested and unavailable, MPI is used, and the log says why; for fields in
  /// host memory `nccl` is an ArgumentError on every rank. `SHARD_TRANSPORT` in the environment (of
  /// all ranks) replaces `automatic`: mpi, or nccl for fields in device memory.
  TransportKind transport = TransportKind::automatic;
  /// Whether MPI is GPU-aware. Overrules `SHARD_GPU_AWARE` and the MPI's own answer. Ignored for
  /// fields in host memory.
  std::optional<bool> mpi_takes_device_memory = std::nullopt;
  /// In bytes. If the owner's field is in shared memory, a halo whose contiguous runs are at least
  /// this long is read directly from it, and the transpose adds directly from it. Shorter runs are
  /// packed.
  std::size_t direct_run = 128;
  /// The layout of MPI and NCCL messages. In shared memory only by_dimension differs from the
  /// default.
  MessageLayout messages = MessageLayout::one_per_peer;
  /// In bytes. A longer message of MPI goes in parts of this size, rounded down to a multiple
  /// of 16. 0: the library chooses 32000 for messages to other hosts if a host of the mesh has no
  /// RDMA device, because over TCP such a part leaves at once; it chooses whole messages otherwise.
  std::size_t message_part = 0;
  /// Time the candidates when the plan is made and keep the fastest. A `transport` other than
  /// automatic and `messages` other than one_per_peer are not varied. The trial exchanges fill the
  /// fields' halos and don't change owned points. The fastest may be by_dimension, whose start
  /// waits for the neighbours' start.
  bool measured = false;
};

inline constexpr Tuning Tuning::measure{.measured = true};

/// A tuning as one line of text, for a file; tuning_from_text reads it.
std::string to_text(const Tuning& tuning);
/// Throws ArgumentError for any other text.
Tuning tuning_from_text(const std::string& text);

}  // namespace shard

#endif
