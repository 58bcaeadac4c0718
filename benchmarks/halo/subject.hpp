// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HALO_SUBJECT_HPP
#define SHARD_BENCHMARKS_HALO_SUBJECT_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "case.hpp"
#include "shard/comm/shared_field.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/layers/parameters.hpp"

namespace halo {

struct First;  // mesh axes
struct Second;

using Right = Kokkos::LayoutRight;
using Left  = Kokkos::LayoutLeft;

/// Widths, numbers of fields, or dimensions, of several cases.
template <int... N>
using Numbers = std::integer_sequence<int, N...>;
inline constexpr Numbers<1> just_1;
inline constexpr Numbers<1, 2> up_to_2;
inline constexpr Numbers<1, 2, 3, 5> up_to_5;

/// Which dimensions of a field are cut: one over a mesh of one axis, or two.
template <int... Dims>
struct Cut {};
/// A dimension on a mesh axis of one rank, beside one that the field isn't cut along: every rank
/// has the whole field and fills its halos from its own cells.
template <int Dim>
struct Self {};

template <class T, class Layout, int Rank, class Cut, int Width>
struct Types;
template <class T, class Layout, int Rank, int D, int Width>
struct Types<T, Layout, Rank, Cut<D>, Width> {
  using Mesh  = shard::Mesh<First>;
  using Field = shard::ShardedView<typename shard::impl::Pointers<T, Rank>::type, Layout,
                                   shard::ShardDim<D, First, shard::Halo<Width>, shard::Periodic>,
                                   Kokkos::HostSpace>;
};
template <class T, class Layout, int Rank, int D, int E, int Width>
struct Types<T, Layout, Rank, Cut<D, E>, Width> {
  using Mesh  = shard::Mesh<First, Second>;
  using Field = shard::ShardedView<typename shard::impl::Pointers<T, Rank>::type, Layout,
                                   shard::ShardDim<D, First, shard::Halo<Width>, shard::Periodic>,
                                   shard::ShardDim<E, Second, shard::Halo<Width>, shard::Periodic>,
                                   Kokkos::HostSpace>;
};

template <class T, class Layout, int Rank, int D, int Width>
struct Types<T, Layout, Rank, Self<D>, Width> {
  using Mesh  = shard::Mesh<First, Second>;
  using Field = shard::ShardedView<typename shard::impl::Pointers<T, Rank>::type, Layout,
                                   shard::ShardDim<D, Second, shard::Halo<Width>, shard::Periodic>,
                                   Kokkos::HostSpace>;
};

/// Shard's ways of exchanging some fields, as plans choose them by measuring: over MPI alone, and
/// with shared memory. One line per transport. `tuning`, where it isn't empty, says how instead.
/// `faces`: also without corners, by a plan of the same tuning.
template <class... Fields>
void add_ways(std::vector<Way>& ways, const std::string& tuning, bool faces,
              const Fields&... fields) {
  const Kokkos::DefaultHostExecutionSpace space;
  const auto add = [&](const std::string& name, const auto& make) {
    const auto all          = make(fields...);
    const std::string found = shard::to_text(all.tuning());
    ways.push_back(
        {name, Direction::forward, [=] { all(space); }, {}, {}, true, all.sends(), found});
    ways.push_back({name + "_adjoint",
                    Direction::adjoint,
                    [=] { all.adjoint(space); },
                    {},
                    {},
                    true,
                    0,
                    found});
    if (faces) {
      const auto most = all.faces();
      ways.push_back({name + "_faces",
                      Direction::forward,
                      [=] { most(space); },
                      {},
                      {},
                      false,
                      most.sends(),
                      shard::to_text(most.tuning())});
    }
    if constexpr (sizeof...(Fields) > 1) {
      using One = std::decay_t<decltype(make(std::get<0>(std::tie(fields...))))>;
      const std::vector<One> each{make(fields)...};
      ways.push_back({name + "_single",
                      Direction::forward,
                      [=] {
                        for (const One& one : each) one(space);
                      },
                      {},
                      {}});
    }
  };
  const auto over = [&](shard::TransportKind kind) {
    const shard::Tuning asked = tuning.empty() ? shard::Tuning{.transport = kind, .measured = true}
                                               : shard::tuning_from_text(tuning);
    return [asked](const auto&... f) { return shard::Exchange(asked, f...); };
  };
  add("shard_mpi", over(shard::TransportKind::mpi));
  add("shard_shared", over(shard::TransportKind::automatic));
}

template <class Types, int Count>
class TypedSubject : public Subject {
  using Mesh  = typename Types::Mesh;
  using Field = typename Types::Field;
  using Value = typename Field::value_type;

