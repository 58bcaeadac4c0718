// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/c/network.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "handles.hpp"
#include "shard/redistribute/redistribution.hpp"

struct shard_network_s : shard::c::Counted {
  std::shared_ptr<shard::impl::MeshState> mesh;
  std::unique_ptr<shard::impl::AnyNetwork> network;
  std::string name;

  std::string describe() const override;
};

namespace shard {

namespace impl {

namespace {

struct Networks {
  std::mutex mutex;
  std::map<std::string, NetworkFactory> of;
};
Networks& networks() {
  static Networks all;
  return all;
}

}  // namespace

void add_network(std::string name, NetworkFactory make) {
  const std::lock_guard lock(networks().mutex);
  networks().of[std::move(name)] = std::move(make);
}

std::unique_ptr<AnyNetwork> make_network(const std::string& name,
                                         const std::shared_ptr<MeshState>& mesh) {
  NetworkFactory make;
  std::string known;
  {
    const std::lock_guard lock(networks().mutex);
    for (const auto& [other, factory] : networks().of) {
      known += (known.empty() ? "\"" : ", \"") + other + "\"";
      if (other == name) make = factory;
    }
  }
  require_agreement(mesh->comm(), "network_open", "\"" + name + "\"");
  require_no_error(mesh->comm(), "network_open",
                   make ? ""
                        : "there is no network \"" + name + "\"; registered are " +
                              (known.empty() ? "none" : known));
  return make(mesh);
}

}  // namespace impl

namespace c {

namespace {

/// A field as a network has it: with dimensions of one element in front, and those of Fortran's
/// arrays in the opposite order.
impl::NetworkField lifted(const shard_field_s& field, int rank) {
  impl::NetworkField made;
  made.geometry = lifted_geometry(field, rank);
  made.data     = field.origin;
  made.left     = field.left != field.is_reversed;
  const int own = field.geometry.rank;
  for (int d = 0; d < own; ++d) {
    const int at                               = rank - own + (field.is_reversed ? own - 1 - d : d);
    made.geometry.dims[impl::Geometry::at(at)] = field.geometry.dims[impl::Geometry::at(d)];
    made.stride[impl::Geometry::at(at)] = field.stride[impl::Geometry::at(d)] * field.value_size;
  }
  return made;
}

impl::RedistributionSide side_of(const impl::NetworkField& field) {
  impl::RedistributionSide side;
  side.geometry = &field.geometry;
  side.data     = field.data;
  side.stride   = field.stride;
  side.left     = field.left;
  return side;
}

void move(const shard_network_s& of, const char* function, const impl::NetworkField& to,
          const impl::NetworkField& from) {
  impl::Redistribution redistribution;
  redistribution.function   = function;
  redistribution.mesh       = of.mesh.get();
  redistribution.rank       = of.network->rank;
  redistribution.value_size = of.network->value_size;
  redistribution.kind       = of.network->kind;
  redistribution.to         = side_of(to);
  redistribution.from       = side_of(from);
  if (of.network->on_device)
    impl::Redistributions<DeviceSpace>::run(device_space(), redistribution);
  else
    impl::Redistributions<HostSpace>::run(HostSpace(), redistribution);
}

/// A field as the network's; throws ArgumentError if it can't be one.
impl::NetworkField checked(const shard_network_s& of, const char* function,
                           const shard_field_s& field) {
  const auto& network = *of.network;
  if (field.kind != network.kind || field.on_device != network.on_device ||
      field.geometry.rank > network.rank)
    impl::throw_argument(
        function, {"\"", field.geometry.label, "\" has another type or memory than the network \"",
                   of.name, "\", or more than its ", impl::text(network.rank), " dimensions"});
  if (field.geometry.mesh != of.mesh)
    impl::throw_argument(function, {"\"", field.geometry.label, "\" is on another mesh"});
  return lifted(field, network.rank);
}

/// A text, or an error on every rank if it is null on one.
std::string given(const shard_network_s& of, const char* function, const char* text) {
  impl::require_no_error(of.mesh->comm(), function, text == nullptr ? "a text is null" : "");
  return text;
}

}  // namespace

}  // namespace c

}  // namespace shard

std::string shard_network_s::describe() const {
  shard::index_t count = 0;
  for (const auto& entry : network->entries()) count += entry.count();
  std::string made = "network \"" + name + "\" of " + shard::impl::text(count) + " parameters\n";
  for (const auto& entry : network->entries()) {
    made += "  " + entry.name + " [";
    for (std::size_t e = 0; e < entry.extents.size(); ++e)
      made += (e == 0 ? "" : ", ") + shard::impl::text(entry.extents[e]);
    made += "]\n";
  }
  return made;
}

using shard::c::guarded;
using shard::c::require;

int shard_network_open(shard_mesh mesh, const char* name, shard_network* network) {
  return guarded([&] {
    shard_network& made = require(network, "the network to be made");
    auto handle         = std::make_unique<shard_network_s>();
    handle->mesh        = require(mesh, "the mesh").state;
    handle->name        = shard::c::given(*handle, "network_open", name);
    handle->network     = shard::impl::make_network(handle->name, handle->mesh);
    made                = handle.release();
  });
}
int shard_network_retain(shard_network network) { return shard::c::retain(network, "the network"); }
int shard_network_release(shard_network* network) {
  return shard::c::release(network, "the network");
}

