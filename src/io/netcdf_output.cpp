// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/netcdf_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <variant>

#include "attribute_types.hpp"
#include "classic_header.hpp"
#include "output_file.hpp"
#include "own_box.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shared_file.hpp"

namespace shard {
namespace impl {
namespace {

constexpr index_t most_bytes_of_variable = 0xfffffffc;        // in the format with 64-bit offsets
constexpr index_t values_per_round       = index_t{1} << 22;  // bounds the memory

/// Adds the values [place, place + n) of a variable with these extents.
void add_boxes(OutputBoxes& boxes, const std::vector<index_t>& extents, index_t place, index_t n) {
  for (index_t taken = 1; n > 0; place += taken, n -= taken, taken = 1) {
    std::vector<index_t> start(extents.size()), count(extents.size(), 1);
    index_t rest = place;
    bool whole   = true;  // in the dimensions inside of this one
    for (std::size_t d = extents.size(); d-- > 0; rest /= extents[d]) {
      start[d] = rest % extents[d];
      if (whole) count[d] = std::min(n / taken, extents[d] - start[d]);
      whole = whole && count[d] == extents[d];
      taken *= count[d];
    }
    boxes.starts.insert(boxes.starts.end(), start.begin(), start.end());
    boxes.counts.insert(boxes.counts.end(), count.begin(), count.end());
  }
}

/// The values [first, first + n) of this rank's box.
template <class T>
std::vector<double> values_of(const CheckpointArray& array, index_t first, index_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  copy_stream(array, sizeof(T), first, n, reinterpret_cast<char*>(values.data()), true);
  return {values.begin(), values.end()};
}

}  // namespace
}  // namespace impl

struct NetcdfOutput::State {
  MPI_Comm comm;
  std::string path;
  ExistingFile existing;
  std::size_t records = 0;
  impl::OutputHeader header{};
  std::unique_ptr<impl::OutputFile> file{};  ///< none: it is not begun, or closed
  bool begun = false;

  [[noreturn]] void fail(const std::string& what) const {
    impl::throw_argument("NetcdfOutput", {"file \"", path, "\": ", what});
  }
  void require_declaring(const std::string& name) const {
    if (begun) fail("\"" + name + "\" is declared after the first write; declare it before");
  }
  const impl::OutputVariable& find(const std::string& name) const {
    std::string names;
    for (const impl::OutputVariable& v : header.variables) {
      if (v.name == name) return v;
      names += (names.empty() ? "" : ", ") + v.name;
    }
    fail("there is no variable \"" + name + "\"; there are: " + names);
  }
  index_t size_of(const std::string& dimension) const {
    for (const NetcdfDimension& d : header.dimensions)
      if (d.name == dimension) return static_cast<index_t>(d.size);
    fail("there is no dimension \"" + dimension + "\"; declare it with add_dimension");
  }

  static std::string exact(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%a", number);
    return text;
  }
  /// Throws unless `value` is a number of the variable's type.
  void require_of_type(const std::string& name, NetcdfType type, const NetcdfAttribute& a) const {
    if (!impl::has_variables_type(a.name)) return;
    const auto value = impl::number_of(a);
    if (!value) fail("variable \"" + name + "\" has a " + a.name + " that is text; give a number");
    constexpr double bounds[] = {127.0, 32767.0, 2147483647.0};
    const double most         = type < NetcdfType::float32 ? bounds[static_cast<int>(type)]
                                : type == NetcdfType::float32
                                    ? static_cast<double>(std::numeric_limits<float>::max())
                                    : std::numeric_limits<double>::max();
    const bool is_real        = type >= NetcdfType::float32;
    if ((!is_real && *value != std::nearbyint(*value)) || *value > most ||
        *value < (is_real ? -most : -most - 1))
      fail("variable \"" + name + "\" has the " + a.name + " " + std::to_string(*value) +
           ", which its type can't hold; give one that it can");
  }
  /// Declares a variable as it is.
  void declare(const std::string& name, const std::vector<std::string>& dimensions, NetcdfType type,
               const std::vector<NetcdfAttribute>& attributes) {
    require_declaring(name);
    for (const impl::OutputVariable& v : header.variables)
      if (v.name == name) fail("there is a variable \"" + name + "\" already");
    for (const NetcdfAttribute& a : attributes) {
      require_of_type(name, type, a);
      if (a.name == "scale_factor" || a.name == "add_offset")
        fail("variable \"" + name + "\" has a " + a.name + ", but fields aren't packed");
    }
    impl::OutputVariable v{name, dimensions, {}, type, attributes};
    for (const std::string& d : dimensions) {
      if (std::count(dimensions.begin(), dimensions.end(), d) > 1)
        fail("variable \"" + name + "\" has dimension \"" + d + "\" twice");
      v.extents.push_back(size_of(d));
      if (v.extents.back() == 0 && v.extents.size() > 1)
        fail("variable \"" + name + "\" has the record dimension \"" + d +
             "\" in another place than the first");
    }
    header.variables.push_back(std::move(v));
  }

