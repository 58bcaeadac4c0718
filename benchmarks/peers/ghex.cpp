// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GHEX' communication object with all fields in one exchange, on the fields' own memory. GHEX is
// given the dimensions from fast to slow: in this order its packing copies the longest runs.
#include <ghex/config.hpp>

#include <ghex/communication_object.hpp>
#include <ghex/structured/pattern.hpp>
#include <ghex/structured/regular/domain_descriptor.hpp>
#include <ghex/structured/regular/field_descriptor.hpp>
#include <ghex/structured/regular/halo_generator.hpp>
#include <gridtools/common/layout_map.hpp>

#include "problem.hpp"

namespace peers {

namespace {

using Dims   = std::integral_constant<int, dims>;
using Domain = ghex::structured::regular::domain_descriptor<int, Dims>;
using Halos  = ghex::structured::regular::halo_generator<int, Dims>;
using Layout = gridtools::layout_map<2, 1, 0>;  // the first dimension is the fastest
using Point  = std::array<int, dims>;

/// The dimensions from fast to slow.
std::array<std::size_t, dims> from_fast(const Problem& p) {
  std::array<std::size_t, dims> order{0, 1, 2};
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p.stride[a] < p.stride[b]; });
  return order;
}

/// A problem in GHEX' terms.
struct Grid {
  Point first{}, last{}, global_last{}, before{}, extent{};
  std::array<int, 2 * dims> halos{};
  std::array<bool, dims> periodic{};
  index_t offset = 0;  ///< from the first value of a field's memory to the first owned cell
  int rank       = 0;

  explicit Grid(const Problem& p) {
    MPI_Comm_rank(p.comm, &rank);
    const auto order = from_fast(p);
    for (std::size_t k = 0; k < dims; ++k) {
      const std::size_t d = order[k];
      first[k]            = static_cast<int>(p.begin[d]);
      last[k]             = static_cast<int>(p.begin[d] + p.extent[d] - 1);
      global_last[k]      = static_cast<int>(p.global[d] - 1);
      before[k]           = p.width[d];
      extent[k]           = static_cast<int>(p.extent[d]) + 2 * p.width[d];
      halos[2 * k] = halos[2 * k + 1] = p.width[d];
      periodic[k]                     = p.width[d] > 0;
      offset += p.width[d] * p.stride[d];
    }
  }
  Domain domain() const { return {rank, first, last}; }
};

template <class T>
class Ghex : public Competitor {
  static auto wrap(const Grid& grid, T* data) {
    return ghex::wrap_field<ghex::cpu, Layout>(grid.domain(), data, grid.before, grid.extent);
  }
  static auto make_pattern(ghex::context& context, const Grid& grid) {
    const Halos halos(Point{}, grid.global_last, grid.halos, grid.periodic);
    const std::vector<Domain> domains{grid.domain()};
    return ghex::make_pattern<ghex::structured::grid>(context, halos, domains);
  }
  using Field = decltype(wrap(std::declval<const Grid&>(), nullptr));
  using Pattern =
      decltype(make_pattern(std::declval<ghex::context&>(), std::declval<const Grid&>()));
  using Info   = decltype(std::declval<Pattern&>()(std::declval<Field&>()));
  using Object = decltype(ghex::make_communication_object<Pattern>(std::declval<ghex::context&>()));

 public:
  Ghex(const Problem& p, const Grid& grid)
      : context_(p.comm, false),
        pattern_(make_pattern(context_, grid)),
        object_(ghex::make_communication_object<Pattern>(context_)) {
    for (std::byte* origin : p.origins)
      fields_.push_back(wrap(grid, reinterpret_cast<T*>(origin) - grid.offset));
    for (Field& field : fields_) infos_.push_back(pattern_(field));
  }
  void exchange() override { object_.exchange(infos_.begin(), infos_.end()).wait(); }

 private:
  ghex::context context_;
  Pattern pattern_;
  Object object_;
  std::vector<Field> fields_;
  std::vector<Info> infos_;  // of these fields, at their addresses
};

}  // namespace

std::unique_ptr<Competitor> make_ghex(const Problem& p, std::string& reason) {
  const auto order = from_fast(p);
  index_t packed   = 1;
  for (const std::size_t d : order) {
    if (p.stride[d] != packed) {
      reason = "a field's memory is padded";
      return nullptr;
    }
    packed *= p.extent[d] + 2 * p.width[d];
  }
  const Grid grid(p);
  if (p.value_bytes == sizeof(float)) return std::make_unique<Ghex<float>>(p, grid);
  return std::make_unique<Ghex<double>>(p, grid);
}

}  // namespace peers
