// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_SAFETENSORS_HPP
#define SHARD_IO_SAFETENSORS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"
#include "shard/model/parameter_arena.hpp"

/// \file
/// Weights in the safetensors format, which PyTorch's users exchange: 8 bytes with the length of
/// the header (little-endian), the header (JSON: for each array its dtype, shape and place in the
/// data, under its name in the state_dict), the data.

namespace shard {

/// A file can't be opened, read or written, or isn't what it is to be. Thrown on every rank where
/// the call is collective.
class IoError : public Error {
 public:
  using Error::Error;
};

/// What the values are in a file that is written.
enum class SafetensorsType {
  as_in_memory,  ///< the arena's own type
  F64,           ///< double
  F32,           ///< float
  F16,           ///< IEEE half precision, rounded to nearest even
  BF16           ///< bfloat16, rounded to nearest even
};

/// How names in a file and in an arena belong together, and what may differ.
struct SafetensorsOptions {
  /// What stands before each name in the file ("module."). Arrays without it are not looked at.
  std::string prefix = {};
  /// Pairs (from, to), from where the data come to where they go, each applied once, in this order;
  /// the prefix is off before, or not yet there. A pair renames the names that `from` is as a
  /// whole, component by component (what is between dots). `*` is one component and `**` any
  /// number, also none; in `to` each wildcard of `from` stands again, in the same order, for what
  /// it was. {"0.b", "0.bias"} is one name, {"**.b", "**.bias"} is every last component "b",
  /// {"**.conv.**",
  /// "**.**"} takes out the component that wrapped convolutions add.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// Whether every array of the arena must be in the file and the other way round. Extents must
  /// agree in any case (see load_safetensors).
  bool strict = true;
  /// For a file that is written.
  SafetensorsType type = SafetensorsType::as_in_memory;
};

/// What a load did: the names of the arena that the file lacks and those of the file (renamed) that
/// the arena lacks, which are errors unless the load isn't strict, and what
/// SafetensorsOptions::rename changed.
struct SafetensorsReport {
  std::vector<std::string> missing;     ///< in the arena alone; their values are as they were
  std::vector<std::string> unexpected;  ///< in the file alone
  /// Pairs (name in the file, name after renaming), in the order of the file's data.
  std::vector<std::pair<std::string, std::string>> renamed;
};

/// An array in a safetensors file.
struct SafetensorsArray {
  std::string name;              ///< as in the file
  std::string type;              ///< "F32", "F64", "F16", "BF16", "I64", ...
  std::vector<index_t> extents;  ///< row-major
  index_t begin = 0;             ///< first byte in the data
  index_t end   = 0;             ///< one past the last

  /// Number of values.
  index_t count() const {
    index_t n = 1;
    for (index_t e : extents) n *= e;
    return n;
  }
};

/// A safetensors file's header.
struct SafetensorsHeader {
  std::vector<SafetensorsArray> arrays;                       ///< in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;  ///< "__metadata__"
  index_t data = 0;                                           ///< where the data begin in the file

  /// The array of that name, or null.
  const SafetensorsArray* find(const std::string& name) const;
};

/// Reads and checks a header. Local. Throws IoError where the file can't be read, is cut off, or
/// the header is no safetensors header (arrays that overlap or leave holes, another number of bytes
/// than type and extents make, a key twice, ...), or it is no regular file.
SafetensorsHeader read_safetensors_header(const std::string& path);

/// The values of one array, of type F64, F32, F16 or BF16, row-major, as T (float or double).
/// Local. Throws IoError as above; ArgumentError where there is no such array or it has another
/// type.
template <class T>
std::vector<T> read_safetensors(const std::string& path, const std::string& name);

/// Throws IoError on every rank where save_safetensors or Checkpoint::save could not make a file
/// `path`: for what a long run asks before its first step. Collective over `comm`, whose first rank
/// tries, under another name.
void require_writable(const std::string& path, MPI_Comm comm);

namespace impl {

/// Into host memory, on every rank. Compiled for float and double.
template <class T>
SafetensorsReport load_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                              T* values, index_t count, MPI_Comm comm,
                              const SafetensorsOptions& options);
template <class T>
void save_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                 const T* values, MPI_Comm comm, const SafetensorsOptions& options);

}  // namespace impl

/// Reads an arena's values from a file with the names and extents of its entries(), of type F64,
/// F32, F16 or BF16. Collective over `comm`: its first rank reads, all get the same values; waits
/// for Kokkos. Shapes that mean the same are taken: a Linear's weight [o, i] and [o, i, 1, ...] of
/// a convolution with a window of one cell and one group, a value per channel [C] and [1, C, 1,
/// ...]. Throws on every rank, and leaves the arena as it was: IoError for a file that can't be
/// read or is damaged; ArgumentError for arrays that are missing or unexpected (unless
/// options.strict is false) or have other extents, with their names and both shapes, or whose
/// values aren't floating-point numbers.
template <class T, class Memory>
SafetensorsReport load_safetensors(const std::string& path, const ParameterArena<T, Memory>& arena,
                                   MPI_Comm comm, const SafetensorsOptions& options = {}) {
  const auto host = Kokkos::create_mirror(Kokkos::HostSpace(), arena.values());
  Kokkos::deep_copy(host, arena.values());
  auto report = impl::load_arrays(path, arena.entries(), host.data(),
                                  static_cast<index_t>(host.extent(0)), comm, options);
  Kokkos::deep_copy(arena.values(), host);
  return report;
}

/// Writes an arena's values, each entry under its name, so that `safetensors.torch.load_file` gives
/// a state_dict. Collective over `comm`: its first rank writes what it has, into a file of its own
/// beside `path`, which is then renamed: a file of that name is complete. Throws on every rank:
/// IoError where it can't be written, `path` is no regular file, or another program has put a file
/// there meanwhile; ArgumentError for names that can't be in such a file or that two arrays have.
template <class T, class Memory>
void save_safetensors(const std::string& path, const ParameterArena<T, Memory>& arena,
                      MPI_Comm comm, const SafetensorsOptions& options = {}) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), arena.values());
  Kokkos::fence("shard::save_safetensors: the values are written");
  impl::save_arrays(path, arena.entries(), host.data(), comm, options);
}

}  // namespace shard

#endif
