#include "formats/safetensors/header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "engine/core/checked.h"
#include "engine/core/half.h"

namespace infer::safetensors {

static_assert(std::endian::native == std::endian::little, "files are read as in memory");

namespace {

struct StoredType {
  std::string_view name;
  uint64_t bytes;
  DType given;
  Widen widen;
};

constexpr StoredType kTypes[] = {
    {"F64", 8, DType::f64, Widen::none},        {"F32", 4, DType::f32, Widen::none},
    {"F16", 2, DType::f16, Widen::none},        {"BF16", 2, DType::bf16, Widen::none},
    {"F8_E4M3", 1, DType::f16, Widen::f8_e4m3}, {"F8_E5M2", 1, DType::f16, Widen::f8_e5m2},
    {"I64", 8, DType::i64, Widen::none},        {"U64", 8, DType::i64, Widen::none},
    {"I32", 4, DType::i32, Widen::none},        {"U32", 4, DType::i32, Widen::none},
    {"I16", 2, DType::i16, Widen::none},        {"U16", 2, DType::i16, Widen::none},
    {"I8", 1, DType::i8, Widen::none},          {"U8", 1, DType::i8, Widen::none},
    {"BOOL", 1, DType::i8, Widen::none},        {"F8_E8M0", 1, DType::i8, Widen::none},
};

/// What the JSON says of a tensor.
struct Said {
  std::string name;
  std::optional<std::string> type;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

/// Takes the JSON apart as it is read, so that nothing is held beyond what the format has a place
/// for. The functions are those nlohmann's parser calls; a false ends it.
class HeaderJson {
 public:
  std::vector<Said> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string problem;

  bool null() { return wrong("null"); }
  bool boolean(bool) { return wrong("a bool"); }
  bool number_integer(int64_t value) {
    return bad(fmt::format("{}: expected numbers of at least 0, found {}", where(), value));
  }
  bool number_unsigned(uint64_t value) {
    if (list_ == nullptr) return wrong("a number");
    if (list_->size() >= kMaxNumbers) {
      return bad(fmt::format("{}: expected at most {} numbers", where(), kMaxNumbers));
    }
    list_->push_back(value);
    return true;
  }
  bool number_float(double, const std::string& text) {
    return bad(fmt::format("{}: expected whole numbers, found {}", where(), printable(text)));
  }
  bool string(std::string& text) {
    if (list_ != nullptr || depth_ != 2) return wrong("a string");
    if (in_metadata_) {
      if (metadata.size() == kMaxEntries) {
        return bad(fmt::format("__metadata__: expected at most {} keys", kMaxEntries));
      }
      metadata.emplace_back(std::move(key_), std::move(text));
      return true;
    }
    Said& tensor = tensors.back();
    if (key_ != "dtype") return wrong("a string");
    if (tensor.type) return twice();
    tensor.type = std::move(text);
    return true;
  }
  bool binary(std::vector<uint8_t>&) { return wrong("binary data"); }

  bool start_object(size_t) {
    if (list_ != nullptr || depth_ == 2) return wrong("an object");
    ++depth_;
    return true;
  }
  bool end_object() {
    --depth_;
    if (depth_ == 1) in_metadata_ = false;
    return true;
  }
  bool start_array(size_t) {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr) return wrong("an array");
    Said& tensor = tensors.back();
    if (key_ != "shape" && key_ != "data_offsets") return wrong("an array");
    auto& list = key_ == "shape" ? tensor.shape : tensor.offsets;
    if (list) return twice();
    list_ = &list.emplace();
    return true;
  }
  bool end_array() {
    list_ = nullptr;
    return true;
  }
  bool key(std::string& name) {
    if (depth_ == 1) {
      if (!names_.insert(name).second) {
        return bad(fmt::format("tensor '{}': appears twice", printable(name)));
      }
      in_metadata_ = name == "__metadata__";
      subject_ = in_metadata_ ? "__metadata__" : fmt::format("tensor '{}'", printable(name));
      if (in_metadata_) return true;
      if (tensors.size() == kMaxEntries) {
        return bad(fmt::format("expected at most {} tensors", kMaxEntries));
      }
      tensors.push_back({std::move(name), {}, {}, {}});
      return true;
    }
    key_ = std::move(name);
    return !in_metadata_ || metadata_keys_.insert(key_).second || twice();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return bad(fmt::format("the header is not valid JSON at its byte {}", position));
  }

