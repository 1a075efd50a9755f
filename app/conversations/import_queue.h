// Imports beside everything else: a thread reads the files, one after another, and the store takes
// parts of them when it has nothing else to do.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "conversations/async_store.h"
#include "conversations/import.h"

namespace infer::conversations {

/// Used by the thread that calls the store's poll().
class ImportQueue {
 public:
  using Done = std::function<void(const Result<ImportReport>&)>;

  /// The store outlives the queue. `done`: called in the store's poll() after each file. Errors:
  /// those of import_file().
  ImportQueue(AsyncStore& store, Done done);
  /// Cancels all, and waits for that.
  ~ImportQueue();
  ImportQueue(const ImportQueue&) = delete;
  ImportQueue& operator=(const ImportQueue&) = delete;

  void add(std::string path);
  /// Nothing of the file that is being imported is kept, and those that wait are dropped.
  void cancel();

  struct Progress {
    std::string path;
    double share = 0;    ///< of the file
    size_t waiting = 0;  ///< files after it
  };
  /// Nothing: no import goes on.
  std::optional<Progress> progress() const;

 private:
  void run();

  AsyncStore& store_;
  const Done done_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> paths_;
  std::string current_;                     // empty: none
  std::shared_ptr<ImportControl> control_;  // of it
  bool ending_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace infer::conversations
