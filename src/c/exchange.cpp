// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <array>
#include <memory>
#include <string>
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

/// The elements of a field that are outside the domain on one side, for a boundary of the caller's.
struct Outside {
  std::size_t field = 0;
  int dimension     = 0;
  bool high         = false;
  std::array<int64_t, impl::max_rank> begin{}, end{};
};

/// Those of a field, the highest dimension first. A corner is outside in its lowest such dimension,
/// whose boundary is called last.
void append_outside(const shard_field_s& field, const impl::FieldSpec& spec, std::size_t number,
                    std::vector<Outside>& list) {
  const auto& geometry = field.geometry;
  const auto is_given  = [&](int d, bool high) {
    const auto& type = field.types[impl::Geometry::at(d)];
    return (high ? type.high : type.low).kind == BoundaryKind::given;
  };
  for (int d = spec.rank - 1; d >= 0; --d)
    for (const bool high : {false, true}) {
      const auto& dim = spec.dims[impl::Geometry::at(d)];
      if (!is_given(d, high) || (high ? dim.hi : dim.lo) == 0) continue;
      Outside box{number, d, high, {}, {}};
      index_t elements = 1;
      for (int e = 0; e < spec.rank; ++e) {
        const auto& of      = spec.dims[impl::Geometry::at(e)];
        const bool corners  = e == d || spec.part != impl::HaloPart::faces;
        const index_t first = -geometry.begin(e), last = geometry.global(e) + first;
        index_t begin = corners ? -of.lo : 0;
        index_t end   = geometry.owned(e) + (corners ? of.hi : 0) + geometry.index_halo(e);
        if (e < d && is_given(e, false)) begin = std::max(begin, first);
        if (e < d && is_given(e, true)) end = std::min(end, last);
        if (e == d && high) begin = std::max(begin, last);
        if (e == d && !high) end = std::min(end, first);
        box.begin[impl::Geometry::at(e)] = begin;
        box.end[impl::Geometry::at(e)]   = end;
        elements *= std::max<index_t>(0, end - begin);
      }
      if (elements > 0) list.push_back(box);
    }
}

/// A plan and what is in progress, of fields in one memory.
template <class Memory>
class Halos {
 public:
  Halos(const std::vector<shard_field>& fields, const shard_exchange_options& options,
        std::vector<Outside>& outside)
      : from_(fields.size()), geometries_(fields.size()) {
    std::vector<impl::FieldSpec> specs;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      specs.push_back(spec_of(*fields[f]));
      narrow(specs.back(), options);
      geometries_[f] = &fields[f]->geometry;
      append_outside(*fields[f], specs.back(), f, outside);
    }
    plan_ = FieldPlan<Memory>::make(
        *fields.front()->geometry.mesh, std::move(specs),
        {.messages = options.messages == shard_short_messages ? MessageLayout::by_size
                                                              : MessageLayout::one_per_peer});
  }
  void start(const std::vector<shard_field>& fields, Direction direction) {
    for (std::size_t f = 0; f < fields.size(); ++f) from_[f] = fields[f]->origin;
    started_.push_back(
        {plan_->start(space(), {from_.data(), from_.data(), geometries_.data()}, direction)});
  }
  void advance() {
    const Started first = take_first("exchange_advance");
    const bool over =
        first.is_over || plan_->advance(space(), first.exchange) == impl::Progress::finished;
    started_.insert(started_.begin(), {first.exchange, over});
  }
  Direction finish() {
    const Started first = take_first("exchange_finish");
    if (!first.is_over) plan_->finish(space(), first.exchange);
    return first.exchange.direction;
  }
  bool in_progress() const { return !started_.empty(); }
  std::string describe() const {
    return text(plan_->sends()) + " messages sent, " + text(plan_->receives()) + " received, " +
           text(static_cast<index_t>(plan_->bytes_sent())) + " bytes sent\n" + plan_->report();
  }

 private:
  struct Started {
    impl::StartedExchange exchange;
    bool is_over = false;
  };
  Started take_first(const char* function) {
    if (started_.empty()) throw_argument(function, {"no exchange of this plan is in progress"});
    const Started first = started_.front();
    started_.erase(started_.begin());
    return first;
  }
  decltype(auto) space() const {
    if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
      return (space_);  // to make one takes longer than the rest of a call
    else
      return device_space();
  }

  std::shared_ptr<FieldPlan<Memory>> plan_;
  HostSpace space_;
  std::vector<void*> from_;
  std::vector<const impl::Geometry*> geometries_;
  std::vector<Started> started_;
};

}  // namespace shard::c

struct shard_exchange_s : shard::c::Counted {
  std::shared_ptr<shard::impl::MeshState> mesh;  // null until there is a field
  std::vector<shard_field> fields;               // retained
  shard_exchange_options options{};
  shard::c::OfMemory<shard::c::Halos> halos;
  bool is_changed = true;  // the fields aren't those of `halos`
  std::vector<shard::c::Outside> outside;
  shard_boundary_function fill = nullptr;
  void* context                = nullptr;

