// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_KOKKOS_BLOCK_ILU_HPP
#define SHARD_SOLVE_KOKKOS_BLOCK_ILU_HPP

#include <KokkosKernels_Handle.hpp>
#include <KokkosKernels_default_types.hpp>
#include <KokkosSparse_spiluk.hpp>
#include <KokkosSparse_sptrsv.hpp>
#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/block_ilu.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// Incomplete factorisations by Kokkos Kernels, on request: include this header and link with
/// Kokkos Kernels.

namespace shard {

/// BlockILU in the matrix' memory: KokkosSparse::spiluk factors, sptrsv solves, rows that don't
/// depend on each other at once. For devices, where BlockILU copies its vectors. The factors are
/// those of BlockILU to rounding. Its work space for factoring has a row of ints as long as the
/// block for each of the rows that are computed at once.
///
///   shard::KokkosBlockILU ilu(a, 1);  // ILU(1)
///   shard::GMRES gmres(x, a, ilu);
template <class Matrix>
class KokkosBlockILU {
  using V      = typename Matrix::column_vector;
  using T      = typename V::value_type;
  using Memory = typename V::memory_space;
  using Run    = typename V::view_type::execution_space;
  using Device = Kokkos::Device<Run, Memory>;
  using Offset = KokkosKernels::default_size_type;
  using Handle =
      KokkosKernels::Experimental::KokkosKernelsHandle<Offset, int, T, Run, Memory, Memory>;
  template <class X>
  using Array = Kokkos::View<X*, Device>;

 public:
  /// Factors the matrix with this level of fill. Collective. Errors as BlockILU's.
  explicit KokkosBlockILU(const Matrix& a, int level = 0)
      : state_(std::make_shared<State>(a, level)) {
    factor();
  }
  /// Factors the matrix again after a change of its values. Errors as the constructor's.
  void factor() const {
    impl::require_no_error(state_->a.mesh_communicator(), "KokkosBlockILU", state_->factor());
  }
  /// z = (L U)^-1 r. Local.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
    static_assert(std::is_same_v<Space, Run>,
                  "KokkosBlockILU runs in the execution space of the matrix' memory");
    State& s        = *state_;
    const auto rows = s.lower.rows();
    if (rows == 0) return;
    using In  = Kokkos::View<const T*, Device, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    using Out = Kokkos::View<T*, Device, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Run run   = space;
    const Out to(z.origin(), rows);
    Kokkos::deep_copy(run, s.between, T(0));  // sptrsv adds to what is there
    KokkosSparse::Experimental::sptrsv_solve(run, &s.forward, s.lower.begin, s.lower.column,
                                             s.lower.value, In(r.origin(), rows), s.between);
    Kokkos::deep_copy(run, to, T(0));
    KokkosSparse::Experimental::sptrsv_solve(run, &s.backward, s.upper.begin, s.upper.column,
                                             s.upper.value, s.between, to);
  }

 private:
  struct Rows {
    Array<Offset> begin;
    Array<int> column;
    Array<T> value;
    Rows(std::size_t rows, std::size_t entries)
        : begin("shard::ilu rows", rows + 1),
          column("shard::ilu columns", entries),
          value("shard::ilu values", entries) {}
    std::size_t rows() const { return begin.extent(0) - 1; }
  };

  struct State {
    State(const Matrix& matrix, int fill)
        : State(matrix, fill,
                checked(matrix, impl::agreed_pattern("KokkosBlockILU", matrix, fill))) {}
    State(const Matrix& matrix, int fill, const impl::IncompletePattern& pattern)
        : a(matrix),
          level(fill),
          block(count(pattern.rows()), count(entries_of_matrix(pattern))),
          lower(block.rows(), count(entries_below(pattern))),
          upper(block.rows(), pattern.column.size() + block.rows() - lower.value.extent(0)),
          between("shard::ilu", block.rows()) {
      namespace Sparse = KokkosSparse::Experimental;
      if (block.rows() == 0) return;
      copy_block(pattern);
      constexpr bool host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
      constexpr auto algorithm =
          host ? Sparse::SPTRSVAlgorithm::SEQLVLSCHD_RP : Sparse::SPTRSVAlgorithm::SEQLVLSCHD_TP1;
      factors.create_spiluk_handle(Sparse::SPILUKAlgorithm::SEQLVLSCHD_TP1, block.rows(),
                                   lower.value.extent(0), upper.value.extent(0));
      Sparse::spiluk_symbolic(&factors, level, block.begin, block.column, lower.begin, lower.column,
                              upper.begin, upper.column);
      forward.create_sptrsv_handle(algorithm, block.rows(), true);
      backward.create_sptrsv_handle(algorithm, block.rows(), false);
      Sparse::sptrsv_symbolic(&forward, lower.begin, lower.column);
      Sparse::sptrsv_symbolic(&backward, upper.begin, upper.column);
    }

