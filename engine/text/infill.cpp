#include "engine/text/infill.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace infer {
namespace {

using Tokens = std::vector<int32_t>;

/// The ids of a text as a part of a larger one.
Result<Tokens> plain(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special = false, .parse_special = false});
}

/// The same without the space that some vocabularies put before a text: it is encoded behind a
/// rare character, whose own tokens are then taken away.
Result<Tokens> going_on(const Tokenizer& tokenizer, std::string_view text) {
  if (!tokenizer.adds_space_prefix()) return plain(tokenizer, text);
  constexpr std::string_view kMark = "\u263a";
  INFER_TRY(const Tokens mark, plain(tokenizer, kMark));
  INFER_TRY(Tokens tokens, plain(tokenizer, std::string(kMark) + std::string(text)));
  const size_t length = mark.size();
  if (tokens.size() < length || !std::equal(mark.begin(), mark.end(), tokens.begin())) {
    return plain(tokenizer, text);
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<int64_t>(length));
  return tokens;
}

void append(Tokens& tokens, std::span<const int32_t> more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

/// Mistral has no token in the middle, and begins with what comes after.
bool begins_with_suffix(const Tokenizer& tokenizer) {
  return tokenizer.piece(tokenizer.special().fim_pre) == "[PREFIX]";
}

/// What stands before a text of a file. Vocabularies without a token for it get a line of text.
Result<Tokens> file_head(const Tokenizer& tokenizer, std::string_view name) {
  const int32_t separator = tokenizer.special().fim_sep;
  const std::string line = std::string(name) + "\n";
  if (separator == kNoToken) return plain(tokenizer, "\n\n--- " + line + "\n");
  INFER_TRY(const Tokens rest, plain(tokenizer, line));
  Tokens head{separator};
  append(head, rest);
  return head;
}

/// As many of the last files as fit into `room`, and what introduces them and the file at hand;
/// empty if none fits.
Result<Tokens> last_files(const Tokenizer& tokenizer, std::span<const InfillText::File> files,
                          int64_t room) {
  const SpecialTokens& ids = tokenizer.special();
  Tokens begin;
  if (ids.fim_rep != kNoToken) {
    begin.push_back(ids.fim_rep);
    INFER_TRY(const Tokens name, plain(tokenizer, "project\n"));
    append(begin, name);
  }
  Tokens end;
  if (ids.fim_sep != kNoToken) {
    INFER_TRY(end, file_head(tokenizer, "filename"));
  }
  room -= std::ssize(begin) + std::ssize(end);
  std::vector<Tokens> taken;  // the last one first
  for (size_t i = files.size(); i-- > 0;) {
    INFER_TRY(Tokens file, file_head(tokenizer, files[i].name));
    INFER_TRY(const Tokens text, plain(tokenizer, files[i].text));
    append(file, text);
    if (std::ssize(file) > room) break;
    room -= std::ssize(file);
    taken.push_back(std::move(file));
  }
  if (taken.empty()) return Tokens();
  std::reverse(taken.begin(), taken.end());
  for (const Tokens& file : taken) append(begin, file);
  append(begin, end);
  return begin;
}

}  // namespace

Result<std::vector<int32_t>> infill_tokens(const Tokenizer& tokenizer, const InfillText& text,
                                           int64_t most) {
  const SpecialTokens& ids = tokenizer.special();
  const bool suffix_first = ids.fim_pre != kNoToken && begins_with_suffix(tokenizer);
  if (ids.fim_pre == kNoToken || ids.fim_suf == kNoToken ||
      (ids.fim_mid == kNoToken && !suffix_first)) {
    return fail(StatusCode::unsupported,
                "the model's vocabulary has no tokens to fill in the middle of a text");
  }
  const bool begins = tokenizer.adds_bos() && tokenizer.bos() != kNoToken;
  const int64_t room = most - (begins ? 1 : 0) - (suffix_first ? 2 : 3);
  if (room < 0) {
    return fail(StatusCode::does_not_fit, "filling in takes at least {} tokens, {} are free",
                most - room, most);
  }
  INFER_TRY(const Tokens before, plain(tokenizer, text.before));
  INFER_TRY(const Tokens after, going_on(tokenizer, text.after));
  // If there is not room for both, a quarter is for what comes after, or what the other leaves.
  const int64_t after_count =
      std::min(std::ssize(after), std::max(room / 4, room - std::ssize(before)));
  const int64_t before_count = std::min(std::ssize(before), room - after_count);
  const auto near_before = std::span(before).last(static_cast<size_t>(before_count));
  const auto near_after = std::span(after).first(static_cast<size_t>(after_count));

  Tokens tokens;
  if (begins) tokens.push_back(tokenizer.bos());
  INFER_TRY(const Tokens files,
            last_files(tokenizer, text.files, room - before_count - after_count));
  append(tokens, files);
  if (suffix_first) {
    tokens.push_back(ids.fim_suf);
    append(tokens, near_after);
    tokens.push_back(ids.fim_pre);
    append(tokens, near_before);
    return tokens;
  }
  tokens.push_back(ids.fim_pre);
  append(tokens, near_before);
  tokens.push_back(ids.fim_suf);
  append(tokens, near_after);
  tokens.push_back(ids.fim_mid);
  return tokens;
}

}  // namespace infer
