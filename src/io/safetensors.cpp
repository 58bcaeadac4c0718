// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/safetensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "safetensors_file.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shared_file.hpp"

namespace shard {
namespace impl {
namespace {

/// The bits of a 16-bit IEEE number with `mantissa` bits of fraction: 10 for half precision, 7 for
/// bfloat16.
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
    // to nearest, ties to even; a carry increments the exponent
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

/// Converts `count` values between a file (little-endian, like the supported machines) and T.
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

template <class T>
constexpr const char* dtype_of() {
  return std::is_same_v<T, float> ? "F32" : "F64";
}
bool is_number_type(const std::string& type) {
  return type == "F64" || type == "F32" || type == "F16" || type == "BF16";
}

/// Reads the values [first, first + count) of an array.
template <class T>
void read_values(const File& file, const SafetensorsHeader& header, const SafetensorsArray& array,
                 index_t first, index_t count, T* values) {
  const index_t size = bytes_of_type(array.type);
  const index_t at   = header.data + array.begin + first * size;
  const auto n       = static_cast<std::size_t>(count);
  if (array.type == dtype_of<T>()) return file.read(at, values, n * sizeof(T));
  std::vector<char> bytes(n * static_cast<std::size_t>(size));
  file.read(at, bytes.data(), bytes.size());
  if (array.type == "F64")
    convert_from<double>(bytes.data(), values, n, as_it_is);
  else if (array.type == "F32")
    convert_from<float>(bytes.data(), values, n, as_it_is);
  else
    convert_from<std::uint16_t>(bytes.data(), values, n,
                                [mantissa = array.type == "F16" ? 10 : 7](std::uint16_t b) {
                                  return decode16(b, mantissa);
                                });
}

/// Writes the values [first, first + count) of an array.
template <class T>
void write_values(NewFile& file, const SafetensorsHeader& header, const SafetensorsArray& array,
                  index_t first, index_t count, const T* values) {
  const index_t size = bytes_of_type(array.type);
  const index_t at   = header.data + array.begin + first * size;
  const auto n       = static_cast<std::size_t>(count);
  if (array.type == dtype_of<T>()) return file.write(at, values, n * sizeof(T));
  std::vector<char> bytes(n * static_cast<std::size_t>(size));
  if (array.type == "F64")
    convert_to<double>(bytes.data(), values, n, as_it_is);
  else if (array.type == "F32")
    convert_to<float>(bytes.data(), values, n, as_it_is);
  else
    convert_to<std::uint16_t>(bytes.data(), values, n,
                              [mantissa = array.type == "F16" ? 10 : 7](T value) {
                                return encode16(static_cast<double>(value), mantissa);
                              });
  file.write(at, bytes.data(), bytes.size());
}

using Words = std::vector<std::string>;

/// The components of a name, separated by dots.
Words components(const std::string& name) {
  Words parts(1);
  for (const char c : name)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_wildcard(const std::string& part) { return part == "*" || part == "**"; }

/// A pair of SafetensorsOptions::rename.
class Renaming {
 public:
  /// Throws ArgumentError for an invalid pair.
  Renaming(const char* function, const std::pair<std::string, std::string>& pair)
      : from_(components(pair.first)), to_(components(pair.second)) {
    const auto refuse = [&](const std::string& why) {
      throw_argument(function, {"the pair ", json_text(pair.first), ", ", json_text(pair.second),
                                " renames nothing: ", why});
    };
    Words taken, put;
    for (const auto& [parts, wildcards] : {std::pair{&from_, &taken}, std::pair{&to_, &put}})
      for (const std::string& part : *parts) {
        if (part.empty())
          refuse(
              "there is nothing before, after or between dots; ** stands for any number of "
              "components (\"**.conv.**\")");
        if (is_wildcard(part))
          wildcards->push_back(part);
        else if (part.find('*') != std::string::npos)
          refuse("a * is a whole component, " + json_text(part) + " has more");
      }
    if (taken != put) refuse("both need the same wildcards in the same order");
  }

  /// The renamed name; unchanged if the pattern doesn't match.
  std::string operator()(const std::string& name) const {
    const Words parts = components(name);
    std::vector<Words> taken;
    if (!matches(parts, 0, 0, taken)) return name;
    std::string renamed;
    const auto append = [&](const std::string& part) {
      renamed += (renamed.empty() ? "" : ".") + part;
    };
    auto next = taken.cbegin();
    for (const std::string& part : to_)
      if (is_wildcard(part))
        for (const std::string& one : *next++) append(one);
      else
        append(part);
    return renamed;
  }

 private:
  /// Whether the pattern from its part `p` on matches the name from its part `n` on; `taken` gets
  /// the match of each wildcard, the shortest first.
  bool matches(const Words& name, std::size_t p, std::size_t n, std::vector<Words>& taken) const {
    if (p == from_.size()) return n == name.size();
    if (!is_wildcard(from_[p]))
      return n < name.size() && name[n] == from_[p] && matches(name, p + 1, n + 1, taken);
    const bool one          = from_[p] == "*";
    const std::size_t least = one ? 1 : 0, most = one ? 1 : name.size() - n;
    for (std::size_t count = least; count <= most && n + count <= name.size(); ++count) {
      const auto begin = name.begin() + static_cast<std::ptrdiff_t>(n);
      taken.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (matches(name, p + 1, n + count, taken)) return true;
      taken.pop_back();
    }
    return false;
  }

  Words from_, to_;
};

std::vector<Renaming> renamings(const char* function, const SafetensorsOptions& options) {
  std::vector<Renaming> all;
  for (const auto& pair : options.rename) all.emplace_back(function, pair);
  return all;
}

std::string listed(const Words& names) {
  std::string words;
  for (std::size_t k = 0; k < names.size() && k < 20; ++k) words += (k > 0 ? ", " : "") + names[k];
  return names.size() > 20 ? words + " and " + std::to_string(names.size() - 20) + " more" : words;
}

/// The arena's name of each of the file's arrays; none for those without the prefix.
std::vector<std::optional<std::string>> names_in_arena(const SafetensorsHeader& header,
                                                       const SafetensorsOptions& options,
                                                       SafetensorsReport& report) {
  const std::vector<Renaming> rename = renamings("load_safetensors", options);
  std::vector<std::optional<std::string>> names;
  for (const SafetensorsArray& array : header.arrays) {
    names.emplace_back();
    if (array.name.compare(0, options.prefix.size(), options.prefix) != 0) continue;
    const std::string before = array.name.substr(options.prefix.size());
    std::string name         = before;
    for (const Renaming& pair : rename) name = pair(name);
    if (name != before) report.renamed.emplace_back(array.name, name);
    names.back() = std::move(name);
  }
  return names;
}

/// Whether a file's extents are equivalent to the entry's: equal, a Linear's weight and that of a
/// 1x1 convolution, or a value per channel with extents of one around it.
bool means_the_same(const std::vector<index_t>& in_file, const ParameterEntry& entry) {
  if (in_file == entry.extents) return true;
  const bool fewer             = in_file.size() < entry.extents.size();
  const auto& shorter          = fewer ? in_file : entry.extents;
  const auto& longer           = fewer ? entry.extents : in_file;
  const std::size_t dimensions = entry.linear ? 2 : 1;
  if (shorter.size() != dimensions || longer.size() < 3) return false;
  auto expected = shorter;
  if (!entry.linear) expected.insert(expected.begin(), 1);
  expected.resize(longer.size(), 1);
  return longer == expected;
}

/// The file's array of each entry (-1: none). Throws an ArgumentError with all mismatches.
std::vector<int> match(const std::string& path, const SafetensorsHeader& header,
                       const std::vector<ParameterEntry>& entries,
                       const SafetensorsOptions& options, SafetensorsReport& report) {
  const auto names = names_in_arena(header, options, report);
  std::vector<int> found(entries.size(), -1);
  std::string wrong;
  Words missing, unexpected;  // quoted, for messages
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (!names[k]) continue;
    const std::string& name       = *names[k];
    const SafetensorsArray& array = header.arrays[k];
    const auto entry              = std::find_if(entries.begin(), entries.end(),
                                                 [&](const ParameterEntry& e) { return e.name == name; });
    if (entry == entries.end()) {
      report.unexpected.push_back(name);
      unexpected.push_back(
          json_text(name) +
          (name == array.name ? "" : " (" + json_text(array.name) + " in the file)"));
      continue;
    }
    int& place = found[static_cast<std::size_t>(entry - entries.begin())];
    if (place >= 0)
      wrong += "; " + json_text(header.arrays[static_cast<std::size_t>(place)].name) + " and " +
               json_text(array.name) + " are both " + json_text(name);
    if (!means_the_same(array.extents, *entry))
      wrong += "; " + json_text(name) + " has shape " + shape_of(array.extents) +
               " in the file and " + shape_of(entry->extents) + " in the model";
    if (!is_number_type(array.type))
      wrong += "; " + json_text(name) + " has dtype " + array.type +
               ", which isn't one of F64, F32, F16 and BF16";
    place = static_cast<int>(k);
  }
  for (std::size_t e = 0; e < entries.size(); ++e)
    if (found[e] < 0) {
      report.missing.push_back(entries[e].name);
      missing.push_back(json_text(entries[e].name));
    }
  if (options.strict && !missing.empty()) wrong += "; the file lacks " + listed(missing);
  if (options.strict && !unexpected.empty()) wrong += "; the model has no " + listed(unexpected);
  if (!wrong.empty())
    throw_argument("load_safetensors", {"file \"", path, "\": ", wrong.substr(2)});
  return found;
}

/// What every rank must have given alike beside the path.
std::string described(const std::vector<ParameterEntry>& entries,
                      const SafetensorsOptions& options) {
  std::string words = "prefix " + json_text(options.prefix) + ", ";
  for (const auto& [from, to] : options.rename)
    words += json_text(from) + " renamed to " + json_text(to) + ", ";
  words += "type " + text(static_cast<index_t>(options.type)) +
           (options.strict ? ", strict, arrays " : ", not strict, arrays ");
  for (const ParameterEntry& e : entries) words += e.name + shape_of(e.extents) + " ";
  return words;
}

}  // namespace

template <class T>
SafetensorsReport load_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                              T* values, MPI_Comm comm, const SafetensorsOptions& options) {
  require_communicator(comm, "load_safetensors");
  const Watched watched({.what = "other ranks to load weights", .of = &path, .times = false});
  require_agreement(comm, "load_safetensors", described(entries, options));
  const auto file = open_on_all(path, comm);
  SafetensorsReport report;
  SafetensorsHeader header;
  std::vector<int> found;
  const auto each = [&](const auto& use) {  // the entries that are in the file
    for (std::size_t e = 0; e < entries.size(); ++e)
      if (found[e] >= 0) {
        const SafetensorsArray& array = header.arrays[static_cast<std::size_t>(found[e])];
        use(array, values + entries[e].offset);
      }
  };
  on_every_rank(comm, [&] {
    header = read_header(*file);
    found  = match(path, header, entries, options, report);
    Turns turns(comm);
    each([&](const SafetensorsArray& array, T* to) {
      turns.take_own(array.count(), sizeof(T), [&](index_t first, index_t n) {
        read_values(*file, header, array, first, n, to + first);
      });
    });
  });
  Turns turns(comm);
  each([&](const SafetensorsArray& array, T* to) {
    turns.broadcast(comm, to, array.count(), sizeof(T));
  });
  return report;
}

template <class T>
void save_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                 const T* values, MPI_Comm comm, const SafetensorsOptions& options) {
  require_communicator(comm, "save_safetensors");
  const Watched watched({.what = "other ranks to save weights", .of = &path, .times = false});
  require_agreement(comm, "save_safetensors", described(entries, options));
  SafetensorsHeader header;
  std::string front;
  on_every_rank(comm, [&] {
    constexpr const char* types[]      = {dtype_of<T>(), "F64", "F32", "F16", "BF16"};
    const std::vector<Renaming> rename = renamings("save_safetensors", options);
    for (const ParameterEntry& e : entries) {
      std::string name = e.name;
      for (const Renaming& pair : rename) name = pair(name);
      name = options.prefix + name;
      if (header.find(name) != nullptr)
        throw_argument("save_safetensors",
                       {"two arrays would be ", json_text(name), " in the file"});
      header.arrays.push_back({name, types[static_cast<int>(options.type)], e.extents, 0, 0});
    }
    place_arrays(header);
    front       = header_bytes(header);
    header.data = static_cast<index_t>(front.size());
  });
  const auto file = create_on_all("save_safetensors", path, comm);
  on_every_rank(comm, [&] {
    Turns turns(comm);
    if (turns.rank() == 0) file->write(0, front.data(), front.size());
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const SafetensorsArray& array = header.arrays[e];
      const T* const from           = values + entries[e].offset;
      turns.take_own(array.count(), sizeof(T), [&](index_t first, index_t n) {
        write_values(*file, header, array, first, n, from + first);
      });
    }
    file->sync();
  });
  on_first_rank(comm, [&] { file->put_in_place(); });
}

