// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The safetensors format: its header, checked, and the file around it.
#include "safetensors_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>

#include "shard/base/watchdog.hpp"

namespace shard {

const SafetensorsArray* SafetensorsHeader::find(const std::string& name) const {
  for (const SafetensorsArray& array : arrays)
    if (array.name == name) return &array;
  return nullptr;
}

SafetensorsHeader read_safetensors_header(const std::string& path) {
  return impl::read_header(impl::File(path, "rb"));
}

namespace impl {
namespace {

constexpr index_t longest_header = 100'000'000;  // the reference implementation's limit

std::FILE* stream(void* file) { return static_cast<std::FILE*>(file); }

/// A header's JSON, of which only what the format knows is taken: an object of objects with dtype,
/// shape and data_offsets, and one of texts.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  SafetensorsHeader parse() {
    SafetensorsHeader header;
    std::set<std::string> seen;
    object([&](const std::string& name) {
      if (!seen.insert(name).second) fail("\"" + name + "\" stands there twice");
      if (name == "__metadata__")
        object([&](const std::string& key) { header.metadata.emplace_back(key, string()); });
      else
        header.arrays.push_back(array(name));
    });
    space();
    if (at_ != text_.size()) fail("something follows the object");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_io(path_, "the header isn't one of safetensors, at its byte " + std::to_string(at_) +
                        ": " + what);
  }
  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("there is no '") + c + "'");
  }

  /// Calls member(key) with the value next.
  template <class Member>
  void object(const Member& member) {
    expect('{');
    if (take('}')) return;
    do {
      const std::string key = string();
      expect(':');
      member(key);
    } while (take(','));
    expect('}');
  }

  SafetensorsArray array(const std::string& name) {
    SafetensorsArray a{name, {}, {}, -1, -1};
    bool has_shape = false;
    object([&](const std::string& key) {
      if (key == "dtype") {
        a.type = string();
      } else if (key == "shape") {
        a.extents = numbers();
        has_shape = true;
      } else if (key == "data_offsets") {
        const std::vector<index_t> offsets = numbers();
        if (offsets.size() != 2) fail("data_offsets of \"" + name + "\" are not two");
        a.begin = offsets[0];
        a.end   = offsets[1];
      } else {
        fail("\"" + name + "\" has a \"" + key + "\"");
      }
    });
    if (a.type.empty() || !has_shape || a.begin < 0)
      fail("\"" + name + "\" lacks one of dtype, shape and data_offsets");
    return a;
  }

  std::vector<index_t> numbers() {
    std::vector<index_t> values;
    expect('[');
    if (take(']')) return values;
    do {
      values.push_back(number());
    } while (take(','));
    expect(']');
    return values;
  }

  index_t number() {
    space();
    index_t value           = 0;
    const std::size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const index_t digit = text_[at_] - '0';
      if (value > (std::numeric_limits<index_t>::max() - digit) / 10) fail("a number is too large");
      value = 10 * value + digit;
    }
    if (at_ == first) fail("there is no number that is zero or more");
    return value;
  }

  std::string string() {
    expect('"');
    std::string words;
    while (true) {
      if (at_ >= text_.size()) fail("a text doesn't end");
      const char c = text_[at_++];
      if (c == '"') return words;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character stands in a text");
      if (c != '\\') {
        words += c;
        continue;
      }
      if (at_ >= text_.size()) fail("a text doesn't end");
      const char escaped          = text_[at_++];
      constexpr char names[]      = "\"\\/bfnrt";
      constexpr char characters[] = "\"\\/\b\f\n\r\t";
      if (const char* found = std::strchr(names, escaped); escaped != '\0' && found != nullptr)
        words += characters[found - names];
      else if (escaped == 'u')
        append_utf8(words, code_point());
      else
        fail("an escape isn't known");
    }
  }

  std::uint32_t four_digits() {
    std::uint32_t value = 0;
    for (int k = 0; k < 4; ++k, ++at_) {
      const char c    = at_ < text_.size() ? text_[at_] : ' ';
      const int digit = c >= '0' && c <= '9'                 ? c - '0'
                        : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                             : -1;
      if (digit < 0) fail("\\u isn't followed by four hexadecimal digits");
      value = 16 * value + static_cast<std::uint32_t>(digit);
    }
    return value;
  }
  std::uint32_t code_point() {
    const std::uint32_t first = four_digits();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
    at_ += 2;
    const std::uint32_t second = four_digits();
    if (second < 0xDC00 || second > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }
  static void append_utf8(std::string& words, std::uint32_t c) {
    const auto put = [&](std::uint32_t byte) { words += static_cast<char>(byte); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | c >> 6);
      put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | c >> 12);
      put(0x80 | (c >> 6 & 0x3F));
      put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
      put(0x80 | (c >> 6 & 0x3F));
      put(0x80 | (c & 0x3F));
    }
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t at_ = 0;
};

