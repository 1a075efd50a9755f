// Writes a model with weights of other types. Every row depends on itself alone, so the number of
// threads changes no byte; memory is bounded by a panel of rows.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "engine/core/ascii.h"
#include "engine/core/log.h"
#include "engine/core/thread_pool.h"
#include "engine/jobs/importance.h"
#include "engine/jobs/model_metadata.h"
#include "engine/jobs/output_check.h"
#include "engine/jobs/type_mix.h"
#include "engine/model/open_weights.h"
#include "engine/quant/quant.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

constexpr int64_t kPanelBytes = int64_t{8} << 20;  ///< written at a time
constexpr int64_t kGrainElements = 1 << 15;        ///< that a thread takes at a time
constexpr const char* kCopy = "COPY";

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

/// Whether the pattern matches from the text's beginning to any place in it; linear in their
/// product.
bool matches_prefix(std::string_view pattern, std::string_view text) {
  std::vector<bool> reached(text.size() + 1, false);  // places to which the pattern so far leads
  reached[0] = true;
  for (const char p : pattern) {
    if (p == '*') {
      for (size_t i = 1; i <= text.size(); ++i) {
        if (reached[i - 1]) reached[i] = true;
      }
      continue;
    }
    for (size_t i = text.size(); i > 0; --i) {
      reached[i] = reached[i - 1] && (p == '?' || p == text[i - 1]);
    }
    reached[0] = false;
  }
  return std::ranges::find(reached, true) != reached.end();
}

bool contains_pattern(std::string_view text, std::string_view pattern) {
  return matches_prefix(std::string(1, '*').append(pattern), text);
}

/// "blk.7.ffn_down.weight" → 7, "ffn_down".
struct BlockPart {
  int64_t layer = 0;
  std::string_view part;
};
std::optional<BlockPart> block_part(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  constexpr std::string_view kWeight = ".weight";
  if (!name.starts_with(kBlock) || !name.ends_with(kWeight)) return std::nullopt;
  name.remove_prefix(kBlock.size());
  name.remove_suffix(kWeight.size());
  BlockPart found;
  size_t digits = 0;
  for (; digits < name.size() && digits < 6 && name[digits] >= '0' && name[digits] <= '9';
       ++digits) {
    found.layer = 10 * found.layer + (name[digits] - '0');
  }
  if (digits == 0 || digits == name.size() || name[digits] != '.') return std::nullopt;
  found.part = name.substr(digits + 1);
  return found;
}

constexpr std::string_view kEmbedding = "token_embd.weight";

/// Tables of a row a token.
bool is_embedding(std::string_view name) {
  return name == kEmbedding || name == "per_layer_token_embd.weight";
}

/// Matrices of numbers that are multiplied with activations or looked up, but for those that are
/// small and decide much: routers, and what llama.cpp leaves alone.
bool may_be_quantised(const Weight& weight) {
  constexpr std::string_view kKept[] = {"_norm.weight",
                                        "ffn_gate_inp",
                                        "position_embd",
                                        "token_types",
                                        "shortconv.conv",
                                        "mm.input_projection",
                                        "mm.patch_merger",
                                        "conv1d",
                                        "altup",
                                        "laurel",
                                        "per_layer_model_proj",
                                        ".ple_norm_",
                                        "indexer.k_proj",
                                        "indexer.q_proj"};
  if (weight.desc.rows() == 1 || !weight.name.ends_with(".weight")) return false;
  if (!is_quantised(weight.desc.type) && weight.desc.type != DType::f32 &&
      weight.desc.type != DType::f16 && weight.desc.type != DType::bf16) {
    return false;
  }
  return std::ranges::none_of(
      kKept, [&](std::string_view part) { return weight.name.find(part) != std::string::npos; });
}

/// What was asked for, checked.
struct Request {
  std::optional<TypeMix> mix;  ///< none: copy
  bool pure = false;
  std::optional<DType> output, embedding;
  std::vector<std::pair<std::string, DType>> patterns;
};

Result<std::optional<DType>> parse_optional(const std::string& name) {
  if (name.empty()) return std::optional<DType>();
  INFER_TRY(const DType type, parse_weight_type(name));
  return std::optional(type);
}

