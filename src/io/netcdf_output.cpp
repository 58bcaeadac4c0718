// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/netcdf_output.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

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

  /// All declarations, for comparison among ranks.
  std::string described() const {
    std::string text;
    const auto add = [&](const std::vector<NetcdfAttribute>& attributes) {
      for (const auto& [name, value] : attributes) {
        const auto* words = std::get_if<std::string>(&value);
        text += " " + name + "=" + (words ? *words : std::to_string(std::get<double>(value)));
      }
    };
    for (const NetcdfDimension& d : header.dimensions)
      text += d.name + "=" + std::to_string(d.size) + " ";
    for (const impl::OutputVariable& v : header.variables) {
      text += (v.type == NetcdfType::float32 ? "float " : "double ") + v.name;
      for (const std::string& d : v.dimensions) text += " " + d;
      add(v.attributes);
    }
    add(header.attributes);
    return text;
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
    file     = impl::make_output_file(comm, path, header, large);
    begun    = true;
    int rank = 0;
    impl::check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    for (const impl::OutputVariable& v : header.variables) {
      if (v.values.empty()) continue;
      impl::OutputBoxes all;
      if (rank == 0) all = {{0}, {v.values.size()}, v.values};
      file->write(v, std::move(all));
    }
  }
};

NetcdfOutput::NetcdfOutput(MPI_Comm comm, const std::string& path)
    : state_(new State{impl::require_communicator(comm, "NetcdfOutput"), path}) {
  impl::require_output_library(path);
}
NetcdfOutput::~NetcdfOutput() = default;

void NetcdfOutput::add_dimension(const std::string& name, std::size_t size) {
  state_->require_declaring(name);
  for (const NetcdfDimension& d : state_->header.dimensions)
    if (d.name == name) state_->fail("there is a dimension \"" + name + "\" already");
  if (size == 0) state_->fail("dimension \"" + name + "\" has size 0; it needs one or more");
  state_->header.dimensions.push_back({name, size});
}

void NetcdfOutput::add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                                NetcdfType type, const std::vector<NetcdfAttribute>& attributes) {
  state_->require_declaring(name);
  for (const impl::OutputVariable& v : state_->header.variables)
    if (v.name == name) state_->fail("there is a variable \"" + name + "\" already");
  if (type != NetcdfType::float32 && type != NetcdfType::float64)
    state_->fail("variable \"" + name + "\" has an integer type; use float32 or float64");
  for (const NetcdfAttribute& a : attributes) {
    if (a.name == "_FillValue" && !std::holds_alternative<double>(a.value))
      state_->fail("variable \"" + name + "\" has a _FillValue that is text; give a number");
    if (a.name == "scale_factor" || a.name == "add_offset")
      state_->fail("variable \"" + name + "\" has a " + a.name + ", but fields aren't packed");
  }
  impl::OutputVariable v{name, dimensions, {}, type, attributes};
  for (const std::string& d : dimensions) v.extents.push_back(state_->size_of(d));
  state_->header.variables.push_back(std::move(v));
}

void NetcdfOutput::add_coordinate(const std::string& name, std::span<const double> values,
                                  const std::vector<NetcdfAttribute>& attributes) {
  add_dimension(name, values.size());
  add_variable(name, {name}, NetcdfType::float64, attributes);
  state_->header.variables.back().values.assign(values.begin(), values.end());
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
  const impl::OutputVariable& v = state.find(variable);
  std::vector<index_t> extents  = v.extents,
                       given(array.global.begin(), array.global.begin() + array.rank);
  const std::string shape = impl::shape_of(extents);
  index_t before          = 0;  // entries, then their values
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
  const double* fill = nullptr;
  for (const NetcdfAttribute& a : v.attributes)
    if (a.name == "_FillValue") fill = &std::get<double>(a.value);
  const index_t mine = array.writes ? impl::count_of(array) : 0;
  index_t most       = 0;
  impl::await_mpi("MPI_Allreduce", MPI_Allreduce, &mine, &most, 1, MPI_INT64_T, MPI_MAX,
                  state.comm);
  for (index_t first = 0; first < most; first += impl::values_per_round) {
    const index_t n = std::clamp(mine - first, index_t{0}, impl::values_per_round);
    impl::OutputBoxes boxes;
    boxes.values = impl::bytes_of_type(array.type) == 8 ? impl::values_of<double>(array, first, n)
                                                        : impl::values_of<float>(array, first, n);
    for (double& value : boxes.values)
      if (fill != nullptr && std::isnan(value)) value = *fill;
    impl::for_each_run(array, first, n, [&](index_t place, index_t, index_t run) {
      impl::add_boxes(boxes, v.extents, before + place, run);
    });
    state.file->write(v, std::move(boxes));
  }
}

void NetcdfOutput::close() {
  const impl::Watched watched(
      {.what = "other ranks to close a NetCDF file", .of = &state_->path, .times = false});
  state_->begin();
  state_->file->close();
  state_->file.reset();
}

}  // namespace shard