std::string quoted(const std::string& words) {
  std::string out = "\"";
  for (const char c : words) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

/// Sorts the arrays by their place and checks that they fill the data.
void check_places(const std::string& path, SafetensorsHeader& header, index_t bytes) {
  std::stable_sort(header.arrays.begin(), header.arrays.end(),
                   [](const SafetensorsArray& a, const SafetensorsArray& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  index_t next = 0;
  for (const SafetensorsArray& a : header.arrays) {
    index_t size = bytes_of_type(a.type);
    if (size == 0) throw_io(path, "\"" + a.name + "\" has the unknown dtype \"" + a.type + "\"");
    for (const index_t e : a.extents) {
      if (e > 0 && size > std::numeric_limits<index_t>::max() / e)
        throw_io(path, "\"" + a.name + "\" has too many values");
      size *= e;
    }
    if (a.begin != next)
      throw_io(path, "\"" + a.name + "\" begins at byte " + text(a.begin) +
                         " of the data, the array before it ends at " + text(next));
    if (a.end < a.begin || a.end - a.begin != size)
      throw_io(path, "\"" + a.name + "\" of type " + a.type + " has " + text(size) +
                         " bytes by its shape " +
                         text(a.extents.data(), static_cast<int>(a.extents.size())) + " and " +
                         text(a.end - a.begin) + " by its data_offsets");
    next = a.end;
  }
  if (next != bytes)
    throw_io(path, std::string(next > bytes ? "it is cut off: there are " : "there are ") +
                       text(bytes) + " bytes of data, its header tells of " + text(next));
}

}  // namespace

void throw_io(const std::string& path, const std::string& what) {
  throw IoError("shard: file \"" + path + "\": " + what);
}

index_t bytes_of_type(std::string_view type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "BOOL" || type == "U8" || type == "I8" || type == "F8_E4M3" || type == "F8_E5M2")
    return 1;
  return 0;
}

std::string shape_of(const std::vector<index_t>& extents) {
  return text(extents.data(), static_cast<int>(extents.size()));
}

File::File(const std::string& path, const char* mode)
    : path_(path), stream_(std::fopen(path.c_str(), mode)) {
  if (stream_ == nullptr) throw_io(path, std::strerror(errno));
}

File::~File() {
  if (stream_ != nullptr) std::fclose(stream(stream_));
}

void File::go_to(index_t at) const {
  if (fseeko(stream(stream_), static_cast<off_t>(at), SEEK_SET) != 0)
    throw_io(path_, std::strerror(errno));
}

index_t File::size() const {
  if (fseeko(stream(stream_), 0, SEEK_END) != 0) throw_io(path_, std::strerror(errno));
  const off_t end = ftello(stream(stream_));
  if (end < 0) throw_io(path_, std::strerror(errno));
  return static_cast<index_t>(end);
}

void File::read(index_t at, void* bytes, std::size_t count) const {
  go_to(at);
  if (std::fread(bytes, 1, count, stream(stream_)) != count)
    throw_io(path_, std::ferror(stream(stream_)) != 0 ? std::strerror(errno) : "it is cut off");
}

void File::write(index_t at, const void* bytes, std::size_t count) const {
  go_to(at);
  if (std::fwrite(bytes, 1, count, stream(stream_)) != count) throw_io(path_, std::strerror(errno));
}

void File::close() {
  std::FILE* const file = stream(stream_);
  stream_               = nullptr;
  const bool flushed    = std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  const int code        = errno;
  if (std::fclose(file) != 0 || !flushed) throw_io(path_, std::strerror(flushed ? errno : code));
}

SafetensorsHeader read_header(const File& file) {
  const index_t size = file.size();
  if (size < 8) throw_io(file.path(), "it is cut off: its first 8 bytes are a length");
  unsigned char bytes[8];
  file.read(0, bytes, 8);
  std::uint64_t length = 0;
  for (int k = 7; k >= 0; --k) length = length << 8 | bytes[k];
  if (length > static_cast<std::uint64_t>(longest_header))
    throw_io(file.path(), "it is no safetensors file: its header would have " +
                              std::to_string(length) + " bytes");
  const auto header_size = static_cast<index_t>(length);
  if (header_size > size - 8)
    throw_io(file.path(), "it is cut off: its header has " + text(header_size) + " bytes, " +
                              text(size - 8) + " are there");
  std::string json(static_cast<std::size_t>(header_size), ' ');
  file.read(8, json.data(), json.size());
  SafetensorsHeader header = HeaderParser(file.path(), json).parse();
  header.data              = 8 + header_size;
  check_places(file.path(), header, size - header.data);
  return header;
}

std::string header_bytes(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    json += "\"__metadata__\":{";
    for (std::size_t k = 0; k < header.metadata.size(); ++k)
      json += (k > 0 ? "," : "") + quoted(header.metadata[k].first) + ":" +
              quoted(header.metadata[k].second);
    json += "}";
  }
  for (const SafetensorsArray& a : header.arrays) {
    json += (json.size() > 1 ? "," : "") + quoted(a.name) + ":{\"dtype\":" + quoted(a.type) +
            ",\"shape\":[";
    for (std::size_t d = 0; d < a.extents.size(); ++d)
      json += (d > 0 ? "," : "") + text(a.extents[d]);
    json += "],\"data_offsets\":[" + text(a.begin) + "," + text(a.end) + "]}";
  }
  json += "}";
  while (json.size() % 8 != 0) json += ' ';  // the data are aligned
  std::string bytes(8, '\0');
  for (std::size_t k = 0; k < 8; ++k) bytes[k] = static_cast<char>(json.size() >> (8 * k) & 0xFF);
  return bytes + json;
}

