#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "engine/core/atomic_file.h"
#include "engine/generate/generation.h"
#include "engine/jobs/output_check.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

/// What is known of a row of logits: the logarithm of Σ e^logit, in double.
struct Row {
  std::span<const float> logits;
  float best = -std::numeric_limits<float>::infinity();
  double log_sum = 0;

  explicit Row(std::span<const float> x) : logits(x) {
    for (const float v : x) best = std::max(best, v);
    double sum = 0;
    for (const float v : x) sum += std::exp(double{v} - best);
    log_sum = best + std::log(sum);
  }
  double log_probability(size_t token) const { return double{logits[token]} - log_sum; }
  size_t most_likely() const {
    return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
  }
};

/// Mean and the standard error of the mean.
struct Average {
  double sum = 0, squares = 0;
  int64_t count = 0;

  void add(double x) {
    sum += x;
    squares += x * x;
    ++count;
  }
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  double error() const {
    if (count < 2) return 0;
    const double n = static_cast<double>(count);
    return std::sqrt(std::max(0.0, squares / n - mean() * mean()) / (n - 1));
  }
};

// A saved run: this header, the tokens of all chunks, then the measured rows. A row has the
// log-probability of the token that follows as float64 (from version 2 on), the smallest
// log-probability kept and the step between levels, both float32, and a level of 16 bits for each
// token. Little-endian. The base's perplexity needs the float64: the levels are rounded, and cut
// off below. llama.cpp's file has levels alone, and it prints the perplexity that they give.
struct BaseHeader {
  char magic[8];
  uint32_t version;
  uint32_t chunk_tokens;
  uint32_t vocabulary;
  uint32_t chunks;
};
constexpr char kMagic[8] = {'i', 'n', 'f', 'e', 'r', 'k', 'l', '\0'};
constexpr uint32_t kVersion = 2;
/// Log-probabilities below the largest by more than this count as that.
constexpr float kDepth = 24;

struct PackedRow {
  double next = 0;  ///< log-probability of the token that follows
  float lowest = 0, step = 0;
  std::vector<uint16_t> levels;

  void pack(const Row& row, size_t token) {
    next = row.log_probability(token);
    const auto highest = static_cast<float>(row.best - row.log_sum);
    lowest = highest - kDepth;
    step = kDepth / 65535;
    levels.resize(row.logits.size());
    for (size_t i = 0; i < levels.size(); ++i) {
      const auto value = static_cast<float>(row.log_probability(i));
      const float level = std::clamp((value - lowest) / step, 0.0f, 65535.0f);
      levels[i] = static_cast<uint16_t>(std::isnan(level) ? 0.0f : std::round(level));
    }
  }
  double log_probability(size_t token) const {
    return double{lowest} + double{step} * levels[token];
  }
};

class BaseReader {
 public:
  Status open(const std::string& path, const std::vector<int32_t>& tokens, int64_t chunk,
              int64_t chunks, int64_t vocabulary) {
    path_ = path;
    file_.open(path, std::ios::binary);
    if (!file_) return error(StatusCode::not_found, "{}: cannot be read", path);
    BaseHeader header{};
    if (!read(&header, sizeof(header)) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
        header.version < 1 || header.version > kVersion) {
      return error(StatusCode::bad_file, "{}: expected a run saved by infer perplexity", path);
    }
    if (header.vocabulary != vocabulary || header.chunk_tokens != chunk || header.chunks < chunks) {
      return error(
          StatusCode::invalid_argument,
          "{}: holds {} chunks of {} tokens of a vocabulary of {}; expected {} of {} of {}", path,
          header.chunks, header.chunk_tokens, header.vocabulary, chunks, chunk, vocabulary);
    }
    std::vector<int32_t> saved(static_cast<size_t>(chunks * chunk));
    if (!read(saved.data(), saved.size() * sizeof(int32_t))) return cut_short();
    if (!std::equal(saved.begin(), saved.end(), tokens.begin())) {
      return error(StatusCode::invalid_argument, "{}: was made from another text or vocabulary",
                   path);
    }
    file_.seekg(static_cast<std::streamoff>(sizeof(header)) +
                static_cast<std::streamoff>(header.chunks) * header.chunk_tokens * 4);
    row_.levels.resize(static_cast<size_t>(vocabulary));
    exact_ = header.version >= 2;
    return {};
  }
  /// Whether PackedRow::next is exact; of older files it is what the levels give.
  bool exact() const { return exact_; }
  /// `token`: the one that follows.
  Result<const PackedRow*> next(size_t token) {
    if ((exact_ && !read(&row_.next, 8)) || !read(&row_.lowest, 4) || !read(&row_.step, 4) ||
        !read(row_.levels.data(), row_.levels.size() * 2)) {
      return tl::unexpected(cut_short());
    }
    if (!exact_) row_.next = row_.log_probability(token);
    return &row_;
  }

