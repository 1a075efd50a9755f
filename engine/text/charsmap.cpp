#include "engine/text/charsmap.h"

#include <algorithm>

namespace infer {
namespace {

// What real maps have is below: 32 bytes a key and 33 a replacement. The limits bound the work per
// character against a hostile file.
constexpr size_t kMaxKeyBytes = 64;
constexpr size_t kMaxReplacementBytes = 128;
constexpr size_t kMaxGrowth = 16;  // a replacement to its key; U+FDFA has 11

uint32_t little_endian(std::span<const uint8_t> bytes) {
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

// A unit: bits 0–7 label, 8 whether a value follows, 9 scale of the offset, 10–30 offset; bit 31
// marks a value.
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xff); }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & ~(1u << 31); }

}  // namespace

Result<Charsmap> Charsmap::parse(std::span<const uint8_t> blob, const std::string& source) {
  Charsmap map;
  if (blob.empty()) return map;
  const auto bad = [&](const char* what) {
    return fail(StatusCode::bad_file, "{}: tokenizer.ggml.precompiled_charsmap {}", source, what);
  };
  if (blob.size() < 4) return bad("is shorter than its header");
  const uint32_t trie_bytes = little_endian(blob);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) return bad("has a trie beyond its end");
  for (size_t i = 0; i < trie_bytes; i += 4)
    map.units_.push_back(little_endian(blob.subspan(4 + i)));
  const auto rest = blob.subspan(4 + trie_bytes);
  map.replacements_.assign(rest.begin(), rest.end());
  if (!map.units_.empty() && (rest.empty() || rest.back() != 0)) {
    return bad("has a replacement without an end");
  }
  size_t begin = 0;
  for (size_t i = 0; i < map.replacements_.size(); ++i) {
    if (map.replacements_[i] != '\0') continue;
    if (i - begin > kMaxReplacementBytes) return bad("has a replacement that is too long");
    begin = i + 1;
  }
  return map;
}

Charsmap::Mapping Charsmap::find(std::string_view text, bool shortest) const {
  Mapping mapping;
  if (units_.empty()) return mapping;
  size_t node = offset_of(units_[0]);
  const size_t most = std::min(text.size(), kMaxKeyBytes);
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t at = value_of(units_[node]);
    if (at >= replacements_.size()) break;
    const std::string_view replacement = replacements_.c_str() + at;
    if (replacement.size() <= kMaxGrowth * (i + 1)) mapping = {replacement, i + 1};
    if (shortest) break;
  }
  return mapping;
}

}  // namespace infer