Result<Request> parse_request(const QuantizeOptions& options) {
  Request request;
  request.pure = options.pure;
  if (!equal_in_any_case(options.type, kCopy)) {
    INFER_TRY(request.mix, parse_type_mix(options.type));
  }
  INFER_TRY(request.output, parse_optional(options.output_type));
  INFER_TRY(request.embedding, parse_optional(options.embedding_type));
  for (const auto& [pattern, name] : options.tensor_types) {
    if (pattern.empty()) {
      return fail(StatusCode::invalid_argument, "a pattern of weights' names is empty");
    }
    INFER_TRY(const DType type, parse_weight_type(name));
    request.patterns.emplace_back(pattern, type);
  }
  return request;
}

Result<MixModel> mix_model(const WeightSource& source, const std::string& arch, bool importance) {
  const Metadata& metadata = source.metadata();
  const auto key = [&](const char* name) { return fmt::format("{}.{}", arch, name); };
  constexpr int64_t kMost = 1 << 20;
  MixModel model;
  model.arch = arch;
  model.importance = importance;
  INFER_TRY(const auto layers, metadata.get_int(key("block_count"), 0, kMost));
  INFER_TRY(const auto experts, metadata.get_int(key("expert_count"), 0, kMost));
  INFER_TRY(const auto heads, metadata.get_ints(key("attention.head_count"), 0, kMost));
  INFER_TRY(const auto kv, metadata.get_ints(key("attention.head_count_kv"), 0, kMost));
  model.layers = layers.value_or(0);
  model.experts = experts.value_or(0);
  if (heads && kv && !heads->empty() && !kv->empty()) {
    const int64_t kv_heads = std::ranges::max(*kv);
    if (kv_heads > 0) model.heads_per_kv_head = std::ranges::max(*heads) / kv_heads;
  }
  return model;
}

/// Weights that share a message.
struct Weights {
  std::string first;
  int64_t count = 0;

  void add(const std::string& name) {
    if (count++ == 0) first = name;
  }
  std::string text() const {
    return count > 1 ? fmt::format("{} and {} more", first, count - 1) : first;
  }
};

/// A weight and what becomes of it.
struct Planned {
  const Weight* weight;
  TensorDesc desc;
  DType wanted;
  std::vector<float> importance;  ///< [columns, experts], or empty
};

class Quantizer {
 public:
  Quantizer(const WeightSource& source, const QuantizeOptions& options, Request request)
      : source_(source),
        path_(source.metadata().source()),
        options_(options),
        request_(std::move(request)),
        pool_(options.threads > 0 ? options.threads : available_threads()) {}

  Result<QuantizeReport> run(const std::string& output) {
    INFER_CHECK_R(load_matrix());
    INFER_CHECK_R(plan());
    INFER_TRY(const Metadata metadata, this->metadata());
    INFER_TRY(const std::unique_ptr<WeightSink> sink, create_model_file("GGUF", output, metadata));
    for (const Planned& planned : planned_) {
      INFER_CHECK_R(sink->declare(planned.weight->name, planned.desc));
    }
    INFER_CHECK_R(sink->begin());
    for (Planned& planned : planned_) {
      const bool same = planned.desc.type == planned.weight->desc.type;
      INFER_CHECK_R(same ? copy(*sink, planned) : convert(*sink, planned));
    }
    INFER_CHECK_R(sink->finish());
    return report();
  }

 private:
  Status load_matrix() {
    if (options_.importance.empty()) return {};
    INFER_TRY_S(matrix_, load_importance(options_.importance));
    return {};
  }

