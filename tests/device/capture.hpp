// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_DEVICE_CAPTURE_HPP
#define SHARD_TESTS_DEVICE_CAPTURE_HPP

#include <shard/shard.hpp>

#include <functional>

namespace captured {

struct X;
struct Y;

/// Captures what `work` does on the native stream of `space` in a graph, and launches it `times`.
/// What is thrown while capturing leaves the stream as it was.
void run_graph(const Kokkos::DefaultExecutionSpace& space, int times,
               const std::function<void()>& work);

/// Two steps of a time loop, each an exchange and a stencil, from one field to another and back.
class Loop {
 public:
  using Space = Kokkos::DefaultExecutionSpace;
  using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
                                   shard::ShardDim<0, Y, shard::Halo<1>, shard::Periodic>,
                                   shard::ShardDim<1, X, shard::Halo<1>, shard::Periodic>>;

  /// Collective.
  explicit Loop(const shard::Mesh<Y, X>& mesh);
  void step(const Space& space) const;
  /// The same steps from a graph.
  void run_graph(const Space& space, int times) const;
  /// The same by Kokkos' own graphs; false where Kokkos has no capture.
  bool run_kokkos_graph(const Space& space, int times) const;
  /// A copy of the field in host memory, halos and all.
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> values() const;

 private:
  Field t_, next_;
  shard::Exchange<Field> halos_;
};

}  // namespace captured

#endif
