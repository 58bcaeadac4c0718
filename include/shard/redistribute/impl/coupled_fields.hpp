// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_IMPL_COUPLED_FIELDS_HPP
#define SHARD_REDISTRIBUTE_IMPL_COUPLED_FIELDS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/redistribute/impl/common_partition.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

/// The value type that two sides send: the shorter one.
template <class A, class B>
using CommonValue = std::conditional_t<(sizeof(A) < sizeof(B)), A, B>;

/// A View's data type with other values.
template <class Data, class Value>
struct WithValue {
  using type = Value;
};
template <class Data, class Value>
struct WithValue<Data*, Value> {
  using type = typename WithValue<Data, Value>::type*;
};
template <class Data, std::size_t N, class Value>
struct WithValue<Data[N], Value> {
  using type = typename WithValue<Data, Value>::type[N];
};

template <class Field, class Value>
struct ConvertedField;
template <class Data, class Layout, class... Options, class Value>
struct ConvertedField<ShardedView<Data, Layout, Options...>, Value> {
  using type = ShardedView<typename WithValue<Data, Value>::type, Layout, Options...>;
};

template <class To, class From, bool Adds>
struct ConvertKernel {
  To to;
  From from;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const auto value = static_cast<typename To::value_type>(from(i...));
    if constexpr (Adds)
      to(i...) += value;
    else
      to(i...) = value;
  }
};

/// This rank's fields of one side of a coupling, and what is sent: these fields, or buffers of
/// another value type.
template <class Field, class Value>
class CoupledFields {
  static constexpr bool converts = !std::is_same_v<typename Field::non_const_value_type, Value>;
  using Sent =
      std::conditional_t<converts, typename ConvertedField<OwnedOnlyOf<Field>, Value>::type, Field>;

 public:
  CoupledFields() = default;
  template <class Fields>
  explicit CoupledFields(const Fields* fields) : is_in_(fields != nullptr) {
    if (!is_in_) return;
    each_field([&](const auto& field) { fields_.push_back(field); }, *fields);
    if constexpr (converts)
      for (const Field& field : fields_)
        sent_.push_back(FieldAccess::allocate<Sent>(field.any_geometry()));
  }

  bool is_in() const { return is_in_; }
  /// Throws ArgumentError unless these fields can be in the place of the present ones.
  template <class Fields>
  void require_in_place(const Fields& fields, bool is_under_way) const {
    require_count("Coupling", fields_.size(), field_count(fields));
    std::size_t f = 0;
    each_field(
        [&](const Field& field) {
          const Field& now = fields_[f++];
          impl::require_in_place(ArgsOf()(now), ArgsOf()(field),
                                 is_under_way && field.origin() != now.origin());
        },
        fields);
  }
  template <class Fields>
  void set(const Fields& fields) {
    std::size_t f = 0;
    each_field([&](const Field& field) { fields_[f++] = field; }, fields);
  }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<Sent>& sent() const {
    if constexpr (converts)
      return sent_;
    else
      return fields_;
  }
  std::vector<FieldArgs> args() const { return args_of(sent()); }
  std::vector<void*> addresses() const { return addresses_of(sent()); }
  /// Fills the buffers, or sets them to zero.
  template <class Space>
  void fill(const Space& space) const {
    if constexpr (converts)
      for (std::size_t f = 0; f < fields_.size(); ++f) convert<false>(space, sent_[f], fields_[f]);
  }
  template <class Space>
  void clear(const Space& space) const {
    if constexpr (converts) zero_owned(space, sent_);
  }
  /// Copies the buffers to the fields, or adds them.
  template <bool Adds, class Space>
  void take(const Space& space) const {
    if constexpr (converts)
      for (std::size_t f = 0; f < fields_.size(); ++f) convert<Adds>(space, fields_[f], sent_[f]);
  }

 private:
  template <bool Adds, class Space, class A, class B>
  static void convert(const Space& space, const A& to, const B& from) {
    parallel_for("shard::convert", space, owned_region(to), ConvertKernel<A, B, Adds>{to, from});
  }

  bool is_in_ = false;
  std::vector<Field> fields_;
  std::vector<Sent> sent_;  // empty if the fields are sent themselves
};

}  // namespace shard::impl

#endif
