// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_VENDOR_LIBRARY_HPP
#define SHARD_SRC_LAYERS_VENDOR_LIBRARY_HPP

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "shard/base/error.hpp"
#include "vendor.hpp"

/// \file
/// What the files that call vendors' libraries have in common.

namespace shard::impl {

/// Throws an Error for a call that failed.
[[noreturn]] inline void throw_vendor(const std::string& library, const char* function,
                                      const char* reason) {
  throw Error(std::string("shard: ") + function + " failed: " + reason +
              "; set_product_library(ProductLibrary::shard) computes without " + library);
}

/// A descriptor of a library, which Create makes and Destroy frees. Check throws for a bad status.
template <class Handle, auto Create, auto Destroy, auto Check>
class VendorDescriptor {
 public:
  VendorDescriptor() { Check(Create(&handle_), "the creation of a descriptor"); }
  ~VendorDescriptor() { Destroy(handle_); }
  VendorDescriptor(const VendorDescriptor&)            = delete;
  VendorDescriptor& operator=(const VendorDescriptor&) = delete;
  operator Handle() const { return handle_; }  // NOLINT: stands for its handle

 private:
  Handle handle_ = nullptr;
};

/// A library's handles, one for each stream. Make makes one and Destroy frees it.
template <class Stream, class Handle, auto Make, auto Destroy>
class VendorHandles {
 public:
  Handle of(Stream stream) {
    const auto found = handles_.find(stream);
    return found != handles_.end() ? found->second : handles_[stream] = Make(stream);
  }
  void clear() {
    for (const auto& [stream, handle] : handles_) Destroy(handle);
    handles_.clear();
  }

 private:
  std::map<Stream, Handle> handles_;
};

/// What a library's calls share, for example its handles. It is cleared when Kokkos is finalised.
template <class State>
State& vendor_state() {
  static State state;
  static std::once_flag hooked;
  std::call_once(hooked, [] { Kokkos::push_finalize_hook([] { state.clear(); }); });
  return state;
}

/// All that the plan of a convolution depends on.
using VendorConvolutionKey = std::array<int, 36>;

inline VendorConvolutionKey key_of(VendorPass pass, const VendorConvolution& v,
                                   ProductPrecision precision) {
  VendorConvolutionKey key{static_cast<int>(pass), static_cast<int>(precision), v.groups};
  std::size_t at    = 3;
  const auto append = [&](const auto& values) {
    for (const int value : values) key.at(at++) = value;
  };
  append(v.fine.extent);
  append(v.fine.stride);
  append(v.coarse.extent);
  append(v.coarse.stride);
  append(v.padding);
  append(v.kernel);
  append(v.stride);
  append(v.dilation);
  return key;
}

}  // namespace shard::impl

#endif
