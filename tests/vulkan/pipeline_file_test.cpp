// What the driver compiled is found again, and what is not the driver's own is not given to it.
#include "backends/vulkan/pipeline_file.h"

#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "engine/jobs/conformance.h"
#include "infer/infer.hpp"
#include "tests/support.h"
#include "tests/validation.h"

namespace infer::vulkan {
namespace {

/// Sets $XDG_CACHE_HOME for as long as it lives.
class CacheHome {
 public:
  explicit CacheHome(const std::string& path) {
    if (const char* now = std::getenv(kName)) before_ = now;
    setenv(kName, path.c_str(), 1);
  }
  ~CacheHome() {
    if (before_) {
      setenv(kName, before_->c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }
  CacheHome(const CacheHome&) = delete;
  CacheHome& operator=(const CacheHome&) = delete;

 private:
  static constexpr const char* kName = "XDG_CACHE_HOME";
  std::optional<std::string> before_;
};

PhysicalDevice some_device() {
  PhysicalDevice device;
  device.driver = {0x10de, 0x2330, 7, {1, 2, 3}};
  return device;
}

std::vector<std::byte> some_data() {
  std::vector<std::byte> data(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  return data;
}

std::vector<std::byte> bytes_in(const std::string& path) {
  const std::string text = test::read_text(path);
  const auto bytes = test::bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("pipelines: what was written is read, by the same driver alone") {
  const test::TempDir folder;
  const CacheHome home(folder.path("not/there/yet"));
  const PhysicalDevice device = some_device();
  CHECK(read_pipelines(device).empty());
  REQUIRE(write_pipelines(device, some_data()).ok());
  CHECK(read_pipelines(device) == some_data());

  PhysicalDevice newer = device;
  newer.driver.version = 8;
  CHECK(read_pipelines(newer).empty());
  CHECK(pipeline_file(newer) != pipeline_file(device));
  std::filesystem::copy_file(pipeline_file(device), pipeline_file(newer));
  CHECK(read_pipelines(newer).empty());

  REQUIRE(write_pipelines(device, {}).ok());
  CHECK(read_pipelines(device).empty());
}

TEST_CASE("pipelines: a damaged file is none") {
  const test::TempDir folder;
  const CacheHome home(folder.path("cache"));
  const PhysicalDevice device = some_device();
  REQUIRE(write_pipelines(device, some_data()).ok());
  const std::string path = pipeline_file(device);
  const std::vector<std::byte> whole = bytes_in(path);
  for (size_t size = 0; size < whole.size(); size += 13) {
    test::write_bytes(path, std::span(whole).first(size));
    CHECK(read_pipelines(device).empty());
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  test::write_bytes(path, longer);
  CHECK(read_pipelines(device).empty());
  for (size_t i = 0; i < whole.size(); i += 3) {
    std::vector<std::byte> flipped = whole;
    flipped[i] ^= std::byte{16};
    test::write_bytes(path, flipped);
    CHECK(read_pipelines(device).empty());
  }
  REQUIRE(write_pipelines(device, some_data()).ok());
  CHECK(read_pipelines(device) == some_data());
}

TEST_CASE("pipelines: what others could have written is not given to the driver") {
  namespace fs = std::filesystem;
  const test::TempDir folder;
  const CacheHome home(folder.path("cache"));
  const PhysicalDevice device = some_device();
  REQUIRE(write_pipelines(device, some_data()).ok());
  const fs::path path = pipeline_file(device);
  CHECK((fs::status(path).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  std::vector<std::string> lines;
  set_log_callback([&](Verbosity, std::string_view line) { lines.emplace_back(line); });
  for (const fs::path& open : {path, path.parent_path()}) {
    lines.clear();
    const fs::perms before = fs::status(open).permissions();
    fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
    CHECK(read_pipelines(device).empty());
    CHECK(lines.size() == 1);
    fs::permissions(open, before);
    CHECK(read_pipelines(device) == some_data());
  }
  // What is written next is trusted again.
  fs::permissions(path, fs::perms::group_write, fs::perm_options::add);
  fs::permissions(path.parent_path(), fs::perms::group_write, fs::perm_options::add);
  REQUIRE(write_pipelines(device, some_data()).ok());
  CHECK(read_pipelines(device) == some_data());
  set_log_callback({});
}

TEST_CASE("pipelines: where nothing can be written, nothing is") {
  const test::TempDir folder;
  test::write_bytes(folder.path("file"), some_data());
  const PhysicalDevice device = some_device();
  {
    const CacheHome home(folder.path("file"));
    CHECK(write_pipelines(device, some_data()).code() == StatusCode::io);
    CHECK(read_pipelines(device).empty());
    if (const auto opened = test::open_watched("vulkan")) {
      CHECK(run_conformance(**opened, false, "scale").failed == 0);
    }
  }
  CHECK(bytes_in(folder.path("file")) == some_data());
}

TEST_CASE("pipelines: a device keeps what it compiled, and bears a damaged file") {
  const test::TempDir folder;
  const CacheHome home(folder.path("cache"));
  const auto run = [] {
    const auto device = test::open_watched("vulkan");
    if (!device) {
      test::skipped("vulkan: " + device.error().message());
      return false;
    }
    const SelftestReport report = run_conformance(**device, false, "scale");
    CHECK(report.failed == 0);
    CHECK(report.passed > 0);
    return true;
  };
  if (!run()) return;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("cache/infer"))) {
    files.push_back(entry.path().string());
  }
  REQUIRE(files.size() == 1);
  const std::vector<std::byte> whole = bytes_in(files[0]);
  CHECK(run());
  CHECK(bytes_in(files[0]).size() == whole.size());
  test::write_bytes(files[0], std::span(whole).first(whole.size() / 2));
  CHECK(run());
  CHECK(bytes_in(files[0]).size() == whole.size());
}

}  // namespace
}  // namespace infer::vulkan
