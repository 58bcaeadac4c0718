// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_PARTITION_SPEC_HPP
#define SHARD_MESH_PARTITION_SPEC_HPP

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace shard {

/// The entry of a dimension that nothing shards.
struct None {
  /// There is one None.
  friend constexpr bool operator==(None, None) { return true; }
};
/// The entry of a dimension that nothing shards: `PartitionSpec{0, none}`.
inline constexpr None none{};

/// One mesh axis in a PartitionSpec: its position in the mesh's shape, or its name. Floating-point
/// numbers, bool and characters are no axes and do not compile.
class SpecAxis {
 public:
  /// By position.
  template <std::integral I>
  requires(!std::is_same_v<I, bool> && !std::is_same_v<I, char>) SpecAxis(I index)
      : index_(std::in_range<int>(index) ? static_cast<int>(index) : -1) {}
  /// By name.
  SpecAxis(const char* name) : name_(name), named_(true) {}
  /// By name.
  SpecAxis(std::string_view name) : name_(name), named_(true) {}
  /// By name.
  SpecAxis(std::string name) : name_(std::move(name)), named_(true) {}
  SpecAxis(std::nullptr_t) = delete;

  /// Whether it is a name.
  bool named() const { return named_; }
  /// The name; empty for a position.
  const std::string& name() const { return name_; }
  /// The position; 0 for a name.
  int index() const { return index_; }

  /// Whether both are the same position or the same name.
  friend bool operator==(const SpecAxis&, const SpecAxis&) = default;

 private:
  std::string name_;
  int index_  = 0;
  bool named_ = false;
};

/// The axes that shard one dimension: none (`none` or `{}`), one mesh axis (`0`, `"lat"`) or
/// several (`{0, 1}`, `{"lat", 2}`), the first the slowest. A tuple of one axis is that axis.
/// Tuples don't nest.
class SpecEntry {
 public:
  /// Nothing.
  SpecEntry() = default;
  /// Nothing.
  SpecEntry(None) {}
  /// One axis.
  template <class Axis>
  requires(std::convertible_to<Axis, SpecAxis>) SpecEntry(Axis&& axis)
      : axes_(1, SpecAxis(std::forward<Axis>(axis))) {}
  /// Several axes.
  SpecEntry(std::initializer_list<SpecAxis> axes) : axes_(axes) {}
  /// Several axes.
  explicit SpecEntry(std::vector<SpecAxis> axes) : axes_(std::move(axes)) {}

  /// The axes, none if nothing shards the dimension.
  const std::vector<SpecAxis>& axes() const { return axes_; }
  /// Whether nothing shards the dimension.
  bool is_none() const { return axes_.empty(); }

  /// Whether both name the same axes in the same way.
  friend bool operator==(const SpecEntry&, const SpecEntry&) = default;

 private:
  std::vector<SpecAxis> axes_;
};

/// How a tensor is sharded over a LogicalMesh, as a value: one entry per dimension of the tensor.
/// `PartitionSpec{"lat", none, {0, 1}}`. Without entries it is for a tensor of rank 0.
/// LogicalMesh::get_op_sharding checks it against the mesh.
class PartitionSpec {
 public:
  /// Of a tensor of rank 0.
  PartitionSpec() = default;
  /// One entry per dimension.
  PartitionSpec(std::initializer_list<SpecEntry> entries) : entries_(entries) {}
  /// One entry per dimension.
  explicit PartitionSpec(std::vector<SpecEntry> entries) : entries_(std::move(entries)) {}

  /// Number of dimensions.
  int rank() const { return static_cast<int>(entries_.size()); }
  /// The entry of dimension d.
  const SpecEntry& operator[](int d) const { return entries_[static_cast<std::size_t>(d)]; }
  /// All entries.
  const std::vector<SpecEntry>& entries() const { return entries_; }

  /// The spec as text: `(0, None, ('lat', 1))`.
  std::string text() const;
  /// Parses the format of text(). An entry is None (or null, or none), an integer, a name (with
  /// quotes or without) or a tuple of those, in round or square brackets. Throws ArgumentError for
  /// anything else: a tuple within a tuple, None within a tuple, a number that is no integer, True
  /// and False, a bracket that isn't closed.
  static PartitionSpec from_text(std::string_view words);

  /// Whether both have the same entries.
  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;

 private:
  std::vector<SpecEntry> entries_;
};

namespace impl {

/// A checked spec whose axes are positions.
struct ResolvedSpec {
  std::vector<int> axes;    // those of all entries, in order
  std::vector<int> counts;  // how many of them each entry has; 0: none

  friend auto operator<=>(const ResolvedSpec&, const ResolvedSpec&) = default;
};

/// Positions for names, and every check of the spec against a mesh of this many axes with these
/// names (none: without names). Throws ArgumentError.
ResolvedSpec resolve(const PartitionSpec& spec, int mesh_rank,
                     const std::vector<std::string>& names);

}  // namespace impl
}  // namespace shard

#endif
