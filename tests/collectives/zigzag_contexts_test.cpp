// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <set>

#include "support/counting.hpp"
#include "zigzag_support.hpp"

namespace zigzag_test {

using shard::ZigzagContexts;
using shard::ZigzagPartition;

/// A rank's part of a sequence of a length along dimension 2, and the contexts of its chunks.
template <class T, class Layout>
struct Local {
  using View = Kokkos::View<T***, Layout, Space>;
  ZigzagPartition part;
  std::array<ZigzagPartition::Range, 2> chunks;
  View x;
  std::array<View, 2> context;

  Local(const Grid& mesh, index_t n, index_t width)
      : part(n, mesh.size<Line>()),
        chunks(part.ranges(mesh.coordinate<Line>())),
        x(make_view<T, 3, Layout>({2, 3, chunks[0].size() + chunks[1].size()})),
        context{make_view<T, 3, Layout>({2, 3, width}), make_view<T, 3, Layout>({2, 3, width})} {}
};

template <class T, class Layout>
void check_contexts(const Grid& mesh, index_t n, index_t width) {
  SCOPED_TRACE("length " + std::to_string(n) + ", width " + std::to_string(width));
  const Space space;
  const int row = mesh.coordinate<Row>();
  const Local<T, Layout> mine(mesh, n, width);
  fill(mine.x, [&](Index i) {
    i[2] = mine.part.global_index(mesh.coordinate<Line>(), i[2]);
    return value<T>(i, row);
  });
  for (const auto& context : mine.context)
    fill(context, [](const Index& i) { return value<T>(i, 5); });  // is overwritten
  const ZigzagContexts<Line> contexts{.size = mine.part.even() ? 0 : n};
  contexts.apply(space, mine.context[0], mine.context[1], mine.x, mesh);
  for (std::size_t h = 0; h < 2; ++h)
    expect_values(mine.context[h], [&](Index i) {
      i[2] += mine.chunks[h].begin - width;
      return i[2] < 0 ? T{} : value<T>(i, row);
    });
}

/// Widths of one hop and of several, up to more than the whole sequence.
std::vector<index_t> widths(index_t n, int ranks) {
  const index_t chunk = n / (2 * ranks);
  return {0, 1, chunk, chunk + 1, 2 * chunk + 1, n / 2 + 1, n, n + 3};
}

TEST(zigzag_contexts, stand_before_both_chunks) {
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    const int p     = mesh.size<Line>();
    for (const index_t n : {2 * p, 6 * p, 4 * p - 1, 10 * p - 3})
      if (ZigzagPartition::exists(n, p))
        for (const index_t width : widths(n, p))
          check_contexts<double, Kokkos::LayoutRight>(mesh, n, width);
    check_contexts<double, Kokkos::LayoutRight>(mesh, 0, 3);
    check_contexts<Odd, Kokkos::LayoutLeft>(mesh, 6 * p, 4);
  }
}

