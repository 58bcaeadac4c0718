// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_TILE_CELLS_HPP
#define SHARD_IO_TILE_CELLS_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/io/netcdf_output.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/reduce/impl/copies.hpp"
#include "shard/view/block_grid.hpp"
#include "shard/view/index_space.hpp"

/// \file
/// Fields over tiles in files that others read: cells as one dimension, with positions and bounds.
/// Link with shard::io.

namespace shard {

/// The index space of the cells of a BlockGrid `Tag`.
template <class Tag>
struct TileCell;

namespace impl {

/// to(..., cell) = from(block, ..., y, x)
template <class To, class From>
struct TileCellsKernel {
  To to;
  From from;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int at[] = {i...};
    copy(at, std::make_index_sequence<sizeof...(I) - 3>());
  }

 private:
  template <std::size_t... Between>
  KOKKOS_FUNCTION void copy(const int* at, std::index_sequence<Between...>) const {
    constexpr int y = From::rank - 2, x = From::rank - 1;
    const index_t cell           = (at[0] * from.extent(y) + at[y]) * from.extent(x) + at[x];
    to(at[Between + 1]..., cell) = from(at[0], at[Between + 1]..., at[y], at[x]);
  }
};

}  // namespace impl

/// The cells of a BlockGrid as one dimension, tile by tile and row by row, without those of dropped
/// blocks. Tools that don't know tiles, such as cdo, read and remap fields in this form: it writes
/// "lat" and "lon" of each cell and the positions of its four corners. Variables name them by
/// {"coordinates", "lat lon"}.
///
///   shard::TileCells cells(mesh, sphere);
///   cells.declare(file);
///   file.add_variable("h", {"time", "cell"}, shard::NetcdfType::float32,
///                     {{"long_name", "depth"}, {"units", "m"}, {"coordinates", "lat lon"}});
///   cells.write_positions(file, [](int tile, double y, double x) {
///     return shard::cubed_sphere_point(48, tile, y, x);
///   });
///   file.write("h", 0, cells(space, h));
template <class Tag, class Axis, class... MeshAxes>
class TileCells {
  template <class T, int Rank, class Memory>
  using CellsOf = ShardedView<typename impl::Pointers<T, Rank>::type, Kokkos::LayoutRight,
                              ShardDim<Rank - 1, Axis, Indices<TileCell<Tag>>>, Memory>;
  template <class T, int Rank>
  using HostCells = ShardedView<typename impl::Pointers<T, Rank>::type, Kokkos::LayoutRight,
                                ShardDim<0, Axis, Indices<TileCell<Tag>>>, Kokkos::HostSpace>;

 public:
  /// Collective over the mesh, which is that of the grid.
  TileCells(const Mesh<MeshAxes...>& mesh, const BlockGrid<Tag, Axis>& grid)
      : mesh_(mesh), grid_(grid), space_(mesh, by_global_ids(ids_of(grid), cells_of(grid))) {}

  /// Number of cells of all ranks.
  index_t size() const { return space_.size(); }
  /// The partition of the dimension of cells.
  const IndexSpace<TileCell<Tag>, Axis>& space() const { return space_; }

