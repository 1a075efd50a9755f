#include "formats/gguf/writer.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/atomic_file.h"
#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "formats/gguf/header.h"

namespace infer {
namespace {

using gguf::ValueType;

template <typename T>
constexpr uint32_t type_id() {
  ValueType type = ValueType::array;
  if constexpr (std::is_same_v<T, uint8_t>) type = ValueType::u8;
  if constexpr (std::is_same_v<T, int8_t>) type = ValueType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) type = ValueType::u16;
  if constexpr (std::is_same_v<T, int16_t>) type = ValueType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) type = ValueType::u32;
  if constexpr (std::is_same_v<T, int32_t>) type = ValueType::i32;
  if constexpr (std::is_same_v<T, uint64_t>) type = ValueType::u64;
  if constexpr (std::is_same_v<T, int64_t>) type = ValueType::i64;
  if constexpr (std::is_same_v<T, float>) type = ValueType::f32;
  if constexpr (std::is_same_v<T, double>) type = ValueType::f64;
  if constexpr (std::is_same_v<T, bool>) type = ValueType::boolean;
  if constexpr (std::is_same_v<T, std::string>) type = ValueType::string;
  return static_cast<uint32_t>(type);
}

/// The header as it will lie in the file.
class Encoder {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void put(T value) { append(&value, sizeof(value)); }
  void put(bool value) { put(static_cast<uint8_t>(value)); }
  void put(const std::string& text) {
    put(static_cast<uint64_t>(text.size()));
    append(text.data(), text.size());
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(type_id<T>());
    put(static_cast<uint64_t>(values.size()));
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      append(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) put(value);
    }
  }
  void put(const MetaValue& value) {
    std::visit(
        [this](const auto& v) {
          put(type_id<std::decay_t<decltype(v)>>());
          put(v);
        },
        value);
  }

  void append(const void* data, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class GgufSink final : public WeightSink {
 public:
  GgufSink(std::string path, std::unique_ptr<AtomicFile> file, Metadata metadata,
           uint64_t alignment)
      : path_(std::move(path)),
        file_(std::move(file)),
        metadata_(std::move(metadata)),
        alignment_(alignment) {}

  Status declare(const std::string& name, const TensorDesc& desc) override {
    INFER_CHECK(failure_);
    if (begun_) return misuse("tensor '{}' declared after begin()", printable(name));
    if (name.empty() || name.size() > gguf::kMaxNameBytes) {
      return misuse("tensor '{}': expected a name of 1 to {} bytes, found {}", printable(name),
                    gguf::kMaxNameBytes, name.size());
    }
    if (!desc.contiguous() || desc.elements() <= 0) {
      return misuse("tensor '{}': expected contiguous data, found {}", printable(name),
                    to_string(desc));
    }
    if (!names_.insert(name).second) {
      return misuse("tensor '{}' declared twice", printable(name));
    }
    if (!gguf::in_a_file(desc.type)) {
      failure_ = error(StatusCode::unsupported,
                       "{}: tensor '{}': GGUF has no type {}: another type has to be chosen", path_,
                       printable(name), dtype_info(desc.type).name);
      return failure_;
    }
    if (desc.type == DType::nf4) {
      metadata_.set(gguf::kNf4Key, static_cast<uint32_t>(gguf::kNf4Version));
    }
    const auto bytes = static_cast<uint64_t>(desc.extent_bytes());
    const std::optional<uint64_t> end = checked_add(data_bytes_, bytes);
    const std::optional<uint64_t> next = end ? checked_round_up(*end, alignment_) : std::nullopt;
    if (!next) return misuse("tensor '{}': the file would be too large", printable(name));
    tensors_.push_back({name, desc, data_bytes_, bytes});
    data_bytes_ = *next;
    return {};
  }

  Status begin() override {
    INFER_CHECK(failure_);
    if (begun_) return misuse("begin() called twice");
    begun_ = true;
    Encoder header;
    header.append(gguf::kMagic, sizeof(gguf::kMagic));
    header.put(gguf::kVersion);
    header.put(static_cast<uint64_t>(tensors_.size()));
    header.put(static_cast<uint64_t>(metadata_.values().size()));
    for (const auto& [key, value] : metadata_.values()) {
      header.put(key);
      header.put(value);
    }
    for (const Tensor& tensor : tensors_) {
      header.put(tensor.name);
      const uint32_t rank = rank_of(tensor.desc);
      header.put(rank);
      for (uint32_t d = 0; d < rank; ++d) header.put(tensor.desc.shape[d]);
      header.put(static_cast<uint32_t>(tensor.desc.type));
      header.put(tensor.offset);
    }
    metadata_ = Metadata();
    INFER_CHECK(put(header.bytes()));
    return tensors_.empty() ? Status() : pad();
  }

  Status write(std::span<const std::byte> data) override {
    INFER_CHECK(failure_);
    if (!begun_) return misuse("write() called before begin()");
    while (!data.empty()) {
      if (current_ == tensors_.size()) {
        return misuse("{} bytes more than the tensors declared", data.size());
      }
      const uint64_t left = tensors_[current_].bytes - given_;
      const auto take = static_cast<size_t>(std::min<uint64_t>(left, data.size()));
      INFER_CHECK(put(data.first(take)));
      data = data.subspan(take);
      given_ += take;
      if (take == left) {
        INFER_CHECK(pad());
        ++current_;
        given_ = 0;
      }
    }
    return {};
  }

  Status finish() override {
    INFER_CHECK(failure_);
    if (!begun_) return misuse("finish() called before begin()");
    if (file_->committed()) return misuse("finish() called twice");
    if (current_ < tensors_.size()) {
      return misuse("tensor '{}': expected {} bytes, was given {}",
                    printable(tensors_[current_].name), tensors_[current_].bytes, given_);
    }
    return file_->commit();
  }

 private:
  struct Tensor {
    std::string name;
    TensorDesc desc;
    uint64_t offset;  ///< in the data section
    uint64_t bytes;
  };

  static uint32_t rank_of(const TensorDesc& desc) {
    uint32_t rank = kMaxDims;
    while (rank > 1 && desc.shape[rank - 1] == 1) --rank;
    return rank;
  }

  template <typename... Args>
  Status misuse(fmt::format_string<Args...> text, Args&&... args) {
    failure_ = error(StatusCode::invalid_argument, "{}: {}", path_,
                     fmt::format(text, std::forward<Args>(args)...));
    return failure_;
  }

  Status put(std::span<const std::byte> data) {
    position_ += data.size();
    failure_ = file_->write(data);
    return failure_;
  }

  Status pad() {
    const std::vector<std::byte> zeros(round_up(position_, alignment_) - position_);
    return put(zeros);
  }

  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  Metadata metadata_;
  uint64_t alignment_;
  Status failure_;
  bool begun_ = false;

  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> names_;
  uint64_t data_bytes_ = 0;  // offset of the next tensor to be declared

  size_t current_ = 0;  // the tensor whose data come next
  uint64_t given_ = 0;  // bytes of it that came
  uint64_t position_ = 0;
};

}  // namespace

Result<std::unique_ptr<WeightSink>> create_gguf(const std::string& path, const Metadata& metadata) {
  INFER_TRY(const uint64_t alignment, gguf::alignment_of(metadata));
  for (const auto& [key, value] : metadata.values()) {
    if (key.empty() || key.size() > gguf::kMaxKeyBytes) {
      return fail(StatusCode::bad_file, "{}: expected a key of 1 to {} bytes, found {}", path,
                  gguf::kMaxKeyBytes, key.size());
    }
  }
  INFER_TRY(std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  return std::make_unique<GgufSink>(path, std::move(file), metadata, alignment);
}

}  // namespace infer
