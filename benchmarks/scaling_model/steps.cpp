// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace scaling {

namespace {

using imagined::Kind;
using imagined::Part;

constexpr double micro = 1e-6, giga = 1e9, kilo = 1e3;
constexpr double long_sum = 10e3;  // bytes from which a sum goes round a ring (Open MPI's choice)

double log2_up(int n) { return n > 1 ? std::ceil(std::log2(n)) : 0; }

/// The way out of a node: a token bucket.
struct Link {
  double tokens = 0, at = -1;  // bytes; seconds, when the last message had left

  /// The time when this many bytes have left that begin to leave at `t`. Long messages that follow
  /// one another stop now and then for the other side's answers: their rate includes that.
  double leave(double bytes, double t, bool is_long, const Machine& m) {
    const double rate = m.node_GBs * giga, fast = (m.far_GBs > 0 ? m.far_GBs : m.node_GBs) * giga;
    const bool stops    = is_long && m.long_GBs > 0 && t < at + m.quiet_us * micro;
    const double steady = stops ? m.long_GBs * giga : rate;
    t                   = std::max(t, at);
    tokens              = std::min(m.burst_kB * kilo, tokens + rate * (t - at));
    const double takes  = std::max(bytes / fast, (bytes - tokens) / steady);
    tokens              = std::max(0.0, stops ? tokens - bytes : tokens + rate * takes - bytes);
    return at           = t + takes;
  }
};

class Simulation {
 public:
  Simulation(const std::vector<Recorded>& ranks, int all_ranks, const Machine& machine, int only)
      : ranks_(ranks), all_(all_ranks), only_(only), m_(machine) {
    per_node_ = std::min(m_.ranks_per_node, all_);
    // those of one rank are enough where all are alike
    const int nodes = ranks.size() == 1 ? 1 : (all_ + per_node_ - 1) / per_node_;
    links_.resize(static_cast<std::size_t>(nodes), {.tokens = m_.burst_kB * kilo});
  }

  StepTime step() {
    const double begin = now_;
    StepTime time;
    for (std::size_t p = 0; p < ranks_[0].size(); ++p) {
      double end = now_, computed = now_;
      for (int node = 0; node < static_cast<int>(links_.size()); ++node) {
        const auto [compute_end, node_end] = part(p, node);
        computed                           = std::max(computed, compute_end);
        end                                = std::max(end, node_end);
      }
      time.compute += computed - now_;
      now_ = end;
    }
    time.total = now_ - begin;
    return time;
  }

 private:
  const Part& part_of(std::size_t p, int rank) const {
    return ranks_[ranks_.size() == 1 ? 0 : static_cast<std::size_t>(rank)][p];
  }
  int node_of(int rank) const { return rank / per_node_; }
  struct Out {  // messages of a rank to other nodes
    double ready = 0, bytes = 0;
    bool waits = false;  // for an answer
  };

  /// When the ranks of a node have computed part p, and when the part has ended there.
  std::pair<double, double> part(std::size_t p, int node) {
    const int here  = ranks_.size() == 1 ? node_of(only_) : node;
    const int first = node * per_node_, last = std::min(all_, first + per_node_);
    std::vector<double> core(
        static_cast<std::size_t>(m_.cores_per_node > 0 ? m_.cores_per_node : per_node_), now_);
    double end = now_;
    std::vector<Out> out;
    for (int rank = first; rank < last; ++rank) {
      const Part& part = part_of(p, rank);
      double& free     = *std::min_element(core.begin(), core.end());
      free += part.seconds;
      int near = 0, far = 0;
      double near_bytes = 0;
      Out eager, asked{.waits = true};
      for (const imagined::Message& message : part.sends)
        if (node_of(message.peer) == here) {
          ++near;
          near_bytes += message.bytes;
        } else {
          ++far;
          const bool is_long = m_.eager_kB > 0 && message.bytes > m_.eager_kB * kilo;
          (is_long ? asked : eager).bytes += message.bytes;
        }
      free += std::max(0, near + far - 1) * m_.message_us * micro;
      if (near > 0)
        end = std::max(end, free + m_.near_latency_us * micro + near_bytes / (m_.near_GBs * giga));
      for (Out* of : {&eager, &asked})
        if (of->bytes > 0) {
          of->ready = free;
          out.push_back(*of);
        }
    }
    const double computed = *std::max_element(core.begin(), core.end());
    for (Out& of : out)
      if (of.waits) of.ready = computed + 2 * m_.far_latency_us * micro;
    std::sort(out.begin(), out.end(), [](const Out& a, const Out& b) { return a.ready < b.ready; });
    Link& link = links_[static_cast<std::size_t>(node)];
    for (const Out& of : out)
      end = std::max(end, link.leave(of.bytes, of.ready, of.waits, m_) + m_.far_latency_us * micro);
    end = std::max(end, computed);
    if (const Part& part = part_of(p, first); part.kind > Kind::messages)
      end = collective(part, end, link);
    return {computed, end};
  }

  double collective(const Part& part, double begin, Link& link) {
    const int n = part.ranks, here = std::min(n, per_node_), nodes = (n + here - 1) / here;
    const bool leaves = nodes > 1, is_long = m_.eager_kB > 0 && part.bytes > m_.eager_kB * kilo;
    const double stages = log2_up(here) * m_.near_latency_us + log2_up(nodes) * m_.far_latency_us;
    double latency = stages, bytes = 0;  // of a node
    switch (part.kind) {
      case Kind::sum:
        if (part.bytes > long_sum) {
          latency = 2 * (n - 1) * (leaves ? m_.far_latency_us : m_.near_latency_us);
          bytes   = 2.0 * (n - 1) / n * part.bytes;
        } else {
          bytes = log2_up(nodes) * here * part.bytes;
        }
        break;
      case Kind::gather:
      case Kind::all_to_all:
        bytes = static_cast<double>(here) * (n - here) * part.bytes;
        if (part.kind == Kind::all_to_all)
          latency = (leaves ? m_.far_latency_us : m_.near_latency_us) + (n - 2) * m_.message_us;
        break;
      default: break;
    }
    const double left = leaves ? link.leave(bytes, begin, is_long, m_)
                               : begin + (n - 1) * part.bytes / (m_.near_GBs * giga);
    return left + latency * micro;
  }

  const std::vector<Recorded>& ranks_;
  int all_, only_, per_node_ = 1;
  Machine m_;
  std::vector<Link> links_;
  double now_ = 0;
};

}  // namespace

StepTime time_of_step(const std::vector<Recorded>& ranks, int all_ranks, const Machine& machine,
                      int only) {
  const bool alike = std::all_of(ranks.begin(), ranks.end(), [&](const Recorded& rank) {
    return std::equal(
        rank.begin(), rank.end(), ranks[0].begin(), ranks[0].end(),
        [](const imagined::Part& a, const imagined::Part& b) { return a.kind == b.kind; });
  });
  if (!alike) {  // some ranks wait more often than others: the slowest, as if all were like it
    StepTime worst;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const StepTime time = time_of_step({ranks[rank]}, all_ranks, machine, static_cast<int>(rank));
      if (time.total > worst.total) worst = time;
    }
    return worst;
  }
  Simulation simulation(ranks, all_ranks, machine, only);
  StepTime last;
  for (int step = 0; step < 4; ++step) last = simulation.step();  // until the bucket is steady
  return last;
}

}  // namespace scaling
