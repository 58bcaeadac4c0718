// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_VALIDATE_SHARDING_HPP
#define SHARD_MODEL_VALIDATE_SHARDING_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/model/domain_parallel.hpp"

namespace shard {

/// A property of a sharding that costs time. Results are right in any case.
enum class Misfit : std::uint8_t {
  window_across_shards,  ///< shards don't begin at multiples of the stride: the halo is wider
  shard_below_halo,      ///< a shard has fewer points than its neighbour's halo: more messages
  empty_shard,           ///< a rank owns nothing
  uneven_work,           ///< the largest shard has over 5 % more than the mean
};

/// A Misfit with its numbers, a literal type.
struct Finding {
  int layer     = 0;                    ///< counted from 0 in the order of the model
  int dim       = 0;                    ///< of the field [batch, channel, space...]
  Misfit misfit = Misfit::empty_shard;  ///< its kind
  index_t has   = 0;                    ///< stride's remainder, points of the least shard, parts
  index_t wants = 0;                    ///< stride, halo, points, points of the largest shard
  double cost =
      0.0;  ///< wider halo in points, number of source ranks, empty ranks, share of idle time

  /// Whether all members are equal.
  friend constexpr bool operator==(const Finding&, const Finding&) = default;
};

/// A list for compile time. Findings beyond `room` are only counted.
struct Findings {
  static constexpr int room      = 64;  ///< capacity of the list
  std::array<Finding, room> list = {};  ///< the first `count`
  int count                      = 0;   ///< number of findings, also those beyond `room`
  constexpr bool empty() const { return count == 0; }  ///< whether the model fits
  /// Adds one.
  constexpr void add(const Finding& f) {
    if (count < room) list[static_cast<std::size_t>(count)] = f;
    ++count;
  }
};

/// A finding as text.
struct ShardingFinding {
  Finding finding;  ///< its numbers
  std::string
      place;         ///< "encoder.1, dimension 2": the layer's path; of a list of windows "level 1"
  std::string text;  ///< the place, the misfit, and its cost
};

namespace impl {

/// The partition of one dimension after any number of strides: a balanced partition and the
/// strides.
struct LevelOf {
  static constexpr int most = 32;
  index_t n = 0, base = 0;
  int parts = 1, steps = 0;
  std::array<index_t, most> stride = {}, size = {};  // a negative stride refines

  constexpr index_t begin(int r) const {
    if (r == 0) return 0;
    if (r == parts) return n;
    const index_t more = base % parts;
    index_t b          = r * (base / parts) + (r < more ? r : more);
    for (int s = 0; s < steps; ++s) {
      const auto i = static_cast<std::size_t>(s);
      b            = stride[i] > 0 ? ceil_div(b, stride[i]) : -b * stride[i];
      b            = b < size[i] ? b : size[i];
    }
    return b;
  }
  constexpr index_t cells(int r) const { return begin(r + 1) - begin(r); }
  constexpr LevelOf then(index_t by, index_t to) const {
    LevelOf next = *this;
    next.n       = to;
    if ((by > 1 || by < -1 || to != n) && steps < most) {
      next.stride[static_cast<std::size_t>(steps)] = by;
      next.size[static_cast<std::size_t>(steps)]   = to;
      ++next.steps;
    }
    return next;
  }
};

/// The same of a partition.
struct LevelOfPartition {
  const Partition& partition;
  index_t n = partition.size();
  int parts = partition.parts();

