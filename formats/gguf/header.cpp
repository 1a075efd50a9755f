#include "formats/gguf/header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "engine/core/checked.h"
#include "formats/gguf/cursor.h"

namespace infer::gguf {
namespace {

/// Real headers stay below 40 MB, with some hundred keys, some thousand tensors and, in the largest
/// vocabularies, a million strings. The limits bound the memory that a hostile one can ask for: an
/// empty string takes 8 bytes of the file and 32 of memory, a number of one byte may become one
/// of 8.
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 28;
constexpr uint64_t kMaxKeyValues = uint64_t{1} << 20;
constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
constexpr uint64_t kMaxStrings = uint64_t{1} << 22;          // of all arrays together
constexpr uint64_t kMaxElements = uint64_t{1} << 24;         // of one array
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;        // length, key, type, value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 0 + 4 + 8;  // length, name, rank, type, offset

const char* removed_type_name(uint32_t id) {
  switch (id) {
    case 4: return "Q4_2";
    case 5: return "Q4_3";
    case 31: return "Q4_0_4_4";
    case 32: return "Q4_0_4_8";
    case 33: return "Q4_0_8_8";
    case 36: return "IQ4_NL_4_4";
    case 37: return "IQ4_NL_4_8";
    case 38: return "IQ4_NL_8_8";
    default: return nullptr;
  }
}

Status check_version(const std::string& path, uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xffff) == 0) {
    return error(StatusCode::unsupported,
                 "{}: is a big-endian GGUF file (version {}); only little-endian files can be read",
                 path, __builtin_bswap32(version));
  }
  if (version == 1) {
    return error(StatusCode::unsupported,
                 "{}: GGUF version 1 is not supported (expected 2 or 3); convert the model again",
                 path);
  }
  return error(version == 0 ? StatusCode::bad_file : StatusCode::unsupported,
               "{}: expected GGUF version 2 or 3, found {}", path, version);
}

class HeaderReader {
 public:
  explicit HeaderReader(const File& file) : file_(file), in_(file, kMaxHeaderBytes) {}

  Result<Header> read() {
    Header header;
    header.metadata = Metadata(file_.path());
    INFER_CHECK_R(read_counts());
    for (uint64_t i = 0; i < key_values_; ++i) INFER_CHECK_R(read_key_value(i, header.metadata));
    INFER_TRY(alignment_, alignment_of(header.metadata));
    INFER_CHECK_R(read_tensors(header.tensors));
    return header;
  }

 private:
  template <typename... Args>
  Status bad(fmt::format_string<Args...> text, Args&&... args) const {
    return error(StatusCode::bad_file, "{}: {}: {}", file_.path(), in_.subject(),
                 fmt::format(text, std::forward<Args>(args)...));
  }

  Status at_most(uint64_t most, uint64_t found) const {
    return found <= most ? Status() : bad("expected at most {}", most);
  }

  Status read_counts() {
    std::array<char, 4> magic{};
    INFER_CHECK(in_.read_number(magic));
    if (std::memcmp(magic.data(), kMagic, sizeof(kMagic)) != 0) {
      return error(StatusCode::bad_file, "{}: expected the bytes 'GGUF' at its start, found '{}'",
                   file_.path(), printable(std::string_view(magic.data(), magic.size())));
    }
    uint32_t version = 0;
    INFER_CHECK(in_.read_number(version));
    INFER_CHECK(check_version(file_.path(), version));
    INFER_CHECK(in_.read_number(tensors_));
    INFER_CHECK(in_.read_number(key_values_));
    in_.set_subject(fmt::format("{} metadata keys", key_values_));
    INFER_CHECK(at_most(kMaxKeyValues, key_values_));
    INFER_CHECK(in_.require(key_values_, kMinKeyValueBytes));
    in_.set_subject(fmt::format("{} tensors", tensors_));
    INFER_CHECK(at_most(kMaxTensors, tensors_));
    return in_.require(tensors_, kMinTensorBytes);
  }

  Status read_key_value(uint64_t index, Metadata& metadata) {
    in_.set_subject(fmt::format("metadata key {} of {}", index + 1, key_values_));
    std::string key;
    uint64_t length = 0;
    INFER_CHECK(in_.read_number(length));
    if (length == 0 || length > kMaxKeyBytes) {
      return bad("expected a key of 1 to {} bytes, found {}", kMaxKeyBytes, length);
    }
    INFER_CHECK(in_.require(length, 1));
    key.resize(length);
    INFER_CHECK(in_.read(std::as_writable_bytes(std::span(key))));
    in_.set_subject(fmt::format("key '{}'", printable(key)));
    if (metadata.has(key)) return bad("appears twice");
    uint32_t type = 0;
    INFER_CHECK(in_.read_number(type));
    MetaValue value;
    INFER_CHECK(read_value(static_cast<ValueType>(type), value));
    metadata.set(std::move(key), std::move(value));
    return {};
  }

