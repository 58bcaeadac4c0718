// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_CURVE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_CURVE_HPP

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace scaling {

/// A value between two others, along a straight line in logarithms.
inline double between(double x, double low, double at_low, double high, double at_high) {
  const double share = std::log(x / low) / std::log(high / low);
  return at_low * std::pow(at_high / at_low, share);
}

/// Microseconds by bytes, both positive: straight lines between points in logarithms; before the
/// first point and after the last one in proportion to that.
class Curve {
 public:
  /// Of a point that is there already the least counts: other work on the machine only adds.
  void add(double bytes, double us) {
    const auto at = points_.emplace(bytes, us).first;
    at->second    = std::min(at->second, us);
  }
  bool empty() const { return points_.empty(); }

  double operator()(double bytes) const {
    const auto above = points_.lower_bound(bytes);
    if (above == points_.begin()) return above->second * bytes / above->first;
    const auto below = std::prev(above);
    if (above == points_.end()) return below->second * bytes / below->first;
    return between(bytes, below->first, below->second, above->first, above->second);
  }
  template <class Visit>
  void for_points(const Visit& visit) const {
    for (const auto& [bytes, us] : points_) visit(bytes, us);
  }

 private:
  std::map<double, double> points_;
};

/// Curves by a further quantity, or families of curves; before the first and after the last of them
/// what is there.
template <class Member>
class Family {
 public:
  template <class... More>
  void add(double key, More... more) {
    members_[key].add(more...);
  }
  bool empty() const { return members_.empty(); }

  template <class... More>
  double operator()(double key, More... more) const {
    const auto above = members_.lower_bound(key);
    if (above == members_.begin()) return above->second(more...);
    const auto below = std::prev(above);
    if (above == members_.end()) return below->second(more...);
    return between(key, below->first, below->second(more...), above->first, above->second(more...));
  }
  template <class Visit>
  void for_points(const Visit& visit) const {
    for (const auto& [key, member] : members_)
      member.for_points([&, k = key](auto... more) { visit(k, more...); });
  }

 private:
  std::map<double, Member> members_;
};

}  // namespace scaling

#endif
