// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/field_reader.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <utility>

#include "read_limit.hpp"

namespace shard {
namespace {

[[noreturn]] void fail_reading(const std::string& path, const std::string& variable,
                               const std::string& what) {
  throw NetcdfError("shard::FieldReader: file '" + path + "'" +
                    (variable.empty() ? "" : ", variable '" + variable + "'") + ": " + what);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : list + ",") {
    if (c == ',') {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    }
  }
  return words;
}

std::string shape(const NetcdfVariable& variable) {
  std::string line;
  for (const NetcdfDimension& dimension : variable.dimensions) {
    line +=
        (line.empty() ? "" : " x ") + dimension.name + " (" + std::to_string(dimension.size) + ")";
  }
  return line.empty() ? "a single value" : line;
}

/// Possible variables: those of two or more dimensions.
std::string candidates(const NetcdfFile& file) {
  std::string line;
  for (const std::string& name : file.variables()) {
    const NetcdfVariable variable = file.variable(name);
    if (variable.numeric && variable.dimensions.size() >= 2) {
      line += (line.empty() ? "" : ", ") + name + " [" + shape(variable) + "]";
    }
  }
  return line.empty() ? "none" : line;
}

std::string short_number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

/// "500 hPa" for pressures in any unit, "10 m" for the rest.
std::string level_name(double value, std::string units) {
  std::string lower = units;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "pa") {
    value /= 100.0;
    units = "hPa";
  } else if (lower == "hpa" || lower.rfind("millibar", 0) == 0 || lower == "mb" ||
             lower == "mbar") {
    units = "hPa";
  } else if (units.empty() || units == "1" || lower == "level") {
    return "level " + short_number(value);
  }
  return short_number(value) + " " + units;
}

std::optional<std::size_t> find(const std::vector<DimensionRole>& roles, DimensionRole role) {
  const auto at = std::find(roles.begin(), roles.end(), role);
  if (at == roles.end()) return std::nullopt;
  return static_cast<std::size_t>(at - roles.begin());
}

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

FieldReader::FieldReader(const std::string& path, const std::string& variables,
                         std::size_t most_bytes)
    : file_(path, most_bytes) {
  const std::vector<std::string> names = split(variables);
  if (names.empty()) {
    fail_reading(path, "", "no variable was named; there are: " + candidates(file_));
  }
  for (const std::string& name : names) add_source(name);
}

void FieldReader::add_source(const std::string& name) {
  if (!file_.has_variable(name)) {
    fail_reading(file_.path(), name,
                 "the file has no such variable; there are: " + candidates(file_));
  }
  Source source{file_.variable(name), {}};
  if (!source.variable.numeric) {
    fail_reading(file_.path(), name, "holds text, not numbers; there are: " + candidates(file_));
  }
  for (const NetcdfDimension& dimension : source.variable.dimensions) {
    const DimensionRole role = file_.role(dimension.name);
    if (dimension.size == 0) {
      fail_reading(file_.path(), name,
                   "dimension '" + dimension.name + "' is empty: there is no data");
    }
    const bool twice = role != DimensionRole::unknown && find(source.roles, role).has_value();
    if (dimension.size > 1 && (role == DimensionRole::unknown || twice)) {
      fail_reading(file_.path(), name,
                   "has dimensions " + shape(source.variable) + ", of which '" + dimension.name +
                       "' " +
                       (twice ? "means the same as another"
                              : "isn't a latitude, longitude, level, time or member") +
                       "; select one entry of it, or give its coordinate variable a standard_name");
    }
    source.roles.push_back(twice ? DimensionRole::unknown : role);
  }
  const auto latitude  = find(source.roles, DimensionRole::latitude);
  const auto longitude = find(source.roles, DimensionRole::longitude);
  if (!latitude || !longitude) {
    fail_reading(
        file_.path(), name,
        "has dimensions " + shape(source.variable) + ", of which none is " +
            (latitude ? "a longitude" : "a latitude") +
            "; fields on one-dimensional latitudes and longitudes can be read: " +
            "interpolate to such a grid, or give the coordinates units of degrees_north and "
            "degrees_east");
  }
  const auto& dimensions  = source.variable.dimensions;
  const std::size_t index = sources_.size();
  if (index == 0) {
    latitude_name_  = dimensions[*latitude].name;
    longitude_name_ = dimensions[*longitude].name;
    adopt_grid(source);
  } else if (dimensions[*latitude].name != latitude_name_ ||
             dimensions[*longitude].name != longitude_name_) {
    fail_reading(file_.path(), name,
                 "lies on (" + dimensions[*latitude].name + ", " + dimensions[*longitude].name +
                     "), but " + sources_[0].variable.name + " on (" + latitude_name_ + ", " +
                     longitude_name_ +
                     "); variables on one grid can be read together: interpolate one of them");
  }
  const auto adopt = [&](DimensionRole role, const char* word, std::size_t& extent) {
    const auto at = find(source.roles, role);
    if (!at) return;
    const std::size_t size = dimensions[*at].size;
    if (extent != 1 && size != 1 && size != extent) {
      fail_reading(file_.path(), name,
                   "has " + std::to_string(size) + " " + word + ", but a variable before it has " +
                       std::to_string(extent) + "; read them in separate runs");
    }
    extent = std::max(extent, size);
  };
  adopt(DimensionRole::member, "members", members_);
  adopt(DimensionRole::time, "times", times_);
  if (const auto time = find(source.roles, DimensionRole::time); time && time_name_.empty()) {
    time_name_ = dimensions[*time].name;
    if (file_.has_variable(time_name_) && file_.variable(time_name_).numeric) {
      time_values_ = file_.read(time_name_);
      time_units_  = file_.variable(time_name_).units;
    }
  }
  add_channels(source);
  source_of_channel_.resize(channels_.size(), index);
  sources_.push_back(std::move(source));
}

