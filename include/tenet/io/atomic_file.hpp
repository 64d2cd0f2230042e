#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "tenet/core/error.hpp"

namespace tenet {

/// A file which appears whole or not at all: it is written beside `path` and takes its place in `commit()`.
///
/// Whatever was at `path` stays as it was if an error or a crash comes first. Every failure throws `Error`.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path) : path_(path), temporary_(path + ".tmp" + std::to_string(getpid())) {
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) give_up("cannot create '" + temporary_ + "'");
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Without a `commit()`, nothing remains.
  ~AtomicFile() { discard(); }

  /// Appends bytes.
  void write(const void* data, std::size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(file_, next, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) give_up("cannot write");
      next += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }

  /// Brings everything to the disk, then puts the file in its place.
  void commit() {
    if (fsync(file_) != 0) give_up("cannot bring it to the disk");
    const int file = file_;
    file_ = -1;
    if (close(file) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) give_up("cannot put it in its place");
    committed_ = true;
    // The new name, too, should survive a power failure; some file systems cannot do this for a folder.
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      fsync(directory);
      close(directory);
    }
  }

 private:
  void discard() {
    if (file_ >= 0) close(file_);
    file_ = -1;
    if (!committed_) unlink(temporary_.c_str());
  }

  [[noreturn]] void give_up(const std::string& what) {
    const std::string reason = std::strerror(errno);
    discard();  // a constructor that throws runs no destructor
    throw Error("writing '" + path_ + "': " + what + ": " + reason + "; what was there before is unchanged");
  }

  std::string path_, temporary_;
  int file_ = -1;
  bool committed_ = false;
};

}  // namespace tenet
