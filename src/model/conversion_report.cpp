// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/conversion_report.hpp"

#include <algorithm>
#include <map>

namespace shard {

int ConversionReport::replaced(std::string_view kind) const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(), [&](const auto& l) {
    return l.kind() == kind && !l.replaced_by.empty();
  }));
}

int ConversionReport::kept() const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(),
                                        [](const auto& l) { return l.replaced_by.empty(); }));
}

std::string ConversionReport::text() const {
  std::string out;
  std::map<std::string, int> counts;
  for (const ConvertedLayer& l : layers) {
    out += l.name + ": " + l.layer;
    if (l.replaced_by.empty()) {
      out += " stays";
    } else {
      out += " replaced by " + l.replaced_by + (l.custom ? " (custom)" : "");
      ++counts[l.kind()];
    }
    if (!l.halo.empty()) out += ", halo " + l.halo;
    if (!l.merged.empty()) out += "; one exchange for " + l.merged;
    if (l.gathered) out += "; computed by one rank";
    out += '\n';
  }
  out += "replaced:";
  for (const auto& [kind, count] : counts) out += " " + std::to_string(count) + " " + kind;
  return out + (counts.empty() ? " nothing" : "") + "; kept: " + std::to_string(kept()) + "\n";
}

namespace impl {

std::string clean_type_name(std::string_view function) {
  // "... [with T = shard::Conv<...>; std::string = ...]" of GCC, "... [T = shard::Conv<...>]" of
  // Clang
  const std::size_t begin = function.find("T = ");
  std::string name(begin == std::string_view::npos ? function : function.substr(begin + 4));
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '{' || name[i] == '(') ++depth;
    if (name[i] == '>' || name[i] == '}' || name[i] == ')') --depth;
    if (depth == 0 && (name[i] == ';' || name[i] == ']')) {
      name.resize(i);
      break;
    }
  }
  for (const std::string_view prefix : {"shard::", "(anonymous namespace)::", "{anonymous}::"})
    for (std::size_t at = name.find(prefix); at != std::string::npos; at = name.find(prefix, at))
      name.erase(at, prefix.size());
  return name;
}

std::string halo_text(const std::vector<LowHigh>& sides) {
  std::string out;
  bool any = false;
  for (const LowHigh& s : sides) {
    any = any || s.lo + s.hi > 0;
    out += (out.empty() ? "" : " x ") + std::to_string(s.lo) + "+" + std::to_string(s.hi);
  }
  return any ? out : "";
}

}  // namespace impl
}  // namespace shard