 public:
  TypedSubject(MPI_Comm comm, const std::array<int, Mesh::axes>& shape,
               const std::array<index_t, Field::rank>& extents, const std::string& tuning)
      : mesh_(comm, shape_of(shape)) {
    shard::Extents<Field::rank> all{};
    for (std::size_t d = 0; d < all.n.size(); ++d) all.n[d] = extents[d];
    for (Field& f : fields_) f = shard::shared_field<Field>("field", mesh_, all);
    const Field& first   = fields_[0];
    problem_.comm        = first.communicator();
    problem_.value_bytes = sizeof(Value);
    for (const Field& f : fields_)
      problem_.origins.push_back(reinterpret_cast<std::byte*>(f.origin()));
    const int lead = peers::dims - Field::rank;
    for (int d = 0; d < peers::dims; ++d) {
      const auto i       = static_cast<std::size_t>(d);
      const bool real    = d >= lead;
      problem_.extent[i] = real ? first.extent(d - lead) : 1;
      problem_.begin[i]  = real ? first.begin(d - lead) : 0;
      problem_.global[i] = real ? first.global_extent(d - lead) : 1;
      problem_.width[i]  = real ? Field::halo_lo(d - lead) : 0;
      // a dimension that isn't there is the slowest
      problem_.stride[i] =
          real ? first.stride(d - lead) : static_cast<index_t>(first.view().span() * (lead - d));
    }
    set_neighbours(lead, std::make_integer_sequence<int, Field::rank>{});
    std::apply([&](const auto&... f) { add_ways(ways_, tuning, has_corner_ranks(), f...); },
               fields_);
  }
  /// Collective: gives the fields' windows back, which would fill /dev/shm case by case.
  ~TypedSubject() override {
    ways_.clear();
    fields_ = {};
    mesh_.release();
  }

 private:
  /// Whether there are ranks from which corners come and nothing else.
  bool has_corner_ranks() const {
    int rank = 0;
    MPI_Comm_rank(problem_.comm, &rank);
    int cut = 0;
    for (std::size_t d = 0; d < peers::dims; ++d)
      if (problem_.width[d] > 0 && problem_.neighbours[d].low != rank) ++cut;
    return cut > 1;
  }

  template <std::size_t N>
  static shard::Extents<static_cast<int>(N)> shape_of(const std::array<int, N>& shape) {
    shard::Extents<static_cast<int>(N)> s{};
    for (std::size_t a = 0; a < N; ++a) s.n[a] = shape[a];
    return s;
  }

  template <int... D>
  void set_neighbours(int lead, std::integer_sequence<int, D...>) {
    const auto set = [&]<int Dim>(std::integral_constant<int, Dim>) {
      using Axis = typename Field::template axis<Dim>;
      if constexpr (!std::is_same_v<Axis, shard::Unsharded>)
        problem_.neighbours[static_cast<std::size_t>(lead + Dim)] = {
            mesh_.template periodic_neighbour<Axis>(-1),
            mesh_.template periodic_neighbour<Axis>(1)};
    };
    (set(std::integral_constant<int, D>{}), ...);
  }

  Mesh mesh_;
  std::array<Field, Count> fields_;
};

template <class Layout>
inline constexpr const char* layout_name = "right";
template <>
inline constexpr const char* layout_name<Kokkos::LayoutLeft> = "left";

/// Extents/layout/type/width/fields.
template <class T, class Layout, int Rank, int Width, int Count>
std::string name_of(const std::array<index_t, Rank>& extents) {
  std::string name;
  for (const index_t n : extents) name += (name.empty() ? "" : "x") + std::to_string(n);
  return name + "/" + layout_name<Layout> + (sizeof(T) == 4 ? "/float" : "/double") + "/w" +
         std::to_string(Width) + "/f" + std::to_string(Count);
}

template <class Types, int Count, int Rank>
void add_named(std::vector<Case>& cases, const std::string& name,
               const std::array<index_t, Rank>& extents,
               const std::array<int, Types::Mesh::axes>& mesh) {
  cases.push_back({name, [=](MPI_Comm comm, const std::string& tuning) -> std::unique_ptr<Subject> {
                     return std::make_unique<TypedSubject<Types, Count>>(comm, mesh, extents,
                                                                         tuning);
                   }});
}

/// Adds a case of `Count` fields.
template <class T, class Layout, int Rank, int Width, int Count, int... Dims>
void add(std::vector<Case>& cases, const std::array<index_t, Rank>& extents, Cut<Dims...>,
         const std::array<int, sizeof...(Dims)>& mesh) {
  std::string cut, shape;
  ((cut += std::to_string(Dims)), ...);
  for (const int n : mesh) shape += (shape.empty() ? "" : "x") + std::to_string(n);
  add_named<Types<T, Layout, Rank, Cut<Dims...>, Width>, Count, Rank>(
      cases,
      name_of<T, Layout, Rank, Width, Count>(extents) + "/cut" + cut +
          (mesh.size() > 1 ? "/mesh" + shape : ""),
      extents, mesh);
}

/// A case without a message.
template <class T, class Layout, int Rank, int Width, int Count, int D>
void add(std::vector<Case>& cases, const std::array<index_t, Rank>& extents, Self<D>, int ranks) {
  add_named<Types<T, Layout, Rank, Self<D>, Width>, Count, Rank>(
      cases, name_of<T, Layout, Rank, Width, Count>(extents) + "/self" + std::to_string(D), extents,
      {ranks, 1});
}

/// A case for each of these widths and numbers of fields, cut along each of these dimensions.
template <class T, class Layout, std::size_t Rank, int... Widths, int... Counts, int... Dims>
void add_all(std::vector<Case>& cases, int ranks, const std::array<index_t, Rank>& extents,
             Numbers<Widths...>, Numbers<Counts...>, Numbers<Dims...>) {
  const auto of_count = [&]<int Count, int Dim>(Numbers<Count, Dim>) {
    (add<T, Layout, static_cast<int>(Rank), Widths, Count>(cases, extents, Cut<Dim>{}, {ranks}),
     ...);
  };
  const auto of_dim = [&]<int Dim>(Numbers<Dim>) { (of_count(Numbers<Counts, Dim>{}), ...); };
  (of_dim(Numbers<Dims>{}), ...);
}

}  // namespace halo

#endif
