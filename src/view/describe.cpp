// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/describe.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "shard/base/error.hpp"

namespace shard {

namespace {

using impl::text;

/// The owner of a tile.
struct Holder {
  std::vector<int> tile;
  int replica = 0;
  int device  = 0;
};

/// The subject of a picture: a field on ranks or a layout on devices.
struct Subject {
  std::vector<Partition> partitions;
  std::vector<Holder> holders;
  std::vector<index_t> most_extra, each_extra;
  const char* one   = "device";
  const char* many  = "replicas";  // name of several owners of one tile
  int replicas      = 1;
  index_t unit_size = 1;
  bool bytes        = false;
};

/// The product, or -1 on overflow or if a factor is -1.
index_t times(index_t a, index_t b) {
  index_t product = 0;
  if (a == 0 || b == 0) return 0;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}
std::string amount(index_t n) { return n < 0 ? "more than 2^63" : text(n); }

std::string joined(const std::vector<index_t>& numbers, const char* between) {
  std::string words;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    words += (i == 0 ? "" : between) + text(numbers[i]);
  return words.empty() ? "one value" : words;
}

/// "0,1,2"; of more than eight the first three, the last, and their number.
std::string listed(const std::vector<int>& devices) {
  std::string words;
  const std::size_t n = devices.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (n > 8 && i > 2 && i + 1 < n) continue;
    words += (i == 0 ? "" : n > 8 && i + 1 == n ? ",..," : ",") + text(devices[i]);
  }
  return n > 8 ? words + " (" + text(static_cast<index_t>(n)) + ")" : words;
}

/// The dimensions shown downwards and to the right: the first two sharded ones, else the sharded
/// one and its neighbour, else the last two.
std::pair<int, int> shown_dims(const std::vector<Partition>& partitions) {
  const int rank = static_cast<int>(partitions.size());
  if (rank < 2) return {-1, rank - 1};
  std::vector<int> cut;
  for (int d = 0; d < rank; ++d)
    if (partitions[static_cast<std::size_t>(d)].parts() > 1) cut.push_back(d);
  if (cut.empty()) return {rank - 2, rank - 1};
  if (cut.size() > 1) return {cut[0], cut[1]};
  return cut[0] + 1 < rank ? std::pair(cut[0], cut[0] + 1) : std::pair(cut[0] - 1, cut[0]);
}

std::vector<ShardPicture::Range> ranges(const std::vector<Partition>& partitions, int d) {
  if (d < 0) return {{0, 1}};
  const Partition& partition = partitions[static_cast<std::size_t>(d)];
  std::vector<ShardPicture::Range> all;
  for (int r = 0; r < partition.parts(); ++r)
    all.emplace_back(partition.begin(r), partition.end(r));
  return all;
}

/// Minimum and maximum of an owner and the total, optionally with padding or halo.
std::string amounts(const Subject& s, bool with_extra) {
  index_t least = s.unit_size, most = s.unit_size, sum = times(s.unit_size, s.replicas);
  for (std::size_t d = 0; d < s.partitions.size(); ++d) {
    const Partition& partition = s.partitions[d];
    index_t low = -1, high = 0, all = 0;
    for (int r = 0; r < partition.parts(); ++r) {
      // with padding to the largest shard, or with the halo
      const index_t n = !with_extra            ? partition.count(r)
                        : s.most_extra[d] >= 0 ? s.most_extra[d]
                                               : partition.count(r) + s.each_extra[d];
      low             = low < 0 ? n : std::min(low, n);
      high            = std::max(high, n);
      all += n;
    }
    least = times(least, low);
    most  = times(most, high);
    sum   = times(sum, all);
  }
  const std::string each = least == most ? amount(most) : amount(least) + " to " + amount(most);
  return each + " a " + s.one + ", " + amount(sum) + " in all";
}

ShardPicture drawn(Subject s) {
  ShardPicture picture;
  std::tie(picture.row_dim, picture.column_dim) = shown_dims(s.partitions);
  picture.rows                                  = ranges(s.partitions, picture.row_dim);
  picture.columns                               = ranges(s.partitions, picture.column_dim);

  // per box, sorted by the tile in hidden dimensions, then by replica
  const auto place = [&](const Holder& h, int d) {
    return d < 0 ? 0 : h.tile[static_cast<std::size_t>(d)];
  };
  const auto box = [&](const Holder& h) {
    return static_cast<std::size_t>(place(h, picture.row_dim)) * picture.columns.size() +
           static_cast<std::size_t>(place(h, picture.column_dim));
  };
  std::sort(s.holders.begin(), s.holders.end(), [&](const Holder& a, const Holder& b) {
    if (box(a) != box(b)) return box(a) < box(b);
    if (a.tile != b.tile) return a.tile < b.tile;
    return std::pair(a.replica, a.device) < std::pair(b.replica, b.device);
  });
  picture.holders.resize(picture.rows.size() * picture.columns.size());
  for (auto at = s.holders.begin(); at != s.holders.end();) {
    std::vector<int> devices;
    bool empty       = false;
    const auto first = at;
    for (; at != s.holders.end() && at->tile == first->tile; ++at) devices.push_back(at->device);
    for (std::size_t d = 0; d < s.partitions.size(); ++d)
      empty = empty || s.partitions[d].count(first->tile[d]) == 0;
    std::string& words = picture.holders[box(*first)];
    if (!words.empty()) words += " / ";
    words += empty ? "(" + listed(devices) + ")" : listed(devices);
  }

  const char* unit = s.bytes ? "bytes" : "cells";
  picture.facts.push_back(std::string(unit) + ": " + amounts(s, false));
  const bool padded =
      std::any_of(s.most_extra.begin(), s.most_extra.end(), [](index_t n) { return n >= 0; });
  const std::string with = amounts(s, true);
  if (amounts(s, false) != with)
    picture.facts.push_back(std::string("with ") + (padded ? "padding" : "halos") + ": " + with);

  std::string legend = std::string("boxes: ") + s.one + "s";
  if (picture.row_dim >= 0)
    legend += ", dimension " + text(picture.row_dim) + " downwards, dimension " +
              text(picture.column_dim) + " to the right";
  std::string hidden;
  for (int d = 0; d < static_cast<int>(s.partitions.size()); ++d)
    if (d != picture.row_dim && d != picture.column_dim &&
        s.partitions[static_cast<std::size_t>(d)].parts() > 1)
      hidden += (hidden.empty() ? " " : ", ") + text(d);
  if (!hidden.empty()) legend += "; '/' between the tiles of dimension" + hidden;
  if (s.replicas > 1) legend += std::string("; ") + s.many + " beside one another";
  const auto nothing = [](const std::string& words) {
    return words.find("(") == 0 || words.find("/ (") != std::string::npos;
  };
  if (std::any_of(picture.holders.begin(), picture.holders.end(), nothing))
    legend += "; in brackets: empty";
  picture.facts.push_back(legend);
  return picture;
}

std::string halo_text(const impl::DimType& type) {
  if (type.lo == 0 && type.hi == 0) return "";
  const std::string low = impl::text(type.low), high = impl::text(type.high);
  return ", halo " + text(type.lo) + " before and " + text(type.hi) + " after, " +
         (low == high ? low : low + " and " + high) + " outside the domain";
}

/// Numbers of the shown ones among `count`; -1 stands for omitted ones.
std::vector<int> shown(std::size_t count, std::size_t most) {
  std::vector<int> numbers;
  const int n = static_cast<int>(count);
  for (int i = 0; i < n; ++i) {
    const bool middle = count > most && i >= static_cast<int>(most) - 2 && i < n - 1;
    if (!middle)
      numbers.push_back(i);
    else if (numbers.back() >= 0)
      numbers.push_back(-1);
  }
  return numbers;
}

std::string range_text(const ShardPicture::Range& range) {
  return text(range.first) + ":" + text(range.second);
}

std::string centred(const std::string& words, std::size_t width) {
  const std::size_t left = (width - words.size()) / 2;
  return std::string(left, ' ') + words + std::string(width - words.size() - left, ' ');
}

}  // namespace

