// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_COUPLING_HPP
#define SHARD_REDISTRIBUTE_COUPLING_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"

/// \file
/// Couplings move fields between two meshes: of the same ranks in another shape (dynamics and
/// physics), or of other ranks (an atmosphere and an ocean, a model and its writers).

namespace shard {

/// Copies the owned points of `From` fields on one mesh to `To` fields of the same global extents
/// on another. Either is a field or a set of fields, one of each for each pair. The meshes may have
/// the same ranks, some in common, or none; a rank that isn't on one side gives nullptr for it. Any
/// partitions, empty shards too, layouts and halo widths; replicated on either side. The fields'
/// value types are the same.
///
/// Each rank finds what it shares with the other side from both sides' partitions, which travel
/// once, and sends one message to each rank that it shares points with. The fields' handles are
/// copied; they keep their memory alive.
///
/// \code
/// shard::Coupling<Surface, Surface> coupling(comm, is_ocean ? &sst_here : nullptr,
///                                            is_atmosphere ? &sst_there : nullptr);
/// coupling(space);                              // all ranks of both sides together, or
/// if (is_atmosphere) coupling.send(space);      // each side when it comes there
/// if (is_ocean) coupling.receive(space);
/// \endcode
template <FieldOrSet To, FieldOrSet From>
class Coupling {
  using ToField   = impl::FieldOf<To>;
  using FromField = impl::FieldOf<From>;
  using Memory    = impl::PlanMemory<ToField>;
  static_assert(std::is_same_v<Memory, impl::PlanMemory<FromField>>,
                "a Coupling is between fields that are all in host memory or all on the device");
  static_assert(ToField::rank == FromField::rank &&
                    std::is_same_v<typename ToField::non_const_value_type,
                                   typename FromField::non_const_value_type>,
                "a Coupling is between fields of the same rank and value type");
  static_assert(!std::is_const_v<typename ToField::value_type>,
                "a Coupling writes its first fields: they need a value type that isn't const");

 public:
  /// An empty coupling, to be assigned later. Any use throws ArgumentError.
  Coupling() = default;
  /// Collective over `comm`, which has all ranks of both meshes. Throws, on every rank:
  /// ArgumentError if the sides differ in extents or in the number of fields, a side has no rank,
  /// or `comm` lacks a rank of a mesh; AgreementError if the ranks of a side give different fields.
  Coupling(MPI_Comm comm, const To* to, const From* from, const Tuning& tuning = {})
      : to_(fields_of(to)),
        from_(fields_of(from)),
        is_to_(to != nullptr),
        is_from_(from != nullptr) {
    const auto args = [](const auto& fields) {
      std::vector<impl::FieldArgs> all;
      for (const auto& field : fields) all.push_back(impl::field_args(field));
      return all;
    };
    plan_ =
        impl::CouplingPlan<Memory>::make(comm, is_to_, args(to_), is_from_, args(from_), tuning);
  }

  /// Moves the fields: `send` and `receive` on every rank. Waits for the ranks that it shares
  /// points with.
  template <class Space>
  void operator()(const Space& space) {
    plan();
    if (is_from_) send(space);
    if (is_to_) receive(space);
  }
  /// Packs and sends this rank's part of the `From` fields, which may change afterwards (on a rank
  /// on both sides: after `receive`). If the previous message has not been received, it waits for
  /// that. Does not wait for this one. Throws ArgumentError on a rank that isn't on that side.
  template <class Space>
  void send(const Space& space) {
    plan().send(space, addresses(to_).data(), addresses(from_).data());
  }
  /// Waits for the messages of one `send` and writes the `To` fields. A rank on both sides calls
  /// `send` first. Errors as `send`.
  template <class Space>
  void receive(const Space& space) {
    plan().receive(space, addresses(to_).data(), addresses(from_).data());
    for (const ToField& field : to_) mark_written(space, field);
  }
  /// The transpose of a coupling of cotangents: adds what each point of the `To` fields holds to
  /// the point of the `From` fields that it is a copy of. Where `From` is replicated, the
  /// contributions of several receivers are on the replica that sent to them: the cotangent is a
  /// Partial sum over the replicas. Collective over the ranks of both sides.
  template <class Space>
  void adjoint(const Space& space) {
    static_assert(impl::can_add_v<FromField>,
                  "the adjoint of a coupling adds: it needs arithmetic value types");
    plan().adjoint(space, addresses(to_).data(), addresses(from_).data());
  }

  /// Messages that this rank sends and receives in one run.
  int sends() const { return plan().sends(); }
  int receives() const { return plan().receives(); }  ///< as above

 private:
  template <class Fields>
  static std::vector<impl::FieldOf<Fields>> fields_of(const Fields* fields) {
    std::vector<impl::FieldOf<Fields>> list;
    if (fields != nullptr)
      impl::each_field([&](const auto& field) { list.push_back(field); }, *fields);
    return list;
  }
  template <class Fields>
  static std::vector<void*> addresses(const Fields& fields) {
    std::vector<void*> list;
    for (const auto& field : fields) list.push_back(impl::AddressOf()(field));
    return list;
  }
  impl::CouplingPlan<Memory>& plan() const {
    if (!plan_) impl::throw_no_coupling();
    return *plan_;
  }

  std::vector<ToField> to_;
  std::vector<FromField> from_;
  bool is_to_ = false, is_from_ = false;
  std::unique_ptr<impl::CouplingPlan<Memory>> plan_;
};

}  // namespace shard

#endif
