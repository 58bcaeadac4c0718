// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/autodiff/impl/value_table.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

/// Distances in memory between points of two boxes along one stride: k stride, lo <= k <= hi.
struct Distances {
  index_t stride, lo, hi;
};

void append(std::vector<Distances>& all, const PartMemory& m, bool negative) {
  const auto bytes = static_cast<index_t>(m.bytes);
  const auto add   = [&](index_t stride, index_t last) {
    if (last > 0) all.push_back({stride, negative ? -last : 0, negative ? 0 : last});
  };
  for (std::size_t d = 0; d < m.rank; ++d)
    if (m.strides[d] != 0) add(m.strides[d] * bytes, m.extents[d] - 1);
  add(1, bytes - 1);
}

index_t floor_divided(index_t a, index_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// Whether `rest` is a sum of distances, one of each entry from `first` on. Strides decrease, so
/// few k come into question unless dimensions overlap each other.
bool reaches(const std::vector<Distances>& all, std::size_t first, index_t rest) {
  if (first == all.size()) return rest == 0;
  index_t lo = 0, hi = 0;
  for (std::size_t j = first + 1; j < all.size(); ++j) {
    lo += all[j].lo * all[j].stride;
    hi += all[j].hi * all[j].stride;
  }
  const Distances& d = all[first];
  if (d.stride == 1 && first + 1 == all.size()) return d.lo <= rest && rest <= d.hi;
  const index_t from = std::max(d.lo, -floor_divided(hi - rest, d.stride));
  const index_t to   = std::min(d.hi, floor_divided(rest - lo, d.stride));
  for (index_t k = from; k <= to; ++k)
    if (reaches(all, first + 1, rest - k * d.stride)) return true;
  return false;
}

std::string name_of(const PartMemory& m) {
  return m.label == nullptr ? std::string("a View") : "\"" + *m.label + "\"";
}

}  // namespace

bool PartMemory::is_memory_of(const PartMemory& other) const {
  return data == other.data && state == other.state && bytes == other.bytes && rank == other.rank &&
         extents == other.extents && strides == other.strides;
}

bool PartMemory::operator==(const PartMemory& other) const {
  return type == other.type && place == other.place && is_memory_of(other);
}

bool PartMemory::is_empty() const {
  return data == nullptr ||
         std::any_of(extents.begin(), extents.begin() + static_cast<index_t>(rank),
                     [](index_t n) { return n == 0; });
}

std::pair<std::uintptr_t, std::uintptr_t> PartMemory::bounds() const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  index_t last     = 0;
  for (std::size_t d = 0; d < rank; ++d) last += (extents[d] - 1) * strides[d];
  return {begin, begin + (static_cast<std::uintptr_t>(last) + 1) * bytes};
}

bool share_memory(const PartMemory& a, const PartMemory& b) {
  std::vector<Distances> all;
  append(all, a, false);
  append(all, b, true);
  std::sort(all.begin(), all.end(),
            [](const Distances& p, const Distances& q) { return p.stride > q.stride; });
  std::vector<Distances> merged;
  for (const Distances& d : all)
    if (!merged.empty() && merged.back().stride == d.stride) {
      merged.back().lo += d.lo;
      merged.back().hi += d.hi;
    } else {
      merged.push_back(d);
    }
  const auto from = static_cast<const char*>(a.data), to = static_cast<const char*>(b.data);
  return reaches(merged, 0, static_cast<index_t>(to - from));
}

struct ValueTable::Tables {
  struct Hash {
    std::size_t operator()(const PartMemory& m) const { return std::hash<const void*>()(m.data); }
  };
  /// Parts whose bounds overlap.
  struct Group {
    std::uintptr_t end;
    std::vector<const PartMemory*> parts;
  };
  std::unordered_map<PartMemory, std::unique_ptr<ValueSlot>, Hash> slots;
  std::map<std::uintptr_t, Group> groups;  ///< by where they begin
};

ValueTable::ValueTable(const char* function)
    : function_(function), tables_(std::make_unique<Tables>()) {}
ValueTable::ValueTable(ValueTable&&) noexcept            = default;
ValueTable& ValueTable::operator=(ValueTable&&) noexcept = default;
ValueTable::~ValueTable()                                = default;

ValueSlot* ValueTable::find(const PartMemory& memory) const {
  const auto found = tables_->slots.find(memory);
  return found == tables_->slots.end() ? nullptr : found->second.get();
}

ValueSlot& ValueTable::add(const PartMemory& memory, std::shared_ptr<const void> value,
                           const std::vector<ValueSlot*>& inputs) {
  // an empty part has the address of another perhaps
  auto [begin, end] =
      memory.is_empty() ? std::pair<std::uintptr_t, std::uintptr_t>(0, 0) : memory.bounds();
  auto first = tables_->groups.upper_bound(begin);
  if (first != tables_->groups.begin() && std::prev(first)->second.end > begin) --first;
  auto last = first;
  for (; last != tables_->groups.end() && last->first < end; ++last)
    for (const PartMemory* const other : last->second.parts) {
      if (!share_memory(memory, *other)) continue;
      // a part of an input, or another such part
      if (std::any_of(inputs.begin(), inputs.end(), [&](const ValueSlot* input) {
            return !input->memory->is_empty() && share_memory(*input->memory, *other);
          }))
        continue;
      if (memory.is_memory_of(*other))
        throw_argument(function_,
                       {name_of(memory), ": the same memory is known as ", name_of(*other),
                        " under two types or places: convert a field before it is first used, and "
                        "use that one"});
      throw_argument(function_,
                     {name_of(memory), " overlaps the memory of ", name_of(*other),
                      ", which has been used, without being that value. Their gradients would miss "
                      "each other: use the whole value, or take this part of it by an operation"});
    }
  const auto made      = tables_->slots.emplace(memory, std::make_unique<ValueSlot>()).first;
  made->second->memory = &made->first;
  made->second->value  = std::move(value);
  if (memory.is_empty()) return *made->second;
  std::vector<const PartMemory*> parts{&made->first};
  for (auto group = first; group != last; ++group) {
    begin = std::min(begin, group->first);
    end   = std::max(end, group->second.end);
    parts.insert(parts.end(), group->second.parts.begin(), group->second.parts.end());
  }
  tables_->groups.erase(first, last);
  tables_->groups.emplace(begin, Tables::Group{end, std::move(parts)});
  return *made->second;
}

void ValueTable::throw_not_new(const PartMemory& memory) const {
  throw_argument(function_, {"the output ", name_of(memory),
                             " of an operation is a value that has been used already; the "
                             "operation's `output` must return new memory at each call"});
}

void ValueTable::forget() {
  for (const auto& [memory, slot] : tables_->slots) slot->filled = false;
}

void ValueTable::clear() {
  tables_->groups.clear();
  tables_->slots.clear();
}

}  // namespace shard::impl
