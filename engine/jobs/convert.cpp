// Writes a Hugging Face checkpoint as a GGUF file. A weight passes through a buffer in stretches,
// so that memory does not depend on the model's size.
#include <algorithm>
#include <map>

#include "engine/core/log.h"
#include "engine/core/platform/files.h"
#include "engine/jobs/model_metadata.h"
#include "engine/jobs/output_check.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"
#include "engine/model/mapped_source.h"
#include "engine/model/open_weights.h"
#include "engine/plan/planner.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

constexpr int64_t kStretch = int64_t{8} << 20;  ///< bytes

Result<std::optional<DType>> matrices_of(const std::string& type) {
  if (type == "auto") return std::optional<DType>();
  for (const DType known : {DType::f32, DType::f16, DType::bf16}) {
    if (dtype_info(known).ident == type) return std::optional(known);
  }
  return fail(StatusCode::invalid_argument, "type '{}': expected auto, f32, f16 or bf16", type);
}

/// What would fail when the model is loaded fails here, before anything is written. Whether a draft
/// head fits is only known beside its model.
Status check_model(const WeightSource& source) {
  if (is_draft_head(source)) return {};
  INFER_TRY_S(const std::unique_ptr<Model> model, read_model(source));
  const WeightTable weights(source);
  INFER_TRY_S(const Graph graph, build_graph(*model, weights, 1, 1, DType::f16, DType::f16));
  return {};
}

Status write_weight(const WeightSource& source, const Weight& weight, WeightSink& sink,
                    std::vector<std::byte>& buffer, const std::function<Status(int64_t)>& advance) {
  const int64_t bytes = weight.desc.extent_bytes();
  buffer.resize(static_cast<size_t>(std::min(bytes, kStretch)));
  for (int64_t at = 0; at < bytes;) {
    const auto part = std::span(buffer).first(static_cast<size_t>(std::min(kStretch, bytes - at)));
    INFER_CHECK(source.read(weight.place, static_cast<uint64_t>(at), part));
    INFER_CHECK(sink.write(part));
    at += static_cast<int64_t>(part.size());
    INFER_CHECK(advance(static_cast<int64_t>(part.size())));
  }
  return {};
}

/// A file without a vocabulary takes and gives ids of tokens alone.
void warn_of_missing_vocabulary(const std::string& directory, const WeightSource& source) {
  if (source.tokenizer().model != "none") return;
  std::string other;
  if (const auto names = os::names_in(directory)) {
    for (const std::string& name : *names) {
      if (name.find("tiktoken") != name.npos) other = " ('" + name + "' is not read)";
    }
  }
  log(LogLevel::warning,
      "{}: no tokenizer.json and no tokenizer.model{}: the file has no vocabulary, so that it "
      "takes "
      "and gives only ids of tokens",
      directory, other);
}

Result<ConvertReport> run_convert(const std::string& model, const std::string& output,
                                  const ConvertOptions& options) {
  INFER_TRY(const std::optional<DType> matrices, matrices_of(options.type));
  INFER_TRY(const std::unique_ptr<WeightSource> source, open_weights(model, matrices));
  if (dynamic_cast<const MappedSource*>(source.get()) == nullptr) {
    return fail(StatusCode::bad_file,
                "{}: expected a Hugging Face directory, with a config.json and safetensors files",
                model);
  }
  INFER_CHECK_R(check_output({model}, output));
  INFER_CHECK_R(check_model(*source));
  warn_of_missing_vocabulary(model, *source);

  INFER_TRY(const Metadata metadata, model_metadata(*source));

  ConvertReport report;
  const auto architecture = source->metadata().get_string("general.architecture");
  if (architecture && *architecture) report.architecture = **architecture;
  INFER_TRY(const std::unique_ptr<WeightSink> sink, create_model_file("GGUF", output, metadata));
  std::map<DType, int64_t> types;
  for (const Weight& weight : source->weights()) {
    INFER_CHECK_R(sink->declare(weight.name, weight.desc));
    report.bytes += weight.desc.extent_bytes();
    types[weight.desc.type] += 1;
  }
  report.tensors = static_cast<int64_t>(source->weights().size());
  for (const auto& [type, count] : types) {
    report.types.emplace_back(dtype_info(type).name, count);
  }
  INFER_CHECK_R(sink->begin());
  std::vector<std::byte> buffer;
  int64_t done = 0;
  const auto advance = [&](int64_t bytes) {
    done += bytes;
    return tell(options.progress, static_cast<double>(done) / static_cast<double>(report.bytes));
  };
  for (const Weight& weight : source->weights()) {
    INFER_CHECK_R(write_weight(*source, weight, *sink, buffer, advance));
  }
  INFER_CHECK_R(sink->finish());
  return report;
}

}  // namespace

Result<ConvertReport> convert(const std::string& model, const std::string& output,
                              const ConvertOptions& options) {
  return guarded([&] { return run_convert(model, output, options); });
}

}  // namespace infer
