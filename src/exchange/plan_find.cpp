// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans that a mesh caches. The key has what the fields have in common on all ranks.
#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "for_each_space.hpp"
#include "plan.hpp"
#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

std::vector<FieldSpec> specs_of(const FieldArgs* fields, int count) {
  std::vector<FieldSpec> specs;
  for (int f = 0; f < count; ++f)
    specs.push_back(exchange_spec(*fields[f].geometry, fields[f].types, fields[f].kind,
                                  fields[f].value_size, fields[f].layout == 1,
                                  fields[f].stride.data()));
  for (std::size_t f = 0; f < specs.size(); ++f) {
    specs[f].component = fields[f].component;
    specs[f].is_signed = fields[f].is_signed;
  }
  return specs;
}

MeshState& mesh_of(const FieldArgs* fields, int count) {
  for (int f = 1; f < count; ++f) {
    const Geometry* const two[] = {fields[0].geometry, fields[f].geometry};
    common_mesh(two, 2);
  }
  return *fields[0].geometry->mesh;
}

}  // namespace

/// The plans for fields that differ in their strides alone, the one that was used last at the end.
/// They send the same messages with the same tag, so each rank decides alone which of them it runs
/// and how many it caches.
template <class Memory>
struct FieldPlan<Memory>::Family : CachedPlan {
  // Written out, so that it is the host's: hipcc makes defaulted destructors for the device too.
  ~Family() override {}  // NOLINT(modernize-use-equals-default)
  std::size_t bytes() const override {
    std::size_t sum = plans.back()->bytes();  // with the channel, which all of them share
    for (std::size_t p = 0; p + 1 < plans.size(); ++p) sum += plans[p]->at_once_->table_bytes();
    return sum;
  }
  bool may_end() override {
    return std::all_of(plans.begin(), plans.end(),
                       [](const auto& plan) { return plan->may_end(); });
  }
  std::vector<std::shared_ptr<FieldPlan>> plans;
};

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::make_exchange(
    const FieldArgs* fields, int count, const Tuning& tuning, const FieldAddresses& addresses) {
  if (count == 0) return nullptr;
  MeshState& mesh = mesh_of(fields, count);
  return tuning.measured ? make_measured(mesh, specs_of(fields, count), tuning, addresses)
                         : make(mesh, specs_of(fields, count), tuning);
}

namespace {

/// Adds what is the same on every rank to a key; strides may differ.
template <class Memory>
void add_to_key(PlanKey& key, const FieldArgs& field) {
  const index_t instead_of_strides[max_rank] = {std::is_same_v<Memory, Kokkos::HostSpace> ? 1 : 0,
                                                field.layout};
  impl::add_to_key(key, *field.geometry, field.types, field.kind, field.value_size,
                   instead_of_strides);
  if (field.component == 0) return;
  const int component[] = {field.component, field.is_signed ? 1 : 0};
  key.mix(component, sizeof(component));
}

}  // namespace

/// The cached plan with this key for whose strides `same` holds, else one made from `specs()`: by
/// all ranks together for a new key, by this rank alone for new strides.
template <class Memory>
template <class Specs, class Same>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find(MeshState& mesh, const PlanKey& key,
                                                           const Specs& specs, const Same& same) {
  auto family = std::static_pointer_cast<Family>(mesh.find(key));
  if (!family) {
    auto made = make(mesh, specs());
    family    = std::make_shared<Family>();
    family->plans.push_back(made);
    mesh.keep(KeptKind::exchange, key, family);
    return made;
  }
  auto& plans = family->plans;
  for (auto plan = plans.rbegin(); plan != plans.rend(); ++plan)
    if (same((*plan)->fields_)) {
      std::rotate(plan.base() - 1, plan.base(), plans.end());
      return plans.back();
    }
  plans.push_back(plans.back()->sibling(specs()));
  if (static_cast<int>(plans.size()) > mesh.kept_plans()) plans.erase(plans.begin());
  return plans.back();
}

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find_exchange(const FieldArgs* fields,
                                                                    int count) {
  if (count == 0) return nullptr;
  MeshState& mesh = mesh_of(fields, count);
  PlanKey key     = PlanKey::of(KeyKind::exchange);
  for (int f = 0; f < count; ++f) add_to_key<Memory>(key, fields[f]);
  return find(
      mesh, key, [&] { return specs_of(fields, count); },
      [&](const std::vector<FieldSpec>& specs) {
        bool same = true;
        for (int f = 0; f < count; ++f)
          same = same && specs[static_cast<std::size_t>(f)].from_stride == fields[f].stride;
        return same;
      });
}

