// What a tokenizer.json does to a text before and after its words become tokens.
#include <algorithm>

#include "engine/core/file.h"
#include "formats/safetensors/tokenizer_parts.h"

namespace infer::safetensors {
namespace {

/// GPT-2's expression, which ByteLevel applies unless use_regex says no.
constexpr const char* kByteLevel =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr const char* kDigit = "\\p{N}";
constexpr const char* kDigits = "\\p{N}+";
/// ASCII's punctuation and Unicode's.
constexpr const char* kPunctuation = "[\\p{P}\\$\\+<=>\\^~\\|`]";

/// The list of a Sequence, or the one step itself.
template <typename Visit>
void for_each_step(const JsonPlace& step, const char* list, Visit visit) {
  if (!step.present()) return;
  if (step.type() != "Sequence") return visit(step);
  const JsonPlace steps = step.at(list);
  for (size_t i = 0; i < steps.size(); ++i) for_each_step(steps.at(i), list, visit);
}

/// A literal as a regular expression.
std::string literal_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto b = static_cast<uint8_t>(c);
    const bool plain = b >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == ' ' || c == '\n';
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

struct Pattern {
  bool literal = false;
  std::string text;
};

Pattern read_pattern(const JsonPlace& step) {
  const JsonPlace pattern = step.at("pattern");
  if (const JsonPlace literal = pattern.at("String"); literal.present()) {
    return {true, literal.text()};
  }
  return {false, pattern.at("Regex").text()};
}

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::vector<uint8_t> read_base64(const JsonPlace& place) {
  std::string text = place.text("");
  const bool whole = text.size() % 4 == 0;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.pop_back();
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (!whole || digit < 0) {
      place.expected("base64");
      return {};
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<uint8_t>(bits >> count));
    }
  }
  return bytes;
}

class StepReader {
 public:
  TextSteps steps;

  void normaliser(const JsonPlace& step) {
    const std::string type = step.type();
    if (type == "NFC") {
      steps.compose = true;
    } else if (type == "Prepend") {
      if (step.at("prepend").text() != kSpaceMark) step.at("prepend").unsupported();
      // Of what stands before, a Replace makes ▁ only of spaces.
      steps.prefix = steps.prepends = true;
    } else if (type == "Replace") {
      replace(step);
    } else if (type == "Precompiled") {
      if (makes_marks() || steps.join_spaces || !steps.charsmap.empty()) {
        step.unsupported("after these steps");
      }
      steps.charsmap = read_base64(step.at("precompiled_charsmap"));
      steps.strips_first = strips();
    } else if (type == "Strip") {
      if (makes_marks() || steps.joins_to_marks || steps.strips_first) {
        step.unsupported("after these steps");
      }
      steps.strip_left = steps.strip_left || step.at("strip_left").flag(false);
      steps.strip_right = steps.strip_right || step.at("strip_right").flag(false);
    } else if (type == "BertNormalizer") {
      bert_normaliser(step);
    } else {
      step.unsupported();
    }
  }

  void pre_tokeniser(const JsonPlace& step) {
    const std::string type = step.type();
    if (type == "ByteLevel") {
      steps.byte_level = true;
      if (step.at("add_prefix_space").flag(true)) step.at("add_prefix_space").unsupported();
      if (step.at("use_regex").flag(true)) steps.splits.push_back({kByteLevel});
    } else if (type == "Metaspace") {
      metaspace(step);
    } else if (type == "Split") {
      split(step);
    } else if (type == "Digits") {
      steps.splits.push_back({step.at("individual_digits").flag(false) ? kDigit : kDigits});
    } else if (type == "Punctuation") {
      punctuation(step);
    } else if (type == "WhitespaceSplit") {
      if (steps.space_marks || !steps.splits.empty()) step.unsupported("after these steps");
      steps.words_at_white_space = true;
    } else if (type == "BertPreTokenizer") {
      if (!steps.bert) step.unsupported("without BertNormalizer");
      bert_words_ = true;
    } else {
      step.unsupported();
    }
  }

  void finish(const JsonPlace& root) {
    if (steps.bert && !bert_words_) root.at("pre_tokenizer").expected("BertPreTokenizer");
    if (steps.words_at_white_space && !steps.space_marks) {
      root.at("pre_tokenizer").unsupported("WhitespaceSplit without Metaspace");
    }
  }

 private:
  bool strips() const { return steps.strip_left || steps.strip_right; }
  bool makes_marks() const { return steps.space_marks || steps.prepends; }

  void replace(const JsonPlace& step) {
    const Pattern pattern = read_pattern(step);
    const std::string content = step.at("content").text();
    if (pattern.literal && pattern.text == " " && content == kSpaceMark) {
      steps.space_marks = true;
    } else if (!pattern.literal && pattern.text == " {2,}" &&
               (content == " " || content == kSpaceMark) && !makes_marks()) {
      steps.join_spaces = true;
      steps.joins_to_marks = content == kSpaceMark;
    } else {
      step.unsupported(fmt::format("of '{}'", printable(pattern.text)));
    }
  }

