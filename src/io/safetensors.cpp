// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/safetensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "safetensors_file.hpp"
#include "shard/base/watchdog.hpp"

namespace shard {
namespace impl {
namespace {

/// A number of 16 bits with a sign, `mantissa` bits of fraction and the rest of exponent, IEEE
/// fashion: 10 for half precision, 7 for bfloat16.
std::uint16_t encode16(double value, int mantissa) {
  const int bias          = (1 << (14 - mantissa)) - 1;
  const std::uint32_t inf = static_cast<std::uint32_t>(2 * bias + 1) << mantissa;
  std::uint32_t bits      = 0;
  if (std::isnan(value)) {
    bits = inf | 1U << (mantissa - 1);
  } else if (std::isinf(value)) {
    bits = inf;
  } else if (value != 0.0) {
    int exponent = 0;
    std::frexp(value, &exponent);
    exponent = std::max(exponent - 1, 1 - bias);
    // to nearest, ties to even; a carry goes into the exponent by itself
    const double rounded = std::nearbyint(std::ldexp(std::abs(value), mantissa - exponent));
    if (exponent > bias)
      bits = inf;
    else
      bits = std::min(inf, (static_cast<std::uint32_t>(exponent + bias - 1) << mantissa) +
                               static_cast<std::uint32_t>(rounded));
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000U : 0U));
}

double decode16(std::uint16_t bits, int mantissa) {
  const int bias     = (1 << (14 - mantissa)) - 1;
  const int exponent = (bits & 0x7FFF) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  double value       = 0.0;
  if (exponent == 2 * bias + 1)
    value = fraction == 0 ? HUGE_VAL : std::nan("");
  else
    value = std::ldexp(fraction + (exponent > 0 ? 1 << mantissa : 0),
                       std::max(exponent, 1) - bias - mantissa);
  return (bits & 0x8000) != 0 ? -value : value;
}

/// `count` values as they stand in a file (little-endian, as the machines that this runs on) to T
/// and back.
template <class Stored, class T, class Convert>
void convert_from(const char* bytes, T* values, std::size_t count, const Convert& convert) {
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<T>(convert(stored));
  }
}
template <class Stored, class T, class Convert>
void convert_to(char* bytes, const T* values, std::size_t count, const Convert& convert) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto stored = static_cast<Stored>(convert(values[i]));
    std::memcpy(bytes + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}
constexpr auto as_it_is = [](auto value) { return value; };

bool is_number_type(const std::string& type) {
  return type == "F64" || type == "F32" || type == "F16" || type == "BF16";
}

template <class T>
void read_array(const File& file, const SafetensorsHeader& header, const SafetensorsArray& array,
                T* values) {
  const index_t size      = bytes_of_type(array.type);
  constexpr index_t piece = 1 << 20;
  std::vector<char> bytes;
  for (index_t first = 0, count = array.count(); first < count; first += piece) {
    const auto n = static_cast<std::size_t>(std::min(piece, count - first));
    bytes.resize(n * static_cast<std::size_t>(size));
    file.read(header.data + array.begin + first * size, bytes.data(), bytes.size());
    if (array.type == "F64")
      convert_from<double>(bytes.data(), values + first, n, as_it_is);
    else if (array.type == "F32")
      convert_from<float>(bytes.data(), values + first, n, as_it_is);
    else
      convert_from<std::uint16_t>(bytes.data(), values + first, n,
                                  [mantissa = array.type == "F16" ? 10 : 7](std::uint16_t b) {
                                    return decode16(b, mantissa);
                                  });
  }
}

template <class T>
void write_array(const File& file, const SafetensorsHeader& header, const SafetensorsArray& array,
                 const T* values) {
  const index_t size      = bytes_of_type(array.type);
  constexpr index_t piece = 1 << 20;
  std::vector<char> bytes;
  for (index_t first = 0, count = array.count(); first < count; first += piece) {
    const auto n = static_cast<std::size_t>(std::min(piece, count - first));
    bytes.resize(n * static_cast<std::size_t>(size));
    if (array.type == "F64")
      convert_to<double>(bytes.data(), values + first, n, as_it_is);
    else if (array.type == "F32")
      convert_to<float>(bytes.data(), values + first, n, as_it_is);
    else
      convert_to<std::uint16_t>(bytes.data(), values + first, n,
                                [mantissa = array.type == "F16" ? 10 : 7](T value) {
                                  return encode16(static_cast<double>(value), mantissa);
                                });
    file.write(header.data + array.begin + first * size, bytes.data(), bytes.size());
  }
}

void replace_all(std::string& words, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (std::size_t at = words.find(from); at != std::string::npos;
       at             = words.find(from, at + to.size()))
    words.replace(at, from.size(), to);
}

std::string listed(const std::vector<std::string>& names) {
  std::string words;
  for (std::size_t k = 0; k < names.size() && k < 20; ++k)
    words += (k > 0 ? ", \"" : "\"") + names[k] + "\"";
  return names.size() > 20 ? words + " and " + std::to_string(names.size() - 20) + " more" : words;
}

/// The arena's name of each of the file's arrays that has the prefix; else an empty one.
std::vector<std::string> names_in_arena(const SafetensorsHeader& header,
                                        const SafetensorsOptions& options) {
  std::vector<std::string> names;
  for (const SafetensorsArray& array : header.arrays) {
    std::string name;
    if (array.name.compare(0, options.prefix.size(), options.prefix) == 0) {
      name = array.name.substr(options.prefix.size());
      for (const auto& [there, here] : options.rename) replace_all(name, there, here);
    }
    names.push_back(name);
  }
  return names;
}

/// Which of the file's arrays is each entry's (-1: none); what doesn't fit is an ArgumentError with
/// everything in it.
std::vector<int> match(const std::string& path, const SafetensorsHeader& header,
                       const std::vector<ParameterEntry>& entries,
                       const SafetensorsOptions& options, SafetensorsReport& report) {
  const std::vector<std::string> names = names_in_arena(header, options);
  std::vector<int> found(entries.size(), -1);
  std::string wrong;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k].empty()) continue;
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const ParameterEntry& e) { return e.name == names[k]; });
    if (entry == entries.end()) {
      report.unexpected.push_back(names[k]);
      continue;
    }
    const SafetensorsArray& array = header.arrays[k];
    int& place                    = found[static_cast<std::size_t>(entry - entries.begin())];
    if (place >= 0)
      wrong += "; \"" + header.arrays[static_cast<std::size_t>(place)].name + "\" and \"" +
               array.name + "\" are both \"" + names[k] + "\"";
    if (array.extents != entry->extents)
      wrong += "; \"" + names[k] + "\" has shape " + shape_of(array.extents) + " in the file and " +
               shape_of(entry->extents) + " in the model";
    if (!is_number_type(array.type))
      wrong += "; \"" + names[k] + "\" has dtype " + array.type +
               ", which isn't one of F64, F32, F16 and BF16";
    place = static_cast<int>(k);
  }
  for (std::size_t e = 0; e < entries.size(); ++e)
    if (found[e] < 0) report.missing.push_back(entries[e].name);
  if (options.strict && !report.missing.empty())
    wrong += "; the file lacks " + listed(report.missing);
  if (options.strict && !report.unexpected.empty())
    wrong += "; the model has no " + listed(report.unexpected);
  if (!wrong.empty())
    throw_argument("load_safetensors", {"file \"", path, "\": ", wrong.substr(2)});
  return found;
}

