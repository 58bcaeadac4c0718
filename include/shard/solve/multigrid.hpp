// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MULTIGRID_HPP
#define SHARD_SOLVE_MULTIGRID_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "shard/base/impl/same_options.hpp"
#include "shard/solve/impl/multigrid_hierarchy.hpp"
#include "shard/solve/multigrid_cycle.hpp"

namespace shard {

/// Choices of Multigrid.
struct MultigridOptions {
  MultigridCycle cycle   = MultigridCycle::v;  ///< order of the levels
  int smoothing          = 2;     ///< Chebyshev steps before and after each coarser level
  index_t gather_below   = 4096;  ///< levels with fewer cells are replicated on every rank
  index_t cells_per_rank = 512;   ///< levels with fewer cells per rank are on fewer ranks
  index_t bottom         = 64;    ///< no coarser level for so few cells: a dense matrix solves it
  int levels             = 32;    ///< at most
};

/// Geometric multigrid for a Diffusion operator, as a preconditioner or by itself: PETSc's PCMG on
/// a DMDA, hypre's PFMG.
///
/// Each level has half the cells along each dimension with strong coupling (semi-coarsening; of an
/// odd number half of the next even one), and the same operator on them. Chebyshev iteration with
/// the diagonal smooths. Interpolation is linear, and restriction is its exact transpose, so v- and
/// w-cycles are symmetric. The same levels are made for every number of ranks, and no sum depends
/// on the partition: the result is bitwise the same for every number of ranks.
///
///   const shard::Multigrid multigrid(a);
///   shard::CG cg(x, a, multigrid);
///
/// Where coefficients and shift are 0 (land) a cycle gives 0; a last level whose cells are
/// separated by such cells is solved part by part.
///
/// A handle: copies share the levels. One `apply` at a time. On levels of fewer than `gather_below`
/// cells each rank computes all cells, without messages.
template <class Field, class K = impl::UnitCoefficient>
class Multigrid {
  using Hierarchy = impl::MultigridHierarchy<Field, K>;
  static_assert(std::is_same_v<K, impl::UnitCoefficient> || std::is_same_v<K, Field>,
                "Multigrid needs coefficients in a field of the same type as x");

 public:
  static constexpr bool is_symmetric = true;  ///< of v- and w-cycles

  /// Makes the levels of an operator. Collective over its mesh. Fences the default execution space.
  /// Throws ArgumentError on every rank for options that aren't possible or if the smallest level's
  /// matrix isn't positive, AgreementError if the ranks' options differ.
  explicit Multigrid(const Diffusion<Field, K>& a, const MultigridOptions& options = {})
      : cycle_(agreed(a.like().communicator(), options)),
        hierarchy_(std::make_shared<Hierarchy>(
            a, impl::HierarchyOptions{options.smoothing, options.levels, options.gather_below,
                                      options.cells_per_rank, options.bottom})) {}

  /// z = one cycle on A z = r, from 0; z isn't r. Fills the halos of z and r. Collective. Throws
  /// ArgumentError on every rank for fields of other partitions than A's.
  template <class Space>
  void apply(const Space& space, const Field& z, const Field& r) const {
    impl::require_alike("Multigrid", hierarchy_->like, z, r);
    impl::require_apart("Multigrid", z, r);
    auto& top         = hierarchy_->sharded[0];
    const Field own_x = top.x, own_y = top.y, own_b = top.b;
    if (hierarchy_->moves_in) {
      redistribute(space, own_b, r);
      visit(space, 0, cycle_, true);
      redistribute(space, z, top.x);
    } else {
      top.b = r;
      // z is x or y, so that it is x after the swaps
      int swaps =
          cycle_ == MultigridCycle::full ? 2 * top.swaps() : top.swaps_from_zero() + top.swaps();
      if (levels() == 1) swaps = top.swaps_from_zero();
      (swaps % 2 == 0 ? top.x : top.y) = z;
      visit(space, 0, cycle_, true);
    }
    top.x = own_x;
    top.y = own_y;
    top.b = own_b;
  }

  /// Number of levels.
  int levels() const { return hierarchy_->levels(); }
  /// Number of cells of a level, 0 the finest.
  index_t cells(int level) const {
    index_t n = 0;
    hierarchy_->with_level(level, [&](const auto& l) { n = l.grid.cells(); });
    return n;
  }

 private:
  static MultigridCycle agreed(MPI_Comm comm, const MultigridOptions& o) {
    impl::require_same_options(comm, "Multigrid",
                               {{"cycle", o.cycle},
                                {"smoothing", o.smoothing},
                                {"levels", o.levels},
                                {"gather_below", o.gather_below},
                                {"cells_per_rank", o.cells_per_rank},
                                {"bottom", o.bottom}});
    if (o.smoothing < 1 || o.levels < 1)
      impl::throw_argument("Multigrid", {"smoothing is ", impl::text(o.smoothing), " and levels ",
                                         impl::text(o.levels), "; both must be at least 1"});
    return o.cycle;
  }
  /// The steps of a cycle on level l.
  template <class Space, class L>
  struct Steps {
    const Multigrid& of;
    const Space& space;
    int l;
    L& level;

    void smooth(bool zero) { level.smooth(space, zero); }
    void restrict_residual() {
      level.residual(space);
      of.down(space, l, level, level.y);
    }
    void restrict_b() { of.down(space, l, level, level.b); }
    void clear() { axpby(space, level.x, 0.0, level.b, 0.0); }
    void correct() { of.up(space, l, level); }
  };
  /// A cycle on a level's A x = b, from 0 or from its x.
  template <class Space>
  void visit(const Space& space, int l, MultigridCycle cycle, bool zero) const {
    hierarchy_->with_level(l, [&](auto& level) {
      if (l + 1 == levels()) return solve_bottom(space, level, zero);
      impl::visit_level(Steps<Space, std::remove_cvref_t<decltype(level)>>{*this, space, l, level},
                        cycle, zero, l + 2 == levels(), [&](MultigridCycle next, bool from_zero) {
                          visit(space, l + 1, next, from_zero);
                        });
    });
  }
  /// The next level's b = the restriction of `from`.
  template <class Space, class L, class From>
  void down(const Space& space, int l, L& level, const From& from) const {
    level.restrict_from(space, from);
    hierarchy_->with_level(l + 1, [&](auto& next) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(next)>, L>)
        if (!level.moves) return;  // mid_b is b
      redistribute(space, next.b, level.mid_b);
    });
  }
  /// x += the interpolation of the next level's x.
  template <class Space, class L>
  void up(const Space& space, int l, L& level) const {
    hierarchy_->with_level(l + 1, [&](auto& next) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(next)>, L>)
        if (!level.moves) return level.prolong(space, next.x);
      redistribute(space, level.mid_x, next.x);
      level.prolong(space, level.mid_x);
    });
  }
  template <class Space, class L>
  void solve_bottom(const Space& space, L& level, bool zero) const {
    if constexpr (std::is_same_v<L, typename Hierarchy::WholeLevel>)
      if (hierarchy_->inverse.extent(0) > 0) {
        using Kernel = impl::DenseSolveKernel<typename L::field_type>;
        return impl::write_points("shard::multigrid", space, level.x,
                                  Kernel{level.x, level.b, hierarchy_->inverse.data()}, level.b);
      }
    level.smooth(space, zero);
  }

  MultigridCycle cycle_;
  std::shared_ptr<Hierarchy> hierarchy_;
};

}  // namespace shard

#endif
