// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_PARTITION_HPP
#define SHARD_VIEW_PARTITION_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/base/types.hpp"

namespace shard {

class Partition;

namespace impl {
struct IndexHalo;
struct BlockSpace;
struct PartitionSpace;
/// The partition of an index space (an IndexHalo) or of blocks (a BlockSpace).
Partition with_space(Partition partition, std::shared_ptr<const PartitionSpace> space);
}  // namespace impl

/// Ownership along one dimension: part r owns the global indices [begin(r), end(r)), possibly none.
/// A host value, cheap to copy: begins with a closed form are not stored. `parts()` is the number
/// of ranks along the mesh axes that shard the dimension, 1 if none does.
class Partition {
 public:
  /// Empty: a field then uses the balanced partition of its extent.
  Partition() = default;

  /// The first `size mod parts` parts own one index more than the others.
  static Partition balanced(index_t size, int parts);
  /// One part, of a dimension that isn't sharded.
  static Partition whole(index_t size) { return balanced(size, 1); }
  /// Every part owns ceil(size / parts) indices, the last ones fewer or none (XLA, DTensor,
  /// torch.chunk).
  static Partition ceil(index_t size, int parts);
  /// Part r owns [begins[r], begins[r + 1]). Throws ArgumentError unless the list begins with 0,
  /// has at least two entries and never falls.
  static Partition explicit_begins(std::vector<index_t> begins);
  /// Part r owns counts[r] indices. Throws ArgumentError for a negative count or an empty list.
  static Partition explicit_counts(const std::vector<index_t>& counts);

  /// The partition of the N + 1 points between and around N cells. The additional point belongs to
  /// the last part that owns any (to part 0 if none does). In a Periodic dimension the last point
  /// is the first one again; use the cells' own partition.
  Partition staggered() const;
  /// The natural partition of the `size` outputs of a window with `stride`: begins min(size, ceil(b
  /// / stride)), the last end `size`.
  Partition coarsened(index_t stride, index_t size) const;
  /// The natural partition of the outputs of a transposed window with `stride`: begins clamp(b *
  /// stride, 0, size), the last end `size`.
  Partition refined(index_t stride, index_t size) const;

  /// Whether this is empty.
  bool empty() const { return parts_ == 0; }
  /// Number of parts.
  int parts() const { return parts_; }
  /// Number of indices, all parts together.
  index_t size() const { return size_; }
  /// First index of part r, 0 <= r <= parts(); begin(parts()) is size().
  index_t begin(int r) const;
  /// One past the last index of part r.
  index_t end(int r) const { return begin(r + 1); }
  /// Number of indices of part r.
  index_t count(int r) const { return end(r) - begin(r); }
  /// The part that owns index g, 0 <= g < size().
  int owner(index_t g) const;
  /// The first part whose end is larger than g; parts() if there is none. (Parts may be empty.)
  int first_ending_after(index_t g) const;

  /// Whether both give every part the same indices, of the same index space or blocks.
  friend bool operator==(const Partition& a, const Partition& b);

  /// The partition as text, for messages: "balanced 721 over 4".
  std::string describe() const;
  /// Equal for partitions that were made the same way; used in geometry keys.
  std::uint64_t hash(std::uint64_t seed) const;

  /// For the library's own use: whether both are of the same index space or blocks, or of none.
  bool same_space(const Partition& other) const;
  /// For the library's own use: the halo of an index space; null for other partitions.
  const impl::IndexHalo* index_halo() const;
  /// The same of blocks.
  const impl::BlockSpace* block_space() const;

 private:
  friend Partition impl::with_space(Partition, std::shared_ptr<const impl::PartitionSpace>);
  enum class Kind : std::uint8_t { balanced, ceil, listed };
  enum class Derivation : std::uint8_t { staggered, coarsened, refined };
  struct Step {
    Derivation how;
    index_t stride;
    index_t size;
    friend bool operator==(const Step&, const Step&) = default;
  };

  Partition with(Step step) const;
  bool same_steps(const Partition& other) const;
  const std::vector<Step>& steps() const;
  void rehash();

  Kind kind_         = Kind::balanced;
  int parts_         = 0;
  index_t base_size_ = 0;  // of the partition that the steps start from
  index_t size_      = 0;
  std::shared_ptr<const std::vector<index_t>> begins_;
  // one per level, not per rank; shared, so that copies allocate nothing
  std::shared_ptr<const std::vector<Step>> steps_;
  std::shared_ptr<const impl::PartitionSpace> space_;
  std::uint64_t hash_ = 0;  // of all of the above, so that keys don't walk a list
};

}  // namespace shard

#endif
