#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/regex_splitter.h"

#include <pcre2.h>

#include <algorithm>
#include <new>
#include <utility>

#include "engine/core/file.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr size_t kMaxRules = 64;
constexpr size_t kMaxPatternBytes = 16384;
constexpr uint32_t kUsualSteps = 400;    // at one place, without being charged for
constexpr uint32_t kMaxSteps = 100'000;  // at one place
constexpr int64_t kWorkPerByte = 256;    // units for one text, see Work
constexpr int64_t kWorkPerText = 1 << 20;
constexpr uint32_t kMaxHeap = 16 * 1024;  // KiB, of one match
constexpr uint32_t kMaxNesting = 150;     // of parentheses, those that the translation adds too

/// Unicode's White_Space: PCRE2 counts U+180E as well.
constexpr std::string_view kSpaces =
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
/// PCRE2's \w has no marks.
constexpr std::string_view kWord = "\\p{L}\\p{M}\\p{N}\\p{Pc}";

// Numbers of callouts.
constexpr uint32_t kBefore = 1;  // before a repetition of one character
constexpr uint32_t kAfter = 2;   // after it
constexpr uint32_t kPassed = 3;  // after some atoms, and in each round of a counted group
constexpr uint32_t kFirst = 4;   // after the first repetition of an alternative of the pattern

constexpr int kAtoms = 32;  // between callouts

/// What matching in one text has used. PCRE2's match limit counts the steps of one attempt. It
/// does not count what a repetition of a character runs over (`a*` is one step), literal
/// characters, and rounds of a counted group. So the patterns have callouts at these.
struct Work {
  int64_t left = 0;  // units: bytes run over, steps beyond the usual number
  size_t last = 0;   // where the last callout was
  // A first repetition begins about where the attempt does, which saves a callout. If it gives some
  // of its characters back, only these are charged.
  size_t first_start = SIZE_MAX;
  size_t first_end = 0;
  size_t first_pattern = 0;
};

int on_callout(pcre2_callout_block* block, void* data) {
  Work& work = *static_cast<Work*>(data);
  const size_t at = block->current_position;
  if (block->callout_number == kFirst) {
    const bool again = work.first_start == block->start_match &&
                       work.first_pattern == block->pattern_position && at < work.first_end;
    work.left -= static_cast<int64_t>(again ? work.first_end - at : at - block->start_match);
    work.first_start = block->start_match;
    work.first_end = at;
    work.first_pattern = block->pattern_position;
  } else if (block->callout_number == kAfter) {
    work.left -= static_cast<int64_t>(at > work.last ? at - work.last : work.last - at);
  } else if (block->callout_number == kPassed) {
    work.left -= kAtoms;
  }
  work.last = at;
  return --work.left < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

}  // namespace

std::string flat_classes(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  bool nested = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && i + 1 < pattern.size()) {
      out += c;
      out += next;
      ++i;
    } else if (!in_class) {
      in_class = c == '[';
      out += c;
    } else if (c == '[') {
      const size_t end = pattern.find_first_of("[]", i + 1);
      // What is not a plain list of characters and ranges stays as it is.
      const bool plain = !nested && end != pattern.npos && pattern[end] == ']' && end > i + 1 &&
                         next != '^' && next != ':' && next != '-' && pattern[end - 1] != '-' &&
                         pattern[end - 1] != '\\' &&
                         pattern.substr(i, end - i).find("&&") == pattern.npos;
      if (!plain) return std::string(pattern);
      nested = true;
    } else if (c == ']' && nested) {
      nested = false;
    } else {
      in_class = c != ']';
      out += c;
    }
  }
  return out;
}

namespace {

/// An expression of Oniguruma as PCRE2 writes it, with callouts.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string out;
  const char* problem = nullptr;

