// Functions between the back end and the driver: they count the calls that can fail, and make one
// of them fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/validation.h"

namespace infer::test {

/// While it lives instances are made through it. One at a time.
class FailingCalls {
 public:
  FailingCalls();  // no call fails
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  /// Opens devices of instances of their own, whose calls to the driver go through here.
  /// `on_message`: InstanceOptions.
  OpenDevice opener(std::function<void(const std::string&)> on_message = nullptr) const;

  /// The call after `before` others fails as its function may; a device that is lost stays lost.
  /// -1: none. Counts from 0 again.
  void fail_after(int64_t before);
  /// Every device is lost from now on, until the next fail_after().
  void lose();
  /// What the driver says that compiled pipelines take, to whoever asks for their size alone. 0:
  /// the truth.
  void claim_pipeline_bytes(size_t bytes);
  int64_t calls() const;
  /// Numbers, from 0 in ascending order, of the first of these calls from each place, and of the
  /// last if `last`. A place is a function and the innermost calls on the stack.
  std::vector<int64_t> places(bool last) const;
  /// The function that failed; empty if none did.
  std::string failed() const;
  /// Allocations of memory that were not freed.
  int64_t live() const;
};

}  // namespace infer::test
