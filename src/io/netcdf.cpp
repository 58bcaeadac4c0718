// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/netcdf.hpp>

#include <netcdf.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "classic_header.hpp"
#include "netcdf_attributes.hpp"
#include "read_limit.hpp"
#include "special_file.hpp"

namespace shard {
using namespace impl::netcdf;
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : ", ") + word;
  return line.empty() ? "none" : line;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return word == w; });
}

/// The range of an integer type of one or two bytes with unsigned values (NUG, _Unsigned).
double unsigned_span(nc_type type) {
  return type == NC_BYTE ? 256.0 : type == NC_SHORT ? 65536.0 : 0.0;
}

/// NetCDF's default fill value; bytes have none (NUG, appendix A, _FillValue).
std::optional<double> default_fill(nc_type type) {
  switch (type) {
    case NC_SHORT: return NC_FILL_SHORT;
    case NC_USHORT: return NC_FILL_USHORT;
    case NC_INT: return NC_FILL_INT;
    case NC_UINT: return NC_FILL_UINT;
    case NC_INT64: return static_cast<double>(NC_FILL_INT64);
    case NC_UINT64: return static_cast<double>(NC_FILL_UINT64);
    case NC_FLOAT: return static_cast<double>(NC_FILL_FLOAT);
    case NC_DOUBLE: return NC_FILL_DOUBLE;
    default: return std::nullopt;
  }
}

/// Converts a variable's stored values to numbers (NUG, appendix A; CF, sections 2.5.1 and 8.1).
class Decoding {
 public:
  Decoding(const VariableAt& at, nc_type type, bool is_unsigned)
      : may_be_nan_(is_floating(type)), wrap_(is_unsigned ? unsigned_span(type) : 0.0) {
    const auto scale = at.packing("scale_factor"), offset = at.packing("add_offset");
    packed_       = scale || offset;
    scale_        = scale.value_or(1.0);
    offset_       = offset.value_or(0.0);
    bool has_fill = false;
    for (const char* attribute : {"_FillValue", "missing_value"})
      for (const double marker :
           at.numbers(attribute, std::string(attribute) == "_FillValue" ? 1 : 0, true)) {
        if (std::isnan(marker)) continue;
        markers_.push_back(as_stored(marker, type));
        has_fill = has_fill || attribute[0] == '_';
      }
    if (!has_fill)
      if (const std::optional<double> marker = default_fill(type)) markers_.push_back(*marker);
    bound(at, "valid_min", type, &low_, nullptr);
    bound(at, "valid_max", type, nullptr, &high_);
    bound(at, "valid_range", type, &low_, &high_);
    if (low_.stored > high_.stored || low_.unpacked > high_.unpacked)
      fail(at.path, at.name,
           "by its valid_range, valid_min and valid_max no value is valid; correct them in the "
           "file");
  }

  /// NaN for a value that is missing.
  double operator()(double value) const {
    constexpr double missing = std::numeric_limits<double>::quiet_NaN();
    if (may_be_nan_ && std::isnan(value)) return missing;
    if (value < 0.0) value += wrap_;
    for (const double marker : markers_)
      if (value == marker) return missing;
    if (value < low_.stored || value > high_.stored) return missing;
    if (!packed_) return value;
    value             = value * scale_ + offset_;
    const double half = 0.5 * std::abs(scale_);  // half a step, because bounds may be rounded
    return value < low_.unpacked - half || value > high_.unpacked + half ? missing : value;
  }

 private:
  static constexpr double inf = std::numeric_limits<double>::infinity();
  /// A bound on stored or on unpacked values.
  struct Bound {
    double stored, unpacked;
  };

  /// Attributes are compared with stored values, so they are converted to the variable's type.
  [[nodiscard]] double as_stored(double value, nc_type type) const {
    if (type == NC_FLOAT) return static_cast<double>(static_cast<float>(value));
    return value < 0.0 ? value + wrap_ : value;
  }
  void bound(const VariableAt& at, const char* attribute, nc_type type, Bound* low, Bound* high) {
    nc_type stored = NC_NAT;
    const auto v = at.numbers(attribute, low != nullptr && high != nullptr ? 2 : 1, false, &stored);
    if (v.empty()) return;
    // a floating-point bound of packed integers applies to unpacked values
    double Bound::*const of =
        packed_ && !may_be_nan_ && is_floating(stored) ? &Bound::unpacked : &Bound::stored;
    const auto value = [&](double x) { return of == &Bound::stored ? as_stored(x, type) : x; };
    if (low != nullptr) low->*of = std::max(low->*of, value(v.front()));
    if (high != nullptr) high->*of = std::min(high->*of, value(v.back()));
  }