  Status read_value(ValueType type, MetaValue& out) {
    switch (type) {
      case ValueType::u8: return read_scalar<uint8_t>(out);
      case ValueType::i8: return read_scalar<int8_t>(out);
      case ValueType::u16: return read_scalar<uint16_t>(out);
      case ValueType::i16: return read_scalar<int16_t>(out);
      case ValueType::u32: return read_scalar<uint32_t>(out);
      case ValueType::i32: return read_scalar<int32_t>(out);
      case ValueType::u64: return read_scalar<uint64_t>(out);
      case ValueType::i64: return read_scalar<int64_t>(out);
      case ValueType::f32: return read_scalar<float>(out);
      case ValueType::f64: return read_scalar<double>(out);
      case ValueType::boolean: return read_bool(out.emplace<bool>());
      case ValueType::string: return in_.read_string(out.emplace<std::string>());
      case ValueType::array: return read_array(out);
    }
    return bad("expected a value type of 0 to 12, found {}", static_cast<uint32_t>(type));
  }

  Status read_array(MetaValue& out) {
    uint32_t type = 0;
    uint64_t count = 0;
    INFER_CHECK(in_.read_number(type));
    INFER_CHECK(in_.read_number(count));
    if (count > kMaxElements) {
      return bad("expected an array of at most {} elements, found {}", kMaxElements, count);
    }
    switch (static_cast<ValueType>(type)) {
      case ValueType::u8: return read_numbers<uint8_t>(count, out);
      case ValueType::i8: return read_numbers<int8_t>(count, out);
      case ValueType::u16: return read_numbers<uint16_t>(count, out);
      case ValueType::i16: return read_numbers<int16_t>(count, out);
      case ValueType::u32: return read_numbers<uint32_t>(count, out);
      case ValueType::i32: return read_numbers<int32_t>(count, out);
      case ValueType::u64: return read_numbers<uint64_t>(count, out);
      case ValueType::i64: return read_numbers<int64_t>(count, out);
      case ValueType::f32: return read_numbers<float>(count, out);
      case ValueType::f64: return read_numbers<double>(count, out);
      case ValueType::boolean: return read_bools(count, out);
      case ValueType::string: return read_strings(count, out);
      case ValueType::array:
        return error(StatusCode::unsupported, "{}: {}: arrays of arrays are not supported",
                     file_.path(), in_.subject());
    }
    return bad("expected an element type of 0 to 12, found {}", type);
  }

  template <typename T>
  Status read_scalar(MetaValue& out) {
    return in_.read_number(out.emplace<T>());
  }

  Status read_bool(bool& out) {
    uint8_t byte = 0;
    INFER_CHECK(in_.read_number(byte));
    if (byte > 1) return bad("expected a bool, 0 or 1, found {}", byte);
    out = byte != 0;
    return {};
  }

  template <typename T>
  Status read_numbers(uint64_t count, MetaValue& out) {
    INFER_CHECK(in_.require(count, sizeof(T)));
    std::vector<T>& values = out.emplace<std::vector<T>>(count);
    return in_.read(std::as_writable_bytes(std::span(values)));
  }

  Status read_bools(uint64_t count, MetaValue& out) {
    INFER_CHECK(in_.require(count, 1));
    std::vector<bool>& values = out.emplace<std::vector<bool>>(count);
    for (uint64_t i = 0; i < count; ++i) {
      bool value = false;
      INFER_CHECK(read_bool(value));
      values[i] = value;
    }
    return {};
  }

  Status read_strings(uint64_t count, MetaValue& out) {
    INFER_CHECK(in_.require(count, sizeof(uint64_t)));
    strings_ += count;  // no overflow: a header holds fewer
    if (strings_ > kMaxStrings) {
      return bad("expected at most {} strings in all arrays, found {}", kMaxStrings, strings_);
    }
    auto& values = out.emplace<std::vector<std::string>>();
    values.reserve(count);
    for (uint64_t i = 0; i < count; ++i) INFER_CHECK(in_.read_string(values.emplace_back()));
    return {};
  }

