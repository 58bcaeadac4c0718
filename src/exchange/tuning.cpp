// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/exchange/tuning.hpp"

#include <cstdlib>
#include <string_view>

#include "device_carrier.hpp"

#include "shard/base/error.hpp"

namespace shard {

namespace {

constexpr const char* transports[] = {"automatic", "mpi", "nccl"};
constexpr const char* answers[]    = {"ask", "no", "yes"};
constexpr const char* layouts[] = {"one_per_peer", "one_per_field", "one_per_box", "by_dimension"};

/// The word after "name=", up to the next blank.
std::string word_after(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find(name + "=");
  if (begin == std::string::npos)
    impl::throw_argument("tuning_from_text", {"no \"", name, "=\" in \"", text, "\""});
  const std::size_t first = begin + name.size() + 1;
  return text.substr(first, text.find(' ', first) - first);
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
         " direct_run=" + std::to_string(tuning.direct_run) + (tuning.measured ? " measured" : "");
}

Tuning tuning_from_text(const std::string& text) {
  Tuning tuning;
  tuning.transport =
      static_cast<TransportKind>(number_of(transports, word_after(text, "transport")));
  tuning.messages = static_cast<MessageLayout>(number_of(layouts, word_after(text, "messages")));
  const std::size_t answer = number_of(answers, word_after(text, "mpi_takes_device_memory"));
  if (answer > 0) tuning.mpi_takes_device_memory = answer == 2;
  const auto digits = word_after(text, "direct_run");
  char* end         = nullptr;
  tuning.direct_run = std::strtoull(digits.c_str(), &end, 10);
  if (end == digits.c_str() || *end != '\0')
    impl::throw_argument("tuning_from_text", {"\"", digits, "\" is no number"});
  tuning.measured = text.find(" measured") != std::string::npos;
  return tuning;
}

namespace impl {

std::string take_from_environment(TransportKind& transport, bool device) {
  const char* text = std::getenv("SHARD_TRANSPORT");
  if (transport != TransportKind::automatic || text == nullptr) return {};
  const std::string word = text;
  if (word == "mpi") transport = TransportKind::mpi;
  if (word == "nccl" && device) transport = TransportKind::nccl;
  if (word == "mpi" || word == "nccl" || word == "automatic" || word.empty()) return {};
  return "SHARD_TRANSPORT is \"" + word + "\"; it may be mpi, nccl or automatic";
}

}  // namespace impl
}  // namespace shard
