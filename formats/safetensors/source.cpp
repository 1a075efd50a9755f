#include "formats/safetensors/source.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "engine/core/log.h"
#include "engine/core/platform/files.h"
#include "engine/weights/read_blocks.h"
#include "formats/safetensors/assembled.h"
#include "formats/safetensors/json_file.h"
#include "formats/safetensors/sentence_modules.h"
#include "formats/safetensors/tokenizer_json.h"

namespace infer::safetensors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kEnding = ".safetensors";
constexpr const char* kAdapter = "adapter_model.safetensors";
constexpr const char* kAdapterConfig = "adapter_config.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_directory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Of a directory's weight files outside of an index: all that end in .safetensors, sorted.
std::vector<std::string> weight_files(const std::string& directory) {
  os::Answer<std::vector<std::string>> in_folder = os::names_in(directory);
  if (!in_folder) return {};
  std::vector<std::string> names = *std::move(in_folder);
  std::erase_if(names, [&](const std::string& name) {
    return !name.ends_with(kEnding) || !is_file(fs::path(directory) / name);
  });
  std::ranges::sort(names);
  return names;
}

/// Whether a directory holds an adapter, as PEFT saves it, and no model.
bool holds_adapter(const std::string& directory) {
  return is_file(directory + "/" + kAdapterConfig) && !is_file(directory + "/" + kIndex) &&
         !is_file(directory + "/" + kSingle);
}

/// Where a weight comes from: TensorPlace::offset is its index in the order of weights().
struct Origin {
  StoredTensor stored;
  std::unique_ptr<AssembledTensor> assembled;  ///< or null: as stored
};

/// Of blocks that are made at a time: what they are made from fits the second-level cache.
constexpr int64_t kAssembledElements = 1 << 18;

class SafetensorsSource final : public WeightSource {
 public:
  SafetensorsSource(Metadata metadata, TokenizerSpec tokenizer, std::vector<Weight> weights,
                    std::vector<Origin> origins, std::vector<std::unique_ptr<MappedFile>> files)
      : metadata_(std::move(metadata)),
        tokenizer_(std::move(tokenizer)),
        weights_(std::move(weights)),
        origins_(std::move(origins)),
        files_(std::move(files)) {}

  const Metadata& metadata() const override { return metadata_; }
  std::span<const Weight> weights() const override { return weights_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }

  Status read(const TensorPlace& place, uint64_t offset, std::span<std::byte> out) const override {
    INFER_CHECK(check(place, offset, out.size()));
    const Origin& origin = origins_[place.offset];
    if (origin.assembled != nullptr) {
      const DTypeInfo& type = dtype_info(weights_[place.offset].desc.type);
      return read_blocks(offset, out, type.block_bytes, kAssembledElements / type.block_elements,
                         [&](int64_t first, int64_t count, std::byte* to) {
                           return origin.assembled->read(first, count, to);
                         });
    }
    const TensorEntry& stored = origin.stored.entry;
    const File& file = *origin.stored.file;
    if (stored.widen == Widen::none) return file.read_at(stored.offset + offset, out);
    std::byte buffer[4096];
    while (!out.empty()) {
      // Every stored byte becomes two; the range may begin and end within such a pair.
      const size_t within = offset % 2;
      const size_t count = std::min(sizeof(buffer), (within + out.size() + 1) / 2);
      INFER_CHECK(file.read_at(stored.offset + offset / 2, std::span(buffer).first(count)));
      const size_t bytes = std::min(out.size(), 2 * count - within);
      for (size_t i = 0; i < bytes; ++i) {
        const size_t at = within + i;
        out[i] = static_cast<std::byte>(widened(stored.widen, buffer[at / 2]) >> (8 * (at % 2)));
      }
      out = out.subspan(bytes);
      offset += bytes;
    }
    return {};
  }

  /// Not a tensor whose codes and scales are apart, of an 8-bit type, or not aligned.
  bool can_map(const TensorPlace& place) const override {
    if (!check(place, 0, 0).ok()) return false;
    const Origin& origin = origins_[place.offset];
    const auto element =
        static_cast<uint64_t>(dtype_info(weights_[place.offset].desc.type).block_bytes);
    return origin.assembled == nullptr && origin.stored.entry.widen == Widen::none &&
           origin.stored.entry.offset % element == 0;
  }

