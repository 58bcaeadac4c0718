// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_TUNING_HPP
#define SHARD_EXCHANGE_TUNING_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace shard {

/// What carries a plan's messages.
enum class TransportKind : std::uint8_t {
  automatic,  ///< by rule: see Tuning::transport
  mpi,        ///< MPI for all
  nccl,       ///< NCCL (RCCL on HIP): fields in device memory only
};

/// How a plan's boxes are put into messages.
enum class MessageLayout : std::uint8_t {
  one_per_peer,   ///< all that goes to a rank in one message
  one_per_field,  ///< a message for each field
  one_per_box,    ///< a message for each box of each field: small ones may travel faster apart
  /// The halo of one dimension after the other: corners travel in several hops, so that a rank has
  /// two neighbours in each dimension that is sharded, and half as many messages or fewer. The
  /// values are the same bitwise; where folds and constants stand in each other's way, so that they
  /// wouldn't be, it is one_per_peer, and the log says so. `start` then waits for the neighbours'
  /// `start`, for all dimensions but the last. The transpose goes the direct way: sums that travel
  /// would be added in another order, and have other bits.
  by_dimension,
  /// Several boxes in a message of up to 4000 bytes, a larger box in a message of its own: MPI
  /// sends such messages without asking whether their receiver is ready (OpenMPI asks from 4096
  /// bytes on, its own head included).
  by_size,
};

namespace impl {
/// Bytes of a message of MessageLayout::by_size.
inline constexpr std::size_t short_message = 4000;
}  // namespace impl

/// How a plan is to move what it moves. The same on every rank, as all arguments of a plan.
struct Tuning {
  /// Asks the plan to time what there is, on its own boxes when it is made, and to keep the
  /// fastest.
  static const Tuning measure;

  /// The rule of `automatic`, for fields in host memory: shared memory within a node where it can
  /// be had, MPI for the rest. For fields in device memory: NCCL (RCCL) where it was built in and
  /// a communicator can be made on all ranks, else MPI, with device memory as it is where MPI
  /// takes it and by way of pinned host memory elsewhere. Where NCCL is asked for and can't be had,
  /// MPI carries all, and a line of the log says why; asked for fields in host memory it is an
  /// ArgumentError on every rank. `SHARD_TRANSPORT` in the environment (of all ranks) stands in for
  /// `automatic`: mpi, or nccl for fields in device memory.
  TransportKind transport = TransportKind::automatic;
  /// Whether MPI is given device memory as it is: comes before `SHARD_GPU_AWARE` and before what
  /// the MPI says of itself. Of no consequence for fields in host memory.
  std::optional<bool> mpi_takes_device_memory = std::nullopt;
  /// Bytes. Where the owner's field is in shared memory, a halo whose contiguous runs are this long
  /// is read straight from there, and the transpose adds it straight from there; shorter runs are
  /// packed.
  std::size_t direct_run = 128;
  /// What MPI and NCCL carry: within shared memory it is one message per peer, but for
  /// by_dimension, which holds there too.
  MessageLayout messages = MessageLayout::one_per_peer;
  /// Time the candidates when the plan is made and keep the fastest. A `transport` other than
  /// automatic and `messages` other than one_per_peer are not varied. The trial exchanges fill the
  /// fields' halos and leave owned cells as they are. What wins may be by_dimension, whose start
  /// waits for the neighbours' start.
  bool measured = false;
};

inline constexpr Tuning Tuning::measure{.measured = true};

/// A tuning in one line, to be kept in a file; tuning_from_text reads it.
std::string to_text(const Tuning& tuning);
/// Throws ArgumentError for a text that to_text doesn't write.
Tuning tuning_from_text(const std::string& text);

}  // namespace shard

#endif
