// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/plain_vectors.hpp"

#include "shard/solve/impl/vector_dots.hpp"

namespace shard::impl {

namespace {

template <int N, class Space, class Field>
void update_plain(const Space& space, const Field& y, double c, const double* a, const Field* x,
                  double shift) {
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    write_points("shard::update", space, y,
                 UpdateKernel<Field, Field, double, N>{y, {x[K]...}, {a[K]...}, c, shift}, x[K]...);
  }
  (std::make_index_sequence<N>{});
}

template <Determinism Order, int N, class Memory, class Space, class Field>
void add_plain(TermReduction<Memory>& reduction, const Space& space, const Field* a, const Field* b,
               int first, double scale) {
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    reduction.template add<Order, TermOps<>>(
        space, a[0], ProductsTerm<Field, double, N>{{a[K]...}, {b[K]...}, scale}, first);
  }
  (std::make_index_sequence<N>{});
}

template <Determinism Order, class Memory, class Space, class Field>
void add_plain(TermReduction<Memory>& reduction, const Space& space, const Field* a, const Field* b,
               int count, int first, double scale) {
  switch (count) {
    case 1: return add_plain<Order, 1>(reduction, space, a, b, first, scale);
    case 2: return add_plain<Order, 2>(reduction, space, a, b, first, scale);
    default: return add_plain<Order, 4>(reduction, space, a, b, first, scale);
  }
}

}  // namespace

template <class T, int Rank>
void PlainVectors<T, Rank>::update(const Space& space, const Field& y, double c, const double* a,
                                   const Field* x, int count, double shift) {
  switch (count) {
    case 1: return update_plain<1>(space, y, c, a, x, shift);
    case 2: return update_plain<2>(space, y, c, a, x, shift);
    default: return update_plain<4>(space, y, c, a, x, shift);
  }
}

template <class T, int Rank>
void PlainVectors<T, Rank>::advance(const Space& space, const Field& x, const Field& p,
                                    const Field& z, double alpha, double c, double beta) {
  write_points("shard::advance", space, x, AdvanceKernel<Field>{x, p, z, alpha, c, beta}, p, z);
}

template <class T, int Rank>
void PlainVectors<T, Rank>::add_descent(TermReduction<Memory>& reduction, Determinism order,
                                        const Space& space, const Field& r, const Field& q,
                                        double alpha, double scale) {
  const DescentTerm<Field> term{r, q, alpha, scale};
  if (order == Determinism::ordered)
    reduction.template add<Determinism::ordered, TermOps<>>(space, r, term);
  else
    reduction.template add<Determinism::on_one_mesh, TermOps<>>(space, r, term);
}

template <class T, int Rank>
void PlainVectors<T, Rank>::add_products(TermReduction<Memory>& reduction, Determinism order,
                                         const Space& space, const Field* a, const Field* b,
                                         int count, int first, double scale) {
  if (order == Determinism::ordered)
    add_plain<Determinism::ordered>(reduction, space, a, b, count, first, scale);
  else
    add_plain<Determinism::on_one_mesh>(reduction, space, a, b, count, first, scale);
}

#if !defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ENABLE_HIP) && !defined(KOKKOS_ENABLE_SYCL)
template struct PlainVectors<float, 1>;
template struct PlainVectors<float, 2>;
template struct PlainVectors<float, 3>;
template struct PlainVectors<float, 4>;
template struct PlainVectors<double, 1>;
template struct PlainVectors<double, 2>;
template struct PlainVectors<double, 3>;
template struct PlainVectors<double, 4>;
#endif

}  // namespace shard::impl
