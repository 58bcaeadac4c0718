// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_MEMBERS_HPP
#define SHARD_MODEL_IMPL_MEMBERS_HPP

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/model/module.hpp"

/// \file
/// The members of a plain struct (an aggregate without base classes), with their names. The number
/// of members is found by trying initialisers. Names come from the compiler's __PRETTY_FUNCTION__:
/// g++ 12 and 16, clang 14 and nvcc 13 print them.

namespace shard::impl {

inline constexpr std::size_t most_members = 24;

/// Converts to anything, in unevaluated expressions.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: implicit
};

template <class S, std::size_t... I>
constexpr bool takes_initialisers(std::index_sequence<I...>) {
  return requires { S{(void(I), std::declval<Anything>())...}; };
}
template <class S, std::size_t N = most_members>
constexpr std::size_t count_members() {
  if constexpr (N == 0)
    return 0;
  else if constexpr (takes_initialisers<S>(std::make_index_sequence<N>{}))
    return N;
  else
    return count_members<S, N - 1>();
}
/// The number of members of a plain struct.
template <class S>
inline constexpr std::size_t member_count_v = count_members<S>();

/// References to the members.
template <class S>
constexpr auto members(S& of) {
  constexpr std::size_t n = member_count_v<std::remove_const_t<S>>;
  static_assert(
      !takes_initialisers<std::remove_const_t<S>>(std::make_index_sequence<most_members + 1>{}),
      "a struct of a model has at most 24 members");
  if constexpr (n == 0) {
    return std::tuple<>();
  } else if constexpr (n == 1) {
    auto& [m0] = of;
    return std::tie(m0);
  } else if constexpr (n == 2) {
    auto& [m0, m1] = of;
    return std::tie(m0, m1);
  } else if constexpr (n == 3) {
    auto& [m0, m1, m2] = of;
    return std::tie(m0, m1, m2);
  } else if constexpr (n == 4) {
    auto& [m0, m1, m2, m3] = of;
    return std::tie(m0, m1, m2, m3);
  } else if constexpr (n == 5) {
    auto& [m0, m1, m2, m3, m4] = of;
    return std::tie(m0, m1, m2, m3, m4);
  } else if constexpr (n == 6) {
    auto& [m0, m1, m2, m3, m4, m5] = of;
    return std::tie(m0, m1, m2, m3, m4, m5);
  } else if constexpr (n == 7) {
    auto& [m0, m1, m2, m3, m4, m5, m6] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6);
  } else if constexpr (n == 8) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7);
  } else if constexpr (n == 9) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8);
  } else if constexpr (n == 10) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9);
  } else if constexpr (n == 11) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10);
  } else if constexpr (n == 12) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11);
  } else if constexpr (n == 13) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12);
  } else if constexpr (n == 14) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13);
  } else if constexpr (n == 15) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14);
  } else if constexpr (n == 16) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15);
  } else if constexpr (n == 17) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16);
  } else if constexpr (n == 18) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17);
  } else if constexpr (n == 19) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18] =
        of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                    m18);
  } else if constexpr (n == 20) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
           m19] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                    m18, m19);
  } else if constexpr (n == 21) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
           m20] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                    m18, m19, m20);
  } else if constexpr (n == 22) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
           m20, m21] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                    m18, m19, m20, m21);
  } else if constexpr (n == 23) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
           m20, m21, m22] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                    m18, m19, m20, m21, m22);
  } else if constexpr (n == 24) {
    auto& [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
           m20, m21, m22, m23] = of;
    return std::tie(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                    m18, m19, m20, m21, m22, m23);
  }
}

/// An object whose members have addresses. It is never defined.
template <class S>
struct NamedObject {
  static const S value;
};
template <class Member>
struct MemberAddress {
  const Member* address;
};
template <class Member>
MemberAddress(const Member*) -> MemberAddress<Member>;

// clang: the object is declared and never used, so it needs no definition
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class S, std::size_t I>
constexpr auto member_address() {
  return MemberAddress{&std::get<I>(members(NamedObject<S>::value))};
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

// nvcc mixes structs up without the owner as an argument of its own
template <class Owner, MemberAddress Address>
constexpr std::string_view function_with_member() {
  return __PRETTY_FUNCTION__;
}

/// The name in "... value.Block::conv)}; ..." of g++ and nvcc, or "... value.conv}]" of clang.
constexpr std::string_view name_in(std::string_view function) {
  const auto is_in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = function.rfind(")}");
  if (end == std::string_view::npos) end = function.rfind("}]");
  std::size_t begin = end;
  while (is_in_name(function[begin - 1])) --begin;
  return function.substr(begin, end - begin);
}

template <class S, std::size_t I>
struct MemberName {
  static constexpr std::string_view view =
      name_in(function_with_member<S, member_address<S, I>()>());
  static constexpr auto text = [] {
    FixedString<view.size() + 1> copy;
    for (std::size_t i = 0; i < view.size(); ++i) copy.text[i] = view[i];
    return copy;
  }();
};
/// The name of member I of a struct, as a template argument.
template <class S, std::size_t I>
inline constexpr auto member_name_v = MemberName<S, I>::text;

}  // namespace shard::impl

#endif
