// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/multigrid_levels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "shard/base/error.hpp"

namespace shard::impl {

index_t LevelGrid::cells() const {
  index_t n = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) n *= extent[d];
  return n;
}

void LevelGrid::choose() {
  constexpr double strong = 0.3;  // of the strongest coupling
  double most             = 0.0;
  const auto all          = static_cast<std::size_t>(rank);
  const auto weight       = [&](std::size_t d) { return 1.0 / (spacing[d] * spacing[d]); };
  for (std::size_t d = 0; d < all; ++d) {
    if (extent[d] == 1 && walls[d] == 0) spacing[d] = std::numeric_limits<double>::infinity();
    if (extent[d] >= 4) most = std::max(most, weight(d));
  }
  // few cells whose coupling is much stronger become one first: no smoothing reduces what they
  // share
  const double others = most;
  const auto is_few   = [&](std::size_t d) {
    return extent[d] > 1 && extent[d] < 4 && strong * weight(d) > others && others > 0.0;
  };
  for (std::size_t d = 0; d < all; ++d)
    if (is_few(d)) most = std::max(most, weight(d));
  for (std::size_t d = 0; d < all; ++d)
    coarsens[d] = (extent[d] >= 4 || is_few(d)) && weight(d) >= strong * most;
}

LevelGrid LevelGrid::coarse() const {
  LevelGrid next = *this;
  for (std::size_t d = 0; d < 3; ++d)
    if (coarsens[d]) {
      next.extent[d] = (extent[d] + 1) / 2;
      next.spacing[d] *= static_cast<double>(extent[d]) / static_cast<double>(next.extent[d]);
    }
  next.choose();
  return next;
}

double LevelGrid::diagonal(double shift) const {
  double sum = shift;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d)
    sum += 2.0 / (spacing[d] * spacing[d]);
  return sum;
}

double LevelGrid::smallest_rough() const {
  double all = 0.0, least = 0.0, smooth = 0.0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    const double w = 1.0 / (spacing[d] * spacing[d]);
    all += w;
    if (coarsens[d])
      least = least == 0.0 ? w : std::min(least, w);
    else if (walls[d] > 0)  // half of the smallest eigenvalue along the dimension
      smooth +=
          2.0 * w *
          std::pow(std::sin(std::acos(0.0) * walls[d] / (2.0 * static_cast<double>(extent[d]))), 2);
  }
  return std::min((least + smooth) / all, 1.0);
}

index_t nearest_begin(index_t begin, index_t from_size, index_t to_size) {
  return (2 * begin * to_size + from_size) / (2 * from_size);
}

Partition aligned(const Partition& fine, index_t coarse_size) {
  const index_t size = fine.size();
  bool fits          = true;
  std::vector<index_t> begins;
  for (int r = 0; r <= fine.parts(); ++r) {
    const index_t begin = fine.begin(r);
    begins.push_back(nearest_begin(nearest_begin(begin, size, coarse_size), coarse_size, size));
    fits = fits && begins.back() == begin;
  }
  if (fits) return fine;
  if (size == 2 * coarse_size) {  // multiples of a power of two serve several levels
    index_t unit = 2;
    while (size % (2 * unit) == 0 && 4 * unit * fine.parts() <= size) unit *= 2;
    for (int r = 1; r < fine.parts(); ++r)
      begins[static_cast<std::size_t>(r)] =
          std::min((fine.begin(r) + unit / 2) / unit * unit, size);
  }
  return Partition::explicit_begins(begins);
}

Partition coarse_partition(const Partition& fine, index_t coarse_size) {
  std::vector<index_t> begins;
  for (int r = 0; r <= fine.parts(); ++r)
    begins.push_back(nearest_begin(fine.begin(r), fine.size(), coarse_size));
  return Partition::explicit_begins(begins);
}

Partition merged(const Partition& p) {
  std::vector<index_t> counts;
  std::size_t first = 0;
  bool open         = false;
  for (int r = 0; r < p.parts(); ++r) {
    counts.push_back(p.count(r));
    if (p.count(r) == 0) continue;
    if (open) {
      counts[first] += p.count(r);
      counts.back() = 0;
    } else {
      first = counts.size() - 1;
    }
    open = !open;
  }
  return Partition::explicit_counts(counts);
}

int used_parts(const Partition& p) {
  int used = 0;
  for (int r = 0; r < p.parts(); ++r) used += p.count(r) > 0 ? 1 : 0;
  return used;
}

