// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/checkpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <numeric>

#include "../view/index_directory.hpp"
#include "own_box.hpp"
#include "safetensors_file.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/view/impl/index_halo.hpp"
#include "shared_file.hpp"

namespace shard {
namespace impl {
namespace {

constexpr char no_checksum[] = "0000000000000000";
constexpr char format[]      = "shard checkpoint 1";

std::size_t at(int d) { return static_cast<std::size_t>(d); }

/// A hash of each value and its place, summed: the order doesn't matter, so each rank adds up its
/// own values.
template <class Word>
std::uint64_t sum_of_hashes(const char* bytes, index_t count, index_t place) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15ULL;
  std::uint64_t sum = 0, key = step * static_cast<std::uint64_t>(place + 1);
  for (index_t i = 0; i < count; ++i, key += step * sizeof(Word)) {
    Word value;
    std::memcpy(&value, bytes + i * static_cast<index_t>(sizeof(Word)), sizeof(Word));
    std::uint64_t z = value + key;
    z               = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;  // SplitMix64's
    z               = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    sum += z ^ (z >> 31);
  }
  return sum;
}

/// The sum for `count` values of `size` bytes, the first one at byte `place` of the data.
std::uint64_t checksum_of(const char* bytes, index_t count, index_t size, index_t place) {
  switch (size) {
    case 1: return sum_of_hashes<std::uint8_t>(bytes, count, place);
    case 2: return sum_of_hashes<std::uint16_t>(bytes, count, place);
    case 4: return sum_of_hashes<std::uint32_t>(bytes, count, place);
    default: return sum_of_hashes<std::uint64_t>(bytes, count, place);
  }
}

std::string hexadecimal(std::uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

/// The position of the checksum's digits in the header; npos if there are none.
std::size_t checksum_place(const std::string& front) {
  const std::string before = "\"checksum\":\"";
  const std::size_t found  = front.find(before);
  if (found == std::string::npos || found + before.size() + 16 > front.size())
    return std::string::npos;
  return found + before.size();
}

/// Calls use(first, n) for the pieces of this rank's part of an array: its box, or its turns at an
/// array that every rank has.
template <class Use>
void for_each_piece(Turns& turns, const CheckpointArray& array, const Use& use) {
  const index_t count = count_of(array), size = bytes_of_type(array.type);
  if (array.replicated) return turns.take_own(count, size, use);
  const index_t most = piece_bytes / size;
  for (index_t first = 0; first < count; first += most) use(first, std::min(most, count - first));
}

/// A contiguous part of the values of this rank's box.
struct HashedPart {
  index_t first, count;
};

/// Calls use(piece), which returns a hash, for one piece per work item.
template <class Use>
struct HashParts {
  const Use* use;
  const HashedPart* pieces;
  std::uint64_t* hashes;
  std::exception_ptr* failures;

  void operator()(index_t i) const {
    try {
      hashes[i] = (*use)(pieces[i]);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  }
};

/// The sum of use(piece) over the pieces of this rank's part of an array, by all threads of the
/// host: reading, the first touch of memory and hashing are limited by the processor. Throws the
/// first failure.
template <class Use>
std::uint64_t sum_over_pieces(Turns& turns, const CheckpointArray& array, const Use& use) {
  std::vector<HashedPart> pieces;
  for_each_piece(turns, array, [&](index_t first, index_t n) { pieces.push_back({first, n}); });
  std::vector<std::uint64_t> hashes(pieces.size());
  std::vector<std::exception_ptr> failures(pieces.size());
  const Kokkos::DefaultHostExecutionSpace space;
  launch("shard::checkpoint_pieces", space, static_cast<index_t>(pieces.size()),
         HashParts<Use>{&use, pieces.data(), hashes.data(), failures.data()});
  space.fence("shard::Checkpoint: the pieces are read");
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
  return std::accumulate(hashes.begin(), hashes.end(), std::uint64_t{0});
}

std::vector<index_t> extents_of(const CheckpointArray& array) {
  return {array.global.begin(), array.global.begin() + array.rank};
}

/// A checkpoint's header, the hash of its bytes, and the stored checksum.
struct Front {
  SafetensorsHeader header;
  std::uint64_t hash = 0;
  std::string checksum;
};

Front read_front(const File& file) {
  Front f;
  f.header         = read_header(file);
  const auto found = std::find_if(f.header.metadata.begin(), f.header.metadata.end(),
                                  [](const auto& entry) { return entry.first == "format"; });
  if (found == f.header.metadata.end())
    throw_io(file.path(), "it isn't a checkpoint: its header has no \"format\"");
  if (found->second != format)
    throw_io(file.path(), "its format is " + json_text(found->second) + ", this version reads " +
                              json_text(format));
  std::string bytes(static_cast<std::size_t>(f.header.data), ' ');
  file.read(0, bytes.data(), bytes.size());
  const std::size_t digits = checksum_place(bytes);
  if (digits == std::string::npos)
    throw_io(file.path(), "it isn't a checkpoint: it has no checksum");
  f.checksum = bytes.substr(digits, 16);
  bytes.replace(digits, 16, no_checksum);
  f.hash = hash_bytes(bytes.data(), bytes.size(), hash_seed);
  return f;
}

/// Throws unless the checksum equals the stored one.
void check_sum(const File& file, const Front& front, std::uint64_t sum) {
  if (hexadecimal(sum) != front.checksum)
    throw_io(file.path(), "it is damaged: its checksum is " + hexadecimal(sum) +
                              "; it was written with " + front.checksum);
}

/// The sum over the whole file.
std::uint64_t sum_of(const File& file, const Front& front) {
  std::uint64_t sum = front.hash;
  std::vector<char> bytes;
  for (const SafetensorsArray& array : front.header.arrays)
    for (index_t first = array.begin; first < array.end; first += piece_bytes) {
      const index_t n = std::min(piece_bytes, array.end - first), size = bytes_of_type(array.type);
      bytes.resize(static_cast<std::size_t>(n));
      file.read(front.header.data + first, bytes.data(), bytes.size());
      sum += checksum_of(bytes.data(), n / size, size, first);
    }
  return sum;
}

/// The differences between the file's arrays and the state's, as text; empty if there are none.
std::string misfit(const SafetensorsHeader& header, const std::vector<CheckpointArray>& arrays) {
  std::string wrong;
  for (const CheckpointArray& array : arrays) {
    const SafetensorsArray* const found = header.find(array.name);
    if (found == nullptr)
      wrong += "; it lacks " + json_text(array.name);
    else if (found->type != array.type || found->extents != extents_of(array))
      wrong += "; " + json_text(array.name) + " is " + found->type + " " +
               shape_of(found->extents) + " in the file and " + array.type + " " +
               shape_of(extents_of(array)) + " in this state";
  }
  for (const SafetensorsArray& found : header.arrays)
    if (std::none_of(arrays.begin(), arrays.end(),
                     [&](const CheckpointArray& a) { return a.name == found.name; }))
      wrong += "; this state has no " + json_text(found.name);
  return wrong;
}

}  // namespace

CheckpointArray field_array(const std::string& name, std::string type, const Geometry& geometry) {
  CheckpointArray array{name, std::move(type)};
  array.rank       = geometry.rank;
  array.replicated = false;
  unsigned cuts    = 0;
  for (int d = 0; d < geometry.rank; ++d) {
    const DimGeometry& dim = geometry.dims[Geometry::at(d)];
    if (const IndexHalo* const halo = dim.partition.index_halo()) {
      const MPI_Comm comm = geometry.mesh->axis_comm(dim.axes[0]);
      if (array.listed >= 0)
        throw_argument("Checkpoint", {"\"", geometry.label,
                                      "\" has two dimensions of index spaces; "
                                      "a file can order the elements of one"});
      const bool unknown = halo->ids.size() < static_cast<std::size_t>(halo->owned);
      require_no_error(comm, "Checkpoint",
                       unknown ? "dimension " + text(d) + " of \"" + geometry.label +
                                     "\" is of an index space described by owners, whose elements "
                                     "have no order; describe it by ids (by_global_ids)"
                               : std::string());
      array.listed = d;
      array.places = places_by_id(comm, halo->ids, halo->owned);
    }
    array.global[at(d)] = geometry.global(d);
    array.begin[at(d)]  = geometry.begin(d);
    array.extent[at(d)] = geometry.owned(d);
    for (int a = 0; a < dim.axis_count; ++a) cuts |= 1U << dim.axes[at(a)];
  }
  for (int a = 0; a < geometry.mesh->axes(); ++a) {
    if ((cuts >> a & 1U) != 0) continue;
    array.copies *= geometry.mesh->extent(a);
    if (geometry.mesh->coordinate(a) != 0) array.writes = false;
  }
  return array;
}

}  // namespace impl

impl::CheckpointArray Checkpoint::whole(const std::string& name, std::string type,
                                        const std::vector<index_t>& extents, std::byte* data) {
  if (extents.size() > impl::max_rank)
    impl::throw_argument("Checkpoint::add", {impl::json_text(name), " has more than ",
                                             impl::text(impl::max_rank), " dimensions"});
  impl::CheckpointArray array{name, std::move(type)};
  array.rank   = static_cast<int>(extents.size());
  index_t step = 1;
  for (int d = array.rank - 1; d >= 0; --d) {
    array.global[impl::at(d)] = array.extent[impl::at(d)] = extents[impl::at(d)];
    array.stride[impl::at(d)]                             = step;
    step *= extents[impl::at(d)];
  }
  array.data = data;
  return array;
}

impl::CheckpointArray Checkpoint::part_of_array(impl::CheckpointArray array,
                                                const ParameterPart& part) {
  if (array.extent[0] != part.count)
    impl::throw_argument("Checkpoint::add",
                         {impl::json_text(array.name), " has ", impl::text(array.extent[0]),
                          " values, the part has ", impl::text(part.count)});
  array.global[0]  = part.whole;
  array.begin[0]   = part.begin;
  array.replicated = false;
  array.copies     = part.copies;
  array.writes     = part.is_first;
  return array;
}

void Checkpoint::put(impl::CheckpointArray array, std::shared_ptr<impl::CheckpointMemory> memory) {
  for (const impl::CheckpointArray& other : arrays_)
    if (other.name == array.name)
      impl::throw_argument("Checkpoint::add",
                           {"there is a ", impl::json_text(array.name), " already"});
  arrays_.push_back(std::move(array));
  memories_.push_back(std::move(memory));
}

std::string Checkpoint::described() const {
  std::string words;
  for (const impl::CheckpointArray& array : arrays_)
    words += array.name + " " + array.type + impl::shape_of(impl::extents_of(array)) +
             (array.replicated ? " " : " cut ");
  return words;
}

void Checkpoint::save(const std::string& path) const {
  const impl::Watched watched(
      {.what = "other ranks to save a checkpoint", .of = &path, .times = false});
  impl::require_agreement(comm_, "Checkpoint::save", described());
  Kokkos::fence("shard::Checkpoint: kernels that write the state are complete");
  for (const auto& memory : memories_)
    if (memory) memory->to_host();
  Kokkos::fence("shard::Checkpoint: everything is written");

  SafetensorsHeader header;
  header.metadata = {{"checksum", impl::no_checksum}, {"format", impl::format}};
  for (const impl::CheckpointArray& array : arrays_)
    header.arrays.push_back({array.name, array.type, impl::extents_of(array), 0, 0});
  impl::place_arrays(header);
  std::string front = impl::header_bytes(header);
  header.data       = static_cast<index_t>(front.size());

  const auto file   = impl::create_on_all("Checkpoint::save", path, comm_);
  std::uint64_t sum = 0;
  impl::on_every_rank(comm_, [&] {
    impl::Turns turns(comm_);
    std::vector<char> bytes(static_cast<std::size_t>(impl::piece_bytes));
    for (std::size_t k = 0; k < arrays_.size(); ++k) {
      const impl::CheckpointArray& array = arrays_[k];
      if (!array.writes) continue;
      const index_t size = impl::bytes_of_type(array.type), begin = header.arrays[k].begin;
      impl::for_each_piece(turns, array, [&](index_t first, index_t n) {
        impl::copy_stream(array, size, first, n, bytes.data(), true);
        impl::for_each_run(array, first, n, [&](index_t place, index_t v, index_t run) {
          const char* const values = bytes.data() + (v - first) * size;
          sum += impl::checksum_of(values, run, size, begin + place * size);
          file->write(header.data + begin + place * size, values,
                      static_cast<std::size_t>(run * size));
        });
      });
    }
    file->sync();
  });
  sum = impl::sum_on_first_rank(comm_, sum);
  impl::on_first_rank(comm_, [&] {
    sum += impl::hash_bytes(front.data(), front.size(), impl::hash_seed);
    front.replace(impl::checksum_place(front), 16, impl::hexadecimal(sum));
    file->write(0, front.data(), front.size());
    file->put_in_place();
  });
}

void Checkpoint::load(const std::string& path) const {
  const impl::Watched watched(
      {.what = "other ranks to load a checkpoint", .of = &path, .times = false});
  impl::require_agreement(comm_, "Checkpoint::load", described());
  Kokkos::fence("shard::Checkpoint: kernels on the state are done");
  const auto file = impl::open_on_all(path, comm_);
  impl::Front front;
  std::string wrong;
  impl::on_every_rank(comm_, [&] {
    front = impl::read_front(*file);
    wrong = impl::misfit(front.header, arrays_);
  });
  if (!wrong.empty())
    impl::on_first_rank(comm_, [&] {
      impl::check_sum(*file, front, impl::sum_of(*file, front));  // report damage first
      impl::throw_argument("Checkpoint::load", {"file \"", path, "\": ", wrong.substr(2)});
    });

  // into separate memory: the state is changed only after everything has been verified
  std::vector<std::unique_ptr<char[]>> read(arrays_.size());
  std::uint64_t sum = 0, difference = 0;
  impl::on_every_rank(comm_, [&] {
    impl::Turns turns(comm_);
    for (std::size_t k = 0; k < arrays_.size(); ++k) {
      const impl::CheckpointArray& array = arrays_[k];
      const index_t size                 = impl::bytes_of_type(array.type),
                    begin                = front.header.find(array.name)->begin;
      try {
        read[k] = std::make_unique_for_overwrite<char[]>(
            static_cast<std::size_t>(impl::count_of(array) * size));
      } catch (const std::bad_alloc&) {
        impl::throw_argument("Checkpoint::load",
                             {"there is no memory for a second copy of the state, which load "
                              "reads into"});
      }
      char* const to           = read[k].get();
      const std::uint64_t mine = impl::sum_over_pieces(turns, array, [&](impl::HashedPart piece) {
        std::uint64_t hash = 0;
        impl::for_each_run(array, piece.first, piece.count,
                           [&](index_t place, index_t v, index_t run) {
                             char* const values = to + v * size;
                             file->read(front.header.data + begin + place * size, values,
                                        static_cast<std::size_t>(run * size));
                             hash += impl::checksum_of(values, run, size, begin + place * size);
                           });
        return hash;
      });
      if (array.writes) sum += mine;
      // Ranks with the same box must have read the same values: the sum over all of them equals
      // the number of copies times one rank's sum.
      if (!array.replicated)
        difference += mine - (array.writes ? static_cast<std::uint64_t>(array.copies) * mine : 0);
    }
  });
  sum        = impl::sum_on_first_rank(comm_, sum);
  difference = impl::sum_on_first_rank(comm_, difference);
  impl::on_first_rank(comm_, [&] {
    impl::check_sum(*file, front, front.hash + sum);
    if (difference != 0) impl::throw_io(path, "ranks read different values of one part of it");
  });
  impl::Turns turns(comm_);
  for (std::size_t k = 0; k < arrays_.size(); ++k)
    if (arrays_[k].replicated)
      turns.broadcast(comm_, read[k].get(), impl::count_of(arrays_[k]),
                      impl::bytes_of_type(arrays_[k].type));
  // the mirror also has data that isn't loaded, such as halos
  for (const auto& memory : memories_)
    if (memory) memory->to_host();
  for (std::size_t k = 0; k < arrays_.size(); ++k)
    impl::copy_stream(arrays_[k], impl::bytes_of_type(arrays_[k].type), 0,
                      impl::count_of(arrays_[k]), read[k].get(), false);
  for (const auto& memory : memories_)
    if (memory) memory->from_host();
}

}  // namespace shard
