// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_SUMS_HPP
#define SHARD_SRC_LAYERS_DEVICE_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

#include "shard/base/impl/launch.hpp"
#include "shard/base/impl/team_sums.hpp"
#include "shard/layers/impl/kernels.hpp"

/// \file
/// Sums over cells, and elementwise kernels, on a device. A team has a piece of the cells of one
/// batch entry and channel; neighbouring threads have neighbouring cells. The pieces depend only on
/// the shard's extents, and terms are added in a fixed order: bitwise reproducible.

namespace shard::impl {

/// Pointer to the first cell of a batch entry and channel.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T* plane_of(const Block<T>& b, index_t n, index_t c) {
  return &b.at(n, c, b.begin[0], b.begin[1], b.begin[2]);
}

/// Extents and strides of a plane's cells in blocks of the same extents.
template <class T, class... More>
BoxStrides<1 + sizeof...(More)> plane_box(const Block<T>& b, const Block<More>&... more) {
  const index_t* const strides[] = {b.stride + 2, (more.stride + 2)...};
  BoxStrides<1 + sizeof...(More)> box{};
  for (int d = 0; d < 3; ++d) {
    box.extent[d] = b.extent(d);
    for (std::size_t f = 0; f <= sizeof...(More); ++f) box.stride[f][d] = strides[f][d];
  }
  return box;
}

/// parts[kinds * item + k]: the sums of a piece of one plane. `Term` defines the sum. Its box() has
/// the fields that it reads. Its plane(n, c, first) is a thread's state for a plane and a piece
/// that begins at the cell `first`: load(cell) reads a cell, add(sums, value) adds it, and
/// finish(sums, count) makes the result from the sums over the team.
template <class Term, class Cells>
struct PieceSumsKernel {
  Term term;
  Cells cells;
  index_t channels;
  CellPieces pieces;
  double* parts;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    constexpr int kinds = Term::kinds;
    const int several = static_cast<int>(pieces.count), planes = static_cast<int>(channels);
    const int item        = team.league_rank() / several;
    const index_t begin   = team.league_rank() % several * pieces.length;
    const index_t rest    = pieces.cells - begin;
    const index_t count   = rest < pieces.length ? rest : pieces.length;
    double sums[kinds]    = {};
    double* const scratch = team_memory(team, kinds * team.team_size());
    const auto plane      = term.plane(item / planes, item % planes, cells.at(begin));
    using Cell            = typename Cells::Cell;
    for_own_cells(
        cells, begin + team.team_rank(), begin + count, team.team_size(),
        [&](const Cell& cell) { return plane.load(cell); },
        [&](const auto& value) { plane.add(sums, value); });
    team_sum(team, scratch, sums);
    if (team.team_rank() > 0) return;
    plane.finish(sums, static_cast<double>(count));
    for (int k = 0; k < kinds; ++k) parts[kinds * team.league_rank() + k] = sums[k];
  }
};

/// sums[kinds * item + k]: the sum of the item's parts.
template <int Kinds>
struct MergeSumsKernel {
  double* sums;
  const double* parts;
  index_t pieces;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const index_t item = team.league_rank();
    double sum[Kinds]  = {};
    for (index_t p = team.team_rank(); p < pieces; p += team.team_size())
      for (int k = 0; k < Kinds; ++k) sum[k] += parts[Kinds * (item * pieces + p) + k];
    team_sum(team, team_memory(team, Kinds * team.team_size()), sum);
    if (team.team_rank() == 0)
      for (int k = 0; k < Kinds; ++k) sums[Kinds * item + k] = sum[k];
  }
};

/// Computes the sums of each piece of `items` planes: into `results` if a plane is one piece, else
/// into `parts`. Returns whether the parts must be merged.
template <class Space, class Term>
bool sum_pieces(const std::string& label, const Space& space, const Term& term, index_t items,
                index_t channels, index_t cells, double* results, double* parts) {
  const CellPieces pieces = CellPieces::of(cells);
  const bool several      = pieces.count > 1;
  with_box_cells(term.box(), pieces.length, [&](const auto& all) {
    using Kernel = PieceSumsKernel<Term, std::remove_cvref_t<decltype(all)>>;
    launch_teams(label, space, items * pieces.count, team_threads<Space>,
                 team_bytes(Term::kinds * team_threads<Space>),
                 Kernel{term, all, channels, pieces, several ? parts : results});
  });
  return several;
}

/// results[kinds * item + k]: the sums of each plane of `x`.
template <class Space, class Term, class T>
void sum_planes(const std::string& label, const Space& space, const Term& term,
                const Block<const T>& x, double* results, double* parts) {
  const index_t items = x.batch * x.channels, cells = x.cells();
  if (sum_pieces(label, space, term, items, x.channels, cells, results, parts))
    launch_teams(label + "_merge", space, items, team_threads<Space>,
                 team_bytes(Term::kinds * team_threads<Space>),
                 MergeSumsKernel<Term::kinds>{results, parts, CellPieces::of(cells).count});
}

/// An elementwise kernel. The box() of `Op` has the fields that it reads and writes. Its plane(n,
/// c) is a thread's state for a plane: load(cell) reads a cell, store(value) writes it.
template <class Op, class Cells>
struct PlaneMapKernel {
  Op op;
  Cells cells;
  index_t count;
  int channels, pieces;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int item      = team.league_rank() / pieces;
    const index_t begin = team.league_rank() % pieces * CellPieces::shortest;
    const index_t rest  = count - begin;
    const index_t end   = begin + (rest < CellPieces::shortest ? rest : CellPieces::shortest);
    const auto plane    = op.plane(item / channels, item % channels);
    using Cell          = typename Cells::Cell;
    for_own_cells(
        cells, begin + team.team_rank(), end, team.team_size(),
        [&](const Cell& cell) { return plane.load(cell); },
        [&](const auto& value) { plane.store(value); });
  }
};

template <class Space, class Op, class T>
void map_planes(const std::string& label, const Space& space, const Op& op, const Block<T>& to) {
  const index_t cells  = to.cells(),
                pieces = (cells + CellPieces::shortest - 1) / CellPieces::shortest;
  with_box_cells(op.box(), CellPieces::shortest, [&](const auto& all) {
    using Kernel = PlaneMapKernel<Op, std::remove_cvref_t<decltype(all)>>;
    launch_teams(label, space, to.batch * to.channels * pieces, team_threads<Space>, 0,
                 Kernel{op, all, cells, static_cast<int>(to.channels), static_cast<int>(pieces)});
  });
}

}  // namespace shard::impl

#endif