  /// Declares the dimensions "cell" and "corner" and the variables of positions.
  void declare(NetcdfOutput& file) const {
    file.add_dimension("cell", static_cast<std::size_t>(size()));
    file.add_dimension("corner", 4);
    file.add_variable(
        "lat", {"cell"}, NetcdfType::float64,
        {{"standard_name", "latitude"}, {"units", "degrees_north"}, {"bounds", "lat_bnds"}});
    file.add_variable(
        "lon", {"cell"}, NetcdfType::float64,
        {{"standard_name", "longitude"}, {"units", "degrees_east"}, {"bounds", "lon_bnds"}});
    file.add_variable("lat_bnds", {"cell", "corner"}, NetcdfType::float64);
    file.add_variable("lon_bnds", {"cell", "corner"}, NetcdfType::float64);
  }
  /// Writes them. point(tile, y, x) is a position as a vector from the centre of the sphere, of any
  /// length: y and x are doubles, in half cells from the tile's corner. Collective.
  template <class Point>
  void write_positions(NetcdfOutput& file, const Point& point) const {
    HostCells<double, 1> lat("lat", mesh_, {space_}), lon("lon", mesh_, {space_});
    const auto corners = Partition::whole(4);
    HostCells<double, 2> lats("lat_bnds", mesh_, {space_, corners}),
        lons("lon_bnds", mesh_, {space_, corners});
    index_t c = 0;
    each_cell(grid_, [&](const TileBlock& block, index_t j, index_t i) {
      const auto degrees = [&](int dy, int dx) {
        const std::array<double, 3> p =
            point(block.tile, static_cast<double>(2 * (block.y + j) + dy),
                  static_cast<double>(2 * (block.x + i) + dx));
        constexpr double degree = 180.0 / 3.14159265358979323846;
        return std::array{std::atan2(p[2], std::hypot(p[0], p[1])) * degree,
                          std::atan2(p[1], p[0]) * degree};
      };
      lat(c) = degrees(1, 1)[0], lon(c) = degrees(1, 1)[1];
      constexpr int around[4][2] = {{0, 0}, {0, 2}, {2, 2}, {2, 0}};  // counter-clockwise, CF 7.1
      for (int k = 0; k < 4; ++k) {
        const auto at = degrees(around[k][0], around[k][1]);
        lats(c, k) = at[0], lons(c, k) = at[1];
      }
      ++c;
    });
    file.write("lat", lat);
    file.write("lon", lon);
    file.write("lat_bnds", lats);
    file.write("lon_bnds", lons);
  }

  /// The values of a field (block, ..., y, x) at the centres of cells as a new field (..., cell).
  /// Dimensions between aren't sharded. Collective over the mesh; asynchronous. Throws
  /// ArgumentError on every rank for a field over other blocks or positions.
  template <class Space, AnyShardedView Field>
  auto operator()(const Space& space, const Field& field) const {
    constexpr impl::BlockDims dims = impl::block_dims<Field>();
    static_assert(dims.block == 0 && dims.y == Field::rank - 2 && dims.x == Field::rank - 1,
                  "TileCells takes fields (block, ..., y, x) over tiles");
    impl::require_no_error(field.communicator(), "TileCells",
                           field.partition(0) == grid_.at(At::centre)
                               ? std::string()
                               : "field \"" + field.label() +
                                     "\" is over other blocks than the grid, or not at the centres "
                                     "of cells; make another TileCells, or average to the centres");
    using Cells = CellsOf<typename Field::non_const_value_type, Field::rank - 2,
                          typename Field::memory_space>;
    std::array<Partition, static_cast<std::size_t>(Cells::rank)> partitions;
    for (int d = 1; d < Field::rank - 2; ++d)
      partitions[static_cast<std::size_t>(d) - 1] = field.partition(d);
    partitions.back() = space_;
    Cells cells(field.label(), mesh_, partitions);
    parallel_for("shard::tile_cells", space, owned_region(field),
                 impl::TileCellsKernel<Cells, Field>{cells, field});
    return cells;
  }

 private:
  /// Calls use(block, row, column) for this rank's cells, in the order of memory.
  template <class Use>
  static void each_cell(const BlockGrid<Tag, Axis>& grid, const Use& use) {
    const index_t rows = grid.y().size(), columns = grid.x().size();
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t j = 0; j < rows; ++j)
        for (index_t i = 0; i < columns; ++i) use(grid.block(b), j, i);
  }
  static index_t cells_of(const BlockGrid<Tag, Axis>& grid) {
    return grid.count() * grid.y().size() * grid.x().size();
  }
  static std::vector<std::int64_t> ids_of(const BlockGrid<Tag, Axis>& grid) {
    const Tiles& tiles = grid.tiles();
    std::vector<std::int64_t> first{0}, ids;
    for (int t = 0; t < tiles.count(); ++t)
      first.push_back(first.back() + tiles.extent_y(t) * tiles.extent_x(t));
    each_cell(grid, [&](const TileBlock& block, index_t j, index_t i) {
      ids.push_back(first[static_cast<std::size_t>(block.tile)] +
                    (block.y + j) * tiles.extent_x(block.tile) + block.x + i);
    });
    return ids;
  }

  Mesh<MeshAxes...> mesh_;
  BlockGrid<Tag, Axis> grid_;
  IndexSpace<TileCell<Tag>, Axis> space_;
};

}  // namespace shard

#endif
