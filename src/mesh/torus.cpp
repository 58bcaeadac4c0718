// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/torus.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include "literal.hpp"
#include "shard/base/error.hpp"
#include "shard/mesh/impl/sharding_algebra.hpp"

namespace shard {

namespace {

constexpr const char* in_assign_torus = "assign_torus";

index_t devices_of(const std::vector<int>& shape) {
  index_t all = 1;
  for (const int extent : shape) {
    if (extent < 1)
      impl::throw_argument(in_assign_torus,
                           {"the shape ", impl::tuple_text(shape), " has an extent below 1"});
    all *= extent;
    if (all > 2147483647)
      impl::throw_argument(in_assign_torus, {"the shape ", impl::tuple_text(shape),
                                             " has more places than 2147483647"});
  }
  return all;
}

/// The next combination of ascending indices below n; false after the last.
bool next_combination(std::vector<std::size_t>& chosen, std::size_t n) {
  for (std::size_t i = chosen.size(); i-- > 0;) {
    if (chosen[i] == n - chosen.size() + i) continue;
    ++chosen[i];
    for (std::size_t j = i + 1; j < chosen.size(); ++j) chosen[j] = chosen[j - 1] + 1;
    return true;
  }
  return false;
}

/// The largest set of whole torus axes for a mesh axis of extent n. `left` has 0 for assigned axes.
std::vector<std::size_t> whole_axes(const std::vector<int>& left, int n) {
  for (std::size_t count = left.size(); count > 0; --count) {
    std::vector<std::size_t> chosen(count);
    std::iota(chosen.begin(), chosen.end(), 0u);
    do {
      index_t extent = 1;
      for (const std::size_t p : chosen) extent *= left[p];
      if (extent == n) return chosen;
    } while (next_combination(chosen, left.size()));
  }
  return {};
}

/// Assigns whole axes. Returns the mesh axis for which there are none, or -1.
int assign_whole(TorusAssignment& a) {
  std::vector<int> left = a.physical;
  for (std::size_t l = a.logical.size(); l-- > 0;) {
    const auto axes = whole_axes(left, a.logical[l]);
    if (axes.empty() && a.logical[l] > 1) return static_cast<int>(l);
    for (const std::size_t p : axes) a.sizes[p * a.logical.size() + l] = std::exchange(left[p], 0);
  }
  return -1;
}

void assign_split(TorusAssignment& a) {
  std::vector<int> taken(a.physical.size(), 1);
  for (std::size_t l = a.logical.size(); l-- > 0;) {
    const auto all               = impl::feasible_assignments(a.physical, taken, a.logical[l]);
    const std::vector<int>* best = nullptr;
    for (const auto& one : all)
      if (best == nullptr || impl::prefers(one, *best, a.physical, taken)) best = &one;
    // mesh and torus have the same primes in all, so there always is one
    for (std::size_t p = 0; p < taken.size(); ++p) {
      a.sizes[p * a.logical.size() + l] = (*best)[p];
      taken[p] *= (*best)[p];
    }
  }
}

}  // namespace

DeviceArray TorusAssignment::place(const DeviceArray& torus) const {
  if (torus.shape != physical)
    impl::throw_argument("TorusAssignment::place",
                         {"the torus has the shape ", impl::tuple_text(torus.shape),
                          " and the assignment is for ", impl::tuple_text(physical)});
  // the torus with each axis split into its factors; then the factors of each mesh axis are joined
  std::vector<int> permutation;
  for (std::size_t l = 0; l < logical.size(); ++l)
    for (std::size_t p = 0; p < physical.size(); ++p)
      permutation.push_back(static_cast<int>(p * logical.size() + l));
  DeviceArray mesh{logical, std::vector<int>(torus.ids.size())};
  impl::transpose(torus.ids.data(), sizes.data(), static_cast<int>(sizes.size()),
                  permutation.data(), mesh.ids.data());
  return mesh;
}

DeviceArray TorusAssignment::place() const {
  DeviceArray torus{physical, {}};
  torus.ids.resize(
      static_cast<std::size_t>(impl::product(physical.data(), static_cast<int>(physical.size()))));
  std::iota(torus.ids.begin(), torus.ids.end(), 0);
  return place(torus);
}

TorusAssignment assign_torus(std::vector<int> physical, std::vector<int> logical, SplitAxes split) {
  const index_t nodes = devices_of(physical), places = devices_of(logical);
  if (nodes != places)
    impl::throw_argument(in_assign_torus,
                         {"the torus ", impl::tuple_text(physical), " has ", impl::text(nodes),
                          " devices and the mesh ", impl::tuple_text(logical), " ",
                          impl::text(places), " places; give shapes of the same size"});
  TorusAssignment a{std::move(physical), std::move(logical), {}};
  a.sizes.assign(a.physical.size() * a.logical.size(), 1);
  const int lacking = assign_whole(a);
  if (lacking < 0) return a;
  if (split == SplitAxes::never)
    impl::throw_argument(
        in_assign_torus,
        {"failed to find an assignment for logical axis ", impl::text(lacking), " of the mesh ",
         impl::tuple_text(a.logical), ": no product of the free axes of the torus ",
         impl::tuple_text(a.physical), " is ",
         impl::text(a.logical[static_cast<std::size_t>(lacking)]), "; allow SplitAxes::if_needed"});
  a.sizes.assign(a.sizes.size(), 1);
  assign_split(a);
  return a;
}

namespace impl {

std::vector<int> prime_factors(int n) {
  std::vector<int> factors;
  for (int p = 2; p <= n / p; ++p)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

std::vector<std::vector<int>> feasible_assignments(const std::vector<int>& physical,
                                                   const std::vector<int>& taken, int n) {
  const std::vector<int> primes = prime_factors(n);
  std::vector<std::vector<int>> all;
  std::vector<int> trial(physical.size(), 1);
  // assigns one prime after the other to an axis that still has it; equal primes to ascending axes,
  // so that each assignment is found once
  const std::function<void(std::size_t, std::size_t)> put = [&](std::size_t prime,
                                                                std::size_t from) {
    if (prime == primes.size()) {
      all.push_back(trial);
      return;
    }
    for (std::size_t p = from; p < physical.size(); ++p) {
      if (physical[p] / taken[p] % (trial[p] * primes[prime]) != 0) continue;
      trial[p] *= primes[prime];
      const bool same_next = prime + 1 < primes.size() && primes[prime + 1] == primes[prime];
      put(prime + 1, same_next ? p : 0);
      trial[p] /= primes[prime];
    }
  };
  put(0, 0);
  return all;
}

bool prefers(const std::vector<int>& x, const std::vector<int>& y, const std::vector<int>& physical,
             const std::vector<int>& taken) {
  const auto product_where = [](const std::vector<int>& sizes, const auto& counts) {
    index_t all = 1;
    for (std::size_t p = 0; p < sizes.size(); ++p)
      if (counts(p)) all *= sizes[p];
    return all;
  };
  // Whole axes first,
  const auto whole = [&](const std::vector<int>& z) {
    return product_where(z, [&](std::size_t p) { return z[p] == physical[p]; });
  };
  if (whole(x) != whole(y)) return whole(x) > whole(y);
  // then more of them,
  const auto count = [&](const std::vector<int>& z) {
    int axes = 0;
    for (std::size_t p = 0; p < z.size(); ++p) axes += z[p] == physical[p] && z[p] > 1 ? 1 : 0;
    return axes;
  };
  if (count(x) != count(y)) return count(x) > count(y);
  // then axes that another mesh axis uses already, as JAX's code does (its comment says the
  // opposite),
  const auto shared = [&](const std::vector<int>& z) {
    return product_where(z, [&](std::size_t p) { return taken[p] > 1; });
  };
  if (shared(x) != shared(y)) return shared(x) > shared(y);
  // then the first axes.
  return x > y;
}

}  // namespace impl
}  // namespace shard
