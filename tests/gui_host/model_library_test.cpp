// The library of models: scanned folders, whatever is in them, and what each file is.
#include "gui/host/model_library.h"

#include <doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/gui_host/pump.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

namespace fs = std::filesystem;

/// A home folder with nothing in it, and no variable that names another folder.
class Home {
 public:
  Home() {
    for (const char* name : {"INFER_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME",
                             "OLLAMA_MODELS", "XDG_CACHE_HOME", "HOME"}) {
      const char* const value = std::getenv(name);
      if (value != nullptr) before_.emplace_back(name, value);
      unsetenv(name);
    }
    setenv("HOME", folder_.path("home").c_str(), 1);
  }
  ~Home() {
    unsetenv("HOME");
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string put(const std::string& name, const std::string& source = kSmall) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    fs::copy_file(source, path(name), fs::copy_options::overwrite_existing);
    return path(name);
  }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    write_bytes(path(name), bytes_of(text));
    return path(name);
  }

 private:
  TempDir folder_;
  std::vector<std::pair<std::string, std::string>> before_;
};

void scan(ModelLibrary& library, const std::vector<std::string>& folders) {
  library.scan(folders);
  REQUIRE(eventually([&] {
    library.poll();
    return !library.scanning();
  }));
}

void wait_for_facts(ModelLibrary& library) {
  REQUIRE(eventually([&] {
    library.poll();
    return std::ranges::all_of(library.models(),
                               [](const LibraryModel& model) { return model.facts != nullptr; });
  }));
}

std::set<std::string> names(const ModelLibrary& library, const LibraryFilter& filter = {}) {
  std::set<std::string> found;
  for (const LibraryModel& model : library.models(filter)) found.insert(model.file.name);
  return found;
}

std::string manifest_of(const std::string& digest) {
  return R"({"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":")" +
         digest + "\"}]}";
}

}  // namespace

TEST_CASE("models of other programs and of the user's folders, with what they are") {
  const Home home;
  home.put("home/.lmstudio/models/org/Tiny-GGUF/Tiny-Q4_0.gguf");
  home.put("home/.cache/llama.cpp/cached.gguf", data_path("golden/qwen2-f32.gguf"));
  const std::string digest = "sha256:" + std::string(64, 'a');
  home.put("home/.ollama/models/blobs/sha256-" + std::string(64, 'a'));
  home.write("home/.ollama/models/manifests/registry.ollama.ai/library/small/1b",
             manifest_of(digest));
  home.put("home/.cache/huggingface/hub/models--org--hubbed/snapshots/1/hubbed.gguf");
  const std::string own = home.put("own/mine.gguf", data_path("golden/gemma2-f32.gguf"));
  home.write("own/broken.gguf", "no model");
  std::atomic<int> woken{0};
  ModelLibrary library([&] { ++woken; });
  CHECK(library.models().empty());
  scan(library, {home.path("own")});
  CHECK(woken > 0);
  CHECK(names(library) == std::set<std::string>{"org/Tiny-GGUF/Tiny-Q4_0", "cached", "small:1b",
                                                "org/hubbed/hubbed", "mine", "broken"});
  CHECK(library.skipped().empty());
  wait_for_facts(library);
  REQUIRE(library.facts(own) != nullptr);
  CHECK(library.facts(own)->architecture == "gemma2");
  CHECK(library.facts(own)->context > 0);
  CHECK(library.facts(own)->weight_bytes > 0);
  const std::vector<std::string> known = library.architectures();
  CHECK(known == std::vector<std::string>{"gemma2", "llama", "qwen2"});

  CHECK(names(library, {.architecture = "qwen2"}) == std::set<std::string>{"cached"});
  CHECK(names(library, {.text = "TINY studio"}) ==
        std::set<std::string>{"org/Tiny-GGUF/Tiny-Q4_0"});
  CHECK(names(library, {.text = "  gemma2 "}) == std::set<std::string>{"mine"});
  CHECK(names(library, {.text = "tiny gemma2"}).empty());
  const auto bytes = static_cast<int64_t>(fs::file_size(own));
  CHECK(names(library, {.least_bytes = bytes, .most_bytes = bytes}) ==
        std::set<std::string>{"mine"});
  library.set_favourites({own, "/elsewhere"});
  CHECK(names(library, {.favourites = true}) == std::set<std::string>{"mine"});
  for (const LibraryModel& model : library.models({.text = "broken"})) {
    CHECK(model.facts->status.code() == StatusCode::bad_file);
  }
}

TEST_CASE("a header is read again only when the file has changed") {
  const Home home;
  const std::string path = home.put("own/a.gguf");
  ModelLibrary library;
  for (int round = 0; round < 3; ++round) {
    scan(library, {home.path("own")});
    wait_for_facts(library);
  }
  // A describe() that was answered shows that the scans' own are done.
  library.describe(home.path("own/absent"));
  REQUIRE(eventually([&] {
    library.poll();
    return library.facts(home.path("own/absent")) != nullptr;
  }));
  CHECK(library.headers_read() == 2);
  CHECK(library.facts(home.path("own/absent"))->status.code() == StatusCode::not_found);
  CHECK(library.facts(path)->architecture == "llama");
  home.put("own/a.gguf", data_path("golden/qwen3-f32.gguf"));
  fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  library.describe(path);
  CHECK(eventually([&] {
    library.poll();
    return library.facts(path)->architecture == "qwen3";
  }));
}

