// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/matrix_market.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include "shard/base/impl/watchdog.hpp"
#include "shared_file.hpp"

namespace shard::impl {

namespace {

enum class Symmetry { general, symmetric, skew };

struct Header {
  index_t rows = 0, columns = 0, entries = 0;
  Symmetry symmetry = Symmetry::general;
  bool has_values   = true;
  index_t data      = 0;  ///< where the entries begin
};

/// The lines of a file from a position on, read in pieces.
class Lines {
 public:
  Lines(const File& file, index_t at) : file_(file), at_(at), end_(at) {}

  /// Where the next line begins.
  index_t position() const { return at_; }
  /// The next line without its end, or false at the end of the file.
  bool next(std::string_view& line) {
    while (true) {
      const std::size_t newline = text_.find('\n', begin_);
      if (newline != std::string::npos || end_ == file_.size()) {
        const std::size_t last = newline == std::string::npos ? text_.size() : newline;
        if (newline == std::string::npos && begin_ == text_.size()) return false;
        line = std::string_view(text_).substr(begin_, last - begin_);
        at_ += static_cast<index_t>(last - begin_) + (newline == std::string::npos ? 0 : 1);
        begin_ = last + (newline == std::string::npos ? 0 : 1);
        return true;
      }
      text_.erase(0, begin_);
      begin_                 = 0;
      const index_t some     = std::min(piece_bytes, file_.size() - end_);
      const std::size_t kept = text_.size();
      text_.resize(kept + static_cast<std::size_t>(some));
      file_.read(end_, text_.data() + kept, static_cast<std::size_t>(some));
      end_ += some;
    }
  }

