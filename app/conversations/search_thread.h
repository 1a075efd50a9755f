// Searches beside the store: a thread with a connection of its own that only reads. The last query
// counts; an older one ends.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conversations/sqlite.h"
#include "conversations/types.h"

namespace infer::conversations {

class SearchThread {
 public:
  /// Called on this thread. Nothing: the store itself has to search, since there is no connection
  /// beside it, or since the index has to be repaired.
  using Done = std::function<void(std::optional<Result<std::vector<Hit>>>)>;

  explicit SearchThread(std::string path);
  ~SearchThread() { end(); }
  SearchThread(const SearchThread&) = delete;
  SearchThread& operator=(const SearchThread&) = delete;

  /// Searches begin with the first call. `has_file`: whether there is a file to read; if not, the
  /// connection is closed when this returns.
  void use_file(bool has_file);
  /// `after`: so long it waits for a newer query first.
  void ask(std::string query, std::chrono::milliseconds after, Done done);
  /// Ends the search that goes on. Any thread.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::string query;
    Clock::time_point at;
    Done done;
  };
  void run();
  std::optional<Result<std::vector<Hit>>> look(const std::string& query);

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Request> asked_;
  bool is_ready_ = false, has_file_ = false, is_running_ = false, ending_ = false;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Database> reader_;  // used while it runs, or with the lock
  std::thread thread_;                // the last member: it uses the others
};

}  // namespace infer::conversations
