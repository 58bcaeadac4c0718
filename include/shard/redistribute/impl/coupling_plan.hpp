// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_IMPL_COUPLING_PLAN_HPP
#define SHARD_REDISTRIBUTE_IMPL_COUPLING_PLAN_HPP

#include <mpi.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "shard/exchange/impl/field_plan.hpp"
#include "shard/exchange/impl/route.hpp"

namespace shard::impl {

/// Throws ArgumentError: a default-constructed Coupling was used.
[[noreturn]] void throw_no_coupling();

/// Throws ArgumentError unless a field can be in the place of another one of a coupling: the same
/// mesh, partitions and strides, and no message of the other one under way (`is_in_use`).
void require_in_place(const FieldArgs& other, const FieldArgs& field, bool is_in_use);

/// What a coupling is made of: this rank's fields of each side, if it is on it.
struct CouplingRequest {
  const char* function = "Coupling";
  bool is_to = false, is_from = false;
  std::vector<FieldArgs> to{}, from{};
  std::vector<int> permute{};  ///< dimension d of `to` is permute[d] of `from`; empty: the same
  bool adds          = false;  ///< adds to the fields `to`; always if `from` is Partial
  bool in_halves     = false;  ///< `send`, `receive` and `adjoint` will be called, not `run`
  bool sums_replicas = false;  ///< in it every replica of `from` gets the sum over all of `to`
  Tuning tuning{};
};

/// The plan of a coupling, type-erased: a route between two meshes.
/// \tparam Memory as of FieldPlan
template <class Memory>
class CouplingPlan : public CachedPlan {
 public:
  /// On a mesh of its own with the ranks of both sides. Its messages are packed, so that the fields
  /// may change when they have been sent, and never go by NCCL, so that `send` and `receive` of
  /// several couplings may be called in any order. Collective over `comm`.
  static std::unique_ptr<CouplingPlan> make(MPI_Comm comm, const CouplingRequest& request);
  /// For fields on meshes of the same ranks: kept in the mesh of `to`. Collective over the ranks.
  /// Throws ArgumentError on every rank if the ranks aren't the same.
  static std::shared_ptr<CouplingPlan> find(const CouplingRequest& request);
  ~CouplingPlan() override;

  /// Addresses of the first owned points; of a side that the rank isn't on, none.
  template <class Space>
  void send(const Space& space, void* const* to, void* const* from);
  template <class Space>
  void start_receive(const Space& space, void* const* to, void* const* from);
  template <class Space>
  void receive(const Space& space, void* const* to, void* const* from);
  template <class Space>
  void finish(const Space& space);
  template <class Space>
  void adjoint(const Space& space, void* const* to, void* const* from);
  /// Both sides together. If `adds()`, it adds to the fields `to`.
  template <class Space>
  void run(const Space& space, void* const* to, void* const* from);

  bool adds() const { return adds_; }
  bool is_under_way() const { return wait_ != nullptr; }
  int sends() const;
  int receives() const;
  std::size_t bytes() const override;
  bool may_end() override;

 private:
  CouplingPlan() = default;
  void build(MeshState& mesh, const CouplingRequest& request);
  /// Both sides' addresses, null where this rank isn't on a side.
  FieldAddresses addresses(void* const* to, void* const* from) const;
  template <class Space>
  void start(const Space& space, void* const* to, void* const* from);
  Direction forward() const { return adds_ ? Direction::adjoint : Direction::forward; }
  /// Throws ArgumentError: what was called when, and what to call before.
  [[noreturn]] void refuse(const char* function, const std::string& why) const;

  std::shared_ptr<MeshState> own_mesh_;  // of a coupling that no mesh keeps
  std::shared_ptr<Plan<Memory>> plan_;
  std::shared_ptr<Plan<Memory>> transpose_;  // where the transpose isn't plan_ run backwards
  Route route_;                              // runs backwards if it adds
  std::vector<std::array<index_t, max_rank>> strides_;  // of each field: read, written
  bool is_to_ = false, is_from_ = false, adds_ = false;
  std::vector<void*> nothing_;
  StartedExchange started_;
  void (*wait_)(CouplingPlan&) = nullptr;  // finishes the message under way, for the destructor
};

}  // namespace shard::impl

#endif
