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
  /// two neighbours in each dimension that is cut, and half as many messages or fewer. The values
  /// are the same bit for bit; where folds and constants stand in each other's way, so that they
  /// wouldn't be, it is one_per_peer, and the log says so. `start` then waits for the neighbours'
  /// `start`, for all dimensions but the last. The transpose goes the direct way: sums that travel
  /// would be added in another order, and have other bits.
  by_dimension,
  /// As many boxes to a message as Tuning::message_bytes holds, a larger one in a message of its
  /// own: MPI sends small messages without asking whether their receiver is ready, and several of
  /// them may be faster than one that is just too large for that.
  by_size,
};

/// How a plan is to move what it moves. The same on every rank, as all arguments of a plan.
struct Tuning {
  /// Asks the plan to try what there is, on its own boxes when it is made, and to keep the fastest.
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
  /// Bytes: where at least so many lie one after the other in both fields, and the owner's field
  /// lies in shared memory, a halo is read straight from there; shorter runs are packed.
  std::size_t direct_run = 128;
  /// The same for the transpose, which reads halos and sets them to zero; none: as direct_run, and
  /// `measure` tries that, 16, 1, and to read none directly, which must be faster by a tenth: what
  /// is packed finds its buffers in the caches when plans are tried, and not when a model runs.
  std::optional<std::size_t> adjoint_direct_run = std::nullopt;
  /// Of the transpose: halos that are taken directly, and lie in one piece each, are set to zero
  /// when all have been added, and not each line with its addition. It depends on the processor
  /// which is faster; `measure` tries both.
  bool adjoint_clear_last = false;
  /// Bytes: where the transpose takes no more than this from its peers, all in whole pieces and
  /// each set to zero as it is read, that is copied away first; the peers are told, and it is added
  /// after that. 16 KiB at most, which `measure` tries; 0: never.
  std::size_t adjoint_collect = 4096;
  /// Bytes: where the transpose takes no more than this from its peers in all, it reads 2 KiB and
  /// sets them to zero before it adds them; where it takes more, it does all three line of memory
  /// by line. It depends on caches and on addresses which is faster; `measure` tries both. Along an
  /// axis that a rank has alone it adds 2 KiB of pieces and sets them to zero after that, or does
  /// both line by line, likewise.
  std::size_t adjoint_hold = std::size_t{1} << 19U;
  /// Of the transpose: halos that are taken directly, and lie in one piece each, are asked for some
  /// lines of memory ahead; otherwise they are taken line by line, whatever `adjoint_hold` says,
  /// and what comes next is left to the processor. It depends on that, and on how much there is,
  /// which is faster; `measure` tries both.
  bool adjoint_asks_ahead = false;
  /// Short runs that are packed into shared memory are gathered in this core's cache first and
  /// written from there in whole lines of memory, not value by value. It depends on the processor
  /// which is faster while ranks share a cache; where they share none, this is. `measure` tries
  /// both.
  bool staged_packing = true;
  /// The same for the transpose, which sets to zero what it packs, and of rows of 1 KiB and more,
  /// which go in whole lines of memory straight from the field. Value by value it asks for lines
  /// ahead.
  bool adjoint_staged_packing = true;
  /// Bytes of a message of MessageLayout::by_size. OpenMPI asks from 4096 on, its own head
  /// included.
  std::size_t message_bytes = 4000;
  /// What MPI and NCCL carry: within shared memory it is one message per peer, but for
  /// by_dimension, which holds there too.
  MessageLayout messages = MessageLayout::one_per_peer;
  /// See `measure`; what else stands here narrows what is tried: a `transport` other than
  /// automatic, `messages` other than one_per_peer and an `adjoint_direct_run` are kept, and the
  /// rest is where the trials begin (those of the transpose's packing with that which won forward,
  /// if another did). The trial exchanges fill the fields' halos and leave owned cells as they are.
  /// What wins may be by_dimension, whose start waits for the neighbours' start.
  bool measured = false;
};

inline constexpr Tuning Tuning::measure{.measured = true};

/// A tuning in one line, to be kept in a file; tuning_from_text reads it.
std::string to_text(const Tuning& tuning);
/// Throws ArgumentError for a text that to_text doesn't write.
Tuning tuning_from_text(const std::string& text);

}  // namespace shard

#endif