  void run() {
    for (at_ = 0; at_ < in_.size() && problem == nullptr;) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (class_) {
        in_class(c);
      } else if (c == '[') {
        begin_atom();
        class_ = true;
        put(1);
        if (next_is('^')) put(1);
        // There it stands for itself.
        if (next_is(']')) problem = "an empty class";
      } else if (c == '(') {
        open();
      } else if (c == ')') {
        if (groups_.empty()) {
          problem = "an unmatched parenthesis";
          return;
        }
        atom_ = groups_.back();
        group_ = true;
        groups_.pop_back();
        put(1);
      } else if (c == '{') {
        interval();
      } else if (c == '*' || c == '+' || c == '?') {
        repetition();
      } else {
        begin_atom();
        if (c == '|' && groups_.empty()) first_ = true;
        put(decode_utf8(in_, at_).size);
      }
    }
  }

 private:
  static std::string callout(uint32_t number) { return fmt::format("(?C{})", number); }
  void begin_atom() {
    if (++atoms_ % kAtoms == 0) out += callout(kPassed);
    atom_ = out.size();
    group_ = false;
  }
  bool next_is(char c) const { return at_ < in_.size() && in_[at_] == c; }
  void put(size_t count) {
    out += in_.substr(at_, count);
    at_ += count;
  }

  void in_class(char c) {
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("&&")) {
      problem = "an intersection of classes";
    } else if (rest.starts_with("[:")) {
      put(std::min(rest.find(":]"), rest.size() - 2) + 2);
    } else if (c == '[') {
      problem = "a class within a class";
    } else {
      class_ = c != ']';
      put(1);
    }
  }

  void escape() {
    if (!class_) begin_atom();
    const std::string_view rest = in_.substr(at_ + 1);
    const auto replace = [&](std::string_view text) {
      if (!class_) out += '[';
      out += text;
      if (!class_) out += ']';
      at_ += 2;
    };
    if (rest.empty()) {
      problem = "a pattern that ends in a backslash";
    } else if (rest[0] == 's') {
      replace(kSpaces);
    } else if (rest[0] == 'w') {
      replace(kWord);
    } else if (rest[0] == 'h') {
      replace("0-9A-Fa-f");
    } else if (!class_ && (rest[0] == 'S' || rest[0] == 'W')) {
      out += fmt::format("[^{}]", rest[0] == 'S' ? kSpaces : kWord);
      at_ += 2;
    } else if (rest[0] == 'u' && rest.size() >= 5) {
      out += fmt::format("\\x{{{}}}", rest.substr(1, 4));
      at_ += 6;
    } else if (rest.starts_with("p{Han}")) {
      // By itself PCRE2 takes it for the script's extensions.
      out += "\\p{sc:Han}";
      at_ += 7;
    } else if (rest[0] == 'H' || rest[0] == 'G' || rest[0] == 'K' || rest[0] == 'g' ||
               rest[0] == 'k' || rest[0] == 'C' || rest[0] == 'X') {
      problem = "an escape that is not known";
    } else if (!class_ && rest[0] >= '1' && rest[0] <= '9') {
      problem = "a reference to a group";  // runs over text without a callout
    } else if (rest.size() > 1 && rest[1] == '{') {
      put(std::min(in_.find('}', at_), in_.size() - 1) + 1 - at_);  // \p{…}, \x{…}
    } else {
      put(2);
    }
  }

  void open() {
    first_ = false;
    groups_.push_back(out.size());
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("(?")) {
      // (?m) is another thing in Ruby's syntax, and there are callouts and recursion in PCRE2's.
      size_t end = 2;
      while (end < rest.size() && (rest[end] == 'i' || rest[end] == '-' || rest[end] == 'x')) ++end;
      constexpr std::string_view kKinds[] = {":", "=", "!", "<=", "<!", ">"};
      const bool known = std::ranges::any_of(
          kKinds, [&](std::string_view kind) { return rest.substr(end).starts_with(kind); });
      const bool flags = end > 2 && end < rest.size() && rest[end] == ')';
      if (!known && !flags) {
        problem = "a group of that kind";
        return;
      }
      return put(end);
    }
    if (rest.starts_with("(*")) problem = "a verb";
    put(1);
  }

  /// Copies `count` bytes that repeat the last atom. What repeats a group takes a step each time.
  void repeat(size_t count) {
    const bool first = std::exchange(first_, false);
    if (!group_ && !first) out.insert(atom_, callout(kBefore));
    put(count);
    if (!group_) out += callout(first ? kFirst : kAfter);
  }

  void repetition() {
    const bool suffix = at_ + 1 < in_.size() && (in_[at_ + 1] == '?' || in_[at_ + 1] == '+');
    const size_t size = suffix ? 2 : 1;
    in_[at_] == '?' ? put(size) : repeat(size);
  }

  /// X{n,m}+ repeats X{n,m} there, and is possessive in PCRE2.
  void interval() {
    size_t end = at_ + 1;
    while (end < in_.size() && ((in_[end] >= '0' && in_[end] <= '9') || in_[end] == ',')) ++end;
    if (end == at_ + 1 || end == in_.size() || in_[end] != '}') {
      begin_atom();
      return put(1);
    }
    const bool plus = end + 1 < in_.size() && in_[end + 1] == '+';
    const bool lazy = end + 1 < in_.size() && in_[end + 1] == '?';
    if (group_) {
      out.insert(atom_, "(?:" + callout(kPassed));
      out += ')';
    }
    if (plus) out.insert(atom_, "(?:");
    const size_t begin = atom_;
    if (plus) atom_ += 3;
    repeat(end + (lazy ? 2 : 1) - at_);
    if (!plus) return;
    out += ')';
    atom_ = begin;
    group_ = true;
  }

  std::string_view in_;
  size_t at_ = 0;
  bool class_ = false;
  size_t atom_ = 0;     // where in `out` what a repetition would repeat begins
  bool group_ = false;  // whether that is a group
  bool first_ = true;   // whether no group nor repetition has been in this alternative
  int atoms_ = 0;
  std::vector<size_t> groups_;
};

}  // namespace

