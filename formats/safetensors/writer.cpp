#include "formats/safetensors/writer.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/core/atomic_file.h"
#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "formats/safetensors/header.h"

namespace infer {
namespace {

constexpr uint64_t kAlignment = 8;  ///< of the data's first byte, as other writers keep it

const char* type_name(DType type) {
  switch (type) {
    case DType::f64: return "F64";
    case DType::f32: return "F32";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
    case DType::i64: return "I64";
    case DType::i32: return "I32";
    case DType::i16: return "I16";
    case DType::i8: return "I8";
    default: return nullptr;
  }
}

/// Bytes that are not UTF-8, which JSON cannot hold, become U+FFFD.
std::string spelt(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_of(const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return spelt(std::visit([](const auto& v) { return nlohmann::json(v); }, value));
}

class SafetensorsSink final : public WeightSink {
 public:
  SafetensorsSink(std::string path, std::unique_ptr<AtomicFile> file, const Metadata& metadata)
      : path_(std::move(path)), file_(std::move(file)) {
    for (const auto& [key, value] : metadata.values()) texts_[key] = text_of(value);
  }

  Status declare(const std::string& name, const TensorDesc& desc) override {
    INFER_CHECK(failure_);
    const std::string shown = printable(name);
    if (begun_) return misuse("tensor '{}' declared after begin()", shown);
    if (name.empty() || name == "__metadata__") {
      return misuse("tensor '{}': not a name that the format can hold", shown);
    }
    if (!desc.contiguous() || desc.elements() <= 0) {
      return misuse("tensor '{}': expected contiguous data, found {}", shown, to_string(desc));
    }
    const char* type = type_name(desc.type);
    if (type == nullptr) {
      failure_ = error(StatusCode::unsupported, "{}: tensor '{}': the format has no type {}", path_,
                       shown, dtype_info(desc.type).name);
      return failure_;
    }
    if (!names_.insert(name).second) return misuse("tensor '{}' declared twice", shown);
    const auto bytes = static_cast<uint64_t>(desc.extent_bytes());
    const std::optional<uint64_t> end = checked_add(data_bytes_, bytes);
    if (!end) return misuse("tensor '{}': the file would be too large", shown);
    add(name, {{"dtype", type}, {"shape", shape_of(desc)}, {"data_offsets", {data_bytes_, *end}}});
    data_bytes_ = *end;
    return {};
  }

  Status begin() override {
    INFER_CHECK(failure_);
    if (begun_) return misuse("begin() called twice");
    begun_ = true;
    if (!texts_.empty()) add("__metadata__", texts_);
    std::string text = std::exchange(header_, std::string()) + (header_empty_ ? "{}" : "}");
    text.resize(round_up<size_t>(text.size(), kAlignment), ' ');
    const uint64_t length = text.size();
    if (length > safetensors::kMaxHeaderBytes) {
      return misuse("expected a header of at most {} bytes, found {}", safetensors::kMaxHeaderBytes,
                    length);
    }
    INFER_CHECK(put(std::as_bytes(std::span(&length, 1))));
    return put(std::as_bytes(std::span(text)));
  }

  Status write(std::span<const std::byte> data) override {
    INFER_CHECK(failure_);
    if (!begun_) return misuse("write() called before begin()");
    if (data.size() > data_bytes_ - given_) {
      return misuse("{} bytes more than the tensors declared",
                    data.size() - (data_bytes_ - given_));
    }
    given_ += data.size();
    return put(data);
  }

  Status finish() override {
    INFER_CHECK(failure_);
    if (!begun_) return misuse("finish() called before begin()");
    if (file_->committed()) return misuse("finish() called twice");
    if (given_ < data_bytes_) {
      return misuse("expected {} bytes of tensors, was given {}", data_bytes_, given_);
    }
    return file_->commit();
  }

 private:
  template <typename... Args>
  Status misuse(fmt::format_string<Args...> text, Args&&... args) {
    failure_ = error(StatusCode::invalid_argument, "{}: {}", path_,
                     fmt::format(text, std::forward<Args>(args)...));
    return failure_;
  }

  /// The file's order of dimensions.
  static std::vector<int64_t> shape_of(const TensorDesc& desc) {
    size_t rank = kMaxDims;
    while (rank > 1 && desc.shape[rank - 1] == 1) --rank;
    return {std::make_reverse_iterator(desc.shape.begin() + rank), desc.shape.rend()};
  }

  void add(const std::string& name, const nlohmann::json& value) {
    header_ += header_empty_ ? '{' : ',';
    header_empty_ = false;
    header_ += spelt(name) + ':' + spelt(value);
  }

  Status put(std::span<const std::byte> data) {
    failure_ = file_->write(data);
    return failure_;
  }

  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  nlohmann::json texts_;
  std::string header_;  // without the last brace
  bool header_empty_ = true;
  std::unordered_set<std::string> names_;
  Status failure_;
  bool begun_ = false;
  uint64_t data_bytes_ = 0;
  uint64_t given_ = 0;
};

}  // namespace

Result<std::unique_ptr<WeightSink>> create_safetensors(const std::string& path,
                                                       const Metadata& metadata) {
  INFER_TRY(std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  return std::make_unique<SafetensorsSink>(path, std::move(file), metadata);
}

}  // namespace infer