int shard_network_load(shard_network network, const char* path, const char* prefix) {
  return guarded([&] {
    const auto& of = require(network, "the network");
    of.network->load(shard::c::given(of, "network_load", path), prefix == nullptr ? "" : prefix);
  });
}
int shard_network_save(shard_network network, const char* path) {
  return guarded([&] {
    const auto& of = require(network, "the network");
    of.network->save(shard::c::given(of, "network_save", path));
  });
}
int shard_network_restore(shard_network network, const char* path) {
  return guarded([&] {
    const auto& of = require(network, "the network");
    of.network->restore(shard::c::given(of, "network_restore", path));
  });
}

int shard_network_apply(shard_network network, shard_field y, shard_field x) {
  return guarded([&] {
    const char* const name = "network_apply";
    const auto& of         = require(network, "the network");
    const auto to          = shard::c::checked(of, name, require(y, "y"));
    const auto from        = shard::c::checked(of, name, require(x, "x"));
    of.network->prepare(from.geometry, to.geometry);
    const auto own_x = of.network->x(), own_y = of.network->y();
    x->fetch();
    shard::c::move(of, name, own_x, from);
    of.network->apply(shard::c::device_space());
    y->fetch();
    shard::c::move(of, name, to, own_y);
    y->store();
  });
}
int shard_network_pullback(shard_network network, shard_field dx, shard_field dy) {
  return guarded([&] {
    const char* const name = "network_pullback";
    const auto& of         = require(network, "the network");
    const auto from        = shard::c::checked(of, name, require(dy, "dy"));
    const auto own_dy      = of.network->dy();
    shard::impl::require_same_cells(name, own_dy.geometry, from.geometry);
    shard::impl::NetworkField to, own_dx;
    if (dx != nullptr) {
      to     = shard::c::checked(of, name, *dx);
      own_dx = of.network->dx();
      shard::impl::require_same_cells(name, to.geometry, own_dx.geometry);
    }
    dy->fetch();
    shard::c::move(of, name, own_dy, from);
    of.network->pullback(shard::c::device_space(), dx != nullptr);
    if (dx == nullptr) return;
    dx->fetch();
    shard::c::move(of, name, to, own_dx);
    dx->store();
  });
}
int shard_network_set_training(shard_network network, int training) {
  return guarded([&] { require(network, "the network").network->set_training(training != 0); });
}

int shard_network_parameters(shard_network network, int* type, int64_t* count, void** values,
                             void** gradients) {
  return guarded([&] {
    const auto& of     = *require(network, "the network").network;
    shard::index_t all = 0;
    for (const auto& entry : of.entries()) all += entry.count();
    if (type != nullptr)
      *type = of.kind == shard::impl::ValueKind::f32 ? shard_float : shard_double;
    if (count != nullptr) *count = all;
    if (values != nullptr) *values = of.values().first;
    if (gradients != nullptr) *gradients = of.values().second;
  });
}
int shard_network_parameter(shard_network network, int64_t index, const char** name, int64_t* first,
                            int64_t* count) {
  return guarded([&] {
    const auto& entries       = require(network, "the network").network->entries();
    require(name, "the name") = nullptr;
    if (index < 0 || index >= static_cast<int64_t>(entries.size())) return;
    const auto& entry = entries[static_cast<std::size_t>(index)];
    *name             = entry.name.c_str();
    if (first != nullptr) *first = entry.offset;
    if (count != nullptr) *count = entry.count();
  });
}

int shard_network_set_optimiser(shard_network network, const shard_optimiser_options* options) {
  return guarded([&] {
    auto& of = require(network, "the network");
    shard_optimiser_options none{};
    none.kind     = -1;
    const auto& o = options == nullptr ? none : *options;
    const auto in = [](double beta) { return beta >= 0.0 && beta < 1.0; };
    std::string wrong;
    if (options == nullptr)
      wrong = "the options are null";
    else if (o.kind != shard_sgd && o.kind != shard_adam && o.kind != shard_adamw)
      wrong = "there is no optimiser " + shard::impl::text(o.kind);
    else if (!(o.learning_rate >= 0.0 && in(o.momentum) && in(o.beta1) && in(o.beta2) &&
               o.eps >= 0.0 && o.weight_decay >= 0.0 && o.clip >= 0.0))
      wrong = "an option is negative, or momentum or a beta is 1 or more";
    const MPI_Comm comm = of.mesh->comm();
    shard::impl::require_no_error(comm, "network_set_optimiser", wrong);
    shard::impl::require_same_options(comm, "network_set_optimiser",
                                      {{"kind", o.kind},
                                       {"learning_rate", o.learning_rate},
                                       {"momentum", o.momentum},
                                       {"beta1", o.beta1},
                                       {"beta2", o.beta2},
                                       {"eps", o.eps},
                                       {"weight_decay", o.weight_decay},
                                       {"clip", o.clip}});
    of.network->set_optimiser(o);
  });
}
int shard_network_step(shard_network network, double learning_rate, double* norm) {
  return guarded([&] {
    auto& of = require(network, "the network");
    shard::impl::require_same_options(of.mesh->comm(), "network_step",
                                      {{"learning_rate", learning_rate}});
    if (!(learning_rate >= 0.0))
      shard::impl::throw_argument("network_step", {"the learning rate isn't 0 or more"});
    const double found = of.network->step(shard::c::device_space(), learning_rate);
    if (norm != nullptr) *norm = found;
  });
}
