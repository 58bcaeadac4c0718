// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The safetensors format: parses and checks the header, and reads and writes the file.
#include "safetensors_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>

#include "special_file.hpp"

namespace shard {

const SafetensorsArray* SafetensorsHeader::find(const std::string& name) const {
  for (const SafetensorsArray& array : arrays)
    if (array.name == name) return &array;
  return nullptr;
}

SafetensorsHeader read_safetensors_header(const std::string& path) {
  return impl::read_header(impl::File(path));
}

namespace impl {
namespace {

constexpr index_t longest_header = 100'000'000;  // the reference implementation's limit

/// The first position at which `words` isn't UTF-8 (The Unicode Standard, table 3-7); npos if it
/// is.
std::size_t end_of_utf8(std::string_view words) {
  for (std::size_t at = 0; at < words.size();) {
    const auto byte = [&](std::size_t k) {
      return at + k < words.size() ? static_cast<unsigned char>(words[at + k]) : 0U;
    };
    const unsigned first = byte(0);
    std::size_t length   = 1;
    unsigned low = 0x80, high = 0xBF;  // of the second byte
    if (first >= 0x80) {
      if (first < 0xC2 || first > 0xF4) return at;
      length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    }
    for (std::size_t k = 1; k < length; ++k, low = 0x80, high = 0xBF)
      if (byte(k) < low || byte(k) > high) return at;
    at += length;
  }
  return std::string_view::npos;
}

/// Parses a header's JSON, restricted to the format: an object of objects with dtype, shape and
/// data_offsets, and one of texts.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  SafetensorsHeader parse() {
    SafetensorsHeader header;
    if (const std::size_t wrong = end_of_utf8(text_); wrong != std::string_view::npos) {
      at_ = wrong;
      fail("it isn't UTF-8");
    }
    if (text_.empty() || text_[0] != '{') fail("it doesn't begin with '{'");
    object([&](const std::string& name) {
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
    std::set<std::string> seen;
    expect('{');
    if (take('}')) return;
    do {
      const std::string key = string();
      if (!seen.insert(key).second) fail(json_text(key) + " appears twice");
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
        if (offsets.size() != 2) fail("data_offsets of " + json_text(name) + " are not two");
        a.begin = offsets[0];
        a.end   = offsets[1];
      } else {
        fail(json_text(name) + " has a " + json_text(key));
      }
    });
    if (a.type.empty() || !has_shape || a.begin < 0)
      fail(json_text(name) + " lacks one of dtype, shape and data_offsets");
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
    if (at_ == first) fail("a number of zero or more is missing");
    if (text_[first] == '0' && at_ > first + 1) fail("a number begins with a zero");
    return value;
  }

