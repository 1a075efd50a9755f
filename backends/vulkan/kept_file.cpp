#include "backends/vulkan/kept_file.h"

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

/// Before the data. That of pipelines has a header of the driver's, which says less.
struct Header {
  char magic[8];
  uint32_t version;
  DriverIdentity driver;
  uint64_t bytes;
  uint64_t hash;  ///< XXH3 of the data
};
static_assert(std::is_trivially_copyable_v<Header>);

struct Kind {
  const char* extension;
  std::string_view magic;
  const char* description;
};
const Kind& kind_of(Kept what) {
  static constexpr Kind kKinds[] = {
      {"pipelines", "inferpip", "the saved compiled shaders"},
      {"tuning", "infertun", "the saved measurements"},
  };
  return kKinds[static_cast<size_t>(what)];
}
constexpr uint32_t kVersion = 1;
/// More is not believed.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

Header header_of(const PhysicalDevice& device, Kept what, std::span<const std::byte> data) {
  Header header{};
  std::memcpy(header.magic, kind_of(what).magic.data(), sizeof(header.magic));
  header.version = kVersion;
  header.driver = device.driver;
  header.bytes = data.size();
  header.hash = XXH3_64bits(data.data(), data.size());
  return header;
}

}  // namespace

std::string kept_file(const PhysicalDevice& device, Kept what) {
  const std::string folder = cache_folder();
  if (folder.empty()) return {};
  const DriverIdentity& driver = device.driver;
  return fmt::format("{}/vulkan-{:04x}-{:04x}-{:016x}.{}", folder, driver.vendor, driver.device,
                     XXH3_64bits(&driver, sizeof(driver)), kind_of(what).extension);
}

std::vector<std::byte> read_kept(const PhysicalDevice& device, Kept what) {
  const std::string path = kept_file(device, what);
  if (path.empty()) return {};
  const Result<File> file = File::open(path);
  if (!file || file->size() < sizeof(Header) || file->size() > kMostBytes) return {};
  // A driver parses its pipelines, and it trusts them.
  if (const Status trusted = file->written_by_user(); !trusted.ok()) {
    log(LogLevel::warning, "{} are not used: {}", kind_of(what).description, trusted.message());
    return {};
  }
  std::vector<std::byte> all(file->size());
  if (!file->read_at(0, all).ok()) return {};
  Header header;
  std::memcpy(&header, all.data(), sizeof(header));
  all.erase(all.begin(), all.begin() + sizeof(Header));
  const Header expected = header_of(device, what, all);
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) return {};
  return all;
}

Status write_kept(const PhysicalDevice& device, Kept what, std::span<const std::byte> data) {
  const std::string path = kept_file(device, what);
  if (path.empty()) return {};
  // read_kept() checks that no other user may write here.
  INFER_CHECK(make_private_folder_of(path));
  INFER_TRY_S(const std::unique_ptr<AtomicFile> file,
              AtomicFile::create(path, AtomicFile::Access::user_only));
  const Header header = header_of(device, what, data);
  INFER_CHECK(file->write(std::as_bytes(std::span(&header, 1))));
  INFER_CHECK(file->write(data));
  return file->commit();
}

}  // namespace infer::vulkan