struct RegexSplitter::Step {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code;
  SplitBehaviour behaviour;
  std::string pattern;
};

struct RegexSplitter::Scratch {
  Scratch() : context(pcre2_match_context_create(nullptr)) {
    // Two offsets are all that is asked for.
    data = pcre2_match_data_create(1, nullptr);
    if (context == nullptr || data == nullptr) {
      release();
      throw std::bad_alloc();
    }
    pcre2_set_heap_limit(context, kMaxHeap);
    pcre2_set_callout(context, on_callout, &work);
  }
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  pcre2_match_context* context = nullptr;
  pcre2_match_data* data = nullptr;
  Work work;

  /// As pcre2_match from `at` on; another error than PCRE2_ERROR_NOMATCH where it needs too much.
  int match(const pcre2_code* code, std::string_view text, size_t at) {
    const auto run = [&](size_t from, uint32_t steps, uint32_t options) {
      work.last = from;
      pcre2_set_match_limit(context, steps);
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, data, context);
    };
    while (at < text.size()) {
      int found = run(at, kUsualSteps, 0);
      if (found != PCRE2_ERROR_MATCHLIMIT) return found;
      // The place that needs more steps is looked for, tried alone and charged for.
      size_t place = at;
      const auto next = [&] { place += decode_utf8(text, place).size; };
      while (place < text.size() &&
             (found = run(place, kUsualSteps, PCRE2_ANCHORED)) == PCRE2_ERROR_NOMATCH) {
        next();
      }
      if (found != PCRE2_ERROR_MATCHLIMIT) return found;
      for (const uint32_t steps : {8 * kUsualSteps, 64 * kUsualSteps, kMaxSteps}) {
        work.left -= steps;
        if (work.left < 0) return PCRE2_ERROR_MATCHLIMIT;
        found = run(place, steps, PCRE2_ANCHORED);
        if (found != PCRE2_ERROR_MATCHLIMIT) break;
      }
      if (found != PCRE2_ERROR_NOMATCH) return found;
      next();
      at = place;
    }
    return PCRE2_ERROR_NOMATCH;
  }

 private:
  void release() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

RegexSplitter::RegexSplitter(std::vector<Step> steps, std::string source)
    : steps_(std::move(steps)), source_(std::move(source)) {}
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

