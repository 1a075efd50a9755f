// What a model file holds, from its header.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "engine/core/file.h"
#include "engine/core/log.h"
#include "engine/model/arch.h"
#include "engine/model/open_weights.h"
#include "engine/session/engine_impl.h"
#include "engine/telemetry/device_telemetry.h"
#include "engine/text/infill.h"
#include "engine/text/stream_decoder.h"

namespace infer {
namespace {

constexpr size_t kShownBytes = 120;
constexpr size_t kShownElements = 8;

std::string shorten(const MetaValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return v.size() <= kShownBytes ? v
                                         : to_valid_utf8(v.substr(0, kShownBytes)) +
                                               fmt::format("… ({} bytes)", v.size());
        } else if constexpr (requires { v.size(); }) {
          std::vector<std::string> shown;
          for (size_t i = 0; i < std::min(v.size(), kShownElements); ++i) {
            if constexpr (std::is_same_v<T, std::vector<std::string>>) {
              shown.push_back('"' + to_valid_utf8(v[i].substr(0, kShownBytes)) + '"');
            } else {
              shown.push_back(fmt::format("{}", static_cast<typename T::value_type>(v[i])));
            }
          }
          return fmt::format("[{}{}] ({})", fmt::join(shown, ", "),
                             v.size() > shown.size() ? ", …" : "", v.size());
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

std::string text_or_empty(const Metadata& metadata, std::string_view key) {
  const Result<std::optional<std::string>> found = metadata.get_string(key);
  return found && *found ? **found : std::string();
}

/// The name of general.file_type (enum llama_ftype of llama.h); empty if there is none.
std::string file_type_name(const Metadata& metadata) {
  constexpr std::pair<int64_t, std::string_view> kNames[] = {{0, "F32"},
                                                             {1, "F16"},
                                                             {2, "Q4_0"},
                                                             {3, "Q4_1"},
                                                             {7, "Q8_0"},
                                                             {8, "Q5_0"},
                                                             {9, "Q5_1"},
                                                             {10, "Q2_K - Medium"},
                                                             {11, "Q3_K - Small"},
                                                             {12, "Q3_K - Medium"},
                                                             {13, "Q3_K - Large"},
                                                             {14, "Q4_K - Small"},
                                                             {15, "Q4_K - Medium"},
                                                             {16, "Q5_K - Small"},
                                                             {17, "Q5_K - Medium"},
                                                             {18, "Q6_K"},
                                                             {19, "IQ2_XXS"},
                                                             {20, "IQ2_XS"},
                                                             {21, "Q2_K - Small"},
                                                             {22, "IQ3_XS"},
                                                             {23, "IQ3_XXS"},
                                                             {24, "IQ1_S"},
                                                             {25, "IQ4_NL"},
                                                             {26, "IQ3_S"},
                                                             {27, "IQ3_M"},
                                                             {28, "IQ2_S"},
                                                             {29, "IQ2_M"},
                                                             {30, "IQ4_XS"},
                                                             {31, "IQ1_M"},
                                                             {32, "BF16"},
                                                             {36, "TQ1_0"},
                                                             {37, "TQ2_0"},
                                                             {38, "MXFP4 - Experts"}};
  const auto number = metadata.get_int("general.file_type", 0, INT32_MAX);
  if (!number || !*number) return {};
  const auto found =
      std::ranges::find(kNames, **number, &std::pair<int64_t, std::string_view>::first);
  return found == std::end(kNames) ? std::string() : std::string(found->second);
}

/// Describes a Hugging Face checkpoint of an unknown architecture by the keys that most
/// configurations have.
void describe_checkpoint(const Metadata& metadata, ModelDescription& d) {
  const auto names = metadata.get_strings("hf.config.architectures");
  if (names && *names != nullptr && !(*names)->empty()) d.architecture = (*names)->front();
  d.chat_template = text_or_empty(metadata, "hf.tokenizer_config.chat_template");
  const auto number = [&](const std::string& key) -> int64_t {
    for (const char* section : {"hf.config.", "hf.config.text_config."}) {
      const auto found = metadata.get_int(section + key, 0, INT64_MAX);
      if (found && *found) return **found;
    }
    return 0;
  };
  d.context = number("max_position_embeddings");
  d.embedding = number("hidden_size");
  d.layers = number("num_hidden_layers");
}

}  // namespace

ModelDescription describe(const std::string& path, const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  ModelDescription d;
  d.path = path;
  d.name = text_or_empty(metadata, "general.name");
  d.architecture = text_or_empty(metadata, "general.architecture");
  std::map<DType, int64_t> bytes_by_type;
  for (const Weight& weight : source.weights()) {
    const int64_t bytes = weight.desc.extent_bytes();
    d.parameters += weight.desc.elements();
    d.weight_bytes += bytes;
    bytes_by_type[weight.desc.type] += bytes;
    size_t rank = kMaxDims;
    while (rank > 1 && weight.desc.shape[rank - 1] == 1) --rank;
    d.tensors.push_back({weight.name,
                         std::string(dtype_info(weight.desc.type).name),
                         {weight.desc.shape.begin(), weight.desc.shape.begin() + rank},
                         bytes});
  }
  d.file_type = file_type_name(metadata);
  if (d.file_type.empty() && !bytes_by_type.empty()) {
    const auto most = std::ranges::max_element(bytes_by_type, {}, [](auto& e) { return e.second; });
    d.file_type = dtype_info(most->first).name;
  }
  const auto number = [&](const char* key) -> int64_t {
    const auto found = metadata.get_int(d.architecture + "." + key, 0, INT64_MAX);
    return found && *found ? **found : 0;
  };
  d.context = number("context_length");
  d.embedding = number("embedding_length");
  d.next_token_layers = head_layers(source);
  d.layers = number("block_count") - d.next_token_layers;
  const TokenizerSpec& spec = source.tokenizer();
  d.vocabulary = static_cast<int64_t>(spec.tokens.size());
  d.tokenizer = spec.pre.empty() ? spec.model : fmt::format("{} ({})", spec.model, spec.pre);
  d.chat_template = spec.chat_template;
  for (const auto& [name, text] : spec.named_chat_templates) {
    if (name == "tool_use") d.tool_template = text;
  }
  for (const auto& [key, value] : metadata.values()) d.metadata.emplace_back(key, shorten(value));
  return d;
}

std::string memory_model(const std::string& name, std::span<const std::byte> bytes) {
  return memory_file(name, bytes);
}

Result<ModelDescription> describe_model(const std::string& path) {
  return guarded([&]() -> Result<ModelDescription> {
    const auto source = open_weights(path);
    if (source) {
      ModelDescription d = describe(path, **source);
      if (const auto known = architecture_of(**source); !known) {
        d.unsupported = known.error().message();
      }
      return d;
    }
    if (source.error().code() != StatusCode::unsupported) return tl::unexpected(source.error());
    // The stored tensors can be described without knowing the architecture.
    const auto stored = open_model(path);
    if (!stored) return tl::unexpected(source.error());
    ModelDescription d = describe(path, **stored);
    describe_checkpoint((*stored)->metadata(), d);
    d.unsupported = source.error().message();
    return d;
  });
}

Vocabulary::Vocabulary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Vocabulary::~Vocabulary() = default;

Result<std::unique_ptr<Vocabulary>> Vocabulary::load(const std::string& path) {
  return guarded([&]() -> Result<std::unique_ptr<Vocabulary>> {
    auto impl = std::make_unique<Impl>();
    if (const auto source = open_weights(path)) {
      INFER_TRY(impl->tokenizer, Tokenizer::create((*source)->tokenizer()));
    } else {
      // A vocabulary can be read without weights and without a known architecture.
      const Result<TokenizerSpec> alone = open_vocabulary(path);
      if (!alone && alone.error().code() == StatusCode::not_found) {
        return tl::unexpected(source.error());
      }
      if (!alone) return tl::unexpected(alone.error());
      INFER_TRY(impl->tokenizer, Tokenizer::create(*alone));
    }
    return std::unique_ptr<Vocabulary>(new Vocabulary(std::move(impl)));
  });
}

Result<std::vector<int32_t>> Vocabulary::tokenize(std::string_view text,
                                                  const TokenizeOptions& options) const {
  return guarded([&] {
    return impl_->tokenizer->encode(text, {options.add_special, options.parse_special});
  });
}

Result<std::vector<int32_t>> Vocabulary::infill(const InfillText& text, int64_t most) const {
  return guarded([&] { return infill_tokens(*impl_->tokenizer, text, most); });
}

std::string Vocabulary::detokenize(std::span<const int32_t> tokens) const {
  return impl_->tokenizer->decode(tokens, {.render_special = true});
}

std::string_view Vocabulary::piece(int32_t token) const { return impl_->tokenizer->piece(token); }

SpecialTokenIds Vocabulary::special() const {
  const Tokenizer& tokenizer = *impl_->tokenizer;
  const SpecialTokens& ids = tokenizer.special();
  return {ids.bos,
          ids.eos,
          ids.eot,
          ids.unknown,
          ids.padding,
          tokenizer.adds_bos(),
          tokenizer.adds_eos()};
}

bool Vocabulary::is_end_of_generation(int32_t token) const {
  return impl_->tokenizer->is_eog(token);
}

int32_t Vocabulary::size() const { return impl_->tokenizer->vocab_size(); }

std::optional<GpuTelemetry> telemetry_of(const std::string& device, const std::string& pci) {
  std::optional<GpuTelemetry> telemetry = telemetry_at(pci);
  if (telemetry) telemetry->device = device;
  return telemetry;
}

DeviceDescription describe(const DeviceInfo& info) {
  return {info.name,
          info.description,
          info.memory_total,
          info.memory_free,
          info.threads,
          info.isa,
          info.usable.ok() ? std::string() : info.usable.message(),
          info.memory == MemoryKind::own,
          info.limits,
          info.features,
          info.pci,
          telemetry_of(info.name, info.pci)};
}

std::vector<DeviceDescription> devices(const std::string& kind) {
  std::vector<DeviceDescription> all;
  for (const BackendDef* backend : all_backends()) {
    if (!kind.empty() && kind != backend->name) continue;
    for (const DeviceInfo& info : backend->list()) {
      DeviceDescription& added = all.emplace_back(describe(info));
      // A driver may not say what is free until the device is opened, which takes memory.
      const auto& told = added.telemetry;
      if (!added.own_memory || !told || !told->memory_total || !told->memory_used) continue;
      added.memory_free =
          std::clamp(*told->memory_total - *told->memory_used, int64_t{0}, added.memory_free);
    }
  }
  return all;
}

const char* version() { return INFER_VERSION; }

void set_verbosity(Verbosity verbosity) {
  switch (verbosity) {
    case Verbosity::quiet: set_log_level(LogLevel::error); break;
    case Verbosity::warnings: set_log_level(LogLevel::warning); break;
    case Verbosity::info: set_log_level(LogLevel::info); break;
    case Verbosity::debug: set_log_level(LogLevel::debug); break;
  }
}

void set_log_callback(std::function<void(Verbosity, std::string_view)> sink) {
  if (!sink) return set_log_sink({});
  set_log_sink([sink = std::move(sink)](LogLevel level, std::string_view text) {
    const Verbosity verbosity = level == LogLevel::debug     ? Verbosity::debug
                                : level == LogLevel::info    ? Verbosity::info
                                : level == LogLevel::warning ? Verbosity::warnings
                                                             : Verbosity::quiet;
    // A failure of the callback is dropped: a message may come from any thread, in any work.
    Status dropped;
    call_back(dropped, [&] {
      sink(verbosity, text);
      return true;
    });
  });
}

}  // namespace infer