void FieldReader::adopt_grid(const Source& source) {
  for (const std::string& name : {latitude_name_, longitude_name_}) {
    if (!file_.has_variable(name)) {
      fail_reading(file_.path(), source.variable.name,
                   "dimension '" + name +
                       "' has no coordinate variable of its name, so that the grid is " +
                       "unknown; add one, in degrees");
    }
  }
  try {
    latitudes_     = file_.read(latitude_name_);
    rows_reversed_ = latitudes_.size() > 1 && latitudes_.front() < latitudes_.back();
    if (rows_reversed_) std::reverse(latitudes_.begin(), latitudes_.end());
    latitude_edges(latitudes_);

    longitudes_       = file_.read(longitude_name_);
    file_columns_     = longitudes_.size();
    columns_reversed_ = file_columns_ > 1 && longitudes_[1] < longitudes_[0] &&
                        longitudes_[0] - longitudes_[1] < 180.0;
    if (columns_reversed_) std::reverse(longitudes_.begin(), longitudes_.end());
    for (std::size_t j = 1; j < longitudes_.size(); ++j) {  // past the date line, or 360 to 0
      const double back = longitudes_[j - 1] - longitudes_[j];
      if (back > 0.0 && back <= 2.0 * impl::farthest_longitude)
        longitudes_[j] += 360.0 * std::ceil(back / 360.0);
    }
    if (longitudes_.size() > 2 &&
        std::abs(longitudes_.back() - longitudes_.front() - 360.0) < 1e-4) {
      longitudes_.pop_back();
    }
    longitude_edges(longitudes_);
  } catch (const std::invalid_argument& error) {
    fail_reading(file_.path(), source.variable.name,
                 std::string("its grid can't be used: ") + error.what());
  }
}

void FieldReader::add_channels(const Source& source) {
  const NetcdfVariable& variable = source.variable;
  const auto level               = find(source.roles, DimensionRole::level);
  if (!level) {
    channels_.push_back({variable.name, variable.name, variable.units, std::nullopt});
    return;
  }
  const NetcdfDimension& dimension = variable.dimensions[*level];
  if (const std::string why =
          impl::over_limit(std::span(&dimension.size, 1), sizeof(FieldChannel), file_.most_bytes());
      !why.empty())
    fail_reading(file_.path(), variable.name, "for the levels of '" + dimension.name + "' " + why);
  const bool named = file_.has_variable(dimension.name) && file_.variable(dimension.name).numeric;
  const std::vector<double> values = named ? file_.read(dimension.name) : std::vector<double>{};
  const std::string units          = named ? file_.variable(dimension.name).units : std::string();
  for (std::size_t l = 0; l < dimension.size; ++l) {
    const std::string suffix =
        l < values.size() ? level_name(values[l], units) : "level " + std::to_string(l);
    channels_.push_back({variable.name + " " + suffix, variable.name, variable.units, l});
  }
}

std::optional<double> FieldReader::hours_between(std::size_t from, std::size_t to) const {
  if (from >= time_values_.size() || to >= time_values_.size()) return std::nullopt;
  const std::string unit = time_units_.substr(0, time_units_.find(' '));
  double hours           = 0.0;
  if (unit == "seconds" || unit == "second" || unit == "s") {
    hours = 1.0 / 3600.0;
  } else if (unit == "minutes" || unit == "minute" || unit == "min") {
    hours = 1.0 / 60.0;
  } else if (unit == "hours" || unit == "hour" || unit == "h") {
    hours = 1.0;
  } else if (unit == "days" || unit == "day" || unit == "d") {
    hours = 24.0;
  } else {
    return std::nullopt;
  }
  hours *= time_values_[to] - time_values_[from];
  return std::isfinite(hours) ? std::optional<double>(hours) : std::nullopt;
}

