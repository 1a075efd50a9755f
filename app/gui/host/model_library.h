// The models on this machine: those of other programs, and those in the user's folders. Scanning
// and describing take place on other threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "gui/host/event_queue.h"
#include "gui/host/latest_task.h"
#include "hub/local_models.h"
#include "infer/infer.hpp"

namespace infer::gui {

/// What a model file is, from its header.
struct FileFacts {
  Status status;  ///< why it cannot be read; unsupported: why this build cannot run it
  std::string name;
  std::string architecture;
  std::string file_type;  ///< "Q4_K - Medium"
  int64_t parameters = 0;
  int64_t context = 0;  ///< tokens that the model was trained for
  int64_t layers = 0;
  int64_t weight_bytes = 0;
};

struct LibraryModel {
  hub::LocalModel file;
  const FileFacts* facts = nullptr;  ///< null: not known yet. Valid until the next poll()
  bool favourite = false;
};

struct LibraryFilter {
  std::string text;          ///< words that the name, the source or the type contain, in any case
  std::string architecture;  ///< empty: all
  int64_t least_bytes = 0;
  int64_t most_bytes = std::numeric_limits<int64_t>::max();
  bool favourites = false;  ///< only those
};

/// One thread calls all functions; none of them waits.
class ModelLibrary {
 public:
  explicit ModelLibrary(WakeFn wake = {});
  ~ModelLibrary();
  ModelLibrary(const ModelLibrary&) = delete;
  ModelLibrary& operator=(const ModelLibrary&) = delete;

  /// Looks for models in these folders and in those of other programs (hub::scan_models). A scan
  /// that is under way ends. What was found before stays until the new scan is done. The first
  /// 1,000 models are then described without being asked for.
  void scan(std::vector<std::string> folders);
  bool scanning() const { return scanning_; }
  /// Describes a file before all others: a file that was dropped on the window, a visible line.
  void describe(const std::string& path);
  void set_favourites(std::vector<std::string> paths) { favourites_ = std::move(paths); }

  /// Takes over what other threads have found. True if something changed.
  bool poll();

  std::vector<LibraryModel> models(const LibraryFilter& filter = {}) const;
  /// Null: not known yet; see describe().
  const FileFacts* facts(const std::string& path) const;
  /// Architectures of the models that are known, sorted.
  std::vector<std::string> architectures() const;
  /// What the last scan could not look into.
  const std::vector<hub::SkippedPath>& skipped() const { return skipped_; }
  /// Headers that were read since the start: a file that has not changed is read once.
  int64_t headers_read() const { return headers_read_; }

 private:
  /// Facts hold as long as the file has this size and time.
  struct Stamp {
    int64_t bytes = 0;
    std::filesystem::file_time_type time{};
    bool operator==(const Stamp&) const = default;
  };
  struct Described {
    std::string path;
    FileFacts facts;
  };
  struct Scanned {
    int64_t number = 0;
    hub::LocalScan scan;
  };
  using Change = std::variant<Scanned, Described>;

  static Stamp stamp_of(const std::string& path);
  void run_scan(const std::vector<std::string>& folders, int64_t number);
  void run_describer();
  FileFacts read_facts(const std::string& path);

  EventQueue<Change> changes_;
  // Of the thread that calls.
  bool scanning_ = false;
  std::vector<hub::LocalModel> models_;
  std::vector<hub::SkippedPath> skipped_;
  std::vector<std::string> favourites_;
  std::map<std::string, FileFacts> facts_;

  std::atomic<int64_t> scan_number_{0};  ///< of the scan that is wanted
  std::atomic<int64_t> headers_read_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> asked_;
  std::deque<std::string> found_;  ///< described when nothing is asked
  bool ending_ = false;
  std::map<std::string, std::pair<Stamp, FileFacts>> read_;  ///< of the describer's thread
  LatestTask scanner_;
  std::thread describer_;  // the last member: it uses the others
};

}  // namespace infer::gui
