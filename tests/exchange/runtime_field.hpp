// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_EXCHANGE_RUNTIME_FIELD_HPP
#define SHARD_TESTS_EXCHANGE_RUNTIME_FIELD_HPP

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shard/exchange/impl/field_plan.hpp"
#include "shard/comm/impl/shared_pool.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::testing {

/// What a field's type and constructor say, at run time: so that tests range over boundaries,
/// widths, ranks, layouts and value types without a template instance for each.
struct FieldDescription {
  impl::ValueKind kind = impl::ValueKind::f64;
  int value_size       = 8;
  bool left            = false;
  std::vector<impl::DimType> dims;
  std::vector<Partition> partitions;

  int rank() const { return static_cast<int>(dims.size()); }
  std::string words() const;
};

using Index = std::array<index_t, impl::max_rank>;

/// A field in host memory, made from a description as ShardedView makes it from its type, and an
/// oracle that knows for every cell of every rank where its value comes from: from image_of, the
/// partitions and the mesh alone.
class RuntimeField {
 public:
  RuntimeField(const std::shared_ptr<impl::MeshState>& mesh, const FieldDescription& description,
               int padding);

  const FieldDescription& description() const { return description_; }
  impl::FieldSpec spec() const;
  void* origin() { return data_ + first_; }
  /// Moves the cells to memory that the node shares, if `here` and there is room. Collective.
  void share(bool here);

  /// Where a cell's value comes from.
  struct Source {
    int owner     = 0;   ///< rank that owns the source
    Index global  = {};  ///< the source
    bool negative = false;
    bool given    = false;  ///< the exchange leaves it to the caller
    std::optional<double> constant;
  };
  /// Source of the cell at local indices `cell` of rank `rank`.
  Source source(int rank, const Index& cell) const;
  /// Visits the cells of a rank, the halo's too: local indices, and whether it is an owned cell
  /// that is no copy of another.
  void for_cells(int rank, const std::function<void(const Index&, bool owned)>& visit) const;

  /// A whole number that the value type holds exactly: for every cell of every rank, halo cells
  /// too.
  std::int64_t number(std::uint64_t salt, int rank, const Index& cell) const;
  /// The same for a global index: what the owner has there.
  std::int64_t owned_number(std::uint64_t salt, const Index& global) const;

  double get(const Index& cell) const;
  void set(const Index& cell, double value);
  /// What the field has at the cell after `value` was stored there: rounded, or cut to its bits.
  double as_stored(double value) const;

  index_t begin(int d, int rank) const;
  index_t count(int d, int rank) const;

 private:
  int coordinate(int d, int rank) const;
  std::optional<Index> original(const Index& global, bool& negative) const;
  std::size_t offset(const Index& cell) const;

  std::shared_ptr<impl::MeshState> mesh_;
  FieldDescription description_;
  impl::Geometry geometry_;
  std::array<index_t, impl::max_rank> stride_{};
  std::vector<std::byte> bytes_;
  impl::SharedPiece piece_;
  std::byte* data_   = nullptr;
  std::size_t first_ = 0;
  std::vector<std::vector<int>> places_;  // coordinates of each rank
};

/// Failures of an exchange of these fields against the oracle, forward and transposed; empty if
/// there are none. The salt says how it is done too; `used` is the layout of the messages that the
/// plan had. Collective.
std::string check_exchange(const std::shared_ptr<impl::MeshState>& mesh,
                           const std::vector<FieldDescription>& descriptions, std::uint64_t salt,
                           MessageLayout* used = nullptr);

}  // namespace shard::testing

#endif
