// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/impl/recorded_run.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "shard/model/impl/skips.hpp"
#include "shard/view/copy.hpp"

namespace shard::impl {

template <class T, class Memory, int Rank>
bool RecordedValue<T, Memory, Rank>::suits(const WantedHalo<dims>& wanted) const {
  for (std::size_t d = 0; d < all; ++d) {
    const LowHigh& side = wanted.sides[d];
    if (side.lo + side.hi == 0) continue;
    const bool same = boundary[d] == wanted.boundary[d];
    if (fixed ? halo[d].lo < side.lo || halo[d].hi < side.hi || !same
              : boundary[d] != nullptr && !same)
      return false;
  }
  return true;
}
template <class T, class Memory, int Rank>
void RecordedValue<T, Memory, Rank>::widen(const WantedHalo<dims>& wanted) {
  for (std::size_t d = 0; d < all; ++d) {
    const LowHigh& side = wanted.sides[d];
    if (side.lo + side.hi == 0) continue;
    halo[d]     = {std::max(halo[d].lo, side.lo), std::max(halo[d].hi, side.hi)};
    boundary[d] = wanted.boundary[d];
  }
}
template <class T, class Memory, int Rank>
bool RecordedValue<T, Memory, Rank>::gives_all(const WantedHalo<dims>& wanted) const {
  for (std::size_t d = 0; d < all; ++d)
    if (halo[d].lo != wanted.sides[d].lo || halo[d].hi != wanted.sides[d].hi) return false;
  return true;
}
template <class T, class Memory, int Rank>
index_t RecordedValue<T, Memory, Rank>::bytes() const {
  index_t n = static_cast<index_t>(sizeof(T));
  for (int d = 0; d < Rank; ++d) n *= width(d);
  return n;
}
template <class T, class Memory, int Rank>
index_t RecordedValue<T, Memory, Rank>::width(int d) const {
  const LowHigh around = d < 2 ? LowHigh{0, 0} : halo[Geometry::at(d - 2)];
  return geometry.owned(d) + around.lo + around.hi;
}
template <class T, class Memory, int Rank>
RunField<T, Memory, Rank> RecordedValue<T, Memory, Rank>::field_at(T* cells) const {
  FieldState state;
  state.geometry = geometry;
  Kokkos::LayoutRight layout;
  for (int d = 0; d < Rank; ++d) {
    layout.dimension[d] = static_cast<std::size_t>(width(d));
    if (d >= 2) state.front[Geometry::at(d)] = halo[Geometry::at(d - 2)].lo;
  }
  return FieldAccess::part<Field>(std::move(state), typename Field::view_type(cells, layout));
}
template <class T, class Memory, int Rank, class Space>
int RecordedRun<T, Memory, Rank, Space>::add_value(Geometry geometry, const Partitions& partitions,
                                                   bool replicated) {
  Value v;
  v.geometry   = std::move(geometry);
  v.partitions = partitions;
  v.replicated = replicated;
  values_.push_back(std::move(v));
  plan_.values.emplace_back();
  return static_cast<int>(values_.size()) - 1;
}
template <class T, class Memory, int Rank, class Space>
RecordedRun<T, Memory, Rank, Space>::RecordedRun() = default;
template <class T, class Memory, int Rank, class Space>
RecordedRun<T, Memory, Rank, Space>::~RecordedRun() {
}  // NOLINT(modernize-use-equals-default): hipcc
template <class T, class Memory, int Rank, class Space>
int RecordedRun<T, Memory, Rank, Space>::add_operation(std::unique_ptr<Record> made,
                                                       std::span<const int> input, int output,
                                                       std::span<const bool> passes, bool reads) {
  records_.push_back(std::move(made));
  plan_.operations.push_back(
      {{input.begin(), input.end()}, output, {passes.begin(), passes.end()}, reads});
  return static_cast<int>(records_.size()) - 1;
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::add_use(const LayerUse<Rank>& use) {
  uses_.push_back(use);
}
template <class T, class Memory, int Rank, class Space>
int RecordedRun<T, Memory, Rank, Space>::place_for(int value, const WantedHalo<Rank - 2>& wanted) {
  Value& of = values_[at(value)];
  if (of.gives) {
    of.suits_reader = of.gives_all(wanted);
    return value;
  }
  const auto takes = [&](int place) {
    Value& v = values_[at(place)];
    if (!v.suits(wanted)) return false;
    if (!v.fixed) v.widen(wanted);
    return true;
  };
  if (takes(value)) return value;
  for (const int copy : of.copies)
    if (takes(copy)) return copy;
  return -1;
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::add_copy(int copy, int value,
                                                   const WantedHalo<Rank - 2>& wanted) {
  values_[at(value)].copies.push_back(copy);
  plan_.values[at(copy)].copy_of = plan_.values[at(value)].input;
  values_[at(copy)].widen(wanted);
}
template <class T, class Memory, int Rank, class Space>
bool RecordedRun<T, Memory, Rank, Space>::is_used(int value) const {
  const PlannedValue& v = plan_.values[at(value)];
  return v.input >= 0 || v.output >= 0 ||
         std::any_of(plan_.operations.begin(), plan_.operations.end(),
                     [&](const PlannedOperation& o) {
                       return std::count(o.inputs.begin(), o.inputs.end(), value) > 0;
                     });
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::add_output(int value) {
  plan_.values[at(value)].output = static_cast<int>(outputs_.size());
  outputs_.push_back(value);
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::close() {
  for (std::size_t v = 0; v < values_.size(); ++v) plan_.values[v].bytes = values_[v].bytes();
  plan_.close();
  for (std::size_t v = 0; v < values_.size(); ++v) {
    // one memory, one halo
    const int home  = plan_.home(static_cast<int>(v));
    values_[v].halo = values_[at(home)].halo;
  }
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::require_outputs(const std::vector<int>& outputs) const {
  for (const int value : outputs)
    if (is_replicated(value))
      throw_argument("model",
                     {"its output is a replicated value, which has no points on the mesh"});
  for (std::size_t v = 0; v < values_.size(); ++v) {
    if (!values_[v].gives) continue;
    auto readers = std::count(outputs.begin(), outputs.end(), static_cast<int>(v));
    for (const PlannedOperation& o : plan_.operations)
      readers += std::count(o.inputs.begin(), o.inputs.end(), static_cast<int>(v));
    if (readers != 1 || !values_[v].suits_reader)
      throw_argument("model",
                     {"the output of a HaloExchange in a model is read by one layer, which "
                      "needs a halo of the same widths"});
  }
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::require_same_kind(std::span<const int> values) const {
  for (const int value : values)
    if (is_replicated(value) != is_replicated(values.front()))
      throw_argument("model", {"an operation of a replicated value and of one that is sharded; "
                               "Multiply, AddBroadcast, Modulated and SpatialUnpool take both, "
                               "the sharded one first"});
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::place(bool apart, LowPrecision format) {
  apart_ = apart;
  plan_.place_values(activations_, apart);
  if (apart) {
    plan_.place_adjoints(activations_);
    plan_.place_tangents(activations_);
  } else {
    plan_.place_adjoints(adjoints_);
    plan_.place_tangents(tangents_);
    adjoints_.place();
    tangents_.place();
  }
  activations_.place();
  memory_ = Array(std::string(apart ? "shard::adjoints" : "shard::activations"),
                  cells(activations_.bytes()));
  keep(format);
  fields_.resize(values_.size());
  replaced_.assign(values_.size(), false);
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const int piece = plan_.piece(static_cast<int>(v));
    fields_[v]      = values_[v].field_at(
             piece == Lifetimes::none ? nullptr : memory_.data() + offset(activations_, piece));
  }
  for (std::size_t r = 0; r < records_.size(); ++r) {
    show_values(r);
    records_[r]->build();
  }
  if (apart) show_partners(activations_, activations_, memory_.data());
}

template <class T, class Memory, int Rank, class Space>
ModelMemory RecordedRun<T, Memory, Rank, Space>::memory() const {
  if (apart_) return {2 * kept_values_, activations_.bytes(), activations_.apart()};
  return {activations_.bytes(), std::max(adjoints_.bytes(), tangents_.bytes()), adjoints_.apart()};
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::take_values(const Field* y, const Field* x) {
  bool any = false;
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const PlannedValue& of = plan_.values[at(plan_.home(static_cast<int>(v)))];
    replaced_[v]           = (of.input >= 0 && replace(fields_[v], x[of.input])) ||
                   (of.output >= 0 && y != nullptr && replace(fields_[v], y[of.output]));
    any = any || replaced_[v];
  }
  if (any)
    for (std::size_t r = 0; r < records_.size(); ++r)
      if (is_replaced(r)) show_values(r);
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::apply(const Space& space) {
  for (std::size_t r = 0; r < records_.size(); ++r) {
    records_[r]->apply(space);
    const PlannedOperation& o = plan_.operations[r];
    if (plan_.is_stored(o.output)) kept_[at(o.output)].round(space);
    if (apart_)
      for (const int v : o.inputs)
        if (plan_.is_stored(v) && plan_.last_reader(v) == static_cast<int>(r))
          kept_[at(v)].store(space);
  }
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::pushforward(const Space& space, const Field* ty,
                                                      const Field* tx) {
  make_partners();
  bool any = false;
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const PlannedBuffer& of = plan_.tangents[at(plan_.home(static_cast<int>(v)))];
    replaced_[v]            = (of.input >= 0 && replace(tangent_fields_[v], tx[of.input])) ||
                   (of.output >= 0 && replace(tangent_fields_[v], ty[of.output]));
    any = any || replaced_[v];
  }
  if (any)
    for (std::size_t r = 0; r < records_.size(); ++r)
      if (is_replaced(r)) show_tangents(r);
  for (std::size_t r = 0; r < records_.size(); ++r) {
    restore(space, r);
    records_[r]->pushforward(space);
  }
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::pullback(const Space& space, const Field* dx,
                                                   const bool* wanted, const Field* dy) {
  make_partners();
  bool changed = false;
  for (std::size_t b = 0; b < plan_.adjoints.size(); ++b) {
    const PlannedBuffer& of = plan_.adjoints[b];
    if (of.piece != Lifetimes::none) continue;
    if (of.output >= 0)
      changed |= replace(adjoint_fields_[b], dy[of.output]);
    else if (wanted[of.input])
      changed |= replace(adjoint_fields_[b], dx[of.input]);
  }
  if (changed)
    for (std::size_t p = 0; p < plan_.pullbacks.size(); ++p) show_adjoints(p);
  for (const PlannedPullback& p : plan_.pullbacks) {
    for (const PlannedSum& sum : p.before) add(space, sum, wanted);
    if (p.operation >= 0) {
      restore(space, at(p.operation));
      std::vector<bool>& flags = wanted_[at(p.operation)];
      for (std::size_t i = 0; i < p.dx.size(); ++i)
        flags[i] = p.dx[i] >= 0 && is_wanted(p.dx[i], wanted);
      records_[at(p.operation)]->pullback(space, flags);
    }
    for (const PlannedSum& sum : p.after) add(space, sum, wanted);
  }
}

template <class T, class Memory, int Rank, class Space>
bool RecordedRun<T, Memory, Rank, Space>::replace(Field& field, const Field& by) {
  bool same = FieldAccess::is_made(field) && field.origin() == by.origin();
  for (int d = 0; same && d < Field::rank; ++d)
    same = field.stride(d) == by.stride(d) && field.extent(d) == by.extent(d);
  if (!same) field = by;
  return !same;
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::keep(LowPrecision format) {
  kept_.assign(values_.size(), {});
  kept_values_ = 0;
  for (std::size_t v = 0; v < values_.size(); ++v)
    if (plan_.is_stored(static_cast<int>(v)) &&
        plan_.home(static_cast<int>(v)) == static_cast<int>(v)) {
      kept_[v].count  = values_[v].bytes() / static_cast<index_t>(sizeof(T));
      kept_[v].format = format;
      kept_values_ += (kept_[v].count + 31) / 32 * 32;  // each begins at a multiple of 64 bytes
    }
  if (!apart_) return;
  stored_ = decltype(stored_)("shard::activations", static_cast<std::size_t>(kept_values_));
  std::uint16_t* narrow = stored_.data();
  for (std::size_t v = 0; v < values_.size(); ++v)
    if (kept_[v].count > 0) {
      kept_[v].wide   = memory_.data() + offset(activations_, plan_.piece(static_cast<int>(v)));
      kept_[v].narrow = narrow;
      narrow += (kept_[v].count + 31) / 32 * 32;
    }
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::restore(const Space& space, std::size_t r) {
  if (!apart_ || !plan_.operations[r].reads) return;
  const std::vector<int>& in = plan_.operations[r].inputs;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (plan_.is_stored(in[i]) &&
        std::count(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(i), in[i]) == 0)
      kept_[at(in[i])].restore(space);
}

template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::make_partners() {
  if (apart_ || has_partners_) return;
  partners_ = Array("shard::adjoints", cells(std::max(adjoints_.bytes(), tangents_.bytes())));
  show_partners(adjoints_, tangents_, partners_.data());
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::show_partners(const Lifetimes& adjoints,
                                                        const Lifetimes& tangents, T* cells) {
  const auto place = [&](const Lifetimes& arena, const PlannedBuffer& b) {
    return values_[at(b.value)].field_at(
        b.piece == Lifetimes::none ? nullptr : cells + offset(arena, b.piece));
  };
  adjoint_fields_.clear();
  for (const PlannedBuffer& b : plan_.adjoints) adjoint_fields_.push_back(place(adjoints, b));
  tangent_fields_.clear();
  for (std::size_t v = 0; v < values_.size(); ++v)
    tangent_fields_.push_back(place(tangents, plan_.tangents[at(plan_.home(static_cast<int>(v)))]));
  wanted_.clear();
  for (std::size_t r = 0; r < records_.size(); ++r) {
    wanted_.emplace_back(plan_.operations[r].inputs.size());
    show_tangents(r);
  }
  for (std::size_t p = 0; p < plan_.pullbacks.size(); ++p) show_adjoints(p);
  has_partners_ = true;
}
template <class T, class Memory, int Rank, class Space>
const std::vector<RunField<T, Memory, Rank>>& RecordedRun<T, Memory, Rank, Space>::picked(
    const std::vector<Field>& from, const std::vector<int>& numbers) {
  some_.clear();
  for (const int n : numbers) some_.push_back(n < 0 ? Field() : from[at(n)]);
  return some_;
}
template <class T, class Memory, int Rank, class Space>
bool RecordedRun<T, Memory, Rank, Space>::is_replaced(std::size_t r) const {
  const PlannedOperation& o = plan_.operations[r];
  return replaced_[at(o.output)] ||
         std::any_of(o.inputs.begin(), o.inputs.end(), [&](int v) { return replaced_[at(v)]; });
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::show_values(std::size_t r) {
  const PlannedOperation& o = plan_.operations[r];
  records_[r]->see(FieldKind::values, fields_[at(o.output)], picked(fields_, o.inputs));
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::show_tangents(std::size_t r) {
  const PlannedOperation& o = plan_.operations[r];
  records_[r]->see(FieldKind::tangents, tangent_fields_[at(o.output)],
                   picked(tangent_fields_, o.inputs));
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::show_adjoints(std::size_t p) {
  const PlannedPullback& pull = plan_.pullbacks[p];
  if (pull.operation >= 0)
    records_[at(pull.operation)]->see(FieldKind::adjoints, adjoint_fields_[at(pull.dy)],
                                      picked(adjoint_fields_, pull.dx));
}

template <class T, class Memory, int Rank, class Space>
bool RecordedRun<T, Memory, Rank, Space>::is_wanted(int buffer, const bool* wanted) const {
  const int input = plan_.adjoints[at(buffer)].input;
  return input < 0 || wanted[input];
}
template <class T, class Memory, int Rank, class Space>
void RecordedRun<T, Memory, Rank, Space>::add(const Space& space, const PlannedSum& sum,
                                              const bool* wanted) const {
  if (!is_wanted(sum.to, wanted)) return;
  const Field& to = adjoint_fields_[at(sum.to)];
  if (sum.a < 0)
    zero_value(space, to);
  else if (sum.b < 0)
    copy_gradient(space, to, adjoint_fields_[at(sum.a)]);
  else
    add_gradients(space, to, adjoint_fields_[at(sum.a)], adjoint_fields_[at(sum.b)]);
}

#define SHARD_RECORDED(T, Space, Rank)                             \
  template class RecordedRun<T, Space::memory_space, Rank, Space>; \
  template struct RecordedValue<T, Space::memory_space, Rank>;
#define SHARD_RECORDED_IN(Space)   \
  SHARD_RECORDED(float, Space, 3)  \
  SHARD_RECORDED(float, Space, 4)  \
  SHARD_RECORDED(float, Space, 5)  \
  SHARD_RECORDED(double, Space, 3) \
  SHARD_RECORDED(double, Space, 4) \
  SHARD_RECORDED(double, Space, 5)
SHARD_RECORDED_IN(Kokkos::DefaultExecutionSpace)
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
SHARD_RECORDED_IN(Kokkos::DefaultHostExecutionSpace)
#endif

}  // namespace shard::impl