TEST(zigzag_contexts, transpose) {
  const Space space;
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    const int p = mesh.size<Line>(), me = mesh.rank();
    for (const index_t n : {2 * p, 6 * p, 4 * p - 1})
      for (const index_t width : widths(n, p)) {
        SCOPED_TRACE("length " + std::to_string(n) + ", width " + std::to_string(width));
        const Local<double, Kokkos::LayoutRight> x(mesh, n, width), y(mesh, n, width);
        const ZigzagContexts<Line> contexts{.size = n};
        fill_random(x.x, me, 0);
        for (int h = 0; h < 2; ++h) fill_random(y.context[static_cast<std::size_t>(h)], me, 1 + h);
        fill_random(y.x, me, 3);  // is overwritten
        contexts.apply(space, x.context[0], x.context[1], x.x, mesh);
        contexts.pullback(space, y.x, y.context[0], y.context[1], mesh);
        EXPECT_EQ(
            over_ranks(own_dot(x.context[0], y.context[0]) + own_dot(x.context[1], y.context[1])),
            over_ranks(own_dot(x.x, y.x)));
        const Local<double, Kokkos::LayoutRight> tangent(mesh, n, width);
        contexts.pushforward(space, tangent.context[0], tangent.context[1], x.x, mesh);
        EXPECT_EQ(own_dot(tangent.context[1], y.context[1]), own_dot(x.context[1], y.context[1]));
      }
  }
  const Grid mesh = make_mesh();  // other values that can be added, other layouts
  const Local<float, Kokkos::LayoutLeft> f(mesh, 4 * mesh.size(), 5);
  for (const auto& context : f.context) fill(context, [](const Index&) { return 1.0f; });
  ZigzagContexts<Line>{}.pullback(space, f.x, f.context[0], f.context[1], mesh);
  expect_values(f.x, [&](const Index& i) {  // in how many contexts it stands
    const index_t g = f.part.global_index(mesh.rank(), i[2]);
    int count       = 0;
    for (int c = 0; c < f.part.chunks(); ++c)
      count += f.part.chunk(c).begin - 5 <= g && g < f.part.chunk(c).begin ? 1 : 0;
    return static_cast<float>(count);
  });
}

/// A depthwise causal convolution of rows of [batch, channel], all on this rank.
struct Serial {
  int channels;
  std::vector<std::vector<double>> taps;  // of each channel

  std::vector<double> operator()(const std::vector<double>& x, index_t n) const {
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at   = static_cast<index_t>(i) % n;
      const auto& tap = taps[i / static_cast<std::size_t>(n) % static_cast<std::size_t>(channels)];
      for (index_t k = 0; k < static_cast<index_t>(tap.size()) && k <= at; ++k)
        y[i] += tap[static_cast<std::size_t>(k)] * x[i - static_cast<std::size_t>(k)];
    }
    return y;
  }
  /// d(loss)/dx from d(loss)/dy
  std::vector<double> pullback(const std::vector<double>& dy, index_t n) const {
    std::vector<double> dx(dy.size());
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const auto at   = static_cast<index_t>(i) % n;
      const auto& tap = taps[i / static_cast<std::size_t>(n) % static_cast<std::size_t>(channels)];
      for (index_t k = 0; k < static_cast<index_t>(tap.size()) && k <= at; ++k)
        dx[i - static_cast<std::size_t>(k)] += tap[static_cast<std::size_t>(k)] * dy[i];
    }
    return dx;
  }
};

Serial make_taps(int channels, int count, std::mt19937_64& random) {
  Serial serial{channels, {}};
  std::uniform_real_distribution<double> number(-1, 1);
  for (int c = 0; c < channels; ++c) {
    serial.taps.emplace_back();
    for (int k = 0; k < count; ++k) serial.taps.back().push_back(number(random));
  }
  return serial;
}

/// The values before and of one chunk, and the convolution on them: valid from where K - 1 values
/// stand before. Of a row that begins within its first values the sequence hasn't begun yet.
struct Chunk {
  index_t context, length;
  std::vector<double> rows;  // [batch * channel][context + length]
  index_t row() const { return context + length; }
};

using HostView = Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace>;
HostView on_host(const Local<double, Kokkos::LayoutRight>::View& view) {
  const auto near = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return near;
}