  std::string string() {
    expect('"');
    std::string words;
    while (true) {
      if (at_ >= text_.size()) fail("a string doesn't end");
      const char c = text_[at_++];
      if (c == '"') return words;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character is in a string");
      if (c != '\\') {
        words += c;
        continue;
      }
      if (at_ >= text_.size()) fail("a string doesn't end");
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

/// Sorts the arrays by position and checks that they fill the data.
void check_places(const std::string& path, SafetensorsHeader& header, index_t bytes) {
  std::stable_sort(header.arrays.begin(), header.arrays.end(),
                   [](const SafetensorsArray& a, const SafetensorsArray& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  index_t next = 0;
  for (const SafetensorsArray& a : header.arrays) {
    index_t size        = bytes_of_type(a.type);
    const bool is_known = size > 0;  // of other types only the place can be checked
    if (!is_known) size = a.end - a.begin;
    for (const index_t e : a.extents) {
      if (!is_known) break;
      if (e > 0 && size > std::numeric_limits<index_t>::max() / e)
        throw_io(path, json_text(a.name) + " has too many values");
      size *= e;
    }
    if (a.begin != next)
      throw_io(path, json_text(a.name) + " begins at byte " + text(a.begin) +
                         " of the data, the array before it ends at " + text(next));
    if (a.end < a.begin || a.end - a.begin != size)
      throw_io(path, json_text(a.name) + " of type " + a.type + " has " + text(size) +
                         " bytes by its shape " +
                         text(a.extents.data(), static_cast<int>(a.extents.size())) + " and " +
                         text(a.end - a.begin) + " by its data_offsets");
    next = a.end;
  }
  if (next != bytes)
    throw_io(path, std::string(next > bytes ? "it is truncated: there are " : "there are ") +
                       text(bytes) + " bytes of data, its header describes " + text(next));
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

std::string json_text(std::string_view words) {
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

File::File(const std::string& path) : path_(path), descriptor_(-1) {
  if (const std::string found = special_file(path); !found.empty())
    throw_io(path, "it is " + found + ", not a file");
  // O_NONBLOCK: doesn't hang if the file has become a fifo since
  descriptor_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ < 0) throw_io(path, std::strerror(errno));
}

File::~File() { ::close(descriptor_); }

namespace {

struct stat facts_of(int descriptor, const std::string& path) {
  struct stat found {};
  if (fstat(descriptor, &found) != 0) throw_io(path, std::strerror(errno));
  return found;
}

}  // namespace

index_t File::size() const { return static_cast<index_t>(facts_of(descriptor_, path_).st_size); }

std::uint64_t File::number() const {
  return static_cast<std::uint64_t>(facts_of(descriptor_, path_).st_ino);
}

void File::read(index_t at, void* bytes, std::size_t count) const {
#if defined(POSIX_FADV_WILLNEED)
  // The disk reads ahead while the caller uses this piece.
  if (count >= std::size_t{1} << 19)
    posix_fadvise(descriptor_, static_cast<off_t>(at) + static_cast<off_t>(count),
                  static_cast<off_t>(8 * count), POSIX_FADV_WILLNEED);
#endif
  for (auto* to = static_cast<char*>(bytes); count > 0;) {
    const ssize_t n = pread(descriptor_, to, count, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_io(path_, n < 0 ? std::strerror(errno) : "it is truncated");
    to += n;
    at += n;
    count -= static_cast<std::size_t>(n);
  }
}

SafetensorsHeader read_header(const File& file) {
  const index_t size = file.size();
  if (size < 8) throw_io(file.path(), "it is truncated: its first 8 bytes are a length");
  unsigned char bytes[8];
  file.read(0, bytes, 8);
  std::uint64_t length = 0;
  for (int k = 7; k >= 0; --k) length = length << 8 | bytes[k];
  if (length > static_cast<std::uint64_t>(longest_header))
    throw_io(file.path(), "it isn't a safetensors file: its header would have " +
                              std::to_string(length) + " bytes");
  const auto header_size = static_cast<index_t>(length);
  if (header_size > size - 8)
    throw_io(file.path(), "it is truncated: its header has " + text(header_size) + " bytes, " +
                              text(size - 8) + " are there");
  std::string json(static_cast<std::size_t>(header_size), ' ');
  file.read(8, json.data(), json.size());
  SafetensorsHeader header = HeaderParser(file.path(), json).parse();
  header.data              = 8 + header_size;
  check_places(file.path(), header, size - header.data);
  return header;
}

std::string header_bytes(const SafetensorsHeader& header) {
  for (const SafetensorsArray& a : header.arrays)
    if (a.name == "__metadata__" || end_of_utf8(a.name) != std::string::npos)
      throw ArgumentError("shard: an array can't have the name " + json_text(a.name) +
                          " in a safetensors file; names are UTF-8, and \"__metadata__\" is taken");
  std::string json = "{";
  if (!header.metadata.empty()) {
    json += "\"__metadata__\":{";
    for (std::size_t k = 0; k < header.metadata.size(); ++k)
      json += (k > 0 ? "," : "") + json_text(header.metadata[k].first) + ":" +
              json_text(header.metadata[k].second);
    json += "}";
  }
  for (const SafetensorsArray& a : header.arrays) {
    json += (json.size() > 1 ? "," : "") + json_text(a.name) + ":{\"dtype\":" + json_text(a.type) +
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

}  // namespace impl
}  // namespace shard
