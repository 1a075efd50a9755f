#include "engine/text/tokenizer.h"

#include <algorithm>
#include <array>

#include "engine/core/log.h"
#include "engine/text/text_encoder.h"

namespace infer {
namespace {

struct Kind {
  std::string_view model;
  Result<std::unique_ptr<TextEncoder>> (*make)(const TokenizerSpec&);
};
constexpr std::array<Kind, 6> kKinds{{{"llama", make_sentencepiece_bpe},
                                      {"gpt2", make_byte_bpe},
                                      {"gemma4", make_byte_bpe},
                                      {"bert", make_wordpiece},
                                      {"t5", make_unigram},
                                      {"plamo2", make_scored_pieces}}};

bool no_vocabulary(const TokenizerSpec& spec) {
  return spec.model.empty() || spec.model == "none" || spec.model == "no_vocab";
}

Status check_ids(const TokenizerSpec& spec) {
  const std::pair<const char*, int32_t> ids[] = {
      {"bos", spec.bos},         {"eos", spec.eos},         {"eot", spec.eot},
      {"eom", spec.eom},         {"unknown", spec.unknown}, {"seperator", spec.separator},
      {"padding", spec.padding}, {"cls", spec.cls},         {"mask", spec.mask},
      {"fim_pre", spec.fim_pre}, {"fim_suf", spec.fim_suf}, {"fim_mid", spec.fim_mid},
      {"fim_pad", spec.fim_pad}, {"fim_rep", spec.fim_rep}, {"fim_sep", spec.fim_sep}};
  for (const auto& [name, id] : ids) {
    if (id != kNoToken && (id < 0 || static_cast<size_t>(id) >= spec.tokens.size())) {
      return error(StatusCode::bad_file, "{}: {}_token_id is {}, but there are {} tokens",
                   spec.source, name, id, spec.tokens.size());
    }
  }
  return {};
}

Status check_lengths(const TokenizerSpec& spec) {
  if (spec.tokens.empty()) {
    return error(StatusCode::bad_file, "{}: tokenizer.ggml.tokens is missing or empty",
                 spec.source);
  }
  if (spec.tokens.size() > INT32_MAX) {
    return error(StatusCode::bad_file, "{}: tokenizer.ggml.tokens has {} entries", spec.source,
                 spec.tokens.size());
  }
  const std::pair<const char*, size_t> sizes[] = {{"scores", spec.scores.size()},
                                                  {"token_type", spec.types.size()}};
  for (const auto& [name, size] : sizes) {
    if (size != 0 && size != spec.tokens.size()) {
      return error(StatusCode::bad_file, "{}: tokenizer.ggml.{} has {} entries for {} tokens",
                   spec.source, name, size, spec.tokens.size());
    }
  }
  return {};
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerSpec spec) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(spec)));
  INFER_CHECK_R(tokenizer->build());
  return tokenizer;
}

Status Tokenizer::build() {
  if (no_vocabulary(spec_)) {
    spec_.tokens.clear();
    return {};
  }
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const Kind& k) { return k.model == spec_.model; });
  if (kind == kKinds.end()) {
    std::string known;
    for (const Kind& k : kKinds) known += fmt::format("{}, ", k.model);
    return error(StatusCode::unsupported,
                 "{}: tokenizer.ggml.model is \"{}\", which is not known; known are {}none",
                 spec_.source, spec_.model, known);
  }
  INFER_CHECK(check_lengths(spec_));
  INFER_CHECK(check_ids(spec_));
  for (auto* ids : {&spec_.apart, &spec_.literal, &spec_.normalised, &spec_.single_words,
                    &spec_.strips_left, &spec_.strips_right}) {
    std::sort(ids->begin(), ids->end());
  }

  by_text_.reserve(spec_.tokens.size());
  for (size_t i = 0; i < spec_.tokens.size(); ++i) {
    if (!spec_.tokens[i].empty()) by_text_.emplace(spec_.tokens[i], static_cast<int32_t>(i));
  }
  INFER_TRY_S(encoder_, kind->make(spec_));
  special_ = resolve_special_tokens(spec_, by_text_, encoder_->default_add_bos());
  matcher_ = SpecialMatcher::raw(spec_);
  if (!spec_.normalised.empty()) {
    std::vector<std::string> spellings;
    for (const int32_t id : spec_.normalised) {
      spellings.push_back(encoder_->normalise(literal_text(spec_, id), true));
    }
    normalised_ = SpecialMatcher::normalised(spec_, spellings);
  }
  build_pieces();

  // Taken up by the encoder.
  std::vector<std::string>().swap(spec_.merges);
  std::vector<uint8_t>().swap(spec_.precompiled_charsmap);
  return {};
}

