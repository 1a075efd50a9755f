// Who may include whom: the folders of engine/ in their order, and what app, models, formats and
// back ends may see of it. The lists here are the rule; the sources are held against it.
#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace infer {
namespace {

namespace fs = std::filesystem;

/// Each may include itself and what stands before it.
constexpr std::string_view kEngineFolders[] = {
    "include", "core", "quant", "graph",  "ops",  "weights",  "backend", "model",   "plan",
    "kv",      "exec", "text",  "sample", "spec", "generate", "sched",   "session", "jobs"};

template <size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::ranges::find(names, name) != std::end(names);
}

std::string_view part(std::string_view path, size_t index) {
  for (; index > 0; --index) {
    const size_t slash = path.find('/');
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
  }
  return path.substr(0, path.find('/'));
}

size_t rank(std::string_view folder) {
  return static_cast<size_t>(std::ranges::find(kEngineFolders, folder) -
                             std::begin(kEngineFolders));
}

/// "include" for the public headers, which are found by "infer/…".
std::string_view engine_folder(std::string_view included) {
  if (included.starts_with("infer/")) return "include";
  return included.starts_with("engine/") ? part(included, 1) : std::string_view{};
}

/// `file` and `included` from the repository's root, as #include "…" names them.
bool allowed(std::string_view file, std::string_view included) {
  // Headers that the build writes are named infer_…; the project's own always have a folder.
  const bool generated =
      included.starts_with("infer_") && included.find('/') == std::string_view::npos;
  const std::string_view top = part(file, 0);
  const std::string_view folder = engine_folder(included);
  if (top == "app") {
    constexpr std::string_view kOwn[] = {"bundle", "chat", "cli", "demo", "gui", "hub", "server"};
    return folder == "include" || is_one_of(part(included, 0), kOwn);
  }
  if (top == "tests") return true;
  if (generated) return true;
  if (top == "engine") {
    if (folder.empty()) return false;
    return rank(folder) < std::size(kEngineFolders) && rank(folder) <= rank(part(file, 1));
  }
  if (top == "models") {
    constexpr std::string_view kSeen[] = {"include", "core", "graph", "weights", "model"};
    return is_one_of(folder, kSeen);
  }
  if (top == "formats") {
    constexpr std::string_view kSeen[] = {"include", "core", "quant", "weights"};
    return is_one_of(folder, kSeen) ||
           (part(included, 0) == "formats" && part(included, 1) == part(file, 1));
  }
  if (top == "backends") {
    constexpr std::string_view kSeen[] = {"include", "core", "quant", "graph", "backend"};
    return is_one_of(folder, kSeen) ||
           (part(included, 0) == "backends" && part(included, 1) == part(file, 1));
  }
  return false;
}

/// The names in #include "…" lines.
std::vector<std::string> includes_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = line;
    const auto skip_blanks = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    };
    const auto take = [&](std::string_view word) {
      skip_blanks();
      if (!rest.starts_with(word)) return false;
      rest.remove_prefix(word.size());
      return true;
    };
    if (take("#") && take("include") && take("\""))
      names.emplace_back(rest.substr(0, rest.find('"')));
  }
  return names;
}

TEST_CASE("sources include only what stands above them") {
  constexpr std::string_view kEndings[] = {".h",  ".hpp", ".cpp", ".cc",   ".def",
                                           ".cu", ".cuh", ".inc", ".comp", ".glsl"};
  const fs::path root = INFER_SOURCE_DIR;
  size_t seen = 0;
  for (const char* top : {"engine", "backends", "formats", "models", "app"}) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_one_of(entry.path().extension().string(), kEndings)) {
        continue;
      }
      const std::string file = fs::relative(entry.path(), root).generic_string();
      for (const std::string& included : includes_of(entry.path())) {
        ++seen;
        CHECK_MESSAGE(allowed(file, included), file, " must not include ", included);
      }
    }
  }
  CHECK(seen > 100);
}

TEST_CASE("every folder of the engine has its place in the order") {
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(INFER_SOURCE_DIR) / "engine")) {
    const std::string name = entry.path().filename().string();
    CHECK_MESSAGE(rank(name) < std::size(kEngineFolders), name);
  }
}

TEST_CASE("the rule refuses what it should") {
  CHECK(allowed("engine/graph/graph.h", "engine/core/status.h"));
  CHECK(allowed("engine/core/status.h", "infer/status.hpp"));
  CHECK_FALSE(allowed("engine/core/status.h", "engine/graph/graph.h"));
  CHECK_FALSE(allowed("engine/core/status.h", "engine/unheard/of.h"));
  CHECK_FALSE(allowed("engine/graph/graph.h", "backends/cpu/device.h"));
  CHECK_FALSE(allowed("app/cli/run.cpp", "engine/core/status.h"));
  CHECK(allowed("app/cli/run.cpp", "infer/infer.hpp"));
  CHECK_FALSE(allowed("models/llama.cpp", "engine/backend/device.h"));
  CHECK_FALSE(allowed("formats/gguf/header.cpp", "formats/nf4/file.h"));
  CHECK_FALSE(allowed("backends/cpu/device.cpp", "backends/cuda/device.h"));
  CHECK_FALSE(allowed("backends/cpu/device.cpp", "engine/ops/op.h"));
  CHECK(allowed("engine/quant/traits.cpp", "infer_all_codecs.h"));
  CHECK_FALSE(allowed("engine/quant/traits.cpp", "traits.h"));
}

}  // namespace
}  // namespace infer
