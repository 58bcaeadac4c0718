// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/netcdf.hpp>

#include <netcdf.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace shard {
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

[[noreturn]] void fail(const std::string& path, const std::string& variable,
                       const std::string& what) {
  throw NetcdfError("shard: NetCDF file '" + path + "'" +
                    (variable.empty() ? "" : ", variable '" + variable + "'") + ": " + what);
}

void check(int code, const std::string& path, const std::string& variable, const char* action) {
  if (code != NC_NOERR) {
    fail(path, variable, std::string("cannot ") + action + ": " + nc_strerror(code));
  }
}

/// An integer type of one or two bytes whose values are meant without sign (NUG, _Unsigned).
double unsigned_span(nc_type type) {
  return type == NC_BYTE ? 256.0 : type == NC_SHORT ? 65536.0 : 0.0;
}

bool is_floating(nc_type type) { return type == NC_FLOAT || type == NC_DOUBLE; }

/// NetCDF's value of cells never written; bytes have none, for every value of theirs is in use.
std::optional<double> default_fill(nc_type type) {
  switch (type) {
    case NC_SHORT: return NC_FILL_SHORT;
    case NC_INT: return NC_FILL_INT;
    case NC_FLOAT: return static_cast<double>(NC_FILL_FLOAT);
    case NC_DOUBLE: return NC_FILL_DOUBLE;
    default: return std::nullopt;
  }
}

}  // namespace

bool netcdf_available() { return true; }

struct NetcdfFile::State {
  std::string path;
  int id = -1;

  explicit State(std::string p) : path(std::move(p)) {
    const int code = nc_open(path.c_str(), NC_NOWRITE, &id);
    if (code != NC_NOERR) {
      fail(path, "",
           std::string("cannot be opened: ") + nc_strerror(code) +
               "; check the path, and that it is NetCDF (GRIB files must be converted first)");
    }
  }
  State(const State&)            = delete;
  State& operator=(const State&) = delete;
  ~State() { nc_close(id); }

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

NetcdfFile::NetcdfFile(const std::string& path) : state_(std::make_unique<State>(path)) {}
NetcdfFile::NetcdfFile(NetcdfFile&&) noexcept            = default;
NetcdfFile& NetcdfFile::operator=(NetcdfFile&&) noexcept = default;
NetcdfFile::~NetcdfFile()                                = default;

const std::string& NetcdfFile::path() const { return state_->path; }

std::vector<NetcdfDimension> NetcdfFile::dimensions() const {
  int count = 0;
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
  int count = 0;
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
  return state_->find(name).has_value();
}

NetcdfVariable NetcdfFile::variable(const std::string& name) const {
  const std::optional<int> id = state_->find(name);
  if (!id) fail(path(), name, "there is none of that name; there are: " + join(variables()));
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

  // A projected coordinate has an axis too, in metres: only degrees make a latitude of it.
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
               " of dimension '" + dimension.name + "' asked for, which has " +
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
  check(nc_get_vara_double(state_->id, id, start.data(), count.data(), values.data()), path(), name,
        "read values");

  // Markers are compared with the values as stored, so in the type of the variable.
  std::array<double, 3> markers{};
  std::size_t marker_count = 0;
  bool has_fill            = false;
  for (const char* attribute : {"_FillValue", "missing_value"}) {
    std::optional<double> marker = number(name, attribute);
    if (!marker || std::isnan(*marker)) continue;
    if (type == NC_FLOAT) marker = static_cast<double>(static_cast<float>(*marker));
    markers[marker_count++] = *marker;
    if (std::string(attribute) == "_FillValue") has_fill = true;
  }
  if (!has_fill) {
    if (const std::optional<double> marker = default_fill(type)) markers[marker_count++] = *marker;
  }
  const bool may_be_nan  = is_floating(type);
  const bool is_unsigned = lower(text(name, "_Unsigned").value_or("")) == "true";
  const double wrap      = is_unsigned ? unsigned_span(type) : 0.0;
  const double scale     = number(name, "scale_factor").value_or(1.0);
  const double offset    = number(name, "add_offset").value_or(0.0);

  std::size_t missing = 0;
  for (double& value : values) {
    bool absent = may_be_nan && std::isnan(value);
    for (std::size_t m = 0; m < marker_count; ++m) absent = absent || value == markers[m];
    if (absent) {
      value = std::numeric_limits<double>::quiet_NaN();
      ++missing;
      continue;
    }
    if (value < 0.0) value += wrap;
    if (what.packed) value = value * scale + offset;
  }
  return missing;
}

std::vector<double> NetcdfFile::read(const std::string& name) const {
  const NetcdfVariable what = variable(name);
  std::vector<std::size_t> start(what.dimensions.size(), 0), count;
  std::size_t size = 1;
  for (const NetcdfDimension& dimension : what.dimensions) {
    count.push_back(dimension.size);
    size *= dimension.size;
  }
  std::vector<double> values(size);
  read(name, start, count, values);
  return values;
}

struct NetcdfWriter::State {
  std::string path;
  int id        = -1;
  bool open     = false;
  bool defining = true;

  void define(bool wanted) {
    if (wanted == defining) return;
    check(wanted ? nc_redef(id) : nc_enddef(id), path, "", "change between header and data");
    defining = wanted;
  }

  void require_open(const std::string& variable) const {
    if (!open) fail(path, variable, "is closed; write before close()");
  }