std::string ShardPicture::text() const {
  constexpr std::size_t most_rows = 24, line_length = 100;
  std::string words;
  for (const std::string& fact : facts) words += fact + "\n";

  std::size_t wide = 3, margin = 0;
  for (const std::string& holder : holders) wide = std::max(wide, holder.size());
  for (const Range& range : columns)
    if (column_dim >= 0) wide = std::max(wide, range_text(range).size());
  for (const Range& range : rows)
    if (row_dim >= 0) margin = std::max(margin, range_text(range).size() + 1);
  wide += 2;
  const std::vector<int> across =
      shown(columns.size(), std::max<std::size_t>(3, line_length / (wide + 1)));
  const std::vector<int> down = shown(rows.size(), most_rows);

  const auto line = [&](const std::string& label, char edge, const auto& cell) {
    std::string out = std::string(margin - label.size(), ' ') + label + edge;
    for (const int column : across) out += cell(column) + edge;
    while (out.back() == ' ') out.pop_back();
    words += out + "\n";
  };
  const std::string dots = centred("...", wide);
  if (column_dim >= 0)
    line("", ' ', [&](int c) {
      return c < 0 ? dots : centred(range_text(columns[static_cast<std::size_t>(c)]), wide);
    });
  const auto rule = [&] { line("", '+', [&](int) { return std::string(wide, '-'); }); };
  rule();
  for (const int row : down) {
    const std::string label =
        row_dim < 0 || row < 0 ? "" : range_text(rows[static_cast<std::size_t>(row)]) + " ";
    line(label, '|', [&](int c) {
      if (row < 0 || c < 0) return dots;
      return centred(
          holders[static_cast<std::size_t>(row) * columns.size() + static_cast<std::size_t>(c)],
          wide);
    });
    rule();
  }
  return words;
}

