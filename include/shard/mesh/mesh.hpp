// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_MESH_HPP
#define SHARD_MESH_MESH_HPP

#include <mpi.h>

#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/axis.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/mesh_options.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard {

/// The process mesh: ranks of a communicator arranged along one to five axes, which are types
/// (`struct Lat;`), so that two axes can't be mixed up. A mesh is a handle: copies share
/// communicators and plans. Fields on it keep them alive.
///
/// Place (c0, c1, ...) is rank c0 * size1 * ... + c1 * ... + ... of the communicator unless
/// MeshOptions::order says otherwise.
template <class... Axes>
class Mesh {
  static_assert(sizeof...(Axes) >= 1 && sizeof...(Axes) <= 5, "a mesh has one to five axes");
  static_assert(impl::all_different_v<Axes...>, "a mesh's axes are different types");

 public:
  static constexpr int axes = static_cast<int>(sizeof...(Axes));  ///< number of axes

  /// An empty mesh, to be assigned later. Any other use throws ArgumentError.
  Mesh() = default;

  /// Collective over `comm`, which is duplicated. `shape` is the number of ranks along each axis;
  /// where it has a 0 the number is chosen. Throws ArgumentError on every rank if the shape doesn't
  /// match the number of ranks (with both numbers), the order isn't a permutation, or the placement
  /// lacks what it needs; AgreementError on every rank if the ranks give different arguments.
  /// Throws ArgumentError on a rank that passes MPI_COMM_NULL or an intercommunicator.
  Mesh(MPI_Comm comm, const Extents<axes>& shape, const MeshOptions& options = {})
      : Mesh(impl::MeshState::make(comm, {shape.n.begin(), shape.n.end()}, options)) {}
  /// The same with the shape in any list of ints: a std::initializer_list, std::array, std::vector
  /// or std::span. Throws ArgumentError if its length isn't the number of axes. (The compiler
  /// checks the length of a braced list, which is Extents.)
  template <impl::ListOfInts Shape>
  Mesh(MPI_Comm comm, const Shape& shape, const MeshOptions& options = {})
      : Mesh(impl::MeshState::make(comm, impl::shape_of(std::data(shape), std::size(shape), axes),
                                   options)) {}

  /// Binds a LogicalMesh to a communicator: its devices are the ranks, its axes are `Axes...` in
  /// order. Collective; errors as above, and ArgumentError for another number of axes or of
  /// devices.
  Mesh(MPI_Comm comm, const LogicalMesh& mesh) : Mesh(impl::MeshState::bind(comm, mesh, axes)) {}

  /// A mesh whose first axis counts groups of ranks; the other axes have the given shape. With
  /// `Mesh<Data, Lat>::of_domains(comm, 4)` groups of 4 ranks shard one domain each. Collective.
  /// Throws ArgumentError on every rank if the domain's ranks don't divide the communicator's, with
  /// both numbers.
  static Mesh of_domains(MPI_Comm comm, const Extents<axes - 1>& domain,
                         const MeshOptions& options = {}) requires(sizeof...(Axes) >= 2) {
    return Mesh(impl::MeshState::of_domains(comm, {domain.n.begin(), domain.n.end()}, options));
  }

  /// This mesh as a value: ranks of communicator() as devices.
  LogicalMesh logical() const { return made().logical(); }

  /// Number of ranks.
  int size() const { return made().size(); }
  /// This rank in communicator().
  int rank() const { return made().rank(); }
  /// Number of ranks along an axis.
  template <class Axis>
  int size() const {
    return made().extent(index_of<Axis>);
  }
  /// This rank's coordinate along an axis.
  template <class Axis>
  int coordinate() const {
    return made().coordinate(index_of<Axis>);
  }
  /// The rank in communicator() at distance `offset` along an axis, with the same other
  /// coordinates; none outside the mesh.
  template <class Axis>
  std::optional<int> neighbour(int offset) const {
    const int there = coordinate<Axis>() + offset;
    if (there < 0 || there >= size<Axis>()) return std::nullopt;
    std::vector<int> place                          = made().coordinates();
    place[static_cast<std::size_t>(index_of<Axis>)] = there;
    return made().rank_at(place.data());
  }
  /// The same on an axis that wraps round.
  template <class Axis>
  int periodic_neighbour(int offset) const {
    const int n                                     = size<Axis>();
    std::vector<int> place                          = made().coordinates();
    place[static_cast<std::size_t>(index_of<Axis>)] = ((coordinate<Axis>() + offset) % n + n) % n;
    return made().rank_at(place.data());
  }
  /// The rank in communicator() at the given coordinates.
  int rank_at(const std::array<int, sizeof...(Axes)>& coordinates) const {
    return made().rank_at(coordinates.data());
  }

  /// The mesh's own communicator, a duplicate of the one it was made from.
  MPI_Comm communicator() const { return made().comm(); }
  /// The ranks that differ from this one only in their coordinate along `Axis`, ordered by it. It
  /// is MPI_COMM_SELF for an axis of one rank.
  template <class Axis>
  MPI_Comm communicator() const {
    return made().axis_comm(index_of<Axis>);
  }

  /// Frees unused windows of shared memory, also those of destroyed meshes of the same ranks, and
  /// NCCL's communicator if nothing uses it. The mesh's cached plans use it, and so does the buffer
  /// of redistributions and collectives, for as long as the mesh lives. Collective. Without this
  /// call the windows of a destroyed mesh wait for the next mesh of the same ranks.
  void release() const {
    if (made().resource()) made().resource()->release();
    if (made().device_resource()) made().device_resource()->release();
  }

  /// Position of `Axis` among the mesh's axes.
  template <class Axis>
  static constexpr int index_of = impl::position_v<Axis, Axes...>;

  /// Whether both are handles of one mesh.
  friend bool operator==(const Mesh& a, const Mesh& b) { return a.state_ == b.state_; }

  /// For the library's own use: the state that copies of this mesh share.
  const std::shared_ptr<impl::MeshState>& state() const {
    made();
    return state_;
  }

 private:
  explicit Mesh(std::shared_ptr<impl::MeshState> state) : state_(std::move(state)) {
    state_->name_axes({impl::axis_id<Axes>()...});
  }

  impl::MeshState& made() const {
    if (state_ == nullptr) impl::throw_no_mesh();
    return *state_;
  }

  std::shared_ptr<impl::MeshState> state_;
};

/// A mesh and its cached objects as text: plans, buffers, communicators, windows of shared memory,
/// and their bytes on this rank. Local.
template <class... Axes>
std::string describe(const Mesh<Axes...>& mesh) {
  return mesh.state()->text();
}

}  // namespace shard

#endif
