// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_CHECKPOINT_HPP
#define SHARD_IO_CHECKPOINT_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/exchange/stale.hpp"
#include "shard/io/safetensors.hpp"
#include "shard/model/parameter_arena.hpp"
#include "shard/model/parameter_part.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// An array of a checkpoint, row-major in the file, and this rank's box of it.
struct CheckpointArray {
  std::string name, type;
  int rank = 0;
  std::array<index_t, max_rank> global{}, begin{}, extent{}, stride{};  ///< stride in values
  bool replicated = true;         ///< every rank has all of it, contiguous
  bool writes     = true;         ///< false: another rank has the same box
  int copies      = 1;            ///< ranks with the same box
  std::byte* data = nullptr;      ///< the first value, on the host
  int listed      = -1;           ///< the dimension of an index space
  std::vector<index_t> places{};  ///< in the file, of its elements
};

/// Copies an array's values to the host and back.
class CheckpointMemory {
 public:
  CheckpointMemory()                                   = default;
  CheckpointMemory(const CheckpointMemory&)            = delete;
  CheckpointMemory& operator=(const CheckpointMemory&) = delete;
  virtual ~CheckpointMemory()                          = default;
  virtual void to_host()                               = 0;
  virtual void from_host()                             = 0;
};

/// A View, or a ShardedView, and its mirror. Both have deep_copy.
template <class Array, class Mirror>
class MirroredMemory : public CheckpointMemory {
 public:
  MirroredMemory(Array array, Mirror mirror)
      : array_(std::move(array)), mirror_(std::move(mirror)) {}
  void to_host() override { copy(mirror_, array_); }
  void from_host() override {
    copy(array_, mirror_);
    if constexpr (is_sharded_view_v<Array>) {
      const typename Array::memory_space::execution_space space;
      mark_written(space, array_);
      space.fence("shard::Checkpoint: halos are marked");
    }
  }

 private:
  template <class To, class From>
  static void copy(const To& to, const From& from) {
    if constexpr (!std::is_same_v<Array, Mirror>) {
      const Kokkos::DefaultExecutionSpace space;
      deep_copy(space, to, from);
      space.fence("shard::Checkpoint: values are on the other side");
    }
  }
  Array array_;
  Mirror mirror_;
};

/// Accepts anything that for_each_state visits.
struct AnyState {
  template <class Part>
  void operator()(const char*, Part&) const {}
};

/// A safetensors file's name for an arithmetic type.
template <class T>
std::string type_in_file() {
  const std::string bits = std::to_string(8 * sizeof(T));
  if (std::is_same_v<T, bool>) return "BOOL";
  return (std::is_floating_point_v<T> ? "F" : std::is_signed_v<T> ? "I" : "U") + bits;
}

/// Gives checkpoints and files fields whose types are values (src/c).
struct FileAccess;

/// The box of a field that this rank owns.
CheckpointArray field_array(const std::string& name, std::string type, const Geometry& geometry);

}  // namespace impl

/// A named list of the state of a run: parameters, optimisers, numbers, fields. `save` writes it as
/// global arrays into one safetensors file, and `load` restores it bitwise on any number of ranks
/// and any mesh. All ranks must add the same state in the same order. Arrays are kept alive;
/// numbers must stay at their address.
class Checkpoint {
 public:
  /// For the ranks of `comm`, those of the fields (`mesh.communicator()`). Throws ArgumentError for
  /// MPI_COMM_NULL and intercommunicators.
  explicit Checkpoint(MPI_Comm comm) : comm_(impl::require_communicator(comm, "Checkpoint")) {}

