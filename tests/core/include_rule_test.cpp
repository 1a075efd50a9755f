// Who may include whom: the folders of engine/ in their order, and what app, models, formats and
// back ends may see of it. Who may ask the operating system: two folders. The lists here are the
// rule; the sources are held against it.
#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace infer {
namespace {

namespace fs = std::filesystem;

/// Each may include itself and what stands before it.
constexpr std::string_view kEngineFolders[] = {
    "include", "core",    "image", "telemetry", "quant", "graph",   "ops",
    "weights", "backend", "model", "plan",      "kv",    "exec",    "vision",
    "text",    "sample",  "spec",  "generate",  "sched", "session", "jobs"};

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
    // What the rest stands on sees nothing of the rest.
    if (part(file, 1) == "platform") return folder == "include" || part(included, 0) == "platform";
    constexpr std::string_view kOwn[] = {"bundle", "chat", "cli",      "conversations", "demo",
                                         "gui",    "hub",  "platform", "server"};
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
    if (part(included, 0) != "backends") return is_one_of(folder, kSeen);
    // What these share is a folder beside them.
    constexpr std::string_view kGpus[] = {"cuda", "vulkan"};
    const std::string_view own = part(file, 1);
    const std::string_view other = part(included, 1);
    return other == own || (other == "gpu" && is_one_of(own, kGpus));
  }
  return false;
}

/// The name in a line #include "…", or #include <…> with `quote` '<'; empty if it is none.
std::string_view included_in(std::string_view line, char quote) {
  const auto take = [&](std::string_view word) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (!take("#") || !take("include") || !take({&quote, 1})) return {};
  return line.substr(0, line.find(quote == '<' ? '>' : quote));
}

/// Calls see(file, line) for all lines of the project's sources, files named from its root.
template <typename See>
void for_each_line(const See& see) {
  constexpr std::string_view kEndings[] = {".h",  ".hpp", ".cpp", ".cc",   ".def",
                                           ".cu", ".cuh", ".inc", ".comp", ".glsl"};
  const fs::path root = INFER_SOURCE_DIR;
  for (const char* top : {"engine", "backends", "formats", "models", "app"}) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_one_of(entry.path().extension().string(), kEndings)) {
        continue;
      }
      std::ifstream lines(entry.path());
      const std::string file = fs::relative(entry.path(), root).generic_string();
      for (std::string line; std::getline(lines, line);) see(file, std::string_view(line));
    }
  }
}

TEST_CASE("sources include only what stands above them") {
  size_t seen = 0;
  for_each_line([&](const std::string& file, std::string_view line) {
    const std::string_view included = included_in(line, '"');
    if (included.empty()) return;
    ++seen;
    CHECK_MESSAGE(allowed(file, included), file, " must not include ", included);
  });
  CHECK(seen > 100);
}

/// What in a line of a source asks the operating system; empty: nothing does. Headers of the C++
/// library do not, but for <csignal>. Others are libraries that are listed here, or the system's.
std::string_view asks_system(std::string_view line) {
  constexpr std::string_view kLibraries[] = {
      "CLI/CLI.hpp", "cuda.h", "fmt/", "jerror.h", "jpeglib.h", "nlohmann/", "pcre2.h", "png.h",
      "spdlog/", "tl/expected.hpp", "utf8proc.h", "volk.h", "webp/", "xxhash.h", "zlib.h",
      // Of the program: terminals, downloads and hashes, as
      // libraries for several systems have them.
      "curl/curl.h", "histedit.h", "openssl/sha.h", "sqlite3.h", "toml++/", "imgui", "GLFW/",
      "ft2build.h", "boost/", "cmark-gfm", "stb/",
      // Of the processor, whatever the system.
      "arm_neon.h", "cpuid.h", "immintrin.h",
      // For infer.h, which is C.
      "stddef.h", "stdint.h"};
  if (const std::string_view name = included_in(line, '<'); !name.empty()) {
    const auto begins = [&](std::string_view library) { return name.starts_with(library); };
    const bool standard = name.find_first_of("./") == std::string_view::npos && name != "csignal";
    return standard || std::ranges::any_of(kLibraries, begins) ? std::string_view{} : name;
  }
  // In headers of the standard, or in none.
  constexpr std::string_view kWords[] = {"getenv(",      "gmtime_r(", "localtime_r(", "timegm(",
                                         "newlocale(",   "memmem(",   "\"/proc/",     "\"/sys/",
                                         "std::rename(", "isatty("};
  for (const std::string_view word : kWords) {
    if (line.find(word) != std::string_view::npos) return word;
  }
  return {};
}

