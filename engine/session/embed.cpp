// Vectors of texts and scores: texts to tokens, tokens to steps, rows to vectors.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/portable_math.h"
#include "engine/session/engine_impl.h"

namespace infer {
namespace {

/// The tokens of a text, or of a query and a text.
struct TextTokens {
  std::vector<int32_t> ids;
  int64_t second = INT64_MAX;  ///< index of the first token of type 1
  int64_t head = 0;            ///< so many tokens at the beginning are the query's
};

/// Computes texts in steps that are as full as they can be. Which texts share a step changes no bit
/// of a text's vector.
class TextSteps {
 public:
  /// `progress`: as EmbedOptions::progress; may be empty.
  TextSteps(Engine::Impl& engine, const std::function<bool(double)>& progress)
      : engine_(engine),
        progress_(progress),
        info_(engine.opened.model->info()),
        pooling_(*info_.embeds) {
    if (pooling_ == Pooling::rank) pooling_ = info_.rank_pooling;
  }

  /// The vectors of the texts, in their order: vector v of text i at begins[i] + v.
  Status run(std::span<const TextTokens> texts, Embeddings& to) {
    to.begins.assign(1, 0);
    for (const TextTokens& text : texts) {
      const int64_t size = static_cast<int64_t>(text.ids.size());
      to.begins.push_back(to.begins.back() + (pooling_ == Pooling::none ? size : 1));
      to.tokens += size;
    }
    // Texts of like lengths together: the rest of a step that holds no further text is short.
    std::vector<size_t> order(texts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](size_t i) { return texts[i].ids.size(); });
    const int64_t most = engine_.text_rows;
    for (size_t first = 0; first < order.size();) {
      const double done = static_cast<double>(first) / static_cast<double>(order.size());
      Status stopped = error(StatusCode::cancelled, "cancelled");
      if (progress_ && !call_back(stopped, [&] { return progress_(done); })) return stopped;
      size_t last = first;
      batch_.clear();
      while (last < order.size() &&
             batch_.rows() + static_cast<int64_t>(texts[order[last]].ids.size()) <= most) {
        add(texts[order[last]], static_cast<int32_t>(last - first));
        ++last;
      }
      INFER_CHECK(compute(std::span(order).subspan(first, last - first), texts.size(), to));
      first = last;
    }
    return {};
  }

 private:
  void add(const TextTokens& text, int32_t number) {
    const auto begin = static_cast<int32_t>(batch_.rows());
    const auto end = begin + static_cast<int32_t>(text.ids.size());
    for (int32_t i = 0; i < end - begin; ++i) {
      batch_.tokens.push_back(text.ids[static_cast<size_t>(i)]);
      batch_.positions.push_back(i);
      batch_.slots.push_back(i);
      batch_.sequences.push_back(number);
      batch_.text_begins.push_back(begin);
      batch_.text_ends.push_back(end);
      batch_.token_types.push_back(i >= text.second && info_.token_types > 1 ? 1 : 0);
      if (pooling_ == Pooling::none) add_output(begin + i, begin + i + 1);
    }
    if (pooling_ == Pooling::last) add_output(end - 1, end);
    if (pooling_ == Pooling::mean || pooling_ == Pooling::cls) add_output(begin, end);
  }
  void add_output(int32_t row, int32_t end) {
    batch_.output_rows.push_back(row);
    batch_.output_ends.push_back(end);
  }