  /// All declarations, for comparison among ranks.
  std::string described() const {
    std::string text;
    const auto add = [&](const std::vector<NetcdfAttribute>& attributes) {
      for (const NetcdfAttribute& a : attributes) {
        const auto* words = std::get_if<std::string>(&a.value);
        text += " " + a.name + "=" + (words ? *words : exact(*impl::number_of(a))) + ":" +
                std::to_string(a.value.index());
      }
    };
    for (const NetcdfDimension& d : header.dimensions)
      text += d.name + "=" + std::to_string(d.size) + " ";
    constexpr const char* types[] = {"byte ", "short ", "int ", "float ", "double "};
    for (const impl::OutputVariable& v : header.variables) {
      text += types[static_cast<int>(v.type)] + v.name;
      for (const std::string& d : v.dimensions) text += " " + d;
      add(v.attributes);
      if (!v.values.empty())
        text +=
            " values " + std::to_string(impl::hash_bytes(
                             v.values.data(), v.values.size() * sizeof(double), impl::hash_seed));
    }
    add(header.attributes);
    return text + (existing == ExistingFile::extend ? " extends" : "");
  }

  /// The records of the file that is to be extended; none: there is none. Throws on every rank if
  /// it has other declarations. Collective.
  std::optional<std::size_t> old_records() const {
    std::int64_t found = -1;
    impl::on_first_rank(comm, [&] {
      std::error_code unknown;
      const auto size = std::filesystem::file_size(path, unknown);
      if (unknown) return;
      const impl::ClassicHeader old = impl::read_classic_header(path);
      if (!old.is_classic)
        fail("it isn't a NetCDF file in the classic format; it can't be extended");
      if (size < old.size) fail("it is cut short, and can't be extended");
      if (const std::string what = impl::difference(path, old, header); !what.empty())
        fail("it can't be extended: " + what + "; declare what it has, or write another file");
      found = static_cast<std::int64_t>(old.records);
    });
    impl::broadcast_bytes(comm, &found, sizeof found);
    return found < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(found));
  }

  /// Makes the file. Collective.
  void begin() {
    if (begun) {
      if (file == nullptr) fail("it is closed; write before close()");
      return;
    }
    impl::require_agreement(comm, "NetcdfOutput", described());
    bool large = false;
    for (const impl::OutputVariable& v : header.variables)
      large = large || v.bytes() > impl::most_bytes_of_variable;
    std::optional<std::size_t> old;
    if (existing == ExistingFile::extend) old = old_records();
    records = old.value_or(0);
    file    = impl::make_output_file(comm, path, header, large, old.has_value());
    begun   = true;
    if (old) return;
    int rank = 0;
    impl::check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    for (const impl::OutputVariable& v : header.variables) {
      if (v.values.empty()) continue;
      impl::OutputBoxes all;
      if (rank == 0)
        all = {std::vector<std::size_t>(v.extents.size(), 0),
               {v.extents.begin(), v.extents.end()},
               v.values};
      file->write(v, std::move(all));
    }
  }
};

NetcdfOutput::NetcdfOutput(MPI_Comm comm, const std::string& path, ExistingFile existing)
    : state_(new State{impl::require_communicator(comm, "NetcdfOutput"), path, existing}) {
  impl::require_output_library(path);
}
NetcdfOutput::~NetcdfOutput() = default;