  /// All entries of an arena, as "<name>.<entry>", the same on every rank. `load_safetensors` with
  /// the prefix "<name>." reads the parameters from the file.
  template <class T, class Memory>
  void add(const std::string& name, const ParameterArena<T, Memory>& arena) {
    const auto host   = Kokkos::create_mirror_view(arena.values());
    const auto memory = std::make_shared<
        impl::MirroredMemory<std::decay_t<decltype(arena.values())>, std::decay_t<decltype(host)>>>(
        arena.values(), host);
    for (const ParameterEntry& entry : arena.entries())
      put(whole(name + "." + entry.name, impl::type_in_file<T>(), entry.extents,
                host.data() + entry.offset),
          memory);
  }
  /// A plain View with one dimension, the same on every rank.
  template <class T, class... Properties>
  void add(const std::string& name, const Kokkos::View<T*, Properties...>& view) {
    const auto count = static_cast<index_t>(view.extent(0));
    add_view(view, [&](T* data) { return whole(name, impl::type_in_file<T>(), {count}, data); });
  }
  /// A field's owned points, by global index. The halo isn't saved; after load it is stale (see
  /// mark_written). The file has the elements of an index space in the order of their global ids:
  /// then the call is collective, and throws ArgumentError for a space described by owners.
  template <AnyShardedView Field>
  requires(std::is_arithmetic_v<typename Field::value_type> &&
           !std::is_const_v<typename Field::value_type>) void add(const std::string& name,
                                                                  const Field& field) {
    const auto host = create_mirror_view(field);
    auto array =
        impl::field_array(name, impl::type_in_file<typename Field::value_type>(), field.geometry());
    for (int d = 0; d < Field::rank; ++d) array.stride[impl::Geometry::at(d)] = host.stride(d);
    array.data = reinterpret_cast<std::byte*>(host.origin());
    put(std::move(array),
        std::make_shared<impl::MirroredMemory<Field, std::decay_t<decltype(host)>>>(field, host));
  }
  /// The fields of a set, as "<name>.0", "<name>.1", ...
  template <FieldSet Fields>
  void add(const std::string& name, const Fields& fields) {
    std::size_t f = 0;
    impl::each_field([&](const auto& field) { add(name + "." + std::to_string(f++), field); },
                     fields);
  }
  /// A number: a step, a seed, a counter. The same on every rank.
  template <class T>
  requires(std::is_arithmetic_v<T>) void add(const std::string& name, T& number) {
    put(whole(name, impl::type_in_file<T>(), {}, &number), nullptr);
  }
  /// Anything with for_each_state (an optimiser, a LossScale), as "<name>.<visited name>".
  template <class Stateful>
  requires requires(Stateful& s) { s.for_each_state(impl::AnyState{}); }
  void add(const std::string& name, Stateful& stateful) {
    stateful.for_each_state([&](const char* what, auto& part) { add(name + "." + what, part); });
  }

  /// The same for an optimiser of a part of the values (see GradientSum::step). The file has the
  /// state of all parts, as that of an optimiser of all values. So it can be restored with other
  /// parts, or without.
  template <class Stateful>
  requires requires(Stateful& s) { s.for_each_state(impl::AnyState{}); }
  void add(const std::string& name, const ParameterPart& part, Stateful& stateful) {
    stateful.for_each_state([&](const char* what, auto& state) {
      const std::string full = name + "." + what;
      if constexpr (Kokkos::is_view<std::decay_t<decltype(state)>>::value)
        add_view(state, [&](auto* data) {
          return part_of_array(whole(full, impl::type_in_file<std::decay_t<decltype(*data)>>(),
                                     {static_cast<index_t>(state.extent(0))}, data),
                               part);
        });
      else
        add(full, state);
    });
  }

  /// Writes everything into a temporary file beside `path` and renames it when it is on the disk,
  /// so `path` is always the old file or a complete one. Each rank writes its part of the file, so
  /// all ranks must see the folder. Collective; fences Kokkos. Throws on every rank: IoError if the
  /// file can't be written, `path` is no regular file, or another program has put a file there
  /// meanwhile (which is kept); AgreementError if the ranks added other state or gave other paths.
  /// A killed job leaves a file `<path>.<process>.<n>.part`.
  void save(const std::string& path) const;

  /// Reads everything, each rank its part, first into separate memory: a rank needs memory for its
  /// part of the state twice. Collective; fences Kokkos. Throws on every rank, before anything is
  /// changed: IoError if the file can't be read, is truncated, has an unknown format version, or a
  /// wrong checksum; ArgumentError, with names, types and both shapes, if its arrays aren't those
  /// of this state.
  void load(const std::string& path) const;

 private:
  friend struct impl::FileAccess;
  template <class T>
  static impl::CheckpointArray whole(const std::string& name, std::string type,
                                     const std::vector<index_t>& extents, T* data) {
    return whole(name, std::move(type), extents, reinterpret_cast<std::byte*>(data));
  }
  static impl::CheckpointArray whole(const std::string& name, std::string type,
                                     const std::vector<index_t>& extents, std::byte* data);
  /// Throws ArgumentError unless the array has the part's number of values.
  static impl::CheckpointArray part_of_array(impl::CheckpointArray array,
                                             const ParameterPart& part);
  /// Adds a View; `array_of` makes its array from the host's memory.
  template <class View, class ArrayOf>
  void add_view(const View& view, const ArrayOf& array_of) {
    const auto host = Kokkos::create_mirror_view(view);
    put(array_of(host.data()),
        std::make_shared<impl::MirroredMemory<View, std::decay_t<decltype(host)>>>(view, host));
  }
  void put(impl::CheckpointArray array, std::shared_ptr<impl::CheckpointMemory> memory);
  std::string described() const;

  MPI_Comm comm_;
  std::vector<impl::CheckpointArray> arrays_;
  std::vector<std::shared_ptr<impl::CheckpointMemory>> memories_;
};

}  // namespace shard

#endif