  Result<std::span<const std::byte>> map(const TensorPlace& place, uint64_t bytes) const override {
    INFER_CHECK_R(check(place, 0, bytes));
    const Origin& origin = origins_[place.offset];
    const TensorEntry& stored = origin.stored.entry;
    if (!can_map(place)) {
      return fail(StatusCode::unsupported,
                  "{}: tensor '{}' cannot be mapped: it is not stored as it is used",
                  origin.stored.file->path(), printable(weights_[place.offset].name));
    }
    INFER_TRY(const std::byte* start, files_[origin.stored.file_index]->mapping());
    return std::span(start + stored.offset, static_cast<size_t>(bytes));
  }

 private:
  Status check(const TensorPlace& place, uint64_t offset, uint64_t bytes) const {
    const bool known = place.file == 0 && place.offset < origins_.size();
    const uint64_t size =
        known ? static_cast<uint64_t>(weights_[place.offset].desc.extent_bytes()) : 0;
    if (known && offset <= size && bytes <= size - offset) return {};
    return error(StatusCode::invalid_argument, "{}: no {} bytes at {} of tensor {} of {}",
                 metadata_.source(), bytes, offset, place.offset, origins_.size());
  }

  Metadata metadata_;
  TokenizerSpec tokenizer_;
  std::vector<Weight> weights_;
  std::vector<Origin> origins_;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

class Opener {
 public:
  Opener(const std::string& path, ModelParts parts) : parts_(parts), metadata_(path) {
    tokenizer_.source = path;
    tokenizer_.model = "none";
  }

  Result<std::unique_ptr<WeightSource>> open() {
    const std::string& path = metadata_.source();
    const bool adapter = is_directory(path) && holds_adapter(path);
    metadata_.set(adapter ? "hf.adapter" : "hf.checkpoint", true);
    if (adapter) {
      INFER_CHECK_R(open_adapter(path));
    } else if (is_directory(path)) {
      INFER_CHECK_R(open_directory(path));
    } else {
      INFER_CHECK_R(add_file(path));
      const std::string folder = fs::path(path).parent_path().string();
      const std::string beside = folder.empty() ? "." : folder;
      INFER_CHECK_R(refuse_shard(path, beside));
      if (is_file(beside + "/" + kConfig)) INFER_CHECK_R(read_texts(beside));
    }
    INFER_CHECK_R(collect_weights());
    return std::make_unique<SafetensorsSource>(std::move(metadata_), std::move(tokenizer_),
                                               std::move(weights_), std::move(origins_),
                                               std::move(files_));
  }

 private:
  /// One of several files of a model is not the model.
  static Status refuse_shard(const std::string& path, const std::string& directory) {
    const std::string name = fs::path(path).filename().string();
    if (name.find("-of-") == std::string::npos || !is_file(directory + "/" + kIndex)) return {};
    return error(StatusCode::bad_file,
                 "{}: is one of several parts of a model: give the directory, {}", path, directory);
  }

  Status open_adapter(const std::string& directory) {
    INFER_CHECK(read_json_file(directory + "/" + kAdapterConfig, "hf.adapter_config.", metadata_));
    const Status status = add_file(directory + "/" + kAdapter);
    if (status.code() != StatusCode::not_found || !is_file(directory + "/adapter_model.bin")) {
      return status;
    }
    return error(StatusCode::unsupported,
                 "{}: expected {}, found adapter_model.bin: save the adapter as safetensors",
                 directory, kAdapter);
  }

  Status open_directory(const std::string& directory) {
    INFER_CHECK(read_texts(directory));
    INFER_CHECK(open_weights(directory));
    return read_sentence_modules(
        directory, metadata_,
        [&](const std::string& path, const std::string& prefix) { return add_file(path, prefix); });
  }

  Status open_weights(const std::string& directory) {
    // An index beside the one file is of the model that this one was made of.
    if (is_file(directory + "/" + kSingle)) return add_file(directory + "/" + kSingle);
    if (is_file(directory + "/" + kIndex)) return open_shards(directory);
    const std::vector<std::string> names = weight_files(directory);
    if (names.size() == 1) return add_file(directory + "/" + names[0]);
    for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
      if (!names.empty() || !is_file(directory + "/" + other)) continue;
      return error(StatusCode::unsupported,
                   "{}: expected safetensors, found {}: save the model as safetensors", directory,
                   other);
    }
    return error(names.empty() ? StatusCode::not_found : StatusCode::bad_file,
                 "{}: expected {}, {} or one file *.safetensors, found {} files of that ending",
                 directory, kIndex, kSingle, names.size());
  }