void NetcdfOutput::add_dimension(const std::string& name, std::size_t size) {
  state_->require_declaring(name);
  for (const NetcdfDimension& d : state_->header.dimensions)
    if (d.name == name) state_->fail("there is a dimension \"" + name + "\" already");
  if (size == 0)
    state_->fail("dimension \"" + name +
                 "\" has size 0; it needs one or more, or add_record_dimension");
  state_->header.dimensions.push_back({name, size});
}

void NetcdfOutput::add_record_dimension(const std::string& name) {
  for (const NetcdfDimension& d : state_->header.dimensions)
    if (d.size == 0)
      state_->fail("\"" + d.name + "\" is the record dimension already; the format has one");
  add_dimension(name, 1);
  state_->header.dimensions.back().size = 0;
}

void NetcdfOutput::add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                                NetcdfType type, const std::vector<NetcdfAttribute>& attributes) {
  std::vector<NetcdfAttribute> all = attributes;
  const bool has_fill =
      std::any_of(all.begin(), all.end(), [](const auto& a) { return a.name == "_FillValue"; });
  bool is_bounds = false;  // they have no attributes of their own (CF 7.1)
  for (const impl::OutputVariable& v : state_->header.variables)
    for (const NetcdfAttribute& a : v.attributes)
      is_bounds = is_bounds || (a.name == "bounds" && a.value == NetcdfAttribute{"", name}.value);
  // NetCDF's own, for NaN
  if (!has_fill && !is_bounds && type >= NetcdfType::float32)
    all.push_back({"_FillValue", 9.9692099683868690e+36});
  state_->declare(name, dimensions, type, all);
}

void NetcdfOutput::add_coordinate(const std::string& name, std::span<const double> values,
                                  const std::vector<NetcdfAttribute>& attributes,
                                  std::span<const double> edges) {
  const auto not_falling = [&](std::span<const double> numbers, const char* what) {
    bool rises = true, falls = true;
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      rises = rises && numbers[i] > numbers[i - 1];
      falls = falls && numbers[i] < numbers[i - 1];
    }
    if (!rises && !falls)
      state_->fail(std::string("the ") + what + " of \"" + name +
                   "\" neither rise nor fall; declare a dimension and a variable");
  };
  not_falling(values, "values");
  std::vector<NetcdfAttribute> all = attributes;
  if (!edges.empty()) {
    if (edges.size() != values.size() + 1)
      state_->fail("coordinate \"" + name + "\" has " + std::to_string(values.size()) +
                   " values and " + std::to_string(edges.size()) + " edges; give one more edge");
    not_falling(edges, "edges");
    all.push_back({"bounds", name + "_bnds"});
  }
  add_dimension(name, values.size());
  state_->declare(name, {name}, NetcdfType::float64, all);
  state_->header.variables.back().values.assign(values.begin(), values.end());
  if (edges.empty()) return;
  const auto& dimensions = state_->header.dimensions;
  if (std::none_of(dimensions.begin(), dimensions.end(),
                   [](const NetcdfDimension& d) { return d.name == "bnds"; }))
    add_dimension("bnds", 2);
  if (state_->size_of("bnds") != 2)
    state_->fail("dimension \"bnds\" is of the bounds of coordinates and has size 2");
  state_->declare(name + "_bnds", {name, "bnds"}, NetcdfType::float64, {});
  auto& bounds = state_->header.variables.back().values;
  for (std::size_t i = 0; i < values.size(); ++i)
    bounds.insert(bounds.end(), {edges[i], edges[i + 1]});
}

void NetcdfOutput::add_time(const std::string& units, const std::string& calendar) {
  add_record_dimension("time");
  state_->declare("time", {"time"}, NetcdfType::float64,
                  {{"standard_name", "time"},
                   {"long_name", "time"},
                   {"units", units},
                   {"calendar", calendar},
                   {"axis", "T"}});
}

void NetcdfOutput::add_latitude(std::span<const double> degrees, std::span<const double> edges) {
  add_coordinate("lat", degrees,
                 {{"standard_name", "latitude"},
                  {"long_name", "latitude"},
                  {"units", "degrees_north"},
                  {"axis", "Y"}},
                 edges);
}