template <class Memory>
const std::shared_ptr<FieldPlan<Memory>>& FieldPlan<Memory>::for_fields(
    const char* function, const std::shared_ptr<FieldPlan>& plan, const FieldArgs* fields) {
  const auto& made_for = plan->fields_;
  bool same            = true;
  for (std::size_t f = 0; f < made_for.size(); ++f)
    same = require_same_extents(function, made_for[f], fields[f]) && same;
  if (same) return plan;
  for (std::size_t f = 0; plan->forward_.back() != plan->at_once_ && f < made_for.size(); ++f)
    require_served(function, made_for[f], fields[f]);
  auto& kept = plan->siblings_;
  for (const auto& other : kept) {
    bool suits = true;
    for (std::size_t f = 0; f < made_for.size(); ++f)
      suits = suits && other->fields_[f].from_stride == fields[f].stride;
    if (suits) return other;
  }
  auto specs = made_for;
  for (std::size_t f = 0; f < specs.size(); ++f)
    specs[f].from_stride = specs[f].to_stride = fields[f].stride;
  if (static_cast<int>(kept.size()) >= plan->at_once_->messages().mesh.kept_plans())
    kept.erase(kept.begin());
  kept.push_back(plan->sibling(std::move(specs)));
  return kept.back();
}

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find_part(const FieldArgs& field,
                                                                HaloPart part) {
  PlanKey key = PlanKey::of(KeyKind::exchange);
  add_to_key<Memory>(key, field);
  key.mix(&part, sizeof(part));
  return find(
      mesh_of(&field, 1), key,
      [&] {
        auto specs         = specs_of(&field, 1);
        specs.front().part = part;
        return specs;
      },
      [&](const std::vector<FieldSpec>& specs) {
        return specs.front().from_stride == field.stride;
      });
}

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find_move(const char* function,
                                                                const FieldArgs* to,
                                                                const FieldArgs* from, int count,
                                                                const Reindexing* dims) {
  if (count == 0) return nullptr;
  MeshState& mesh = mesh_of(to, count);
  PlanKey key     = PlanKey::of(KeyKind::move);
  const int rank  = to->geometry->rank;
  const auto at   = [&](int f, int d) { return static_cast<std::size_t>(f * rank + d); };
  std::vector<std::shared_ptr<const IndexHalo>> moved(at(count, 0));
  for (int f = 0; f < count; ++f) {
    const FieldArgs both[] = {to[f], from[f]};
    mesh_of(both, 2);
    add_to_key<Memory>(key, to[f]);
    add_to_key<Memory>(key, from[f]);
    for (int d = 0; d < rank; ++d) {
      const Reindexing& dim = dims[at(f, d)];
      moved[at(f, d)]       = index_move(mesh, to[f].geometry->dims[Geometry::at(d)],
                                         from[f].geometry->dims[Geometry::at(d)]);
      if (dim.is_identity()) continue;
      const index_t padding[]    = {d, dim.lo, dim.hi};
      const std::uint64_t ranges = dim.ranges ? dim.ranges->hash : 0;
      for (std::uint64_t* hash : {&key.a, &key.b}) {
        *hash = hash_bytes(padding, sizeof(padding), *hash);
        *hash = hash_bytes(&ranges, sizeof(ranges), *hash);
        *hash = hash_boundary(dim.low, *hash);
        *hash = hash_boundary(dim.high, *hash);
      }
    }
  }
  return find(
      mesh, key,
      [&] {
        std::vector<FieldSpec> specs = specs_of(to, count);
        for (int f = 0; f < count; ++f) {
          FieldSpec& spec = specs[static_cast<std::size_t>(f)];
          spec =
              move_spec(function, spec, *from[f].geometry, from[f].stride.data(), dims + at(f, 0));
          for (int d = 0; d < rank; ++d) spec.dims[Geometry::at(d)].moved = moved[at(f, d)];
        }
        return specs;
      },
      [&](const std::vector<FieldSpec>& specs) {
        bool same = true;
        for (int f = 0; f < count; ++f)
          same = same && specs[static_cast<std::size_t>(f)].to_stride == to[f].stride &&
                 specs[static_cast<std::size_t>(f)].from_stride == from[f].stride;
        return same;
      });
}

#define SHARD_FIND(Memory)                                                                       \
  template std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::make_exchange(                  \
      const FieldArgs*, int, const Tuning&, const FieldAddresses&);                              \
  template const std::shared_ptr<FieldPlan<Memory>>& FieldPlan<Memory>::for_fields(              \
      const char*, const std::shared_ptr<FieldPlan>&, const FieldArgs*);                         \
  template std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find_exchange(const FieldArgs*, \
                                                                               int);             \
  template std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find_part(const FieldArgs&,     \
                                                                           HaloPart);            \
  template std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::find_move(                      \
      const char*, const FieldArgs*, const FieldArgs*, int, const Reindexing*);
SHARD_FOR_EACH_MEMORY(SHARD_FIND)
#undef SHARD_FIND

}  // namespace shard::impl
