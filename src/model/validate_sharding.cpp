// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/validate_sharding.hpp"

#include "shard/base/error.hpp"

namespace shard {

namespace impl {

namespace {

std::string percent(double share) { return text(static_cast<index_t>(100.0 * share + 0.5)) + " %"; }
std::string whole(double number) { return text(static_cast<index_t>(number)); }

}  // namespace

ShardingFinding in_words(const Finding& f, std::string place) {
  std::string words = place + ": ";
  switch (f.misfit) {
    case Misfit::window_across_shards:
      words += "shards don't begin at multiples of the stride " + text(f.wants) +
               " (one is off by " + text(f.has) + "), so the halo is " + whole(f.cost) +
               " cells wider";
      break;
    case Misfit::shard_below_halo:
      words += "the smallest shard has " + text(f.has) + " cells and the halo " + text(f.wants) +
               ", which come from up to " + whole(f.cost) + " ranks on a side";
      break;
    case Misfit::empty_shard:
      words += whole(f.cost) + " of " + text(f.has) + " ranks own nothing of " + text(f.wants) +
               " cells";
      break;
    case Misfit::uneven_work:
      words += "the largest of " + text(f.has) + " shards has " + text(f.wants) +
               " cells, the others wait " + percent(f.cost) + " of the time";
      break;
  }
  return {f, std::move(place), std::move(words)};
}

}  // namespace impl

std::vector<ShardingFinding> validate_sharding(index_t local_extent,
                                               const std::vector<index_t>& windows) {
  if (local_extent < 0)
    impl::throw_argument("validate_sharding", {"a shard of ", impl::text(local_extent), " cells"});
  std::vector<ShardingFinding> all;
  for (std::size_t i = 0; i < windows.size(); ++i, local_extent /= 2) {
    const index_t w = windows[i];
    if (w < 1) impl::throw_argument("validate_sharding", {"a window of ", impl::text(w), " cells"});
    if (local_extent % w != 0)
      all.push_back(impl::in_words({static_cast<int>(i), 0, Misfit::window_across_shards,
                                    local_extent % w, w, static_cast<double>(w - local_extent % w)},
                                   "level " + std::to_string(i)));
  }
  return all;
}

}  // namespace shard
