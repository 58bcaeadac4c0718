// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdint>
#include <limits>
#include <type_traits>

#include "handles.hpp"
#include "shard/reduce/impl/reduction_sums.hpp"
#include "shard/view/impl/same_points.hpp"

namespace shard::c {

/// The bits of a value as an integer.
struct BitsTerm {
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
    return static_cast<Sum>(Kokkos::bit_cast<Bits>(a));
  }
};

namespace {

using impl::CellRuns;
using impl::CellValues;
using impl::text;
using impl::throw_argument;

/// A field of C as the reductions see it.
template <class T, class Memory>
struct FieldElements {
  using value_type           = const T;
  using non_const_value_type = T;
  using memory_space         = Memory;
  const shard_field_s* field;

  const impl::Geometry& geometry() const { return field->geometry; }
};

/// In the order of `like`.
template <class T, class Memory>
CellValues<const T> values_of(const FieldElements<T, Memory>& f, const shard_field_s& like) {
  CellValues<const T> values;
  values.origin  = reinterpret_cast<const T*>(f.field->origin);
  const int rank = like.geometry.rank;
  for (int d = 0; d < rank; ++d)
    values.stride[impl::run_dim(d, rank, like.left)] = f.field->stride[impl::Geometry::at(d)];
  return values;
}
template <class Like, class T, class Memory>
CellValues<const T> cell_values(const FieldElements<T, Memory>& f) {
  return values_of(f, *f.field);
}
template <class T, class Memory>
CellRuns cell_runs(const FieldElements<T, Memory>& f, index_t length) {
  const shard_field_s& field = *f.field;
  const int rank             = field.geometry.rank;
  CellRuns runs;
  for (int d = 0; d < rank; ++d) {
    runs.extent[impl::run_dim(d, rank, field.left)] = field.geometry.owned(d);
    runs.cells *= field.geometry.owned(d);
  }
  runs.length = length;
  runs.copies = impl::copies_of_folds(field.geometry, field.types.data(), field.left);
  return runs;
}

/// Calls use.operator()<T, Memory>(space) for the field's type and memory. `real`: of float and
/// double only.
template <bool Real, class Use>
void visit(const char* function, const shard_field_s& field, const Use& use) {
  field.fetch();
  const auto in = [&]<class T>(std::type_identity<T>) {
    if (field.on_device)
      use.template operator()<T, DeviceMemory>(device_space());
    else
      use.template operator()<T, Kokkos::HostSpace>(HostSpace());
  };
  switch (field.kind) {
    case impl::ValueKind::f32: return in(std::type_identity<float>{});
    case impl::ValueKind::f64: return in(std::type_identity<double>{});
    default: break;
  }
  if constexpr (!Real) {
    if (field.kind == impl::ValueKind::i32) return in(std::type_identity<std::int32_t>{});
    if (field.kind == impl::ValueKind::i64) return in(std::type_identity<std::int64_t>{});
  }
  throw_argument(function, {"\"", field.geometry.label, "\" has values of another type; it takes ",
                            Real ? "float or double" : "float, double or integers"});
}

Determinism order_of(const char* function, int order) {
  if (order != shard_on_one_mesh && order != shard_ordered)
    throw_argument(function, {"there is no order ", text(order)});
  return order == shard_ordered ? Determinism::ordered : Determinism::on_one_mesh;
}

template <class Sum, class Term, class Space, class T, class Memory, class Other>
Sum sum_of(const Space& space, Determinism order, const FieldElements<T, Memory>& like,
           const Term& term, const CellValues<const T>& a, const CellValues<const Other>& b) {
  if constexpr (std::is_same_v<Sum, double>)
    if (order == Determinism::ordered)
      return impl::world_sum<Determinism::ordered, Sum>(space, like, term, a, b);
  return impl::world_sum<Determinism::on_one_mesh, Sum>(space, like, term, a, b);
}

int extremum(const char* function, shard_field field, impl::Extremum which, double* value) {
  return guarded([&] {
    const auto& f = require(field, "the field");
    double& found = require(value, "the value");
    visit<false>(function, f, [&]<class T, class Memory>(const auto& space) {
      found = static_cast<double>(
          impl::world_extremum<T>(function, space, FieldElements<T, Memory>{&f}, which));
    });
  });
}

}  // namespace

}  // namespace shard::c

int shard_sum(shard_field field, int order, double* value, int64_t* integer) {
  using namespace shard::c;
  return guarded([&] {
    const auto& f   = require(field, "the field");
    const auto rule = order_of("sum", order);
    visit<false>("sum", f, [&]<class T, class Memory>(const auto& space) {
      const FieldElements<T, Memory> like{&f};
      const auto a  = values_of(like, f);
      using Sum     = std::conditional_t<std::is_integral_v<T>, shard::index_t, double>;
      const Sum sum = sum_of<Sum>(space, rule, like, shard::impl::ValueTerm{}, a, a);
      if (value != nullptr) *value = static_cast<double>(sum);
      if constexpr (std::is_integral_v<T>)
        if (integer != nullptr) *integer = sum;
    });
  });
}

int shard_dot(shard_field a, shard_field b, int order, double* value) {
  using namespace shard::c;
  return guarded([&] {
    const auto &f = require(a, "the first field"), &g = require(b, "the second field");
    double& found   = require(value, "the value");
    const auto rule = order_of("dot", order);
    shard::impl::require_same_points("dot", f.geometry, g.geometry);
    if (f.on_device != g.on_device)
      shard::impl::throw_argument("dot", {"one field is in host memory, the other isn't"});
    visit<true>("dot", f, [&]<class T, class Memory>(const auto& space) {
      visit<true>("dot", g, [&]<class S, class>(const auto&) {
        const FieldElements<T, Memory> like{&f};
        found = sum_of<double>(space, rule, like, shard::impl::ProductTerm{}, values_of(like, f),
                               values_of(FieldElements<S, Memory>{&g}, f));
      });
    });
  });
}

int shard_min(shard_field field, double* value) {
  return shard::c::extremum("min", field, shard::impl::Extremum::least, value);
}
int shard_max(shard_field field, double* value) {
  return shard::c::extremum("max", field, shard::impl::Extremum::greatest, value);
}

int shard_checksum(shard_field field, uint64_t* value) {
  using namespace shard::c;
  return guarded([&] {
    const auto& f   = require(field, "the field");
    uint64_t& found = require(value, "the value");
    visit<false>("checksum", f, [&]<class T, class Memory>(const auto& space) {
      const FieldElements<T, Memory> like{&f};
      const auto a = values_of(like, f);
      found        = static_cast<uint64_t>(
          sum_of<shard::index_t>(space, shard::Determinism::on_one_mesh, like, BitsTerm{}, a, a));
    });
  });
}
