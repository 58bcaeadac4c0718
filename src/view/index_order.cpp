// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/index_order.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "index_directory.hpp"

#include "shard/base/error.hpp"

namespace shard {

namespace {

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

void require_parts(const char* function, std::size_t points, int parts,
                   const std::vector<double>& weights) {
  if (parts < 1)
    impl::throw_argument(function,
                         {"there can't be ", impl::text(parts), " parts; give 1 or more"});
  if (!weights.empty() && weights.size() != points)
    impl::throw_argument(function, {impl::text(static_cast<index_t>(points)), " points and ",
                                    impl::text(static_cast<index_t>(weights.size())),
                                    " weights are given; give one of each, or no weights"});
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!(weights[i] >= 0))
      impl::throw_argument(function, {"the weight of point ", impl::text(static_cast<index_t>(i)),
                                      " is below 0 or not a number"});
}

/// The number of points of a sorted list whose weight is nearest to a share of the whole.
template <class Weight>
std::size_t cut_at(std::size_t begin, std::size_t end, double share, const Weight& weight) {
  double all = 0;
  for (std::size_t i = begin; i < end; ++i) all += weight(i);
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const double w = weight(i);
    if (sum + w / 2 >= share * all) return i;
    sum += w;
  }
  return end;
}

class Bisection {
 public:
  Bisection(const std::vector<MeshPoint>& points, const std::vector<double>& weights)
      : points_(points), weights_(weights), order_(points.size()), part_(points.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  std::vector<int> of(int parts) {
    split(0, order_.size(), 0, parts);
    return std::move(part_);
  }

 private:
  void split(std::size_t begin, std::size_t end, int first, int parts) {
    if (parts == 1 || begin == end) {
      for (std::size_t i = begin; i < end; ++i) part_[order_[i]] = first;
      return;
    }
    std::size_t longest = 0;
    double length       = -1;
    for (std::size_t d = 0; d < 3; ++d) {
      double low = points_[order_[begin]][d], high = low;
      for (std::size_t i = begin; i < end; ++i) {
        low  = std::min(low, points_[order_[i]][d]);
        high = std::max(high, points_[order_[i]][d]);
      }
      if (high - low > length) std::tie(length, longest) = std::pair(high - low, d);
    }
    std::sort(order_.begin() + static_cast<std::ptrdiff_t>(begin),
              order_.begin() + static_cast<std::ptrdiff_t>(end), [&](std::size_t a, std::size_t b) {
                return std::pair(points_[a][longest], a) < std::pair(points_[b][longest], b);
              });
    const int low     = parts / 2;
    const auto middle = cut_at(begin, end, static_cast<double>(low) / parts, [&](std::size_t i) {
      return weights_.empty() ? 1.0 : weights_[order_[i]];
    });
    split(begin, middle, first, low);
    split(middle, end, first + low, parts - low);
  }

  const std::vector<MeshPoint>& points_;
  const std::vector<double>& weights_;
  std::vector<std::size_t> order_;
  std::vector<int> part_;
};

/// The place of a point of a cube of 2^21 cells a side on the Hilbert curve: Skilling 2004,
/// "Programming the Hilbert curve".
std::uint64_t hilbert_place(std::array<std::uint32_t, 3> x) {
  constexpr int bits = 21;
  for (std::uint32_t q = 1U << (bits - 1); q > 1; q >>= 1) {
    const std::uint32_t p = q - 1;
    for (std::size_t d = 0; d < 3; ++d)
      if ((x[d] & q) != 0) {
        x[0] ^= p;
      } else {
        const std::uint32_t t = (x[0] ^ x[d]) & p;
        x[0] ^= t;
        x[d] ^= t;
      }
  }
  x[1] ^= x[0];
  x[2] ^= x[1];
  std::uint32_t t = 0;
  for (std::uint32_t q = 1U << (bits - 1); q > 1; q >>= 1)
    if ((x[2] & q) != 0) t ^= q - 1;
  for (auto& value : x) value ^= t;
  std::uint64_t place = 0;
  for (int b = bits - 1; b >= 0; --b)
    for (std::size_t d = 0; d < 3; ++d) place = place << 1 | (x[d] >> b & 1U);
  return place;
}

/// The elements of one group in the order of reverse Cuthill and McKee.
std::vector<index_t> reverse_cuthill_mckee(const std::vector<index_t>& group,
                                           const std::vector<std::vector<index_t>>& near,
                                           std::size_t elements) {
  std::vector<char> waits(elements, 0);
  for (const index_t i : group) waits[at(i)] = 1;
  const auto fewer = [&](index_t a, index_t b) {
    return std::pair(near[at(a)].size(), a) < std::pair(near[at(b)].size(), b);
  };
  std::vector<index_t> starts = group, order;
  std::sort(starts.begin(), starts.end(), fewer);
  for (const index_t start : starts) {
    if (waits[at(start)] == 0) continue;
    waits[at(start)] = 0;
    order.push_back(start);
    for (std::size_t next = order.size() - 1; next < order.size(); ++next) {
      std::vector<index_t> found;
      for (const index_t j : near[at(order[next])])
        if (waits[at(j)] != 0) {
          waits[at(j)] = 0;
          found.push_back(j);
        }
      std::sort(found.begin(), found.end(), fewer);
      order.insert(order.end(), found.begin(), found.end());
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

std::vector<int> bisection(const std::vector<MeshPoint>& points, int parts,
                           const std::vector<double>& weights) {
  require_parts("bisection", points.size(), parts, weights);
  return Bisection(points, weights).of(parts);
}

std::vector<index_t> curve_order(const std::vector<MeshPoint>& points) {
  MeshPoint low{}, high{};
  if (!points.empty()) low = high = points[0];
  for (const MeshPoint& p : points)
    for (std::size_t d = 0; d < 3; ++d) {
      low[d]  = std::min(low[d], p[d]);
      high[d] = std::max(high[d], p[d]);
    }
  const double side = std::max({high[0] - low[0], high[1] - low[1], high[2] - low[2], 1e-300});
  std::vector<std::pair<std::uint64_t, index_t>> places;
  for (const MeshPoint& p : points) {
    std::array<std::uint32_t, 3> x{};
    for (std::size_t d = 0; d < 3; ++d)
      x[d] = static_cast<std::uint32_t>((p[d] - low[d]) / side * ((1 << 21) - 1));
    places.emplace_back(hilbert_place(x), static_cast<index_t>(places.size()));
  }
  std::sort(places.begin(), places.end());
  std::vector<index_t> order;
  for (const auto& [place, point] : places) order.push_back(point);
  return order;
}

std::vector<int> curve_partition(const std::vector<MeshPoint>& points, int parts,
                                 const std::vector<double>& weights) {
  require_parts("curve_partition", points.size(), parts, weights);
  const auto order  = curve_order(points);
  const auto weight = [&](std::size_t i) { return weights.empty() ? 1.0 : weights[at(order[i])]; };
  std::vector<int> part(points.size());
  double all = 0, sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) all += weight(i);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double w = weight(i), middle = sum + w / 2;
    part[at(order[i])] = all > 0 ? std::min(parts - 1, static_cast<int>(middle / all * parts)) : 0;
    sum += w;
  }
  return part;
}

OwnedOrder locality_order(const std::vector<std::int64_t>& ids, const Neighbours& neighbours) {
  if (neighbours.begin.size() != ids.size() + 1)
    impl::throw_argument("locality_order",
                         {impl::text(static_cast<index_t>(ids.size())), " ids and neighbours of ",
                          impl::text(static_cast<index_t>(neighbours.begin.size()) - 1),
                          " elements are given; give those of each id"});
  std::unordered_map<std::int64_t, index_t> place;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!place.emplace(ids[i], static_cast<index_t>(i)).second)
      impl::throw_argument("locality_order", {"the id ", impl::text(static_cast<index_t>(ids[i])),
                                              " is given twice"});
  std::vector<std::vector<index_t>> near(ids.size());
  std::vector<index_t> inner, outer;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool reads_halo = false;
    for (index_t n = neighbours.begin[i]; n < neighbours.begin[i + 1]; ++n) {
      const auto found = place.find(neighbours.id[at(n)]);
      reads_halo       = reads_halo || found == place.end();
      if (found != place.end() && found->second != static_cast<index_t>(i))
        near[i].push_back(found->second);
    }
    (reads_halo ? outer : inner).push_back(static_cast<index_t>(i));
  }
  OwnedOrder made{reverse_cuthill_mckee(inner, near, ids.size()),
                  static_cast<index_t>(inner.size())};
  const auto rest = reverse_cuthill_mckee(outer, near, ids.size());
  made.order.insert(made.order.end(), rest.begin(), rest.end());
  return made;
}

