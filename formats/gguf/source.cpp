#include "formats/gguf/source.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "formats/gguf/header.h"
#include "formats/gguf/tokenizer.h"

namespace infer::gguf {
namespace {

constexpr int64_t kMaxParts = 65535;
constexpr const char* kSplitNo = "split.no";
constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitTensors = "split.tensors.count";

class GgufSource final : public WeightSource {
 public:
  GgufSource(Metadata metadata, TokenizerSpec tokenizer, std::vector<Weight> weights,
             std::vector<std::unique_ptr<MappedFile>> parts)
      : metadata_(std::move(metadata)),
        tokenizer_(std::move(tokenizer)),
        weights_(std::move(weights)),
        parts_(std::move(parts)) {}

  const Metadata& metadata() const override { return metadata_; }
  std::span<const Weight> weights() const override { return weights_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }

  Status read(const TensorPlace& place, uint64_t offset, std::span<std::byte> out) const override {
    const std::optional<uint64_t> begin = checked_add(place.offset, offset);
    if (place.file >= parts_.size() || !begin) return no_such_place(place, offset);
    return parts_[place.file]->file().read_at(*begin, out);
  }

  bool can_map(const TensorPlace&) const override { return true; }

  /// Aligned to general.alignment, or to a page where that is smaller.
  Result<std::span<const std::byte>> map(const TensorPlace& place, uint64_t bytes) const override {
    if (place.file >= parts_.size()) return tl::unexpected(no_such_place(place, 0));
    const uint64_t size = parts_[place.file]->file().size();
    if (place.offset > size || bytes > size - place.offset) {
      return tl::unexpected(no_such_place(place, bytes));
    }
    INFER_TRY(const std::byte* start, parts_[place.file]->mapping());
    return std::span(start + place.offset, static_cast<size_t>(bytes));
  }

 private:
  Status no_such_place(const TensorPlace& place, uint64_t offset) const {
    return error(StatusCode::invalid_argument, "{}: no place {} + {} in file {} of {}",
                 metadata_.source(), place.offset, offset, place.file, parts_.size());
  }

  Metadata metadata_;
  TokenizerSpec tokenizer_;
  std::vector<Weight> weights_;
  std::vector<std::unique_ptr<MappedFile>> parts_;
};

std::string part_suffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

/// What comes before the suffix of part `number`; none if the path does not end in it.
std::optional<std::string> split_prefix(const std::string& path, int64_t number, int64_t count) {
  const std::string suffix = part_suffix(number, count);
  if (!path.ends_with(suffix)) return std::nullopt;
  return path.substr(0, path.size() - suffix.size());
}

/// What a file says about the set it belongs to; a file that is not split is the first of one.
struct SplitInfo {
  int64_t number = 0;
  int64_t count = 1;
  std::optional<int64_t> tensors;
};

Result<SplitInfo> split_info(const Metadata& metadata) {
  SplitInfo info;
  INFER_TRY(const auto count, metadata.get_int(kSplitCount, 0, kMaxParts));
  info.count = std::max<int64_t>(count.value_or(1), 1);
  INFER_TRY(const auto number, metadata.get_int(kSplitNo, 0, info.count - 1));
  info.number = number.value_or(0);
  INFER_TRY(info.tensors, metadata.get_int(kSplitTensors, 0, INT64_MAX));
  return info;
}

class Opener {
 public:
  Result<std::unique_ptr<WeightSource>> open(const std::string& path) {
    INFER_TRY(File file, File::open(path));
    INFER_TRY(Header header, read_header(file));
    INFER_TRY(const SplitInfo split, split_info(header.metadata));
    INFER_CHECK_R(add_part(std::move(file), header.tensors));
    if (split.count > 1) INFER_CHECK_R(open_further_parts(path, split));
    INFER_CHECK_R(check_nf4(header.metadata));
    if (split.tensors && *split.tensors != static_cast<int64_t>(weights_.size())) {
      return fail(StatusCode::bad_file, "{}: key '{}': expected {} tensors in {} files, found {}",
                  path, kSplitTensors, *split.tensors, split.count, weights_.size());
    }
    for (const char* key : {kSplitNo, kSplitCount, kSplitTensors, kNf4Key}) {
      header.metadata.erase(key);
    }
    INFER_TRY(TokenizerSpec tokenizer, read_tokenizer(header.metadata));
    return std::make_unique<GgufSource>(std::move(header.metadata), std::move(tokenizer),
                                        std::move(weights_), std::move(parts_));
  }