void NetcdfOutput::add_longitude(std::span<const double> degrees, std::span<const double> edges) {
  add_coordinate("lon", degrees,
                 {{"standard_name", "longitude"},
                  {"long_name", "longitude"},
                  {"units", "degrees_east"},
                  {"axis", "X"}},
                 edges);
}

void NetcdfOutput::add_attribute(const NetcdfAttribute& attribute) {
  state_->require_declaring(attribute.name);
  state_->header.attributes.push_back(attribute);
}

void NetcdfOutput::put(const std::string& variable, const std::size_t* index,
                       const impl::CheckpointArray& array) {
  State& state = *state_;
  const impl::Watched watched(
      {.what = "other ranks to write a NetCDF file", .of = &state.path, .times = false});
  state.begin();
  impl::require_agreement(state.comm, "NetcdfOutput::write",
                          "variable \"" + variable + "\"" +
                              (index != nullptr ? ", entry " + std::to_string(*index) : ""));
  const impl::OutputVariable& v = state.find(variable);
  std::vector<index_t> extents  = v.extents,
                       given(array.global.begin(), array.global.begin() + array.rank);
  const std::string shape = impl::shape_of(extents);
  index_t before          = 0;  // entries, then their values
  if (v.is_record()) {
    if (index == nullptr)
      state.fail("variable \"" + variable + "\" has a record dimension; name the entry to write");
    extents.front() = static_cast<index_t>(*index) + 1;
  }
  const std::vector<index_t> in_file = extents;
  if (index != nullptr) {
    if (extents.empty() || static_cast<index_t>(*index) >= extents.front())
      state.fail("variable \"" + variable + "\" is " + shape + " and has no entry " +
                 std::to_string(*index));
    extents.erase(extents.begin());
    before = static_cast<index_t>(*index);
  }
  if (extents != given)
    state.fail("variable \"" + variable + "\" is " + shape + ", the field is " +
               impl::shape_of(given) +
               (index != nullptr ? " for one entry of the first dimension" : ""));
  for (const index_t n : extents) before *= n;
  std::optional<double> fill;
  for (const NetcdfAttribute& a : v.attributes)
    if (a.name == "_FillValue") fill = impl::number_of(a);
  const index_t mine = array.writes ? impl::count_of(array) : 0;
  index_t most       = 0;
  impl::await_mpi("MPI_Allreduce", MPI_Allreduce, &mine, &most, 1, MPI_INT64_T, MPI_MAX,
                  state.comm);
  for (index_t first = 0; first < most; first += impl::values_per_round) {
    const index_t n = std::clamp(mine - first, index_t{0}, impl::values_per_round);
    impl::OutputBoxes boxes;
    boxes.values = array.type == "F64"   ? impl::values_of<double>(array, first, n)
                   : array.type == "F32" ? impl::values_of<float>(array, first, n)
                   : array.type == "I32" ? impl::values_of<std::int32_t>(array, first, n)
                   : array.type == "I16" ? impl::values_of<std::int16_t>(array, first, n)
                                         : impl::values_of<std::int8_t>(array, first, n);
    for (double& value : boxes.values)
      if (fill && std::isnan(value)) value = *fill;
    impl::for_each_run(array, first, n, [&](index_t place, index_t, index_t run) {
      impl::add_boxes(boxes, in_file, before + place, run);
    });
    state.file->write(v, std::move(boxes));
  }
  if (v.is_record()) state.records = std::max(state.records, *index + 1);
}

std::size_t NetcdfOutput::records() {
  state_->begin();
  return state_->records;
}

void NetcdfOutput::write(const std::string& variable, std::size_t index, double value) {
  impl::CheckpointArray array{variable, "F64"};
  int rank = 0;
  impl::check_mpi(MPI_Comm_rank(state_->comm, &rank), "MPI_Comm_rank");
  array.writes = rank == 0;
  array.data   = reinterpret_cast<std::byte*>(&value);
  put(variable, &index, array);
}

void NetcdfOutput::close() {
  const impl::Watched watched(
      {.what = "other ranks to close a NetCDF file", .of = &state_->path, .times = false});
  state_->begin();
  state_->file->close();
  state_->file.reset();
}

}  // namespace shard