  /// `members`: indices of the texts of the batch, of `count` in all.
  Status compute(std::span<const size_t> members, size_t count, Embeddings& to) {
    Status status;
    engine_.thread->call([&] {
      status = guarded([&]() -> Status {
        INFER_CHECK(engine_.usable());
        for (const float factor : engine_.adapter_factors({})) {
          batch_.adapters.emplace_back(static_cast<size_t>(batch_.rows()), factor);
        }
        INFER_TRY_S(const std::span<const float> rows,
                    engine_.run_or_fall_back([&] { return engine_.executor->run(batch_); }));
        const size_t width = rows.size() / batch_.output_rows.size();
        if (to.values.empty()) {
          to.dimensions = static_cast<int32_t>(width);
          to.values.resize(width * static_cast<size_t>(to.begins[count]));
        }
        const float* from = rows.data();
        for (const size_t text : members) {
          const auto begin = static_cast<size_t>(to.begins[text]) * width;
          const auto size = static_cast<size_t>(to.begins[text + 1]) * width - begin;
          std::copy_n(from, size, to.values.begin() + static_cast<int64_t>(begin));
          from += size;
        }
        return {};
      });
    });
    return status;
  }

  Engine::Impl& engine_;
  const std::function<bool(double)>& progress_;
  const ModelInfo& info_;
  Pooling pooling_;
  StepBatch batch_;
};

/// Shortens a text that has more than `most` tokens, or says so. `kept`: so many tokens at its end
/// stay.
Status fit(TextTokens& text, int64_t most, int64_t kept, bool truncate, size_t index) {
  const auto size = static_cast<int64_t>(text.ids.size());
  if (size == 0) {
    return error(StatusCode::invalid_argument, "text {} is empty: it has no tokens", index);
  }
  if (size <= most) return {};
  if (!truncate || text.head + kept >= most) {
    return error(StatusCode::does_not_fit,
                 "text {} has {} tokens, and the model takes at most {}; shorten it{}", index, size,
                 most, truncate ? "" : ", or have it truncated");
  }
  text.ids.erase(text.ids.end() - kept - (size - most), text.ids.end() - kept);
  return {};
}

Status check_tokens(std::span<const std::vector<int32_t>> tokens, size_t texts, int64_t count) {
  if (tokens.size() > texts) {
    return error(StatusCode::invalid_argument, "tokens: expected those of {} texts, found {}",
                 texts, tokens.size());
  }
  for (const std::vector<int32_t>& of_text : tokens) {
    for (const int32_t token : of_text) {
      if (token >= 0 && token < count) continue;
      return error(StatusCode::invalid_argument, "tokens: expected numbers from 0 to {}, found {}",
                   count - 1, token);
    }
  }
  return {};
}

/// Divides a vector by its length, unless that is 0.
void normalise(std::span<float> vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  const double factor = 1 / std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(x * factor);
}

Status check_finite(const Embeddings& made, const std::string& path) {
  for (size_t i = 0; i + 1 < made.begins.size(); ++i) {
    const auto width = static_cast<int64_t>(made.dimensions);
    const auto begin = made.values.begin() + made.begins[i] * width;
    const auto end = made.values.begin() + made.begins[i + 1] * width;
    if (std::all_of(begin, end, [](float x) { return std::isfinite(x); })) continue;
    return error(StatusCode::bad_file,
                 "{}: the vector of text {} has elements that are no finite numbers; "
                 "--check-tensors says whether the weights have, too",
                 path, i);
  }
  return {};
}

/// Keeps the first `wanted` elements of each vector.
void shorten(Embeddings& made, int32_t wanted) {
  const auto width = static_cast<size_t>(made.dimensions);
  const auto kept = static_cast<size_t>(wanted);
  const size_t count = static_cast<size_t>(made.begins.back());
  for (size_t v = 0; v < count; ++v) {
    std::copy_n(made.values.begin() + static_cast<int64_t>(v * width), kept,
                made.values.begin() + static_cast<int64_t>(v * kept));
  }
  made.values.resize(count * kept);
  made.dimensions = wanted;
}

/// A query and a text as one: "[BOS] query [EOS] [SEP] text [EOS]", each if the vocabulary has it
/// so; or as the file's template "rerank" says.
class PairMaker {
 public:
  PairMaker(const Tokenizer& tokenizer, const std::string& query)
      : tokenizer_(tokenizer), query_(query) {
    for (const auto& [name, text] : tokenizer.named_chat_templates()) {
      if (name == "rerank") template_ = &text;
    }
  }

