// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_C_NETWORK_HPP
#define SHARD_C_NETWORK_HPP

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "shard/c/impl/network.hpp"
#include "shard/mesh/mesh.hpp"

/// \file
/// Networks for programs in C and Fortran: a C++ file of the user's registers them by name, the
/// program opens them (shard_network_open).

namespace shard {

/// From now on shard_network_open finds a network under this name. `make(mesh)` returns a
/// ShardedModel; it is called with each open, on a mesh of the shape of C's, with the axes
/// `Axes...` in order. A name that is there already gets this network. Local; call it on every
/// rank, from a function that the program calls once:
///
///   extern "C" void register_networks() {
///     shard::register_network<Lat, Lon>("corrector", [](const shard::Mesh<Lat, Lon>& mesh) {
///       const auto model = shard::sequential<float>(Conv3{4, 32}, shard::SiLU{}, Conv3{32, 4});
///       return shard::domain_parallel<Lat, Lon>(model, mesh);
///     });
///   }
template <class... Axes, class Make>
void register_network(std::string name, const Make& make) {
  impl::add_network(
      std::move(name),
      [make](const std::shared_ptr<impl::MeshState>& state) -> std::unique_ptr<impl::AnyNetwork> {
        const Mesh<Axes...> mesh(state->comm(), state->logical());
        using Model = std::remove_cvref_t<decltype(make(mesh))>;
        return std::make_unique<impl::Network<Model>>(make(mesh), state);
      });
}

}  // namespace shard

#endif