  void bert_normaliser(const JsonPlace& step) {
    steps.bert = true;
    if (!step.at("clean_text").flag(true)) step.at("clean_text").unsupported();
    if (!step.at("handle_chinese_chars").flag(true)) step.at("handle_chinese_chars").unsupported();
    steps.lowercase = step.at("lowercase").flag(true) ? 1 : 0;
    if (const JsonPlace strip = step.at("strip_accents"); strip.present()) {
      steps.strip_accents = strip.flag(false) ? 1 : 0;
    }
  }

  void metaspace(const JsonPlace& step) {
    if (step.at("replacement").text() != kSpaceMark) step.at("replacement").unsupported();
    // Each step before it made words, which it would see one by one, with their spaces.
    const bool plain = std::ranges::all_of(steps.splits, [](const SplitRule& rule) {
      const std::string_view pattern = rule.pattern;
      return pattern == kDigit || pattern == kDigits || pattern.starts_with(kPunctuation);
    });
    steps.marks_twice = steps.space_marks;
    steps.space_marks = true;
    // Before there were schemes, add_prefix_space meant "always".
    const bool adds = step.at("add_prefix_space").flag(true);
    const std::string scheme = step.at("prepend_scheme").text(adds ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      step.at("prepend_scheme").expected("'always', 'first' or 'never'");
    }
    const bool after_words = !steps.splits.empty() && (!plain || scheme != "never");
    if (after_words || steps.prepends || steps.prefix_unless_space ||
        ((steps.words_at_white_space || steps.strip_left) && scheme == "first")) {
      step.unsupported("after these steps");
    }
    steps.prefix = scheme != "never";
    steps.prefix_at_start_only = scheme == "first";
    steps.prefix_unless_space = true;
    if (step.at("split").flag(true)) {
      steps.splits.push_back({std::string(kSpaceMark), SplitBehaviour::next});
    }
  }

  void split(const JsonPlace& step) {
    Pattern pattern = read_pattern(step);
    const std::string behaviour = step.at("behavior").text();
    // There are no spaces any more.
    if (steps.space_marks && pattern.literal && pattern.text == " ") return;
    SplitRule rule{pattern.literal ? literal_pattern(pattern.text) : std::move(pattern.text)};
    const bool inverted = step.at("invert").flag(false);
    if (behaviour == "Isolated") {
      // Cuts both sides of every match, whichever of the two counts as one.
    } else if (behaviour == "Removed" && inverted) {
      rule.behaviour = SplitBehaviour::matches;
    } else if (behaviour == "Contiguous" && !inverted) {
      rule.behaviour = SplitBehaviour::contiguous;
    } else if (behaviour == "MergedWithPrevious" && !inverted) {
      rule.behaviour = SplitBehaviour::previous;
    } else if (behaviour == "MergedWithNext" && !inverted) {
      rule.behaviour = SplitBehaviour::next;
    } else {
      step.at("behavior").unsupported(inverted ? "inverted" : "");
    }
    steps.splits.push_back(std::move(rule));
  }

  void punctuation(const JsonPlace& step) {
    const std::string behaviour = step.at("behavior").text("Isolated");
    if (behaviour == "Contiguous") {
      steps.splits.push_back({std::string(kPunctuation) + "+"});
    } else if (behaviour == "Isolated") {
      steps.splits.push_back({kPunctuation});
    } else {
      step.at("behavior").unsupported();
    }
  }

  bool bert_words_ = false;
};

void read_pieces(const JsonPlace& list, Surroundings& out) {
  bool after = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonPlace piece = list.at(i);
    if (piece.at("Sequence").present()) {
      if (after) list.unsupported("a text that appears twice");
      after = true;
      continue;
    }
    (after ? out.after : out.before).push_back(piece.at("SpecialToken").at("id").text());
  }
}

/// Tokens between the two texts of a pair.
int between_texts(const JsonPlace& pair) {
  int texts = 0;
  int between = 0;
  for (size_t i = 0; i < pair.size(); ++i) {
    const bool text = pair.at(i).at("Sequence").present();
    texts += text ? 1 : 0;
    if (!text && texts == 1) ++between;
  }
  return between;
}

}  // namespace

TextSteps read_text_steps(const JsonPlace& root) {
  StepReader reader;
  for_each_step(root.at("normalizer"), "normalizers",
                [&](const JsonPlace& step) { reader.normaliser(step); });
  for_each_step(root.at("pre_tokenizer"), "pretokenizers",
                [&](const JsonPlace& step) { reader.pre_tokeniser(step); });
  reader.finish(root);
  return std::move(reader.steps);
}

Surroundings read_surroundings(const JsonPlace& post_processor) {
  Surroundings out;
  for_each_step(post_processor, "processors", [&](const JsonPlace& step) {
    const std::string type = step.type();
    if (type == "TemplateProcessing") {
      out.found = true;
      read_pieces(step.at("single"), out);
      out.separated = between_texts(step.at("pair")) > 1;
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      out.found = true;
      out.separated = type == "RobertaProcessing";
      const JsonPlace cls = step.at("cls"), sep = step.at("sep");
      if (cls.size() > 0) out.before.push_back(cls.at(size_t{0}).text());
      if (sep.size() > 0) out.after.push_back(sep.at(size_t{0}).text());
    } else if (type != "ByteLevel") {  // which only moves offsets
      step.unsupported();
    }
  });
  return out;
}

}  // namespace infer::safetensors