  bool may_be_nan_, packed_ = false;
  double wrap_, scale_ = 1.0, offset_ = 0.0;
  std::vector<double> markers_;
  Bound low_{-inf, -inf}, high_{inf, inf};
};

}  // namespace

bool netcdf_available() { return true; }

struct NetcdfFile::State {
  std::string path;
  std::size_t limit;
  int id = -1;

  State(std::string p, std::size_t most_bytes) : path(std::move(p)), limit(most_bytes) {
    if (const std::string found = impl::special_file(path); !found.empty())
      fail(path, "", "it is " + found + ", not a file");
    const auto alone = one_at_a_time();
    const int code   = nc_open(path.c_str(), NC_NOWRITE, &id);
    if (code != NC_NOERR) {
      fail(path, "",
           std::string("cannot be opened: ") + nc_strerror(code) +
               "; check the path, and that it is NetCDF (GRIB files must be converted first)");
    }
    std::error_code unknown;
    const std::uintmax_t size = std::filesystem::file_size(path, unknown);
    if (const auto whole = impl::read_classic_header(path).size; !unknown && size < whole) {
      nc_close(id);
      fail(path, "",
           "it is cut short: it has " + std::to_string(size) + " bytes, and its header says " +
               std::to_string(whole) + "; copy it again, or write its last variable to the end");
    }
  }
  State(const State&)            = delete;
  State& operator=(const State&) = delete;
  ~State() {
    const auto alone = one_at_a_time();
    nc_close(id);
  }

  [[nodiscard]] std::optional<int> find(const std::string& name) const {
    int variable   = -1;
    const int code = nc_inq_varid(id, name.c_str(), &variable);
    if (code == NC_ENOTVAR) return std::nullopt;
    check(code, path, name, "look it up");
    return variable;
  }

  /// NC_GLOBAL for the empty name.
  [[nodiscard]] std::optional<int> find_or_global(const std::string& name) const {
    return name.empty() ? std::optional<int>(NC_GLOBAL) : find(name);
  }
};

NetcdfFile::NetcdfFile(const std::string& path, std::size_t most_bytes)
    : state_(std::make_unique<State>(path, most_bytes)) {}
NetcdfFile::NetcdfFile(NetcdfFile&&) noexcept            = default;
NetcdfFile& NetcdfFile::operator=(NetcdfFile&&) noexcept = default;
NetcdfFile::~NetcdfFile()                                = default;

const std::string& NetcdfFile::path() const { return state_->path; }
std::size_t NetcdfFile::most_bytes() const { return state_->limit; }

std::vector<NetcdfDimension> NetcdfFile::dimensions() const {
  const auto alone = one_at_a_time();
  int count        = 0;
  check(nc_inq_ndims(state_->id, &count), path(), "", "count its dimensions");
  std::vector<int> ids(static_cast<std::size_t>(count));
  check(nc_inq_dimids(state_->id, &count, ids.data(), 0), path(), "", "list its dimensions");
  std::vector<NetcdfDimension> list;
  for (const int dimension : ids) {
    std::array<char, NC_MAX_NAME + 1> name{};
    std::size_t size = 0;
    check(nc_inq_dim(state_->id, dimension, name.data(), &size), path(), "", "read a dimension");
    list.push_back({name.data(), size});
  }
  return list;
}

std::vector<std::string> NetcdfFile::variables() const {
  const auto alone = one_at_a_time();
  int count        = 0;
  check(nc_inq_nvars(state_->id, &count), path(), "", "count its variables");
  std::vector<int> ids(static_cast<std::size_t>(count));
  check(nc_inq_varids(state_->id, &count, ids.data()), path(), "", "list its variables");
  std::vector<std::string> names;
  for (const int variable : ids) {
    std::array<char, NC_MAX_NAME + 1> name{};
    check(nc_inq_varname(state_->id, variable, name.data()), path(), "", "read a variable's name");
    names.emplace_back(name.data());
  }
  return names;
}

bool NetcdfFile::has_variable(const std::string& name) const {
  const auto alone = one_at_a_time();
  return state_->find(name).has_value();
}

