// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/netcdf_output.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "own_box.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shared_file.hpp"

namespace shard {
namespace impl {

// Tags and types of the NetCDF classic format specification.
enum class NetcdfTag : std::uint32_t { dimension = 10, variable = 11, attribute = 12 };
enum class NetcdfStored : std::uint32_t { character = 2, float32 = 5, float64 = 6 };

inline constexpr index_t most_bytes_of_variable = 0xfffffffc;  // in the format with 64-bit offsets

inline index_t bytes_of(NetcdfStored type) { return type == NetcdfStored::float32 ? 4 : 8; }

struct OutputDimension {
  std::string name;
  index_t size;
};

struct OutputVariable {
  std::string name;
  std::vector<std::size_t> dimensions;  ///< places in the list
  NetcdfStored type;
  std::vector<NetcdfAttribute> attributes;
  std::vector<double> values{};  ///< of a coordinate
  index_t count = 1, begin = 0;  ///< values, and the first one's place in the file

  index_t bytes() const { return (count * bytes_of(type) + 3) / 4 * 4; }
  std::optional<double> fill() const {
    for (const NetcdfAttribute& a : attributes)
      if (a.name == "_FillValue") return std::get<double>(a.value);
    return std::nullopt;
  }
};

namespace {

/// Appends `value` as big endian.
template <class T>
void append(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::little) std::reverse(raw, raw + sizeof(T));
  bytes.append(raw, sizeof(T));
}

/// The header of a file of the classic format.
class NetcdfHeader {
 public:
  explicit NetcdfHeader(bool large) : bytes_(large ? "CDF\x05" : "CDF\x02"), large_(large) {
    count(0);  // records
  }
  void list(NetcdfTag tag, std::size_t entries) {
    append(bytes_, entries == 0 ? 0U : static_cast<std::uint32_t>(tag));
    count(static_cast<index_t>(entries));
  }
  void count(index_t n) {
    if (large_)
      append(bytes_, static_cast<std::int64_t>(n));
    else
      append(bytes_, static_cast<std::uint32_t>(std::min(n, index_t{0xffffffff})));
  }
  void offset(index_t n) { append(bytes_, static_cast<std::int64_t>(n)); }
  void type(NetcdfStored type) { append(bytes_, static_cast<std::uint32_t>(type)); }
  void text(const std::string& words) {
    count(static_cast<index_t>(words.size()));
    bytes_ += words;
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
  }
  void attributes(const std::vector<NetcdfAttribute>& attributes, NetcdfStored of) {
    list(NetcdfTag::attribute, attributes.size());
    for (const NetcdfAttribute& a : attributes) {
      text(a.name);
      if (const auto* words = std::get_if<std::string>(&a.value)) {
        type(NetcdfStored::character);
        text(*words);
        continue;
      }
      const double value = std::get<double>(a.value);
      const bool as_values =
          of == NetcdfStored::float32 && (a.name == "_FillValue" || a.name == "missing_value");
      type(as_values ? NetcdfStored::float32 : NetcdfStored::float64);
      count(1);
      if (as_values)
        append(bytes_, static_cast<float>(value));
      else
        append(bytes_, value);
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  bool large_;
};

/// `n` values of type T as they are in the file.
template <class T>
std::string encoded(const char* from, index_t n, const OutputVariable& variable) {
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(n * bytes_of(variable.type)));
  const std::optional<double> fill = variable.fill();
  for (index_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<index_t>(sizeof(T)), sizeof(T));
    if (fill && std::isnan(value)) value = static_cast<T>(*fill);
    if (variable.type == NetcdfStored::float32)
      append(bytes, static_cast<float>(value));
    else
      append(bytes, static_cast<double>(value));
  }
  return bytes;
}

}  // namespace
}  // namespace impl

