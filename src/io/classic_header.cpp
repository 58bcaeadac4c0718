// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "classic_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "attribute_types.hpp"

namespace shard::impl {

namespace {

constexpr std::array<const char*, 12> type_names{"?",      "byte",  "char",   "short",
                                                 "int",    "float", "double", "ubyte",
                                                 "ushort", "uint",  "int64",  "uint64"};
constexpr int char_type = 2, short_type = 3, int_type = 4, float_type = 5, double_type = 6;

/// A number with all its digits.
std::string text_of(int type, double value) {
  std::array<char, 40> words{};
  std::snprintf(words.data(), words.size(), type == float_type ? "%.9g (%s)" : "%.17g (%s)", value,
                type_names[static_cast<std::size_t>(type)]);
  return words.data();
}

std::string dimension_line(const std::string& name, std::uint64_t size) {
  return size == 0 ? "record dimension " + name
                   : "dimension " + name + " = " + std::to_string(size);
}
std::string variable_line(int type, const std::string& name,
                          const std::vector<std::string>& dimensions) {
  std::string line = std::string(type_names[static_cast<std::size_t>(type)]) + " " + name + "(";
  for (const std::string& d : dimensions) line += (line.back() == '(' ? "" : ", ") + d;
  return line + ")";
}
std::string attribute_line(const std::string& variable, const std::string& name,
                           const std::string& value) {
  return variable + ":" + name + " = " + value;
}

/// Reads a header's numbers, which are big-endian. After an error all numbers are 0.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& path) : file_(path, std::ios::binary) {
    if (number(3) == 0x434446) version_ = static_cast<int>(number(1));  // "CDF"
  }
  bool is_classic() const { return version_ == 1 || version_ == 2 || version_ == 5; }
  bool good() const { return file_.good(); }

  std::uint64_t number(int bytes) {
    std::uint64_t n = 0;
    for (int i = 0; i < bytes; ++i) n = n << 8 | static_cast<unsigned char>(file_.get());
    return file_.good() ? n : 0;
  }
  /// A count, 4 bytes or in CDF-5 8.
  std::uint64_t count() { return number(version_ == 5 ? 8 : 4); }
  /// A position in the file.
  std::uint64_t offset() { return number(version_ == 1 ? 4 : 8); }
  int type() {
    const auto type = number(4);
    if (type > 0 && type < type_names.size()) return static_cast<int>(type);
    file_.setstate(std::ios::failbit);  // of a damaged header, whose counts mean nothing
    return 0;
  }
  static int size_of(int type) {
    constexpr int sizes[] = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
    return sizes[type];
  }
  std::string text(std::uint64_t length) {
    std::string words;
    for (; words.size() < length && good(); words += static_cast<char>(number(1))) continue;
    pad(length);
    return words;
  }
  std::string name() { return text(count()); }
  double value(int type) {
    const int size     = size_of(type);
    const auto bits    = number(size);
    const int unused   = 64 - 8 * std::max(size, 1);
    const bool is_sign = type < 7 || type == 10;
    if (type == float_type)
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (type == double_type) return std::bit_cast<double>(bits);
    return is_sign ? static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused)
                   : static_cast<double>(bits);
  }
  /// Begins a list: its number of entries.
  std::uint64_t list() {
    number(4);
    return count();
  }
  /// Calls use(name, value) for the attributes that follow.
  template <class Use>
  void attributes(const Use& use) {
    for (auto left = list(); left > 0 && good(); --left) {
      const std::string called = name();
      const int is             = type();
      const auto values        = count();
      if (is == char_type) {
        use(called, '"' + text(values) + '"');
        continue;
      }
      std::string all;
      for (auto v = values; v > 0 && good(); --v)
        all += (all.empty() ? "" : ", ") + text_of(is, value(is));
      pad(values * static_cast<std::uint64_t>(size_of(is)));
      use(called, all);
    }
  }
  bool is_streaming(std::uint64_t records) const {
    return records == (version_ == 5 ? ~std::uint64_t{0} : 0xffffffffu);
  }

 private:
  void pad(std::uint64_t bytes) { number(static_cast<int>((4 - bytes % 4) % 4)); }

  std::ifstream file_;
  int version_ = 0;
};

void set_size(ClassicHeader& header) {
  const auto record_variables = std::count_if(header.variables.begin(), header.variables.end(),
                                              [](const auto& v) { return v.is_record; });
  std::uint64_t record        = 0;
  for (const ClassicVariable& v : header.variables)  // a record of one variable has no padding
    if (v.is_record) record += record_variables == 1 ? v.bytes : (v.bytes + 3) / 4 * 4;
  for (const ClassicVariable& v : header.variables)
    if (!v.is_record)
      header.size = std::max(header.size, v.begin + v.bytes);
    else if (header.records > 0)
      header.size = std::max(header.size, v.begin + (header.records - 1) * record + v.bytes);
}

