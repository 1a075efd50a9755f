// Markdown to blocks, whole and growing.
#include "gui/text/markdown.h"

#include <doctest.h>

#include <random>

#include "tests/gui/text_support.h"
#include "tests/support.h"

using namespace infer::gui;
using infer::test::repeated;

namespace {

Document parsed(std::string_view text, MarkdownOptions options = {}) {
  MarkdownStream stream(options);
  stream.set(text);
  return stream.document();
}

/// The parts of a block with a style bit.
std::vector<std::string> styled(const Block& block, uint8_t style) {
  std::vector<std::string> parts;
  for (const Span& span : block.spans) {
    if ((span.style & style) != 0)
      parts.push_back(block.text.substr(span.begin, span.end - span.begin));
  }
  return parts;
}

using Parts = std::vector<std::string>;

/// What is wrong with a document, empty if nothing is: what the layout relies on.
std::string flaw_of(const Document& document) {
  if (document.blocks.size() != document.ids.size()) return "blocks without numbers";
  for (const Block& block : document.blocks) {
    if (block.containers.size() > kMaxContainers) return "too many containers";
    if (block.columns.size() > kMaxColumns) return "too many columns";
    if (block.kind == BlockKind::table && block.cells.size() % block.columns.size() != 0) {
      return "a row with missing cells";
    }
    for (const Cell& cell : block.cells) {
      if (cell.begin > cell.end || cell.end > block.text.size()) return "a cell outside the text";
    }
    uint32_t at = 0;
    for (const Span& span : block.spans) {
      if (span.begin != at || span.end <= span.begin) return "spans do not follow each other";
      if (span.link >= static_cast<int32_t>(block.links.size())) return "a link that is not there";
      at = span.end;
    }
    if (block.kind != BlockKind::code && at != block.text.size()) return "text without a span";
  }
  return {};
}

/// A block as text, for messages of failed tests.
std::string shown(const Block& block) {
  std::string text =
      std::to_string(static_cast<int>(block.kind)) + (block.close_to_last ? "^" : "");
  for (const Container& c : block.containers) {
    text += c.kind == Container::Kind::quote ? ">" : c.kind == Container::Kind::bullet ? "-" : "1";
    text += std::to_string(c.number) + c.delimiter + std::to_string(c.digits);
    if (c.begins_here) text += "!";
  }
  return text + ":" + block.text;
}

double seconds_to_parse(std::string_view text) {
  const double start = infer::test::thread_seconds();
  REQUIRE_EQ(flaw_of(parsed(text)), "");
  return infer::test::thread_seconds() - start;
}

}  // namespace

TEST_CASE("inline styles") {
  const Document d = parsed("a **b** *c* ***d*** ~~e~~ `f` [g](http://h) ![i](j) <b>k</b>");
  REQUIRE_EQ(d.blocks.size(), 1);
  const Block& block = d.blocks[0];
  CHECK_EQ(block.text, "a b c d e f g i <b>k</b>");
  CHECK_EQ(styled(block, kStrong), Parts{"b", "d"});
  CHECK_EQ(styled(block, kEmphasis), Parts{"c", "d"});
  CHECK_EQ(styled(block, kStrike), Parts{"e"});
  CHECK_EQ(styled(block, kCode), Parts{"f"});
  CHECK_EQ(styled(block, kImage), Parts{"i"});
  CHECK_EQ(styled(block, kLink), Parts{"g"});
  CHECK_EQ(block.links, Parts{"http://h"});
  CHECK_EQ(styled(parsed("see https://x.org/a_b now").blocks[0], kLink),
           Parts{"https://x.org/a_b"});
  CHECK_EQ(parsed("![](x)").blocks[0].text, "image");
  CHECK_EQ(parsed("a ~b~ c").blocks[0].text, "a ~b~ c");
}

TEST_CASE("blocks") {
  const Document d = parsed(
      "# One\n\ntext\nmore\n\n> quote\n>\n> - item\n\n1. first\n2. second\n\n---\n\n"
      "- [ ] open\n- [x] done\n\n```c++ title=x\nint a;\n\n  b\n```\n\n    indented\n");
  REQUIRE_EQ(d.blocks.size(), 11);
  CHECK(d.blocks[0].kind == BlockKind::heading);
  CHECK_EQ(d.blocks[0].level, 1);
  CHECK_EQ(d.blocks[1].text, "text more");
  REQUIRE_EQ(d.blocks[2].containers.size(), 1);
  CHECK(d.blocks[2].containers[0].begins_here);
  REQUIRE_EQ(d.blocks[3].containers.size(), 2);
  CHECK_FALSE(d.blocks[3].containers[0].begins_here);
  CHECK(d.blocks[3].containers[1].begins_here);
  CHECK_EQ(d.blocks[5].containers[0].number, 2);
  CHECK(d.blocks[5].close_to_last);
  CHECK(d.blocks[6].kind == BlockKind::rule);
  CHECK(d.blocks[7].containers[0].task == Task::open);
  CHECK(d.blocks[8].containers[0].task == Task::done);
  CHECK_EQ(d.blocks[9].language, "c++");
  CHECK_EQ(d.blocks[9].text, "int a;\n\n  b");
  CHECK_EQ(d.blocks[10].text, "indented");
  CHECK_EQ(parsed("a\nb", {.hard_breaks = true}).blocks[0].text, "a\nb");
}

