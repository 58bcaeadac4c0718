// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/impl/remap_file.hpp"

#include <array>
#include <cmath>

#include "shard/io/netcdf.hpp"

namespace shard::impl {

namespace {

[[noreturn]] void fail_remap(const std::string& path, const std::string& what) {
  throw NetcdfError("shard: NetCDF file '" + path + "': " + what);
}

/// The names of one format.
struct RemapNames {
  const char *row, *column, *weight, *target_area, *source_area, *target_fraction, *source_fraction,
      *target_size, *source_size;
};
constexpr RemapNames esmf{"row", "col", "S", "area_b", "area_a", "frac_b", "frac_a", "n_b", "n_a"};
constexpr RemapNames scrip{"dst_address",   "src_address",   "remap_matrix",
                           "dst_grid_area", "src_grid_area", "dst_grid_frac",
                           "src_grid_frac", "dst_grid_size", "src_grid_size"};

class RemapReader {
 public:
  explicit RemapReader(const std::string& path) : file_(path) {
    if (!file_.has_variable(esmf.weight)) {
      names_ = scrip;
      if (!file_.has_variable(scrip.weight))
        fail_remap(path,
                   "it has no variable 'S' (ESMF) or 'remap_matrix' (SCRIP); pass a file of "
                   "remapping weights");
    }
    const auto how = file_.text("", "normalization");
    by_fraction_   = how.has_value() && how->find("frac") != std::string::npos;
    if (how == "none")
      fail_remap(path,
                 "its weights aren't normalised; make it with normalization destarea or "
                 "fracarea");
  }

  RemapFile read(std::size_t part, std::size_t parts) const {
    const auto dimensions = file_.variable(names_.weight).dimensions;
    if (dimensions.empty() || dimensions.size() > 2 ||
        (dimensions.size() == 2 && dimensions[1].size != 1))
      fail_remap(file_.path(), std::string("its variable '") + names_.weight +
                                   "' must have one weight for each link");
    if (dimensions[0].size == 0)
      fail_remap(file_.path(), std::string("its variable '") + names_.weight +
                                   "' has no links: they are missing, or nobody has written the "
                                   "records of an unlimited dimension");
    const std::size_t links = dimensions[0].size, begin = links * part / parts,
                      end = links * (part + 1) / parts;
    RemapFile read;
    read.weight               = values(names_.weight, dimensions.size(), begin, end - begin);
    const std::size_t targets = size(names_.target_size), sources = size(names_.source_size);
    read.row            = addresses(names_.row, begin, end - begin, targets);
    read.column         = addresses(names_.column, begin, end - begin, sources);
    read.target_area    = of_cells(names_.target_area, targets, 0.0);
    read.source_area    = of_cells(names_.source_area, sources, 0.0);
    read.row_sum        = of_cells(names_.target_fraction, targets, 1.0);
    const auto fraction = of_cells(names_.source_fraction, sources, 1.0);
    for (std::size_t j = 0; j < sources; ++j) read.source_area[j] *= fraction[j];
    if (by_fraction_)
      for (std::size_t i = 0; i < targets; ++i) {
        read.target_area[i] *= read.row_sum[i];
        read.row_sum[i] = read.row_sum[i] > 0.0 ? 1.0 : 0.0;
      }
    return read;
  }

 private:
  std::vector<double> values(const char* name, std::size_t rank, std::size_t begin,
                             std::size_t count) const {
    std::vector<double> list(count);
    if (count == 0) return list;
    const std::array<std::size_t, 2> start{begin, 0}, counts{count, 1};
    if (file_.read(name, {start.data(), rank}, {counts.data(), rank}, list) != 0)
      fail_remap(file_.path(), std::string("its variable '") + name + "' has missing values");
    return list;
  }
  std::vector<std::int64_t> addresses(const char* name, std::size_t begin, std::size_t count,
                                      std::size_t size) const {
    std::vector<std::int64_t> ids;
    ids.reserve(count);
    for (const double address : values(name, 1, begin, count)) {
      if (!(address >= 1.0 && address <= static_cast<double>(size)) ||
          address != std::floor(address))
        fail_remap(file_.path(), std::string("its variable '") + name + "' has the address " +
                                     std::to_string(address) + "; addresses are integers, 1 to " +
                                     std::to_string(size));
      ids.push_back(static_cast<std::int64_t>(address) - 1);
    }
    return ids;
  }
  std::vector<double> of_cells(const char* name, std::size_t cells, double otherwise) const {
    if (!file_.has_variable(name)) return std::vector<double>(cells, otherwise);
    auto list = file_.read(name);
    if (list.size() != cells)
      fail_remap(file_.path(), std::string("its variable '") + name + "' has " +
                                   std::to_string(list.size()) + " values, not " +
                                   std::to_string(cells));
    return list;
  }
  std::size_t size(const char* name) const {
    for (const auto& d : file_.dimensions())
      if (d.name == name) return d.size;
    fail_remap(file_.path(), std::string("it has no dimension '") + name + "'");
  }

  NetcdfFile file_;
  RemapNames names_ = esmf;
  bool by_fraction_ = false;
};

}  // namespace

RemapFile read_remap_file(const std::string& path, std::size_t part, std::size_t parts) {
  return RemapReader(path).read(part, parts);
}

}  // namespace shard::impl