Result<RegexSplitter> RegexSplitter::create(const std::vector<SplitRule>& rules,
                                            const std::string& source) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), 16 * kMaxPatternBytes);
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
  if (rules.size() > kMaxRules) {
    return fail(StatusCode::unsupported, "{}: its pre_tokenizer: more than {} steps", source,
                kMaxRules);
  }
  std::vector<Step> steps;
  for (const SplitRule& rule : rules) {
    const auto refuse = [&](std::string_view why) {
      return fail(StatusCode::unsupported, "{}: the pattern '{}' of its pre_tokenizer: {}", source,
                  printable(rule.pattern), why);
    };
    if (rule.pattern.size() > kMaxPatternBytes) return refuse("is too long");
    const std::string flat = flat_classes(rule.pattern);
    Translator translator(flat);
    translator.run();
    if (translator.problem != nullptr) {
      return refuse(fmt::format("{} is not supported", translator.problem));
    }
    int code = 0;
    PCRE2_SIZE offset = 0;
    // ^ and $ are those of lines there.
    Step step{nullptr, rule.behaviour, rule.pattern};
    step.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translator.out.data()),
                                  translator.out.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                  &code, &offset, context.get()));
    if (!step.code) {
      PCRE2_UCHAR message[160] = {};
      pcre2_get_error_message(code, message, sizeof(message));
      return refuse(reinterpret_cast<const char*>(message));
    }
    steps.push_back(std::move(step));
  }
  return RegexSplitter(std::move(steps), source);
}

/// False if the pattern needs too much.
bool RegexSplitter::cut(const Step& step, std::string_view text, Word piece, Scratch& scratch,
                        std::vector<Word>& out) {
  const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
  uint32_t begin = 0;  // of the word that is being made
  uint32_t last = 0;   // end of the last match
  const auto end_word = [&](uint32_t end, bool keep) {
    if (end > begin && keep) out.push_back({piece.begin + begin, piece.begin + end});
    begin = end;
  };
  const bool drops = step.behaviour == SplitBehaviour::matches;
  for (size_t at = 0; at < part.size();) {
    const int found = scratch.match(step.code.get(), part, at);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return false;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.data);
    const auto first = static_cast<uint32_t>(ends[0]), end = static_cast<uint32_t>(ends[1]);
    if (end <= at || first < at) break;
    switch (step.behaviour) {
      case SplitBehaviour::isolated:
      case SplitBehaviour::matches:
        end_word(first, !drops);
        end_word(end, true);
        break;
      case SplitBehaviour::previous: end_word(end, true); break;
      case SplitBehaviour::next: end_word(first, true); break;
      case SplitBehaviour::contiguous:
        // A word of matches goes on where one follows at once.
        if (first > last || first == 0) {
          end_word(last, true);
          end_word(first, true);
        }
        break;
    }
    last = end;
    at = end;
  }
  if (step.behaviour == SplitBehaviour::contiguous) end_word(last, true);
  end_word(static_cast<uint32_t>(part.size()), !drops);
  return true;
}

Result<std::vector<RegexSplitter::Word>> RegexSplitter::split(std::string_view text) const {
  struct Piece {
    Word word;
    bool valid;
  };
  std::vector<Piece> pieces;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const auto end = static_cast<uint32_t>(at + c.size);
    if (!pieces.empty() && pieces.back().valid == c.valid) {
      pieces.back().word.end = end;
    } else {
      pieces.push_back({{static_cast<uint32_t>(at), end}, c.valid});
    }
    at = end;
  }
  Scratch scratch;
  scratch.work.left = kWorkPerText + kWorkPerByte * static_cast<int64_t>(text.size());
  std::vector<Piece> finer;
  std::vector<Word> words;
  for (const Step& step : steps_) {
    finer.clear();
    for (const Piece& piece : pieces) {
      if (!piece.valid) {
        finer.push_back(piece);
        continue;
      }
      words.clear();
      if (!cut(step, text, piece.word, scratch, words)) {
        return fail(StatusCode::unsupported,
                    "{}: the pattern '{}' of its pre_tokenizer takes too long for this text",
                    source_, printable(step.pattern));
      }
      for (const Word& word : words) finer.push_back({word, true});
    }
    pieces.swap(finer);
  }
  std::vector<Word> out;
  out.reserve(pieces.size());
  for (const Piece& piece : pieces) out.push_back(piece.word);
  return out;
}

}  // namespace infer
