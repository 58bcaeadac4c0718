// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MULTIGRID_HPP
#define SHARD_SOLVE_MULTIGRID_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "shard/solve/impl/multigrid_levels.hpp"

namespace shard {

/// The order in which multigrid visits its levels.
enum class MultigridCycle : std::uint8_t {
  v,    ///< each level once: symmetric, for CG
  w,    ///< each coarser level twice: symmetric
  f,    ///< an f-cycle, then a v-cycle of each coarser level: for flexible CG and GMRES
  full  ///< from the coarsest level upwards, with a v-cycle on each: for flexible CG and GMRES
};

/// Choices of Multigrid.
struct MultigridOptions {
  MultigridCycle cycle = MultigridCycle::v;  ///< order of the levels
  int smoothing        = 2;     ///< Chebyshev steps before and after each coarser level
  index_t gather_below = 4096;  ///< levels with fewer cells are replicated on every rank
  index_t bottom       = 64;    ///< no coarser level for so few cells: a dense matrix solves it
  int levels           = 32;    ///< at most
};

/// Geometric multigrid for a Diffusion operator, as a preconditioner or by itself: PETSc's PCMG on
/// a DMDA, hypre's PFMG.
///
/// Each level has half the cells along each dimension with strong coupling and an even number of
/// cells (semi-coarsening), and the same operator on them. Chebyshev iteration with the diagonal
/// smooths. Interpolation is linear, and restriction is its exact transpose, so v- and w-cycles are
/// symmetric. The same levels are made for every number of ranks, and no sum depends on the
/// partition: the result is bitwise the same for every number of ranks.
///
///   const shard::Multigrid multigrid(a);
///   shard::CG cg(x, a, multigrid);
///
/// A handle: copies share the levels. One `apply` at a time. On levels of fewer than `gather_below`
/// cells each rank computes all cells, without messages. Odd extents can't be coarsened: the last
/// level then may be large, and some Chebyshev steps approximate its solution.
template <class Field, class K = impl::UnitCoefficient>
class Multigrid {
  using Whole        = typename impl::ReplicatedField<Field>::type;
  using WholeK       = typename impl::ReplicatedCoefficient<K>::type;
  using ShardedLevel = impl::MultigridLevel<Field, K>;
  using WholeLevel   = impl::MultigridLevel<Whole, WholeK>;
  using Memory       = typename Field::memory_space;
  using DeviceSpace  = typename Field::execution_space;
  static_assert(std::is_same_v<K, impl::UnitCoefficient> || std::is_same_v<K, Field>,
                "Multigrid needs coefficients in a field of the same type as x");
  static constexpr index_t most_dense = 1024;
  static constexpr int bottom_steps   = 24;

 public:
  static constexpr bool is_symmetric = true;  ///< of v- and w-cycles

  /// Makes the levels of an operator. Collective over its mesh. Fences the default execution space.
  /// Throws ArgumentError on every rank if the smallest level's matrix isn't positive.
  explicit Multigrid(const Diffusion<Field, K>& a, const MultigridOptions& options = {})
      : state_(std::make_shared<State>()) {
    state_->options = options;
    build(a);
  }

  /// z = one cycle on A z = r, from 0. Collective.
  template <class Space>
  void apply(const Space& space, const Field& z, const Field& r) const {
    ShardedLevel& top = state_->sharded[0];
    const Field own_x = top.x, own_y = top.y, own_b = top.b;
    if (state_->moves_in) {
      redistribute(space, own_b, r);
      run(space);
      redistribute(space, z, top.x);
    } else {
      const bool full = state_->options.cycle == MultigridCycle::full;
      top.b           = r;
      if (full || levels() == 1) {
        top.x = z;
      } else {  // the smoothing swaps x and y an odd number of times
        top.y = z;
      }
      run(space);
      if (top.x.origin() != z.origin())
        parallel_for("shard::multigrid", space, owned_region(z),
                     impl::UpdateKernel<Field, Field, 1>{z, {top.x}, {1.0}, 0.0, 0.0});
    }
    top.x = own_x;
    top.y = own_y;
    top.b = own_b;
  }

  /// Number of levels.
  int levels() const { return static_cast<int>(state_->sharded.size() + state_->whole.size()); }
  /// Number of cells of a level, 0 the finest.
  index_t cells(int level) const {
    const auto l = static_cast<std::size_t>(level);
    return l < state_->sharded.size() ? state_->sharded[l].grid.cells()
                                      : state_->whole[l - state_->sharded.size()].grid.cells();
  }

 private:
  struct State {
    MultigridOptions options;
    std::vector<ShardedLevel> sharded;
    std::vector<WholeLevel> whole;
    bool moves_in = false;  // the finest level is on other ranks than x
    Kokkos::View<double*, Memory> inverse;
  };