struct NetcdfOutput::State {
  MPI_Comm comm;
  std::string path;
  std::vector<impl::OutputDimension> dimensions{};
  std::vector<impl::OutputVariable> variables{};
  std::vector<NetcdfAttribute> attributes{};
  std::unique_ptr<impl::NewFile> file{};  ///< none: it is not begun, or closed
  bool begun = false;

  [[noreturn]] void fail(const std::string& what) const {
    impl::throw_argument("NetcdfOutput", {"file \"", path, "\": ", what});
  }
  void require_declaring(const std::string& name) const {
    if (begun) fail("\"" + name + "\" is declared after the first write; declare it before");
  }
  impl::OutputVariable& find(const std::string& name) {
    for (impl::OutputVariable& v : variables)
      if (v.name == name) return v;
    std::string names;
    for (const impl::OutputVariable& v : variables) names += (names.empty() ? "" : ", ") + v.name;
    fail("there is no variable \"" + name + "\"; there are: " + names);
  }
  std::size_t place_of(const std::string& dimension) const {
    for (std::size_t d = 0; d < dimensions.size(); ++d)
      if (dimensions[d].name == dimension) return d;
    fail("there is no dimension \"" + dimension + "\"; declare it with add_dimension");
  }

  std::string header(bool large) const {
    impl::NetcdfHeader h(large);
    h.list(impl::NetcdfTag::dimension, dimensions.size());
    for (const impl::OutputDimension& d : dimensions) h.text(d.name), h.count(d.size);
    h.attributes(attributes, impl::NetcdfStored::float64);
    h.list(impl::NetcdfTag::variable, variables.size());
    for (const impl::OutputVariable& v : variables) {
      h.text(v.name);
      h.count(static_cast<index_t>(v.dimensions.size()));
      for (const std::size_t d : v.dimensions) h.count(static_cast<index_t>(d));
      h.attributes(v.attributes, v.type);
      h.type(v.type);
      h.count(v.bytes());
      h.offset(v.begin);
    }
    return h.bytes();
  }

  /// Gives each variable its place, and makes the file. Collective.
  void begin() {
    if (begun) {
      if (file == nullptr) fail("it is closed; write before close()");
      return;
    }
    impl::require_agreement(comm, "NetcdfOutput", header(true));
    bool large = false;
    for (const impl::OutputVariable& v : variables)
      large = large || v.bytes() > impl::most_bytes_of_variable;
    auto next = static_cast<index_t>(header(large).size());  // places don't change its length
    for (impl::OutputVariable& v : variables) v.begin = std::exchange(next, next + v.bytes());
    file  = impl::create_on_all(path, comm);
    begun = true;
    impl::on_first_rank(comm, [&] {
      const std::string bytes = header(large);
      const char last         = 0;
      if (next > 0) file->write(next - 1, &last, 1);  // readers need the whole length
      file->write(0, bytes.data(), bytes.size());
      for (const impl::OutputVariable& v : variables) {
        if (v.values.empty()) continue;
        const std::string data =
            impl::encoded<double>(reinterpret_cast<const char*>(v.values.data()), v.count, v);
        file->write(v.begin, data.data(), data.size());
      }
    });
  }
};

NetcdfOutput::NetcdfOutput(MPI_Comm comm, const std::string& path)
    : state_(new State{impl::require_communicator(comm, "NetcdfOutput"), path}) {}
NetcdfOutput::~NetcdfOutput() = default;

void NetcdfOutput::add_dimension(const std::string& name, std::size_t size) {
  state_->require_declaring(name);
  for (const impl::OutputDimension& d : state_->dimensions)
    if (d.name == name) state_->fail("there is a dimension \"" + name + "\" already");
  if (size == 0) state_->fail("dimension \"" + name + "\" has size 0; it needs one or more");
  state_->dimensions.push_back({name, static_cast<index_t>(size)});
}

