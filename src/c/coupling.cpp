// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <memory>
#include <string>
#include <vector>

#include "handles.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"

namespace shard::c {

template <class Memory>
using Coupled = std::unique_ptr<impl::CouplingPlan<Memory>>;

}  // namespace shard::c

struct shard_coupling_s : shard::c::Counted {
  std::vector<shard_field> to, from;  // retained
  shard::c::OfMemory<shard::c::Coupled> plan;

  shard_coupling_s() = default;
  ~shard_coupling_s() {
    for (auto* side : {&to, &from})
      for (shard_field& field : *side) shard_field_release(&field);
  }
  static std::vector<void*> addresses(const std::vector<shard_field>& side) {
    std::vector<void*> of;
    for (const shard_field field : side) of.push_back(field->origin);
    return of;
  }
};

namespace {

/// Retains the fields of a side; returns what is wrong with them, "" if nothing is.
std::string take(int count, const shard_field* fields, std::vector<shard_field>& side) {
  if (count < 0) return shard::impl::text(count) + " fields";
  if (count > 0 && fields == nullptr) return "the list of fields is null";
  for (int f = 0; f < count; ++f) {
    if (fields[f] == nullptr) return "a field is null";
    shard_field_retain(fields[f]);
    side.push_back(fields[f]);
  }
  return "";
}

/// Calls use(plan, space, addresses of both sides).
template <class Use>
int with_plan(shard_coupling coupling, const Use& use) {
  return shard::c::guarded([&] {
    auto& c = shard::c::require(coupling, "the coupling");
    shard::c::with(c.plan, [&]<class Memory>(shard::c::Coupled<Memory>& plan) {
      const auto to = shard_coupling_s::addresses(c.to), from = shard_coupling_s::addresses(c.from);
      use(*plan, shard::c::space_of<Memory>(), to.data(), from.data());
    });
  });
}

}  // namespace

int shard_coupling_create(MPI_Comm comm, int to_count, const shard_field* to, int from_count,
                          const shard_field* from, shard_coupling* coupling) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    shard_coupling& made = require(coupling, "the coupling to be made");
    impl::require_communicator(comm, "coupling_create");
    auto handle       = std::make_unique<shard_coupling_s>();
    std::string wrong = take(to_count, to, handle->to);
    if (wrong.empty()) wrong = take(from_count, from, handle->from);
    impl::CouplingRequest request;
    request.function  = "coupling_create";
    request.in_halves = true;
    bool host = false, device = false;
    const auto add = [&](const std::vector<shard_field>& side, bool& is_in,
                         std::vector<impl::FieldArgs>& args) {
      is_in = !side.empty();
      for (const shard_field field : side) {
        (field->on_device ? device : host) = true;
        args.push_back({&field->geometry, field->types.data(), field->kind, field->value_size,
                        field->left ? 1 : 0, field->stride});
      }
    };
    add(handle->to, request.is_to, request.to);
    add(handle->from, request.is_from, request.from);
    // ranks without fields make the same plan
    const int here[2] = {host ? 1 : 0, device ? 1 : 0};
    int somewhere[2]  = {};
    impl::await_mpi("MPI_Allreduce", MPI_Allreduce, static_cast<const void*>(here),
                    static_cast<void*>(somewhere), 2, MPI_INT, MPI_MAX, comm);
    if (wrong.empty() && somewhere[0] != 0 && somewhere[1] != 0)
      wrong = "fields are in host memory and in device memory; a coupling is between one of them";
    impl::require_no_error(comm, "coupling_create", wrong);
    const auto make = [&]<class Memory>(std::type_identity<Memory>) {
      handle->plan.emplace<Coupled<Memory>>(impl::CouplingPlan<Memory>::make(comm, request));
    };
    if (somewhere[1] != 0)
      make(std::type_identity<DeviceMemory>{});
    else
      make(std::type_identity<Kokkos::HostSpace>{});
    made = handle.release();
  });
}
int shard_coupling_create_f(MPI_Fint comm, int to_count, const shard_field* to, int from_count,
                            const shard_field* from, shard_coupling* coupling) {
  return shard_coupling_create(MPI_Comm_f2c(comm), to_count, to, from_count, from, coupling);
}
int shard_coupling_retain(shard_coupling coupling) {
  return shard::c::retain(coupling, "the coupling");
}
int shard_coupling_release(shard_coupling* coupling) {
  return shard::c::release(coupling, "the coupling");
}

namespace {

void fetch(const std::vector<shard_field>& side) {
  for (const shard_field field : side) field->fetch();
}
void store(const std::vector<shard_field>& side) {
  for (const shard_field field : side) field->store();
}

}  // namespace

int shard_coupling_put(shard_coupling coupling) {
  return with_plan(coupling, [&](auto& plan, const auto& space, auto* to, auto* from) {
    fetch(coupling->from);
    fetch(coupling->to);
    plan.send(space, to, from);
  });
}
int shard_coupling_get(shard_coupling coupling) {
  return with_plan(coupling, [&](auto& plan, const auto& space, auto* to, auto* from) {
    if (coupling->from.empty()) fetch(coupling->to);  // put did it
    plan.receive(space, to, from);
    store(coupling->to);
  });
}
int shard_coupling_finish(shard_coupling coupling) {
  return with_plan(coupling,
                   [](auto& plan, const auto& space, auto*, auto*) { plan.finish(space); });
}
int shard_coupling_run(shard_coupling coupling) {
  return with_plan(coupling, [&](auto& plan, const auto& space, auto* to, auto* from) {
    fetch(coupling->from);
    fetch(coupling->to);
    if (!coupling->from.empty()) plan.send(space, to, from);
    if (!coupling->to.empty()) plan.receive(space, to, from);
    plan.finish(space);
    store(coupling->to);
  });
}
int shard_coupling_adjoint(shard_coupling coupling) {
  return with_plan(coupling, [&](auto& plan, const auto& space, auto* to, auto* from) {
    fetch(coupling->to);
    fetch(coupling->from);
    plan.adjoint(space, to, from);
    store(coupling->from);
  });
}
