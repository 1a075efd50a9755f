// What the driver compiled is found again, and what is not the driver's own is not given to it.
#include "backends/vulkan/kept_file.h"

#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "backends/vulkan/measured_tuning.h"
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
  CHECK(read_kept(device, Kept::pipelines).empty());
  REQUIRE(write_kept(device, Kept::pipelines, some_data()).ok());
  CHECK(read_kept(device, Kept::pipelines) == some_data());

  PhysicalDevice newer = device;
  newer.driver.version = 8;
  CHECK(read_kept(newer, Kept::pipelines).empty());
  CHECK(kept_file(newer, Kept::pipelines) != kept_file(device, Kept::pipelines));
  std::filesystem::copy_file(kept_file(device, Kept::pipelines), kept_file(newer, Kept::pipelines));
  CHECK(read_kept(newer, Kept::pipelines).empty());

  REQUIRE(write_kept(device, Kept::pipelines, {}).ok());
  CHECK(read_kept(device, Kept::pipelines).empty());
}

TEST_CASE("pipelines: a damaged file is none") {
  const test::TempDir folder;
  const CacheHome home(folder.path("cache"));
  const PhysicalDevice device = some_device();
  REQUIRE(write_kept(device, Kept::pipelines, some_data()).ok());
  const std::string path = kept_file(device, Kept::pipelines);
  const std::vector<std::byte> whole = bytes_in(path);
  for (size_t size = 0; size < whole.size(); size += 13) {
    test::write_bytes(path, std::span(whole).first(size));
    CHECK(read_kept(device, Kept::pipelines).empty());
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  test::write_bytes(path, longer);
  CHECK(read_kept(device, Kept::pipelines).empty());
  for (size_t i = 0; i < whole.size(); i += 3) {
    std::vector<std::byte> flipped = whole;
    flipped[i] ^= std::byte{16};
    test::write_bytes(path, flipped);
    CHECK(read_kept(device, Kept::pipelines).empty());
  }
  REQUIRE(write_kept(device, Kept::pipelines, some_data()).ok());
  CHECK(read_kept(device, Kept::pipelines) == some_data());
}

TEST_CASE("pipelines: what others could have written is not given to the driver") {
  namespace fs = std::filesystem;
  const test::TempDir folder;
  const CacheHome home(folder.path("cache"));
  const PhysicalDevice device = some_device();
  REQUIRE(write_kept(device, Kept::pipelines, some_data()).ok());
  const fs::path path = kept_file(device, Kept::pipelines);
  CHECK((fs::status(path).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  std::vector<std::string> lines;
  set_log_callback([&](Verbosity, std::string_view line) { lines.emplace_back(line); });
  for (const fs::path& open : {path, path.parent_path()}) {
    lines.clear();
    const fs::perms before = fs::status(open).permissions();
    fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
    CHECK(read_kept(device, Kept::pipelines).empty());
    CHECK(lines.size() == 1);
    fs::permissions(open, before);
    CHECK(read_kept(device, Kept::pipelines) == some_data());
  }
  // What is written next is trusted again.
  fs::permissions(path, fs::perms::group_write, fs::perm_options::add);
  fs::permissions(path.parent_path(), fs::perms::group_write, fs::perm_options::add);
  REQUIRE(write_kept(device, Kept::pipelines, some_data()).ok());
  CHECK(read_kept(device, Kept::pipelines) == some_data());
  set_log_callback({});
}

TEST_CASE("pipelines: where nothing can be written, nothing is") {
  const test::TempDir folder;
  test::write_bytes(folder.path("file"), some_data());
  const PhysicalDevice device = some_device();
  {
    const CacheHome home(folder.path("file"));
    CHECK(write_kept(device, Kept::pipelines, some_data()).code() == StatusCode::io);
    CHECK(read_kept(device, Kept::pipelines).empty());
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

TEST_CASE("tuning: a device is measured once, and what was found is used from then on") {
  const test::TempDir folder;
  const CacheHome home(folder.path("cache"));
  const auto device = [&](MeasureDevice measure) {
    return test::opener({.measure = measure})("vulkan:0", {});
  };
  const auto tuning_of = [](const Device& opened) {
    return static_cast<const VulkanDevice&>(opened).tuning();
  };
  const auto unmeasured = device(MeasureDevice::never);
  if (!unmeasured) {
    test::skipped("vulkan: " + unmeasured.error().message());
    return;
  }
  const PhysicalDevice physical = test::watched_instance().value()->devices().front();
  CHECK_FALSE(saved_tuning(physical).has_value());
  if (physical.processor) {
    REQUIRE(device(MeasureDevice::if_hardware).has_value());
    CHECK_FALSE(saved_tuning(physical).has_value());
  }

  const auto measured = device(MeasureDevice::always);
  REQUIRE(measured.has_value());
  const std::optional<MeasuredTuning> found = saved_tuning(physical);
  REQUIRE(found.has_value());
  CHECK(tuning_of(**measured).tall == found->tall);
  CHECK(tuning_of(**measured).vector_columns == found->vector_columns);
  CHECK(tuning_of(**measured).parts == tuning_of(**unmeasured).parts);  // it would change bits

  for (const MeasuredTuning other : {MeasuredTuning{4, 32, 0}, MeasuredTuning{1, 8, 1}}) {
    REQUIRE(save_tuning(physical, other).ok());
    const auto next = device(MeasureDevice::always);
    REQUIRE(next.has_value());
    CHECK(tuning_of(**next).tall == other.tall);
    CHECK(tuning_of(**next).vector_columns == other.vector_columns);
  }
  for (const MeasuredTuning wrong : {MeasuredTuning{0, 8, 0}, MeasuredTuning{4, 7, 0},
                                     MeasuredTuning{4, 8, 9}, MeasuredTuning{4, 8, 0, 2}}) {
    REQUIRE(save_tuning(physical, wrong).ok());
    CHECK_FALSE(saved_tuning(physical).has_value());
  }
  REQUIRE(write_kept(physical, Kept::tuning, some_data()).ok());
  CHECK_FALSE(saved_tuning(physical).has_value());
}

}  // namespace
}  // namespace infer::vulkan