 private:
  bool read(void* to, size_t bytes) {
    return static_cast<bool>(
        file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)));
  }
  Status cut_short() const {
    return error(StatusCode::bad_file, "{}: ends before its last row", path_);
  }

  std::string path_;
  std::ifstream file_;
  bool exact_ = false;
  PackedRow row_;
};

template <typename T>
std::span<const std::byte> bytes_of(const T* data, size_t count) {
  return std::as_bytes(std::span(data, count));
}

/// One run over the text.
class Measurement {
 public:
  Measurement(const PerplexityOptions& options, const Engine& engine)
      : options_(options),
        model_(engine.model().path),
        vocabulary_(static_cast<size_t>(engine.vocabulary_size())) {}

  Status open_files(const std::vector<int32_t>& tokens, int64_t chunks) {
    if (!options_.base.empty()) {
      INFER_CHECK(base_.open(options_.base, tokens, options_.chunk, chunks,
                             static_cast<int64_t>(vocabulary_)));
    }
    if (options_.save.empty()) return {};
    // The file holds the text's tokens.
    INFER_TRY_S(save_, AtomicFile::create(options_.save, AtomicFile::Access::user_only));
    BaseHeader header{};
    std::memcpy(header.magic, kMagic, sizeof(kMagic));
    header.version = kVersion;
    header.chunk_tokens = static_cast<uint32_t>(options_.chunk);
    header.vocabulary = static_cast<uint32_t>(vocabulary_);
    header.chunks = static_cast<uint32_t>(chunks);
    INFER_CHECK(save_->write(bytes_of(&header, 1)));
    return save_->write(bytes_of(tokens.data(), static_cast<size_t>(chunks * options_.chunk)));
  }

  /// The logits after a token, and the token that follows it.
  Status add(std::span<const float> logits, int32_t next) {
    const Row row(logits);
    if (!std::isfinite(row.log_sum)) {
      return error(StatusCode::bad_file, "{}: {}", model_, kBadLogits);
    }
    const auto token = static_cast<size_t>(next);
    const double surprise = -row.log_probability(token);
    surprise_.add(surprise);
    if (save_ != nullptr) {
      packed_.pack(row, token);
      INFER_CHECK(save_->write(bytes_of(&packed_.next, 1)));
      INFER_CHECK(save_->write(bytes_of(&packed_.lowest, 1)));
      INFER_CHECK(save_->write(bytes_of(&packed_.step, 1)));
      INFER_CHECK(save_->write(bytes_of(packed_.levels.data(), packed_.levels.size())));
    }
    if (options_.base.empty()) return {};
    INFER_TRY_S(const PackedRow* const base, base_.next(token));
    base_surprise_.add(-base->next);
    double divergence = 0;
    for (size_t i = 0; i < vocabulary_; ++i) {
      const double p = base->log_probability(i);
      if (base->levels[i] == 0) continue;  // as good as impossible
      divergence += std::exp(p) * (p - row.log_probability(i));
    }
    divergence = std::max(0.0, divergence);
    divergence_.add(divergence);
    all_divergences_.push_back(static_cast<float>(divergence));
    const auto likeliest =
        static_cast<size_t>(std::ranges::max_element(base->levels) - base->levels.begin());
    same_top_.add(base->levels[row.most_likely()] == base->levels[likeliest] ? 1 : 0);
    return {};
  }

