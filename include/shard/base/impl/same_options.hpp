// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_SAME_OPTIONS_HPP
#define SHARD_BASE_IMPL_SAME_OPTIONS_HPP

#include <mpi.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace shard::impl {

/// A number by which an object computes: an option, or how many values it is for.
struct NamedNumber {
  std::string_view name;
  double value;

  template <class Number>
  constexpr NamedNumber(std::string_view n, Number v) : name(n), value(static_cast<double>(v)) {}
};

/// With all digits: different numbers have different texts.
std::string text_of(double value);
/// "name value, name value", so.
std::string text_of(std::initializer_list<NamedNumber> options);

/// Collective: throws AgreementError, with both values, on every rank unless all ranks give the
/// same numbers, and the same weights to the last bit.
void require_same_options(MPI_Comm comm, std::string_view function,
                          std::initializer_list<NamedNumber> options,
                          const std::vector<double>& weights = {});

}  // namespace shard::impl

#endif
