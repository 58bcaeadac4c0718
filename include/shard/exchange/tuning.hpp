// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_TUNING_HPP
#define SHARD_EXCHANGE_TUNING_HPP

#include <cstddef>
#include <cstdint>
#include <string>

namespace shard {

/// What carries a plan's messages.
enum class TransportKind : std::uint8_t {
  automatic,  ///< shared memory within a node where it can be had, MPI for the rest
  mpi,        ///< MPI for all
};

/// How a plan's boxes are put into messages.
enum class MessageLayout : std::uint8_t {
  one_per_peer,  ///< all that goes to a rank in one message
  one_per_box,   ///< a message for each box of each field: small ones may travel faster apart
};

/// How a plan is to move what it moves. The same on every rank, as all arguments of a plan.
struct Tuning {
  /// Asks the plan to try what there is, on its own boxes when it is made, and to keep the fastest.
  static const Tuning measure;

  /// `SHARD_TRANSPORT=mpi` in the environment (of all ranks) stands in for `automatic`.
  TransportKind transport = TransportKind::automatic;
  /// Bytes: where at least so many lie one after the other in both fields, and the owner's field
  /// lies in shared memory, a halo is read straight from there; shorter runs are packed.
  std::size_t direct_run = 128;
  /// What MPI carries; within shared memory it is one message per peer always.
  MessageLayout messages = MessageLayout::one_per_peer;
  /// See `measure`; what else stands here narrows what is tried: with `transport` mpi only its
  /// message layouts are. The trial exchanges fill the fields' halos.
  bool measured = false;
};

inline constexpr Tuning Tuning::measure{.measured = true};

/// A tuning in one line, to be kept in a file; tuning_from_text reads it.
std::string to_text(const Tuning& tuning);
/// Throws ArgumentError for a text that to_text doesn't write.
Tuning tuning_from_text(const std::string& text);

}  // namespace shard

#endif
