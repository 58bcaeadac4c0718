// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_SAFETENSORS_HPP
#define SHARD_IO_SAFETENSORS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"
#include "shard/model/parameter_arena.hpp"

/// \file
/// Weights in the safetensors format: 8 bytes with the length of the header (little-endian), the
/// header (JSON: for each array its dtype, shape and place in the data, under its name in the
/// state_dict), the data.

namespace shard {

/// A file can't be opened, read or written, or is invalid. Thrown on every rank if the call is
/// collective.
class IoError : public Error {
 public:
  using Error::Error;
};

/// The type of the values in a written file.
enum class SafetensorsType {
  as_in_memory,  ///< the arena's own type
  F64,           ///< double
  F32,           ///< float
  F16,           ///< IEEE half precision, rounded to nearest even
  BF16           ///< bfloat16, rounded to nearest even
};

/// The mapping between names in a file and in an arena, and the allowed differences.
struct SafetensorsOptions {
  /// Prefix of each name in the file ("module."). Arrays without it are ignored.
  std::string prefix = {};
  /// Pairs (from, to), from names of the source to names of the target, each applied once, in this
  /// order, without the prefix. `from` must match a whole name, component by component (separated
  /// by dots). `*` is one component and `**` any number, also none. Each wildcard of `to` is
  /// replaced by the match of the corresponding wildcard of `from`. {"0.b", "0.bias"} is one name,
  /// {"**.b", "**.bias"} is every last component "b", {"**.conv.**", "**.**"} removes the component
  /// "conv".
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// Whether every array of the arena must be in the file and the other way round. Extents must
  /// agree in any case (see load_safetensors).
  bool strict = true;
  /// The type in a written file.
  SafetensorsType type = SafetensorsType::as_in_memory;
};

/// The result of a load: the names of the arena that the file lacks, those of the file (renamed)
/// that the arena lacks (both are errors in a strict load), and the renamed names.
struct SafetensorsReport {
  std::vector<std::string> missing;     ///< only in the arena; their values are unchanged
  std::vector<std::string> unexpected;  ///< only in the file
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

/// Reads and checks a header. Local. Throws IoError if the file can't be read, is truncated, is no
/// regular file, or has an invalid header (arrays that overlap or leave gaps, a wrong number of
/// bytes, a duplicate key, ...).
SafetensorsHeader read_safetensors_header(const std::string& path);

/// The values of one array, of type F64, F32, F16 or BF16, row-major, as T (float or double).
/// Local. Throws IoError as above; ArgumentError if there is no such array or it has another type.
template <class T>
std::vector<T> read_safetensors(const std::string& path, const std::string& name);

/// Throws IoError on every rank if save_safetensors or Checkpoint::save could not write a file
/// `path`. Call it before a long run. Collective over `comm`, whose first rank tries, under another
/// name. AgreementError if the ranks gave other paths.
void require_writable(const std::string& path, MPI_Comm comm);

namespace impl {

/// Loads into host memory, on every rank. Compiled for float and double.
template <class T>
SafetensorsReport load_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                              T* values, MPI_Comm comm, const SafetensorsOptions& options);
template <class T>
void save_arrays(const std::string& path, const std::vector<ParameterEntry>& entries,
                 const T* values, MPI_Comm comm, const SafetensorsOptions& options);

}  // namespace impl

/// Reads an arena's values from a file with the names and extents of its entries(), of type F64,
/// F32, F16 or BF16. Collective over `comm`: each rank reads a part and broadcasts it, so all ranks
/// must see the file; fences Kokkos. Equivalent shapes are accepted: a Linear's weight [o, i] and a
/// 1x1 convolution's [o, i, 1, ...], a value per channel [C] and [1, C, 1, ...]. Throws on every
/// rank, and leaves the arena unchanged: IoError for a file that can't be read or is damaged;
/// ArgumentError for arrays that are missing or unexpected (unless options.strict is false) or have
/// other extents, with their names and both shapes, or whose values aren't floating-point numbers;
/// AgreementError if the ranks gave other options.
template <class T, class Memory>
SafetensorsReport load_safetensors(const std::string& path, const ParameterArena<T, Memory>& arena,
                                   MPI_Comm comm, const SafetensorsOptions& options = {}) {
  const auto host =
      Kokkos::create_mirror(Kokkos::WithoutInitializing, Kokkos::HostSpace(), arena.values());
  auto report = impl::load_arrays(path, arena.entries(), host.data(), comm, options);
  for (const ParameterEntry& entry : arena.entries()) {
    const std::pair<index_t, index_t> range(entry.offset, entry.offset + entry.count());
    if (std::find(report.missing.begin(), report.missing.end(), entry.name) == report.missing.end())
      Kokkos::deep_copy(Kokkos::subview(arena.values(), range), Kokkos::subview(host, range));
  }
  return report;
}

/// Writes an arena's values, each entry under its name, so that `safetensors.torch.load_file` gives
/// a state_dict. The arena must have the same values on every rank. Collective over `comm`: each
/// rank writes a part of a temporary file beside `path`, which all ranks must see, and the first
/// rank renames it when it is complete. Throws on every rank: IoError if it can't be written,
/// `path` is no regular file, or another program has put a file there meanwhile; ArgumentError for
/// invalid or duplicate names; AgreementError if the ranks gave other paths or options.
template <class T, class Memory>
void save_safetensors(const std::string& path, const ParameterArena<T, Memory>& arena,
                      MPI_Comm comm, const SafetensorsOptions& options = {}) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), arena.values());
  Kokkos::fence("shard::save_safetensors: the values are written");
  impl::save_arrays(path, arena.entries(), host.data(), comm, options);
}

}  // namespace shard

#endif
