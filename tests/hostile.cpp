#include "tests/hostile.h"

#include <doctest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support.h"

namespace infer::test {
namespace {

#ifdef INFER_SANITIZED
constexpr double kSeconds = 60;
constexpr int64_t kBytes = int64_t{8} << 30;
constexpr size_t kEach = 8;
#else
constexpr double kSeconds = 2;
constexpr int64_t kBytes = 1'000'000'000;
constexpr size_t kEach = 1;
#endif

/// A line "name: N kB" of /proc/self/status, in bytes.
int64_t process_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

std::string spelt_out(const nlohmann::json& parts) {
  if (parts.is_string()) return parts.get<std::string>();
  std::string text;
  for (const nlohmann::json& part : parts) {
    if (part.is_string()) {
      text += part.get<std::string>();
      continue;
    }
    const std::string unit = part[0].get<std::string>();
    const size_t number = unit.find("<i>");
    for (int i = 0; i < part[1].get<int>(); ++i) {
      if (number == std::string::npos) {
        text += unit;
        continue;
      }
      std::string one = unit;
      for (size_t at = number; at != std::string::npos; at = one.find("<i>")) {
        one.replace(at, 3, std::to_string(i));
      }
      text += one;
    }
  }
  return text;
}

}  // namespace

std::vector<Hostile> read_hostile(const std::string& file, const std::string& source,
                                  const std::string& input, size_t at_least) {
  std::vector<Hostile> all;
  const auto entries = nlohmann::json::parse(read_text(data_path("hostile/" + file)));
  CHECK(entries.size() >= at_least);
  for (size_t i = 0; i < entries.size(); i += kEach) {
    const nlohmann::json& entry = entries[i];
    all.push_back({entry["name"], spelt_out(entry[source]),
                   entry.contains(input) ? spelt_out(entry[input]) : ""});
  }
  return all;
}

void check_bounded(const Hostile& hostile, const std::function<void()>& work) {
  double seconds = 0;
  int64_t bytes = 0;
  // Programs beside this one slow it down: more than one run has to take too long.
  for (int run = 0; run == 0 || (run < 3 && seconds >= kSeconds); ++run) {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
    const int64_t before = process_bytes("VmRSS:");
    const double begin = thread_seconds();
    work();
    seconds = thread_seconds() - begin;
    bytes = std::max(bytes, process_bytes("VmHWM:") - before);
  }
  CHECK_MESSAGE(seconds < kSeconds, hostile.name, " took ", seconds, " s");
  CHECK_MESSAGE(bytes < kBytes, hostile.name, " took ", bytes, " bytes");
  if (seconds > kSeconds / 2 || bytes > kBytes / 2) {
    MESSAGE(hostile.name, ": ", seconds, " s, ", bytes >> 20, " MiB");
  }
}

}  // namespace infer::test