TEST_CASE("links in circles, folders without end, and what cannot be read") {
  const Home home;
  home.put("own/a/b/model.gguf");
  fs::create_directory_symlink(home.path("own"), home.path("own/a/b/again"));
  fs::create_directory_symlink(home.path("own/round"), home.path("own/round"));
  fs::create_symlink(home.path("own/nothing"), home.path("own/dangling.gguf"));
  home.put("elsewhere/linked.gguf");
  fs::create_directory_symlink(home.path("elsewhere"), home.path("own/link"));
  fs::create_directory_symlink(home.path("elsewhere"), home.path("own/link-too"));
  std::string deep = "own/";
  for (int i = 0; i < 30; ++i) deep += "d/";
  home.put(deep + "too-deep.gguf");
  REQUIRE(mkfifo(home.path("own/pipe.gguf").c_str(), 0600) == 0);  // never opened: it would wait
  ModelLibrary library;
  scan(library, {home.path("own"), home.path("absent"), home.path("own/a/b/model.gguf")});
  const std::set<std::string> found = names(library);
  CHECK(found.contains("a/b/model"));
  CHECK(found.size() == 2);  // and one of both links' model
  REQUIRE(library.skipped().size() == 2);
  CHECK(library.skipped()[0].path == home.path("absent"));
  CHECK(library.skipped()[0].reason.starts_with("cannot be read"));
  CHECK(library.skipped()[1].reason == "is not a folder");
  if (geteuid() == 0) {
    skipped("a folder without rights: the administrator reads all of them");
    return;
  }
  fs::create_directory(home.path("own/closed"));
  fs::permissions(home.path("own/closed"), fs::perms::none);
  scan(library, {home.path("own")});
  fs::permissions(home.path("own/closed"), fs::perms::owner_all);
  CHECK(names(library) == found);
  REQUIRE(library.skipped().size() == 1);
  CHECK(library.skipped()[0].path == home.path("own/closed"));
}

TEST_CASE("manifests that name no model are left out with the reason") {
  const Home home;
  const std::string models = "home/.ollama/models/";
  fs::create_directories(home.path(models + "blobs"));
  const std::pair<std::string, std::string> cases[] = {
      {"", "not a JSON object"},
      {"{", "not a JSON object"},
      {"[]", "not a JSON object"},
      {std::string(100'000, '['), "not a JSON object"},
      {std::string(2 << 20, ' ') + "{}", "not a JSON object"},
      {"{}", "no array 'layers'"},
      {R"({"layers":7})", "no array 'layers'"},
      {R"({"layers":[7,{"mediaType":1,"digest":2}]})", "names no model"},
      {manifest_of("sha256:/etc/passwd"), "digest"},
      {manifest_of("sha256:../../secret"), "digest"},
      {manifest_of("md5:0"), "digest"},
      {manifest_of("sha256:0"), "digest"},
      {manifest_of("sha256:" + std::string(64, '0')), "is missing"},
  };
  int number = 0;
  for (const auto& [text, reason] : cases) {
    home.write(models + "manifests/registry.ollama.ai/library/m/" + std::to_string(number++), text);
  }
  home.write(models + "manifests/loose", manifest_of("sha256:0"));  // no NAME/TAG
  ModelLibrary library;
  scan(library, {});
  CHECK(library.models().empty());
  REQUIRE(library.skipped().size() == std::size(cases));
  for (const hub::SkippedPath& skipped : library.skipped()) {
    const int which = std::stoi(fs::path(skipped.path).filename().string());
    CHECK_MESSAGE(skipped.reason.find(cases[which].second) != std::string::npos, which, ": ",
                  skipped.reason);
  }
}

TEST_CASE("ten thousand files, parts of one model among them") {
  const Home home;
  fs::create_directories(home.path("own"));
  constexpr int kFiles = 10'000;
  char part[64];
  for (int i = 1; i <= kFiles; ++i) {
    std::snprintf(part, sizeof(part), "own/big-%05d-of-10000.gguf", i);
    write_bytes(home.path(part), bytes_of("x"));
  }
  ModelLibrary library;
  scan(library, {home.path("own")});
  REQUIRE(library.models().size() == 1);
  CHECK(library.models()[0].file.name == "big");
  CHECK(library.models()[0].file.bytes == kFiles);
}

TEST_CASE("ten thousand models are listed, and the visible ones described") {
  const Home home;
  fs::create_directories(home.path("own"));
  constexpr int kFiles = 10'000;
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = std::to_string(i);
    fs::create_symlink(kSmall, home.path("own/" + name + "-00001-of-00002.gguf"));
  }
  ModelLibrary library;
  scan(library, {home.path("own")});
  CHECK(library.models().size() == kFiles);
  CHECK(library.models({.text = "9999"}).size() == 1);
  // The last one is not among those that are described unasked.
  const std::string last = library.models().back().file.path;
  library.describe(last);
  CHECK(eventually([&] {
    library.poll();
    return library.facts(last) != nullptr;
  }));
}

TEST_CASE("of several scans the last one counts, and folders may change meanwhile") {
  const Home home;
  for (int i = 0; i < 200; ++i) home.write("many/" + std::to_string(i) + "/x.gguf", "x");
  home.put("own/a.gguf");
  ModelLibrary library;
  for (int i = 0; i < 50; ++i) library.scan({home.path("many")});
  for (int i = 0; i < 200; i += 2) fs::remove_all(home.path("many/" + std::to_string(i)));
  scan(library, {home.path("own")});
  CHECK(names(library) == std::set<std::string>{"a"});
  scan(library, {home.path("many")});
  CHECK(library.models().size() == 100);
}

TEST_CASE("a library ends whatever it does") {
  const Home home;
  for (int i = 0; i < 300; ++i) home.write("many/" + std::to_string(i) + ".gguf", "x");
  for (int round = 0; round < 20; ++round) {
    ModelLibrary library;
    library.scan({home.path("many")});
    library.describe(kSmall);
    for (int i = 0; i < round; ++i) library.poll();
  }
}
