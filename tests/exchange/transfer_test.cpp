// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transfers within one rank, of boxes of all shapes for which the kernels go another way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "../../src/exchange/sum_kernel.hpp"
#include "../../src/exchange/transfer.hpp"
#include "support/support.hpp"

namespace transfer_test {

using shard::index_t;
using shard::impl::BoxRoute;
using shard::impl::max_rank;
using shard::impl::PieceBox;
using shard::impl::Reduction;
using shard::impl::ReductionKind;
using shard::impl::RouteField;
using shard::impl::Strides;
using shard::impl::TransferField;
using Space = Kokkos::DefaultHostExecutionSpace;
using Plan  = shard::impl::TransferPlan<Kokkos::HostSpace>;
using Group = shard::impl::TransferGroup<Kokkos::HostSpace>;

void run(BoxRoute route, const TransferField& field) {
  Group here;
  Plan(one_step(std::move(route)), 1).run(Space(), here, &field);
}

/// Strides of an array whose dimensions are in memory in this order, the first the fastest, with
/// `gap` values between lines; and how many values it has.
std::pair<Strides, index_t> lay(const std::vector<index_t>& n,
                                const std::vector<std::size_t>& order, index_t gap) {
  Strides stride{};
  index_t values = 1;
  for (const std::size_t d : order) {
    stride[d] = values;
    values    = values * n[d] + gap;
  }
  return {stride, values};
}

/// Calls use(offset in a, offset in b) for all elements of a box.
template <class Use>
void for_elements(const std::vector<index_t>& n, const Strides& a, const Strides& b,
                  const Use& use) {
  const index_t all =
      std::accumulate(n.begin(), n.end(), index_t{1}, [](index_t x, index_t y) { return x * y; });
  for (index_t i = 0; i < all; ++i) {
    index_t rest = i, in_a = 0, in_b = 0;
    for (std::size_t d = 0; d < n.size(); ++d) {
      const index_t k = rest % n[d];
      rest /= n[d];
      in_a += k * a[d];
      in_b += k * b[d];
    }
    use(in_a, in_b);
  }
}

template <class T>
RouteField described(std::size_t rank, bool left) {
  RouteField field;
  field.kind       = shard::impl::value_kind<T>();
  field.value_size = static_cast<int>(sizeof(T));
  field.rank       = static_cast<int>(rank);
  field.left       = left;
  return field;
}

PieceBox box_of(const std::vector<index_t>& n) {
  PieceBox box;
  std::copy(n.begin(), n.end(), box.extent.begin());
  return box;
}

template <class T>
std::vector<T> numbered(index_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  auto* bytes = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i)
    bytes[i] = static_cast<unsigned char>((i * 131 + i / 255) % 251 + 1);
  return values;
}

/// Copies with the kernels and one value after the other; in the same memory too, one layout onto
/// the other.
template <class T>
void check(const std::vector<index_t>& n, const std::vector<std::size_t>& from_order,
           const std::vector<std::size_t>& to_order, index_t gap, bool left, bool onto) {
  const auto [from_stride, from_values] = lay(n, from_order, gap);
  const auto [to_stride, to_values]     = lay(n, to_order, gap);
  std::vector<T> from                   = numbered<T>(std::max(from_values, to_values)), to(from);
  if (!onto) std::memset(static_cast<void*>(to.data()), 0, to.size() * sizeof(T));
  std::vector<T> wanted = to;
  for_elements(n, from_stride, to_stride, [&](index_t a, index_t b) {
    wanted[static_cast<std::size_t>(b)] = from[static_cast<std::size_t>(a)];
  });
  BoxRoute route(described<T>(n.size(), left));
  route.keep(box_of(n), box_of(n));
  auto* target = reinterpret_cast<std::byte*>(to.data());
  run(std::move(route),
      {onto ? target : reinterpret_cast<std::byte*>(from.data()), target, from_stride, to_stride});
  EXPECT_EQ(std::memcmp(to.data(), wanted.data(), to.size() * sizeof(T)), 0)
      << ::testing::PrintToString(n) << ::testing::PrintToString(from_order)
      << ::testing::PrintToString(to_order) << " gap " << gap << " left " << left << " onto "
      << onto << ", " << sizeof(T) << " bytes";
}

struct Twelve {
  std::int32_t a[3];
};
struct TwentyFour {
  double a[3];
};

TEST(transfer, copies_of_all_shapes) {
  std::mt19937_64 engine(shard::testing::seed());
  const auto below = [&](index_t n) {
    return std::uniform_int_distribution<index_t>(0, n - 1)(engine);
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<index_t> n(static_cast<std::size_t>(1 + below(4)));
    for (index_t& extent : n) extent = below(3) == 0 ? 1 + below(60) : 1 + below(9);
    std::vector<std::size_t> from(n.size()), to(n.size());
    std::iota(from.begin(), from.end(), 0);
    std::shuffle(from.begin(), from.end(), engine);
    to = from;
    if (below(2) == 0) std::shuffle(to.begin(), to.end(), engine);
    const index_t gap = below(2) * 3;
    const bool left = below(2) == 0, onto = below(4) == 0;
    switch (below(7)) {
      case 0: check<std::uint8_t>(n, from, to, gap, left, onto); break;
      case 1: check<std::uint16_t>(n, from, to, gap, left, onto); break;
      case 2: check<std::uint32_t>(n, from, to, gap, left, onto); break;
      case 3: check<Twelve>(n, from, to, gap, left, onto); break;
      case 4: check<Kokkos::complex<double>>(n, from, to, gap, left, onto); break;
      case 5: check<TwentyFour>(n, from, to, gap, left, onto); break;
      default: check<double>(n, from, to, gap, left, onto);
    }
  }
  check<float>({70000, 3}, {0, 1}, {1, 0}, 0, true, false);            // lines that are cut
  check<float>({300, 200}, {0, 1}, {1, 0}, 5, true, false);            // tiles and their rest
  check<float>({701, 4099, 3}, {0, 1, 2}, {0, 2, 1}, 3, true, false);  // more than caches hold
}