template SafetensorsReport load_arrays<float>(const std::string&,
                                              const std::vector<ParameterEntry>&, float*, MPI_Comm,
                                              const SafetensorsOptions&);
template SafetensorsReport load_arrays<double>(const std::string&,
                                               const std::vector<ParameterEntry>&, double*,
                                               MPI_Comm, const SafetensorsOptions&);
template void save_arrays<float>(const std::string&, const std::vector<ParameterEntry>&,
                                 const float*, MPI_Comm, const SafetensorsOptions&);
template void save_arrays<double>(const std::string&, const std::vector<ParameterEntry>&,
                                  const double*, MPI_Comm, const SafetensorsOptions&);

}  // namespace impl

template <class T>
std::vector<T> read_safetensors(const std::string& path, const std::string& name) {
  const impl::File file(path);
  const SafetensorsHeader header      = impl::read_header(file);
  const SafetensorsArray* const array = header.find(name);
  if (array == nullptr)
    impl::throw_argument("read_safetensors",
                         {"file \"", path, "\" has no ", impl::json_text(name)});
  if (!impl::is_number_type(array->type))
    impl::throw_argument("read_safetensors",
                         {impl::json_text(name), " in file \"", path, "\" has dtype ", array->type,
                          ", which isn't one of F64, F32, F16 and BF16"});
  std::vector<T> values(static_cast<std::size_t>(array->count()));
  impl::read_values(file, header, *array, 0, array->count(), values.data());
  return values;
}
template std::vector<float> read_safetensors<float>(const std::string&, const std::string&);
template std::vector<double> read_safetensors<double>(const std::string&, const std::string&);

}  // namespace shard
