// A disk without space.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace infer::conversations::test {

/// No file can grow while it lives, as on a full disk.
struct FullDisk {
  FullDisk() : handler(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit none = {0, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  rlimit before = {};
  void (*handler)(int);
};

}  // namespace infer::conversations::test