NetcdfVariable NetcdfFile::variable(const std::string& name) const {
  const auto alone            = one_at_a_time();
  const std::optional<int> id = state_->find(name);
  if (!id) fail(path(), name, "the file has no such variable; there are: " + join(variables()));
  nc_type type = NC_NAT;
  int rank     = 0;
  std::array<int, NC_MAX_VAR_DIMS> ids{};
  check(nc_inq_var(state_->id, *id, nullptr, &type, &rank, ids.data(), nullptr), path(), name,
        "describe it");
  NetcdfVariable result;
  result.name = name;
  for (int d = 0; d < rank; ++d) {
    std::array<char, NC_MAX_NAME + 1> dimension{};
    std::size_t size = 0;
    check(nc_inq_dim(state_->id, ids[static_cast<std::size_t>(d)], dimension.data(), &size), path(),
          name, "read its dimensions");
    result.dimensions.push_back({dimension.data(), size});
  }
  result.units     = text(name, "units").value_or("");
  result.long_name = text(name, "long_name").value_or("");
  result.packed =
      number(name, "scale_factor").has_value() || number(name, "add_offset").has_value();
  result.numeric = type >= NC_BYTE && type <= NC_UINT64 && type != NC_CHAR;
  return result;
}

std::optional<std::string> NetcdfFile::text(const std::string& variable,
                                            const std::string& attribute) const {
  const auto alone            = one_at_a_time();
  const std::optional<int> id = state_->find_or_global(variable);
  nc_type type                = NC_NAT;
  std::size_t length          = 0;
  if (!id || nc_inq_att(state_->id, *id, attribute.c_str(), &type, &length) != NC_NOERR) {
    return std::nullopt;
  }
  std::string value;
  if (type == NC_CHAR) {
    value.assign(length, '\0');
    check(nc_get_att_text(state_->id, *id, attribute.c_str(), value.data()), path(), variable,
          "read an attribute");
  } else if (type == NC_STRING && length > 0) {
    std::vector<char*> pieces(length, nullptr);
    check(nc_get_att_string(state_->id, *id, attribute.c_str(), pieces.data()), path(), variable,
          "read an attribute");
    if (pieces[0] != nullptr) value = pieces[0];
    nc_free_string(length, pieces.data());
  } else {
    return std::nullopt;
  }
  while (!value.empty() && (value.back() == '\0' || value.back() == ' ')) value.pop_back();
  return value;
}

std::optional<double> NetcdfFile::number(const std::string& variable,
                                         const std::string& attribute) const {
  const auto alone            = one_at_a_time();
  const std::optional<int> id = state_->find_or_global(variable);
  nc_type type                = NC_NAT;
  std::size_t length          = 0;
  if (!id || nc_inq_att(state_->id, *id, attribute.c_str(), &type, &length) != NC_NOERR ||
      type == NC_CHAR || type == NC_STRING || length == 0) {
    return std::nullopt;
  }
  std::vector<double> values(length);
  check(nc_get_att_double(state_->id, *id, attribute.c_str(), values.data()), path(), variable,
        "read an attribute");
  return values[0];
}

DimensionRole NetcdfFile::role(const std::string& dimension) const {
  const auto alone           = one_at_a_time();
  const std::string standard = lower(text(dimension, "standard_name").value_or(""));
  if (standard == "latitude") return DimensionRole::latitude;
  if (standard == "longitude") return DimensionRole::longitude;
  if (is_one_of(standard, {"time", "forecast_reference_time", "forecast_period"})) {
    return DimensionRole::time;
  }
  if (standard == "realization") return DimensionRole::member;
  if (is_one_of(standard, {"air_pressure", "altitude", "height", "depth", "model_level_number",
                           "geopotential_height"}) ||
      standard.find("sigma") != std::string::npos) {
    return DimensionRole::level;
  }

  const std::string units = lower(text(dimension, "units").value_or(""));
  if (is_one_of(units, {"degrees_north", "degree_north", "degrees_n", "degree_n", "degreesn",
                        "degreen"})) {
    return DimensionRole::latitude;
  }
  if (is_one_of(units,
                {"degrees_east", "degree_east", "degrees_e", "degree_e", "degreese", "degreee"})) {
    return DimensionRole::longitude;
  }
  if (units.find(" since ") != std::string::npos) return DimensionRole::time;
  if (is_one_of(units, {"hpa", "pa", "mb", "mbar", "millibar", "millibars", "bar"})) {
    return DimensionRole::level;
  }

  // a projected coordinate has an axis too, in metres; a latitude needs degrees
  const std::string axis = lower(text(dimension, "axis").value_or(""));
  const bool angle       = units.empty() || units.rfind("degree", 0) == 0;
  if (axis == "y" && angle) return DimensionRole::latitude;
  if (axis == "x" && angle) return DimensionRole::longitude;
  if (axis == "z" || text(dimension, "positive")) return DimensionRole::level;
  if (axis == "t") return DimensionRole::time;
  if (axis == "e") return DimensionRole::member;

  const std::string name = lower(dimension);
  if (is_one_of(name, {"latitude", "lat", "nlat", "g0_lat_0", "g0_lat_1", "g0_lat_2"})) {
    return DimensionRole::latitude;
  }
  if (is_one_of(name, {"longitude", "lon", "long", "nlon", "g0_lon_1", "g0_lon_2", "g0_lon_3"})) {
    return DimensionRole::longitude;
  }
  if (is_one_of(name, {"time", "t", "valid_time", "step", "month", "date", "initial_time"})) {
    return DimensionRole::time;
  }
  if (is_one_of(name, {"number", "realization", "realisation", "ensemble", "ens", "member",
                       "ensemble_member"})) {
    return DimensionRole::member;
  }
  if (is_one_of(name, {"level", "lev", "plev", "pressure", "pressure_level", "isobaricinhpa",
                       "height", "depth", "altitude", "hybrid", "model_level"})) {
    return DimensionRole::level;
  }
  return DimensionRole::unknown;
}