  Status plan() {
    INFER_TRY_S(const auto arch, source_.metadata().get_string("general.architecture"));
    INFER_TRY_S(const MixModel model,
                mix_model(source_, arch.value_or(""), !options_.importance.empty()));
    INFER_CHECK(check_patterns());
    warn_of_type(model);
    std::map<std::string, Weights> replaced;  // by what became of them
    const bool tied = source_.find("output.weight") == nullptr;
    for (const Weight& weight : source_.weights()) {
      DType wanted = weight.desc.type;
      if (may_be_quantised(weight)) wanted = type_of(weight, model, tied);
      const DType fits =
          wanted == weight.desc.type ? wanted : fitting_type(wanted, weight.desc.shape[0]);
      INFER_TRY_S(const TensorDesc desc, make_tensor(fits, weight.desc.shape));
      // Types that are not quantised add no errors of that kind.
      if (fits != weight.desc.type && is_quantised(weight.desc.type) && is_quantised(fits) &&
          !options_.allow_requantize) {
        return error(
            StatusCode::unsupported,
            "{}: tensor '{}' is already quantised ({}): quantising it again adds the "
            "errors of {}; --allow-requantize, in the window its check box, does it anyway",
            path_, weight.name, dtype_info(weight.desc.type).name, dtype_info(fits).name);
      }
      if (fits != wanted) {
        replaced[fmt::format("rows of {} elements are not whole blocks of {}: using {} instead",
                             weight.desc.shape[0], dtype_info(wanted).name, dtype_info(fits).name)]
            .add(weight.name);
      }
      planned_.push_back({&weight, desc, wanted, {}});
      total_ += desc.extent_bytes();
      if (is_quantised(fits) && fits != weight.desc.type) {
        INFER_CHECK(find_importance(planned_.back()));
      }
    }
    for (const auto& [what, weights] : replaced) {
      log(LogLevel::warning, "{}: {}", weights.text(), what);
    }
    if (unmeasured_.count > 0) {
      log(LogLevel::warning, "{}: the importance matrix has nothing about {}", unmeasured_.text(),
          unmeasured_.count > 1 ? "them" : "it");
    }
    const bool used = std::ranges::any_of(
        planned_, [](const Planned& planned) { return !planned.importance.empty(); });
    const bool wanted = std::ranges::any_of(planned_, [](const Planned& planned) {
      return is_quantised(planned.desc.type) && planned.desc.type != planned.weight->desc.type;
    });
    if (!options_.importance.empty() && wanted && !used) {
      return error(StatusCode::bad_file,
                   "{}: is of another model: it names none of the weights to be quantised",
                   options_.importance);
    }
    return {};
  }

  /// A pattern without a weight is a mistake in it.
  Status check_patterns() const {
    for (const auto& request : request_.patterns) {
      const std::string& pattern = request.first;
      const bool found = std::ranges::any_of(source_.weights(), [&](const Weight& weight) {
        return may_be_quantised(weight) && contains_pattern(weight.name, pattern);
      });
      if (found) continue;
      return error(StatusCode::invalid_argument,
                   "{}: the pattern '{}' matches no weight whose type can change", path_, pattern);
    }
    return {};
  }

  /// What most would not expect of the type.
  void warn_of_type(const MixModel& model) const {
    if (!request_.mix) return;
    if (request_.mix->is_of_experts() && model.experts == 0) {
      log(LogLevel::warning,
          "{} is for the weights of experts; this model has none, so all become {}", options_.type,
          dtype_info(request_.mix->base()).name);
    }
    if (request_.mix->needs_importance() && !model.importance) {
      log(LogLevel::warning,
          "{} without an importance matrix loses much; 'infer imatrix' makes one, --imatrix takes "
          "it",
          options_.type);
    }
  }

  DType type_of(const Weight& weight, const MixModel& model, bool tied) const {
    for (const auto& [pattern, type] : request_.patterns) {
      if (contains_pattern(weight.name, pattern)) return type;
    }
    const bool embedding = is_embedding(weight.name);
    const bool output = weight.name == "output.weight";
    if (output && request_.output) return *request_.output;
    if (embedding && request_.embedding) return *request_.embedding;
    const bool shared = tied && weight.name == kEmbedding;
    if (shared && request_.output) return *request_.output;
    if (!request_.mix) return weight.desc.type;
    const TypeMix& mix = *request_.mix;
    if (request_.pure) return mix.pure();
    if (output || shared) return mix.of_output();
    if (embedding) return mix.of_embedding();
    const std::optional<BlockPart> block = block_part(weight.name);
    return block ? mix.of_block(model, block->part, block->layer) : mix.base();
  }