void Tokenizer::build_pieces() {
  piece_ends_.reserve(spec_.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string& token = spec_.tokens[static_cast<size_t>(id)];
    switch (type(id)) {
      case TokenType::control:
      case TokenType::unknown: piece_bytes_ += token; break;
      case TokenType::user_defined: piece_bytes_ += user_defined_text(spec_, token); break;
      case TokenType::byte:
        if (const int byte = parse_byte_token(token); byte >= 0) {
          piece_bytes_ += static_cast<char>(byte);
          break;
        }
        [[fallthrough]];
      case TokenType::normal:
      case TokenType::unused: piece_bytes_ += encoder_->piece(token); break;
    }
    piece_ends_.push_back(static_cast<uint32_t>(piece_bytes_.size()));
  }
}

Status Tokenizer::encode_text(std::string_view text, bool parse_special,
                              std::vector<int32_t>& out) const {
  bool fresh = true;
  return matcher_.divide(
      text, parse_special,
      [&](std::string_view part) {
        INFER_CHECK(encode_between(part, fresh, parse_special, out));
        return Status();
      },
      [&](int32_t id) {
        out.push_back(id);
        fresh = !spec_.prefix_at_start_only;
      });
}

Status Tokenizer::encode_between(std::string_view text, bool fresh, bool parse_special,
                                 std::vector<int32_t>& out) const {
  const std::string whole = encoder_->normalise(text, fresh);
  return normalised_.divide(
      whole, parse_special,
      [&](std::string_view part) { return encoder_->encode(part, fresh, out); },
      [&](int32_t id) {
        out.push_back(id);
        fresh = !spec_.prefix_at_start_only;
      });
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (!encoder_) {
    return fail(StatusCode::unsupported,
                "{}: the model has no vocabulary, so texts cannot be "
                "turned into tokens",
                spec_.source);
  }
  if (text.size() > kMaxTextBytes) {
    return fail(StatusCode::invalid_argument, "a text of {} bytes is beyond the limit of {}",
                text.size(), kMaxTextBytes);
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (options.add_special && special_.add_bos) ids.push_back(special_.prefix);
  INFER_CHECK_R(encode_text(text, options.parse_special, ids));
  if (options.add_special && special_.add_eos) ids.push_back(special_.suffix);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string text;
  PieceJoiner joiner(*this, options, /*at_start=*/true);
  for (const int32_t id : ids) text += joiner.next(id);
  return text;
}

std::string_view Tokenizer::piece(int32_t id) const {
  if (!in_range(id)) return {};
  const auto i = static_cast<size_t>(id);
  const uint32_t begin = i == 0 ? 0 : piece_ends_[i - 1];
  return std::string_view(piece_bytes_).substr(begin, piece_ends_[i] - begin);
}

int32_t Tokenizer::token_to_id(std::string_view text) const {
  const auto it = by_text_.find(text);
  return it == by_text_.end() ? kNoToken : it->second;
}

TokenType Tokenizer::type(int32_t id) const {
  return in_range(id) ? token_type(spec_, id) : TokenType::unused;
}

bool Tokenizer::is_eog(int32_t id) const {
  return std::binary_search(special_.eog.begin(), special_.eog.end(), id);
}

bool Tokenizer::is_control(int32_t id) const {
  return in_range(id) && (type(id) == TokenType::control || is_eog(id));
}

bool Tokenizer::adds_space_prefix() const { return encoder_ && encoder_->adds_space_prefix(); }

std::string_view PieceJoiner::next(int32_t id) {
  const TokenType type = tokenizer_->type(id);
  std::string_view piece = tokenizer_->piece(id);
  if (piece.empty()) return {};
  const bool control = tokenizer_->is_control(id);
  if (control || type == TokenType::user_defined) {
    // What follows was tokenised as a text of its own.
    const TokenizerSpec& spec = tokenizer_->spec_;
    fresh_ = !spec.prefix_at_start_only || (fresh_ && id == tokenizer_->bos());
    // Unless it was found in a text that had its space already.
    if (!spec.prefix_unless_space && contains(spec.normalised, id)) fresh_ = false;
    return control && !options_.render_special ? std::string_view() : piece;
  }
  if (type == TokenType::unknown) {
    fresh_ = false;
    return options_.render_special ? piece : std::string_view();
  }
  if (fresh_ && piece.front() == ' ' && tokenizer_->adds_space_prefix()) piece.remove_prefix(1);
  fresh_ = false;
  return piece;
}

}  // namespace infer