TEST_CASE("two folders ask the operating system") {
  constexpr std::string_view kFolders[] = {"engine/core/platform/", "app/platform/"};
  std::set<std::string> asking;
  for_each_line([&](const std::string& file, std::string_view line) {
    const std::string_view what = asks_system(line);
    if (what.empty()) return;
    const auto holds = [&](std::string_view folder) { return file.starts_with(folder); };
    CHECK_MESSAGE(std::ranges::any_of(kFolders, holds), file, " asks the system: ", what);
    asking.insert(file);
  });
  CHECK(asking.size() > 5);
}

TEST_CASE("what asks the operating system is known") {
  for (const char* line :
       {"#include <unistd.h>", "# include <sys/mman.h>", "#include <csignal>",
        "#include <signal.h>", "#include <dlfcn.h>", "#include <windows.h>",
        "  const char* home = std::getenv(\"HOME\");", "std::ifstream file(\"/proc/cpuinfo\");"}) {
    CHECK_MESSAGE(!asks_system(line).empty(), line);
  }
  for (const char* line : {"#include <algorithm>", "#include <fmt/format.h>", "// <unistd.h>",
                           "#include \"engine/core/platform/files.h\"", "#include <cpuid.h>"}) {
    CHECK_MESSAGE(asks_system(line).empty(), line);
  }
}

TEST_CASE("the library lists folders by functions that can run out of memory") {
  // The standard library's iterators end the process then (libstdc++ 12: `noexcept` around what
  // asks for memory). Programs may use them.
  for_each_line([](const std::string& file, std::string_view line) {
    const bool iterates = line.find("directory_iterator") != std::string_view::npos;
    CHECK_MESSAGE((!iterates || file.starts_with("app/")), file, ": os::names_in instead");
  });
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
  CHECK_FALSE(allowed("engine/image/image.h", "engine/graph/graph.h"));
  CHECK_FALSE(allowed("engine/graph/graph.h", "backends/cpu/device.h"));
  CHECK_FALSE(allowed("app/cli/run.cpp", "engine/core/status.h"));
  CHECK(allowed("app/cli/run.cpp", "infer/infer.hpp"));
  CHECK(allowed("app/cli/run.cpp", "platform/files.h"));
  CHECK_FALSE(allowed("app/platform/files.cpp", "cli/failure.h"));
  CHECK_FALSE(allowed("models/llama.cpp", "engine/backend/device.h"));
  CHECK_FALSE(allowed("formats/gguf/header.cpp", "formats/nf4/file.h"));
  CHECK_FALSE(allowed("backends/cpu/device.cpp", "backends/cuda/device.h"));
  CHECK_FALSE(allowed("backends/cpu/device.cpp", "engine/ops/op.h"));
  CHECK(allowed("backends/vulkan/program.cpp", "backends/gpu/hazards.h"));
  CHECK_FALSE(allowed("backends/cpu/device.cpp", "backends/gpu/hazards.h"));
  CHECK_FALSE(allowed("backends/gpu/hazards.h", "backends/vulkan/memory.h"));
  CHECK_FALSE(allowed("backends/cuda/device.cpp", "backends/vulkan/memory.h"));
  CHECK(allowed("engine/quant/traits.cpp", "infer_all_codecs.h"));
  CHECK_FALSE(allowed("engine/quant/traits.cpp", "traits.h"));
}

}  // namespace
}  // namespace infer
