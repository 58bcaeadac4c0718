// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

/// \file
/// Reading and writing NetCDF files: hyperslabs as unpacked doubles, with missing values counted.
/// All functions are local: each rank opens the file and reads its own part. The NetCDF library
/// isn't thread-safe, so calls from several threads must be serialised. The variables' own
/// conventions: CF 1.11, sections 2.5 (missing), 4 (coordinates), 8.1 (packing).

namespace shard {

/// True if this build can read and write NetCDF. Otherwise every function of NetcdfFile and
/// NetcdfWriter throws a NetcdfError that says how to build it.
bool netcdf_available();

/// An error with a NetCDF file: the file, the variable, what was found, and what to do.
class NetcdfError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A dimension and its length.
struct NetcdfDimension {
  std::string name;      ///< as in the file
  std::size_t size = 0;  ///< number of its indices
};

/// The meaning of a dimension of a variable.
enum class DimensionRole { latitude, longitude, level, time, member, unknown };

/// A variable as it is described in the file.
struct NetcdfVariable {
  std::string name;                         ///< as in the file
  std::vector<NetcdfDimension> dimensions;  ///< slowest first, as in the file
  std::string units;                        ///< empty if there are none
  std::string long_name;                    ///< empty if there is none
  bool packed  = false;                     ///< has scale_factor or add_offset
  bool numeric = true;                      ///< false for characters and strings
};

namespace impl {

/// Default limit of the memory for one read, in bytes, because a small file can declare any size.
inline constexpr std::size_t netcdf_most_bytes = std::size_t{1} << 30;

}  // namespace impl

/// A file open for reading. Movable, closed by the destructor.
class NetcdfFile {
 public:
  /// Opens the file. Reads that would allocate more than \p most_bytes throw NetcdfError, with the
  /// number. Throws NetcdfError if the file can't be opened or is no NetCDF file.
  explicit NetcdfFile(const std::string& path, std::size_t most_bytes = impl::netcdf_most_bytes);
  /// Takes the file over.
  NetcdfFile(NetcdfFile&&) noexcept;
  /// Closes this one, then takes the other file over.
  NetcdfFile& operator=(NetcdfFile&&) noexcept;
  ~NetcdfFile();

  /// The path it was opened by.
  [[nodiscard]] const std::string& path() const;
  /// The limit of the memory for one read.
  [[nodiscard]] std::size_t most_bytes() const;
  /// All dimensions, in the file's order.
  [[nodiscard]] std::vector<NetcdfDimension> dimensions() const;
  /// The names of all variables, coordinate variables included, in the file's order.
  [[nodiscard]] std::vector<std::string> variables() const;
  /// True if there is a variable of that name.
  [[nodiscard]] bool has_variable(const std::string& name) const;
  /// Describes a variable. Throws NetcdfError, with the existing names, if there is none.
  [[nodiscard]] NetcdfVariable variable(const std::string& name) const;

  /// A text attribute of a variable (of the file if \p variable is empty), or nothing if there is
  /// none or it is a number.
  [[nodiscard]] std::optional<std::string> text(const std::string& variable,
                                                const std::string& attribute) const;
  /// The first value of a numeric attribute, or nothing if there is none or it is text.
  [[nodiscard]] std::optional<double> number(const std::string& variable,
                                             const std::string& attribute) const;

  /// The meaning of a dimension: by its coordinate variable's standard_name, units, axis and
  /// positive, then by its usual names.
  [[nodiscard]] DimensionRole role(const std::string& dimension) const;

  /// Reads the box that begins at \p start and has \p count cells in each dimension of the variable
  /// into \p values, in the file's order, the last dimension fastest. Values are unpacked
  /// (scale_factor, add_offset); missing ones become NaN: _FillValue, every missing_value, what is
  /// outside valid_range, valid_min or valid_max, NaN, and without a _FillValue NetCDF's default
  /// fill value of the type (bytes have none). A NaN _FillValue of an integer variable is ignored.
  /// Bounds apply to the stored values; floating-point bounds of packed integers apply to the
  /// unpacked values. Throws NetcdfError if the box or \p values don't fit the variable, if it is
  /// text, or if a chunk of it takes more than most_bytes(). Also throws if one of these attributes
  /// is text, has too many values or, except markers of missing values, is NaN.
  /// \returns the number of missing values
  std::size_t read(const std::string& variable, std::span<const std::size_t> start,
                   std::span<const std::size_t> count, std::span<double> values) const;

  /// Reads a whole variable. Throws NetcdfError as above, and if it takes more than most_bytes() as
  /// doubles.
  [[nodiscard]] std::vector<double> read(const std::string& variable) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a writer does if there is a file of that name.
enum class ExistingFile {
  replace,  ///< writes a new one in its place
  extend    ///< writes more into it
};

/// Types a variable can be written as.
enum class NetcdfType { int8, int16, int32, float32, float64 };

/// An attribute to be written: text, or a number in its own type. Numbers that are compared with a
/// variable's values (_FillValue, missing_value, valid_min, valid_max) have the variable's type.
struct NetcdfAttribute {
  std::string name;                                     ///< such as "units"
  std::variant<std::string, double, float, int> value;  ///< text or a number
};

/// Writes a file: dimensions and variables are declared, then variables are written. Values that
/// nobody writes are 0. The file is written under another name beside `path` and renamed by
/// close(): the file at `path` is always complete.
class NetcdfWriter {
 public:
  /// Begins the file, which close() puts in place of one that is there. The format is 64-bit
  /// offset, which every NetCDF library reads; \p large makes it CDF-5, for variables of more than
  /// 4 GiB. Throws NetcdfError if it can't be made or `path` is something else than a file (a fifo,
  /// a device, a directory). \p existing `extend` begins with a copy of the file that is there.
  explicit NetcdfWriter(const std::string& path, bool large = false,
                        ExistingFile existing = ExistingFile::replace);
  /// Takes the file over.
  NetcdfWriter(NetcdfWriter&&) noexcept;
  /// Gives this one up, then takes the other file over.
  NetcdfWriter& operator=(NetcdfWriter&&) noexcept;
  /// Without close() the new file is removed, and one that was at `path` stays.
  ~NetcdfWriter();

  /// Declares a dimension.
  void add_dimension(const std::string& name, std::size_t size);
  /// Declares a variable over dimensions that were declared, slowest first.
  void add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                    NetcdfType type, const std::vector<NetcdfAttribute>& attributes = {});
  /// Declares a dimension and its coordinate variable (double), and writes it.
  void add_coordinate(const std::string& name, std::span<const double> values,
                      const std::vector<NetcdfAttribute>& attributes);
  /// Adds an attribute to the file as a whole.
  void add_attribute(const NetcdfAttribute& attribute);
  /// Writes a whole variable. Values are packed if it has scale_factor or add_offset, NaN becomes
  /// its _FillValue. Throws NetcdfError if their number is wrong, one does not fit the type, or an
  /// attribute of the packing is text, NaN or infinite.
  void write(const std::string& variable, std::span<const double> values);
  /// Writes the box that begins at \p start and has \p count cells in each dimension, the last
  /// dimension fastest.
  void write(const std::string& variable, std::span<const std::size_t> start,
             std::span<const std::size_t> count, std::span<const double> values);
  /// Completes the file and moves it to `path`. Throws NetcdfError if that fails, or if another
  /// program has put a file there meanwhile. Nothing may be written afterwards.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shard