  Status find_importance(Planned& planned) {
    if (options_.importance.empty()) return {};
    const Weight& weight = *planned.weight;
    const auto found = matrix_.entries.find(weight.name);
    if (found == matrix_.entries.end()) {
      // Tables are looked up, not multiplied: there is nothing to measure.
      if (!is_embedding(weight.name)) {
        unmeasured_.add(weight.name);
      }
      return {};
    }
    const ImportanceEntry& entry = found->second;
    const int64_t columns = weight.desc.shape[0];
    const int64_t matrices = weight.desc.shape[2] * weight.desc.shape[3];
    const auto values = static_cast<int64_t>(entry.sums.size());
    if (values != columns * matrices && values != columns) {
      return error(StatusCode::bad_file,
                   "{}: importance of '{}': expected {} columns of {} matrices, found {} values",
                   options_.importance, weight.name, columns, matrices, values);
    }
    planned.importance = entry.means();
    return {};
  }

  Result<Metadata> metadata() const {
    INFER_TRY(Metadata metadata, model_metadata(source_));
    if (request_.mix) {
      const int32_t file_type =
          request_.pure ? TypeMix(request_.mix->pure()).file_type() : request_.mix->file_type();
      metadata.erase("general.file_type");
      if (file_type >= 0) metadata.set("general.file_type", static_cast<uint32_t>(file_type));
      metadata.set("general.quantization_version", uint32_t{2});
    }
    if (!options_.importance.empty()) {
      metadata.set("quantize.imatrix.file", options_.importance);
      if (!matrix_.datasets.empty()) {
        metadata.set("quantize.imatrix.dataset", matrix_.datasets.front());
      }
      metadata.set("quantize.imatrix.entries_count", static_cast<uint32_t>(matrix_.entries.size()));
      metadata.set("quantize.imatrix.chunks_count", static_cast<uint32_t>(matrix_.chunks));
    }
    return metadata;
  }

  Status advance(int64_t bytes) {
    done_ += bytes;
    const double done = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
    return tell(options_.progress, done);
  }

  Status copy(WeightSink& sink, const Planned& planned) {
    const int64_t bytes = planned.desc.extent_bytes();
    for (int64_t at = 0; at < bytes; at += kPanelBytes) {
      panel_.resize(static_cast<size_t>(std::min(kPanelBytes, bytes - at)));
      INFER_CHECK(source_.read(planned.weight->place, static_cast<uint64_t>(at), panel_));
      INFER_CHECK(sink.write(panel_));
      INFER_CHECK(advance(static_cast<int64_t>(panel_.size())));
    }
    return {};
  }