  /// The tokens of the query and what stands before the text; kept() of them follow the text.
  Status prepare() {
    if (template_ != nullptr) {
      const size_t document = template_->find(kDocument);
      if (document == std::string::npos || template_->find(kQuery) == std::string::npos) {
        return error(StatusCode::bad_file,
                     "the model's template 'rerank': expected {} and {} in it", kQuery, kDocument);
      }
      INFER_TRY_S(const std::vector<int32_t> head,
                  encode_form(filled(template_->substr(0, document), "")));
      head_ = static_cast<int64_t>(head.size());
      return {};
    }
    EncodeOptions whole;
    whole.parse_special = true;  // as in every other text
    INFER_TRY_S(before_, tokenizer_.encode(query_, whole));
    const int32_t separator = tokenizer_.special().separator;
    if (tokenizer_.adds_separator() && separator != kNoToken) before_.push_back(separator);
    INFER_TRY_S(const std::vector<int32_t> around, tokenizer_.encode("", {}));
    if (tokenizer_.adds_eos() && !around.empty()) after_.push_back(around.back());
    return {};
  }

  Result<TextTokens> make(const std::string& text) const {
    TextTokens made;
    if (template_ != nullptr) {
      INFER_TRY(made.ids, encode_form(filled(*template_, text)));
      made.head = head_;
      return made;
    }
    EncodeOptions plain;
    plain.add_special = false;
    plain.parse_special = true;
    INFER_TRY(const std::vector<int32_t> own, tokenizer_.encode(text, plain));
    made.ids = before_;
    made.second = made.head = static_cast<int64_t>(before_.size());
    made.ids.insert(made.ids.end(), own.begin(), own.end());
    made.ids.insert(made.ids.end(), after_.begin(), after_.end());
    return made;
  }

  /// Tokens behind a text: those of the template, or what ends every text.
  Result<int64_t> kept() const {
    if (template_ == nullptr) return static_cast<int64_t>(after_.size());
    const size_t end = template_->find(kDocument) + kDocument.size();
    INFER_TRY(const std::vector<int32_t> rest,
              encode_form(std::string_view(*template_).substr(end)));
    return static_cast<int64_t>(rest.size());
  }

 private:
  static constexpr std::string_view kQuery = "{query}";
  static constexpr std::string_view kDocument = "{document}";

  /// A template has all special tokens itself.
  Result<std::vector<int32_t>> encode_form(std::string_view text) const {
    EncodeOptions options;
    options.parse_special = true;
    options.add_special = false;
    return tokenizer_.encode(text, options);
  }

  /// The query and a text in their places. Both are put in at once, so that braces in one of them
  /// are left alone.
  std::string filled(std::string_view form, const std::string& text) const {
    std::string whole;
    while (!form.empty()) {
      const bool query = form.starts_with(kQuery);
      if (query || form.starts_with(kDocument)) {
        whole += query ? query_ : text;
        form.remove_prefix(query ? kQuery.size() : kDocument.size());
      } else {
        whole += form.front();
        form.remove_prefix(1);
      }
    }
    return whole;
  }

  const Tokenizer& tokenizer_;
  const std::string& query_;
  const std::string* template_ = nullptr;
  std::vector<int32_t> before_, after_;
  int64_t head_ = 0;  ///< tokens of the template before the text
};

/// The classifier's output. Of the logits of "yes" and "no" it is the share of the first.
float score_of(std::span<const float> outputs) {
  if (outputs.size() != 2) return outputs[0];
  return static_cast<float>(portable::sigmoid(double{outputs[0]} - outputs[1]));
}

}  // namespace

Result<Embeddings> Engine::Impl::embed_tokens(std::vector<int32_t> tokens) {
  TextTokens text{std::move(tokens)};
  INFER_CHECK_R(fit(text, cache_options.context, 0, false, 0));
  Embeddings made;
  INFER_CHECK_R(TextSteps(*this, {}).run({&text, 1}, made));
  return made;
}

