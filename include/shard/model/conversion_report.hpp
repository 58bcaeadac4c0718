// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_CONVERSION_REPORT_HPP
#define SHARD_MODEL_CONVERSION_REPORT_HPP

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/model/domain_parallel.hpp"

namespace shard {

/// What became of one layer.
struct ConvertedLayer {
  std::string name;         ///< path in the model: "0", "encoder.1"
  std::string layer;        ///< its type
  std::string replaced_by;  ///< the type that runs in its place; empty: it stays
  std::string halo;         ///< of its input, dimension by dimension in space: "1+1 x 2+0"
  bool custom = false;      ///< a converter of the user's replaced it

  /// "Conv": its type without arguments.
  std::string kind() const { return layer.substr(0, layer.find('<')); }
};

/// What domain_parallel did, layer by layer.
struct ConversionReport {
  std::vector<ConvertedLayer> layers;  ///< in order

  /// How many layers of a kind ("Conv") were replaced.
  int replaced(std::string_view kind) const;
  /// How many layers stay as they are.
  int kept() const;
  /// A table, a line per layer, and the counts.
  std::string text() const;
};

namespace impl {

/// A type's name as the compiler writes it, without `shard::`.
std::string clean_type_name(std::string_view function);
template <class T>
std::string type_name() {
  return clean_type_name(__PRETTY_FUNCTION__);
}

std::string halo_text(const std::vector<PaddingSides>& sides);

template <class Layer, class Axes>
std::string halo_of(const Axes&) {
  std::vector<PaddingSides> sides;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    (sides.push_back(halo_of_layer<Layer, Axes, D>()), ...);
  }
  (std::make_integer_sequence<int, Axes::dims>{});
  return halo_text(sides);
}

template <class Axes>
struct Reporter {
  ConversionReport& report;

  template <class Serial, class Now>
  void visit(const std::string& name, const Serial& serial, const Now& now) const {
    if constexpr (
        requires { children_of(serial); } && requires { children_of(now); })
      visit_children(name, children_of(serial), children_of(now));
    else if constexpr (requires { children_of(serial); })
      for_each_module(name, serial, [&](const std::string& n, const auto& m) {
        add<typename std::remove_cvref_t<decltype(m)>::layer_type, Now>(n, true);
      });
    else
      visit_layer<typename Serial::layer_type>(name, now);
  }

 private:
  template <class... A, class... B>
  void visit_children(const std::string& prefix, const ModuleList<A...>& serial,
                      const ModuleList<B...>& now) const {
    static_assert(sizeof...(A) == sizeof...(B), "a converter replaces module by module");
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto one = [&](std::size_t i, const auto& a, const auto& b) {
        const std::string own = a.name.size() > 0 ? std::string(a.name.text) : std::to_string(i);
        visit(prefix.empty() ? own : prefix + "." + own, a.module, b.module);
      };
      (one(I, std::get<I>(serial.children), std::get<I>(now.children)), ...);
    }
    (std::index_sequence_for<A...>{});
  }
  template <class Layer, class Now>
  void visit_layer(const std::string& name, const Now&) const {
    add<Layer, Now>(name, true);
  }
  template <class Layer, class T, class Memory, class Runs>
  void visit_layer(const std::string& name, const Module<T, Memory, Runs>&) const {
    constexpr bool stays = std::is_same_v<Layer, Runs>;
    add<Layer, Runs>(name, !stays && !is_domain_parallel_of<Layer, Runs>());
    if constexpr (stays) report.layers.back().replaced_by.clear();
    report.layers.back().halo = halo_of<Runs>(Axes{});
  }
  template <class Layer, class Runs>
  static constexpr bool is_domain_parallel_of() {
    if constexpr (requires { typename Runs::serial_type; })
      return std::is_same_v<typename Runs::serial_type, Layer>;
    else
      return false;
  }
  template <class Layer, class Now>
  void add(const std::string& name, bool custom) const {
    report.layers.push_back({name, type_name<Layer>(), type_name<Now>(), "", custom});
  }
};

}  // namespace impl

/// What domain_parallel made of a model: which layers were replaced by what, with which halo, and
/// which stay. Local.
template <class T, class Memory, class Root, class Sharded>
ConversionReport conversion_report(const Model<T, Memory, Root>& model, const Sharded& sharded) {
  ConversionReport report;
  impl::Reporter<typename Sharded::axes_type>{report}.visit("", model.root(), sharded.root());
  return report;
}

}  // namespace shard

#endif