std::size_t NetcdfFile::read(const std::string& name, std::span<const std::size_t> start,
                             std::span<const std::size_t> count, std::span<double> values) const {
  const auto alone          = one_at_a_time();
  const NetcdfVariable what = variable(name);
  if (!what.numeric) fail(path(), name, "holds text, not numbers; name another variable");
  if (start.size() != what.dimensions.size() || count.size() != what.dimensions.size()) {
    fail(path(), name,
         "has " + std::to_string(what.dimensions.size()) + " dimensions, but the box given has " +
             std::to_string(start.size()) + " starts and " + std::to_string(count.size()) +
             " counts");
  }
  std::size_t size = 1;
  for (std::size_t d = 0; d < count.size(); ++d) {
    const NetcdfDimension& dimension = what.dimensions[d];
    if (start[d] > dimension.size || count[d] > dimension.size - start[d]) {
      fail(path(), name,
           "entries " + std::to_string(start[d]) + " to " + std::to_string(start[d] + count[d]) +
               " of dimension '" + dimension.name + "' requested, which has " +
               std::to_string(dimension.size));
    }
    size *= count[d];
  }
  if (values.size() != size) {
    fail(path(), name,
         "the box has " + std::to_string(size) + " values, but the array given takes " +
             std::to_string(values.size()));
  }
  if (size == 0) return 0;

  const int id = *state_->find(name);
  nc_type type = NC_NAT;
  check(nc_inq_vartype(state_->id, id, &type), path(), name, "read its type");
  // NetCDF reads compressed variables in whole chunks
  int storage = NC_CONTIGUOUS;
  std::vector<std::size_t> chunk(what.dimensions.size());
  if (nc_inq_var_chunking(state_->id, id, &storage, chunk.data()) == NC_NOERR &&
      storage == NC_CHUNKED) {
    std::size_t bytes = 0;
    check(nc_inq_type(state_->id, type, nullptr, &bytes), path(), name, "read its type");
    if (const std::string why = impl::over_limit(chunk, bytes, state_->limit); !why.empty())
      fail(path(), name, "for a chunk of it " + why);
  }
  const Decoding decoded({state_->id, id, path(), name}, type,
                         lower(text(name, "_Unsigned").value_or("")) == "true");
  check(nc_get_vara_double(state_->id, id, start.data(), count.data(), values.data()), path(), name,
        "read values");
  std::size_t missing = 0;
  for (double& value : values) {
    value = decoded(value);
    missing += std::isnan(value) ? 1 : 0;
  }
  return missing;
}

std::vector<double> NetcdfFile::read(const std::string& name) const {
  const auto alone          = one_at_a_time();
  const NetcdfVariable what = variable(name);
  std::vector<std::size_t> start(what.dimensions.size(), 0), count;
  std::size_t size = 1;
  for (const NetcdfDimension& dimension : what.dimensions) {
    count.push_back(dimension.size);
    size *= dimension.size;
  }
  if (const std::string why = impl::over_limit(count, sizeof(double), state_->limit); !why.empty())
    fail(path(), name, why);
  std::vector<double> values(size);
  read(name, start, count, values);
  return values;
}

}  // namespace shard