  /// `weight_map` names the file of every tensor.
  Status open_shards(const std::string& directory) {
    constexpr std::string_view kMap = "weight_map.";
    const std::string path = directory + "/" + kIndex;
    Metadata index(path);
    INFER_CHECK(read_json_file(path, "", index));
    std::unordered_map<std::string, std::string> file_of;
    std::vector<std::string> shards;
    for (const auto& [key, value] : index.values()) {
      if (!key.starts_with(kMap)) continue;
      const auto* shard = std::get_if<std::string>(&value);
      if (shard == nullptr) {
        return error(StatusCode::bad_file, "{}: '{}': expected the name of a file, found {}", path,
                     printable(key), meta_type_name(value));
      }
      file_of.emplace(key.substr(kMap.size()), *shard);
      shards.push_back(*shard);
    }
    if (file_of.empty()) {
      return error(StatusCode::bad_file, "{}: expected tensors in 'weight_map', found none", path);
    }
    std::ranges::sort(shards);
    shards.erase(std::ranges::unique(shards).begin(), shards.end());
    for (const std::string& shard : shards) INFER_CHECK(add_shard(directory, path, shard));
    for (const StoredTensor& tensor : stored_) {
      const std::string& found = shards[tensor.file_index];
      const auto it = file_of.find(tensor.entry.name);
      if (it != file_of.end() && it->second != found) {
        return error(StatusCode::bad_file, "{}: tensor '{}': expected in {}, found in {}", path,
                     printable(tensor.entry.name), printable(it->second), printable(found));
      }
      if (it != file_of.end()) file_of.erase(it);
    }
    // What the model needs is missed by name later.
    if (!file_of.empty()) {
      const auto& [name, shard] = *file_of.begin();
      log(LogLevel::warning, "{}: tensor '{}': expected in {}, which does not hold it", path,
          printable(name), printable(shard));
    }
    return {};
  }

  Status add_shard(const std::string& directory, const std::string& index,
                   const std::string& shard) {
    if (!is_file_name(shard)) {
      return error(StatusCode::bad_file,
                   "{}: 'weight_map': expected names of files in its folder, found '{}'", index,
                   printable(shard));
    }
    const Status status = add_file(directory + "/" + shard);
    if (status.code() != StatusCode::not_found) return status;
    return error(StatusCode::not_found, "{}, which {} lists", status.message(), index);
  }

  Status add_file(const std::string& path, const std::string& prefix = {}) {
    INFER_TRY_S(File file, File::open(path));
    INFER_CHECK(check_fetched(file));
    INFER_TRY_S(Header header, read_header(file));
    const auto index = static_cast<uint32_t>(files_.size());
    files_.push_back(std::make_unique<MappedFile>(std::move(file)));
    for (TensorEntry& tensor : header.tensors) {
      tensor.name.insert(0, prefix);
      if (!names_.emplace(tensor.name, index).second) {
        return error(StatusCode::bad_file, "{}: tensor '{}' is in another file as well", path,
                     printable(tensor.name));
      }
      stored_.push_back({std::move(tensor), &files_.back()->file(), index});
    }
    for (auto& [key, value] : header.metadata) {
      metadata_.set("hf.metadata." + key, std::move(value));
    }
    return {};
  }

  /// Weights as stored, and those that are put together in the place of their codes.
  Status collect_weights() {
    PartTable parts(metadata_, stored_);
    parts.take_activation_scales();
    INFER_TRY_S(std::vector<Assembled> made, assemble_bitsandbytes(parts));
    for (const auto assemble : {assemble_packed_ternary, assemble_packed_hqq, assemble_packed_int4,
                                assemble_packed_fp4, assemble_packed_rows, assemble_scaled_bytes}) {
      INFER_TRY_S(std::vector<Assembled> more, assemble(parts));
      std::ranges::move(more, std::back_inserter(made));
    }
    std::ranges::stable_sort(made, {}, &Assembled::place);
    auto next = made.begin();
    for (size_t i = 0; i < stored_.size(); ++i) {
      for (; next != made.end() && next->place == i; ++next) {
        INFER_CHECK(add_weight(next->name, next->desc, {stored_[i], std::move(next->tensor)}));
      }
      if (parts.is_taken(i)) continue;
      INFER_CHECK(add_weight(stored_[i].entry.name, stored_[i].entry.desc, {stored_[i], nullptr}));
    }
    return {};
  }

  Status add_weight(const std::string& name, const TensorDesc& desc, Origin origin) {
    if (!weight_names_.insert(name).second) {
      return error(StatusCode::bad_file, "{}: tensor '{}' is stored in two forms",
                   metadata_.source(), printable(name));
    }
    weights_.push_back({name, desc, {0, weights_.size()}});
    origins_.push_back(std::move(origin));
    return {};
  }

