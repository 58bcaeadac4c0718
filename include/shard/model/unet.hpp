// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_UNET_HPP
#define SHARD_MODEL_UNET_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstdint>
#include <string>

#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/model/conv_block.hpp"
#include "shard/model/parameter_arena.hpp"

namespace shard {

/// The upsampling of a U-Net: a transposed convolution, or linear interpolation after a 1x1
/// convolution.
enum class Upward : std::uint8_t { transposed, interpolated };

/// Sizes of a UNet.
struct UNetSizes {
  index_t channels = 1;   ///< of input and output
  index_t width    = 16;  ///< channels of the finest level; each coarser one has twice as many
  index_t groups   = 4;   ///< of the group norms; divides width
};

/// A U-Net of three levels on a latitude-longitude grid. The network computes the change of the
/// state.
///
///   y = x + head(up(up(down(down(x)))))   with skips from each level down to the level up of the
///   same size
///
/// A level is two 3x3 convolutions, each with GroupNorm and SiLU; a downsampling convolution has
/// stride 2. Any extents and partitions are supported: upsampling takes the extents and partitions
/// of the skip connection. Fields are [batch, channel, latitude, longitude], latitude sharded over
/// LatAxis, longitude over LonAxis.
///
/// The constructor allocates everything; parameters and gradients are one array each.
template <class T, class LatAxis, class LonAxis, class LatBoundary, class LonBoundary,
          Upward Up = Upward::transposed>
class UNet {
 public:
  /// A field of the model, without halo.
  using Field = ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, LatAxis>, ShardDim<3, LonAxis>>;
  /// A field with the halo of one point that the convolutions need.
  using Haloed = ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, LatAxis, Halo<1>, LatBoundary>,
                             ShardDim<3, LonAxis, Halo<1>, LonBoundary>>;
  using Memory = typename Field::memory_space;  ///< memory space of all data
  using Arena  = ParameterArena<T, Memory>;     ///< all parameters, or all gradients
  using Partitions = std::array<Partition, 4>;  ///< of [batch, channel, latitude, longitude]

  /// Collective over the mesh. `latitude` and `longitude` are the partitions of the grid;
  /// parameters are drawn from `seed`, the same on every rank.
  template <class Space, class... MeshAxes>
  UNet(const Space& space, const Mesh<MeshAxes...>& mesh, const UNetSizes& sizes, index_t batch,
       const Partition& latitude, const Partition& longitude, std::uint64_t seed)
      : sizes_(sizes) {
    const index_t w   = sizes.width;
    const auto fields = [&](index_t channels, const Partitions& like) {
      Partitions p = like;
      p[1]         = Partition::balanced(channels, 1);
      return p;
    };
    const Partitions fine{Partition::balanced(batch, 1), Partition::balanced(sizes.channels, 1),
                          latitude, longitude};
    x_       = Haloed("unet x", mesh, fine);
    dx_      = Haloed("unet dx", mesh, fine);
    y_       = Field("unet y", mesh, fine);
    enter_   = Block<1>(mesh, sizes.channels, w, sizes.groups, x_);
    refine0_ = Block<1>(mesh, w, w, sizes.groups, enter_.y);
    down1_   = Block<2>(mesh, w, 2 * w, sizes.groups, refine0_.y);
    refine1_ = Block<1>(mesh, 2 * w, 2 * w, sizes.groups, down1_.y);
    down2_   = Block<2>(mesh, 2 * w, 4 * w, sizes.groups, refine1_.y);
    refine2_ = Block<1>(mesh, 4 * w, 4 * w, sizes.groups, down2_.y);
    up1_     = Rise(mesh, 4 * w, 2 * w, refine2_.y, refine1_.y);
    joined1_ = Haloed("unet joined 1", mesh, fields(4 * w, refine1_.y.partitions()));
    merge1_  = Block<1>(mesh, 4 * w, 2 * w, sizes.groups, joined1_);
    up0_     = Rise(mesh, 2 * w, w, merge1_.y, refine0_.y);
    joined0_ = Haloed("unet joined 0", mesh, fields(2 * w, refine0_.y.partitions()));
    merge0_  = Block<1>(mesh, 2 * w, w, sizes.groups, joined0_);
    head_    = {w, sizes.channels};

    djoined1_     = joined1_.like("unet d joined 1");
    djoined0_     = joined0_.like("unet d joined 0");
    dskip1_       = refine1_.y.like("unet d skip 1");
    dskip0_       = refine0_.y.like("unet d skip 0");
    dlow1_        = merge1_.y.like("unet d low 1");
    dlow2_        = refine2_.y.like("unet d low 2");
    dhead_        = merge0_.y.like("unet d head");
    index_t count = 0;
    for_each_layer([&](const std::string&, const auto& layer, auto&, auto&) {
      count += parameter_count(layer);
    });
    parameters_         = Arena("unet parameters", count);
    gradients_          = Arena("unet gradients", count);
    std::uint64_t index = 0;
    for_each_layer(
        [&](const std::string& name, const auto& layer, auto& parameters, auto& gradients) {
          parameters = parameters_.take(name, layer);
          gradients  = gradients_.take(name, layer);
          initialise(space, layer, parameters, seed, index++);
        });
  }