std::size_t FieldReader::read(std::size_t member, std::size_t time, std::size_t channel,
                              const FieldBox& box, std::span<double> values) const {
  const auto range = [&](const char* what, std::size_t index, std::size_t extent) {
    if (index >= extent) {
      fail_reading(file_.path(), "",
                   std::string(what) + " " + std::to_string(index) + " requested, but there are " +
                       std::to_string(extent));
    }
  };
  range("channel", channel, channels_.size());
  range("member", member, members_);
  range("time", time, times_);
  const Source& source = sources_[source_of_channel_[channel]];
  if (box.row_begin > box.row_end || box.row_end > rows() || box.column_begin > box.column_end ||
      box.column_end > columns()) {
    fail_reading(file_.path(), source.variable.name,
                 "rows " + std::to_string(box.row_begin) + " to " + std::to_string(box.row_end) +
                     ", columns " + std::to_string(box.column_begin) + " to " +
                     std::to_string(box.column_end) + " requested, but the grid is " +
                     std::to_string(rows()) + " x " + std::to_string(columns()));
  }
  const std::size_t height = box.row_end - box.row_begin;
  const std::size_t width  = box.column_end - box.column_begin;
  if (values.size() != height * width) {
    fail_reading(file_.path(), source.variable.name,
                 "the box has " + std::to_string(height * width) +
                     " values, but the array given takes " + std::to_string(values.size()));
  }
  if (values.empty()) return 0;

  const auto& dimensions = source.variable.dimensions;
  std::vector<std::size_t> start(dimensions.size(), 0), count(dimensions.size(), 1);
  std::size_t row_dimension = 0, column_dimension = 0;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    switch (source.roles[d]) {
      case DimensionRole::latitude:
        row_dimension = d;
        start[d]      = rows_reversed_ ? rows() - box.row_end : box.row_begin;
        count[d]      = height;
        break;
      case DimensionRole::longitude:
        column_dimension = d;
        start[d]         = columns_reversed_ ? file_columns_ - box.column_end : box.column_begin;
        count[d]         = width;
        break;
      case DimensionRole::level: start[d] = *channels_[channel].level; break;
      case DimensionRole::time: start[d] = dimensions[d].size == 1 ? 0 : time; break;
      case DimensionRole::member: start[d] = dimensions[d].size == 1 ? 0 : member; break;
      case DimensionRole::unknown: break;
    }
  }
  const bool rows_first = row_dimension < column_dimension;
  if (rows_first && !rows_reversed_ && !columns_reversed_) {
    return file_.read(source.variable.name, start, count, values);
  }
  std::vector<double> stored(values.size());
  const std::size_t missing = file_.read(source.variable.name, start, count, stored);
  for (std::size_t i = 0; i < height; ++i) {
    const std::size_t from_row = rows_reversed_ ? height - 1 - i : i;
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t from_column = columns_reversed_ ? width - 1 - j : j;
      values[i * width + j] =
          stored[rows_first ? from_row * width + from_column : from_column * height + from_row];
    }
  }
  return missing;
}

std::vector<double> FieldReader::read(std::size_t member, std::size_t time,
                                      std::size_t channel) const {
  const std::size_t extents[] = {rows(), columns()};
  if (const std::string why = impl::over_limit(extents, sizeof(double), file_.most_bytes());
      !why.empty())
    fail_reading(file_.path(), "", why);
  std::vector<double> values(rows() * columns());
  read(member, time, channel, FieldBox{0, rows(), 0, columns()}, values);
  return values;
}

std::string FieldReader::summary() const {
  std::string names;
  for (const FieldChannel& channel : channels_) {
    names += (names.empty() ? "" : ", ") + channel.name;
    if (!channel.units.empty()) names += " (" + channel.units + ")";
  }
  // only the file's name, without folders
  const std::string& path = file_.path();
  return path.substr(path.find_last_of('/') + 1) + ": " + names + "; " + std::to_string(rows()) +
         " x " + std::to_string(columns()) + " from " + short_number(latitudes_.front()) + " to " +
         short_number(latitudes_.back()) + " degrees north and from " +
         short_number(longitudes_.front()) + " degrees east; " + std::to_string(members_) +
         " member" + plural(members_) + ", " + std::to_string(times_) + " time" + plural(times_);
}

}  // namespace shard