/// Contributions from several places to the same elements, in an order that isn't that of the list.
template <class T>
void check_sum(const std::vector<index_t>& n, const std::vector<std::size_t>& from_order,
               const std::vector<std::size_t>& to_order, const Reduction& reduction) {
  constexpr int parts = 3, order[parts] = {2, 0, 1};
  std::vector<index_t> all(n);
  all.back() *= parts;
  const auto [from_stride, from_values] = lay(all, from_order, 1);
  const auto [to_stride, to_values]     = lay(n, to_order, 2);
  std::vector<T> from(static_cast<std::size_t>(from_values)),
      to(static_cast<std::size_t>(to_values), T(3));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = T(i * 37 % 101) - T(50);
  std::vector<T> wanted = to;
  const index_t part    = n.back() * from_stride[n.size() - 1];
  for_elements(n, from_stride, to_stride, [&](index_t a, index_t b) {
    T& value   = wanted[static_cast<std::size_t>(b)];
    bool first = !reduction.adds;
    for (int p = 0; p < parts; ++p) {
      const auto at = std::find(order, order + parts, p) - order;  // of the contribution in order
      const T more  = from[static_cast<std::size_t>(a + at * part)];
      value         = first                                ? more
                      : reduction.op == ReductionKind::sum ? value + more
                      : reduction.op == ReductionKind::max ? std::max(value, more)
                                                           : std::min(value, more);
      first         = false;
    }
    value *= static_cast<T>(reduction.scale);
  });
  BoxRoute route(described<T>(n.size(), false), 1, &reduction);
  for (int p = 0; p < parts; ++p) {
    PieceBox box = box_of(n);
    box.begin[n.size() - 1] += p * n.back();
    route.keep(box, box_of(n), order[p]);
  }
  run(std::move(route), {reinterpret_cast<std::byte*>(from.data()),
                         reinterpret_cast<std::byte*>(to.data()), from_stride, to_stride});
  EXPECT_EQ(to, wanted) << ::testing::PrintToString(n);
}

TEST(transfer, contributions_in_their_order) {
  for (const auto op : {ReductionKind::sum, ReductionKind::max, ReductionKind::min})
    for (const bool adds : {false, true})
      for (const double scale : {1.0, 0.5}) {
        const Reduction reduction{op, adds, scale};
        check_sum<double>({7, 5}, {1, 0}, {1, 0}, reduction);
        check_sum<double>({7, 5}, {0, 1}, {1, 0}, reduction);
        check_sum<float>({3, 1100}, {1, 0}, {1, 0}, reduction);  // more than are taken at a time
        check_sum<float>({40000}, {0}, {0}, reduction);
        check_sum<double>({2, 3, 9}, {2, 0, 1}, {0, 1, 2}, reduction);
      }
}

/// A float of 16 bits, 8 of them significant. Hosts have none of Kokkos' own (half_t is float
/// there); the kernels take any type.
struct Sixteen {
  std::uint16_t bits = 0;

  Sixteen() = default;
  explicit Sixteen(float value) {
    std::uint32_t all = 0;
    std::memcpy(&all, &value, sizeof all);
    all += 0x7fffU + (all >> 16U & 1U);  // to nearest, ties to even
    bits = static_cast<std::uint16_t>(all >> 16U);
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    const std::uint32_t all = std::uint32_t{bits} << 16U;
    float value             = 0;
    std::memcpy(&value, &all, sizeof value);
    return value;
  }
};

// 256 and six ones: in 16 bits none of the ones counts, in 32 they are 262.
TEST(transfer, short_floats_are_added_in_32_bits) {
  std::vector<Sixteen> parts(7, Sixteen(1.0F));
  parts[0] = Sixteen(256.0F);
  EXPECT_EQ(static_cast<float>(Sixteen(257.0F)), 256.0F);
  const auto sources = [&](const auto& use) {
    for (const Sixteen& part : parts)
      use(shard::impl::Contribution{reinterpret_cast<const std::byte*>(&part), 0});
  };
  for (const bool adds : {false, true}) {
    Sixteen out(2.0F);
    const Reduction reduction{ReductionKind::sum, adds, 0.5};
    shard::impl::CombineValues<1, decltype(sources)>{reduction, reinterpret_cast<std::byte*>(&out),
                                                     0, 1, sources}
        .
        operator()<Sixteen>();
    EXPECT_EQ(static_cast<float>(out), adds ? 132.0F : 131.0F);
  }
}

}  // namespace transfer_test
