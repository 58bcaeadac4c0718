// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_ARGUMENTS_HPP
#define SHARD_BENCHMARKS_SUPPORT_ARGUMENTS_HPP

#include <string>
#include <string_view>
#include <vector>

namespace support {

/// A benchmark's command line. Each call takes out what it names; `understood` is false where
/// something is left or isn't what it should be. Options first, then what has no name.
class Arguments {
 public:
  /// `usage` is what may be given, after the program's name. MPI's and Kokkos' arguments are to be
  /// taken out before (shard::Environment does it).
  Arguments(int argc, char** argv, std::string usage);

  /// Whether `name` is there.
  bool flag(std::string_view name);
  /// The text after `name`, or after `name` and "="; `value` stays where there is none. True if
  /// there is one.
  bool take(std::string_view name, std::string& value);
  /// A whole number of `least` or more.
  void take(std::string_view name, int& value, int least);
  /// A finite number above zero.
  void take(std::string_view name, double& value);
  /// A file to be written at the end, by write_output: whether it can be is tried now, under
  /// another name.
  void take_output(std::string_view name, std::string& value);
  /// The next argument that has no name, likewise; `what` is for the message.
  void next(std::string_view what, std::string& value);
  void next(std::string_view what, int& value, int least);

  /// Something given can't be used.
  void refuse(const std::string& why);
  /// Whether all was understood; else says why not and prints the usage, on the first rank alone.
  bool understood();

 private:
  void read(std::string_view what, const std::string& words, int& value, int least);

  std::string program_, usage_, wrong_;
  std::vector<std::string> left_;
};

/// Puts a file with this text at `path`, complete or not at all. Throws std::runtime_error if it
/// can't be written or `path` is no regular file.
void write_output(const std::string& path, const std::string& text);

}  // namespace support

#endif
