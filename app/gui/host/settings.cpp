#include "gui/host/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <locale>
#include <span>
#include <sstream>
#include <type_traits>
#include <utility>

#define TOML_EXCEPTIONS 0
#define TOML_FLOAT_CHARCONV 1  // the shortest number, which the library takes for too new
#include <toml++/toml.h>

namespace infer::gui {
namespace {

constexpr size_t kMostTextBytes = 1 << 20;

template <typename T>
struct Range {
  T least, most;
};
using Names = std::span<const char* const>;

constexpr const char* kThemes[] = {"system", "light", "dark", "contrast"};
constexpr const char* kCacheTypes[] = {"f32", "f16", "q8_0", "q4_0", "auto"};
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int32_t kMost32 = std::numeric_limits<int32_t>::max();

/// Calls visit(section, key, value, what may be in it) for every setting: reading and writing have
/// one list.
template <typename S, typename Visit>
void for_each_setting(S& s, const Visit& visit) {
  visit("look", "theme", s.theme, Names(kThemes));
  visit("look", "font_size", s.font_size, Range<float>{8, 48});
  visit("window", "width", s.width, Range<int32_t>{200, 32768});
  visit("window", "height", s.height, Range<int32_t>{200, 32768});
  visit("window", "maximised", s.maximised, 0);
  visit("engine", "device", s.device, Names());
  visit("engine", "threads", s.threads, Range<int32_t>{0, 1024});
  visit("engine", "memory_limit", s.memory_limit, Range<int64_t>{0, kMost});
  visit("engine", "reserve", s.reserve, Range<int64_t>{-1, kMost});
  visit("engine", "context", s.context, Range<int64_t>{0, kMost});
  visit("engine", "cache_type", s.cache_type, Names(kCacheTypes));
  visit("models", "recent", s.recent, kMostRecent);
  visit("models", "favourites", s.favourites, kMostPaths);
  visit("models", "folders", s.folders, kMostPaths);
  visit("chat", "last_conversation", s.last_conversation, Range<int64_t>{0, kMost});
  visit("chat", "system_prompt", s.system_prompt, Names());
  visit("chat", "max_tokens", s.max_tokens, Range<int32_t>{-1, kMost32});
  visit("sampling", "temperature", s.temperature, Range<float>{0, 100});
  visit("sampling", "top_k", s.top_k, Range<int32_t>{0, kMost32});
  visit("sampling", "top_p", s.top_p, Range<float>{0, 1});
  visit("sampling", "min_p", s.min_p, Range<float>{0, 1});
  visit("sampling", "repeat_penalty", s.repeat_penalty, Range<float>{0.01f, 100});
}

/// The number as it was typed: 0.1, not 0.10000000149.
double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double number = value;
  std::from_chars(text, end, number);
  return number;
}

std::string shown(const toml::node& node) {
  std::string text = node.is_string()           ? fmt::format("'{}'", **node.as_string())
                     : node.is_integer()        ? std::to_string(**node.as_integer())
                     : node.is_floating_point() ? fmt::format("{}", **node.as_floating_point())
                     : node.is_boolean()        ? (**node.as_boolean() ? "true" : "false")
                     : node.is_array()          ? "a list"
                     : node.is_table()          ? "a section"
                                                : "a time";
  if (text.size() > 60) text = text.substr(0, 57) + "…";
  return text;
}

// What is expected of a value. Each takes it from a node if it is that.

struct Reader {
  const toml::table& table;
  std::vector<std::string>& problems;

  template <typename T, typename Allowed>
  void operator()(const char* section, const char* key, T& value, const Allowed& allowed) const {
    const toml::node* const in = table.get(section);
    if (in == nullptr || !in->is_table()) return;
    const toml::node* const node = in->as_table()->get(key);
    if (node == nullptr) return;
    const std::string expected = take(*node, value, allowed);
    if (expected.empty()) return;
    problems.push_back(
        fmt::format("{}.{}: expected {}, found {}", section, key, expected, shown(*node)));
  }

