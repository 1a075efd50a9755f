#include "backends/vulkan/pipeline_file.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

#include "engine/core/atomic_file.h"
#include "engine/core/cache_folder.h"
#include "engine/core/file.h"
#include "engine/core/log.h"

namespace infer::vulkan {
namespace {

/// Before the driver's data, which has a header of its own that says less.
struct Header {
  char magic[8];
  uint32_t version;
  DriverIdentity driver;
  uint64_t bytes;
  uint64_t hash;  ///< XXH3 of the data
};
static_assert(std::is_trivially_copyable_v<Header>);

constexpr char kMagic[8] = {'i', 'n', 'f', 'e', 'r', 'p', 'i', 'p'};
constexpr uint32_t kVersion = 1;
/// More is not believed.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

Header header_of(const PhysicalDevice& device, std::span<const std::byte> data) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.driver = device.driver;
  header.bytes = data.size();
  header.hash = XXH3_64bits(data.data(), data.size());
  return header;
}

}  // namespace

std::string pipeline_file(const PhysicalDevice& device) {
  const std::string folder = cache_folder();
  if (folder.empty()) return {};
  const DriverIdentity& driver = device.driver;
  return fmt::format("{}/vulkan-{:04x}-{:04x}-{:016x}.pipelines", folder, driver.vendor,
                     driver.device, XXH3_64bits(&driver, sizeof(driver)));
}

std::vector<std::byte> read_pipelines(const PhysicalDevice& device) {
  const std::string path = pipeline_file(device);
  if (path.empty()) return {};
  const Result<File> file = File::open(path);
  if (!file || file->size() < sizeof(Header) || file->size() > kMostBytes) return {};
  // The driver parses these bytes, and it trusts them.
  if (const Status trusted = file->written_by_user(); !trusted.ok()) {
    log(LogLevel::warning, "the saved compiled shaders are not used: {}", trusted.message());
    return {};
  }
  std::vector<std::byte> all(file->size());
  if (!file->read_at(0, all).ok()) return {};
  Header header;
  std::memcpy(&header, all.data(), sizeof(header));
  all.erase(all.begin(), all.begin() + sizeof(Header));
  const Header expected = header_of(device, all);
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) return {};
  return all;
}

Status write_pipelines(const PhysicalDevice& device, std::span<const std::byte> data) {
  const std::string path = pipeline_file(device);
  if (path.empty()) return {};
  // read_pipelines() checks that no other user may write here.
  INFER_CHECK(make_private_folder_of(path));
  INFER_TRY_S(const std::unique_ptr<AtomicFile> file,
              AtomicFile::create(path, AtomicFile::Access::user_only));
  const Header header = header_of(device, data);
  INFER_CHECK(file->write(std::as_bytes(std::span(&header, 1))));
  INFER_CHECK(file->write(data));
  return file->commit();
}

}  // namespace infer::vulkan