TEST_CASE("tables") {
  const Document d = parsed("| a | **b** | c |\n|:--|:-:|--:|\n| 1 | `x\\|y` |\n| | 2 | 3 | 4 |\n");
  REQUIRE_EQ(d.blocks.size(), 1);
  const Block& table = d.blocks[0];
  REQUIRE(table.kind == BlockKind::table);
  CHECK_EQ(table.columns, std::vector<Align>{Align::left, Align::centre, Align::right});
  REQUIRE_EQ(table.cells.size(), 9);
  CHECK_EQ(table.text, "a\tb\tc\n1\tx|y\t\n\t2\t3\n");
  CHECK_EQ(styled(table, kStrong), Parts{"b"});
}

TEST_CASE("LaTeX is shown as its source") {
  const auto math = [](std::string_view text) { return styled(parsed(text).blocks[0], kMath); };
  CHECK_EQ(math("so $x_1 * y_2 * z$ is"), Parts{"$x_1 * y_2 * z$"});
  CHECK_EQ(math("\\(a_b\\) and \\[c\\\\d\\]"), Parts{"\\(a_b\\)", "\\[c\\\\d\\]"});
  CHECK_EQ(math("$$\n\\begin{a}\n- x\n= y\n1. z\n\\end{a}\n$$"),
           Parts{"$$\n\\begin{a}\n- x\n= y\n1. z\n\\end{a}\n$$"});
  CHECK_EQ(math("it costs $5 and then $6 more"), Parts{});
  CHECK_EQ(math("`$a$` and `$b$`"), Parts{});
  CHECK_EQ(math("| $a|b$ | c |\n|--|--|\n"), Parts{"$a|b$"});
  CHECK_EQ(math("\\$x$ and y"), Parts{});
  CHECK_EQ(parsed("```sh\necho $a * $b\n```").blocks[0].text, "echo $a * $b");
  CHECK_EQ(parsed("- ```sh\n  echo $a_b $c_d\n  ```").blocks[0].text, "echo $a_b $c_d");
}

TEST_CASE("references cannot bring in what was taken out") {
  CHECK_EQ(parsed("a&#x202E;b&#27;c").blocks[0].text.find("\xE2\x80\xAE"), std::string::npos);
  CHECK_EQ(parsed("[a](http://x&#x202E;y)").blocks[0].links[0].find("\xE2\x80\xAE"),
           std::string::npos);
  CHECK_EQ(parsed("&lt;b&gt; &amp; &auml;").blocks[0].text, "<b> & ä");
}

TEST_CASE("plain text") {
  const Document d =
      parsed("# T\n\n1. **a**\n   - b\n2. c\n\n> q\n\n```\nx\ny\n```\n\n|k|v|\n|-|-|\n|1|2|\n");
  CHECK_EQ(plain_text(d), "T\n\n1. a\n   - b\n2. c\n\n> q\n\nx\ny\n\nk\tv\n1\t2\n");
  CHECK_EQ(plain_text(d, {0, 0}, {0, 1}), "T");
  CHECK_EQ(plain_text(d, {1, 0}, {1, 1}), "a");
  CHECK_EQ(plain_text(d, {3, 1}, {1, 0}), "1. a\n   - b\n2. c");
  CHECK_EQ(plain_text(d, {5, 1}, {5, 3}), "\ny");
}

TEST_CASE("text that grows gives the document of the whole text") {
  const std::string parts[] = {
      "# head\n", "word ",   "**bold** ", "\n",         "\n\n",        "- item\n",    "  - sub\n",
      "1. one\n", "```py\n", "```\n",     "code = 1\n", "| a | b |\n", "|---|---|\n", "> quote\n",
      "`tick` ",  "---\n",   "===\n",     "#",          "    four\n",  "[l](u) ",     "<div>\n",
      "~~~\n",    "  ",      "*",         "[r]\n",      "é中 "};
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    const size_t count = 1 + random() % 60;
    for (size_t i = 0; i < count; ++i) text += parts[random() % std::size(parts)];
    MarkdownStream stream;
    for (size_t at = 0; at < text.size();) {
      const size_t piece = 1 + random() % 7;
      stream.append(std::string_view(text).substr(at, piece));
      at += piece;
      REQUIRE_EQ(flaw_of(stream.document()), "");
      // All but the last block, which may hold something back, is what the text so far gives.
      if (at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
      const Document so_far = parsed(std::string_view(text).substr(0, at));
      CAPTURE(text.substr(0, at));
      REQUIRE_EQ(stream.document().blocks.size(), so_far.blocks.size());
      for (size_t i = 0; i + 1 < so_far.blocks.size(); ++i) {
        CAPTURE(i);
        if (stream.document().blocks[i] == so_far.blocks[i]) continue;
        FAIL(shown(stream.document().blocks[i]), " instead of ", shown(so_far.blocks[i]));
      }
    }
    stream.finish();
    const Document whole = parsed(text);
    CAPTURE(text);
    REQUIRE_EQ(stream.document().blocks.size(), whole.blocks.size());
    for (size_t i = 0; i < whole.blocks.size(); ++i) {
      CAPTURE(i);
      if (stream.document().blocks[i] == whole.blocks[i]) continue;
      FAIL(shown(stream.document().blocks[i]), " instead of ", shown(whole.blocks[i]));
    }
  }
}