  static std::string take(const toml::node& node, std::string& value, Names names) {
    if (node.is_string()) {
      const std::string& text = **node.as_string();
      if (names.empty() || std::ranges::count(names, text) > 0) {
        value = text;
        return {};
      }
    }
    if (names.empty()) return "a text";
    return fmt::format("one of {}", fmt::join(names, ", "));
  }
  static std::string take(const toml::node& node, bool& value, int) {
    if (!node.is_boolean()) return "true or false";
    value = **node.as_boolean();
    return {};
  }
  template <typename T>
  static std::string take(const toml::node& node, T& value, const Range<T>& range) {
    const bool whole = std::is_integral_v<T>;
    const double number = node.is_integer()          ? static_cast<double>(**node.as_integer())
                          : node.is_floating_point() ? **node.as_floating_point()
                                                     : std::numeric_limits<double>::quiet_NaN();
    const bool right_kind = node.is_integer() || (!whole && node.is_floating_point());
    if (right_kind && number >= static_cast<double>(range.least) &&
        number <= static_cast<double>(range.most)) {
      value = whole ? static_cast<T>(**node.as_integer()) : static_cast<T>(number);
      return {};
    }
    return fmt::format("{} from {} to {}", whole ? "a whole number" : "a number", range.least,
                       range.most);
  }
  template <typename T>
  static std::string take(const toml::node& node, std::optional<T>& value, const Range<T>& range) {
    T read{};
    std::string expected = take(node, read, range);
    if (expected.empty()) value = read;
    return expected;
  }
  static std::string take(const toml::node& node, std::vector<std::string>& value, size_t most) {
    const std::string expected = fmt::format("a list of at most {} texts", most);
    const toml::array* const list = node.as_array();
    if (list == nullptr || list->size() > most) return expected;
    std::vector<std::string> read;
    for (const toml::node& entry : *list) {
      if (!entry.is_string()) return expected;
      read.push_back(**entry.as_string());
    }
    value = std::move(read);
    return {};
  }
};

struct Writer {
  toml::table& table;

  template <typename T, typename Allowed>
  void operator()(const char* section, const char* key, const T& value, const Allowed&) const {
    toml::node* in = table.get(section);
    if (in == nullptr || !in->is_table()) {
      table.insert_or_assign(section, toml::table());
      in = table.get(section);
    }
    put(*in->as_table(), key, value);
  }

  static void put(toml::table& in, const char* key, const std::string& value) {
    in.insert_or_assign(key, value);
  }
  static void put(toml::table& in, const char* key, bool value) { in.insert_or_assign(key, value); }
  static void put(toml::table& in, const char* key, float value) {
    in.insert_or_assign(key, shortest(value));
  }
  static void put(toml::table& in, const char* key, int32_t value) {
    in.insert_or_assign(key, int64_t{value});
  }
  static void put(toml::table& in, const char* key, int64_t value) {
    in.insert_or_assign(key, value);
  }
  static void put(toml::table& in, const char* key, const std::vector<std::string>& value) {
    toml::array list;
    for (const std::string& text : value) list.push_back(text);
    in.insert_or_assign(key, std::move(list));
  }
  template <typename T>
  static void put(toml::table& in, const char* key, const std::optional<T>& value) {
    if (value) {
      put(in, key, *value);
    } else {
      in.erase(key);
    }
  }
};

Result<toml::table> parse(std::string_view text) {
  if (text.size() > kMostTextBytes) {
    return tl::unexpected(Status(StatusCode::bad_file, "expected at most 1 MiB"));
  }
  toml::parse_result parsed = toml::parse(text);
  if (parsed) return std::move(parsed).table();
  return tl::unexpected(
      Status(StatusCode::bad_file, fmt::format("line {}: {}", parsed.error().source().begin.line,
                                               parsed.error().description())));
}

}  // namespace

void add_recent(Settings& settings, const std::string& path) {
  std::erase(settings.recent, path);
  settings.recent.insert(settings.recent.begin(), path);
  if (settings.recent.size() > kMostRecent) settings.recent.resize(kMostRecent);
}

void toggle_favourite(Settings& settings, const std::string& path) {
  if (std::erase(settings.favourites, path) > 0) return;
  if (settings.favourites.size() < kMostPaths) settings.favourites.push_back(path);
}

Result<ReadSettings> parse_settings(std::string_view text) {
  const Result<toml::table> table = parse(text);
  if (!table) return tl::unexpected(table.error());
  ReadSettings read;
  std::string told;
  const Reader reader{*table, read.problems};
  for_each_setting(read.settings, [&](const char* section, const char* key, auto& value,
                                      const auto& allowed) {
    const toml::node* const in = table->get(section);
    if (in != nullptr && !in->is_table() && told != section) {
      told = section;
      read.problems.push_back(fmt::format("{}: expected a section, found {}", section, shown(*in)));
    }
    reader(section, key, value, allowed);
  });
  return read;
}

Result<std::string> write_settings(const Settings& settings, std::string_view text) {
  Result<toml::table> table = parse(text);
  if (!table) return tl::unexpected(table.error());
  for_each_setting(settings, Writer{*table});
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << *table << "\n";
  return std::move(out).str();
}

}  // namespace infer::gui
