// SQLite's way to the system, with calls that fail.
#pragma once

#include <cstdint>

namespace infer::conversations::test {

/// While it lives, files that are opened go through it. One at a time.
class FailingVfs {
 public:
  FailingVfs();
  ~FailingVfs();
  FailingVfs(const FailingVfs&) = delete;
  FailingVfs& operator=(const FailingVfs&) = delete;

  /// From now on counts the calls that write, and lets this one (from 1) and those after it fail.
  void fail_at(int64_t call, int code);
  /// The same for the calls that read, of which only this one fails.
  void fail_read_at(int64_t call);
  /// Databases are opened for reading only.
  void read_only();
  void stop();
  /// Calls that were counted.
  int64_t calls() const;
  /// Calls that waited until data was on the disk, since the last fail_at().
  int64_t syncs() const;
};

}  // namespace infer::conversations::test