  shard_exchange_s() = default;
  ~shard_exchange_s() {
    for (shard_field& field : fields) shard_field_release(&field);
  }
  /// Adds a field; returns what is wrong with it, "" if nothing is.
  std::string append(shard_field field) {
    if (field == nullptr) return "a field is null";
    if (mesh == nullptr) mesh = field->geometry.mesh;
    if (field->geometry.mesh != mesh) return "fields are on several meshes";
    if (!fields.empty() && field->on_device != fields[0]->on_device)
      return "fields are in host memory and in device memory; make a plan of each";
    shard_field_retain(field);
    fields.push_back(field);
    is_changed = true;
    return "";
  }
  /// Makes the plan again if fields were added or removed. Collective then.
  void update() {
    if (!is_changed || mesh == nullptr) return;
    // names tell which field is which on the other ranks
    std::string names = "fields";
    for (const shard_field field : fields) names += " \"" + field->geometry.label + "\"";
    shard::impl::require_agreement(mesh->comm(), "exchange", names);
    halos.emplace<std::monostate>();
    outside.clear();
    if (!fields.empty() && fields[0]->on_device)
      halos.emplace<shard::c::Halos<shard::c::DeviceMemory>>(fields, options, outside);
    else if (!fields.empty())
      halos.emplace<shard::c::Halos<Kokkos::HostSpace>>(fields, options, outside);
    is_changed = false;
  }
  std::string describe() const override {
    std::string made = "exchange of";
    for (const shard_field field : fields) made += " \"" + field->geometry.label + "\"";
    if (is_changed) return made + ", not planned yet\n";
    made += ": ";
    shard::c::with(halos, [&](const auto& of) { made += of.describe(); });
    return made;
  }
  /// Calls the caller's boundary.
  void fill_boundaries(bool adjoint) const {
    if (fill == nullptr || outside.empty()) return;
    if (fields[0]->on_device) shard::c::device_space().fence("shard_exchange_set_boundary");
    for (std::size_t i = 0; i < outside.size(); ++i) {
      const shard::c::Outside& box = outside[adjoint ? outside.size() - 1 - i : i];
      const shard_field_s& field   = *fields[box.field];
      fill(context, field.geometry.label.c_str(), field.blocks == nullptr ? field.origin : nullptr,
           field.geometry.rank, adjoint ? 1 : 0, box.dimension, box.high ? 1 : 0, box.begin.data(),
           box.end.data());
    }
  }
  void start(shard::impl::Direction direction) {
    update();
    if (direction == shard::impl::Direction::adjoint) fill_boundaries(true);
    for (const shard_field field : fields) field->fetch();
    shard::c::with(halos, [&](auto& of) { of.start(fields, direction); });
  }
  void finish() {
    shard::c::with(halos, [&](auto& of) {
      const auto direction = of.finish();
      for (const shard_field field : fields) field->store();
      if (direction == shard::impl::Direction::forward) fill_boundaries(false);
    });
  }
  void advance() {
    shard::c::with(halos, [](auto& of) { of.advance(); });
  }
  bool is_in_progress() {
    bool found = false;
    shard::c::with(halos, [&](const auto& of) { found = of.in_progress(); });
    return found;
  }
  void require_idle(const char* function) {
    if (is_in_progress())
      shard::impl::throw_argument(function,
                                  {"an exchange of this plan is in progress; finish it first"});
  }
};

namespace {

int start(shard_exchange exchange, shard::impl::Direction direction) {
  return shard::c::guarded([&] { shard::c::require(exchange, "the exchange").start(direction); });
}
int run(shard_exchange exchange, shard::impl::Direction direction) {
  return shard::c::guarded([&] {
    auto& e = shard::c::require(exchange, "the exchange");
    e.require_idle("exchange_run");
    e.start(direction);
    e.finish();
  });
}

}  // namespace

int shard_exchange_create(int count, const shard_field* fields,
                          const shard_exchange_options* options, shard_exchange* exchange) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    shard_exchange& made = require(exchange, "the exchange to be made");
    if (count < 0) impl::throw_argument("exchange_create", {impl::text(count), " fields"});
    if (count > 0) require(fields, "the list of fields");
    auto handle = std::make_unique<shard_exchange_s>();
    if (options != nullptr) handle->options = *options;
    std::string wrong;
    for (int f = 0; f < count; ++f) {
      const std::string found = handle->append(fields[f]);
      if (!found.empty()) wrong = found;
    }
    const int messages = handle->options.messages;
    if (messages != shard_one_message && messages != shard_short_messages)
      wrong = impl::text(messages) + " isn't a shard_message_layout";
    if (handle->mesh != nullptr)
      impl::require_no_error(handle->mesh->comm(), "exchange_create", wrong);
    else if (!wrong.empty())
      impl::throw_argument("exchange_create", {wrong});
    handle->update();
    made = handle.release();
  });
}
int shard_exchange_add(shard_exchange exchange, shard_field field) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    auto& e = require(exchange, "the exchange");
    e.require_idle("exchange_add");
    const std::string& name = require(field, "the field").geometry.label;
    for (const shard_field other : e.fields)
      if (other->geometry.label == name)
        impl::throw_argument("exchange_add", {"there is a field \"", name, "\" already"});
    const std::string wrong = e.append(field);
    if (!wrong.empty()) impl::throw_argument("exchange_add", {wrong});
  });
}
int shard_exchange_remove(shard_exchange exchange, const char* name) {
  using namespace shard;
  using namespace shard::c;
  return guarded([&] {
    auto& e = require(exchange, "the exchange");
    require(name, "the name");
    e.require_idle("exchange_remove");
    const auto found = std::find_if(e.fields.begin(), e.fields.end(), [&](shard_field field) {
      return field->geometry.label == name;
    });
    if (found == e.fields.end())
      impl::throw_argument("exchange_remove", {"there is no field \"", name, "\""});
    shard_field_release(&*found);
    e.fields.erase(found);
    e.is_changed = true;
  });
}
int shard_exchange_set_boundary(shard_exchange exchange, shard_boundary_function fill,
                                void* context) {
  return shard::c::guarded([&] {
    auto& e   = shard::c::require(exchange, "the exchange");
    e.fill    = fill;
    e.context = context;
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
  return shard::c::guarded([&] { shard::c::require(exchange, "the exchange").finish(); });
}
int shard_exchange_advance(shard_exchange exchange) {
  return shard::c::guarded([&] { shard::c::require(exchange, "the exchange").advance(); });
}