  Status convert(WeightSink& sink, const Planned& planned) {
    const int64_t rows = planned.desc.rows();
    const int64_t row_bytes = planned.desc.row_bytes();
    const int64_t most = std::clamp<int64_t>(kPanelBytes / row_bytes, 1, rows);
    panel_.resize(static_cast<size_t>(most * row_bytes));
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      INFER_CHECK(convert_rows(planned, first, count));
      INFER_CHECK(sink.write(std::span(panel_).first(static_cast<size_t>(count * row_bytes))));
      INFER_CHECK(advance(count * row_bytes));
    }
    return {};
  }

  /// Rows [first, first + count) into the panel.
  Status convert_rows(const Planned& planned, int64_t first, int64_t count) {
    const int64_t columns = planned.desc.shape[0];
    const int64_t grain = std::clamp<int64_t>(kGrainElements / columns, 1, count);
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    int64_t failed_at = count;  // the first failure in the order of rows, whoever comes upon it
    Status failure;
    pool_.run([&](int) {
      std::vector<std::byte> raw(static_cast<size_t>(grain * planned.weight->desc.row_bytes()));
      std::vector<float> values(static_cast<size_t>(grain * columns));
      for (;;) {
        const int64_t at = next.fetch_add(grain);
        if (at >= count) return;
        Status status = convert_part(planned, first, at, std::min(grain, count - at), raw, values);
        if (status.ok()) continue;
        const std::lock_guard lock(mutex);
        if (at < failed_at) {
          failed_at = at;
          failure = std::move(status);
        }
      }
    });
    return failure;
  }

  Status convert_part(const Planned& planned, int64_t first, int64_t at, int64_t count,
                      std::span<std::byte> raw, std::span<float> values) {
    const TensorDesc& from = planned.weight->desc;
    const int64_t columns = from.shape[0];
    const std::span<std::byte> stored = raw.first(static_cast<size_t>(count * from.row_bytes()));
    INFER_CHECK(source_.read(planned.weight->place,
                             static_cast<uint64_t>((first + at) * from.row_bytes()), stored));
    quant_traits(from.type).decode(stored.data(), values.data(), count * columns);
    const QuantTraits& traits = quant_traits(planned.desc.type);
    for (int64_t r = 0; r < count; ++r) {
      const std::span<const float> row =
          values.subspan(static_cast<size_t>(r * columns), static_cast<size_t>(columns));
      const int64_t number = first + at + r;
      INFER_CHECK(check(planned, row, number));
      std::byte* const out = &panel_[static_cast<size_t>((at + r) * planned.desc.row_bytes())];
      traits.quantise(row.data(), importance_of(planned, number), out, columns);
    }
    return {};
  }

  /// Of a row's columns, or null.
  static const float* importance_of(const Planned& planned, int64_t row) {
    if (planned.importance.empty()) return nullptr;
    const auto columns = static_cast<size_t>(planned.desc.shape[0]);
    if (planned.importance.size() == columns) return planned.importance.data();
    const auto expert = static_cast<size_t>(row / planned.desc.shape[1]);
    return planned.importance.data() + expert * columns;
  }

  Status check(const Planned& planned, std::span<const float> row, int64_t number) const {
    const auto bad =
        std::ranges::find_if_not(row, [&](float value) { return holds(planned.desc.type, value); });
    if (bad != row.end()) {
      const DType type = planned.desc.type;
      const std::string expected = !std::isfinite(*bad) ? "a finite number"
                                   : type == DType::f16
                                       ? "a number of at most 65504, as F16 can hold"
                                       : fmt::format("a number of at most {:.3g}, as {} can hold",
                                                     most_held(type), dtype_info(type).name);
      const auto i = bad - row.begin();
      return error(StatusCode::bad_file,
                   "{}: tensor '{}': column {} of row {}: expected {}, found {}", path_,
                   planned.weight->name, i, number, expected, row[i]);
    }
    return {};
  }

  QuantizeReport report() const {
    QuantizeReport report;
    for (const Planned& planned : planned_) {
      QuantizeReport::Tensor entry;
      entry.name = planned.weight->name;
      entry.from = dtype_info(planned.weight->desc.type).name;
      entry.to = dtype_info(planned.desc.type).name;
      if (planned.wanted != planned.desc.type) entry.wanted = dtype_info(planned.wanted).name;
      entry.importance = !planned.importance.empty();
      report.tensors.push_back(std::move(entry));
      report.source_bytes += planned.weight->desc.extent_bytes();
      report.bytes += planned.desc.extent_bytes();
      report.parameters += planned.desc.elements();
    }
    if (report.parameters > 0) {
      report.bits_per_weight =
          8 * static_cast<double>(report.bytes) / static_cast<double>(report.parameters);
    }
    return report;
  }

  const WeightSource& source_;
  const std::string& path_;
  const QuantizeOptions& options_;
  Request request_;
  ThreadPool pool_;
  ImportanceMatrix matrix_;
  std::vector<Planned> planned_;
  Weights unmeasured_;  // that the importance matrix does not have
  std::vector<std::byte> panel_;
  int64_t total_ = 0;
  int64_t done_ = 0;
};

}  // namespace

std::vector<std::string> quantize_types() {
  std::vector<std::string> names = type_mix_names();
  names.emplace_back(kCopy);
  return names;
}

Result<QuantizeReport> quantize(const std::string& input, const std::string& output,
                                const QuantizeOptions& options) {
  return guarded([&]() -> Result<QuantizeReport> {
    INFER_TRY(Request request, parse_request(options));
    INFER_CHECK_R(check_output({input, options.importance}, output));
    INFER_TRY(const std::unique_ptr<WeightSource> source, open_weights(input));
    return Quantizer(*source, options, std::move(request)).run(output);
  });
}

}  // namespace infer