index_t place_arrays(SafetensorsHeader& header) {
  index_t next = 0;
  for (SafetensorsArray& a : header.arrays) {
    a.begin = next;
    next += a.count() * bytes_of_type(a.type);
    a.end = next;
  }
  return next;
}

void throw_everywhere(MPI_Comm comm, int kind, std::string message) {
  int told[2] = {kind, static_cast<int>(message.size())};
  await_mpi("MPI_Bcast", MPI_Bcast, told, 2, MPI_INT, 0, comm);
  if (told[0] == 0) return;
  message.resize(static_cast<std::size_t>(told[1]));
  await_mpi("MPI_Bcast", MPI_Bcast, message.data(), told[1], MPI_CHAR, 0, comm);
  if (told[0] == 1) throw ArgumentError(message);
  if (told[0] == 2) throw IoError(message);
  throw Error(message);
}

void broadcast_bytes(MPI_Comm comm, void* bytes, std::size_t count) {
  constexpr std::size_t piece = std::size_t{1} << 28;
  auto* from                  = static_cast<char*>(bytes);
  for (; count > 0; from += std::min(count, piece), count -= std::min(count, piece))
    await_mpi("MPI_Bcast", MPI_Bcast, from, static_cast<int>(std::min(count, piece)), MPI_BYTE, 0,
              comm);
}

std::string unfinished(const std::string& path) { return path + ".part"; }

void put_in_place(const std::string& path) {
  if (std::rename(unfinished(path).c_str(), path.c_str()) != 0)
    throw_io(path, std::strerror(errno));
}

}  // namespace impl
}  // namespace shard
