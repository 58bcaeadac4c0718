// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_CONVERSION_REPORT_HPP
#define SHARD_MODEL_CONVERSION_REPORT_HPP

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/model/domain_parallel.hpp"
#include "shard/model/impl/flat_list.hpp"
#include "shard/model/impl/window_use.hpp"

namespace shard {

/// The conversion of one layer.
struct ConvertedLayer {
  std::string name;            ///< path in the model: "0", "encoder.1"
  std::string layer;           ///< its type
  std::string replaced_by;     ///< the type that replaces it; empty: unchanged
  std::string halo;            ///< of its input, by spatial dimension: "1+1 x 2+0"
  bool custom        = false;  ///< a user's converter replaced it
  std::string merged = {};     ///< its chain of merged layers, and the halo of that chain's
                               ///< exchange: "0 to 2, halo 3+3 x 0+0"; empty: not merged
  bool gathered = false;       ///< one rank computes it: see Gathered

  /// "Conv": its type without arguments.
  std::string kind() const { return layer.substr(0, layer.find('<')); }
};

/// The result of domain_parallel, layer by layer.
struct ConversionReport {
  std::vector<ConvertedLayer> layers;  ///< in order

  /// How many layers of a kind ("Conv") were replaced.
  int replaced(std::string_view kind) const;
  /// How many layers are unchanged.
  int kept() const;
  /// A table, a line per layer, and the counts.
  std::string text() const;
};

namespace impl {

std::string halo_text(const std::vector<LowHigh>& sides);

template <class Layer, class Axes>
std::string halo_of(const Axes&) {
  std::vector<LowHigh> sides;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    (sides.push_back(halo_of_layer<Layer, Axes, D>()), ...);
  }
  (std::make_integer_sequence<int, Axes::dims>{});
  return halo_text(sides);
}

template <class Axes>
struct Reporter {
  ConversionReport& report;

  /// `ends`: for each module of a list with merged exchanges, the number of layers listed after it.
  template <class Serial, class Now>
  void visit(const std::string& name, const Serial& serial, const Now& now,
             std::vector<std::size_t>* ends = nullptr) const {
    if constexpr (requires { serial.items; }) {
      for (std::size_t i = 0; i < serial.items.size(); ++i)
        visit(name + "." + std::to_string(i), serial.items[i], now.items[i]);
    } else if constexpr (
        requires { children_of(serial); } && requires { children_of(now); }) {
      if constexpr (joins_list_v<Now>) {
        visit_children(name, children_of(serial), children_of(now), ends);
        return;
      } else {
        const std::size_t first = report.layers.size();
        std::vector<std::size_t> own;
        visit_children(name, children_of(serial), children_of(now), &own);
        if constexpr (requires { typename Now::chains; })
          note_chains<Now>(first, own);
        else
          note_chains<std::remove_cvref_t<decltype(children_of(now))>>(first, own);
      }
    } else if constexpr (requires { children_of(serial); }) {
      for_each_module(name, serial, [&](const std::string& n, const auto& m) {
        add<typename std::remove_cvref_t<decltype(m)>::layer_type, Now>(n, true);
      });
    } else {
      visit_layer<typename Serial::layer_type>(name, now);
    }
    if (ends != nullptr) ends->insert(ends->end(), modules_in_list<Now>(), report.layers.size());
  }

 private:
  template <class... A, class... B>
  void visit_children(const std::string& prefix, const ModuleList<A...>& serial,
                      const ModuleList<B...>& now, std::vector<std::size_t>* ends) const {
    static_assert(sizeof...(A) == sizeof...(B), "a converter replaces module by module");
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto one = [&](std::size_t i, const auto& a, const auto& b) {
        const std::string own = a.name.size() > 0 ? std::string(a.name.text) : std::to_string(i);
        visit(prefix.empty() ? own : prefix + "." + own, a.module, b.module, ends);
      };
      (one(I, std::get<I>(serial.children), std::get<I>(now.children)), ...);
    }
    (std::index_sequence_for<A...>{});
  }
  template <class List>
  void note_chains(std::size_t first, const std::vector<std::size_t>& ends) const {
    if constexpr (requires { typename List::chains; }) {
      using Chains = typename List::chains;
      for (int c = 0; c < Chains::plan.chains; ++c) {
        const std::size_t end = ends[static_cast<std::size_t>(Chains::begin(c + 1) - 1)];
        if (Chains::begin(c + 1) - Chains::begin(c) > 1) {
          std::vector<LowHigh> sides;
          const auto halo = Chains::chain(c, 0).halo;
          for (std::size_t d = 0; d < static_cast<std::size_t>(Axes::dims); ++d)
            sides.push_back({halo[d][0], halo[d][1]});
          for (std::size_t l = first; l < end; ++l)
            report.layers[l].merged = report.layers[first].name + " to " +
                                      report.layers[end - 1].name + ", halo " + halo_text(sides);
        }
        first = end;
      }
    }
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
    report.layers.back().halo     = halo_of<Runs>(Axes{});
    report.layers.back().gathered = is_gathered_v<Layer>;
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
    report.layers.push_back({name, layer_type_name<Layer>(), layer_type_name<Now>(), "", custom});
  }
};

}  // namespace impl

/// Reports which layers domain_parallel replaced, by what and with which halo. Local.
template <class T, class Memory, class Root, class Sharded>
ConversionReport conversion_report(const Model<T, Memory, Root>& model, const Sharded& sharded) {
  ConversionReport report;
  impl::Reporter<typename Sharded::axes_type>{report}.visit("", model.root(), sharded.root());
  return report;
}

}  // namespace shard

#endif