  index_t begin(int r) const { return partition.begin(r); }
  index_t cells(int r) const { return partition.count(r); }
};

template <class Level>
constexpr void check_work(Findings& found, int layer, int dim, const Level& level) {
  index_t largest = 0, empty = 0;
  for (int r = 0; r < level.parts; ++r) {
    const index_t cells = level.cells(r);
    largest             = cells > largest ? cells : largest;
    empty += cells == 0 ? 1 : 0;
  }
  if (empty > 0)
    found.add(
        Finding{layer, dim, Misfit::empty_shard, level.parts, level.n, static_cast<double>(empty)});
  const double mean = static_cast<double>(level.n) / level.parts;
  if (static_cast<double>(largest) > 1.05 * mean && level.n > 0)
    found.add(Finding{layer, dim, Misfit::uneven_work, level.parts, largest,
                      1.0 - mean / static_cast<double>(largest)});
}

template <class Level>
constexpr void check_window(Findings& found, int layer, int dim, const Level& level, int stride,
                            LowHigh required, LowHigh aligned) {
  index_t remainder = 0, least = level.n;
  for (int r = 0; r < level.parts; ++r) {
    if (r > 0 && level.begin(r) % stride != 0 && level.begin(r) < level.n)
      remainder = level.begin(r) % stride;
    const index_t cells = level.cells(r);
    least               = cells < least ? cells : least;
  }
  const int wider = required.lo + required.hi - aligned.lo - aligned.hi;
  if (remainder != 0)
    found.add(Finding{layer, dim, Misfit::window_across_shards, remainder, stride,
                      static_cast<double>(wider > 0 ? wider : 0)});
  const index_t halo = required.lo > required.hi ? required.lo : required.hi;
  if (level.parts > 1 && least < halo)
    found.add(Finding{layer, dim, Misfit::shard_below_halo, least, halo,
                      static_cast<double>(least > 0 ? ceil_div(halo, least) : level.parts - 1)});
}

/// Walks a model's type with the extents in space.
template <int Dims>
struct Validator {
  std::array<LevelOf, static_cast<std::size_t>(Dims)> levels;
  Findings found;
  int layer = 0;

  template <class T, class Memory, class Layer>
  constexpr void visit(const Module<T, Memory, Layer>*) {
    for (int d = 0; d < Dims; ++d) {
      LevelOf& level      = levels[static_cast<std::size_t>(d)];
      const LevelOf input = level;
      bool coarser        = false;
      if constexpr (requires {
                      Layer::window(0);
                      Layer::halo_bound(0);
                    }) {
        const Window w    = Layer::window(d);
        constexpr bool up = is_transposed_v<Layer>;
        check_window(found, layer, d + 2, level, up ? 1 : w.stride, Layer::halo_bound(d),
                     Layer::aligned_halo_bound(d));
        coarser = !up && w.stride > 1;
        level   = level.then(up ? -w.stride : w.stride, Layer::output_extent(d, level.n));
      } else if constexpr (requires {
                             Layer::factor;
                             Layer::output_extent(0, 1);
                           }) {
        const index_t n = Layer::output_extent(d, level.n);
        coarser         = n < level.n;
        if (n != level.n) level = level.then(coarser ? Layer::factor : -Layer::factor, n);
      }
      if (layer == 0) check_work(found, layer, d + 2, input);
      if (coarser) check_work(found, layer, d + 2, level);
    }
    ++layer;
  }
  template <class... Children>
  constexpr void visit(const ModuleList<Children...>*) {
    (visit(static_cast<const decltype(Children::module)*>(nullptr)), ...);
  }
  template <class List>
  constexpr void visit(const ResidualModule<List>*) {
    visit_skipped(static_cast<const List*>(nullptr));
  }
  template <class List>
  constexpr void visit(const ConcatModule<List>*) {
    visit_skipped(static_cast<const List*>(nullptr));
  }