/// One or several convolutions with one exchange: forward and gradient, against the serial ones.
void check_convolutions(const Grid& mesh, index_t n, const std::vector<int>& kernels) {
  SCOPED_TRACE("length " + std::to_string(n));
  constexpr int batches = 2, channels = 3;
  const Space space;
  std::mt19937_64 random(shard::testing::seed());  // the same on every rank
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<Serial> layers;
  index_t width = 0;
  for (const int k : kernels) {
    layers.push_back(make_taps(channels, k, random));
    width += k - 1;
  }
  std::vector<double> x(static_cast<std::size_t>(batches * channels * n)), dy(x.size());
  for (double& v : x) v = number(random);
  for (double& v : dy) v = number(random);
  std::vector<double> y = x, dx = dy;
  for (const Serial& layer : layers) y = layer(y, n);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) dx = layer->pullback(dx, n);

  const Local<double, Kokkos::LayoutRight> mine(mesh, n, width), back(mesh, n, width);
  const int me      = mesh.coordinate<Line>();
  const auto global = [&](const Index& i, index_t at) {
    return static_cast<std::size_t>((i[0] * channels + i[1]) * n + at);
  };
  fill(mine.x, [&](const Index& i) { return x[global(i, mine.part.global_index(me, i[2]))]; });
  const ZigzagContexts<Line> contexts;
  contexts.apply(space, mine.context[0], mine.context[1], mine.x, mesh);

  // each chunk with its context is a sequence: a causal convolution of it is right from width on,
  // and what comes before the sequence's begin stays zero through all layers
  std::array<HostView, 2> d_context;
  const auto local_x = on_host(mine.x);
  const HostView local_dx("dx", 2, 3, back.x.extent(2));
  double worst = 0;
  for (std::size_t h = 0; h < 2; ++h) {
    const index_t begin = mine.chunks[h].begin, length = mine.chunks[h].size(),
                  row = width + length;
    const auto before = on_host(mine.context[h]);
    const auto clear  = [&](std::vector<double>& rows) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (static_cast<index_t>(i) % row + begin - width < 0) rows[i] = 0;
    };
    std::vector<double> rows(static_cast<std::size_t>(batches * channels * row)),
        grads(rows.size());
    const auto each = [&](const auto& use) {
      for (int b = 0; b < batches; ++b)
        for (int c = 0; c < channels; ++c)
          for (index_t i = 0; i < row; ++i)
            use(b, c, i, static_cast<std::size_t>((b * channels + c) * row + i));
    };
    const index_t first = h == 0 ? 0 : mine.part.chunk_size();
    each([&](int b, int c, index_t i, std::size_t at) {
      rows[at] = i < width ? before(b, c, i) : local_x(b, c, first + i - width);
      if (i >= width) grads[at] = dy[global({b, c}, begin + i - width)];
    });
    for (const Serial& layer : layers) rows = layer(rows, row);
    clear(rows);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      grads = layer->pullback(grads, row);
      clear(grads);
    }
    d_context[h] = HostView("gradient of a context", 2, 3, static_cast<std::size_t>(width));
    each([&](int b, int c, index_t i, std::size_t at) {
      if (i < width)
        d_context[h](b, c, i) = grads[at];
      else {
        worst = std::max(worst, std::abs(rows[at] - y[global({b, c}, begin + i - width)]));
        local_dx(b, c, first + i - width) = grads[at];
      }
    });
    Kokkos::deep_copy(back.context[h], d_context[h]);
  }
  contexts.pullback(space, back.x, back.context[0], back.context[1], mesh);
  on_values(back.x, [&](double& v, const Index& i) {
    const double sum = v + local_dx(i[0], i[1], i[2]);
    worst = std::max(worst, std::abs(sum - dx[global(i, mine.part.global_index(me, i[2]))]));
  });
  EXPECT_LT(worst, 1e-12);
}

TEST(zigzag_contexts, causal_convolutions_against_serial_ones) {
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    const int p     = mesh.size<Line>();
    check_convolutions(mesh, 8 * p, {1});
    check_convolutions(mesh, 8 * p, {4});
    check_convolutions(mesh, 8 * p, {5});     // all of a chunk
    check_convolutions(mesh, 4 * p, {8});     // several hops
    check_convolutions(mesh, 2 * p, {6});     // chunks of one value
    check_convolutions(mesh, 8 * p, {3, 4});  // one exchange for two
    check_convolutions(mesh, 4 * p, {3, 4, 2});
  }
}

