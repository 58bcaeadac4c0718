// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "exchange/runtime_field.hpp"

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "shard/base/error.hpp"
#include "shard/view/index_map.hpp"

namespace shard::testing {

namespace {

using impl::DimType;
using impl::FieldSpec;
using impl::Geometry;
using impl::max_rank;
using impl::ValueKind;

constexpr auto at = Geometry::at;

std::uint64_t scramble(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t scramble(std::uint64_t salt, int rank, const Index& index) {
  std::uint64_t hash = scramble(salt + static_cast<std::uint64_t>(rank) * 77);
  for (const index_t i : index) hash = scramble(hash + static_cast<std::uint64_t>(i));
  return hash;
}

constexpr int opaque_number_bytes =
    5;  // of an opaque value that hold its number; others follow from it

constexpr double real_alone =
    0.5;  // marks a complex value without the imaginary part that ours have

struct Store {
  double value;
  std::byte* to;
  template <class T>
  void operator()() const {
    T typed;
    if constexpr (std::is_integral_v<T>)
      typed = static_cast<T>(static_cast<std::int64_t>(value));
    else if constexpr (requires { typed.imag(); })
      typed = T(static_cast<typename T::value_type>(value),
                static_cast<typename T::value_type>(2 * value));
    else
      typed = static_cast<T>(value);
    std::memcpy(to, &typed, sizeof(T));
  }
};

struct Load {
  const std::byte* from;
  double* value;
  template <class T>
  void operator()() const {
    T typed;
    std::memcpy(&typed, from, sizeof(T));
    if constexpr (std::is_integral_v<T>)
      *value = static_cast<double>(static_cast<std::int64_t>(typed));
    else if constexpr (requires { typed.imag(); })
      *value = typed.imag() == 2 * typed.real() ? static_cast<double>(typed.real())
               : typed.imag() == 0              ? static_cast<double>(typed.real()) + real_alone
                                                : std::numeric_limits<double>::quiet_NaN();
    else
      *value = static_cast<double>(typed);
  }
};

void store(ValueKind kind, int size, double value, std::byte* to) {
  if (kind == ValueKind::boolean) {
    const bool bit = value != 0;
    std::memcpy(to, &bit, 1);
  } else if (kind == ValueKind::opaque) {
    const auto number = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    for (int b = 0; b < size; ++b)
      to[b] = static_cast<std::byte>(b < opaque_number_bytes ? number >> (8 * b)
                                     : number == 0           ? 0
                                                   : number * 31 + static_cast<unsigned>(b));
  } else {
    impl::visit_arithmetic(kind, Store{value, to});
  }
}

double load(ValueKind kind, int size, const std::byte* from) {
  double value = 0;
  if (kind == ValueKind::boolean) return from[0] == std::byte{0} ? 0 : 1;
  if (kind != ValueKind::opaque) {
    impl::visit_arithmetic(kind, Load{from, &value});
    return value;
  }
  std::uint64_t number = 0;
  for (int b = 0; b < std::min(size, opaque_number_bytes); ++b)
    number |= static_cast<std::uint64_t>(from[b]) << (8 * b);
  std::vector<std::byte> whole(static_cast<std::size_t>(size));
  store(kind, size, static_cast<double>(number), whole.data());
  return std::memcmp(whole.data(), from, whole.size()) == 0
             ? static_cast<double>(number)
             : std::numeric_limits<double>::quiet_NaN();
}

bool can_add(const FieldDescription& d) {
  return d.kind != ValueKind::opaque && d.kind != ValueKind::boolean;
}

std::string words_of(const Index& index, int rank) { return impl::text(index.data(), rank); }

}  // namespace

std::string FieldDescription::words() const {
  std::string all = "kind " + std::to_string(static_cast<int>(kind)) + " of " +
                    std::to_string(value_size) + (left ? " bytes, left" : " bytes, right");
  for (std::size_t d = 0; d < dims.size(); ++d) {
    all += "; " + partitions[d].describe() + " halo " + std::to_string(dims[d].lo) + "+" +
           std::to_string(dims[d].hi) + " boundaries " +
           std::to_string(static_cast<int>(dims[d].low.kind)) + (dims[d].low.odd ? "odd " : " ") +
           std::to_string(static_cast<int>(dims[d].high.kind)) + (dims[d].high.odd ? "odd" : "") +
           " axes";
    for (int a = 0; a < dims[d].axis_count; ++a) all += " " + std::to_string(dims[d].axes[at(a)]);
  }
  return all;
}

RuntimeField::RuntimeField(const std::shared_ptr<impl::MeshState>& mesh,
                           const FieldDescription& description, int padding)
    : mesh_(mesh), description_(description) {
  const int rank = description_.rank();
  geometry_      = impl::make_geometry("field", mesh, rank, description_.dims.data(), nullptr,
                                       description_.partitions.data());
  index_t next = 1 + padding / 3, front = 0;
  for (int k = 0; k < rank; ++k) {
    const int d      = description_.left ? k : rank - 1 - k;
    const DimType& t = description_.dims[at(d)];
    stride_[at(d)]   = next;
    front += next * t.lo;
    next = next * (count(d, mesh->rank()) + t.lo + t.hi) + (k == 0 ? padding : 0);
  }
  bytes_.resize(static_cast<std::size_t>((next + 1) * description_.value_size), std::byte{0xA5});
  data_  = bytes_.data();
  first_ = static_cast<std::size_t>(front * description_.value_size);

  std::vector<int> place(static_cast<std::size_t>(mesh->axes()), 0);
  places_.resize(static_cast<std::size_t>(mesh->size()));
  for (int i = 0; i < mesh->size(); ++i) {
    places_[static_cast<std::size_t>(mesh->rank_at(place.data()))] = place;
    for (int a = mesh->axes() - 1; a >= 0; --a) {
      if (++place[at(a)] < mesh->extent(a)) break;
      place[at(a)] = 0;
    }
  }
}

void RuntimeField::share(bool here) {
  piece_ = impl::SharedPool::of(*mesh_)->allocate(here ? bytes_.size() : 0);
  if (piece_.data() == nullptr) return;
  data_ = piece_.data();
  std::copy(bytes_.begin(), bytes_.end(), data_);
}

FieldSpec RuntimeField::spec() const {
  return impl::exchange_spec(geometry_, description_.dims.data(), description_.kind,
                             description_.value_size, description_.left, stride_.data());
}

int RuntimeField::coordinate(int d, int rank) const {
  const DimType& t = description_.dims[at(d)];
  int c            = 0;
  for (int a = 0; a < t.axis_count; ++a)
    c = c * mesh_->extent(t.axes[at(a)]) +
        places_.at(static_cast<std::size_t>(rank))[at(t.axes[at(a)])];
  return c;
}

index_t RuntimeField::begin(int d, int rank) const {
  return description_.partitions[at(d)].begin(places_.empty() ? geometry_.dims[at(d)].coordinate
                                                              : coordinate(d, rank));
}
index_t RuntimeField::count(int d, int rank) const {
  return description_.partitions[at(d)].count(places_.empty() ? geometry_.dims[at(d)].coordinate
                                                              : coordinate(d, rank));
}

/// Of a copy in the last row of a north fold: the element that it is a copy of.
std::optional<Index> RuntimeField::original(const Index& global, bool& negative) const {
  for (int d = 0; d < description_.rank(); ++d) {
    const BoundarySide& side = description_.dims[at(d)].high;
    const index_t n          = description_.partitions[at(d)].size();
    if (!impl::shares_row(side.kind) || global[at(d)] != n - 1) continue;
    const index_t columns = description_.partitions[at(side.longitude)].size();
    if (!is_copy(side, global[at(side.longitude)], columns)) continue;
    Index other               = global;
    other[at(side.longitude)] = longitude_across(side, global[at(side.longitude)], columns);
    if (side.kind == BoundaryKind::north_before_row) other[at(d)] = n - 2;
    negative = negative != side.odd;
    return other;
  }
  return std::nullopt;
}

RuntimeField::Source RuntimeField::source(int rank, const Index& cell) const {
  Source source;
  std::array<std::optional<BoundarySide>, max_rank> across{};
  for (int d = 0; d < description_.rank(); ++d) {
    const DimType& t     = description_.dims[at(d)];
    const index_t n      = description_.partitions[at(d)].size();
    const index_t g      = begin(d, rank) + cell[at(d)];
    source.global[at(d)] = g;
    if (g >= 0 && g < n) continue;
    BoundarySide side = g < 0 ? t.low : t.high;
    if (side.count > 0) side = side.sides[begin(side.longitude, rank) + cell[at(side.longitude)]];
    if (side.kind == BoundaryKind::given) source.given = true;
    const Image image = image_of(side.kind, g, n);
    if (image.constant) {
      if (!source.constant) source.constant = side.value.as<double>();
      continue;
    }
    source.global[at(d)] = image.source;
    if (image.crossed % 2 != 0) {
      if (side.longitude >= 0) {
        auto& there = across[at(side.longitude)];
        if (there)
          there.reset();
        else
          there = side;
      }
      if (side.odd) source.negative = !source.negative;
    }
  }
  if (source.given || source.constant) return source;
  for (int d = 0; d < description_.rank(); ++d)
    if (across[at(d)])
      source.global[at(d)] = longitude_across(*across[at(d)], source.global[at(d)],
                                              description_.partitions[at(d)].size());
  if (const auto other = original(source.global, source.negative)) source.global = *other;
  std::vector<int> place = places_[static_cast<std::size_t>(rank)];
  for (int d = 0; d < description_.rank(); ++d) {
    const Partition& p = description_.partitions[at(d)];
    const DimType& t   = description_.dims[at(d)];
    int owner = 0;  // by search: the oracle shares nothing with the plan that it can do without
    while (source.global[at(d)] >= p.end(owner)) ++owner;
    for (int a = t.axis_count - 1; a >= 0; --a) {
      place[at(t.axes[at(a)])] = owner % mesh_->extent(t.axes[at(a)]);
      owner /= mesh_->extent(t.axes[at(a)]);
    }
  }
  source.owner = mesh_->rank_at(place.data());
  return source;
}

void RuntimeField::for_cells(int rank,
                             const std::function<void(const Index&, bool owned)>& visit) const {
  Index cell{}, low{}, high{};
  for (int d = 0; d < description_.rank(); ++d) {
    low[at(d)] = cell[at(d)] = -description_.dims[at(d)].lo;
    high[at(d)]              = count(d, rank) + description_.dims[at(d)].hi;
    if (low[at(d)] >= high[at(d)]) return;
  }
  for (;;) {
    bool owned = true;
    for (int d = 0; d < description_.rank(); ++d)
      owned = owned && cell[at(d)] >= 0 && cell[at(d)] < count(d, rank);
    if (owned) {
      Index global = cell;
      for (int d = 0; d < description_.rank(); ++d) global[at(d)] += begin(d, rank);
      bool negative = false;
      owned         = !original(global, negative);
    }
    visit(cell, owned);
    int d = description_.rank() - 1;
    while (d >= 0 && ++cell[at(d)] == high[at(d)]) {
      cell[at(d)] = low[at(d)];
      --d;
    }
    if (d < 0) return;
  }
}

std::int64_t RuntimeField::number(std::uint64_t salt, int rank, const Index& cell) const {
  const std::uint64_t hash = scramble(~salt, rank, cell);
  if (description_.kind == ValueKind::boolean) return static_cast<std::int64_t>(hash % 2);
  const auto size = static_cast<std::int64_t>(1 + hash % 3);
  return (hash >> 32) % 2 == 0 ? size : -size;
}

std::int64_t RuntimeField::owned_number(std::uint64_t salt, const Index& global) const {
  const std::uint64_t hash = scramble(salt, 0, global);
  if (description_.kind == ValueKind::boolean) return static_cast<std::int64_t>(hash % 2);
  if (description_.kind == ValueKind::opaque && description_.value_size >= opaque_number_bytes)
    return static_cast<std::int64_t>(1 + hash % (std::uint64_t{1} << 38));
  return static_cast<std::int64_t>(1 + hash % 100);
}

std::size_t RuntimeField::offset(const Index& cell) const {
  index_t o = 0;
  for (int d = 0; d < description_.rank(); ++d) o += cell[at(d)] * stride_[at(d)];
  return static_cast<std::size_t>(static_cast<index_t>(first_) + o * description_.value_size);
}

double RuntimeField::get(const Index& cell) const {
  return load(description_.kind, description_.value_size, data_ + offset(cell));
}
void RuntimeField::set(const Index& cell, double value) {
  store(description_.kind, description_.value_size, value, data_ + offset(cell));
}
double RuntimeField::as_stored(double value) const {
  std::vector<std::byte> there(static_cast<std::size_t>(description_.value_size));
  store(description_.kind, description_.value_size, value, there.data());
  return load(description_.kind, description_.value_size, there.data());
}

std::string check_exchange(const std::shared_ptr<impl::MeshState>& mesh,
                           const std::vector<FieldDescription>& descriptions, std::uint64_t salt,
                           MessageLayout* used) {
  using Memory = Kokkos::HostSpace;
  const Kokkos::DefaultHostExecutionSpace space;
  std::vector<RuntimeField> fields;
  std::vector<FieldSpec> specs;
  for (std::size_t f = 0; f < descriptions.size(); ++f) {
    // ranks may have different strides
    fields.emplace_back(mesh, descriptions[f],
                        static_cast<int>((salt + f + static_cast<unsigned>(mesh->rank())) % 4));
    // in shared memory or not, and on some ranks only
    if (salt / 2 % 2 == 0)
      fields.back().share(salt / 4 % 4 > 0 ||
                          (salt + static_cast<unsigned>(mesh->rank())) % 2 == 0);
    specs.push_back(fields.back().spec());
  }
  Tuning tuning;
  tuning.direct_run = salt / 16 % 2 == 0 ? 1 : 24;
  if (salt / 32 % 8 == 0) tuning.transport = TransportKind::mpi;
  constexpr MessageLayout layouts[] = {MessageLayout::one_per_peer, MessageLayout::by_dimension,
                                       MessageLayout::one_per_peer, MessageLayout::one_per_box,
                                       MessageLayout::by_dimension, MessageLayout::one_per_field,
                                       MessageLayout::by_size};
  tuning.messages                   = layouts[salt / 256 % 7];
  const auto plan                   = impl::FieldPlan<Memory>::make(*mesh, specs, tuning);
  if (used != nullptr) *used = plan->tuning().messages;
  std::vector<void*> addresses;
  for (RuntimeField& f : fields) addresses.push_back(f.origin());
  const auto run = [&](impl::Direction direction) {
    plan->finish(space, plan->start(space, {addresses.data(), addresses.data()}, direction));
  };

  const int me = mesh->rank();
  std::string wrong;
  const auto expect = [&](const char* what, std::size_t f, const Index& cell, double got,
                          double wanted) {
    if (got == wanted || wrong.size() > 2000) return;
    wrong += std::string(what) + ", field " + std::to_string(f) + " (" + descriptions[f].words() +
             "), rank " + std::to_string(me) + ", cell " + words_of(cell, descriptions[f].rank()) +
             ": " + std::to_string(got) + " instead of " + std::to_string(wanted) + "\n";
  };

  // forward: owned cells known, the halo filled with rubbish
  std::set<int> read_from, sent_to;
  for (int i = 0; i < 3; ++i) {  // buffers serve again
    for (RuntimeField& field : fields)
      field.for_cells(me, [&](const Index& cell, bool owned) {
        const auto source = field.source(me, cell);
        field.set(cell, owned ? static_cast<double>(field.owned_number(
                                    salt + static_cast<unsigned>(me), source.global))
                              : 55);
      });
    run(impl::Direction::forward);
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    RuntimeField& field = fields[f];
    field.for_cells(me, [&](const Index& cell, bool owned) {
      const auto source = field.source(me, cell);
      if (source.given) {
        expect("forward, given", f, cell, field.get(cell), field.as_stored(55));
        return;
      }
      if (source.constant) {
        const bool complex =
            descriptions[f].kind == ValueKind::c32 || descriptions[f].kind == ValueKind::c64;
        expect("forward, constant", f, cell, field.get(cell),
               complex && *source.constant != 0 ? *source.constant + real_alone
                                                : field.as_stored(*source.constant));
        return;
      }
      if (source.owner != me) read_from.insert(source.owner);
      const auto value = static_cast<double>(
          field.owned_number(salt + static_cast<unsigned>(source.owner), source.global));
      expect(owned ? "forward, owned" : "forward, halo", f, cell, field.get(cell),
             field.as_stored(source.negative ? -value : value));
    });
  }

  // the transpose, cell by cell: every halo cell of every rank knows where it belongs
  bool all_add = true;
  for (const FieldDescription& d : descriptions) all_add = all_add && can_add(d);
  std::vector<std::map<Index, double>> sums(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    RuntimeField& field = fields[f];
    for (int r = 0; r < mesh->size(); ++r)
      field.for_cells(r, [&](const Index& cell, bool owned) {
        const auto value = static_cast<double>(field.number(salt, r, cell));
        if (r == me) field.set(cell, value);
        const auto source = field.source(r, cell);
        if (source.given || source.constant || source.owner != me) return;
        if (r != me) sent_to.insert(r);
        if (owned && r != me) return;
        sums[f][source.global] += source.negative ? -value : value;
      });
  }
  if (all_add) {
    run(impl::Direction::adjoint);
    for (std::size_t f = 0; f < fields.size(); ++f)
      fields[f].for_cells(me, [&](const Index& cell, bool owned) {
        const auto source = fields[f].source(me, cell);
        const double wanted =
            source.given
                ? fields[f].as_stored(static_cast<double>(fields[f].number(salt, me, cell)))
            : owned ? fields[f].as_stored(sums[f].at(source.global))
                    : 0;
        expect(owned ? "transposed, owned" : "transposed, halo", f, cell, fields[f].get(cell),
               wanted);
      });
  }

  const auto expect_count = [&](const char* what, int got, std::size_t wanted) {
    if (got != static_cast<int>(wanted))
      wrong += "rank " + std::to_string(me) + " " + what + " " + std::to_string(got) +
               " messages instead of " + std::to_string(wanted) + "\n";
  };
  if (plan->tuning().messages == MessageLayout::one_per_peer) {
    expect_count("receives", plan->receives(), read_from.size());
    expect_count("sends", plan->sends(), sent_to.size());
  }
  return wrong;
}

}  // namespace shard::testing
