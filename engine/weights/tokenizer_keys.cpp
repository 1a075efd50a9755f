#include "engine/weights/tokenizer_keys.h"

namespace infer {
namespace {

constexpr TokenIdKey kIdKeys[] = {
    {"tokenizer.ggml.bos_token_id", nullptr, &TokenizerSpec::bos},
    {"tokenizer.ggml.eos_token_id", nullptr, &TokenizerSpec::eos},
    {"tokenizer.ggml.eot_token_id", nullptr, &TokenizerSpec::eot},
    {"tokenizer.ggml.eom_token_id", nullptr, &TokenizerSpec::eom},
    {"tokenizer.ggml.unknown_token_id", nullptr, &TokenizerSpec::unknown},
    {"tokenizer.ggml.seperator_token_id", nullptr, &TokenizerSpec::separator},
    {"tokenizer.ggml.padding_token_id", nullptr, &TokenizerSpec::padding},
    {"tokenizer.ggml.cls_token_id", nullptr, &TokenizerSpec::cls},
    {"tokenizer.ggml.mask_token_id", nullptr, &TokenizerSpec::mask},
    {"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id", &TokenizerSpec::fim_pre},
    {"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id", &TokenizerSpec::fim_suf},
    {"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id", &TokenizerSpec::fim_mid},
    {"tokenizer.ggml.fim_pad_token_id", nullptr, &TokenizerSpec::fim_pad},
    {"tokenizer.ggml.fim_rep_token_id", nullptr, &TokenizerSpec::fim_rep},
    {"tokenizer.ggml.fim_sep_token_id", nullptr, &TokenizerSpec::fim_sep},
};

constexpr TokenizerFlagKey kFlagKeys[] = {
    {"tokenizer.ggml.add_bos_token", &TokenizerSpec::add_bos},
    {"tokenizer.ggml.add_eos_token", &TokenizerSpec::add_eos},
    {"tokenizer.ggml.add_sep_token", &TokenizerSpec::add_sep},
    {"tokenizer.ggml.add_space_prefix", &TokenizerSpec::add_space_prefix},
    {"tokenizer.ggml.remove_extra_whitespaces", &TokenizerSpec::remove_extra_whitespaces},
    {"tokenizer.ggml.normalizer.lowercase", &TokenizerSpec::lowercase},
    {"tokenizer.ggml.normalizer.strip_accents", &TokenizerSpec::strip_accents},
    {"infer.tokenizer.ignore_merges", &TokenizerSpec::ignore_merges},
};

constexpr OwnFlagKey kOwnFlagKeys[] = {
    {"infer.tokenizer.cuts_at_marks", &TokenizerSpec::cuts_at_marks},
    {"infer.tokenizer.join_spaces", &TokenizerSpec::join_spaces},
    {"infer.tokenizer.joins_to_marks", &TokenizerSpec::joins_to_marks},
    {"infer.tokenizer.maps_graphemes", &TokenizerSpec::maps_graphemes},
    {"infer.tokenizer.nfc", &TokenizerSpec::compose},
    {"infer.tokenizer.prefix_at_start_only", &TokenizerSpec::prefix_at_start_only},
    {"infer.tokenizer.prefix_unless_space", &TokenizerSpec::prefix_unless_space},
    {"infer.tokenizer.strip_left", &TokenizerSpec::strip_left},
    {"infer.tokenizer.strip_right", &TokenizerSpec::strip_right},
    {"infer.tokenizer.strips_first", &TokenizerSpec::strips_first},
    {"infer.tokenizer.words_at_white_space", &TokenizerSpec::words_at_white_space},
};

constexpr OwnCountKey kOwnCountKeys[] = {
    {"infer.tokenizer.cut_repeats", &TokenizerSpec::cut_repeats},
    {"infer.tokenizer.cut_spaces", &TokenizerSpec::cut_spaces},
    {"infer.tokenizer.max_input_chars_per_word", &TokenizerSpec::max_word_chars, kMaxWordChars},
};

constexpr OwnIdsKey kOwnIdsKeys[] = {
    {"infer.tokenizer.apart", &TokenizerSpec::apart},
    {"infer.tokenizer.literal", &TokenizerSpec::literal},
    {"infer.tokenizer.normalised", &TokenizerSpec::normalised},
    {"infer.tokenizer.single_words", &TokenizerSpec::single_words},
    {"infer.tokenizer.strips_left", &TokenizerSpec::strips_left},
    {"infer.tokenizer.strips_right", &TokenizerSpec::strips_right},
};

}  // namespace

std::span<const OwnFlagKey> own_flag_keys() { return kOwnFlagKeys; }
std::span<const OwnCountKey> own_count_keys() { return kOwnCountKeys; }
std::span<const OwnIdsKey> own_ids_keys() { return kOwnIdsKeys; }

std::span<const TokenIdKey> token_id_keys() { return kIdKeys; }
std::span<const TokenizerFlagKey> tokenizer_flag_keys() { return kFlagKeys; }

Status add_tokenizer_keys(const TokenizerSpec& spec, Metadata& metadata) {
  if (spec.words) {
    return error(StatusCode::unsupported,
                 "{}: its pre_tokenizer has no name in GGUF (tokenizer.ggml.pre), so that the "
                 "vocabulary cannot be written",
                 spec.source);
  }
  metadata.set("tokenizer.ggml.model", spec.model);
  if (!spec.pre.empty()) metadata.set("tokenizer.ggml.pre", spec.pre);
  if (!spec.tokens.empty()) metadata.set("tokenizer.ggml.tokens", spec.tokens);
  if (!spec.scores.empty()) metadata.set("tokenizer.ggml.scores", spec.scores);
  if (!spec.types.empty()) {
    std::vector<int32_t> types;
    for (const TokenType type : spec.types) types.push_back(static_cast<int32_t>(type));
    metadata.set("tokenizer.ggml.token_type", std::move(types));
  }
  if (!spec.merges.empty()) metadata.set("tokenizer.ggml.merges", spec.merges);
  if (!spec.precompiled_charsmap.empty()) {
    metadata.set("tokenizer.ggml.precompiled_charsmap", spec.precompiled_charsmap);
  }
  for (const TokenIdKey& entry : kIdKeys) {
    const int32_t id = spec.*entry.field;
    if (id != kNoToken) metadata.set(entry.key, static_cast<uint32_t>(id));
  }
  // llama.cpp begins and ends WordPiece texts with these.
  if (spec.model == "bert" && spec.cls != kNoToken && spec.separator != kNoToken) {
    metadata.set("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(spec.cls));
    metadata.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(spec.separator));
  }
  for (const TokenizerFlagKey& entry : kFlagKeys) {
    const int8_t flag = spec.*entry.field;
    if (flag >= 0) metadata.set(entry.key, flag != 0);
  }
  for (const OwnFlagKey& entry : kOwnFlagKeys) {
    if (spec.*entry.field) metadata.set(entry.key, true);
  }
  for (const OwnIdsKey& entry : kOwnIdsKeys) {
    if (!(spec.*entry.field).empty()) metadata.set(entry.key, spec.*entry.field);
  }
  if (!spec.exact_scores.empty()) metadata.set(kExactScoresKey, spec.exact_scores);
  for (const OwnCountKey& entry : kOwnCountKeys) {
    if (spec.*entry.field != entry.absent) metadata.set(entry.key, spec.*entry.field);
  }
  return {};
}

}  // namespace infer