 private:
  const File& file_;
  index_t at_, end_;
  std::string text_;
  std::size_t begin_ = 0;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

Header read_head(const File& file) {
  Lines lines(file, 0);
  std::string_view line;
  if (!lines.next(line) || line.substr(0, 14) != "%%MatrixMarket")
    throw_io(file.path(), "it doesn't begin with %%MatrixMarket");
  std::string kind(line);
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string words[6];
  std::size_t count = 0;
  for (std::size_t i = 0; i < kind.size() && count < 6;) {
    const std::size_t begin = kind.find_first_not_of(" \t\r", i);
    if (begin == std::string::npos) break;
    i              = std::min(kind.find_first_of(" \t\r", begin), kind.size());
    words[count++] = kind.substr(begin, i - begin);
  }
  const auto is = [&](std::size_t word, std::initializer_list<const char*> any) {
    return std::find(any.begin(), any.end(), words[word]) != any.end();
  };
  if (count != 5 || !is(1, {"matrix"}) || !is(2, {"coordinate"}) ||
      !is(3, {"real", "integer", "pattern"}) ||
      !is(4, {"general", "symmetric", "skew-symmetric"}) ||
      (is(3, {"pattern"}) && is(4, {"skew-symmetric"})))
    throw_io(file.path(), "'" + std::string(line) +
                              "': only matrices in coordinates of real, integer or pattern "
                              "entries are read, general, symmetric or skew-symmetric (not of a "
                              "pattern)");
  Header head;
  head.has_values = !is(3, {"pattern"});
  head.symmetry   = is(4, {"skew-symmetric"}) ? Symmetry::skew
                    : is(4, {"symmetric"})    ? Symmetry::symmetric
                                              : Symmetry::general;
  while (lines.next(line)) {
    if (is_blank(line) || line[0] == '%') continue;
    long long rows = -1, columns = -1, entries = -1;
    char more = 0;
    if (std::sscanf(std::string(line).c_str(), "%lld %lld %lld %c", &rows, &columns, &entries,
                    &more) != 3 ||
        rows < 0 || columns < 0 || entries < 0)
      throw_io(file.path(), "'" + std::string(line) + "' isn't a line of rows, columns, entries");
    head.rows    = rows;
    head.columns = columns;
    head.entries = entries;
    head.data    = lines.position();
    return head;
  }
  throw_io(file.path(), "it has no line of rows, columns, entries");
}

/// The entry of a line. Throws IoError.
MatrixEntry<double> entry_of(const File& file, const Header& head, std::string_view line) {
  const std::string words(line);  // ends with a zero
  char* end = nullptr;
  MatrixEntry<double> e;
  e.row        = std::strtoll(words.c_str(), &end, 10) - 1;
  char* second = end;
  e.column     = std::strtoll(second, &end, 10) - 1;
  bool good    = second != words.c_str() && end != second;
  e.value      = 1.0;
  if (head.has_values) {
    char* third = end;
    e.value     = std::strtod(third, &end);
    // strtod also reads hexadecimal numbers, and words for NaN and infinity
    good = good && end != third && std::isfinite(e.value) &&
           std::string_view(third, static_cast<std::size_t>(end - third)).find_first_of("xX") ==
               std::string_view::npos;
  }
  if (!good || !is_blank(end) || e.row < 0 || e.row >= head.rows || e.column < 0 ||
      e.column >= head.columns)
    throw_io(file.path(), "'" + words + "' isn't an entry of " + text(head.rows) + " x " +
                              text(head.columns) + " elements");
  if (head.symmetry != Symmetry::general && e.row < e.column)
    throw_io(file.path(), "'" + words +
                              "' is above the diagonal; of a symmetric matrix only the elements on "
                              "and below it are given");
  if (head.symmetry == Symmetry::skew && e.row == e.column)
    throw_io(file.path(),
             "'" + words + "' is on the diagonal of a skew-symmetric matrix, which is 0");
  return e;
}

/// Writes all ranks' entries, in the order of ranks. Collective; throws on every rank.
void write_entries(MPI_Comm comm, const std::string& path, const MatrixMarketPart& part) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  std::string lines;
  char line[96];
  for (const auto& e : part.entries) {
    std::snprintf(line, sizeof line, "%lld %lld %.17g\n", static_cast<long long>(e.row + 1),
                  static_cast<long long>(e.column + 1), e.value);
    lines += line;
  }
  auto entries = static_cast<index_t>(part.entries.size()), all = index_t{0};
  await_mpi("MPI_Allreduce", MPI_Allreduce, &entries, &all, 1, MPI_INT64_T, MPI_SUM, comm);
  if (rank == 0)
    lines = "%%MatrixMarket matrix coordinate real general\n" + text(part.rows) + " " +
            text(part.columns) + " " + text(all) + "\n" + lines;
  auto length = static_cast<index_t>(lines.size()), end = index_t{0};
  await_mpi("MPI_Scan", MPI_Scan, &length, &end, 1, MPI_INT64_T, MPI_SUM, comm);
  const auto file = create_on_all("write_matrix_market", path, comm);
  on_every_rank(comm, [&] {
    file->write(static_cast<off_t>(end - length), lines.data(), lines.size());
    file->sync();
  });
  on_first_rank(comm, [&] { file->put_in_place(); });
}

}  // namespace

MatrixMarketPart read_matrix_market(MPI_Comm comm, const std::string& path) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const auto file = open_on_all(path, comm);
  Header head;
  MatrixMarketPart part;
  index_t lines_read = 0;
  on_every_rank(comm, [&] {
    head                = read_head(*file);
    part.rows           = head.rows;
    part.columns        = head.columns;
    const auto bounds   = Partition::balanced(file->size() - head.data, size);
    const index_t begin = head.data + bounds.begin(rank), end = head.data + bounds.end(rank);
    // the lines that begin in this range
    Lines lines(*file, rank == 0 ? begin : begin - 1);
    std::string_view line;
    if (rank > 0) lines.next(line);
    while (lines.position() < end && lines.next(line)) {
      if (is_blank(line) || line[0] == '%') continue;
      const auto e = entry_of(*file, head, line);
      ++lines_read;
      part.entries.push_back(e);
      if (head.symmetry != Symmetry::general && e.row != e.column)
        part.entries.push_back(
            {e.column, e.row, head.symmetry == Symmetry::skew ? -e.value : e.value});
    }
  });
  index_t all = 0;
  await_mpi("MPI_Allreduce", MPI_Allreduce, &lines_read, &all, 1, MPI_INT64_T, MPI_SUM, comm);
  on_every_rank(comm, [&] {
    if (all != head.entries)
      throw_io(path, "it says " + text(head.entries) + " entries and has " + text(all));
  });
  return part;
}

void write_matrix_market(MPI_Comm comm, MPI_Comm axis, bool writes, const std::string& path,
                         const MatrixMarketPart& part) {
  require_same_path("write_matrix_market", path, comm);
  on_every_rank(comm, [&] {
    if (writes) write_entries(axis, path, part);
  });
}

}  // namespace shard::impl
