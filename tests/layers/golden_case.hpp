// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the sources that golden_cases.py writes are made of: fields with a layer's own halos, and
// one run of a layer, forward and backward. All that needs no type of a layer or field is in
// golden_test.cpp.
#ifndef SHARD_TESTS_LAYERS_GOLDEN_CASE_HPP
#define SHARD_TESTS_LAYERS_GOLDEN_CASE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/layers/impl/fixed_windows.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard::golden {

struct Lat;
struct Lon;
using Grid  = Mesh<Lat, Lon>;
using Space = Kokkos::DefaultExecutionSpace;

inline constexpr int max_dims = 6;
using Numbers                 = std::array<index_t, max_dims>;

/// One run: the mesh, x's partitions, and the values of the whole world.
struct Input {
  const Grid& mesh;
  std::vector<Partition> partitions;
  const double *x, *dy, *weight, *bias;
};

/// This rank's cells of a field.
struct Cells {
  Numbers begin{}, extent{};
  std::vector<double> values;
};
struct Output {
  Cells y, dx;
  bool fixed = false;                  ///< whether the window has a kernel of its own
  std::vector<double> dweight, dbias;  ///< of all ranks together
};

struct Case {
  const char *name, *text;
  int rank;
  Numbers x, y;         ///< global extents
  int cut[2];           ///< the dimensions that are cut over Lat and Lon
  std::size_t place;    ///< of x in the file's values; y, dy, dx, weight, ... follow
  std::size_t weights;  ///< numbers of values
  std::size_t biases;
  bool fixed;  ///< whether the window has a kernel of its own
  void (*run)(const Input&, Output&);
};

/// Makes a test of each. `digest` is that of the file of values that they belong to.
bool add_cases(std::initializer_list<Case> cases, const char* digest);

/// A field's memory, whatever its type.
struct RawField {
  double *allocation, *first;
  std::size_t span;
  int rank;
  Numbers extent, begin, stride, world;
};

/// Sets the owned cells from the world's values, or all to a number that shows; everything else to
/// that number.
void put(const RawField& field, const double* world);
void get(const RawField& field, Cells& cells);
void put(double* parameters, std::size_t count, const double* values);
void get_sum(const impl::Geometry& cut_as, const double* gradients, std::size_t count,
             std::vector<double>& values);

template <class Field>
RawField raw(const Field& f) {
  RawField r{f.view().data(), f.origin(), f.view().span(), Field::rank, {}, {}, {}, {}};
  for (int d = 0; d < Field::rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    r.extent[i]  = f.extent(d);
    r.begin[i]   = f.begin(d);
    r.stride[i]  = f.stride(d);
    r.world[i]   = f.global_extent(d);
  }
  return r;
}

template <std::size_t Rank>
std::array<Partition, Rank> partitions_of(const Input& in) {
  std::array<Partition, Rank> p;
  for (std::size_t d = 0; d < Rank; ++d) p[d] = in.partitions[d];
  return p;
}
template <std::size_t Rank>
std::array<Partition, Rank> with_last(std::array<Partition, Rank> p, index_t extent) {
  p[Rank - 1] = Partition::balanced(extent, 1);
  return p;
}

// ---- field types --------------------------------------------------------------------------------

template <int Rank>
using Data  = typename impl::Pointers<double, Rank>::type;
using Right = Kokkos::LayoutRight;

template <class Layer, int Dims, class B0, class B1>
struct InputTypes;
template <class Layer, class B0, class B1>
struct InputTypes<Layer, 1, B0, B1> {
  using type = ShardedView<Data<3>, Right, ShardDim<2, Lat, required_halo_t<Layer, 0>, B0>>;
};
template <class Layer, class B0, class B1>
struct InputTypes<Layer, 2, B0, B1> {
  using type = ShardedView<Data<4>, Right, ShardDim<2, Lat, required_halo_t<Layer, 0>, B0>,
                           ShardDim<3, Lon, required_halo_t<Layer, 1>, B1>>;
};
template <class Layer, class B0, class B1>
struct InputTypes<Layer, 3, B0, B1> {
  using type = ShardedView<Data<5>, Right, ShardDim<2, Unsharded, unsharded_halo_t<Layer, 0>, B0>,
                           ShardDim<3, Lat, required_halo_t<Layer, 1>, B0>,
                           ShardDim<4, Lon, required_halo_t<Layer, 2>, B1>>;
};
/// The input of a layer with exactly the halo that it needs. Of three dimensions in space the first
/// isn't cut.
template <class Layer, int Dims, class B0, class B1>
using InputOf = typename InputTypes<Layer, Dims, B0, B1>::type;

