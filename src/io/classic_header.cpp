// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "classic_size.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

namespace shard::impl {

namespace {

/// Reads a header's numbers, which are big-endian. After an error all numbers are 0.
class Header {
 public:
  explicit Header(const std::string& path) : file_(path, std::ios::binary) {
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
  int type_size() {
    constexpr int sizes[] = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
    const auto type       = number(4);
    return type < 12 ? sizes[type] : 0;
  }
  void skip(std::uint64_t bytes) {
    file_.seekg(static_cast<std::streamoff>((bytes + 3) / 4 * 4), std::ios::cur);
  }
  void skip_name() { skip(count()); }
  /// Begins a list: its number of entries.
  std::uint64_t list() {
    number(4);
    return count();
  }
  void skip_attributes() {
    for (auto left = list(); left > 0 && good(); --left) {
      skip_name();
      const auto size = static_cast<std::uint64_t>(type_size());
      skip(size * count());
    }
  }
  bool is_streaming(std::uint64_t records) const {
    return records == (version_ == 5 ? ~std::uint64_t{0} : 0xffffffffu);
  }

 private:
  std::ifstream file_;
  int version_ = 0;
};

struct Variable {
  std::uint64_t bytes, begin;
  bool is_record;
};

}  // namespace

std::uint64_t classic_size(const std::string& path) {
  Header header(path);
  if (!header.is_classic()) return 0;
  std::uint64_t records = header.count();
  if (header.is_streaming(records)) records = 0;
  std::vector<std::uint64_t> extents;
  for (auto left = header.list(); left > 0 && header.good(); --left) {
    header.skip_name();
    extents.push_back(header.count());
  }
  header.skip_attributes();
  std::vector<Variable> variables;
  for (auto left = header.list(); left > 0 && header.good(); --left) {
    header.skip_name();
    Variable v{1, 0, false};
    for (auto dims = header.count(); dims > 0 && header.good(); --dims) {
      const auto id = header.count();
      if (id >= extents.size()) return 0;
      if (extents[id] == 0)
        v.is_record = true;
      else
        v.bytes *= extents[id];
    }
    header.skip_attributes();
    v.bytes *= static_cast<std::uint64_t>(header.type_size());
    header.count();  // the size again, which large variables don't have
    v.begin = header.offset();
    variables.push_back(v);
  }
  if (!header.good()) return 0;
  const auto record_variables = std::count_if(variables.begin(), variables.end(),
                                              [](const Variable& v) { return v.is_record; });
  std::uint64_t record = 0, size = 0;
  for (const Variable& v : variables)  // a record of one variable alone has no padding
    if (v.is_record) record += record_variables == 1 ? v.bytes : (v.bytes + 3) / 4 * 4;
  for (const Variable& v : variables)
    if (!v.is_record)
      size = std::max(size, v.begin + v.bytes);
    else if (records > 0)
      size = std::max(size, v.begin + (records - 1) * record + v.bytes);
  return size;
}

}  // namespace shard::impl