namespace {

index_t floor_of(index_t a, index_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

std::vector<TransferPoint> TransferGrids::interpolation() const {
  std::vector<TransferPoint> points;
  for (index_t f = fine_begin - 1; f <= fine_end; ++f) {
    // the centre in units of coarse cells is a / b
    const index_t a = (2 * f + 1) * coarse_size, b = 2 * fine_size, own = floor_of(a, b);
    const double offset = static_cast<double>(2 * (a - own * b) - b) / static_cast<double>(2 * b);
    const int side      = offset < 0.0 ? -1 : 1;
    const double t      = side * offset;
    TransferPoint p;
    p.first            = static_cast<int>(own - coarse_begin);
    p.count            = 1;
    p.weight[0]        = 1.0;
    const bool outside = !periodic && (own + side < 0 || own + side >= coarse_size);
    if (outside) {
      if (zero_wall[side < 0 ? 0 : 1]) p.weight[0] = 1.0 - 2.0 * t;
    } else if (t > 0.0) {
      p.count = 2;
      p.own   = side < 0 ? 1 : 0;
      p.first -= p.own;
      p.weight[p.own]     = 1.0 - t;
      p.weight[1 - p.own] = t;
    }
    points.push_back(p);
  }
  return points;
}

std::vector<TransferPoint> TransferGrids::restriction() const {
  std::vector<TransferPoint> points(static_cast<std::size_t>(coarse_end - coarse_begin));
  const double scale = static_cast<double>(coarse_size) / static_cast<double>(fine_size);
  int fine           = -1;
  for (const TransferPoint& from : interpolation()) {
    const index_t global = fine_begin + fine;
    const bool is_there  = periodic || (global >= 0 && global < fine_size);
    for (int n = 0; n < from.count && is_there; ++n) {
      const int c = from.first + n;
      if (c < 0 || c >= static_cast<int>(points.size())) continue;
      TransferPoint& p = points[static_cast<std::size_t>(c)];
      if (p.count == 0) p.first = fine;
      p.weight[p.count++] = from.weight[n] * scale;
    }
    ++fine;
  }
  return points;
}

std::vector<TransferPoint> TransferGrids::means() const {
  std::vector<TransferPoint> points;
  for (index_t c = coarse_begin; c < coarse_end; ++c) {
    // in units of 1 / coarse_size of a fine cell
    const index_t begin = c * fine_size, end = begin + fine_size;
    TransferPoint p;
    p.first = static_cast<int>(begin / coarse_size - fine_begin);
    for (index_t f = begin / coarse_size; f * coarse_size < end; ++f)
      p.weight[p.count++] = static_cast<double>(std::min((f + 1) * coarse_size, end) -
                                                std::max(f * coarse_size, begin)) /
                            static_cast<double>(fine_size);
    points.push_back(p);
  }
  return points;
}

namespace {

/// The number of each row's block: rows that elements above rounding connect. Returns their count.
int blocks_of(const double* a, std::size_t n, std::vector<int>& block) {
  int count = 0;
  std::vector<std::size_t> next;
  block.assign(n, -1);
  for (std::size_t first = 0; first < n; ++first) {
    if (block[first] >= 0) continue;
    block[first] = count;
    next.push_back(first);
    while (!next.empty()) {
      const std::size_t i = next.back();
      next.pop_back();
      for (std::size_t j = 0; j < n; ++j) {
        const double size = std::max(std::fabs(a[i * n + i]), std::fabs(a[j * n + j]));
        if (block[j] >= 0 || !(std::fabs(a[i * n + j]) > 1e-15 * size)) continue;
        block[j] = count;
        next.push_back(j);
      }
    }
    ++count;
  }
  return count;
}

}  // namespace

bool invert_symmetric(double* a, int n, double zero, double rounding) {
  const auto size = static_cast<std::size_t>(n);
  const auto at   = [&](std::size_t i, std::size_t j) -> double& { return a[i * size + j]; };
  struct Block {
    double trace = 0.0, sums = 0.0, largest = 0.0;
    index_t rows = 0;
  };
  std::vector<int> block;
  std::vector<Block> blocks(static_cast<std::size_t>(blocks_of(a, size, block)));
  const auto of = [&](std::size_t i) -> Block& {
    return blocks[static_cast<std::size_t>(block[i])];
  };
  double largest = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < size; ++j) sum += at(i, j);
    if (!std::isfinite(sum)) return false;
    Block& b = of(i);
    b.sums   = std::max(b.sums, std::fabs(sum));
    b.trace += at(i, i);
    b.largest = std::max(b.largest, at(i, i));
    largest   = std::max(largest, at(i, i));
    ++b.rows;
  }
  const auto is_empty = [&](const Block& b) {
    return b.rows == 1 && std::fabs(b.trace) <= zero * largest;
  };
  std::vector<std::size_t> empty;
  for (std::size_t i = 0; i < size; ++i) {
    const Block& b = of(i);
    if (b.sums > zero * b.largest && !is_empty(b)) continue;
    const double c = b.trace / (static_cast<double>(b.rows) * static_cast<double>(b.rows));
    if (is_empty(b))
      empty.push_back(i);
    else
      for (std::size_t j = 0; j < size; ++j)
        if (block[j] == block[i]) at(i, j) += c;
  }
  if (empty.size() == size) return false;
  for (const std::size_t i : empty) at(i, i) = largest;
  // A = L L'
  for (std::size_t j = 0; j < size; ++j) {
    const double before = at(j, j);
    for (std::size_t k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
    if (!(at(j, j) > rounding * before) || !(before > 0.0)) return false;
    at(j, j) = std::sqrt(at(j, j));
    for (std::size_t i = j + 1; i < size; ++i) {
      for (std::size_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) /= at(j, j);
    }
  }
  // L^-1, then its transpose by it
  for (std::size_t j = 0; j < size; ++j) {
    at(j, j) = 1.0 / at(j, j);
    for (std::size_t i = j + 1; i < size; ++i) {
      double sum = 0.0;
      for (std::size_t k = j; k < i; ++k) sum -= at(i, k) * at(k, j);
      at(i, j) = sum / at(i, i);
    }
  }
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = 0.0;
      for (std::size_t k = i; k < size; ++k) sum += at(k, i) * at(k, j);
      at(i, j) = sum;
    }
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = i + 1; j < size; ++j) at(i, j) = at(j, i);
  for (const std::size_t i : empty)
    for (std::size_t j = 0; j < size; ++j) at(i, j) = at(j, i) = 0.0;
  return true;
}

}  // namespace shard::impl