  Status read_texts(const std::string& directory) {
    INFER_CHECK(read_json_file(directory + "/" + kConfig, "hf.config.", metadata_));
    const std::string generation = directory + "/generation_config.json";
    if (is_file(generation)) {
      INFER_CHECK(read_json_file(generation, "hf.generation_config.", metadata_));
    }
    // How images are scaled; newer files say it of all that a model takes.
    for (const char* name : {"preprocessor_config", "processor_config"}) {
      const std::string path = directory + "/" + name + ".json";
      if (is_file(path)) {
        INFER_CHECK(read_json_file(path, std::string("hf.") + name + ".", metadata_));
      }
    }
    if (parts_ == ModelParts::weights) return {};
    INFER_TRY_S(tokenizer_, read_tokenizer(directory, metadata_));
    return read_chat_templates(directory);
  }

  /// What tokenizer_config.json holds, a template or a list of named ones; chat_template.jinja in
  /// the place of the default one; chat_template.json if there is none yet, where processors of
  /// images have theirs; and additional_chat_templates/NAME.jinja.
  Status read_chat_templates(const std::string& directory) {
    constexpr const char* kKey = "hf.tokenizer_config.chat_template";
    INFER_CHECK(read_templates_in(directory + "/tokenizer_config.json", kKey));
    if (const std::string path = directory + "/chat_template.jinja"; is_file(path)) {
      INFER_CHECK(read_template(path, kKey));
    }
    if (!metadata_.has(kKey)) {
      INFER_CHECK(read_templates_in(directory + "/chat_template.json", kKey));
    }
    constexpr std::string_view kJinja = ".jinja";
    constexpr size_t kMostNamed = 64;
    const std::string more = directory + "/additional_chat_templates";
    os::Answer<std::vector<std::string>> names = os::names_in(more);
    if (!names) return {};
    std::erase_if(*names, [&](const std::string& name) { return !name.ends_with(kJinja); });
    if (names->size() > kMostNamed) {
      return error(StatusCode::bad_file, "{}: expected at most {} templates, found {}", more,
                   kMostNamed, names->size());
    }
    std::ranges::sort(*names);
    for (const std::string& name : *names) {
      const std::string which = name.substr(0, name.size() - kJinja.size());
      INFER_CHECK(read_template(more + "/" + name, "hf.chat_templates." + which));
    }
    return {};
  }

  Status read_template(const std::string& path, const std::string& key) {
    constexpr uint64_t kMaxBytes = uint64_t{1} << 22;
    INFER_TRY_S(const File file, File::open(path));
    if (file.size() > kMaxBytes) {
      return error(StatusCode::bad_file, "{}: expected at most {} bytes, found {}", path, kMaxBytes,
                   file.size());
    }
    std::string text(file.size(), '\0');
    INFER_CHECK(file.read_at(0, std::as_writable_bytes(std::span(text))));
    metadata_.set(key, std::move(text));
    return {};
  }

  /// `key`: of the default one.
  Status read_templates_in(const std::string& path, const char* key) {
    if (!is_file(path)) return {};
    Metadata config(path);
    INFER_CHECK(read_json_file(path, "", config));
    if (const auto text = config.get_string("chat_template"); text && *text) {
      metadata_.set(key, **text);
    }
    for (size_t i = 0;; ++i) {
      const auto name = config.get_string(fmt::format("chat_template.{}.name", i));
      const auto text = config.get_string(fmt::format("chat_template.{}.template", i));
      if (!name || !*name || !text || !*text) return {};
      metadata_.set(**name == "default" ? key : "hf.chat_templates." + **name, **text);
    }
  }

  ModelParts parts_;
  Metadata metadata_;
  TokenizerSpec tokenizer_;
  std::vector<StoredTensor> stored_;
  std::vector<Weight> weights_;
  std::vector<Origin> origins_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::unordered_map<std::string, uint32_t> names_;
  std::unordered_set<std::string> weight_names_;
};

}  // namespace

bool recognise(const std::string& path) {
  if (is_directory(path)) {
    return holds_adapter(path) || is_file(path + "/" + kConfig);
  }
  const Result<File> file = File::open(path);
  return file && looks_like_header(*file);
}

Result<std::unique_ptr<WeightSource>> open_source(const std::string& path, ModelParts parts) {
  return Opener(path, parts).open();
}

Result<TokenizerSpec> open_vocabulary(const std::string& path) {
  if (vocabulary_file(path).empty()) {
    return fail(StatusCode::not_found, "{}: no tokenizer.json, tokenizer.model or other vocabulary",
                path);
  }
  Metadata config(path);
  if (const std::string file = path + "/" + kConfig; is_file(file)) {
    INFER_CHECK_R(read_json_file(file, "hf.config.", config));
  }
  return read_tokenizer(path, config);
}

}  // namespace infer::safetensors
