// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <netcdf.h>

#include <array>
#include <cmath>
#include <utility>

#include "attribute_types.hpp"
#include "netcdf_attributes.hpp"
#include "new_file.hpp"
#include "shard/io/netcdf.hpp"

namespace shard {
using namespace impl::netcdf;

struct NetcdfWriter::State {
  explicit State(const std::string& to) : path(to), file(to, &State::cannot_be_made) {}

  std::string path;
  impl::NewFile file;
  int id        = -1;
  bool open     = false;
  bool defining = true;

  State(const State&)            = delete;
  State& operator=(const State&) = delete;
  ~State() {
    const auto alone = one_at_a_time();
    if (open) nc_abort(id);
  }

  [[noreturn]] static void cannot_be_made(const std::string& path, const std::string& reason) {
    fail(path, "",
         "cannot be written: " + reason + "; give a path in a folder that can be written to");
  }

  void define(bool wanted) {
    if (wanted == defining) return;
    check(wanted ? nc_redef(id) : nc_enddef(id), path, "", "change between header and data");
    defining = wanted;
  }

  void require_open(const std::string& variable) const {
    if (!open) fail(path, variable, "is closed; write before close()");
  }

  int find(const std::string& name) const {
    int variable = -1;
    if (nc_inq_varid(id, name.c_str(), &variable) != NC_NOERR)
      fail(path, name, "is not declared; add it first");
    return variable;
  }

  /// Of a variable that is to be written.
  std::vector<std::size_t> extents(const std::string& name) {
    require_open(name);
    define(false);
    int rank = 0;
    std::array<int, NC_MAX_VAR_DIMS> ids{};
    check(nc_inq_var(id, find(name), nullptr, nullptr, &rank, ids.data(), nullptr), path, name,
          "describe it");
    std::vector<std::size_t> list(static_cast<std::size_t>(rank));
    for (std::size_t d = 0; d < list.size(); ++d)
      check(nc_inq_dimlen(id, ids[d], &list[d]), path, name, "read its dimensions");
    return list;
  }

  void put(int variable, const std::string& name, const NetcdfAttribute& attribute, nc_type type) {
    if (const auto* text = std::get_if<std::string>(&attribute.value)) {
      check(nc_put_att_text(id, variable, attribute.name.c_str(), text->size(), text->c_str()),
            path, name, "write an attribute");
      return;
    }
    const double value = *impl::number_of(attribute);
    check(nc_put_att_double(id, variable, attribute.name.c_str(),
                            impl::has_variables_type(attribute.name)         ? type
                            : std::holds_alternative<int>(attribute.value)   ? NC_INT
                            : std::holds_alternative<float>(attribute.value) ? NC_FLOAT
                                                                             : NC_DOUBLE,
                            1, &value),
          path, name, "write an attribute");
  }
};

NetcdfWriter::NetcdfWriter(const std::string& path, bool large, ExistingFile existing)
    : state_(std::make_unique<State>(path)) {
  const auto alone        = one_at_a_time();
  const std::string& part = state_->file.part();
  if (existing == ExistingFile::extend && state_->file.copy_old()) {
    check(nc_open(part.c_str(), NC_WRITE, &state_->id), path, "", "open it for writing");
    state_->defining = false;
  } else {
    const int code = nc_create(part.c_str(), NC_CLOBBER | (large ? NC_64BIT_DATA : NC_64BIT_OFFSET),
                               &state_->id);
    if (code != NC_NOERR) State::cannot_be_made(path, nc_strerror(code));
  }
  state_->open = true;
  check(nc_set_fill(state_->id, NC_NOFILL, nullptr), path, "", "leave holes");
}
NetcdfWriter::NetcdfWriter(NetcdfWriter&&) noexcept            = default;
NetcdfWriter& NetcdfWriter::operator=(NetcdfWriter&&) noexcept = default;
NetcdfWriter::~NetcdfWriter()                                  = default;

void NetcdfWriter::add_dimension(const std::string& name, std::size_t size) {
  const auto alone = one_at_a_time();
  state_->require_open(name);
  state_->define(true);
  int dimension = -1;
  check(nc_def_dim(state_->id, name.c_str(), size, &dimension), state_->path, name,
        "declare a dimension");
}

void NetcdfWriter::add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                                NetcdfType type, const std::vector<NetcdfAttribute>& attributes) {
  const auto alone = one_at_a_time();
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
  const nc_type stored = type == NetcdfType::int8      ? NC_BYTE
                         : type == NetcdfType::int16   ? NC_SHORT
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
  const auto alone = one_at_a_time();
  add_dimension(name, values.size());
  add_variable(name, {name}, NetcdfType::float64, attributes);
  write(name, values);
}

void NetcdfWriter::add_attribute(const NetcdfAttribute& attribute) {
  const auto alone = one_at_a_time();
  state_->require_open("");
  state_->define(true);
  state_->put(NC_GLOBAL, "", attribute, NC_DOUBLE);
}

void NetcdfWriter::write(const std::string& name, std::span<const double> values) {
  const auto alone                     = one_at_a_time();
  const std::vector<std::size_t> count = state_->extents(name);
  write(name, std::vector<std::size_t>(count.size(), 0), count, values);
}

void NetcdfWriter::write(const std::string& name, std::span<const std::size_t> start,
                         std::span<const std::size_t> count, std::span<const double> values) {
  const auto alone       = one_at_a_time();
  const std::size_t rank = state_->extents(name).size();
  if (start.size() != rank || count.size() != rank)
    fail(state_->path, name, "has " + std::to_string(rank) + " dimensions; the box has others");
  std::size_t size = 1;
  for (const std::size_t n : count) size *= n;
  if (values.size() != size) {
    fail(state_->path, name,
         "takes " + std::to_string(size) + " values, " + std::to_string(values.size()) + " given");
  }
  const VariableAt at{state_->id, state_->find(name), state_->path, name};
  nc_type type = NC_NAT;
  check(nc_inq_vartype(at.file, at.id, &type), at.path, name, "describe it");
  const std::optional<double> scale = at.packing("scale_factor"), offset = at.packing("add_offset");
  const std::vector<double> fill = at.numbers("_FillValue", 1, true);
  if (scale == 0.0)
    fail(state_->path, name, "its scale_factor is 0, nothing can be packed with it");
  std::vector<double> stored(values.begin(), values.end());
  for (double& value : stored) {
    if (std::isnan(value) && !fill.empty()) {
      value = fill[0];
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
  const int code =
      type == NC_FLOAT  // the library refuses infinity
          ? nc_put_vara_float(at.file, at.id, start.data(), count.data(),
                              std::vector<float>(stored.begin(), stored.end()).data())
          : nc_put_vara_double(at.file, at.id, start.data(), count.data(), stored.data());
  check(code, at.path, name, "write values");
}

void NetcdfWriter::close() {
  const auto alone = one_at_a_time();
  state_->require_open("");
  state_->open = false;
  check(nc_close(state_->id), state_->path, "", "end it");
  state_->file.put_in_place();
}

}  // namespace shard
