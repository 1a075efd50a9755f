// Evaluates a text and sums the squares of what each weight's columns are multiplied with.
#include <algorithm>
#include <cmath>
#include <string>

#include "engine/core/checked.h"
#include "engine/jobs/importance.h"
#include "engine/jobs/output_check.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

/// Rows of a step. All of them return logits, which take memory for each word of the vocabulary:
/// the last layer and the output would see no others.
constexpr int32_t kStepRows = 64;

class Collector {
 public:
  explicit Collector(const WeightTable& weights)
      : weights_(weights), sums_(weights.source().weights().size()) {}

  Status add(const ObservedProduct& product) {
    const Weight& weight = weights_.weight(product.weight);
    const TensorDesc& x = product.activations.desc;
    const int64_t columns = x.shape[0];
    const bool per_matrix = product.op != OpId::Matmul;
    const int64_t matrices = per_matrix ? weight.desc.shape[2] : 1;
    // A part of a weight's columns, or of its matrices, would be counted in the wrong place.
    if (columns != weight.desc.shape[0]) return {};
    Sums& sums = sums_[static_cast<size_t>(product.weight)];
    if (sums.counts.empty()) {
      sums.squares.resize(static_cast<size_t>(columns * matrices));
      sums.counts.resize(static_cast<size_t>(matrices));
    }
    for (int64_t row = 0; row < x.shape[2]; ++row) {
      const bool experts = product.op == OpId::MoeMatmul;
      const int64_t used = experts ? product.experts.desc.shape[0] : x.shape[1];
      for (int64_t i = 0; i < used; ++i) {
        int64_t matrix = per_matrix ? i : 0;
        if (experts) matrix = product.experts.row<int32_t>(0, row)[i];
        if (matrix < 0 || matrix >= matrices) continue;
        const float* values = product.activations.row<float>(x.shape[1] == 1 ? 0 : i, row);
        if (!add_row(sums, matrix, std::span(values, static_cast<size_t>(columns)))) {
          return error(StatusCode::bad_file,
                       "{}: the inputs of tensor '{}' are not finite for this text",
                       weights_.source().metadata().source(), weight.name);
        }
      }
    }
    return {};
  }

  ImportanceMatrix matrix() const {
    ImportanceMatrix matrix;
    for (size_t w = 0; w < sums_.size(); ++w) {
      const Sums& sums = sums_[w];
      if (sums.counts.empty()) continue;
      ImportanceEntry entry;
      entry.experts = static_cast<int64_t>(sums.counts.size());
      entry.columns = static_cast<int64_t>(sums.squares.size() / sums.counts.size());
      entry.sums.assign(sums.squares.begin(), sums.squares.end());
      entry.counts.assign(sums.counts.begin(), sums.counts.end());
      matrix.entries.emplace(weights_.weight(static_cast<int32_t>(w)).name, std::move(entry));
    }
    return matrix;
  }

 private:
  struct Sums {
    std::vector<double> squares;  ///< [columns, matrices]
    std::vector<int64_t> counts;  ///< [matrices]
  };

  static bool add_row(Sums& sums, int64_t matrix, std::span<const float> values) {
    double* const to = sums.squares.data() + matrix * static_cast<int64_t>(values.size());
    double total = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double square = double{values[i]} * values[i];
      to[i] += square;
      total += square;
    }
    ++sums.counts[static_cast<size_t>(matrix)];
    return std::isfinite(static_cast<float>(total));
  }

  const WeightTable& weights_;
  std::vector<Sums> sums_;  ///< by index of the source's weights
};

/// Computes chunks of a text on a model of its own.
class Evaluation {
 public:
  static Result<std::unique_ptr<Evaluation>> create(OpenedModel opened,
                                                    const ProgressFn& progress) {
    std::unique_ptr<Evaluation> made(new Evaluation(std::move(opened)));
    OpenedModel& model = made->opened_;
    const std::vector<Device*> devices = model.device_list();
    INFER_TRY(made->executor_, Executor::create(*model.model, *model.weights, devices,
                                                model.request, model.plan, progress));
    INFER_TRY(made->cache_, KvCache::create(devices, model.plan.kv_layout, model.plan.kv_pages,
                                            {model.plan.context, false}));
    return made;
  }

  Executor& executor() { return *executor_; }

  Status run(std::span<const int32_t> tokens) {
    const KvCache::SequenceId id = cache_->add_sequence();
    const Status status = run_in(id, tokens);
    cache_->remove_sequence(id);
    return status;
  }

 private:
  explicit Evaluation(OpenedModel opened) : opened_(std::move(opened)) {}

