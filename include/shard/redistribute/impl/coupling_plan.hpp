// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_IMPL_COUPLING_PLAN_HPP
#define SHARD_REDISTRIBUTE_IMPL_COUPLING_PLAN_HPP

#include <mpi.h>

#include <memory>
#include <vector>

#include "shard/exchange/impl/field_plan.hpp"

namespace shard::impl {

/// Throws ArgumentError: a default-constructed Coupling was used.
[[noreturn]] void throw_no_coupling();

/// The plan of a coupling, type-erased: a route between two meshes, on a mesh of its own that has
/// the ranks of both. \tparam Memory as of FieldPlan
template <class Memory>
class CouplingPlan {
 public:
  /// Collective over `comm`. `to` and `from`: this rank's fields of each side, if it is on it.
  static std::unique_ptr<CouplingPlan> make(MPI_Comm comm, bool is_to,
                                            const std::vector<FieldArgs>& to, bool is_from,
                                            const std::vector<FieldArgs>& from,
                                            const Tuning& tuning);
  ~CouplingPlan();
  CouplingPlan(const CouplingPlan&)            = delete;
  CouplingPlan& operator=(const CouplingPlan&) = delete;

  /// Addresses of the first owned points; of a side that the rank isn't on, none.
  template <class Space>
  void send(const Space& space, void* const* to, void* const* from);
  template <class Space>
  void receive(const Space& space, void* const* to, void* const* from);
  template <class Space>
  void adjoint(const Space& space, void* const* to, void* const* from);
  int sends() const;
  int receives() const;

 private:
  CouplingPlan() = default;
  /// Both sides' addresses, null where this rank isn't on a side.
  FieldAddresses addresses(void* const* to, void* const* from) const;
  template <class Space>
  void finish(const Space& space);

  std::shared_ptr<MeshState> mesh_;
  std::shared_ptr<Plan<Memory>> plan_;
  bool is_to_ = false, is_from_ = false;
  std::vector<void*> nothing_;
  Flight flight_;
  void (*wait_)(CouplingPlan&) =
      nullptr;  // finishes the message under way, in the space that sent it
};

}  // namespace shard::impl

#endif
