// Answers whose calls are held to the declared tools.
#pragma once

#include <doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generate/grammars.h"
#include "engine/text/output/call_grammar.h"
#include "engine/text/output/output_reader.h"
#include "tests/text/tiny_vocab.h"

namespace infer::test {

/// `f` is strict, `any "x"` is not.
inline constexpr std::string_view kTools = R"([
  {"type": "function", "function": {"name": "f", "strict": true, "parameters": {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    "additionalProperties": false}}},
  {"type": "function", "function": {"name": "any \"x\"", "parameters": {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}])";
/// A small vocabulary with these control tokens.
inline std::shared_ptr<const Tokenizer> vocabulary(const std::vector<std::string>& controls) {
  TokenizerSpec spec = sentencepiece_spec();
  for (const std::string& text : controls) {
    add_token(spec, text, TokenType::control);
  }
  for (const char* text :
       {"\": ", "{\"", "}\n", ">\n", "name", "<tool", "think>", "\"}", "\",", "f\""}) {
    add_token(spec, text);
  }
  auto made = Tokenizer::create(std::move(spec));
  REQUIRE(made);
  return *std::move(made);
}

/// Takes the longest tokens that are allowed; how much of the text that is.
inline size_t take_longest(Constraint& constraint, const Tokenizer& tokenizer,
                           std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    int32_t best = -1;
    for (int32_t id = 3; id < tokenizer.vocab_size(); ++id) {
      const std::string_view piece = tokenizer.piece(id);
      if (piece.empty() || !text.substr(at).starts_with(piece) || !constraint.allows(id)) continue;
      if (best < 0 || piece.size() > tokenizer.piece(best).size()) best = id;
    }
    if (best < 0) return at;
    REQUIRE(constraint.accept(best));
    at += tokenizer.piece(best).size();
  }
  return at;
}

/// What an answer may be.
struct Held {
  OutputOptions output;
  GenerateOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Grammars> grammars;
  std::unique_ptr<Constraint> constraint;
  bool held = false;

  Held(std::string_view source, const std::vector<std::string>& controls,
       std::string_view schema = "", std::string_view tools = kTools,
       std::string_view prompt = "") {
    output.declared_tools = tools;
    options.json_schema = schema;
    const Result<bool> done = hold_calls(source, prompt, output, options);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    held = *done;
    tokenizer = vocabulary(controls);
    grammars = std::make_unique<Grammars>(tokenizer);
    auto made = grammars->constraint(options);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message() + "\n" + options.grammar));
    constraint = *std::move(made);
  }
  /// How much of the text may be written.
  size_t take(std::string_view text) { return take_longest(*constraint, *tokenizer, text); }
  bool takes(std::string_view text) { return take(text) == text.size(); }
};

/// Content, and the calls as name(arguments).
inline std::string read_calls(std::string_view source, std::string_view text,
                              const OutputOptions& options, std::string_view prompt = "") {
  OutputReader reader(source, prompt, options, DeclaredTools::read(options.declared_tools).value());
  std::vector<OutputEvent> events;
  for (size_t i = 0; i < text.size(); ++i) reader.push(text.substr(i, 1), events);
  reader.finish(events);
  std::string out;
  for (const OutputEvent& event : events) {
    out += event.kind == OutputEvent::Kind::tool_call
               ? "{" + event.call.name + event.call.arguments + "}"
               : event.text;
  }
  return out;
}

}  // namespace infer::test