int number_of_type(NetcdfType type) {
  switch (type) {
    case NetcdfType::int8: return 1;
    case NetcdfType::int16: return short_type;
    case NetcdfType::int32: return int_type;
    case NetcdfType::float32: return float_type;
    default: return double_type;
  }
}

/// Whether the values of a variable of doubles are these.
bool has_values(const std::string& path, const ClassicVariable& v,
                const std::vector<double>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(double));
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(v.begin));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.good() || v.bytes != bytes.size()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t bits = 0;
    for (std::size_t b = 0; b < 8; ++b) bits = bits << 8 | bytes[8 * i + b];
    if (std::bit_cast<double>(bits) != values[i]) return false;
  }
  return true;
}

}  // namespace

ClassicHeader read_classic_header(const std::string& path) {
  HeaderReader reader(path);
  if (!reader.is_classic()) return {};
  ClassicHeader header;
  header.records = reader.count();
  if (reader.is_streaming(header.records)) header.records = 0;
  std::vector<std::string> names;
  std::vector<std::uint64_t> extents;
  for (auto left = reader.list(); left > 0 && reader.good(); --left) {
    names.push_back(reader.name());
    extents.push_back(reader.count());
    header.definitions.push_back(dimension_line(names.back(), extents.back()));
  }
  reader.attributes([](const std::string&, const std::string&) {});
  for (auto left = reader.list(); left > 0 && reader.good(); --left) {
    ClassicVariable v{reader.name()};
    std::vector<std::string> dimensions;
    for (auto dims = reader.count(); dims > 0 && reader.good(); --dims) {
      const auto id = reader.count();
      if (id >= extents.size()) return {};
      dimensions.push_back(names[id]);
      if (extents[id] == 0)
        v.is_record = true;
      else
        v.bytes *= extents[id];
    }
    reader.attributes([&](const std::string& name, const std::string& value) {
      header.definitions.push_back(attribute_line(v.name, name, value));
    });
    v.type = reader.type();
    v.bytes *= static_cast<std::uint64_t>(HeaderReader::size_of(v.type));
    reader.count();  // the size again, which large variables don't have
    v.begin = reader.offset();
    header.definitions.push_back(variable_line(v.type, v.name, dimensions));
    header.variables.push_back(std::move(v));
  }
  if (!reader.good()) return {};
  header.is_classic = true;
  std::sort(header.definitions.begin(), header.definitions.end());
  set_size(header);
  return header;
}

std::vector<std::string> definitions_of(const OutputHeader& header) {
  std::vector<std::string> lines;
  for (const NetcdfDimension& d : header.dimensions)
    lines.push_back(dimension_line(d.name, d.size));
  for (const OutputVariable& v : header.variables) {
    const int type = number_of_type(v.type);
    lines.push_back(variable_line(type, v.name, v.dimensions));
    for (const NetcdfAttribute& a : v.attributes) {
      if (const auto* words = std::get_if<std::string>(&a.value)) {
        lines.push_back(attribute_line(v.name, a.name, '"' + *words + '"'));
        continue;
      }
      const int stored   = has_variables_type(a.name)               ? type
                           : std::holds_alternative<int>(a.value)   ? int_type
                           : std::holds_alternative<float>(a.value) ? float_type
                                                                    : double_type;
      const double value = *number_of(a);
      lines.push_back(attribute_line(
          v.name, a.name,
          text_of(stored,
                  stored == float_type ? static_cast<double>(static_cast<float>(value)) : value)));
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string difference(const std::string& path, const ClassicHeader& file,
                       const OutputHeader& declared) {
  const auto lines = definitions_of(declared);
  std::vector<std::string> more, less;
  std::set_difference(file.definitions.begin(), file.definitions.end(), lines.begin(), lines.end(),
                      std::back_inserter(more));
  std::set_difference(lines.begin(), lines.end(), file.definitions.begin(), file.definitions.end(),
                      std::back_inserter(less));
  if (!more.empty() || !less.empty()) {
    const auto first = [](const std::vector<std::string>& of) {
      return of.empty() ? "nothing in its place" : "'" + of.front() + "'";
    };
    return "the file has " + first(more) + ", and declared is " + first(less);
  }
  for (const OutputVariable& v : declared.variables) {
    const auto found = std::find_if(file.variables.begin(), file.variables.end(),
                                    [&](const ClassicVariable& f) { return f.name == v.name; });
    if (!v.values.empty() && !has_values(path, *found, v.values))
      return "the values of '" + v.name + "' in the file aren't those that are declared";
  }
  return {};
}

}  // namespace shard::impl
