#include "engine/image/exif.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace infer {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3, kLong = 4;
constexpr size_t kEntryBytes = 12;

bool begins_with(std::span<const uint8_t> data, std::string_view text) {
  return data.size() >= text.size() &&
         std::equal(text.begin(), text.end(), data.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

/// An integer of `size` bytes.
uint32_t number(std::span<const uint8_t> bytes, size_t size, bool little_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value = value << 8 | bytes[little_endian ? size - 1 - i : i];
  }
  return value;
}

}  // namespace

int exif_orientation(std::span<const uint8_t> data) {
  using namespace std::string_view_literals;
  constexpr std::string_view kPrefix = "Exif\0\0"sv;
  if (begins_with(data, kPrefix)) data = data.subspan(kPrefix.size());
  const bool little_endian = begins_with(data, "II*\0"sv);
  if (!little_endian && !begins_with(data, "MM\0*"sv)) return 1;
  if (data.size() < 8) return 1;
  const size_t at = number(data.subspan(4), 4, little_endian);
  if (at > data.size() || data.size() - at < 2) return 1;
  const size_t entries = number(data.subspan(at), 2, little_endian);
  data = data.subspan(at + 2);
  int orientation = 1;
  for (size_t i = 0; i < entries && data.size() >= kEntryBytes; ++i) {
    const auto field = [&](size_t offset, size_t size) {
      return number(data.subspan(offset), size, little_endian);
    };
    const uint32_t type = field(2, 2);
    if (field(0, 2) == kOrientationTag && (type == kShort || type == kLong) && field(4, 4) == 1) {
      const uint32_t value = field(8, type == kShort ? 2 : 4);
      orientation = value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    data = data.subspan(kEntryBytes);
  }
  return orientation;
}

}  // namespace infer
