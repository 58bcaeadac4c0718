// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/arguments.hpp"

#include <mpi.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "new_file.hpp"

namespace support {
namespace {

/// Whether all of `words` is a number.
template <class T>
bool parse(const std::string& words, T& value) {
  const char* const end   = words.data() + words.size();
  const auto [at, failed] = std::from_chars(words.data(), end, value);
  return failed == std::errc() && at == end;
}

[[noreturn]] void cannot_be_written(const std::string& path, const std::string& reason) {
  throw std::runtime_error("'" + path + "' can't be written: " + reason);
}

}  // namespace

Arguments::Arguments(int argc, char** argv, std::string usage)
    : program_(argc > 0 ? argv[0] : "benchmark"),
      usage_(std::move(usage)),
      left_(argv + (argc > 0 ? 1 : 0), argv + argc) {
  program_ = program_.substr(program_.find_last_of('/') + 1);
}

bool Arguments::flag(std::string_view name) {
  for (auto at = left_.begin(); at != left_.end(); ++at)
    if (*at == name) {
      left_.erase(at);
      return true;
    }
  return false;
}

bool Arguments::take(std::string_view name, std::string& value) {
  for (auto at = left_.begin(); at != left_.end(); ++at) {
    if (*at == name) {
      if (at + 1 == left_.end()) {
        refuse("'" + *at + "' lacks its value");
        left_.erase(at);
        return false;
      }
      value = at[1];
      left_.erase(at, at + 2);
      return true;
    }
    if (at->size() > name.size() && at->starts_with(name) && (*at)[name.size()] == '=') {
      value = at->substr(name.size() + 1);
      left_.erase(at);
      return true;
    }
  }
  return false;
}

void Arguments::take(std::string_view name, int& value, int least) {
  if (std::string words; take(name, words)) read(name, words, value, least);
}

void Arguments::take(std::string_view name, double& value) {
  std::string words;
  if (!take(name, words)) return;
  double given = 0.0;
  if (parse(words, given) && std::isfinite(given) && given > 0.0)
    value = given;
  else
    refuse(std::string(name) + " is '" + words + "', not a finite number above zero");
}

void Arguments::take_output(std::string_view name, std::string& value) {
  if (!take(name, value)) return;
  try {
    const shard::impl::NewFile probe(value, cannot_be_written);
  } catch (const std::exception& error) {
    refuse(std::string(name) + ": " + error.what());
  }
}

void Arguments::next(std::string_view what, std::string& value) {
  if (left_.empty()) return;
  if (left_.front().starts_with("-")) return;  // an option that nobody knows
  value = left_.front();
  left_.erase(left_.begin());
  if (value.empty()) refuse("the " + std::string(what) + " is empty");
}

void Arguments::next(std::string_view what, int& value, int least) {
  if (left_.empty()) return;
  read(what, left_.front(), value, least);
  left_.erase(left_.begin());
}

void Arguments::read(std::string_view what, const std::string& words, int& value, int least) {
  int given = 0;
  if (parse(words, given) && given >= least)
    value = given;
  else
    refuse(std::string(what) + " is '" + words + "', not a whole number of " +
           std::to_string(least) + " or more");
}

void Arguments::refuse(const std::string& why) {
  if (wrong_.empty()) wrong_ = why;
}

bool Arguments::understood() {
  if (!left_.empty()) refuse("'" + left_.front() + "' is not understood");
  if (wrong_.empty()) return true;
  int rank = 0, begun = 0;
  MPI_Initialized(&begun);
  if (begun != 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::fprintf(stderr, "%s: %s\nusage: %s%s%s\n", program_.c_str(), wrong_.c_str(),
                 program_.c_str(), usage_.empty() ? "" : " ", usage_.c_str());
  return false;
}

void write_output(const std::string& path, const std::string& text) {
  shard::impl::NewFile file(path, cannot_be_written);
  file.write(0, text.data(), text.size());
  file.put_in_place();
}

}  // namespace support
