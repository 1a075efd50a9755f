#include "engine/sample/grammar/gbnf.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sample/grammar/json_schema.h"
#include "engine/sample/grammar/text_cursor.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr uint32_t kNoLimit = CompiledGrammar::kNone;
constexpr uint32_t kMaxRuleDepth = 1024;
/// Nested calls of the rules around schemas, which bound the nesting of values.
constexpr uint32_t kDepthAroundSchemas = 32;
/// Rounds of a repetition of characters from which it is counted instead of written out.
constexpr uint32_t kCountedFrom = 32;

/// An expression; children by index, so that nesting costs no recursion to destroy.
struct Expr {
  enum class Kind : uint8_t {
    literal,
    characters,
    rule,  ///< also a schema, once it has one
    token,
    sequence,
    choice,
    repeat,
    special,
    until,
    schema,
  };
  Kind kind;
  std::string text;           ///< literal, special, until: UTF-8; schema: JSON
  std::string about{};        ///< schema: what messages call it
  CodePointSet set;           ///< characters
  uint32_t rule = 0;          ///< rule
  int32_t token = 0;          ///< token
  bool negated = false;       ///< token: any but this one
  uint32_t min = 0, max = 0;  ///< repeat
  std::vector<uint32_t> children{};
};

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// For messages.
std::string shortened(std::string_view name) {
  constexpr size_t kLongest = 64;
  return std::string(name.substr(0, kLongest)) + (name.size() > kLongest ? "…" : "");
}

std::string title(std::string_view name) { return "the rule " + shortened(name); }

class Parser : TextCursor {
 public:
  Parser(std::string_view text, const Tokenizer* tokenizer)
      : TextCursor(text), tokenizer_(tokenizer) {}

  Status parse() {
    skip_space(true);
    while (!at_end()) {
      INFER_CHECK(rule());
      skip_space(true);
    }
    if (find_rule("root") == kNoLimit) return failure("there is no rule named root");
    for (uint32_t i = 0; i < names_.size(); ++i) {
      if (bodies_[i] != kNoLimit) continue;
      pos_ = first_use_[i];
      return failure(title(names_[i]) + " is not there");
    }
    return {};
  }

  Result<std::shared_ptr<const CompiledGrammar>> compile() {
    for (const std::string& name : names_) builder_.add_rule(title(name));
    bool schemas = false;
    for (Expr& e : exprs_) {
      if (e.kind != Kind::schema || builder_.too_large()) continue;
      schemas = true;
      INFER_TRY(e.rule, schema_rule(e));
      e.kind = Kind::rule;
    }
    for (uint32_t i = 0; i < names_.size() && !builder_.too_large(); ++i) {
      emit(bodies_[i], i, RuleGraph::kStart, RuleGraph::kEnd);
    }
    return builder_.compile(find_rule("root"),
                            schemas ? kMaxSchemaDepth + kDepthAroundSchemas : kMaxRuleDepth);
  }

 private:
  using Kind = Expr::Kind;