 private:
  template <class List>
  constexpr void visit_skipped(const List* list) {
    const auto before = levels;
    visit(list);
    levels = before;  // the output has the input's partitions
  }
};

ShardingFinding in_words(const Finding& finding, std::string place);

}  // namespace impl

/// The findings for a model of this type on fields with these spatial extents, each in a number of
/// balanced parts, at compile time. `validate_sharding` returns the same as text.
template <class ModelType, std::size_t Dims>
constexpr Findings sharding_findings(const std::array<index_t, Dims>& extents,
                                     const std::array<int, Dims>& parts) {
  impl::Validator<static_cast<int>(Dims)> v{};
  for (std::size_t d = 0; d < Dims; ++d) {
    v.levels[d].n = v.levels[d].base = extents[d];
    v.levels[d].parts                = parts[d];
  }
  v.visit(static_cast<const typename ModelType::root_type*>(nullptr));
  return v.found;
}

/// Lists, layer by layer, the causes of lost time if the model runs on fields with these global
/// extents [batch, channel, space...], sharded over the mesh by `Cuts` (see domain_parallel). Empty
/// if nothing does. Results are right in any case. Windows and strides are read from the model's
/// type. Local.
template <class... Cuts, class T, class Memory, class Root, int Rank, class... MeshAxes>
std::vector<ShardingFinding> validate_sharding(const Model<T, Memory, Root>& model,
                                               const Extents<Rank>& extents,
                                               const Mesh<MeshAxes...>& mesh) {
  using Axes                 = typename impl::CutAxesOf<Rank - 2, Cuts...>::type;
  constexpr std::size_t dims = static_cast<std::size_t>(Rank - 2);
  std::array<index_t, dims> space{};
  std::array<int, dims> parts{};
  [&]<int... D>(std::integer_sequence<int, D...>) {
    const auto size = [&]<class Axis>(std::type_identity<Axis>) {
      if constexpr (std::is_same_v<Axis, Unsharded>)
        return 1;
      else
        return mesh.template size<Axis>();
    };
    ((space[static_cast<std::size_t>(D)] = extents[D + 2],
      parts[static_cast<std::size_t>(D)] =
          size(std::type_identity<typename Axes::template axis<D>>{})),
     ...);
  }
  (std::make_integer_sequence<int, Rank - 2>{});
  std::vector<std::string> names;
  impl::for_each_module("", model.root(),
                        [&](const std::string& name, const auto&) { names.push_back(name); });
  const Findings found = sharding_findings<Model<T, Memory, Root>>(space, parts);
  std::vector<ShardingFinding> all;
  for (int i = 0; i < found.count && i < Findings::room; ++i) {
    const Finding& f = found.list[static_cast<std::size_t>(i)];
    all.push_back(impl::in_words(
        f, names[static_cast<std::size_t>(f.layer)] + ", dimension " + std::to_string(f.dim)));
  }
  return all;
}

/// The same for a model on its mesh, a struct too, and inputs like these, of any partitions: its
/// layers in the order in which its function runs them. A layer's place is the name of its
/// parameters, or its type if it has none. Collective over the mesh.
template <class T, class Memory, class Root, class MeshType, class Axes, class... X>
std::vector<ShardingFinding> validate_sharding(
    const ShardedModel<T, Memory, Root, MeshType, Axes>& model, const X&... x) {
  const auto uses = model.uses_for(x...);
  std::vector<ShardingFinding> all;
  int layer = 0;
  for (const auto& use : uses) {
    Findings found;
    for (int d = 2; d < Axes::rank; ++d) {
      const auto i     = static_cast<std::size_t>(d);
      const auto& side = use.sides[i];
      const impl::LevelOfPartition in{use.input[i]}, out{use.output[i]};
      if (side.stride > 0)
        impl::check_window(found, layer, d, in, side.stride, side.required, side.aligned);
      if (layer == 0) impl::check_work(found, layer, d, in);
      if (out.n < in.n) impl::check_work(found, layer, d, out);
    }
    std::string place = use.type();
    place             = place.substr(0, place.find('<'));
    for (const ParameterEntry& e : model.parameters().entries())
      if (use.weight != nullptr && model.parameters().values().data() + e.offset == use.weight)
        place = e.name.substr(0, e.name.rfind('.'));
    for (int i = 0; i < found.count; ++i) {
      const Finding& f = found.list[static_cast<std::size_t>(i)];
      all.push_back(impl::in_words(f, place + ", dimension " + std::to_string(f.dim)));
    }
    ++layer;
  }
  return all;
}

/// The same for the arguments of credit.domain_parallel: a shard of `local_extent` points and the
/// windows of a model's levels, each with half the points of the previous one.
std::vector<ShardingFinding> validate_sharding(index_t local_extent,
                                               const std::vector<index_t>& windows);

}  // namespace shard

#endif
