// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_NETCDF_OUTPUT_HPP
#define SHARD_IO_NETCDF_OUTPUT_HPP

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/io/checkpoint.hpp"
#include "shard/io/netcdf.hpp"

/// \file
/// One NetCDF file that all ranks write, each its part of the fields. Link with shard::io.

namespace shard {

/// Writes fields of all ranks into one NetCDF file in the classic format (64-bit offset; CDF-5 if a
/// variable takes more than 4 GiB), which every NetCDF library reads. Dimensions and variables are
/// declared first. With PnetCDF (SHARD_ENABLE_PNETCDF) the ranks write together, so all must see
/// the folder; else each sends its points in turn to the first rank, which writes. The file is
/// written under another name beside `path` and renamed by close(): the file at `path` is always
/// complete. Values that nobody writes are 0. All functions are collective with the same arguments
/// on each rank, and throw on every rank: ArgumentError, or IoError if the file can't be written.
///
///   shard::NetcdfOutput file(mesh.communicator(), "run.nc");
///   file.add_time("days since 2000-01-01");
///   file.add_latitude(latitudes);
///   file.add_longitude(longitudes);
///   file.add_variable("h", {"time", "lat", "lon"}, shard::NetcdfType::float32,
///                     {{"long_name", "depth"}, {"units", "m"}});
///   for (std::size_t t = 0; t < steps; ++t) {
///     file.write("time", t, days);
///     file.write("h", t, h);
///   }
///   file.close();
class NetcdfOutput {
 public:
  /// For the ranks of `comm`, those of the fields. With ExistingFile::extend it writes into a copy
  /// of the file that is there, if there is one: records of a later part of a run, say. The same is
  /// declared as for a new file. The first write compares it with the file: other dimensions,
  /// variables, attributes of variables or values of coordinates are an ArgumentError on every
  /// rank. The attributes of the file as a whole stay as they are. Throws NetcdfError in a build
  /// with neither PnetCDF nor NetCDF. The first write compares the ranks too: other paths or
  /// declarations are an AgreementError on every rank.
  NetcdfOutput(MPI_Comm comm, const std::string& path,
               ExistingFile existing = ExistingFile::replace);
  /// Without close() the new file is removed. Collective, but not while an exception is thrown.
  ~NetcdfOutput();
  NetcdfOutput(const NetcdfOutput&)            = delete;
  NetcdfOutput& operator=(const NetcdfOutput&) = delete;

  /// Declares a dimension.
  void add_dimension(const std::string& name, std::size_t size);
  /// Declares the record dimension, of which a file has one: its size is the largest entry that is
  /// written, and one more. Tools that join files (ncrcat) do it along this dimension. It is the
  /// first dimension of the variables that have it.
  void add_record_dimension(const std::string& name);
  /// Declares a dimension and its coordinate variable (double), whose values every rank has. They
  /// must rise or fall. With `edges`, one more than values, the bounds of the cells are written
  /// too, as "<name>_bnds".
  void add_coordinate(const std::string& name, std::span<const double> values,
                      const std::vector<NetcdfAttribute>& attributes,
                      std::span<const double> edges = {});
  /// Declares the record dimension "time" and its variable, with the attributes of CF: units such
  /// as "days since 2000-01-01". Write its values by write("time", entry, value).
  void add_time(const std::string& units, const std::string& calendar = "standard");
  /// Declares the coordinate "lat" in degrees north, with the attributes of CF.
  void add_latitude(std::span<const double> degrees, std::span<const double> edges = {});
  /// Declares the coordinate "lon" in degrees east, with the attributes of CF.
  void add_longitude(std::span<const double> degrees, std::span<const double> edges = {});
  /// Declares a variable over dimensions that were declared, slowest first. It isn't packed. A
  /// variable of float32 or float64 without a _FillValue gets NetCDF's, unless it is what another
  /// one names as its bounds.
  void add_variable(const std::string& name, const std::vector<std::string>& dimensions,
                    NetcdfType type, const std::vector<NetcdfAttribute>& attributes = {});
  /// Adds an attribute to the file as a whole.
  void add_attribute(const NetcdfAttribute& attribute);

  /// Writes the owned points of a field with the variable's extents, of double, float or integers
  /// of 8, 16 or 32 bits. NaN becomes the variable's _FillValue. Fences Kokkos. Nothing can be
  /// declared afterwards.
  template <AnyShardedView Field>
  void write(const std::string& variable, const Field& field) {
    put(variable, nullptr, field);
  }
  /// The same for entry `index` of the variable's first dimension, which the field doesn't have:
  /// a time.
  template <AnyShardedView Field>
  void write(const std::string& variable, std::size_t index, const Field& field) {
    put(variable, &index, field);
  }
  /// Writes entry `index` of a variable whose only dimension it is, such as "time". The first
  /// rank's value counts.
  void write(const std::string& variable, std::size_t index, double value);

  /// The number of entries of the record dimension: those of a file that is extended, and those
  /// written. Collective; nothing can be declared afterwards.
  std::size_t records();

  /// Completes the file and moves it to `path`. Nothing may be written afterwards. Variables that
  /// nobody wrote are in it: with no entries, or zeros. Throws IoError
  /// if another program has put a file there meanwhile.
  void close();

 private:
  friend struct impl::FileAccess;
  template <class Field>
  void put(const std::string& variable, const std::size_t* index, const Field& field) {
    using T = typename Field::non_const_value_type;
    static_assert(std::is_same_v<T, double> || std::is_same_v<T, float> ||
                      (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) <= 4),
                  "NetcdfOutput writes fields of double, float or signed integers of 8, 16 or 32 "
                  "bits");
    constexpr bool on_host =
        Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Field::memory_space>::accessible;
    static_assert(on_host || !std::is_const_v<typename Field::value_type>,
                  "a field of const values in device memory can't be copied to the host; write the "
                  "field that it was made from");
    Kokkos::fence("shard::NetcdfOutput: kernels that write the field are complete");
    auto array           = impl::field_array(variable, impl::type_in_file<T>(), field.geometry());
    const auto values_of = [&](const auto& host) {
      for (int d = 0; d < Field::rank; ++d) array.stride[impl::Geometry::at(d)] = host.stride(d);
      // only read from here on
      array.data = reinterpret_cast<std::byte*>(const_cast<T*>(host.origin()));
      put(variable, index, array);
    };
    if constexpr (on_host) {
      values_of(field);
    } else {
      const auto host = create_mirror_view(field);
      const Kokkos::DefaultExecutionSpace space;
      deep_copy(space, host, field);
      space.fence("shard::NetcdfOutput: the field is on the host");
      values_of(host);
    }
  }
  void put(const std::string& variable, const std::size_t* index,
           const impl::CheckpointArray& array);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shard

#endif