// One hop: each chunk's end goes to the rank of the next chunk and to no one else; the middle two
// chunks are one rank's.
TEST(zigzag_contexts, no_message_where_there_is_none) {
  const Grid mesh = make_mesh();
  const int p = mesh.size(), me = mesh.rank();
  const auto sent = [&](index_t chunk, index_t width, bool pulled) {
    const Local<double, Kokkos::LayoutRight> mine(mesh, 2 * p * chunk, width);
    const auto counts = shard::testing::count([&] {
      if (pulled)
        ZigzagContexts<Line>{}.pullback(Space(), mine.x, mine.context[0], mine.context[1], mesh);
      else
        ZigzagContexts<Line>{}.apply(Space(), mine.context[0], mine.context[1], mine.x, mesh);
    });
    EXPECT_EQ(counts.messages, static_cast<std::int64_t>(counts.peers.size()));
    std::set<int> peers(counts.peers.begin(), counts.peers.end());
    EXPECT_EQ(peers.size(), counts.peers.size());  // one to each
    EXPECT_EQ(counts.receives, counts.messages);
    return std::pair(peers, counts.bytes);
  };
  std::set<int> neighbours;
  if (me > 0) neighbours.insert(me - 1);
  if (me < p - 1) neighbours.insert(me + 1);
  for (const bool pulled : {false, true}) {
    EXPECT_EQ(sent(4, 0, pulled), std::pair(std::set<int>{}, std::int64_t{0}));
    const auto one_hop = sent(4, 3, pulled);
    EXPECT_EQ(one_hop.first, neighbours);
    EXPECT_EQ(one_hop.second, static_cast<std::int64_t>(neighbours.size()) * 2 * 3 * 3 *
                                  std::int64_t{sizeof(double)});
  }
}

TEST(zigzag_contexts, errors_are_thrown_on_every_rank) {
  const Grid mesh = make_mesh();
  const Space space;
  const int p       = mesh.size();
  const auto view   = [](index_t c, index_t n) { return make_view<double, 3>({1, c, n}); };
  const auto thrown = [&](const ZigzagContexts<Line>& contexts, const auto& first,
                          const auto& second, const auto& x,
                          std::initializer_list<const char*> parts) {
    const auto apply    = [&] { contexts.apply(space, first, second, x, mesh); };
    const auto pullback = [&] { contexts.pullback(space, x, first, second, mesh); };
    expect_parts(message_thrown_by<shard::ArgumentError>(apply), parts);
    expect_parts(message_thrown_by<shard::ArgumentError>(pullback), parts);
  };
  thrown({}, view(1, 2), view(1, 2), view(1, 3), {"zigzag_contexts", "extent 3", "equal chunks"});
  thrown({.dim = 3}, view(1, 2), view(1, 2), view(1, 4), {"zigzag_contexts", "is 3"});
  thrown({}, view(1, 2), view(1, 3), view(1, 4), {"[1, 1, 2]", "[1, 1, 3]", "dimension 2"});
  thrown({}, view(2, 2), view(2, 2), view(1, 4), {"[1, 2, 2]", "[1, 1, 4]", "dimension 1"});
  thrown({.size = 6 * p}, view(1, 2), view(1, 2), view(1, 4), {"zigzag_contexts", "has 6"});
  if (p > 1) {
    thrown({.size = 2 * p + 1}, view(1, 2), view(1, 2), view(1, 2), {"would be empty"});
    thrown({.size = 4 * p - 1}, view(1, 2), view(1, 2), view(1, 4), {"rank 0 has 3"});
    const auto contexts = [&] {
      const index_t width = mesh.rank() == p - 1 ? 3 : 2;
      shard::zigzag_contexts<Line>(space, view(1, width), view(1, width), view(1, 4), mesh);
    };
    expect_parts(message_thrown_by<shard::AgreementError>(contexts), {"[1, 1, 2]", "[1, 1, 3]"});
  }
}

TEST(zigzag_contexts, messages_in_steps) {
  const shard::testing::ScopedVariable limit("SHARD_MESSAGE_LIMIT", "7");
  const Grid mesh = make_mesh();
  check_contexts<double, Kokkos::LayoutRight>(mesh, 6 * mesh.size(), 4);
}

}  // namespace zigzag_test
