// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "handles.hpp"
#include "shard/exchange/impl/field_spec.hpp"

namespace shard::c {

namespace {

using impl::Direction;
using impl::FieldPlan;
using impl::text;
using impl::throw_argument;

/// Leaves the parts of the halo that the options name.
void narrow(impl::FieldSpec& spec, const shard_exchange_options& options) {
  if (options.faces != 0) spec.part = impl::HaloPart::faces;
  for (int d = 0; d < spec.rank; ++d) {
    impl::DimSpec& dim = spec.dims[impl::Geometry::at(d)];
    if (options.width > 0) {
      dim.lo = std::min(dim.lo, options.width);
      dim.hi = std::min(dim.hi, options.width);
    }
    if (options.layers > 0) dim.layers = std::min(dim.layers, options.layers);
    const bool named = dim.axis_count > 0 && (options.axes >> dim.axes[0] & 1U) != 0;
    if (options.axes != 0 && !named) dim.lo = dim.hi = dim.layers = 0;
  }
}

}  // namespace

template <class Memory>
using SpaceOf =
    std::conditional_t<std::is_same_v<Memory, Kokkos::HostSpace>, HostSpace, DeviceSpace>;

/// A plan and what is in progress, of fields in one memory.
template <class Memory>
class Halos {
 public:
  Halos(const std::vector<shard_field>& fields, const shard_exchange_options& options)
      : from_(fields.size()), geometries_(fields.size()) {
    std::vector<impl::FieldSpec> specs;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      specs.push_back(spec_of(*fields[f]));
      narrow(specs.back(), options);
      geometries_[f] = &fields[f]->geometry;
    }
    plan_ = FieldPlan<Memory>::make(*fields.front()->geometry.mesh, std::move(specs));
  }
  void start(const std::vector<shard_field>& fields, Direction direction) {
    for (std::size_t f = 0; f < fields.size(); ++f) from_[f] = fields[f]->origin;
    started_.push_back(plan_->start(SpaceOf<Memory>(),
                                    {from_.data(), from_.data(), geometries_.data()}, direction));
  }
  void finish() {
    if (started_.empty())
      throw_argument("exchange_finish", {"no exchange of this plan is in progress"});
    const auto first = started_.front();
    started_.erase(started_.begin());
    plan_->finish(SpaceOf<Memory>(), first);
  }
  bool in_progress() const { return !started_.empty(); }

 private:
  std::shared_ptr<FieldPlan<Memory>> plan_;
  std::vector<void*> from_;
  std::vector<const impl::Geometry*> geometries_;
  std::vector<impl::StartedExchange> started_;
};

/// The host's and the device's; one type in a build without a device.
template <class First, class Second>
struct OneOf {
  using type = std::variant<std::monostate, First, Second>;
};
template <class Same>
struct OneOf<Same, Same> {
  using type = std::variant<std::monostate, Same>;
};

}  // namespace shard::c

struct shard_exchange_s : shard::c::Counted {
  using Host   = shard::c::Halos<Kokkos::HostSpace>;
  using Device = shard::c::Halos<shard::c::DeviceMemory>;

  std::vector<shard_field> fields;  // retained
  shard::c::OneOf<Host, Device>::type halos;

  ~shard_exchange_s() {
    for (shard_field& field : fields) shard_field_release(&field);
  }
  /// Calls use(halos).
  template <class Use>
  void with(const Use& use) {
    std::visit(
        [&](auto& of) {
          if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(of)>, std::monostate>) use(of);
        },
        halos);
  }
};

namespace {

int start(shard_exchange exchange, shard::impl::Direction direction) {
  return shard::c::guarded([&] {
    auto& e = shard::c::require(exchange, "the exchange");
    e.with([&](auto& halos) { halos.start(e.fields, direction); });
  });
}
int run(shard_exchange exchange, shard::impl::Direction direction) {
  return shard::c::guarded([&] {
    auto& e = shard::c::require(exchange, "the exchange");
    e.with([&](auto& halos) {
      if (halos.in_progress())
        shard::impl::throw_argument("exchange_run",
                                    {"an exchange of this plan is in progress; finish it first"});
      halos.start(e.fields, direction);
      halos.finish();
    });
  });
}

}  // namespace

int shard_exchange_create(int count, const shard_field* fields,
                          const shard_exchange_options* options, shard_exchange* exchange) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    shard_exchange& made = require(exchange, "the exchange to be made");
    if (count < 1) impl::throw_argument("exchange_create", {impl::text(count), " fields"});
    require(fields, "the list of fields");
    auto handle = std::make_unique<shard_exchange_s>();
    for (int f = 0; f < count; ++f) {
      const auto& field = require(fields[f], "a field");
      if (field.geometry.mesh != fields[0]->geometry.mesh)
        impl::throw_argument("exchange_create", {"fields are on several meshes"});
      if (field.on_device != fields[0]->on_device)
        impl::throw_argument(
            "exchange_create",
            {"fields are in host memory and in device memory; make a plan of each"});
      shard_field_retain(fields[f]);
      handle->fields.push_back(fields[f]);
    }
    const shard_exchange_options whole{};
    const auto& of = options == nullptr ? whole : *options;
    if (fields[0]->on_device)
      handle->halos.emplace<shard_exchange_s::Device>(handle->fields, of);
    else
      handle->halos.emplace<shard_exchange_s::Host>(handle->fields, of);
    made = handle.release();
  });
}
int shard_exchange_retain(shard_exchange exchange) {
  return shard::c::retain(exchange, "the exchange");
}
int shard_exchange_release(shard_exchange* exchange) {
  return shard::c::release(exchange, "the exchange");
}

int shard_exchange_run(shard_exchange exchange) {
  return run(exchange, shard::impl::Direction::forward);
}
int shard_exchange_adjoint(shard_exchange exchange) {
  return run(exchange, shard::impl::Direction::adjoint);
}
int shard_exchange_start(shard_exchange exchange) {
  return start(exchange, shard::impl::Direction::forward);
}
int shard_exchange_start_adjoint(shard_exchange exchange) {
  return start(exchange, shard::impl::Direction::adjoint);
}
int shard_exchange_finish(shard_exchange exchange) {
  return shard::c::guarded([&] {
    shard::c::require(exchange, "the exchange").with([](auto& halos) { halos.finish(); });
  });
}