  void build(const Diffusion<Field, K>& a) {
    impl::LevelGrid grid;
    grid.rank    = Field::rank;
    grid.spacing = a.options().spacing;
    std::array<Partition, 3> partitions;
    for (int d = 0; d < Field::rank; ++d) {
      grid.extent[static_cast<std::size_t>(d)] = a.like().global_extent(d);
      partitions[static_cast<std::size_t>(d)]  = a.like().partition(d);
    }
    grid.choose();
    const auto wanted = divided_evenly(partitions, grid);
    state_->moves_in  = !same(partitions, wanted);
    const DeviceSpace space;
    if (state_->moves_in) {
      const auto field = impl::field_on<Field>(a.like(), wanted);
      state_->sharded.emplace_back(Diffusion<Field, K>(field, on(space, a.k(), field), a.options()),
                                   grid);
    } else {
      state_->sharded.emplace_back(a, grid);
    }
    while (add_level(space, state_->sharded.back())) {
    }
    if (!state_->whole.empty())
      while (add_level(space, state_->whole.back())) {
      }
    if (!state_->whole.empty() && state_->whole.back().grid.cells() <= most_dense)
      make_dense(space);
    space.fence("shard::multigrid: levels");
  }

  static std::array<Partition, 3> divided_evenly(std::array<Partition, 3> p,
                                                 const impl::LevelGrid& grid) {
    for (std::size_t d = 0; d < 3; ++d)
      if (grid.coarsens[d] && !impl::begins_even(p[d])) p[d] = impl::aligned(p[d]);
    return p;
  }
  static bool same(const std::array<Partition, 3>& p, const std::array<Partition, 3>& q) {
    return p[0] == q[0] && p[1] == q[1] && p[2] == q[2];
  }

  /// Adds the level after this one, if there is one. Returns whether there may be more of its kind.
  template <class L>
  bool add_level(const DeviceSpace& space, L& fine) {
    using From           = typename L::field_type;
    const auto& options  = state_->options;
    constexpr bool whole = std::is_same_v<L, WholeLevel>;
    const auto& grid     = fine.grid;
    const bool coarsens  = grid.can_coarsen() && grid.cells() > options.bottom;
    if (levels() >= options.levels) return false;
    if (!coarsens && (whole || grid.cells() > most_dense)) return false;
    impl::LevelGrid next = grid;
    if (coarsens) next = grid.coarse();
    std::array<Partition, 3> mid, all;
    for (int d = 0; d < From::rank; ++d) {
      const auto at = static_cast<std::size_t>(d);
      mid[at]       = fine.x.partition(d);
      if (coarsens && grid.coarsens[at]) mid[at] = mid[at].coarsened(2, next.extent[at]);
      if (!coarsens) fine.transfer.dims[d].coarsens = false;
      all[at] = Partition::balanced(next.extent[at], 1);
    }
    auto next_options    = fine.a.options();
    next_options.spacing = next.spacing;
    fine.mid_b           = impl::field_on<From>(fine.x, mid);
    fine.mid_x           = fine.mid_b.like("shard::multigrid");
    fine.mid_halos       = Exchange<From>(fine.mid_x);
    const auto k         = coarse_coefficient(space, fine, coarsens);
    const bool gather    = !coarsens || next.cells() < options.gather_below;
    if (whole || !gather) {
      const auto wanted = whole ? mid : divided_evenly(mid, next);
      fine.moves        = !same(mid, wanted);
      const auto field  = fine.moves ? impl::field_on<From>(fine.x, wanted) : fine.mid_x;
      const auto made   = decltype(fine.a)(field, on(space, k, field), next_options);
      const auto shared = fine.moves ? From() : fine.mid_b;
      auto& levels      = levels_like(fine);
      levels.emplace_back(made, next);  // `fine` may be elsewhere now
      if (!levels[levels.size() - 2].moves) levels.back().b = shared;
      return true;
    }
    fine.moves       = true;
    const auto field = impl::field_on<Whole>(fine.x, all);
    state_->whole.emplace_back(Diffusion<Whole, WholeK>(field, on(space, k, field), next_options),
                               next);
    return false;
  }
  auto& levels_like(const ShardedLevel&) { return state_->sharded; }
  auto& levels_like(const WholeLevel&) { return state_->whole; }

  /// The coefficients of the next level's cells, on the ranks of this level.
  template <class L>
  static auto coarse_coefficient(const DeviceSpace& space, L& fine, bool coarsens) {
    using From = typename L::field_type;
    if constexpr (std::is_same_v<K, impl::UnitCoefficient>) {
      return K{};
    } else {
      const From k = fine.mid_b.like("shard::multigrid");
      impl::MeanOfCellsKernel<From> kernel{k, fine.a.k(), {}};
      for (int d = 0; d < From::rank; ++d)
        kernel.coarsens[d] = coarsens && fine.grid.coarsens[static_cast<std::size_t>(d)];
      parallel_for("shard::multigrid", space, owned_region(k), kernel);
      fine.mid_halos(space, k);
      fine.transfer.k = k;
      return k;
    }
  }
  /// Coefficients on the ranks of another field, with their halo.
  template <class From, class To>
  static auto on(const DeviceSpace& space, const From& k, const To& like) {
    if constexpr (std::is_same_v<From, impl::UnitCoefficient>) {
      return k;
    } else {
      const To to = like.like("shard::multigrid");
      redistribute(space, to, k);
      exchange(space, to);
      return to;
    }
  }

