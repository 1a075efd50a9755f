#include "conversations/search.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "conversations/store.h"
#include "conversations/utf8.h"

namespace infer::conversations {
namespace {

constexpr size_t kMaxQueryBytes = 1'000;
constexpr int kMaxWords = 32;
constexpr int64_t kMaxHits = 1'000;
/// Of more messages that match, the newest are ranked.
constexpr int64_t kMostRanked = 2'000;
/// The newest messages that are looked at for beginnings of words of one or two letters.
constexpr int64_t kMostRecent = 2'000;
constexpr size_t kMostRecentBytes = 2 << 20;
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

/// Whether so many messages have words that begin so that looking at all of them takes long: one or
/// two letters. Two characters of Chinese are a word.
bool is_short(std::string_view word) {
  size_t characters = 0;
  for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return characters <= 2 && word.size() <= characters * 2;
}

/// What a person typed as queries of FTS5: every word or phrase is a string there, so that no text
/// is an error of syntax. Empty if there is nothing to look for.
struct Queries {
  std::string beginnings;  ///< all words, or what begins with them
  std::string words;       ///< short ones only as they are
  std::string longer;      ///< without the short ones
  bool has_short = false;
};

Queries fts_queries(std::string_view typed) {
  const std::string valid = valid_utf8(shortened(typed, kMaxQueryBytes));
  std::string_view rest = valid;
  Queries queries;
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
    std::string quoted = "\"";
    for (const char c : word) quoted += is_space(c) ? ' ' : c;
    quoted += '"';
    const std::string beginning = quoted + (is_phrase ? " " : "* ");
    const bool short_word = !is_phrase && is_short(word);
    queries.beginnings += beginning;
    queries.words += short_word ? quoted + ' ' : beginning;
    if (!short_word) queries.longer += beginning;
    queries.has_short = queries.has_short || short_word;
    ++words;
  }
  return queries;
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
    "SELECT c.id, 0, c.title, highlight(title_search, 0, char(1), char(2)), rank "
    "FROM title_search CROSS JOIN conversations c ON c.id = title_search.rowid "
    "WHERE title_search MATCH ?1 AND c.deleted_at IS NULL ORDER BY rank, c.id DESC LIMIT ?2";
// Messages are ranked from this one on. So many match from there.
constexpr std::string_view kFirst =
    "SELECT min(id) FROM (SELECT search.rowid AS id FROM search "
    "CROSS JOIN messages m ON m.id = search.rowid "
    "CROSS JOIN conversations c ON c.id = m.conversation "
    "WHERE search MATCH ?1 AND c.deleted_at IS NULL ORDER BY search.rowid DESC LIMIT ?2)";
// A match in a text counts four times as much as one in reasoning.
constexpr std::string_view kMessages =
    "SELECT c.id, m.id, c.title, snippet(search, -1, char(1), char(2), '…', 24), rank "
    "FROM search CROSS JOIN messages m ON m.id = search.rowid "
    "CROSS JOIN conversations c ON c.id = m.conversation "
    "WHERE search MATCH ?1 AND rank MATCH 'bm25(4.0, 1.0)' AND search.rowid >= ?3 "
    "AND c.deleted_at IS NULL AND m.deleted_at IS NULL AND m.state <> 'writing' "
    "ORDER BY rank LIMIT ?2";
constexpr std::string_view kNewest =
    "SELECT m.id, m.text, m.reasoning FROM messages m "
    "CROSS JOIN conversations c ON c.id = m.conversation "
    "WHERE c.deleted_at IS NULL AND m.deleted_at IS NULL AND m.state <> 'writing' "
    "ORDER BY m.id DESC LIMIT ?2";
constexpr std::string_view kNewestWith =
    "SELECT m.id, m.text, m.reasoning FROM search "
    "CROSS JOIN messages m ON m.id = search.rowid "
    "CROSS JOIN conversations c ON c.id = m.conversation "
    "WHERE search MATCH ?1 AND c.deleted_at IS NULL AND m.deleted_at IS NULL "
    "AND m.state <> 'writing' ORDER BY search.rowid DESC LIMIT ?2";
constexpr const char* kRecentTable =
    "CREATE VIRTUAL TABLE recent USING fts5(text, reasoning, "
    "tokenize = 'unicode61 remove_diacritics 2')";
constexpr std::string_view kRecent =
    "SELECT rowid, snippet(recent, -1, char(1), char(2), '…', 24), rank FROM recent "
    "WHERE recent MATCH ?1 AND rank MATCH 'bm25(4.0, 1.0)' ORDER BY rank LIMIT ?2";
constexpr std::string_view kPlace =
    "SELECT c.id, c.title FROM messages m JOIN conversations c ON c.id = m.conversation "
    "WHERE m.id = ?1";

class Search {
 public:
  Search(Database& database, int64_t most) : database_(database), most_(most) {}