 private:
  static constexpr size_t kMaxNumbers = 16;
  /// Of tensors, and of keys of the metadata: real files have some tens of thousands. With the
  /// limit on the header's bytes it bounds the memory that a hostile one can ask for.
  static constexpr size_t kMaxEntries = size_t{1} << 20;

  std::string where() const { return key_.empty() ? subject_ : subject_ + ": " + printable(key_); }
  bool bad(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool twice() { return bad(fmt::format("{}: '{}' appears twice", subject_, printable(key_))); }
  bool wrong(const char* found) {
    if (depth_ == 0)
      return bad(fmt::format("expected the header to be an object, found {}", found));
    return bad(fmt::format("{}: expected {}, found {}", where(),
                           in_metadata_  ? "strings"
                           : depth_ == 1 ? "an object"
                                         : "dtype (a string), shape and data_offsets (numbers)",
                           found));
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  std::string subject_ = "the header";
  std::string key_;
  std::vector<uint64_t>* list_ = nullptr;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_keys_;
};

class Reader {
 public:
  explicit Reader(const File& file) : file_(file) {}

  Result<Header> read() {
    INFER_TRY(const std::string text, read_text());
    HeaderJson json;
    if (!nlohmann::json::sax_parse(text, &json)) return bad("{}", json.problem);
    data_ = sizeof(uint64_t) + text.size();
    Header header;
    header.metadata = std::move(json.metadata);
    header.tensors.reserve(json.tensors.size());
    for (Said& said : json.tensors) {
      INFER_TRY(TensorEntry entry, place(said));
      header.tensors.push_back(std::move(entry));
    }
    std::ranges::sort(header.tensors, {}, &TensorEntry::offset);
    INFER_CHECK_R(check_overlaps(header.tensors));
    return header;
  }

 private:
  template <typename... Args>
  tl::unexpected<Status> bad(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(StatusCode::bad_file, "{}: {}", file_.path(),
                fmt::format(text, std::forward<Args>(args)...));
  }

  Result<std::string> read_text() const {
    uint64_t length = 0;
    if (file_.size() < sizeof(length)) {
      return bad(
          "expected the length of a header in its first 8 bytes, found {} bytes: it was cut short "
          "or is not a safetensors file",
          file_.size());
    }
    INFER_CHECK_R(file_.read_at(0, std::as_writable_bytes(std::span(&length, 1))));
    if (length > kMaxHeaderBytes) {
      return bad("expected a header of at most {} bytes, found {}", kMaxHeaderBytes, length);
    }
    if (length > file_.size() - sizeof(length)) {
      return bad("expected a header of {} bytes, found {}: it was cut short or is damaged", length,
                 file_.size() - sizeof(length));
    }
    std::string text(length, '\0');
    INFER_CHECK_R(file_.read_at(sizeof(length), std::as_writable_bytes(std::span(text))));
    return text;
  }

  Result<TensorEntry> place(Said& said) const {
    const std::string name = printable(said.name);
    const auto missing = [&](const char* what) {
      return bad("tensor '{}': {} is missing", name, what);
    };
    if (said.name.empty()) return bad("a tensor has no name");
    if (!said.type) return missing("dtype");
    if (!said.shape) return missing("shape");
    if (!said.offsets) return missing("data_offsets");
    const auto type = std::ranges::find(kTypes, std::string_view(*said.type), &StoredType::name);
    if (type == std::end(kTypes)) {
      return fail(StatusCode::unsupported, "{}: tensor '{}': dtype '{}' is not known", file_.path(),
                  name, printable(*said.type));
    }
    TensorEntry entry;
    entry.widen = type->widen;
    // Kernels over the images of a video have five dimensions: those that vary fastest become one.
    const size_t rank = said.shape->size();
    const size_t joined = rank > kMaxDims ? rank - kMaxDims : 0;
    std::array<int64_t, kMaxDims> shape{1, 1, 1, 1};
    for (size_t d = 0; d < rank; ++d) {
      const uint64_t size = (*said.shape)[rank - 1 - d];
      const std::optional<int64_t> checked = checked_cast<int64_t>(size);
      if (!checked || *checked == 0) {
        return bad("tensor '{}': expected dimensions of 1 to 2^63 - 1, found {}", name, size);
      }
      int64_t& to = shape[d <= joined ? 0 : d - joined];
      const std::optional<int64_t> product = checked_mul(to, *checked);
      if (!product) return bad("tensor '{}': expected fewer than 2^63 elements", name);
      to = *product;
    }
    const Result<TensorDesc> desc = make_tensor(type->given, shape);
    if (!desc) return bad("tensor '{}': {}", name, desc.error().message());
    entry.desc = *desc;
    // No overflow: a given element is at least as large as the stored one.
    const uint64_t bytes = static_cast<uint64_t>(desc->elements()) * type->bytes;
    if (said.offsets->size() != 2) {
      return bad("tensor '{}': data_offsets: expected a begin and an end, found {} numbers", name,
                 said.offsets->size());
    }
    const uint64_t begin = said.offsets->front();
    const uint64_t end = said.offsets->back();
    const uint64_t room = file_.size() - data_;
    if (begin > end || end > room) {
      return bad(
          "tensor '{}': data_offsets: expected a range within the {} bytes of data, found {} "
          "to {}: the file was cut short or is damaged",
          name, room, begin, end);
    }
    if (end - begin != bytes) {
      return bad("tensor '{}': data_offsets: expected {} bytes for {} {}, found {}", name, bytes,
                 type->name, shape_string(entry.desc), end - begin);
    }
    entry.name = std::move(said.name);
    entry.offset = data_ + begin;
    return entry;
  }

  Status check_overlaps(const std::vector<TensorEntry>& tensors) const {
    for (size_t i = 1; i < tensors.size(); ++i) {
      const TensorEntry& before = tensors[i - 1];
      const auto given = static_cast<uint64_t>(before.desc.extent_bytes());
      if (before.offset + (before.widen == Widen::none ? given : given / 2) > tensors[i].offset) {
        return error(StatusCode::bad_file, "{}: tensor '{}': shares bytes with tensor '{}'",
                     file_.path(), printable(tensors[i].name), printable(before.name));
      }
    }
    return {};
  }

  const File& file_;
  uint64_t data_ = 0;
};

}  // namespace

uint16_t widened(Widen widen, std::byte bits) {
  const auto byte = static_cast<uint8_t>(bits);
  if (widen == Widen::f8_e5m2) return static_cast<uint16_t>(byte << 8);
  const auto sign = static_cast<uint16_t>((byte & 0x80) << 8);
  const int magnitude = byte & 0x7f;
  if (magnitude == 0x7f) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 8) return static_cast<uint16_t>(sign | ((magnitude << 7) + (8 << 10)));
  return static_cast<uint16_t>(sign | f32_to_f16(static_cast<float>(magnitude) * 0x1p-9f));
}

Result<Header> read_header(const File& file) { return Reader(file).read(); }

bool looks_like_header(const File& file) {
  uint64_t length = 0;
  std::byte start[sizeof(length) + 1];
  if (file.size() < sizeof(start) || !file.read_at(0, start).ok()) return false;
  std::memcpy(&length, start, sizeof(length));
  return length >= 2 && length <= kMaxHeaderBytes && start[sizeof(length)] == std::byte{'{'};
}

}  // namespace infer::safetensors