  void skip_space(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++pos_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++pos_;
      } else {
        return;
      }
    }
  }

  Status failure(const std::string& what, StatusCode code = StatusCode::invalid_argument) const {
    size_t line = 1;
    size_t begin = 0;
    for (size_t i = 0; i < pos_ && i < text_.size(); ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      begin = i + 1;
    }
    return error(code, "grammar, line {}, column {}: {}", line, pos_ - begin + 1, what);
  }

  uint32_t find_rule(std::string_view name) const {
    const auto it = ids_.find(std::string(name));
    return it == ids_.end() ? kNoLimit : it->second;
  }

  uint32_t rule_id(std::string_view name) {
    const auto [it, fresh] =
        ids_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
    if (fresh) {
      names_.emplace_back(name);
      bodies_.push_back(kNoLimit);
      first_use_.push_back(pos_ - name.size());
    }
    return it->second;
  }

  std::string_view name() {
    const size_t begin = pos_;
    while (!at_end() && is_name_char(peek())) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  uint32_t add(Expr expr) {
    exprs_.push_back(std::move(expr));
    return static_cast<uint32_t>(exprs_.size() - 1);
  }

  Status rule() {
    const std::string_view n = name();
    if (n.empty()) return failure("a rule's name is expected here");
    const uint32_t id = rule_id(n);
    if (bodies_[id] != kNoLimit) return failure(title(n) + " is there twice");
    skip_space(false);
    if (!take("::=")) return failure("::= is expected here");
    skip_space(true);
    INFER_TRY_S(bodies_[id], choice(false, 0));
    if (!at_end() && peek() != '\n' && peek() != '\r') {
      return failure(peek() == ')' ? "this ) has no matching (" : "this does not belong to a rule");
    }
    return {};
  }

  /// Whether a | follows, perhaps on the next line, where it can only continue the rule.
  bool take_bar(bool nested) {
    if (take('|')) return true;
    if (nested) return false;
    const size_t here = pos_;
    skip_space(true);
    if (take('|')) return true;
    pos_ = here;
    return false;
  }

  Result<uint32_t> choice(bool nested, uint32_t depth) {
    if (depth > kMaxGbnfNesting) {
      return tl::unexpected(failure("groups are nested too deeply", StatusCode::unsupported));
    }
    Expr all{Kind::choice};
    do {
      skip_space(true);
      INFER_TRY(const uint32_t one, sequence(nested, depth));
      all.children.push_back(one);
    } while (take_bar(nested));
    return all.children.size() == 1 ? all.children[0] : add(std::move(all));
  }

  Result<uint32_t> sequence(bool nested, uint32_t depth) {
    Expr all{Kind::sequence};
    for (;;) {
      const char c = peek();
      std::optional<uint32_t> element;
      if (at_end()) break;
      if (c == '"') {
        INFER_TRY(element, literal());
      } else if (c == '[') {
        INFER_TRY(element, characters());
      } else if (c == '.') {
        ++pos_;
        element = add({.kind = Kind::characters, .set = CodePointSet::all()});
      } else if (c == '(') {
        ++pos_;
        INFER_TRY(element, choice(true, depth + 1));
        if (!take(')')) return tl::unexpected(failure(") is expected here"));
      } else if (is_name_char(c)) {
        const std::string_view n = name();
        element = add({.kind = Kind::rule, .rule = rule_id(n)});
      } else if (c == '<' || c == '!') {
        INFER_TRY(element, token());
      } else if (c == '%') {
        INFER_TRY(element, named_element());
      } else {
        break;
      }
      INFER_TRY(element, repetitions(*element));
      all.children.push_back(*element);
      skip_space(nested);
    }
    return all.children.size() == 1 ? all.children[0] : add(std::move(all));
  }

  Result<uint32_t> number() {
    uint64_t value = 0;
    const size_t begin = pos_;
    for (; peek() >= '0' && peek() <= '9' && value <= kMaxGbnfRepeat; ++pos_) {
      value = value * 10 + static_cast<uint64_t>(peek() - '0');
    }
    if (pos_ == begin) return tl::unexpected(failure("a number is expected here"));
    if (value > kMaxGbnfRepeat) {
      return tl::unexpected(failure("more than 100000 repetitions", StatusCode::unsupported));
    }
    return static_cast<uint32_t>(value);
  }

  Result<uint32_t> repetitions(uint32_t element) {
    // One after another, as in x*?, each about all before it.
    for (uint32_t depth = 0;; ++depth) {
      Expr repeat{Kind::repeat};
      if (take('*')) {
        repeat.max = kNoLimit;
      } else if (take('+')) {
        repeat.min = 1;
        repeat.max = kNoLimit;
      } else if (take('?')) {
        repeat.max = 1;
      } else if (take('{')) {
        skip_space(false);
        INFER_TRY(repeat.min, number());
        repeat.max = repeat.min;
        skip_space(false);
        if (take(',')) {
          skip_space(false);
          repeat.max = kNoLimit;
          if (peek() != '}') {
            INFER_TRY(repeat.max, number());
          }
          skip_space(false);
        }
        if (!take('}')) return tl::unexpected(failure("} is expected here"));
        if (repeat.min > repeat.max)
          return tl::unexpected(failure("the minimum exceeds the maximum"));
      } else {
        return element;
      }
      if (depth > kMaxGbnfNesting) {
        return tl::unexpected(
            failure("too many repetitions of repetitions", StatusCode::unsupported));
      }
      repeat.children.push_back(element);
      element = add(std::move(repeat));
    }
  }

  Result<char32_t> character() {
    if (!take('\\')) {
      const Utf8Char c = decode_utf8(text_, pos_);
      if (!c.valid) return tl::unexpected(failure("this is not UTF-8"));
      pos_ += c.size;
      return c.code;
    }
    const char c = peek();
    if (at_end()) return tl::unexpected(failure("the grammar ends within an escape"));
    ++pos_;
    switch (c) {
      case 'n': return U'\n';
      case 'r': return U'\r';
      case 't': return U'\t';
      case 'x': return hex(2);
      case 'u': return hex(4);
      case 'U': return hex(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<char32_t>(c);
      default: --pos_; return tl::unexpected(failure("this escape is not known"));
    }
  }

  Result<char32_t> hex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const int value = hex_value(peek());
      if (at_end() || value < 0) {
        return tl::unexpected(failure("a hexadecimal digit is expected here"));
      }
      code = (code << 4) | static_cast<uint32_t>(value);
      ++pos_;
    }
    if (code > kMaxCodePoint || (code >= 0xd800 && code <= 0xdfff)) {
      return tl::unexpected(failure("this is not the code of a character"));
    }
    return static_cast<char32_t>(code);
  }

  Result<uint32_t> literal() {
    Expr out{Kind::literal};
    ++pos_;
    while (!take('"')) {
      if (at_end()) return tl::unexpected(failure("the closing \" is missing"));
      INFER_TRY(const char32_t c, character());
      append_utf8(out.text, c);
    }
    return add(std::move(out));
  }

  /// <[id]>, <spelling>, or any token but that.
  Result<uint32_t> token() {
    Expr out{Kind::token};
    out.negated = take('!');
    const size_t begin = pos_;
    if (!take('<')) return tl::unexpected(failure("a token in < > is expected here"));
    const auto refuse = [&](const std::string& what,
                            StatusCode code = StatusCode::invalid_argument) {
      pos_ = begin;
      return tl::unexpected(failure(what, code));
    };
    if (tokenizer_ == nullptr) {
      return refuse("tokens need a vocabulary, and there is none", StatusCode::unsupported);
    }
    if (take('[')) {
      int64_t id = 0;
      const size_t digits = pos_;
      for (; peek() >= '0' && peek() <= '9' && id <= INT32_MAX; ++pos_) {
        id = id * 10 + (peek() - '0');
      }
      if (pos_ == digits) return tl::unexpected(failure("the id of a token is expected here"));
      if (id >= tokenizer_->vocab_size()) {
        return refuse("the vocabulary has " + std::to_string(tokenizer_->vocab_size()) +
                      " tokens, counted from 0, and none with this id");
      }
      if (!take("]>")) return tl::unexpected(failure("]> is expected here"));
      out.token = static_cast<int32_t>(id);
    } else {
      while (!at_end() && peek() != '>' && peek() != '\n' && peek() != '\r') ++pos_;
      if (!take('>')) return refuse("the closing > is missing");
      const std::string_view spelling = text_.substr(begin, pos_ - begin);
      out.token = tokenizer_->token_to_id(spelling);
      if (out.token == kNoToken) {
        return refuse(shortened(spelling) + " is not one token of this vocabulary");
      }
    }
    if (tokenizer_->is_eog(out.token)) {
      return refuse("this token ends the text: leave it out, it may come where root is complete");
    }
    return add(std::move(out));
  }

  /// %special "text", %until "text", or %json with a schema.
  Result<uint32_t> named_element() {
    const size_t begin = pos_++;
    const std::string_view kind = name();
    const bool schema = kind == "json";
    if (!schema && kind != "special" && kind != "until") {
      pos_ = begin;
      return tl::unexpected(failure("%json, %special or %until is expected here"));
    }
    skip_space(true);
    std::string text;
    if (peek() == '"') {
      INFER_TRY(const uint32_t literal_at, literal());
      text = exprs_[literal_at].text;
    }
    if (schema) return schema_element(std::move(text));
    if (text.empty()) return tl::unexpected(failure("a text in quotes is expected here"));
    return add({.kind = kind == "until" ? Kind::until : Kind::special, .text = std::move(text)});
  }

  Result<uint32_t> schema_element(std::string about) {
    skip_space(true);
    const size_t begin = pos_;
    if (about.empty()) about = failure("the schema").message();
    if (peek() == '{') {
      bool quoted = false;
      for (uint32_t depth = 0; !at_end(); ++pos_) {
        const char c = peek();
        if (quoted && c == '\\') {
          ++pos_;
        } else if (c == '"') {
          quoted = !quoted;
        } else if (!quoted && (c == '{' || c == '}')) {
          depth += c == '{' ? 1 : -1u;
          if (depth == 0) break;
        }
      }
      if (!take('}')) {
        pos_ = begin;
        return tl::unexpected(failure("the closing } of this schema is missing"));
      }
    } else if (!take("true")) {
      return tl::unexpected(failure("a JSON schema is expected here: an object, or true"));
    }
    const std::string_view text = text_.substr(begin, pos_ - begin);
    return add({.kind = Kind::schema, .text = std::string(text), .about = std::move(about)});
  }

  /// Compiles a schema for itself first: here one that no value satisfies is an error as well.
  Result<uint32_t> schema_rule(const Expr& e) {
    const auto named = [&](const Status& why) {
      return tl::unexpected(error(why.code(), "{}: {}", e.about, why.message()));
    };
    if (auto alone = compile_json_schema(e.text); !alone) return named(alone.error());
    auto rule = add_json_schema(e.text, builder_);
    if (!rule) return named(rule.error());
    return rule;
  }

  Result<uint32_t> characters() {
    ++pos_;
    const bool negated = take('^');
    std::vector<CodePointRange> ranges;
    while (!take(']')) {
      if (at_end()) return tl::unexpected(failure("the closing ] is missing"));
      INFER_TRY(const char32_t first, character());
      char32_t last = first;
      if (peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
        ++pos_;
        INFER_TRY(last, character());
        if (last < first) return tl::unexpected(failure("the range's end precedes its beginning"));
      }
      ranges.push_back({first, last});
    }
    CodePointSet set(std::move(ranges));
    return add({.kind = Kind::characters, .set = negated ? set.complement() : std::move(set)});
  }

  /// Draws the expression from one node to another. Nested as deeply as groups are.
  void emit(uint32_t expr, uint32_t rule, uint32_t from, uint32_t to) {
    if (builder_.too_large()) return;
    const Expr& e = exprs_[expr];
    RuleGraph& graph = builder_.graph(rule);
    switch (e.kind) {
      case Kind::literal: graph.literal(from, e.text, to); break;
      case Kind::characters: graph.characters(from, e.set, to); break;
      case Kind::rule: graph.call(from, e.rule, to); break;
      case Kind::token: graph.token(from, e.token, e.negated, to); break;
      case Kind::special: emit_special(graph, e.text, from, to); break;
      case Kind::until: emit_until(graph, e.text, from, to); break;
      case Kind::schema: break;  // they have become rules
      case Kind::choice:
        for (const uint32_t child : e.children) emit(child, rule, from, to);
        break;
      case Kind::sequence:
        for (const uint32_t child : e.children) {
          const uint32_t next = builder_.graph(rule).node();
          emit(child, rule, from, next);
          from = next;
        }
        builder_.graph(rule).epsilon(from, to);
        break;
      case Kind::repeat: emit_repeat(e, rule, from, to); break;
    }
  }

  /// The control tokens of the vocabulary.
  const std::vector<int32_t>& control_tokens() {
    if (!controls_) {
      controls_.emplace();
      for (int32_t id = 0; tokenizer_ != nullptr && id < tokenizer_->vocab_size(); ++id) {
        if (tokenizer_->is_control(id)) controls_->push_back(id);
      }
    }
    return *controls_;
  }

  /// A text, any part of which may come as the control token that is spelt so. One that ends the
  /// text of the model may do so where this text ends.
  void emit_special(RuleGraph& graph, std::string_view text, uint32_t from, uint32_t to) {
    std::vector<uint32_t> nodes{from};
    while (nodes.size() < text.size()) nodes.push_back(graph.node());
    nodes.push_back(to);
    for (size_t i = 0; i < text.size(); ++i) graph.byte(nodes[i], text[i], nodes[i + 1]);
    for (const int32_t id : control_tokens()) {
      const std::string_view piece = tokenizer_->piece(id);
      if (piece.empty()) continue;
      for (size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + 1)) {
        if (!tokenizer_->is_eog(id)) {
          graph.token(nodes[at], id, false, nodes[at + piece.size()]);
        } else if (at + piece.size() == text.size()) {
          graph.epsilon(nodes[at], to);
        }
      }
    }
  }

  /// Any text up to the first `mark`, and the mark. If the mark is a control token, all other
  /// tokens may come before it.
  void emit_until(RuleGraph& graph, std::string_view mark, uint32_t from, uint32_t to) {
    bool ends = false;
    for (const int32_t id : control_tokens()) {
      if (tokenizer_->piece(id) != mark) continue;
      ends = tokenizer_->is_eog(id);
      if (ends) break;
      const uint32_t loop = graph.node();
      graph.epsilon(from, loop);
      graph.token(loop, id, true, loop);
      graph.token(loop, id, false, to);
      return;
    }
    // Knuth, Morris, Pratt 1977: a node for each number of bytes of the mark that have come.
    std::vector<uint32_t> nodes;
    for (size_t i = 0; i < mark.size(); ++i) nodes.push_back(graph.node());
    nodes.push_back(to);
    graph.epsilon(from, nodes[0]);
    if (ends) graph.epsilon(nodes[0], to);
    for (size_t i = 0; i < mark.size(); ++i) {
      const auto after = [&](char c) {
        std::string text(mark.substr(0, i));
        text += c;
        size_t size = text.size();
        while (!mark.starts_with(std::string_view(text).substr(text.size() - size))) --size;
        return nodes[size];
      };
      uint32_t first = 0;
      for (uint32_t byte = 1; byte <= 256; ++byte) {
        const uint32_t target = after(static_cast<char>(first));
        if (byte < 256 && after(static_cast<char>(byte)) == target) continue;
        graph.bytes(nodes[i], static_cast<uint8_t>(first), static_cast<uint8_t>(byte - 1), target);
        first = byte;
      }
    }
  }

  void emit_repeat(const Expr& e, uint32_t rule, uint32_t from, uint32_t to) {
    const uint32_t body = e.children[0];
    const uint32_t most = e.max == kNoLimit ? e.min : e.max;
    if (exprs_[body].kind == Kind::characters && most >= kCountedFrom) {
      const uint32_t counted = builder_.add_counted_rule("a repetition", e.min, e.max);
      builder_.graph(counted).characters(RuleGraph::kStart, exprs_[body].set, RuleGraph::kEnd);
      builder_.graph(rule).call(from, counted, to);
      return;
    }
    // A node of its own before a loop, so that nothing else that leaves `from` is repeated.
    const auto step = [&](uint32_t begin) {
      const uint32_t next = builder_.graph(rule).node();
      emit(body, rule, begin, next);
      return next;
    };
    for (uint32_t i = 0; i < e.min && !builder_.too_large(); ++i) from = step(from);
    if (e.max == kNoLimit) {
      const uint32_t loop = builder_.graph(rule).node();
      builder_.graph(rule).epsilon(from, loop);
      builder_.graph(rule).epsilon(step(loop), loop);
      builder_.graph(rule).epsilon(loop, to);
      return;
    }
    for (uint32_t i = e.min; i < e.max && !builder_.too_large(); ++i) {
      builder_.graph(rule).epsilon(from, to);
      from = step(from);
    }
    builder_.graph(rule).epsilon(from, to);
  }

  const Tokenizer* tokenizer_;  ///< null: there is no vocabulary
  std::vector<Expr> exprs_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<uint32_t> bodies_;   ///< by rule
  std::vector<size_t> first_use_;  ///< by rule, in the text
  std::optional<std::vector<int32_t>> controls_;
  GrammarBuilder builder_;
};

}  // namespace

Result<std::shared_ptr<const CompiledGrammar>> compile_gbnf(std::string_view text,
                                                            const Tokenizer* tokenizer) {
  if (text.size() > kMaxGbnfBytes) {
    return fail(StatusCode::unsupported, "the grammar has {} bytes; at most {} are read",
                text.size(), kMaxGbnfBytes);
  }
  Parser parser(without_byte_order_mark(text), tokenizer);
  INFER_CHECK_R(parser.parse());
  return parser.compile();
}

}  // namespace infer