    static impl::IncompletePattern checked(const Matrix& matrix, impl::IncompletePattern pattern) {
      impl::require_no_error(matrix.mesh_communicator(), "KokkosBlockILU", pattern.missing());
      return pattern;
    }
    static std::size_t count(index_t n) { return static_cast<std::size_t>(n); }
    static index_t entries_of_matrix(const impl::IncompletePattern& pattern) {
      index_t n = 0;
      for (const index_t from : pattern.source) n += from >= 0 ? 1 : 0;
      return n;
    }
    /// With the diagonal.
    static index_t entries_below(const impl::IncompletePattern& pattern) {
      index_t n = 0;
      for (std::size_t r = 0; r < pattern.diagonal.size(); ++r)
        n += pattern.diagonal[r] - pattern.begin[r] + 1;
      return n;
    }
    /// The block's columns, without fill, and where its values are in the matrix.
    void copy_block(const impl::IncompletePattern& pattern) {
      const auto begin  = Kokkos::create_mirror_view(block.begin);
      const auto column = Kokkos::create_mirror_view(block.column);
      for (std::size_t r = 0; r < block.rows(); ++r) {
        for (std::size_t e = count(pattern.begin[r]); e < count(pattern.begin[r + 1]); ++e)
          if (pattern.source[e] >= 0) {
            column(source.size()) = pattern.column[e];
            source.push_back(pattern.source[e]);
          }
        begin(r + 1) = static_cast<Offset>(source.size());
      }
      Kokkos::deep_copy(block.begin, begin);
      Kokkos::deep_copy(block.column, column);
    }

    std::string factor() {
      if (block.rows() == 0) return {};
      Kokkos::fence("shard::KokkosBlockILU: the values");  // whatever instance wrote them
      const auto all = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.values());
      const auto own = Kokkos::create_mirror_view(block.value);
      for (std::size_t e = 0; e < source.size(); ++e) own(e) = all(source[e]);
      Kokkos::deep_copy(block.value, own);
      KokkosSparse::Experimental::spiluk_numeric(
          &factors, level, block.begin, block.column, block.value, lower.begin, lower.column,
          lower.value, upper.begin, upper.column, upper.value);
      Kokkos::fence("shard::KokkosBlockILU");
      return wrong_pivot();
    }
    std::string wrong_pivot() const {
      const Kokkos::HostSpace host;
      const auto begin = Kokkos::create_mirror_view_and_copy(host, upper.begin);
      const auto value = Kokkos::create_mirror_view_and_copy(host, upper.value);
      for (std::size_t r = 0; r < upper.rows(); ++r) {
        const T pivot = value(begin(r));
        if (pivot == T(0) || !std::isfinite(pivot) || (pivot == replaced && !is_pivot(r)))
          return "the pivot of row " + impl::text(static_cast<index_t>(r)) + " is 0 or not finite";
      }
      return {};
    }
    /// Whether the pivot of a row is `replaced` by itself.
    bool is_pivot(std::size_t r) const {
      const Kokkos::HostSpace host;
      const auto rows = [&](const Rows& from) {
        return std::tuple(Kokkos::create_mirror_view_and_copy(host, from.begin),
                          Kokkos::create_mirror_view_and_copy(host, from.column),
                          Kokkos::create_mirror_view_and_copy(host, from.value));
      };
      const auto [a_begin, a_column, a_value] = rows(block);
      const auto [l_begin, l_column, l_value] = rows(lower);
      const auto [u_begin, u_column, u_value] = rows(upper);
      const auto own                          = static_cast<int>(r);
      T pivot                                 = 0;
      for (Offset e = a_begin(r); e < a_begin(r + 1); ++e)
        if (a_column(e) == own) pivot += a_value(e);
      for (Offset e = l_begin(r); e + 1 < l_begin(r + 1); ++e)
        for (Offset u = u_begin(l_column(e)); u < u_begin(l_column(e) + 1); ++u)
          if (u_column(u) == own) pivot -= l_value(e) * u_value(u);
      return pivot > replaced / 2;
    }

    static constexpr T replaced = T(1e6);  // what spiluk puts in the place of a pivot that is 0
    Matrix a;
    int level;
    Rows block, lower, upper;
    std::vector<index_t> source;  // of the block's values, in the matrix
    Array<T> between;
    Handle factors, forward, backward;
  };

  std::shared_ptr<State> state_;
};

}  // namespace shard

#endif
