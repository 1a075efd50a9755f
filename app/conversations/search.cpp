// The part of the store that searches.
#include <utf8proc.h>

#include <utility>

#include "conversations/store.h"
#include "conversations/utf8.h"

namespace infer::conversations {
namespace {

constexpr size_t kMaxQueryBytes = 1'000;
constexpr int kMaxWords = 32;
constexpr int64_t kMaxHits = 1'000;
// Characters that begin and end a match in a snippet. No text has them: they are control
// characters.
constexpr char kBegin = '\x01', kEnd = '\x02';

/// Whether the index has tokens for the text: letters, numbers, characters of private use.
bool has_token(std::string_view text) {
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t used = utf8proc_iterate(data, left, &code);
    if (used <= 0) return false;
    const utf8proc_category_t category = utf8proc_category(code);
    if ((category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
        (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
        category == UTF8PROC_CATEGORY_CO) {
      return true;
    }
    data += used;
    left -= used;
  }
  return false;
}

bool is_space(char c) { return static_cast<unsigned char>(c) <= ' '; }

/// What a person typed as a query of FTS5: every word or phrase is a string there, so that no text
/// is an error of syntax. Empty if there is nothing to look for.
std::string fts_query(std::string_view typed) {
  const std::string valid = valid_utf8(shortened(typed, kMaxQueryBytes));
  std::string_view rest = valid;
  std::string query;
  for (int words = 0; words < kMaxWords;) {
    while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
    if (rest.empty()) break;
    const bool is_phrase = rest.front() == '"';
    if (is_phrase) rest.remove_prefix(1);
    size_t size = 0;
    while (size < rest.size() && rest[size] != '"' && (is_phrase || !is_space(rest[size]))) ++size;
    const std::string_view word = rest.substr(0, size);
    // The end of a phrase; what follows a word with a quotation mark is a phrase.
    rest.remove_prefix(is_phrase && size < rest.size() ? size + 1 : size);
    if (!has_token(word)) continue;
    query += '"';
    for (const char c : word) query += is_space(c) ? ' ' : c;
    query += is_phrase ? "\" " : "\"* ";
    ++words;
  }
  return query;
}

void read_snippet(std::string_view marked, Hit& hit) {
  bool inside = false;
  for (const char c : marked) {
    if (c == kBegin) {
      if (!inside) hit.matches.emplace_back(hit.snippet.size(), 0);
      inside = true;
    } else if (c == kEnd) {
      inside = false;
    } else {
      hit.snippet += c;
      if (inside) ++hit.matches.back().second;
    }
  }
}

// Titles come first: they are short, and their ranks cannot be compared with those of messages.
constexpr std::string_view kTitles =
    "SELECT c.id, 0, c.title, snippet(title_search, 0, char(1), char(2), '…', 24), rank "
    "FROM title_search CROSS JOIN conversations c ON c.id = title_search.rowid "
    "WHERE title_search MATCH ?1 AND c.deleted_at IS NULL ORDER BY rank, c.id DESC LIMIT ?2";
// A match in a text counts four times as much as one in reasoning.
constexpr std::string_view kMessages =
    "SELECT c.id, m.id, c.title, snippet(search, -1, char(1), char(2), '…', 24), rank "
    "FROM search CROSS JOIN messages m ON m.id = search.rowid "
    "CROSS JOIN conversations c ON c.id = m.conversation "
    "WHERE search MATCH ?1 AND rank MATCH 'bm25(4.0, 1.0)' AND c.deleted_at IS NULL AND "
    "m.deleted_at IS NULL AND m.state <> 'writing' ORDER BY rank LIMIT ?2";

}  // namespace

Result<std::vector<Hit>> Store::search(std::string_view query, int64_t most) {
  const std::string wanted = fts_query(query);
  most = most < 0 || most > kMaxHits ? kMaxHits : most;
  std::vector<Hit> hits;
  const auto look = [&](std::string_view sql) {
    Statement rows = database_->prepare(sql);
    rows.bind(1, wanted).bind(2, most - static_cast<int64_t>(hits.size()));
    while (rows.step()) {
      Hit hit{rows.integer(0), rows.integer(1), rows.text(2), {}, {}, -rows.real(4)};
      read_snippet(rows.text(3), hit);
      hits.push_back(std::move(hit));
    }
    return rows.status();
  };
  const auto look_everywhere = [&] {
    hits.clear();
    Status done = look(kTitles);
    return done.ok() ? look(kMessages) : done;
  };
  if (wanted.empty()) return hits;
  Status done = look_everywhere();
  if (done.code() == StatusCode::bad_file && database_->index_is_damaged()) {
    done = rebuild_index();
    if (done.ok()) done = look_everywhere();
  }
  if (!done.ok()) return tl::unexpected(done);
  return hits;
}

}  // namespace infer::conversations
