// The access log: lines are written by a thread of its own, so that a pipe that nobody reads holds
// up no request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace infer::server {

class AccessLog {
 public:
  /// `write`: writes a line; may wait for as long as it likes.
  explicit AccessLog(std::function<void(const std::string&)> write);
  /// Waits a second at most for what is not written yet.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  /// Any thread; returns at once. If 10,000 lines wait, drops this one; a later line says how many
  /// were dropped.
  void put(std::string line);

 private:
  struct Queue;

  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace infer::server
