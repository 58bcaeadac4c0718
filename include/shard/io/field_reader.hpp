// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/io/grid.hpp>
#include <shard/io/netcdf.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// \file
/// Global fields of a NetCDF file as samples of a model: members x times x channels of
/// latitude-longitude maps.

namespace shard {

/// One map of a sample: a variable at a level.
struct FieldChannel {
  std::string name;      ///< such as "z 500 hPa", or the variable's name without a level
  std::string variable;  ///< its variable in the file
  std::string units;     ///< the variable's units, as in the file; empty if there are none
  std::optional<std::size_t> level;  ///< index of its level in the file
};

/// A box of the global grid, counted from the north: rows [row_begin, row_end) and columns
/// [column_begin, column_end).
struct FieldBox {
  std::size_t row_begin    = 0;  ///< first row
  std::size_t row_end      = 0;  ///< one past the last row
  std::size_t column_begin = 0;  ///< first column
  std::size_t column_end   = 0;  ///< one past the last column
};

/// Reads variables of one file on one latitude-longitude grid. Rows always go from north to south
/// and columns eastward, beginning at the file's first longitude; a last column that repeats the
/// first (360 after 0) is omitted. The file's dimensions may have any order. A variable without a
/// member, time or level dimension is constant along it. Local: each rank makes its own and reads
/// its own part.
class FieldReader {
 public:
  /// Opens \p path for the variables named in \p variables, separated by commas. Throws NetcdfError
  /// if a variable is missing or is no latitude-longitude field, if the variables differ in grid,
  /// times or members, if there is a further dimension of more than one entry, or if the grid or
  /// the levels take more than \p most_bytes (see NetcdfFile).
  FieldReader(const std::string& path, const std::string& variables,
              std::size_t most_bytes = impl::netcdf_most_bytes);

  /// Rows of the global grid.
  [[nodiscard]] std::size_t rows() const { return latitudes_.size(); }
  /// Columns of the global grid.
  [[nodiscard]] std::size_t columns() const { return longitudes_.size(); }
  /// Entries along time; 1 if there is no such dimension.
  [[nodiscard]] std::size_t times() const { return times_; }
  /// Ensemble members; 1 if there is no such dimension.
  [[nodiscard]] std::size_t members() const { return members_; }
  /// Degrees north, from north to south.
  [[nodiscard]] const std::vector<double>& latitudes() const { return latitudes_; }
  /// Degrees east, increasing.
  [[nodiscard]] const std::vector<double>& longitudes() const { return longitudes_; }
  /// Variables x levels, variables in the requested order, levels in the file's.
  [[nodiscard]] const std::vector<FieldChannel>& channels() const { return channels_; }
  /// True if longitude is periodic.
  [[nodiscard]] bool global_longitudes() const { return is_global(longitudes_); }
  /// The position of the poles: which pole fold fits.
  [[nodiscard]] PoleRows poles() const { return pole_rows(latitudes_); }
  /// Values of the time coordinate, empty if there are none.
  [[nodiscard]] const std::vector<double>& time_values() const { return time_values_; }
  /// Its units, such as "hours since 2017-01-01 00:00:00".
  [[nodiscard]] const std::string& time_units() const { return time_units_; }
  /// Hours from one time to another, if the time coordinate's units say so (seconds to days) and
  /// both are finite.
  [[nodiscard]] std::optional<double> hours_between(std::size_t from, std::size_t to) const;

  /// Reads the part \p box of one map into \p values, row by row. Missing values become NaN.
  /// \returns the number of missing values. Throws NetcdfError if an index is out of range or
  /// \p values has not the size of the box.
  std::size_t read(std::size_t member, std::size_t time, std::size_t channel, const FieldBox& box,
                   std::span<double> values) const;

  /// Reads a whole map. Throws NetcdfError as above, and if it takes more than most_bytes.
  [[nodiscard]] std::vector<double> read(std::size_t member, std::size_t time,
                                         std::size_t channel) const;

  /// One sentence for the user: the file's grid, members, times and channels.
  [[nodiscard]] std::string summary() const;

 private:
  struct Source {  // one variable of the file
    NetcdfVariable variable;
    std::vector<DimensionRole> roles;  // of its dimensions
  };
  void add_source(const std::string& name);
  void adopt_grid(const Source& source);
  void add_channels(const Source& source);

  NetcdfFile file_;
  std::vector<Source> sources_;
  std::vector<std::size_t> source_of_channel_;
  std::vector<FieldChannel> channels_;
  std::string latitude_name_, longitude_name_, time_name_;
  std::vector<double> latitudes_, longitudes_, time_values_;
  std::string time_units_;
  std::size_t file_columns_ = 0;
  bool rows_reversed_ = false, columns_reversed_ = false;
  std::size_t times_ = 1, members_ = 1;
};

}  // namespace shard
