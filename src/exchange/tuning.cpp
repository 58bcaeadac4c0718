// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/exchange/tuning.hpp"

#include <cstdlib>
#include <string_view>

#include "plan.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"

namespace shard {

namespace {

constexpr const char* transports[] = {"automatic", "mpi", "nccl"};
constexpr const char* answers[]    = {"ask", "no", "yes"};
constexpr const char* layouts[]    = {"one_per_peer", "one_per_field", "one_per_box",
                                      "by_dimension", "by_size",       "one_per_host"};

/// The word after "name=", up to the next blank.
std::string word_after(const std::string& text, const std::string& name) {
  const std::string padded = " " + text, sought = " " + name + "=";
  const std::size_t begin = padded.find(sought);
  if (begin == std::string::npos)
    impl::throw_argument("tuning_from_text", {"no \"", name, "=\" in \"", text, "\""});
  const std::size_t first = begin + sought.size();
  return padded.substr(first, padded.find(' ', first) - first);
}

std::size_t bytes_from(const std::string& digits) {
  char* end               = nullptr;
  const std::size_t bytes = std::strtoull(digits.c_str(), &end, 10);
  if (end == digits.c_str() || *end != '\0')
    impl::throw_argument("tuning_from_text", {"\"", digits, "\" isn't a number"});
  return bytes;
}

template <std::size_t N>
std::size_t number_of(const char* const (&words)[N], const std::string& word) {
  for (std::size_t i = 0; i < N; ++i)
    if (word == words[i]) return i;
  impl::throw_argument("tuning_from_text", {"\"", word, "\" is not known"});
}

}  // namespace

std::string to_text(const Tuning& tuning) {
  return std::string("transport=") + transports[static_cast<std::size_t>(tuning.transport)] +
         " messages=" + layouts[static_cast<std::size_t>(tuning.messages)] +
         " mpi_takes_device_memory=" +
         answers[tuning.mpi_takes_device_memory ? (*tuning.mpi_takes_device_memory ? 2 : 1) : 0] +
         " direct_run=" + std::to_string(tuning.direct_run) +
         " message_part=" + std::to_string(tuning.message_part) +
         (tuning.measured ? " measured" : "");
}

Tuning tuning_from_text(const std::string& text) {
  Tuning tuning;
  tuning.transport =
      static_cast<TransportKind>(number_of(transports, word_after(text, "transport")));
  tuning.messages = static_cast<MessageLayout>(number_of(layouts, word_after(text, "messages")));
  const std::size_t answer = number_of(answers, word_after(text, "mpi_takes_device_memory"));
  if (answer > 0) tuning.mpi_takes_device_memory = answer == 2;
  tuning.direct_run   = bytes_from(word_after(text, "direct_run"));
  tuning.message_part = bytes_from(word_after(text, "message_part"));
  tuning.measured     = text.find(" measured") != std::string::npos;
  return tuning;
}

namespace impl {

const char* name_of(TransportKind transport) {
  return transports[static_cast<std::size_t>(transport)];
}

std::string take_from_environment(TransportKind& transport, bool device) {
  if (transport != TransportKind::automatic) return {};
  try {
    const auto said = static_cast<TransportKind>(environment_value("SHARD_TRANSPORT").value_or(0));
    if (said != TransportKind::nccl || device) transport = said;
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return {};
}

}  // namespace impl
}  // namespace shard