std::string described(const std::vector<ParameterEntry>& entries) {
  std::string words;
  for (const ParameterEntry& e : entries) words += e.name + shape_of(e.extents) + " ";
  return words;
}

/// Names from the first rank to all.
void broadcast_names(MPI_Comm comm, std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += name + '\0';
  auto size = static_cast<std::uint64_t>(joined.size());
  broadcast_bytes(comm, &size, sizeof size);
  joined.resize(static_cast<std::size_t>(size));
  broadcast_bytes(comm, joined.data(), joined.size());
  names.clear();
  for (std::size_t at = 0; at < joined.size(); at = joined.find('\0', at) + 1)
    names.emplace_back(joined.c_str() + at);
}

}  // namespace

template <class T>
SafetensorsReport load_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                              T* values, index_t count, MPI_Comm comm,
                              const SafetensorsOptions& options) {
  const Watched watched({.what = "other ranks to load weights", .of = &path, .times = false});
  require_agreement(comm, "load_safetensors", described(entries));
  SafetensorsReport report;
  on_first_rank(comm, [&] {
    const File file(path, "rb");
    const SafetensorsHeader header = read_header(file);
    const std::vector<int> found   = match(path, header, entries, options, report);
    for (std::size_t e = 0; e < entries.size(); ++e)
      if (found[e] >= 0)
        read_array(file, header, header.arrays[static_cast<std::size_t>(found[e])],
                   values + entries[e].offset);
  });
  broadcast_bytes(comm, values, static_cast<std::size_t>(count) * sizeof(T));
  broadcast_names(comm, report.missing);
  broadcast_names(comm, report.unexpected);
  return report;
}

