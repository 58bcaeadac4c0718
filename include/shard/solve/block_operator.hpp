// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_BLOCK_OPERATOR_HPP
#define SHARD_SOLVE_BLOCK_OPERATOR_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/solve/operators.hpp"

namespace shard {

/// A block of a BlockOperator that is zero.
struct ZeroBlock {};

/// An operator on vectors that are tuples, made of blocks: row r of y is the sum of the blocks
/// (r, c) applied to parts c of x. Made by `block_operator`.
///
///   // a saddle point: velocity u and pressure p
///   auto a = shard::block_operator(std::tuple(u, p), std::tuple(viscosity, adjoint_of(div)),
///                                  std::tuple(div, shard::ZeroBlock{}));
///   shard::MINRES minres(std::tuple(u, p), a, preconditioner);
///
/// The adjoint needs those of the blocks. `diagonal` is that of the blocks (r, r), 0 for a
/// ZeroBlock. A handle: copies share the vectors between the blocks; one `apply` at a time.
template <class X, class Y, class... Rows>
class BlockOperator {
  static constexpr std::size_t columns = std::tuple_size_v<X>, rows = std::tuple_size_v<Y>;
  static_assert(rows == sizeof...(Rows) && ((std::tuple_size_v<Rows> == columns) && ...),
                "a BlockOperator has a row of blocks for each part of y, and in it a block for "
                "each part of x");

 public:
  /// For vectors like these. Local.
  BlockOperator(const X& x, const Y& y, const Rows&... blocks)
      : blocks_(blocks...),
        x_(impl::like_value(x, "shard::blocks")),
        y_(impl::like_value(y, "shard::blocks")) {}

  /// y = A x
  template <class Space>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::require_apart("BlockOperator", y, x);
    for_each<rows>([&]<std::size_t R>(Index<R>) {
      sum_blocks<columns>(space, std::get<R>(y), std::get<R>(y_),
                          [&]<std::size_t C>(Index<C>, const auto& to) {
                            return apply_block(space, block<R, C>(), to, std::get<C>(x));
                          });
    });
  }
  /// x = A' y
  template <class Space>
  void apply_adjoint(const Space& space, const X& x, const Y& y) const {
    impl::require_apart("BlockOperator", x, y);
    for_each<columns>([&]<std::size_t C>(Index<C>) {
      sum_blocks<rows>(space, std::get<C>(x), std::get<C>(x_),
                       [&]<std::size_t R>(Index<R>, const auto& to) {
                         return apply_adjoint_block(space, block<R, C>(), to, std::get<R>(y));
                       });
    });
  }
  /// d = the diagonal of A.
  template <class Space>
  void diagonal(const Space& space, const X& d) const requires(std::is_same_v<X, Y>) {
    for_each<columns>([&]<std::size_t C>(Index<C>) {
      if constexpr (std::is_same_v<BlockAt<C, C>, ZeroBlock>)
        impl::zero_value(space, std::get<C>(d));
      else
        block<C, C>().diagonal(space, std::get<C>(d));
    });
  }

 private:
  template <std::size_t I>
  using Index = std::integral_constant<std::size_t, I>;
  template <std::size_t R, std::size_t C>
  using BlockAt = std::tuple_element_t<C, std::tuple_element_t<R, std::tuple<Rows...>>>;

  template <std::size_t R, std::size_t C>
  const BlockAt<R, C>& block() const {
    return std::get<C>(std::get<R>(blocks_));
  }
  template <std::size_t N, class Use>
  static void for_each(const Use& use) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (use(Index<I>{}), ...); }
    (std::make_index_sequence<N>{});
  }
  /// to = the sum of N blocks' results in their order; `result(k, to)` is false for a ZeroBlock.
  template <std::size_t N, class Space, class V, class Result>
  static void sum_blocks(const Space& space, const V& to, const V& work, const Result& result) {
    bool begun = false;
    for_each<N>([&](auto k) {
      if (!result(k, begun ? work : to)) return;
      if (begun) axpby(space, to, 1.0, work, 1.0);
      begun = true;
    });
    if (!begun) impl::zero_value(space, to);
  }
  template <class Space, class Block, class To, class From>
  static bool apply_block(const Space& space, const Block& block, const To& to, const From& from) {
    if constexpr (!std::is_same_v<Block, ZeroBlock>) block.apply(space, to, from);
    return !std::is_same_v<Block, ZeroBlock>;
  }
  template <class Space, class Block, class To, class From>
  static bool apply_adjoint_block(const Space& space, const Block& block, const To& to,
                                  const From& from) {
    if constexpr (!std::is_same_v<Block, ZeroBlock>) impl::apply_adjoint(block, space, to, from);
    return !std::is_same_v<Block, ZeroBlock>;
  }

  std::tuple<Rows...> blocks_;
  X x_;
  Y y_;
};

namespace impl {

template <class V>
inline constexpr bool is_vector_tuple_v = false;
template <class... Parts>
inline constexpr bool is_vector_tuple_v<std::tuple<Parts...>> = (is_sharded_view_v<Parts> && ...);

}  // namespace impl

/// An operator on vectors like `x`, a std::tuple of fields: a std::tuple of blocks for each part.
/// `block_operator(x, y, rows...)` maps vectors like `x` to vectors like another tuple, `y`. Local.
/// See BlockOperator.
template <class X, class Second, class... Rows>
auto block_operator(const X& x, const Second& second, const Rows&... rows) {
  if constexpr (impl::is_vector_tuple_v<Second>)
    return BlockOperator<X, Second, Rows...>(x, second, rows...);
  else
    return BlockOperator<X, X, Second, Rows...>(x, x, second, rows...);
}

}  // namespace shard

#endif