  Status look(const Queries& queries) {
    Status done = look_in(kTitles, queries.beginnings, 0);
    if (!done.ok() || left() <= 0) return done;
    Statement first = database_.prepare(kFirst);
    first.bind(1, queries.words).bind(2, kMostRanked);
    const Id from = first.step() ? first.integer(0) : 0;
    if (!first.status().ok()) return first.status();
    done = look_in(kMessages, queries.words, from);
    if (!done.ok() || left() <= 0 || !queries.has_short) return done;
    return look_in_newest(queries);
  }

  std::vector<Hit> take() { return std::move(hits_); }

 private:
  int64_t left() const { return most_ - static_cast<int64_t>(hits_.size()); }

  Status look_in(std::string_view sql, const std::string& query, Id from) {
    Statement rows = database_.prepare(sql);
    rows.bind(1, query).bind(2, left());
    if (from != 0) rows.bind(3, from);
    while (rows.step()) {
      Hit hit{rows.integer(0), rows.integer(1), rows.text(2), {}, {}, -rows.real(4)};
      read_snippet(rows.text(3), hit);
      hits_.push_back(std::move(hit));
    }
    return rows.status();
  }

  /// Beginnings of one or two letters: an index of the newest messages alone, which is made here.
  Status look_in_newest(const Queries& queries) {
    Result<std::unique_ptr<Database>> made = Database::open_in_memory(database_.path());
    if (!made) return made.error();
    Database& recent = **made;
    recent.stop_if(database_.stops_if());
    const Status filled = recent.transaction([&] { return fill(recent, queries); });
    if (!filled.ok()) return filled;
    Statement found = recent.prepare(kRecent);
    found.bind(1, queries.beginnings).bind(2, kMostRanked);
    Statement place = database_.prepare(kPlace);
    while (left() > 0 && found.step()) {
      const Id id = found.integer(0);
      if (std::ranges::find(hits_, id, &Hit::message) != hits_.end()) continue;
      if (place.bind(1, id).step()) {
        Hit hit{place.integer(0), id, place.text(1), {}, {}, -found.real(2)};
        read_snippet(found.text(1), hit);
        hits_.push_back(std::move(hit));
      }
      if (!place.status().ok()) return place.status();
      place.reset();
    }
    return found.status();
  }

  Status fill(Database& recent, const Queries& queries) {
    if (Status made = recent.execute(kRecentTable); !made.ok()) return made;
    Statement rows = database_.prepare(queries.longer.empty() ? kNewest : kNewestWith);
    rows.bind(2, kMostRecent);
    if (!queries.longer.empty()) rows.bind(1, queries.longer);
    Statement row =
        recent.prepare("INSERT INTO recent(rowid, text, reasoning) VALUES (?1, ?2, ?3)");
    for (size_t bytes = 0; bytes < kMostRecentBytes && rows.step();) {
      const std::string text = rows.text(1);
      const std::string reasoning = rows.text(2);
      bytes += text.size() + reasoning.size();
      Status added = row.bind(1, rows.integer(0)).bind(2, text).bind(3, reasoning).run();
      if (!added.ok()) return added;
    }
    return rows.status();
  }

  Database& database_;
  int64_t most_;
  std::vector<Hit> hits_;
};

}  // namespace

Result<std::vector<Hit>> search_in(Database& database, std::string_view query, int64_t most) {
  const Queries queries = fts_queries(query);
  if (queries.beginnings.empty()) return std::vector<Hit>();
  Search search(database, most < 0 || most > kMaxHits ? kMaxHits : most);
  if (Status done = search.look(queries); !done.ok()) return tl::unexpected(done);
  return search.take();
}

Result<std::vector<Hit>> Store::search(std::string_view query, int64_t most) {
  Result<std::vector<Hit>> hits = search_in(*database_, query, most);
  if (hits || hits.error().code() != StatusCode::bad_file || !database_->index_is_damaged()) {
    return hits;
  }
  if (Status rebuilt = rebuild_index(); !rebuilt.ok()) return tl::unexpected(rebuilt);
  return search_in(*database_, query, most);
}

}  // namespace infer::conversations