ShardPicture shard_picture(const ShardLayout& layout, index_t value_bytes) {
  const OpSharding& sharding = layout.sharding();
  Subject s;
  s.replicas  = sharding.replicas();
  s.bytes     = value_bytes > 0;
  s.unit_size = s.bytes ? value_bytes : 1;
  for (int d = 0; d < sharding.rank(); ++d) s.partitions.push_back(layout.partition(d));
  s.most_extra = layout.shard_shape();
  for (int device = 0; device < sharding.devices(); ++device)
    s.holders.push_back({sharding.tile_of(device), sharding.replica_id(device), device});

  std::vector<std::string> facts{joined(layout.extents(), " x ") + " on " +
                                 text(sharding.devices()) + " devices, " +
                                 name_of(sharding.type())};
  for (int d = 0; d < sharding.rank(); ++d) {
    const Partition& partition = layout.partition(d);
    facts.push_back("dimension " + text(d) + ": " +
                    (partition.parts() == 1 ? "whole" : partition.describe()));
  }
  ShardPicture picture = drawn(std::move(s));
  picture.facts.insert(picture.facts.begin(), facts.begin(), facts.end());
  return picture;
}

ShardPicture impl::shard_picture(const Geometry& geometry, const DimType* types,
                                 index_t value_bytes) {
  const MeshState& mesh = *geometry.mesh;
  Subject s;
  s.one       = "rank";
  s.unit_size = value_bytes;
  s.bytes     = true;
  s.replicas  = mesh.size();
  std::vector<index_t> extents, mesh_shape;
  std::vector<std::string> facts(1);
  for (int a = 0; a < mesh.axes(); ++a) mesh_shape.push_back(mesh.extent(a));
  for (int d = 0; d < geometry.rank; ++d) {
    const DimGeometry& dim = geometry.dims[Geometry::at(d)];
    const DimType& type    = types[d];
    s.partitions.push_back(dim.partition);
    s.most_extra.push_back(-1);
    s.each_extra.push_back(type.lo + type.hi);
    s.replicas /= dim.partition.parts();
    extents.push_back(dim.partition.size());
    std::string fact = "dimension " + text(d) + ": ";
    if (dim.axis_count == 0)
      fact += "whole";
    else
      fact += dim.partition.describe() + " ranks of mesh " + (dim.axis_count > 1 ? "axes" : "axis");
    for (int a = 0; a < dim.axis_count; ++a)
      fact += (a == 0 ? " " : ", ") + text(dim.axes[Geometry::at(a)]);
    facts.push_back(fact + halo_text(type));
  }
  facts[0] = "\"" + geometry.label + "\": " + joined(extents, " x ") + " of " + text(value_bytes) +
             " bytes on a mesh of " + joined(mesh_shape, " x ") + " ranks";

  const PartialAxes& partials = geometry.partials;
  int contributions           = 1;
  for (int a = 0; a < partials.count; ++a) {
    contributions *= mesh.extent(partials.axes[static_cast<std::size_t>(a)]);
    facts.push_back("ranks of mesh axis " + text(partials.axes[static_cast<std::size_t>(a)]) +
                    " have contributions to the " +
                    (partials.reduction == ReductionKind::sum   ? "sum"
                     : partials.reduction == ReductionKind::max ? "largest value"
                                                                : "smallest value"));
  }
  if (partials.count > 0)
    s.many = contributions < s.replicas ? "replicas and contributions" : "contributions";

  // every place of the mesh, the last axis the fastest
  std::vector<int> place(static_cast<std::size_t>(mesh.axes()), 0);
  for (int i = 0; i < mesh.size(); ++i) {
    int rest = i;
    for (int a = mesh.axes() - 1; a >= 0; --a) {
      place[static_cast<std::size_t>(a)] = rest % mesh.extent(a);
      rest /= mesh.extent(a);
    }
    Holder holder;
    for (int d = 0; d < geometry.rank; ++d) {
      const DimGeometry& dim = geometry.dims[Geometry::at(d)];
      int tile               = 0;
      for (int a = 0; a < dim.axis_count; ++a) {
        const int axis = dim.axes[Geometry::at(a)];
        tile           = tile * mesh.extent(axis) + place[static_cast<std::size_t>(axis)];
      }
      holder.tile.push_back(tile);
    }
    holder.replica = i;
    holder.device  = mesh.rank_at(place.data());
    s.holders.push_back(std::move(holder));
  }
  ShardPicture picture = drawn(std::move(s));
  picture.facts.insert(picture.facts.begin(), facts.begin(), facts.end());
  return picture;
}

std::string describe(const ShardLayout& layout, index_t value_bytes) {
  return shard_picture(layout, value_bytes).text();
}

std::string describe(const OpSharding& sharding, const std::vector<index_t>& extents,
                     index_t value_bytes) {
  return describe(ShardLayout(sharding, extents), value_bytes);
}

}  // namespace shard