  void put(int variable, const std::string& name, const NetcdfAttribute& attribute, nc_type type) {
    if (const auto* text = std::get_if<std::string>(&attribute.value)) {
      check(nc_put_att_text(id, variable, attribute.name.c_str(), text->size(), text->c_str()),
            path, name, "write an attribute");
      return;
    }
    const double value     = std::get<double>(attribute.value);
    const bool in_own_type = attribute.name == "_FillValue" || attribute.name == "missing_value";
    check(nc_put_att_double(id, variable, attribute.name.c_str(), in_own_type ? type : NC_DOUBLE, 1,
                            &value),
          path, name, "write an attribute");
  }
};

NetcdfWriter::NetcdfWriter(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path   = path;
  const int code = nc_create(path.c_str(), NC_CLOBBER | NC_64BIT_OFFSET, &state_->id);
  if (code != NC_NOERR) {
    fail(path, "",
         std::string("cannot be made: ") + nc_strerror(code) +
             "; check that the folder exists and can be written to");
  }
  state_->open = true;
}
NetcdfWriter::NetcdfWriter(NetcdfWriter&&) noexcept = default;
NetcdfWriter& NetcdfWriter::operator=(NetcdfWriter&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
NetcdfWriter::~NetcdfWriter() {
  if (state_ && state_->open) nc_close(state_->id);
}

void NetcdfWriter::add_dimension(const std::string& name, std::size_t size) {
  state_->require_open(name);
  state_->define(true);
  int dimension = -1;
  check(nc_def_dim(state_->id, name.c_str(), size, &dimension), state_->path, name,
        "declare a dimension");
}

void NetcdfWriter::add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                                NetcdfType type, const std::vector<NetcdfAttribute>& attributes) {
  state_->require_open(name);
  state_->define(true);
  std::vector<int> ids;
  for (const std::string& dimension : dimensions) {
    int id = -1;
    if (nc_inq_dimid(state_->id, dimension.c_str(), &id) != NC_NOERR) {
      fail(state_->path, name, "dimension '" + dimension + "' is not declared; add it first");
    }
    ids.push_back(id);
  }
  const nc_type stored = type == NetcdfType::int16     ? NC_SHORT
                         : type == NetcdfType::int32   ? NC_INT
                         : type == NetcdfType::float32 ? NC_FLOAT
                                                       : NC_DOUBLE;
  int variable         = -1;
  check(nc_def_var(state_->id, name.c_str(), stored, static_cast<int>(ids.size()), ids.data(),
                   &variable),
        state_->path, name, "declare it");
  for (const NetcdfAttribute& attribute : attributes)
    state_->put(variable, name, attribute, stored);
}

void NetcdfWriter::add_coordinate(const std::string& name, std::span<const double> values,
                                  const std::vector<NetcdfAttribute>& attributes) {
  add_dimension(name, values.size());
  add_variable(name, {name}, NetcdfType::float64, attributes);
  write(name, values);
}

void NetcdfWriter::add_attribute(const NetcdfAttribute& attribute) {
  state_->require_open("");
  state_->define(true);
  state_->put(NC_GLOBAL, "", attribute, NC_DOUBLE);
}

void NetcdfWriter::write(const std::string& name, std::span<const double> values) {
  state_->require_open(name);
  state_->define(false);
  int variable = -1, rank = 0;
  if (nc_inq_varid(state_->id, name.c_str(), &variable) != NC_NOERR) {
    fail(state_->path, name, "is not declared; add it first");
  }
  nc_type type = NC_NAT;
  std::array<int, NC_MAX_VAR_DIMS> ids{};
  check(nc_inq_var(state_->id, variable, nullptr, &type, &rank, ids.data(), nullptr), state_->path,
        name, "describe it");
  std::size_t size = 1;
  for (int d = 0; d < rank; ++d) {
    std::size_t extent = 0;
    check(nc_inq_dimlen(state_->id, ids[static_cast<std::size_t>(d)], &extent), state_->path, name,
          "read its dimensions");
    size *= extent;
  }
  if (values.size() != size) {
    fail(state_->path, name,
         "takes " + std::to_string(size) + " values, " + std::to_string(values.size()) + " given");
  }
  const auto attribute = [&](const char* key) -> std::optional<double> {
    double value = 0.0;
    if (nc_get_att_double(state_->id, variable, key, &value) != NC_NOERR) return std::nullopt;
    return value;
  };
  const std::optional<double> scale = attribute("scale_factor"), offset = attribute("add_offset"),
                              fill = attribute("_FillValue");
  std::vector<double> stored(values.begin(), values.end());
  for (double& value : stored) {
    if (std::isnan(value) && fill) {
      value = *fill;
      continue;
    }
    value = (value - offset.value_or(0.0)) / scale.value_or(1.0);
    if (!is_floating(type)) {
      if (std::isnan(value)) {
        fail(state_->path, name, "NaN can't be an integer; give the variable a _FillValue");
      }
      value = std::nearbyint(value);
    }
  }
  check(nc_put_var_double(state_->id, variable, stored.data()), state_->path, name, "write values");
}

void NetcdfWriter::close() {
  state_->require_open("");
  state_->define(false);
  state_->open = false;
  check(nc_close(state_->id), state_->path, "", "end it");
}

}  // namespace shard