bool Engine::makes_embeddings() const { return impl_->opened.model->info().embeds.has_value(); }

int64_t Engine::vector_length() const { return impl_->opened.model->info().vector; }

int64_t Engine::longest_text() const { return impl_->cache_options.context; }

Result<Embeddings> Engine::embed(std::span<const std::string> texts, const EmbedOptions& options) {
  return guarded([&]() -> Result<Embeddings> {
    const std::string& path = impl_->description.path;
    if (!makes_embeddings()) {
      return fail(StatusCode::unsupported,
                  "{}: the model was loaded to generate; load it with the option 'embeddings'",
                  path);
    }
    if (*impl_->opened.model->info().embeds == Pooling::rank) {
      return fail(StatusCode::unsupported,
                  "{}: the model scores texts for a query; use rerank, or load it with another "
                  "pooling",
                  path);
    }
    if (options.dimensions < 0 || options.dimensions > vector_length()) {
      return fail(StatusCode::invalid_argument,
                  "dimensions: expected 0 to {}, as many as the model makes, found {}",
                  vector_length(), options.dimensions);
    }
    INFER_CHECK_R(
        check_tokens(options.tokens, texts.size(), impl_->opened.model->info().vocabulary));
    INFER_TRY(const CallCount call, impl_->begin_call());
    const int64_t kept = impl_->tokenizer->adds_eos() ? 1 : 0;
    std::vector<TextTokens> tokens(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i < options.tokens.size() && !options.tokens[i].empty()) {
        tokens[i].ids = options.tokens[i];
      } else {
        EncodeOptions encode;
        encode.parse_special = true;
        INFER_TRY(tokens[i].ids, impl_->tokenizer->encode(texts[i], encode));
      }
      INFER_CHECK_R(fit(tokens[i], longest_text(), kept, options.truncate, i));
    }
    Embeddings made;
    INFER_CHECK_R(TextSteps(*impl_, options.progress).run(tokens, made));
    if (texts.empty()) return made;
    INFER_CHECK_R(check_finite(made, path));
    if (options.dimensions > 0) shorten(made, options.dimensions);
    const auto width = static_cast<size_t>(made.dimensions);
    for (size_t at = 0; options.normalise && at < made.values.size(); at += width) {
      normalise(std::span(made.values).subspan(at, width));
    }
    return made;
  });
}

Result<Ranking> Engine::rerank(const std::string& query, std::span<const std::string> texts,
                               const RerankOptions& options) {
  return guarded([&]() -> Result<Ranking> {
    const ModelInfo& info = impl_->opened.model->info();
    const std::string& path = impl_->description.path;
    if (!makes_embeddings() || *info.embeds != Pooling::rank) {
      return fail(StatusCode::unsupported, "{}: the model does not score texts for a query", path);
    }
    INFER_TRY(const CallCount call, impl_->begin_call());
    PairMaker pairs(*impl_->tokenizer, query);
    INFER_CHECK_R(pairs.prepare());
    INFER_TRY(const int64_t kept, pairs.kept());
    std::vector<TextTokens> tokens(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      INFER_TRY(tokens[i], pairs.make(texts[i]));
      INFER_CHECK_R(fit(tokens[i], longest_text(), kept, options.truncate, i));
    }
    Embeddings made;
    INFER_CHECK_R(TextSteps(*impl_, options.progress).run(tokens, made));
    INFER_CHECK_R(check_finite(made, path));
    Ranking ranking;
    ranking.tokens = made.tokens;
    const auto width = static_cast<size_t>(made.dimensions);
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::span outputs = std::span(made.values).subspan(i * width, width);
      ranking.texts.push_back({static_cast<int32_t>(i), score_of(outputs)});
    }
    std::ranges::stable_sort(ranking.texts, std::greater<>(), &RankedText::score);
    return ranking;
  });
}

}  // namespace infer
