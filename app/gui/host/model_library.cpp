#include "gui/host/model_library.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "gui/host/guard.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostUnasked = 1000;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  constexpr std::string_view kBlanks = " \t\r\n";
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(lower(text.substr(at, end - at)));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

bool passes(const LibraryModel& model, const LibraryFilter& filter,
            const std::vector<std::string>& words) {
  if (filter.favourites && !model.favourite) return false;
  if (model.file.bytes < filter.least_bytes || model.file.bytes > filter.most_bytes) return false;
  const std::string architecture = model.facts == nullptr ? "" : model.facts->architecture;
  if (!filter.architecture.empty() && architecture != filter.architecture) return false;
  if (words.empty()) return true;
  std::string all = model.file.name + "\n" + model.file.source + "\n" + architecture;
  if (model.facts != nullptr) all += "\n" + model.facts->name + "\n" + model.facts->file_type;
  all = lower(std::move(all));
  return std::ranges::all_of(
      words, [&](const std::string& word) { return all.find(word) != std::string::npos; });
}

}  // namespace

ModelLibrary::ModelLibrary(WakeFn wake)
    : changes_(std::move(wake)), describer_([this] { run_describer(); }) {}

ModelLibrary::~ModelLibrary() {
  ++scan_number_;
  scanner_.end();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  describer_.join();
}

void ModelLibrary::scan(std::vector<std::string> folders) {
  scanning_ = true;
  const int64_t number = ++scan_number_;
  scanner_.submit([this, folders = std::move(folders), number] { run_scan(folders, number); });
}

void ModelLibrary::run_scan(const std::vector<std::string>& folders, int64_t number) {
  const auto wanted = [&] { return scan_number_ == number; };
  hub::LocalScan scan;
  const Status status = guarded([&]() -> Status {
    scan = hub::scan_models({folders, wanted});
    return {};
  });
  if (!status.ok()) scan.skipped.push_back({"", status.message()});
  if (!wanted()) return;
  {
    const std::lock_guard lock(mutex_);
    found_.clear();
    for (size_t i = 0; i < std::min(scan.models.size(), kMostUnasked); ++i) {
      found_.push_back(scan.models[i].path);
    }
    changed_.notify_all();
  }
  changes_.push(Scanned{number, std::move(scan)});
}

void ModelLibrary::describe(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::count(asked_, path) > 0) return;
  asked_.push_back(path);
  if (asked_.size() > kMostUnasked) asked_.pop_front();
  changed_.notify_all();
}

void ModelLibrary::run_describer() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !asked_.empty() || !found_.empty(); });
    if (ending_) return;
    std::deque<std::string>& next = asked_.empty() ? found_ : asked_;
    const std::string path = std::move(next.front());
    next.pop_front();
    lock.unlock();
    FileFacts facts;
    const Status status = guarded([&]() -> Status {
      facts = read_facts(path);
      return {};
    });
    if (!status.ok()) facts.status = status;
    changes_.push(Described{path, std::move(facts)});
    lock.lock();
  }
}

ModelLibrary::Stamp ModelLibrary::stamp_of(const std::string& path) {
  std::error_code failed;
  Stamp stamp;
  stamp.time = fs::last_write_time(path, failed);
  const uintmax_t bytes = fs::file_size(path, failed);
  if (!failed) stamp.bytes = static_cast<int64_t>(bytes);
  return stamp;
}

FileFacts ModelLibrary::read_facts(const std::string& path) {
  const Stamp stamp = stamp_of(path);
  const auto known = read_.find(path);
  if (known != read_.end() && known->second.first == stamp) return known->second.second;
  ++headers_read_;
  FileFacts facts;
  const Result<ModelDescription> described = describe_model(path);
  if (described) {
    facts.name = described->name;
    facts.architecture = described->architecture;
    facts.file_type = described->file_type;
    facts.parameters = described->parameters;
    facts.context = described->context;
    facts.layers = described->layers;
    facts.weight_bytes = described->weight_bytes;
    if (!described->unsupported.empty()) {
      facts.status = {StatusCode::unsupported, described->unsupported};
    }
  } else {
    facts.status = described.error();
  }
  read_.insert_or_assign(path, std::pair(stamp, facts));
  return facts;
}

bool ModelLibrary::poll() {
  std::deque<Change> changes = changes_.take();
  for (Change& change : changes) {
    if (auto* const scanned = std::get_if<Scanned>(&change)) {
      if (scanned->number != scan_number_) continue;  // another one is wanted by now
      models_ = std::move(scanned->scan.models);
      skipped_ = std::move(scanned->scan.skipped);
      scanning_ = false;
    } else if (auto* const described = std::get_if<Described>(&change)) {
      facts_.insert_or_assign(described->path, std::move(described->facts));
    }
  }
  return !changes.empty();
}

const FileFacts* ModelLibrary::facts(const std::string& path) const {
  const auto found = facts_.find(path);
  return found == facts_.end() ? nullptr : &found->second;
}

std::vector<LibraryModel> ModelLibrary::models(const LibraryFilter& filter) const {
  const std::vector<std::string> words = words_of(filter.text);
  const std::set<std::string_view> favourites(favourites_.begin(), favourites_.end());
  std::vector<LibraryModel> found;
  for (const hub::LocalModel& file : models_) {
    LibraryModel model{file, facts(file.path), favourites.contains(file.path)};
    if (passes(model, filter, words)) found.push_back(std::move(model));
  }
  return found;
}

std::vector<std::string> ModelLibrary::architectures() const {
  std::set<std::string> names;
  for (const hub::LocalModel& file : models_) {
    const FileFacts* const known = facts(file.path);
    if (known != nullptr && !known->architecture.empty()) names.insert(known->architecture);
  }
  return {names.begin(), names.end()};
}

}  // namespace infer::gui