TEST_CASE("a block keeps its number while nothing of it changes") {
  MarkdownStream stream;
  stream.append("first\n\n```c\nint a;\nint");
  const std::vector<uint64_t> before = stream.document().ids;
  REQUIRE_EQ(before.size(), 2);
  stream.append(" b;\nint c;");
  CHECK_EQ(stream.document().ids, before);
  CHECK_EQ(stream.document().blocks[1].text, "int a;\nint b;\nint c;");
  stream.append("\n```\n\nlast");
  REQUIRE_EQ(stream.document().ids.size(), 3);
  CHECK_EQ(stream.document().ids[1], before[1]);
  CHECK_EQ(stream.document().blocks[1].text, "int a;\nint b;\nint c;");
}

TEST_CASE("a closing fence never shows as code") {
  MarkdownStream stream;
  std::string text = "```c\nint a;\n```\n";
  for (const char c : text) {
    stream.append(std::string_view(&c, 1));
    for (const Block& block : stream.document().blocks) {
      if (block.text.find('\n') != std::string::npos) FAIL(block.text);
    }
  }
}

TEST_CASE("links to a later definition are found at the end") {
  MarkdownStream stream;
  for (const char* part : {"see [x]\n\n", "next\n\n", "[x]: http://y\n"}) {
    stream.append(part);
    stream.document();
  }
  stream.finish();
  CHECK_EQ(styled(stream.document().blocks[0], kLink), Parts{"x"});
}

TEST_CASE("the numbers of a long list go on") {
  MarkdownStream stream;
  for (int i = 1; i <= 1500; ++i) {
    stream.append("1. item number " + std::to_string(i) + "\n");
    if (i % 20 == 0) CHECK_EQ(stream.document().blocks.back().containers[0].number, i);
  }
  CHECK(stream.parsed_bytes() < 20 * stream.source().size());
}

TEST_CASE("parsing a growing text is not done again and again") {
  const std::string paragraph =
      "Some **text** with `code` and more of it, as a model writes it.\n\n";
  const std::string code =
      "```cpp\n" + repeated("int value = compute(1, 2);  // why\n", 40) + "```\n\n";
  const std::string list = repeated("- an item with some words\n", 40) + "\n";
  const std::string table = "| a | b |\n|---|---|\n" + repeated("| one | two |\n", 30) + "\n";
  const struct {
    const char* name;
    std::string text;
    double most;  ///< bytes parsed for a byte of text
  } cases[] = {
      {"prose", repeated(paragraph, 4000), 40},
      {"a mix", repeated(paragraph + code + list + table, 60), 200},
      {"one block of code", "```c\n" + repeated("int value = compute(1, 2);\n", 10'000), 4},
      {"one list", repeated("- an item with some words\n", 10'000), 700},
      {"one table", "| a | b |\n|---|---|\n" + repeated("| one | two |\n", 20'000), 1000},
  };
  for (const auto& [name, text, most] : cases) {
    MarkdownStream stream;
    // A frame of 1/60 s at 200 tokens/s of four bytes brings 13 bytes.
    constexpr size_t kFrame = 13;
    for (size_t at = 0; at < text.size(); at += kFrame) {
      stream.append(std::string_view(text).substr(at, kFrame));
      stream.document();
    }
    const double each =
        static_cast<double>(stream.parsed_bytes()) / static_cast<double>(text.size());
    MESSAGE(std::string(name), ": ", each, " bytes parsed for each byte");
    CAPTURE(name);
    CHECK(each < most);
  }
}

TEST_CASE("no text takes much longer to parse than prose") {
  constexpr size_t kBytes = 1 << 16;
  const std::string prose = repeated(
      "Those 27 cats, **I'd** say,\nslept on `the` mat.\n\nAnd [so](http://on).\n", kBytes / 70);
  for (const auto& [name, text] : infer::test::hostile_texts(kBytes)) {
    double ratio = 0;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const double usual = seconds_to_parse(prose);
      ratio = seconds_to_parse(text) / usual;
      if (ratio < 50) break;
    }
    CAPTURE(name);
    CHECK(ratio < 50);
    if (ratio > 8) MESSAGE(name, ": ", ratio, " times as long as prose");
  }
}
