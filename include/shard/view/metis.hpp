// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_METIS_HPP
#define SHARD_VIEW_METIS_HPP

#include <metis.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/view/index_order.hpp"

/// \file
/// Partitions by METIS, where it is installed. Link METIS; nothing else of the library needs it.

namespace shard {

/// The part (0 to parts - 1) of each element of a graph, with few pairs of neighbours in two parts,
/// by METIS (Karypis and Kumar 1998). `neighbours` are those of all elements, whose ids are 0, 1,
/// ...; if one names another, they are neighbours. Weights (default: all 1) are what the parts
/// share about equally. The same graph gives the same parts on every rank. Local. Throws
/// ArgumentError for parts < 1, an id that isn't an element's, weights of another number or below
/// 0, and if METIS fails.
inline std::vector<int> metis_partition(const Neighbours& neighbours, int parts,
                                        const std::vector<double>& weights = {}) {
  const char* const name = "metis_partition";
  const std::size_t n    = neighbours.begin.size() - 1;
  if (parts < 1) impl::throw_argument(name, {impl::text(parts), " parts; give at least 1"});
  if (!weights.empty() && weights.size() != n)
    impl::throw_argument(name, {impl::text(static_cast<index_t>(n)), " elements and ",
                                impl::text(static_cast<index_t>(weights.size())),
                                " weights are given; give one for each element"});
  std::vector<std::pair<idx_t, idx_t>> pairs;  // of neighbours, in both directions
  for (std::size_t i = 0; i < n; ++i)
    for (index_t k = neighbours.begin[i]; k < neighbours.begin[i + 1]; ++k) {
      const std::int64_t id = neighbours.id[static_cast<std::size_t>(k)];
      if (id < 0 || id >= static_cast<std::int64_t>(n))
        impl::throw_argument(
            name, {"element ", impl::text(static_cast<index_t>(i)), " has the neighbour ",
                   impl::text(static_cast<index_t>(id)), "; the ids are those of ",
                   impl::text(static_cast<index_t>(n)), " elements"});
      if (id == static_cast<std::int64_t>(i)) continue;
      pairs.emplace_back(static_cast<idx_t>(i), static_cast<idx_t>(id));
      pairs.emplace_back(static_cast<idx_t>(id), static_cast<idx_t>(i));
    }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::vector<idx_t> begin(n + 1), near, work, part(n);
  for (const auto& [i, id] : pairs) {
    ++begin[static_cast<std::size_t>(i) + 1];
    near.push_back(id);
  }
  for (std::size_t i = 0; i < n; ++i) begin[i + 1] += begin[i];
  const double most = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  for (const double w : weights) {
    if (!(w >= 0)) impl::throw_argument(name, {"a weight is negative or NaN"});
    work.push_back(most > 0 ? static_cast<idx_t>(w / most * 1000 + 0.5) : 1);  // METIS has integers
  }
  if (parts > 1 && n > 0) {
    idx_t options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = 1;
    auto elements = static_cast<idx_t>(n), constraints = idx_t{1}, wanted = idx_t{parts},
         cut        = idx_t{0};
    const auto call = parts > 8 ? METIS_PartGraphKway : METIS_PartGraphRecursive;
    const int code  = call(&elements, &constraints, begin.data(), near.data(),
                          work.empty() ? nullptr : work.data(), nullptr, nullptr, &wanted, nullptr,
                           nullptr, options, &cut, part.data());
    if (code != METIS_OK)
      impl::throw_argument(name, {"METIS failed with the code ", impl::text(code)});
  }
  return {part.begin(), part.end()};
}

}  // namespace shard

#endif
