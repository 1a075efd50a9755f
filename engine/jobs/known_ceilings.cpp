#include "engine/jobs/known_ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "engine/core/atomic_file.h"
#include "engine/core/cache_folder.h"
#include "engine/core/file.h"

namespace infer {
namespace {

// A line is "key<TAB>GB/s<TAB>G int8 MAC/s<TAB>G float16 MAC/s", the newest last.
constexpr uint64_t kMostFileBytes = 64 << 10;
constexpr size_t kMostLines = 64;
constexpr double kMostRate = 1e9;

/// The lines of the file; none if it is absent or too large to be ours.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const Result<File> file = File::open(path);
  if (!file || file->size() > kMostFileBytes) return lines;
  std::string text(file->size(), '\0');
  if (!file->read_at(0, std::as_writable_bytes(std::span(text))).ok()) return lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// A tab and a number from 0 to kMostRate, which are taken off the text.
bool take_rate(std::string_view& text, double& rate) {
  if (!text.starts_with('\t')) return false;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + 1, end, rate, std::chars_format::fixed);
  if (parsed.ec != std::errc() || !(rate >= 0 && rate <= kMostRate)) return false;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  return true;
}

bool is_of(const std::string& line, const std::string& key) {
  return line.size() > key.size() && line.starts_with(key) && line[key.size()] == '\t';
}

}  // namespace

std::string ceilings_file() {
  const std::string folder = cache_folder();
  return folder.empty() ? folder : folder + "/ceilings";
}

std::string ceilings_key(const DeviceInfo& device, bool exact) {
  // The version stands for the way in which they are measured.
  std::string key =
      fmt::format(INFER_VERSION " {} ({}) {} {} threads{}", device.name, device.description,
                  device.isa, device.threads, exact ? " exact" : "");
  std::ranges::replace_if(
      key, [](unsigned char c) { return c < ' '; }, ' ');
  return key;
}

std::optional<Ceilings> known_ceilings(const std::string& file, const std::string& key) {
  if (file.empty()) return std::nullopt;
  std::optional<Ceilings> found;
  for (const std::string& line : lines_of(file)) {
    if (!is_of(line, key)) continue;
    Ceilings ceilings;
    std::string_view rest = std::string_view(line).substr(key.size());
    const bool whole = take_rate(rest, ceilings.read_bandwidth_gb_s) &&
                       take_rate(rest, ceilings.int8_mac_g_s) &&
                       take_rate(rest, ceilings.prompt_mac_g_s) && rest.empty();
    if (whole && ceilings.read_bandwidth_gb_s > 0) found = ceilings;
  }
  return found;
}

Status keep_ceilings(const std::string& path, const std::string& key, const Ceilings& ceilings) {
  if (path.empty()) return {};
  std::vector<std::string> lines = lines_of(path);
  std::erase_if(lines, [&](const std::string& line) { return is_of(line, key); });
  if (lines.size() >= kMostLines) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLines - 1));
  }
  lines.push_back(fmt::format("{}\t{:.3f}\t{:.3f}\t{:.3f}", key, ceilings.read_bandwidth_gb_s,
                              ceilings.int8_mac_g_s, ceilings.prompt_mac_g_s));
  INFER_CHECK(make_private_folder_of(path));
  INFER_TRY_S(const std::unique_ptr<AtomicFile> file,
              AtomicFile::create(path, AtomicFile::Access::user_only));
  for (const std::string& line : lines) {
    INFER_CHECK(file->write(std::as_bytes(std::span(line))));
    INFER_CHECK(file->write(std::as_bytes(std::span("\n", 1))));
  }
  return file->commit();
}

}  // namespace infer