void NetcdfOutput::add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                                NetcdfType type, const std::vector<NetcdfAttribute>& attributes) {
  state_->require_declaring(name);
  for (const impl::OutputVariable& v : state_->variables)
    if (v.name == name) state_->fail("there is a variable \"" + name + "\" already");
  if (type != NetcdfType::float32 && type != NetcdfType::float64)
    state_->fail("variable \"" + name + "\" has an integer type; use float32 or float64");
  impl::OutputVariable v{
      name,
      {},
      type == NetcdfType::float32 ? impl::NetcdfStored::float32 : impl::NetcdfStored::float64,
      attributes};
  for (const NetcdfAttribute& a : attributes)
    if (a.name == "_FillValue" && !std::holds_alternative<double>(a.value))
      state_->fail("variable \"" + name + "\" has a _FillValue that is text; give a number");
  for (const std::string& d : dimensions) {
    v.dimensions.push_back(state_->place_of(d));
    v.count *= state_->dimensions[v.dimensions.back()].size;
  }
  state_->variables.push_back(std::move(v));
}

void NetcdfOutput::add_coordinate(const std::string& name, std::span<const double> values,
                                  const std::vector<NetcdfAttribute>& attributes) {
  add_dimension(name, values.size());
  add_variable(name, {name}, NetcdfType::float64, attributes);
  state_->variables.back().values.assign(values.begin(), values.end());
}

void NetcdfOutput::add_attribute(const NetcdfAttribute& attribute) {
  state_->require_declaring(attribute.name);
  state_->attributes.push_back(attribute);
}

void NetcdfOutput::put(const std::string& variable, const std::size_t* index,
                       const impl::CheckpointArray& array) {
  State& state = *state_;
  const impl::Watched watched(
      {.what = "other ranks to write a NetCDF file", .of = &state.path, .times = false});
  state.begin();
  const impl::OutputVariable& v = state.find(variable);
  std::vector<index_t> extents, given(array.global.begin(), array.global.begin() + array.rank);
  for (const std::size_t d : v.dimensions) extents.push_back(state.dimensions[d].size);
  const std::string shape = impl::shape_of(extents);
  index_t entry           = 0;
  if (index != nullptr) {
    if (extents.empty() || static_cast<index_t>(*index) >= extents.front())
      state.fail("variable \"" + variable + "\" is " + shape + " and has no entry " +
                 std::to_string(*index));
    entry = static_cast<index_t>(*index);
    extents.erase(extents.begin());
  }
  if (extents != given)
    state.fail("variable \"" + variable + "\" is " + shape + ", the field is " +
               impl::shape_of(given) +
               (index != nullptr ? " for one entry of the first dimension" : ""));
  impl::on_every_rank(state.comm, [&] {
    if (!array.writes) return;
    const index_t size = impl::bytes_of_type(array.type), mine = impl::count_of(array),
                  most = impl::piece_bytes / size, stored = impl::bytes_of(v.type);
    index_t before = entry;
    for (const index_t n : extents) before *= n;
    std::vector<char> values(static_cast<std::size_t>(most * size));
    for (index_t first = 0; first < mine; first += most) {
      const index_t n = std::min(most, mine - first);
      impl::copy_stream(array, size, first, n, values.data(), true);
      const std::string bytes = size == 8 ? impl::encoded<double>(values.data(), n, v)
                                          : impl::encoded<float>(values.data(), n, v);
      impl::for_each_run(array, first, n, [&](index_t place, index_t k, index_t run) {
        state.file->write(v.begin + (before + place) * stored, bytes.data() + (k - first) * stored,
                          static_cast<std::size_t>(run * stored));
      });
    }
  });
}

void NetcdfOutput::close() {
  const impl::Watched watched(
      {.what = "other ranks to close a NetCDF file", .of = &state_->path, .times = false});
  state_->begin();
  impl::on_every_rank(state_->comm, [&] { state_->file->sync(); });
  impl::on_first_rank(state_->comm, [&] { state_->file->put_in_place(); });
  state_->file.reset();
}

}  // namespace shard