  Result<PerplexityReport> finish() {
    if (save_ != nullptr) INFER_CHECK_R(save_->commit());
    PerplexityReport r;
    r.tokens = surprise_.count;
    r.perplexity = std::exp(surprise_.mean());
    r.perplexity_error = r.perplexity * surprise_.error();
    if (options_.base.empty()) return r;
    PerplexityReport::Divergence d;
    d.base_perplexity = std::exp(base_surprise_.mean());
    d.base_exact = base_.exact();
    d.mean = divergence_.mean();
    d.mean_error = divergence_.error();
    d.same_top = same_top_.mean();
    std::ranges::sort(all_divergences_);
    d.largest = all_divergences_.back();
    d.median = all_divergences_[all_divergences_.size() / 2];
    d.percentile_99 = all_divergences_[all_divergences_.size() * 99 / 100];
    r.divergence = d;
    return r;
  }
  double perplexity() const { return std::exp(surprise_.mean()); }

 private:
  const PerplexityOptions& options_;
  std::string model_;
  size_t vocabulary_;
  BaseReader base_;
  std::unique_ptr<AtomicFile> save_;
  PackedRow packed_;
  Average surprise_, base_surprise_, divergence_, same_top_;
  std::vector<float> all_divergences_;
};

}  // namespace

Result<PerplexityReport> perplexity(Engine& engine, std::string_view text,
                                    const PerplexityOptions& options) {
  return guarded([&]() -> Result<PerplexityReport> {
    if (!options.save.empty()) {
      INFER_CHECK_R(check_output({engine.model().path, options.base}, options.save));
    }
    INFER_TRY(const std::vector<int32_t> tokens,
              engine.tokenize(text, {true, options.parse_special}));
    const auto size = static_cast<int64_t>(tokens.size());
    if (engine.memory().context < 4) {
      return fail(StatusCode::invalid_argument,
                  "the context of {} tokens is less than the smallest chunk, 4 tokens: give a "
                  "greater one (-c)",
                  engine.memory().context);
    }
    if (options.chunk < 4 || options.chunk > engine.memory().context) {
      return fail(StatusCode::invalid_argument,
                  "chunk: expected 4 tokens to the context of {}, found {}",
                  engine.memory().context, options.chunk);
    }
    int64_t chunks = size / options.chunk;
    if (options.chunks > 0) chunks = std::min<int64_t>(chunks, options.chunks);
    if (chunks == 0) {
      return fail(StatusCode::invalid_argument,
                  "the text has {} tokens, which do not fill a chunk of {}", size, options.chunk);
    }
    INFER_TRY(const std::unique_ptr<Session> session, engine.open_session());
    Measurement measurement(options, engine);
    INFER_CHECK_R(measurement.open_files(tokens, chunks));
    const SpecialTokenIds special = engine.vocabulary().special();
    const int64_t first = options.chunk / 2;  // what comes before has too little context
    for (int64_t c = 0; c < chunks; ++c) {
      const auto begin = tokens.begin() + c * options.chunk;
      std::vector<int32_t> chunk(begin, begin + options.chunk);
      if (special.adds_bos && special.bos >= 0) chunk[0] = special.bos;
      INFER_CHECK_R(session->truncate(0));
      Status failure;
      // The logits of the last token have nothing to be held against.
      chunk.pop_back();
      const Status status = SessionAccess::evaluate_in_place(
          *session, chunk, [&](int64_t position, std::span<const float> logits) {
            if (position < first) return true;
            failure = measurement.add(logits, begin[position + 1]);
            return failure.ok();
          });
      INFER_CHECK_R(failure);
      INFER_CHECK_R(status);
      INFER_CHECK_R(tell(options.on_chunk, c + 1, chunks, measurement.perplexity()));
    }
    return measurement.finish();
  });
}

}  // namespace infer
