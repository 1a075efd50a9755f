#include "bundle/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "hub/hasher.h"
#include "infer/infer.hpp"
#include "platform/input_file.h"

namespace infer::bundle {
namespace {

constexpr char kMagic[16] = "infer bundle\r\n\x1a";
constexpr uint64_t kVersion = 1;

/// The last bytes of the file, in the order of bytes of the processor that the program is for.
struct Footer {
  char magic[16];
  uint64_t version;
  uint64_t program;
  uint64_t offset;
  uint64_t size;
  char sha256[64];
  char name[136];  ///< ends with a zero
  uint64_t check;  ///< of everything above
};
static_assert(sizeof(Footer) == 256 && std::is_trivially_copyable_v<Footer>);

uint64_t check_of(const Footer& footer) {
  hub::Hasher hasher(64, 0);
  hasher.add({reinterpret_cast<const char*>(&footer), offsetof(Footer, check)});
  const std::string digits = hasher.finish();
  uint64_t check = 0;
  std::from_chars(digits.data(), digits.data() + 16, check, 16);
  return check;
}

using platform::InputFile;
using platform::kOwnFile;

/// False if the file has not that many bytes there.
template <typename T>
bool read(const InputFile& file, uint64_t offset, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  size_t count = 0;
  return offset <= file.size() && file.size() - offset >= sizeof(T) &&
         file.read_at(offset, {reinterpret_cast<char*>(&value), sizeof(T)}, count) == 0 &&
         count == sizeof(T);
}

/// Where the ELF program that a file begins with ends, by its header; 0 if it is none.
uint64_t program_end(const InputFile& file) {
  struct Header {  // Elf64_Ehdr
    char magic[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, programs, sections;
    uint32_t flags;
    uint16_t size, program_size, program_count, section_size, section_count, names;
  } header;
  if (!read(file, 0, header) || std::memcmp(header.magic,
                                            "\x7f"
                                            "ELF\2",
                                            5) != 0)
    return 0;
  // The table of sections is last.
  const uint64_t table = uint64_t{header.section_size} * header.section_count;
  return header.sections <= file.size() ? header.sections + table : 0;
}

/// Whether a model begins where a bundle would have it.
bool model_follows(const InputFile& file) {
  constexpr uint64_t kStep = kAlignment;
  const uint64_t end = program_end(file);
  char magic[4];
  return end > 0 && read(file, (end + kStep - 1) / kStep * kStep, magic) &&
         std::memcmp(magic, "GGUF", 4) == 0;
}

bool makes_sense(const Footer& footer, uint64_t file) {
  const bool ends = std::ranges::find(footer.name, '\0') != std::end(footer.name);
  return footer.version == kVersion && footer.check == check_of(footer) && ends &&
         footer.program <= footer.offset && footer.offset % kAlignment == 0 &&
         footer.offset <= file && footer.size <= file - footer.offset && footer.size > 0 &&
         file - footer.offset - footer.size == sizeof(Footer);
}

/// The path for a message.
std::string shown(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path own = std::filesystem::read_symlink(kOwnFile, failed);
  return path == kOwnFile && !failed ? own.string() : path;
}

/// Bundles that have been mapped, by the path of their model.
std::map<std::string, std::string>& mapped_files() {
  static std::map<std::string, std::string> files;
  return files;
}

}  // namespace

Result<std::optional<Bundle>> find(const std::string& path) {
  const InputFile file(path);
  Footer footer;
  if (file.size() < sizeof(footer) || !read(file, file.size() - sizeof(footer), footer)) {
    return std::nullopt;
  }
  const bool marked = std::memcmp(footer.magic, kMagic, sizeof(kMagic)) == 0;
  if (marked && makes_sense(footer, file.size())) {
    return Bundle{path,
                  footer.name,
                  static_cast<int64_t>(footer.program),
                  static_cast<int64_t>(footer.offset),
                  static_cast<int64_t>(footer.size),
                  std::string(footer.sha256, sizeof(footer.sha256))};
  }
  if (!marked && !model_follows(file)) return std::nullopt;
  return tl::unexpected(Status(
      StatusCode::bad_file,
      fmt::format("{}: a program with a model in it whose end is damaged or missing: expected a "
                  "footer of {} bytes that fits the {} bytes of the file; copy or make it again",
                  shown(path), sizeof(footer), file.size())));
}

std::string footer_of(const Bundle& bundle) {
  Footer footer{};
  std::memcpy(footer.magic, kMagic, sizeof(kMagic));
  footer.version = kVersion;
  footer.program = static_cast<uint64_t>(bundle.program);
  footer.offset = static_cast<uint64_t>(bundle.offset);
  footer.size = static_cast<uint64_t>(bundle.size);
  std::memcpy(footer.sha256, bundle.sha256.data(),
              std::min(bundle.sha256.size(), sizeof(footer.sha256)));
  size_t length = std::min(bundle.name.size(), sizeof(footer.name) - 1);
  // Not within a character.
  while (length < bundle.name.size() && length > 0 && (bundle.name[length] & 0xc0) == 0x80) {
    --length;
  }
  std::memcpy(footer.name, bundle.name.data(), length);
  footer.check = check_of(footer);
  return {reinterpret_cast<const char*>(&footer), sizeof(footer)};
}

Result<std::string> model_path(const Bundle& bundle) {
  const InputFile file(bundle.file);
  const auto size = static_cast<size_t>(bundle.size);
  const std::byte* model = nullptr;
  const int failed = file.failure() != 0
                         ? file.failure()
                         : file.map(static_cast<uint64_t>(bundle.offset), size, model);
  if (failed != 0) {
    return tl::unexpected(
        Status(StatusCode::io,
               fmt::format("{}: cannot map the model in it, {} bytes: {}", shown(bundle.file),
                           bundle.size, std::generic_category().message(failed))));
  }
  // Several bundles may have models of one name.
  const std::string name = bundle.file == kOwnFile ? bundle.name : bundle.file + "/" + bundle.name;
  std::string path = memory_model(name, {model, size});
  mapped_files()[path] = bundle.file;
  return path;
}

Result<std::string> own_model() {
  const Result<std::optional<Bundle>> own = find(kOwnFile);
  if (!own) return tl::unexpected(own.error());
  if (!*own) return std::string();
  return model_path(**own);
}

std::string file_of(const std::string& model) {
  const auto found = mapped_files().find(model);
  return found == mapped_files().end() ? model : found->second;
}

}  // namespace infer::bundle
