// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_NEW_FILE_HPP
#define SHARD_SRC_IO_NEW_FILE_HPP

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "special_file.hpp"

namespace shard::impl {

/// A temporary file beside `path` that is renamed when it is complete, so `path` is always the old
/// file or the new one. Its name is the unused `path`.<process>.<n>.part; links aren't followed.
/// Without put_in_place the destructor removes the file.
class NewFile {
 public:
  /// Throws the exception for a failure: called with the path and the reason, doesn't return.
  using Fail = void (*)(const std::string& path, const std::string& reason);

  NewFile(const std::string& path, Fail fail) : path_(path), fail_(fail), before_(identity()) {
    if (const std::string found = special_file(path); !found.empty())
      fail_(path, "it is " + found + " and isn't replaced by a file");
    for (int n = 0; descriptor_ < 0; ++n) {
      part_       = path + "." + std::to_string(getpid()) + "." + std::to_string(n) + ".part";
      descriptor_ = open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) fail_(path, std::strerror(errno));
    }
    removes_ = true;
  }
  /// The temporary file `part` of another rank, to write a part of it. That rank puts it in place.
  NewFile(const std::string& path, const std::string& part, Fail fail)
      : path_(path), part_(part), fail_(fail) {
    reopen();
  }
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (removes_) unlink(part_.c_str());
  }
  NewFile(const NewFile&)            = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// The temporary name, for a library that writes by name.
  const std::string& part() const { return part_; }

  /// Begins with the contents of the old file. Returns whether there is one.
  bool copy_old() const {
    if (!before_.there) return false;
    std::error_code failed;
    std::filesystem::copy_file(path_, part_, std::filesystem::copy_options::overwrite_existing,
                               failed);
    // the copy has the old file's mode, which may forbid writing
    if (!failed)
      std::filesystem::permissions(part_, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add, failed);
    if (failed) fail_(path_, "it can't be copied: " + failed.message());
    return true;
  }

  /// The number of the file on its file system.
  std::uint64_t number() const {
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) fail_(path_, std::strerror(errno));
    return static_cast<std::uint64_t>(found.st_ino);
  }

  /// Opens the file of the temporary name, after a library has replaced it.
  void reopen() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = open(part_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor_ < 0)
      fail_(path_, "'" + part_ + "', which the first rank has made, can't be opened: " +
                       std::strerror(errno) + "; save to a folder that all ranks see");
  }

  void write(off_t at, const void* bytes, std::size_t count) {
    unsynced_ += count;
    for (const auto* from = static_cast<const char*>(bytes); count > 0;) {
      const ssize_t n = pwrite(descriptor_, from, count, at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_(path_, std::strerror(errno));
      from += n;
      at += n;
      count -= static_cast<std::size_t>(n);
    }
#if defined(SYNC_FILE_RANGE_WRITE)
    // the disk begins while the caller prepares more
    if (unsynced_ >= std::size_t{8} << 20) {
      sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
      unsynced_ = 0;
    }
#endif
  }

  /// Makes the file as long as this, with zeros, if it is shorter.
  void extend(off_t length) const {
    struct stat found {};
    if (fstat(descriptor_, &found) != 0 ||
        (found.st_size < length && ftruncate(descriptor_, length) != 0))
      fail_(path_, std::strerror(errno));
  }

  /// Waits until what this process has written is on the disk.
  void sync() const {
    if (fsync(descriptor_) != 0) fail_(path_, std::strerror(errno));
  }

  /// Syncs the file to the disk and renames it. Fails, and leaves `path` unchanged, if another
  /// program has put a file there since the beginning.
  void put_in_place() {
    sync();
    const bool closed = ::close(descriptor_) == 0;
    descriptor_       = -1;
    if (!closed) fail_(path_, std::strerror(errno));
    if (const Identity now = identity();
        now.there &&
        (!before_.there || now.device != before_.device || now.number != before_.number))
      fail_(path_,
            "another program has written it since this save began; its file stays, save "
            "to a path of your own");
    if (std::rename(part_.c_str(), path_.c_str()) != 0) fail_(path_, std::strerror(errno));
    removes_                 = false;
    const std::size_t slash  = path_.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int opened         = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) return;  // writable but not readable
    const bool synced =
        fsync(opened) == 0 || errno == EINVAL;  // the answer of file systems without fsync
    const int reason = errno;
    ::close(opened);
    if (!synced)
      fail_(path_,
            std::string("its folder can't be brought to the disk: ") + std::strerror(reason));
  }

 private:
  struct Identity {
    dev_t device = 0;
    ino_t number = 0;
    bool there   = false;
  };
  Identity identity() const {
    struct stat found {};
    if (lstat(path_.c_str(), &found) != 0) return {};
    return {found.st_dev, found.st_ino, true};
  }

  std::string path_, part_;
  Fail fail_;
  Identity before_;
  int descriptor_       = -1;
  bool removes_         = false;
  std::size_t unsynced_ = 0;  ///< bytes since writing to the disk was last begun
};

}  // namespace shard::impl

#endif
