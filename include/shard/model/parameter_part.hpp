// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_PARAMETER_PART_HPP
#define SHARD_MODEL_PARAMETER_PART_HPP

#include <Kokkos_Core.hpp>

#include <utility>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"

namespace shard {

/// The contiguous part of a model's values that one rank updates. The ranks' parts are disjoint and
/// together they are all values. Made by GradientSum::part.
struct ParameterPart {
  index_t begin = 0;     ///< the first value
  index_t count = 0;     ///< number of values
  index_t whole = 0;     ///< number of values of all parts together
  int copies    = 1;     ///< ranks of the mesh with the same part
  bool is_first = true;  ///< whether this rank is the first one of those

  /// This part of parameters or gradients. Throws ArgumentError for another number of values.
  template <class View>
  View of(const View& values) const {
    if (static_cast<index_t>(values.extent(0)) != whole)
      impl::throw_argument("ParameterPart::of",
                           {"it is a part of ", impl::text(whole), " values, given ",
                            impl::text(static_cast<index_t>(values.extent(0)))});
    return Kokkos::subview(values, std::pair<index_t, index_t>(begin, begin + count));
  }
};

}  // namespace shard

#endif