  /// The input; write its owned points before `apply`.
  const Haloed& input() const { return x_; }
  /// The output of the last `apply`.
  const Field& output() const { return y_; }
  /// dJ/dx after `pullback`.
  const Haloed& input_gradient() const { return dx_; }
  /// All parameters; the same on every rank.
  const Arena& parameters() const { return parameters_; }
  /// This rank's part of the parameters' gradients, which `pullback` adds to; their sum over the
  /// mesh is dJ/d(parameters).
  const Arena& gradients() const { return gradients_; }

  /// Computes output() from input(). Collective over the mesh.
  template <class Space>
  void apply(const Space& space) {
    enter_.apply(space, x_);
    refine0_.apply(space, enter_.y);
    down1_.apply(space, refine0_.y);
    refine1_.apply(space, down1_.y);
    down2_.apply(space, refine1_.y);
    refine2_.apply(space, down2_.y);
    up1_.apply(space, refine2_.y);
    concat_channels(space, joined1_, up1_.y, refine1_.y);
    merge1_.apply(space, joined1_);
    up0_.apply(space, merge1_.y);
    concat_channels(space, joined0_, up0_.y, refine0_.y);
    merge0_.apply(space, joined0_);
    head_.apply(space, head_parameters_, y_, merge0_.y);
    add(space, y_, y_, x_);
  }

  /// From dy = dJ/dy: adds to gradients() and sets input_gradient(). Collective over the mesh; call
  /// `apply` first.
  template <class Space>
  void pullback(const Space& space, const Field& dy) {
    head_.pullback(space, head_parameters_, head_gradients_, dhead_, dy, merge0_.y);
    merge0_.pullback(space, djoined0_, dhead_, joined0_);
    split_channels(space, djoined0_, up0_.dy, dskip0_);
    up0_.pullback(space, dlow1_, merge1_.y);
    merge1_.pullback(space, djoined1_, dlow1_, joined1_);
    split_channels(space, djoined1_, up1_.dy, dskip1_);
    up1_.pullback(space, dlow2_, refine2_.y);
    refine2_.pullback(space, down2_.dy, dlow2_, down2_.y);
    down2_.pullback(space, refine1_.dy, down2_.dy, refine1_.y);
    add_gradients(space, refine1_.dy, refine1_.dy, dskip1_);
    refine1_.pullback(space, down1_.dy, refine1_.dy, down1_.y);
    down1_.pullback(space, refine0_.dy, down1_.dy, refine0_.y);
    add_gradients(space, refine0_.dy, refine0_.dy, dskip0_);
    refine0_.pullback(space, enter_.dy, refine0_.dy, enter_.y);
    enter_.pullback(space, dx_, enter_.dy, x_);
    add_gradients(space, dx_, dx_, dy);
  }

  /// Calls visit(name, layer, parameters, gradients) for each layer that has parameters, in their
  /// order in the arrays.
  template <class Visit>
  void for_each_layer(const Visit& visit) {
    enter_.for_each_layer("enter", visit);
    refine0_.for_each_layer("refine0", visit);
    down1_.for_each_layer("down1", visit);
    refine1_.for_each_layer("refine1", visit);
    down2_.for_each_layer("down2", visit);
    refine2_.for_each_layer("refine2", visit);
    visit("up1", up1_.layer, up1_.parameters, up1_.gradients);
    merge1_.for_each_layer("merge1", visit);
    visit("up0", up0_.layer, up0_.parameters, up0_.gradients);
    merge0_.for_each_layer("merge0", visit);
    visit("head", head_, head_parameters_, head_gradients_);
  }

 private:
  template <int S>
  using Block = ConvBlock<Field, Haloed, S>;
  using Rise  = std::conditional_t<Up == Upward::transposed, TransposedRise<Field, Haloed>,
                                  InterpolatedRise<Field, Haloed>>;
  using Head  = Conv<Kernel<1, 1>>;

  UNetSizes sizes_;
  Haloed x_, dx_, joined0_, joined1_, djoined0_, djoined1_, dskip0_, dskip1_, dlow1_, dlow2_,
      dhead_;
  Field y_;
  Block<1> enter_, refine0_, refine1_, refine2_, merge0_, merge1_;
  Block<2> down1_, down2_;
  Rise up0_, up1_;
  Head head_;
  typename Head::template Parameters<T, Memory> head_parameters_, head_gradients_;
  Arena parameters_, gradients_;
};

}  // namespace shard

#endif