/// [batch, channel, space...] without halos.
template <int Dims>
using OutputOf =
    std::conditional_t<Dims == 1, ShardedView<Data<3>, Right, ShardDim<2, Lat>>,
                       ShardedView<Data<Dims + 2>, Right, ShardDim<Dims == 1 ? 1 : Dims, Lat>,
                                   ShardDim<Dims == 1 ? 2 : Dims + 1, Lon>>>;

/// [leading..., features]
template <int Rank>
using Rows =
    std::conditional_t<Rank == 2, ShardedView<Data<2>, Right, ShardDim<0, Lat>>,
                       ShardedView<Data<Rank>, Right, ShardDim<Rank == 2 ? 0 : Rank - 3, Lat>,
                                   ShardDim<Rank == 2 ? 1 : Rank - 2, Lon>>>;

/// Whether a layer asks for these halos, worked out by hand (golden_cases.py).
template <class Layer, class... Halos>
inline constexpr bool needs_halos = []<int... D>(std::integer_sequence<int, D...>) {
  return (std::is_same_v<required_halo_t<Layer, D>, Halos> && ...);
}
(std::make_integer_sequence<int, static_cast<int>(sizeof...(Halos))>{});

// ---- a run --------------------------------------------------------------------------------------

/// Forward and all gradients.
template <class X, class Y, class Layer>
void run(const Input& in, Output& out, const Layer& layer,
         const std::array<Partition, static_cast<std::size_t>(Y::rank)>& y_partitions) {
  if constexpr (requires { Layer::Shape::local(1); })
    out.fixed = impl::is_fixed_window(Layer::Shape::local(1));
  const Space space;
  const X x("x", in.mesh, partitions_of<X::rank>(in)), dx = x.like("dx");
  const Y y("y", in.mesh, y_partitions), dy               = y.like("dy");
  put(raw(x), in.x);
  put(raw(dy), in.dy);
  put(raw(y), nullptr);
  put(raw(dx), nullptr);
  if constexpr (requires { typename Layer::template Parameters<double>; }) {
    const auto parameters = make_parameters<double>(layer, "p");
    const auto gradients  = make_parameters<double>(layer, "g");
    put(parameters.weight.data(), parameters.weight.size(), in.weight);
    put(parameters.bias.data(), parameters.bias.size(), in.bias);
    if constexpr (requires { layer.state(x); }) {
      auto state = layer.state(x);
      layer.apply(space, state, parameters, y, x);
      layer.pullback(space, state, parameters, gradients, dx, dy, x);
    } else {
      layer.apply(space, parameters, y, x);
      layer.pullback(space, parameters, gradients, dx, dy, x);
    }
    get_sum(x.geometry(), gradients.weight.data(), gradients.weight.size(), out.dweight);
    get_sum(x.geometry(), gradients.bias.data(), gradients.bias.size(), out.dbias);
  } else if constexpr (requires { layer.state(x); }) {
    auto state = layer.state(x);
    layer.apply(space, state, y, x);
    layer.pullback(space, state, dx, dy, x);
  } else {
    layer.apply(space, y, x);
    if constexpr (requires { layer.pullback(space, dx, dy, x); })
      layer.pullback(space, dx, dy, x);
    else
      layer.pullback(space, dx, dy);
  }
  get(raw(y), out.y);
  get(raw(dx), out.dx);
}

}  // namespace shard::golden

#endif