  Status run_in(KvCache::SequenceId id, std::span<const int32_t> tokens) {
    const auto size = static_cast<int64_t>(tokens.size());
    const int64_t rows = opened_.request.max_rows;
    StepBatch batch;
    for (int64_t first = 0; first < size; first += rows) {
      const int64_t count = std::min(rows, size - first);
      INFER_CHECK(cache_->reserve(id, count));
      batch.clear();
      batch.begin_sequence(tokens.first(static_cast<size_t>(first)));
      for (int64_t i = 0; i < count; ++i) {
        batch.tokens.push_back(tokens[static_cast<size_t>(first + i)]);
        batch.positions.push_back(static_cast<int32_t>(first + i));
        batch.slots.push_back(static_cast<int32_t>(first + i));
        batch.sequences.push_back(0);
        batch.output_rows.push_back(static_cast<int32_t>(i));
      }
      const KvCache::SequenceId ids[] = {id};
      batch.pages = cache_->pages(ids);
      INFER_TRY_S(const std::span<const float> logits, executor_->run(batch));
      (void)logits;
      cache_->commit(id, tokens, count);
    }
    return {};
  }

  OpenedModel opened_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<KvCache> cache_;
};

LoadOptions load_options(const ImportanceOptions& options) {
  LoadOptions load = options.load;
  load.context = options.chunk;
  load.batch_rows = std::min({load.batch_rows, options.chunk, kStepRows});
  load.output_rows = load.batch_rows;
  load.parallel = 1;
  load.draft_model.clear();
  load.drafters.clear();
  return load;
}

Result<ImportanceReport> measure(const std::string& path, std::string_view text,
                                 const std::string& output, const ImportanceOptions& options) {
  if (options.chunk < 4 || options.chunk > (1 << 16)) {
    return fail(StatusCode::invalid_argument, "chunk: expected 4 to 65536 tokens, found {}",
                options.chunk);
  }
  INFER_CHECK_R(check_output({path}, output));
  const LoadOptions load = load_options(options);
  INFER_TRY(OpenedModel opened, OpenedModel::open(path, load, false, true));
  if (opened.model->info().embeds) {
    return fail(
        StatusCode::unsupported,
        "{}: the importance of weights is not measured for models that make vectors of texts",
        path);
  }
  INFER_TRY(const std::shared_ptr<const Tokenizer> tokenizer,
            Tokenizer::create(opened.source->tokenizer()));
  INFER_TRY(const std::vector<int32_t> tokens,
            tokenizer->encode(text, {true, options.parse_special}));
  const auto size = static_cast<int64_t>(tokens.size());
  // A text that does not fill one is a chunk by itself.
  const int64_t chunk = std::min<int64_t>(options.chunk, size);
  if (chunk < 4) {
    return fail(StatusCode::invalid_argument,
                "the text has {} tokens, which are too few: expected at least 4", size);
  }
  int64_t chunks = size / chunk;
  if (options.chunks > 0) chunks = std::min<int64_t>(chunks, options.chunks);
  const int64_t vocabulary = opened.model->info().vocabulary;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return fail(StatusCode::bad_file, "{}: the tokenizer gives token {}, the model has {}", path,
                  token, vocabulary);
    }
  }
  Collector collector(*opened.weights);
  INFER_TRY(const std::unique_ptr<Evaluation> evaluation,
            Evaluation::create(std::move(opened), load.progress));
  evaluation->executor().observe(
      [&](const ObservedProduct& product) { return collector.add(product); });
  for (int64_t c = 0; c < chunks; ++c) {
    const auto begin = tokens.begin() + c * chunk;
    std::vector<int32_t> part(begin, begin + chunk);
    if (tokenizer->adds_bos() && tokenizer->bos() >= 0) part[0] = tokenizer->bos();
    INFER_CHECK_R(evaluation->run(part));
    INFER_CHECK_R(tell(options.on_chunk, c + 1, chunks));
  }
  ImportanceMatrix matrix = collector.matrix();
  matrix.datasets = {options.dataset};
  matrix.chunks = chunks;
  matrix.chunk_tokens = chunk;
  INFER_CHECK_R(save_importance(output, matrix));
  ImportanceReport report;
  report.tokens = chunks * chunk;
  report.chunks = chunks;
  report.weights = static_cast<int64_t>(matrix.entries.size());
  for (const auto& [name, entry] : matrix.entries) {
    report.experts_unused += std::ranges::count(entry.counts, 0.0f);
  }
  return report;
}

}  // namespace

Result<ImportanceReport> measure_importance(const std::string& model, std::string_view text,
                                            const std::string& output,
                                            const ImportanceOptions& options) {
  return guarded([&] { return measure(model, text, output, options); });
}

}  // namespace infer