  void make_dense(const DeviceSpace& space) {
    WholeLevel& last = state_->whole.back();
    const auto n     = static_cast<std::size_t>(last.grid.cells());
    state_->inverse  = Kokkos::View<double*, Memory>("shard::multigrid", n * n);
    const auto host  = Kokkos::create_mirror_view(state_->inverse);
    const auto y     = create_mirror_view(last.y);
    for (std::size_t row = 0; row < n; ++row) {
      parallel_for("shard::multigrid", space, owned_region(last.x),
                   impl::UnitVectorKernel<Whole>{last.x, static_cast<index_t>(row)});
      last.a.apply(space, last.y, last.x);
      deep_copy(space, y, last.y);
      space.fence("shard::multigrid: a column of the matrix");
      std::size_t at = row * n;
      if constexpr (Field::rank == 1)
        for (index_t i = 0; i < y.extent(0); ++i) host(at++) = y(i);
      else if constexpr (Field::rank == 2)
        for (index_t i = 0; i < y.extent(0); ++i)
          for (index_t j = 0; j < y.extent(1); ++j) host(at++) = y(i, j);
      else
        for (index_t i = 0; i < y.extent(0); ++i)
          for (index_t j = 0; j < y.extent(1); ++j)
            for (index_t k = 0; k < y.extent(2); ++k) host(at++) = y(i, j, k);
    }
    if (!impl::invert_symmetric(host.data(), static_cast<int>(n)))
      impl::throw_argument("Multigrid", {"the operator isn't positive on the coarsest level: "
                                         "coefficients and shift must not be negative"});
    Kokkos::deep_copy(space, state_->inverse, host);
  }

  /// Calls use(level).
  template <class Use>
  void with_level(int l, const Use& use) const {
    const auto at = static_cast<std::size_t>(l), sharded = state_->sharded.size();
    if (at < sharded)
      use(state_->sharded[at]);
    else
      use(state_->whole[at - sharded]);
  }

  template <class Space>
  void run(const Space& space) const {
    if (state_->options.cycle == MultigridCycle::full)
      visit_full(space, 0);
    else
      visit(space, 0, state_->options.cycle, true);
  }

  /// A cycle on a level's A x = b, from 0 or from its x.
  template <class Space>
  void visit(const Space& space, int l, MultigridCycle cycle, bool zero) const {
    with_level(l, [&](auto& level) {
      if (l + 1 == levels()) return solve_bottom(space, level, zero);
      const int steps  = state_->options.smoothing;
      const double low = level.smallest;
      level.smooth(space, steps, low, zero);
      using L       = std::remove_cvref_t<decltype(level)>;
      using Stencil = std::remove_cvref_t<decltype(level.a.functor())>;
      level.a.over(space, level.y, level.x,
                   impl::StencilResidualKernel<typename L::field_type, Stencil>{
                       level.a.functor(), level.y, level.x, level.b});
      down(space, l, level);
      visit(space, l + 1, cycle, true);
      if (cycle != MultigridCycle::v && l + 2 < levels())
        visit(space, l + 1, cycle == MultigridCycle::f ? MultigridCycle::v : cycle, false);
      up(space, l, level);
      level.smooth(space, steps, low, false);
    });
  }
  template <class Space>
  void visit_full(const Space& space, int l) const {
    with_level(l, [&](auto& level) {
      if (l + 1 == levels()) return solve_bottom(space, level, true);
      axpby(space, 1.0, level.b, 0.0, level.y);
      down(space, l, level);
      visit_full(space, l + 1);
      axpby(space, 0.0, level.b, 0.0, level.x);
      up(space, l, level);
      visit(space, l, MultigridCycle::v, false);
    });
  }
  /// The next level's b = the restriction of y.
  template <class Space, class L>
  void down(const Space& space, int l, L& level) const {
    level.restrict_y(space);
    with_level(l + 1, [&](auto& next) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(next)>, L>)
        if (!level.moves) return;  // mid_b is b
      redistribute(space, next.b, level.mid_b);
    });
  }
  /// x += the interpolation of the next level's x.
  template <class Space, class L>
  void up(const Space& space, int l, L& level) const {
    with_level(l + 1, [&](auto& next) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(next)>, L>)
        if (!level.moves) return level.prolong(space, next.x);
      redistribute(space, level.mid_x, next.x);
      level.prolong(space, level.mid_x);
    });
  }
  template <class Space, class L>
  void solve_bottom(const Space& space, L& level, bool zero) const {
    if constexpr (std::is_same_v<L, WholeLevel>)
      if (state_->inverse.extent(0) > 0)
        return parallel_for(
            "shard::multigrid", space, owned_region(level.x),
            impl::DenseSolveKernel<Whole>{level.x, level.b, state_->inverse.data()});
    level.smooth(space, bottom_steps, L::least, zero);
  }

  std::shared_ptr<State> state_;
};

}  // namespace shard

#endif
