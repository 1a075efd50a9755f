#include "engine/jobs/device_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/file.h"

namespace infer {
namespace {

constexpr size_t kLongestText = 200;

/// Words that say who made a device or what it is, and that people leave out.
constexpr std::string_view kMakers[] = {"nvidia", "geforce",  "quadro", "tesla", "amd",
                                        "radeon", "instinct", "intel",  "arc",   "gpu",
                                        "rtx",    "rx",       "pro"};
constexpr std::string_view kTrailing[] = {"generation", "graphics", "gpu"};

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// "NVIDIA GeForce RTX 4090" and "rtx4090" are "4090".
std::string device_key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_' && c != '(' && c != ')') key += small_letter(c);
  }
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view word : kMakers) {
      if (key.size() <= word.size() || !key.starts_with(word)) continue;
      key.erase(0, word.size());
      again = true;
    }
    for (const std::string_view word : kTrailing) {
      if (key.size() <= word.size() || !key.ends_with(word)) continue;
      key.resize(key.size() - word.size());
      again = true;
    }
  }
  return key;
}

/// Levenshtein 1966.
size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<size_t> above(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    std::vector<size_t> row{i + 1};
    for (size_t j = 0; j < b.size(); ++j) {
      row.push_back(std::min({above[j + 1] + 1, row[j] + 1, above[j] + (a[i] == b[j] ? 0u : 1u)}));
    }
    above = std::move(row);
  }
  return above.back();
}

std::string nearest_names(const std::string& key) {
  constexpr size_t kNamed = 4;
  std::vector<std::pair<size_t, const DeviceSpecification*>> ranked;
  for (const DeviceSpecification& device : known_devices()) {
    ranked.emplace_back(letters_apart(key, device_key(device.name)), &device);
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  std::string names;
  for (size_t i = 0; i < std::min(ranked.size(), kNamed); ++i) {
    names += (i == 0 ? "" : ", ") + ranked[i].second->name;
  }
  return names;
}

/// A number with one of the units, from `low` to `high` units of the first; nothing if it is not.
std::optional<double> quantity(std::string_view text,
                               std::initializer_list<std::pair<std::string_view, double>> units,
                               double low, double high) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc()) return std::nullopt;
  std::string unit;
  for (const char* c = parsed.ptr; c != end; ++c) {
    if (*c != ' ') unit += small_letter(*c);
  }
  for (const auto& [name, factor] : units) {
    if (unit != name) continue;
    number *= factor;
    if (!(number >= low && number <= high)) return std::nullopt;
    return number;
  }
  return std::nullopt;
}

/// "24G,1008GB/s,330TFLOPS".
Result<DeviceSpecification> from_numbers(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  constexpr double kLeastMemory = 1.0 / 16;  // GiB
  constexpr double kMostMemory = 1 << 20;
  constexpr double kMostRate = 1e7;
  const auto failed = [&](std::string_view part, const char* expected) {
    return fail(StatusCode::invalid_argument, "device '{}': expected {}, found '{}'",
                printable(text), expected, printable(part));
  };
  if (parts.size() > 3) return failed(text, "memory, bandwidth and at most one rate");
  const auto memory =
      quantity(parts[0], {{"g", 1}, {"gb", 1}, {"gib", 1}, {"m", 1.0 / 1024}, {"t", 1024}},
               kLeastMemory, kMostMemory);
  if (!memory) return failed(parts[0], "memory such as 24G first");
  const auto bandwidth =
      quantity(parts[1], {{"gb/s", 1}, {"g/s", 1}, {"gbs", 1}, {"tb/s", 1000}}, 1, kMostRate);
  if (!bandwidth) return failed(parts[1], "a bandwidth such as 1008GB/s second");
  DeviceSpecification device;
  device.name = "device of " + std::string(parts[0]);
  device.memory = static_cast<int64_t>(*memory * (1 << 30));
  device.read_bandwidth_gb_s = *bandwidth;
  if (parts.size() == 3) {
    const auto rate =
        quantity(parts[2], {{"tflops", 1}, {"tflop/s", 1}, {"t", 1}}, 0.01, kMostRate);
    if (!rate) return failed(parts[2], "a rate such as 330TFLOPS third");
    device.float16_tflops = *rate;
  }
  return device;
}

}  // namespace

std::span<const DeviceSpecification> known_devices() {
#define GPU(maker, name, gib, bandwidth, float16, int8) \
  {name, int64_t{gib} << 30, bandwidth, float16, int8, maker},
  static const DeviceSpecification devices[] = {
#include "engine/jobs/gpus.def"
  };
#undef GPU
  return devices;
}

Result<DeviceSpecification> find_device(std::string_view text) {
  if (text.size() > kLongestText) {
    return fail(StatusCode::invalid_argument, "device '{}': the name is longer than {} bytes",
                printable(text), kLongestText);
  }
  if (text.find(',') != std::string_view::npos) return from_numbers(text);
  const std::string key = device_key(text);
  for (const DeviceSpecification& device : known_devices()) {
    if (device_key(device.name) == key) return device;
  }
  return fail(StatusCode::device,
              "device '{}': not in the table; the nearest names are {}; any device can be given by "
              "its memory and bandwidth, such as 24G,1008GB/s,330TFLOPS",
              printable(text), nearest_names(key));
}

}  // namespace infer