 private:
  /// The type number of NF4 is this project's own: without the key it may mean anything.
  Status check_nf4(const Metadata& metadata) const {
    const auto nf4 = std::ranges::find_if(
        weights_, [](const Weight& weight) { return weight.desc.type == DType::nf4; });
    if (nf4 == weights_.end()) return {};
    INFER_TRY_S(const auto version, metadata.get_int(kNf4Key, 0, INT64_MAX));
    if (version == kNf4Version) return {};
    if (version) {
      return error(StatusCode::unsupported, "{}: key '{}': expected {}, found {}",
                   metadata.source(), kNf4Key, kNf4Version, *version);
    }
    return error(StatusCode::unsupported,
                 "{}: tensor '{}': tensor type {} is not known without the key '{}'",
                 metadata.source(), printable(nf4->name), static_cast<int>(DType::nf4), kNf4Key);
  }

  Status open_further_parts(const std::string& path, const SplitInfo& split) {
    const std::optional<std::string> prefix = split_prefix(path, split.number, split.count);
    if (split.number != 0) {
      const std::string first =
          prefix ? *prefix + part_suffix(0, split.count) : std::string("its first part");
      return error(StatusCode::bad_file, "{}: is part {} of {} of a split model: open {} instead",
                   path, split.number + 1, split.count, first);
    }
    if (!prefix) {
      return error(StatusCode::bad_file,
                   "{}: is the first of {} parts: expected a name that ends in {}, to find the "
                   "others by",
                   path, split.count, part_suffix(0, split.count));
    }
    for (int64_t number = 1; number < split.count; ++number) {
      INFER_CHECK(open_part(*prefix + part_suffix(number, split.count), number, split.count));
    }
    return {};
  }

  Status open_part(const std::string& path, int64_t number, int64_t count) {
    Result<File> file = File::open(path);
    if (!file) {
      return error(file.error().code(), "{}, which is part {} of {} of the model",
                   file.error().message(), number + 1, count);
    }
    INFER_TRY_S(const Header header, read_header(*file));
    INFER_TRY_S(const SplitInfo split, split_info(header.metadata));
    if (split.number != number || split.count != count) {
      return error(StatusCode::bad_file, "{}: expected part {} of {}, found part {} of {}", path,
                   number + 1, count, split.number + 1, split.count);
    }
    return add_part(*std::move(file), header.tensors);
  }

  Status add_part(File file, const std::vector<TensorEntry>& tensors) {
    const auto index = static_cast<uint32_t>(parts_.size());
    weights_.reserve(weights_.size() + tensors.size());
    for (const TensorEntry& tensor : tensors) {
      if (!names_.insert(tensor.name).second) {
        return error(StatusCode::bad_file, "{}: tensor '{}' is in an earlier part as well",
                     file.path(), printable(tensor.name));
      }
      weights_.push_back({tensor.name, tensor.desc, {index, tensor.offset}});
    }
    parts_.push_back(std::make_unique<MappedFile>(std::move(file)));
    return {};
  }

  std::vector<std::unique_ptr<MappedFile>> parts_;
  std::vector<Weight> weights_;
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<std::unique_ptr<WeightSource>> open_source(const std::string& path) {
  return Opener().open(path);
}

}  // namespace infer::gguf
