// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/checkpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>

#include "new_file.hpp"
#include "safetensors_file.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard {
namespace impl {
namespace {

constexpr index_t piece_bytes = index_t{1} << 20;  // of a message, and of a read
constexpr char no_checksum[]  = "0000000000000000";
constexpr char format[]       = "shard checkpoint 1";

std::size_t at(int d) { return static_cast<std::size_t>(d); }

/// A sum over values of a hash of value and place, which doesn't depend on the order of writing.
std::uint64_t checksum_of(const char* bytes, index_t count, index_t size, index_t place) {
  std::uint64_t sum = 0;
  for (index_t i = 0; i < count; ++i) {
    std::uint64_t z = 0;
    std::memcpy(&z, bytes + i * size, static_cast<std::size_t>(size));
    z += 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(place + i * size + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;  // SplitMix64's
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    sum += z ^ (z >> 31);
  }
  return sum;
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

/// A rank's box of an array as a row-major stream of values.
struct Box {
  int rank = 0;
  std::array<index_t, max_rank> global{}, begin{}, extent{};
  bool writes = true;  // false: another rank has the same box

  index_t count() const {
    index_t n = 1;
    for (int d = 0; d < rank; ++d) n *= extent[at(d)];
    return n;
  }
  /// Calls visit(place in the global array, first, n) for the parts of the stream's values [first,
  /// first + count) that are contiguous in the global array.
  template <class Visit>
  void for_each_run(index_t first, index_t count, const Visit& visit) const {
    index_t run = 1;
    int d       = rank - 1;
    for (; d >= 0; --d) {
      run *= extent[at(d)];
      if (extent[at(d)] != global[at(d)]) break;
    }
    for (index_t k = first; k < first + count;) {
      const index_t n = std::min(run - k % run, first + count - k);
      index_t rest = k, place = 0, step = 1;
      for (int e = rank - 1; e >= 0; --e) {
        place += (begin[at(e)] + rest % extent[at(e)]) * step;
        rest /= extent[at(e)];
        step *= global[at(e)];
      }
      visit(place, k, n);
      k += n;
    }
  }
};

Box box_of(const CheckpointArray& array) {
  return {array.rank, array.global, array.begin, array.extent, array.writes};
}

/// Copies the stream's values [first, first + count) of this rank's box to or from `bytes`.
void copy_stream(const CheckpointArray& array, index_t size, index_t first, index_t count,
                 char* bytes, bool out) {
  if (array.rank == 0 || count == 0) {
    if (count > 0)
      std::memcpy(out ? bytes : reinterpret_cast<char*>(array.data),
                  out ? reinterpret_cast<char*>(array.data) : bytes,
                  static_cast<std::size_t>(size));
    return;
  }
  const index_t line = array.extent[at(array.rank - 1)];
  for (index_t k = first; k < first + count;) {
    const index_t n = std::min(line - k % line, first + count - k);
    index_t rest = k, offset = 0;
    for (int d = array.rank - 1; d >= 0; --d) {
      offset += rest % array.extent[at(d)] * array.stride[at(d)];
      rest /= array.extent[at(d)];
    }
    const index_t step = array.stride[at(array.rank - 1)];
    char* const here   = reinterpret_cast<char*>(array.data) + offset * size;
    char* const there  = bytes + (k - first) * size;
    if (step == 1) {
      std::memcpy(out ? there : here, out ? here : there, static_cast<std::size_t>(n * size));
    } else {
      for (index_t i = 0; i < n; ++i)
        std::memcpy(out ? there + i * size : here + i * step * size,
                    out ? here + i * step * size : there + i * size,
                    static_cast<std::size_t>(size));
    }
    k += n;
  }
}

/// A duplicated communicator for the messages of one call.
class OwnComm {
 public:
  explicit OwnComm(MPI_Comm comm) {
    await_mpi("MPI_Comm_dup", MPI_Comm_dup, comm, &comm_);
    check_mpi(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  }
  ~OwnComm() { MPI_Comm_free(&comm_); }
  OwnComm(const OwnComm&)            = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  MPI_Comm get() const { return comm_; }
  int rank = 0, size = 1;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// All ranks' boxes of an array, on the first rank.
std::vector<Box> gather_boxes(const OwnComm& comm, const CheckpointArray& array) {
  std::array<index_t, 2 * max_rank + 1> mine{};
  for (int d = 0; d < array.rank; ++d) {
    mine[at(d)]            = array.begin[at(d)];
    mine[at(max_rank + d)] = array.extent[at(d)];
  }
  mine.back() = array.writes ? 1 : 0;
  std::vector<index_t> all(comm.rank == 0 ? mine.size() * at(comm.size) : 0);
  await_mpi("MPI_Gather", MPI_Gather, mine.data(), static_cast<int>(mine.size()), MPI_INT64_T,
            all.data(), static_cast<int>(mine.size()), MPI_INT64_T, 0, comm.get());
  std::vector<Box> boxes;
  for (auto one = all.cbegin(); one != all.cend();
       one += static_cast<std::ptrdiff_t>(mine.size())) {
    Box box{array.rank, array.global, {}, {}, one[2 * max_rank] != 0};
    std::copy_n(one, max_rank, box.begin.begin());
    std::copy_n(one + max_rank, max_rank, box.extent.begin());
    boxes.push_back(box);
  }
  return boxes;
}

/// The first rank's file. Stores a failure, so that communication continues, and throws it at the
/// end.
class Guarded {
 public:
  template <class Body>
  void run(const Body& body) {
    if (!message_.empty()) return;
    try {
      body();
    } catch (const std::exception& e) {
      message_ = e.what();
    }
  }
  /// Collective: throws the first rank's failure as an IoError on all ranks.
  void finish(MPI_Comm comm) const { throw_everywhere(comm, message_.empty() ? 0 : 2, message_); }

 private:
  std::string message_;
};

/// Sends an array's boxes in blocks to the first rank, which calls put(place in the global array,
/// values, bytes) for contiguous parts.
template <class Put>
void collect(const OwnComm& comm, const CheckpointArray& array, index_t size, const Put& put) {
  std::vector<char> bytes(static_cast<std::size_t>(piece_bytes));
  const index_t most = piece_bytes / size;
  const auto take    = [&](const Box& box, index_t first, index_t n) {
    box.for_each_run(first, n, [&](index_t place, index_t k, index_t run) {
      put(place, run, bytes.data() + (k - first) * size);
    });
  };
  if (array.replicated) {
    if (comm.rank != 0) return;
    const Box box = box_of(array);
    for (index_t k = 0, count = box.count(); k < count; k += most) {
      const index_t n = std::min(most, count - k);
      copy_stream(array, size, k, n, bytes.data(), true);
      take(box, k, n);
    }
    return;
  }
  const std::vector<Box> boxes = gather_boxes(comm, array);
  if (comm.rank != 0) {
    const index_t count = array.writes ? box_of(array).count() : 0;
    for (index_t k = 0; k < count; k += most) {
      const index_t n = std::min(most, count - k);
      copy_stream(array, size, k, n, bytes.data(), true);
      await_mpi("MPI_Send", MPI_Send, bytes.data(), static_cast<int>(n * size), MPI_BYTE, 0, 0,
                comm.get());
    }
    return;
  }
  for (int r = 0; r < comm.size; ++r) {
    const Box& box = boxes[at(r)];
    for (index_t k = 0, count = box.writes ? box.count() : 0; k < count; k += most) {
      const index_t n = std::min(most, count - k);
      if (r == 0)
        copy_stream(array, size, k, n, bytes.data(), true);
      else
        await_mpi("MPI_Recv", MPI_Recv, bytes.data(), static_cast<int>(n * size), MPI_BYTE, r, 0,
                  comm.get(), MPI_STATUS_IGNORE);
      take(box, k, n);
    }
  }
}

/// The inverse, into `mine`, this rank's box as a stream: get(place in the global array, values,
/// bytes, first) on the first rank; `first` is true once for each value of the array.
template <class Get>
void spread(const OwnComm& comm, const CheckpointArray& array, index_t size, char* mine,
            const Get& get) {
  const index_t most = piece_bytes / size;
  const auto fill    = [&](const Box& box, index_t first, index_t n, char* bytes) {
    box.for_each_run(first, n, [&](index_t place, index_t k, index_t run) {
      get(place, run, bytes + (k - first) * size, box.writes);
    });
  };
  const index_t count = box_of(array).count();
  if (array.replicated) {
    if (comm.rank == 0) fill(box_of(array), 0, count, mine);
    broadcast_bytes(comm.get(), mine, static_cast<std::size_t>(count * size));
    return;
  }
  const std::vector<Box> boxes = gather_boxes(comm, array);
  if (comm.rank == 0) {
    fill(boxes[0], 0, count, mine);
    std::vector<char> bytes(static_cast<std::size_t>(piece_bytes));
    for (int r = 1; r < comm.size; ++r)
      for (index_t k = 0, theirs = boxes[at(r)].count(); k < theirs; k += most) {
        const index_t n = std::min(most, theirs - k);
        fill(boxes[at(r)], k, n, bytes.data());
        await_mpi("MPI_Send", MPI_Send, bytes.data(), static_cast<int>(n * size), MPI_BYTE, r, 0,
                  comm.get());
      }
    return;
  }
  for (index_t k = 0; k < count; k += most)
    await_mpi("MPI_Recv", MPI_Recv, mine + k * size,
              static_cast<int>(std::min(most, count - k) * size), MPI_BYTE, 0, 0, comm.get(),
              MPI_STATUS_IGNORE);
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
    if (dim.partition.index_halo() != nullptr)
      throw_argument("Checkpoint", {"dimension ", text(d), " of \"", geometry.label,
                                    "\" is of an index space, whose order depends on the ranks; "
                                    "save its values in an order of your own"});
    array.global[at(d)] = geometry.global(d);
    array.begin[at(d)]  = geometry.begin(d);
    array.extent[at(d)] = geometry.owned(d);
    for (int a = 0; a < dim.axis_count; ++a) cuts |= 1U << dim.axes[at(a)];
  }
  for (int a = 0; a < geometry.mesh->axes(); ++a)
    if ((cuts >> a & 1U) == 0 && geometry.mesh->coordinate(a) != 0) array.writes = false;
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
  const impl::OwnComm comm(comm_);
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

  std::unique_ptr<impl::NewFile> file;
  std::uint64_t sum = impl::hash_bytes(front.data(), front.size(), impl::hash_seed);
  impl::on_first_rank(comm.get(),
                      [&] { file = std::make_unique<impl::NewFile>(path, impl::throw_io); });
  impl::Guarded guarded;
  for (std::size_t k = 0; k < arrays_.size(); ++k) {
    const index_t size = impl::bytes_of_type(arrays_[k].type);
    impl::collect(comm, arrays_[k], size, [&](index_t place, index_t n, const char* bytes) {
      const index_t first = header.arrays[k].begin + place * size;
      sum += impl::checksum_of(bytes, n, size, first);
      guarded.run(
          [&] { file->write(header.data + first, bytes, static_cast<std::size_t>(n * size)); });
    });
  }
  if (comm.rank == 0)
    guarded.run([&] {
      front.replace(impl::checksum_place(front), 16, impl::hexadecimal(sum));
      file->write(0, front.data(), front.size());
      file->put_in_place();
    });
  guarded.finish(comm.get());
}

void Checkpoint::load(const std::string& path) const {
  const impl::Watched watched(
      {.what = "other ranks to load a checkpoint", .of = &path, .times = false});
  impl::require_agreement(comm_, "Checkpoint::load", described());
  const impl::OwnComm comm(comm_);
  Kokkos::fence("shard::Checkpoint: kernels on the state are done");
  std::unique_ptr<impl::File> file;
  impl::Front front;
  impl::on_first_rank(comm.get(), [&] {
    file  = std::make_unique<impl::File>(path);
    front = impl::read_front(*file);
    if (const std::string wrong = impl::misfit(front.header, arrays_); !wrong.empty()) {
      impl::check_sum(*file, front, impl::sum_of(*file, front));  // report damage first
      impl::throw_argument("Checkpoint::load", {"file \"", path, "\": ", wrong.substr(2)});
    }
  });
  // into separate memory: the state is changed only after everything has been verified
  std::vector<std::vector<char>> read(arrays_.size());
  std::string no_room;
  try {
    for (std::size_t k = 0; k < arrays_.size(); ++k)
      read[k].resize(static_cast<std::size_t>(impl::box_of(arrays_[k]).count() *
                                              impl::bytes_of_type(arrays_[k].type)));
  } catch (const std::exception&) {
    no_room = "there is no memory for a second copy of the state, which load reads into";
  }
  impl::require_no_error(comm.get(), "Checkpoint::load", no_room);
  impl::Guarded guarded;
  std::uint64_t sum = front.hash;
  for (std::size_t k = 0; k < arrays_.size(); ++k) {
    const index_t size = impl::bytes_of_type(arrays_[k].type);
    impl::spread(comm, arrays_[k], size, read[k].data(),
                 [&](index_t place, index_t n, char* bytes, bool first) {
                   guarded.run([&] {
                     const index_t begin = front.header.find(arrays_[k].name)->begin + place * size;
                     file->read(front.header.data + begin, bytes,
                                static_cast<std::size_t>(n * size));
                     if (first) sum += impl::checksum_of(bytes, n, size, begin);
                   });
                 });
  }
  if (comm.rank == 0) guarded.run([&] { impl::check_sum(*file, front, sum); });
  guarded.finish(comm.get());
  // the mirror also has data that isn't loaded, such as halos
  for (const auto& memory : memories_)
    if (memory) memory->to_host();
  for (std::size_t k = 0; k < arrays_.size(); ++k)
    impl::copy_stream(arrays_[k], impl::bytes_of_type(arrays_[k].type), 0,
                      impl::box_of(arrays_[k]).count(), read[k].data(), false);
  for (const auto& memory : memories_)
    if (memory) memory->from_host();
}

}  // namespace shard