template <class T>
void save_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                 const T* values, MPI_Comm comm, const SafetensorsOptions& options) {
  const Watched watched({.what = "other ranks to save weights", .of = &path, .times = false});
  on_first_rank(comm, [&] {
    constexpr const char* types[] = {std::is_same_v<T, float> ? "F32" : "F64", "F64", "F32", "F16",
                                     "BF16"};
    SafetensorsHeader header;
    for (const ParameterEntry& e : entries) {
      std::string name = e.name;
      for (const auto& [here, there] : options.rename) replace_all(name, here, there);
      name = options.prefix + name;
      if (header.find(name) != nullptr)
        throw_argument("save_safetensors", {"two arrays would be \"", name, "\" in the file"});
      header.arrays.push_back({name, types[static_cast<int>(options.type)], e.extents, 0, 0});
    }
    place_arrays(header);
    const std::string front = header_bytes(header);
    header.data             = static_cast<index_t>(front.size());
    File file(unfinished(path), "wb");
    file.write(0, front.data(), front.size());
    for (std::size_t e = 0; e < entries.size(); ++e)
      write_array(file, header, header.arrays[e], values + entries[e].offset);
    file.close();
    put_in_place(path);
  });
}

template SafetensorsReport load_arrays<float>(const std::string&,
                                              const std::vector<ParameterEntry>&, float*, index_t,
                                              MPI_Comm, const SafetensorsOptions&);
template SafetensorsReport load_arrays<double>(const std::string&,
                                               const std::vector<ParameterEntry>&, double*, index_t,
                                               MPI_Comm, const SafetensorsOptions&);
template void save_arrays<float>(const std::string&, const std::vector<ParameterEntry>&,
                                 const float*, MPI_Comm, const SafetensorsOptions&);
template void save_arrays<double>(const std::string&, const std::vector<ParameterEntry>&,
                                  const double*, MPI_Comm, const SafetensorsOptions&);

}  // namespace impl

template <class T>
std::vector<T> read_safetensors(const std::string& path, const std::string& name) {
  const impl::File file(path, "rb");
  const SafetensorsHeader header      = impl::read_header(file);
  const SafetensorsArray* const array = header.find(name);
  if (array == nullptr)
    impl::throw_argument("read_safetensors", {"file \"", path, "\" has no \"", name, "\""});
  if (!impl::is_number_type(array->type))
    impl::throw_argument("read_safetensors",
                         {"\"", name, "\" in file \"", path, "\" has dtype ", array->type,
                          ", which isn't one of F64, F32, F16 and BF16"});
  std::vector<T> values(static_cast<std::size_t>(array->count()));
  impl::read_array(file, header, *array, values.data());
  return values;
}
template std::vector<float> read_safetensors<float>(const std::string&, const std::string&);
template std::vector<double> read_safetensors<double>(const std::string&, const std::string&);

}  // namespace shard
