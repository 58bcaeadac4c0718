// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_TRANSFER_TABLES_HPP
#define SHARD_SRC_EXCHANGE_TRANSFER_TABLES_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "job_builder.hpp"
#include "transfer.hpp"

namespace shard::impl {

/// Entries of the address table of a transfer.
struct TransferEntries {
  int fields = 0;
  int read(int field) const { return field; }
  int written(int field) const { return fields + field; }
  int buffer() const { return 2 * fields; }
  int constants() const { return 2 * fields + 1; }
};
static_assert(2 * max_transfer_fields + 2 <= Addresses::most);

/// A message of a step: where it is, and its bytes.
struct PlacedMessage {
  int peer = 0, entry = 0;
  index_t first = 0, bytes = 0;
  bool in_place = false, repeats = false;  // repeats: its bytes are those of an earlier one
};

/// What the tables depend on in one call's Views of a field: their strides in values, and
/// `distance`, the bytes from the written to the read View, if their memory overlaps.
struct TransferStrides {
  static constexpr index_t apart = std::numeric_limits<index_t>::min();

  Strides read{}, written{};
  index_t distance                                                       = apart;
  friend bool operator==(const TransferStrides&, const TransferStrides&) = default;
};

/// The index of the first element that a step reads of a piece.
inline const std::array<index_t, max_rank>& read_begin(const TransferStep& s, const Piece& p) {
  return s.combines ? p.target : p.source;
}

/// The tables of all steps of a plan for Views of these strides. The memory that is read and the
/// memory that is written are apart, or overlap in one way.
template <class Memory>
struct TransferTables {
  struct Step {
    CopyJobs pack, local, unpack;
    std::array<SumJobs, max_transfer_fields> sums;
    std::vector<PlacedMessage> sends, receives;
  };
  TransferTables(const std::vector<TransferStep>& of,
                 const std::array<TransferStrides, max_transfer_fields>& fields, int count,
                 bool staged, index_t limit);
  /// Enters the addresses of one call.
  void enter(const TransferField* fields, std::byte* messages);

  std::array<TransferStrides, max_transfer_fields> made_for;
  std::vector<Step> steps;
  std::size_t buffer = 0, requests = 0;
  const std::byte* constants = nullptr;
  Kokkos::View<const std::byte*, Memory> tables;
  Addresses addresses;

 private:
  struct Lists {
    CopyJobList pack, local, unpack;
    std::array<SumJobList, max_transfer_fields> sums;
  };

  Elements read(const TransferStep& s, const Piece& p) const;
  Elements written(const TransferStep& s, const Piece& p) const;
  /// Whether a step might read an element after it was overwritten. It can't if the Views are
  /// apart. It can't either if every element that the step keeps stays where it is, and the step
  /// sends nothing from memory that it receives in.
  bool crosses(const TransferStep& s, int f) const;
  void build(const TransferStep& s, Step& step, Lists& lists);

  TransferEntries entries_;
  bool staged_;
  std::array<bool, max_transfer_fields> crosses_{};
};

}  // namespace shard::impl

#endif