namespace impl {

FloodedIds flood(MPI_Comm comm, const std::vector<std::int64_t>& ids, const FloodedIds* cells,
                 const Neighbours& neighbours, int layers) {
  std::string wrong;
  const std::size_t own = cells == nullptr ? ids.size() : at(cells->owned);
  if (neighbours.begin.size() != own + 1)
    wrong = text(static_cast<index_t>(own)) + " ids and neighbours of " +
            text(static_cast<index_t>(neighbours.begin.size()) - 1) +
            " elements are given; give those of each id";
  if (layers < 0) wrong = "there can't be " + text(layers) + " layers";
  require_no_error(comm, "flood", wrong);
  int most = layers;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, comm);
  if (cells != nullptr) layers = most;  // of a rank without halo there are fewer
  if (most != layers) wrong = text(layers) + " layers on this rank, " + text(most) + " on another";
  require_no_error(comm, "flood", wrong);

  SparseExchange exchange(comm);
  std::vector<Home> cell_homes;
  if (cells != nullptr) cell_homes = homes_of(comm, exchange, cells->ids, cells->owned, wrong);
  require_no_error(comm, "flood", wrong);
  FloodedIds made{ids, static_cast<index_t>(ids.size()), {}};
  std::set<std::int64_t> known(ids.begin(), ids.end()), next;
  const auto read = [&](std::int64_t id) {
    if (known.insert(id).second) next.insert(id);
  };
  for (const std::int64_t id : neighbours.id) read(id);
  for (int layer = 1; layer <= layers; ++layer) {
    std::vector<std::int64_t> places = ids;
    places.insert(places.end(), next.begin(), next.end());
    const auto homes = homes_of(comm, exchange, places, made.owned, wrong);
    require_no_error(comm, "flood", wrong);
    std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> sorted;  // rank, place, id
    for (std::size_t i = 0; i < homes.size(); ++i)
      sorted.emplace_back(homes[i].rank, homes[i].place, places[ids.size() + i]);
    std::sort(sorted.begin(), sorted.end());
    std::map<int, std::vector<std::int64_t>> asked, answers;
    const auto ask = [&](std::int64_t rank, std::int64_t place) {
      asked[static_cast<int>(rank)].push_back(place);
    };
    for (const auto& [rank, place, id] : sorted) {
      made.ids.push_back(id);
      made.layers.push_back(layer);
      if (cells == nullptr) ask(rank, place);
    }
    for (std::size_t c = 0; c < cell_homes.size(); ++c)
      if (cells->layers[c] == layer) ask(cell_homes[c].rank, cell_homes[c].place);
    next.clear();
    if (layer == layers) break;
    for (const auto& [rank, list] : exchange(asked))
      for (const std::int64_t place : list)
        answers[rank].insert(answers[rank].end(),
                             neighbours.id.begin() + neighbours.begin[at(place)],
                             neighbours.id.begin() + neighbours.begin[at(place + 1)]);
    for (const auto& [rank, list] : exchange(answers))
      for (const std::int64_t id : list) read(id);
  }
  return made;
}

}  // namespace impl
}  // namespace shard