  Status read_tensors(std::vector<TensorEntry>& out) {
    in_.set_subject(fmt::format("{} tensors", tensors_));
    INFER_CHECK(in_.require(tensors_, kMinTensorBytes));
    out.reserve(tensors_);
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < tensors_; ++i) {
      in_.set_subject(fmt::format("tensor {} of {}", i + 1, tensors_));
      TensorEntry& tensor = out.emplace_back();
      INFER_CHECK(read_tensor(tensor));
      if (!names.insert(tensor.name).second) return bad("appears twice");
    }
    return place_tensors(out);
  }

  Status read_tensor(TensorEntry& out) {
    uint64_t length = 0;
    INFER_CHECK(in_.read_number(length));
    if (length == 0 || length > kMaxNameBytes) {
      return bad("expected a name of 1 to {} bytes, found {}", kMaxNameBytes, length);
    }
    out.name.resize(length);
    INFER_CHECK(in_.read(std::as_writable_bytes(std::span(out.name))));
    in_.set_subject(fmt::format("tensor '{}'", printable(out.name)));
    uint32_t rank = 0;
    INFER_CHECK(in_.read_number(rank));
    if (rank > kMaxDims) return bad("expected at most {} dimensions, found {}", kMaxDims, rank);
    std::array<int64_t, kMaxDims> shape{1, 1, 1, 1};
    for (uint32_t d = 0; d < rank; ++d) {
      uint64_t size = 0;
      INFER_CHECK(in_.read_number(size));
      const std::optional<int64_t> checked = checked_cast<int64_t>(size);
      if (!checked || *checked == 0) {
        return bad("expected dimension {} to be 1 to 2^63 - 1, found {}", d, size);
      }
      shape[d] = *checked;
    }
    uint32_t id = 0;
    INFER_CHECK(in_.read_number(id));
    DType type{};
    INFER_CHECK(read_type(id, type));
    const Result<TensorDesc> desc = make_tensor(type, shape);
    if (!desc) return bad("{}", desc.error().message());
    out.desc = *desc;
    return in_.read_number(out.offset);
  }

  Status read_type(uint32_t id, DType& out) const {
    const std::optional<DType> type = dtype_from_id(id);
    if (type && in_a_file(*type)) {
      out = *type;
      return {};
    }
    if (const char* name = removed_type_name(id)) {
      return error(StatusCode::unsupported,
                   "{}: {}: type {} ({}) was removed from GGUF; convert the model again",
                   file_.path(), in_.subject(), name, id);
    }
    return error(StatusCode::unsupported, "{}: {}: tensor type {} is not known", file_.path(),
                 in_.subject(), id);
  }

  /// Turns offsets into the data section, which begins at the next aligned byte, into offsets into
  /// the file, and checks that every tensor has its own bytes inside it.
  Status place_tensors(std::vector<TensorEntry>& tensors) {
    if (tensors.empty()) return {};
    const uint64_t start = round_up(in_.position(), alignment_);
    std::vector<const TensorEntry*> by_offset;
    by_offset.reserve(tensors.size());
    for (TensorEntry& tensor : tensors) {
      in_.set_subject(fmt::format("tensor '{}'", printable(tensor.name)));
      if (tensor.offset % alignment_ != 0) {
        return bad("offset {} is not a multiple of the alignment, {}", tensor.offset, alignment_);
      }
      const auto bytes = static_cast<uint64_t>(tensor.desc.extent_bytes());
      const std::optional<uint64_t> begin = checked_add(start, tensor.offset);
      const std::optional<uint64_t> end = begin ? checked_add(*begin, bytes) : std::nullopt;
      if (!end || *end > file_.size()) {
        return bad(
            "{}: expected {} bytes at offset {} of the data, which begin at byte {}, but "
            "the file has {} bytes: it was cut short or is damaged",
            to_string(tensor.desc), bytes, tensor.offset, start, file_.size());
      }
      tensor.offset = *begin;
      by_offset.push_back(&tensor);
    }
    std::ranges::sort(by_offset, {}, &TensorEntry::offset);
    for (size_t i = 1; i < by_offset.size(); ++i) {
      const TensorEntry& before = *by_offset[i - 1];
      if (before.offset + static_cast<uint64_t>(before.desc.extent_bytes()) >
          by_offset[i]->offset) {
        in_.set_subject(fmt::format("tensor '{}'", printable(by_offset[i]->name)));
        return bad("shares bytes with tensor '{}'", printable(before.name));
      }
    }
    return {};
  }

  const File& file_;
  Cursor in_;
  uint64_t tensors_ = 0;
  uint64_t strings_ = 0;
  uint64_t key_values_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
};

}  // namespace

Result<Header> read_header(const File& file) { return HeaderReader(file).read(); }

Result<uint64_t> alignment_of(const Metadata& metadata) {
  INFER_TRY(const std::optional<int64_t> value, metadata.get_int(kAlignmentKey, 0, INT64_MAX));
  const int64_t alignment = value.value_or(kDefaultAlignment);
  if (alignment > kMaxAlignment || !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    return fail(StatusCode::bad_file, "{}: key '{}': expected a power of two up to {}, found {}",
                metadata.source(), kAlignmentKey, kMaxAlignment, alignment);
  }
  return static_cast<uint64_t>(alignment);
}

}  // namespace infer::gguf
