// Where text stands: lines, columns, directions.
#include "gui/text/layout.h"

#include <doctest.h>

#include <algorithm>

#include "gui/text/arabic.h"
#include "gui/text/bidi.h"
#include "gui/text/markdown.h"
#include "gui/text/sanitise.h"
#include "gui/text/visual_line.h"
#include "tests/gui/text_support.h"
#include "tests/support.h"

using namespace infer::gui;
using infer::test::FakeMeasure;
using infer::test::repeated;

namespace {

constexpr LayoutStyle kStyle;

Document document_of(std::string_view text) {
  MarkdownStream stream;
  stream.set(text);
  return stream.document();
}

BlockLayout laid_out(const Block& block, float width, const Highlighter* highlighter = nullptr) {
  BlockLayout layout;
  lay_out(block, width, FakeMeasure(), kStyle, highlighter, layout);
  return layout;
}

BlockLayout first(std::string_view text, float width) {
  return laid_out(document_of(text).blocks.at(0), width);
}

/// The text of each line.
std::vector<std::string> lines_of(const Block& block, const BlockLayout& layout) {
  std::vector<std::string> lines;
  for (const Line& line : layout.lines) {
    lines.push_back(block.text.substr(line.begin, line.end - line.begin));
  }
  return lines;
}

std::vector<std::string> wrapped(std::string_view text, float width) {
  const Document d = document_of(text);
  return lines_of(d.blocks.at(0), laid_out(d.blocks[0], width));
}

using Lines = std::vector<std::string>;

/// What is wrong with a layout: something beside the room, lines over each other, a byte that is in
/// no line. Empty for a sound one, whatever the text. One string for many conditions, because there
/// are millions of them.
std::string flaw_of(const Block& block, const BlockLayout& layout) {
  const bool is_table = block.kind == BlockKind::table;
  uint32_t at = 0;
  float bottom = 0;
  for (const Line& line : layout.lines) {
    if (!is_table && line.begin != at) return "a byte is in no line or in two";
    if (!is_table && line.y < bottom) return "a line is over another";
    if (line.begin > line.end || line.end > block.text.size()) return "a line is outside the text";
    if (line.first_run + line.runs > layout.runs.size()) return "a run is missing";
    if (line.y + line.height > layout.height + 1) return "a line is below the block";
    bottom = line.y + line.height;
    at = line.end;
    for (size_t i = line.first_run; i < line.first_run + line.runs; ++i) {
      const Run& run = layout.runs[i];
      if (run.begin < line.begin || run.end > line.end) return "a run is outside its line";
      if (run.x < layout.indent - 0.5f) return "a run is left of the room";
      // One cluster may be wider than a narrow room; a run of several may not.
      const bool fits = run.x + run.width <= layout.width + 0.5f;
      if (!fits && run.end - run.begin > kMaxClusterBytes) return "a run is right of the room";
    }
  }
  const bool has_all = is_table || block.kind == BlockKind::rule || at == block.text.size();
  return has_all ? "" : "the end is in no line";
}

void check_same(const BlockLayout& a, const BlockLayout& b) {
  REQUIRE_EQ(a.lines.size(), b.lines.size());
  REQUIRE_EQ(a.runs.size(), b.runs.size());
  CHECK_EQ(a.height, b.height);
  for (size_t i = 0; i < a.lines.size(); ++i) {
    CAPTURE(i);
    REQUIRE_EQ(a.lines[i].begin, b.lines[i].begin);
    REQUIRE_EQ(a.lines[i].end, b.lines[i].end);
    REQUIRE_EQ(a.lines[i].y, b.lines[i].y);
  }
  for (size_t i = 0; i < a.runs.size(); ++i) {
    REQUIRE_EQ(a.runs[i].begin, b.runs[i].begin);
    REQUIRE_EQ(a.runs[i].end, b.runs[i].end);
    REQUIRE_EQ(a.runs[i].x, b.runs[i].x);
    REQUIRE(a.runs[i].token == b.runs[i].token);
  }
}

}  // namespace

TEST_CASE("prose wraps at blanks") {
  CHECK_EQ(wrapped("one two three", 80), Lines{"one two ", "three"});
  CHECK_EQ(wrapped("one two three", 69), Lines{"one ", "two ", "three"});
  CHECK_EQ(wrapped("abcdefghij", 40), Lines{"abcd", "efgh", "ij"});
  CHECK_EQ(wrapped("ab abcdefgh", 40), Lines{"ab ", "abcd", "efgh"});
  CHECK_EQ(wrapped("well-known", 60), Lines{"well-", "known"});
  CHECK_EQ(wrapped("a\\\nb", 100), Lines{"a\n", "b"});
}

TEST_CASE("CJK wraps between characters, but not before a full stop") {
  CHECK_EQ(wrapped("中文字符", 45), Lines{"中文", "字符"});
  CHECK_EQ(wrapped("中文字。符", 65), Lines{"中文", "字。符"});
}

TEST_CASE("an emoji of several characters is one") {
  const Document d = document_of("👩‍👩‍👧👍🏽a");
  const BlockLayout layout = laid_out(d.blocks[0], 1000);
  REQUIRE_EQ(layout.runs.size(), 1);
  CHECK_EQ(layout.runs[0].width, 50);
}

TEST_CASE("code keeps its lines and wraps long ones") {
  const Document d = document_of("```\nab\n\nabcdefghij\n```");
  // 8 pixels a character; the padding takes 2 × 9 of the width.
  const BlockLayout layout = laid_out(d.blocks[0], 18 + 32);
  CHECK_EQ(lines_of(d.blocks[0], layout), Lines{"ab\n", "\n", "abcd", "efgh", "ij"});
}

TEST_CASE("tabs go to the next stop") {
  const Document d = document_of("```\na\tb\n```");
  const BlockLayout layout = laid_out(d.blocks[0], 1000);
  REQUIRE_EQ(layout.lines.size(), 1);
  const Run& last = layout.runs.back();
  CHECK_EQ(last.x + last.width - layout.lines[0].x, doctest::Approx(5 * 8).epsilon(0.01));
}

TEST_CASE("code that grows is laid out once") {
  const std::string text =
      repeated("int value = 1; /* a\nb */ \"x\" long_name_of_something(1)\n", 60) +
      repeated("x", 9000) + " end";
  const Highlighter highlighter("cpp");
  const FakeMeasure measure;
  Block block;
  block.kind = BlockKind::code;
  block.language = "cpp";
  BlockLayout grown;
  for (size_t at = 0; at < text.size(); at += 7) {
    block.text = text.substr(0, at);
    lay_out(block, 300, measure, kStyle, &highlighter, grown);
  }
  block.text = text;
  lay_out(block, 300, measure, kStyle, &highlighter, grown);
  REQUIRE_EQ(flaw_of(block, grown), "");
  check_same(grown, laid_out(block, 300, &highlighter));
  // Nearly all of it is behind: a further byte costs a line.
  CHECK(text.size() - grown.resume.text < 100);
}

TEST_CASE("columns of a table") {
  const char* text = "| name | n |\n|:--|--:|\n| a long cell with words | 5 |\n";
  const Document d = document_of(text);
  const BlockLayout wide = laid_out(d.blocks[0], 2000);
  REQUIRE_EQ(wide.column_edges.size(), 3);
  REQUIRE_EQ(wide.bands.size(), 2);
  CHECK_EQ(wide.lines.size(), 4);
  CHECK(wide.width < 2000);
  // The number stands at the right edge of its column.
  const Run& number = wide.runs.back();
  CHECK(number.x + number.width == doctest::Approx(wide.column_edges[2] - 8).epsilon(0.01));
  const BlockLayout narrow = laid_out(d.blocks[0], 160);
  CHECK(narrow.lines.size() > 4);
  CHECK(narrow.width <= 160);
  REQUIRE_EQ(flaw_of(d.blocks[0], narrow), "");
  const BlockLayout tiny = laid_out(d.blocks[0], 60);
  CHECK(tiny.width > 60);  // shown with a scroll bar
}

TEST_CASE("lists and quotes are indented, deep ones within bounds") {
  CHECK(first("- a", 300).indent > 10);
  CHECK(first("> a", 300).indent > 10);
  CHECK(first("1000000. a", 300).indent > first("1. a", 300).indent);
  const Document d = document_of(repeated("> ", 10'000) + "deep");
  const BlockLayout deep = laid_out(d.blocks.at(0), 300);
  CHECK(deep.indent <= 150);
  CHECK(deep.room >= 150);
}

TEST_CASE("every point finds its character") {
  const Document d = document_of(
      "a paragraph that is wrapped *somewhere* `in` the middle\n\n```\nint a;\n\tb\n```\n\n"
      "| a | b |\n|--|--|\n| cell one | two |\n\nשלום abc 12 עולם\n");
  const FakeMeasure measure;
  for (const Block& block : d.blocks) {
    const BlockLayout layout = laid_out(block, 200);
    REQUIRE_EQ(flaw_of(block, layout), "");
    for (const Line& line : layout.lines) {
      for (size_t r = line.first_run; r < line.first_run + line.runs; ++r) {
        const Run& run = layout.runs[r];
        for (size_t at = run.begin; at < run.end;) {
          const size_t next = cluster_end(block.text, at, run.end);
          const float x0 = x_in_run(block, line, run, at, measure);
          const float x1 = x_in_run(block, line, run, next, measure);
          CAPTURE(block.text);
          CAPTURE(at);
          // A quarter into the character, from where it begins to be read.
          CHECK_EQ(offset_at(block, layout, x0 + (x1 - x0) / 4, line.y + 1, measure), at);
          at = next;
        }
      }
    }
    offset_at(block, layout, -1e9f, -1e9f, measure);
    offset_at(block, layout, 1e9f, 1e9f, measure);
  }
}

TEST_CASE("lines with right-to-left letters are in reading order") {
  // "abc אבג 12 דה xyz": the Hebrew words, the number between them included, are turned round.
  const std::string text = "abc \u05D0\u05D1\u05D2 12 \u05D3\u05D4 xyz";
  std::vector<std::string> parts;
  for (const DirectionRun& run : visual_runs(text, 0, text.size(), false)) {
    parts.push_back(text.substr(run.begin, run.end - run.begin) + (run.right_to_left ? "<" : ">"));
  }
  CHECK_EQ(parts, Lines{"abc >", " \u05D3\u05D4<", "12>", "\u05D0\u05D1\u05D2 <", " xyz>"});
  CHECK(runs_right_to_left("1. \u05D0 a"));
  CHECK_FALSE(runs_right_to_left("1. a \u05D0"));
  CHECK_FALSE(may_be_right_to_left("Grüße 中文 👍 €"));
  CHECK(may_be_right_to_left("a\u0627"));

  // A paragraph that begins with a right-to-left letter stands at the right edge.
  const BlockLayout layout = first("\u05D0\u05D1", 200);
  REQUIRE_EQ(layout.runs.size(), 1);
  CHECK(layout.runs[0].right_to_left);
  CHECK_EQ(layout.runs[0].x + layout.runs[0].width, 200);
  CHECK_EQ(mirrored('('), ')');
}

TEST_CASE("Arabic letters join") {
  const auto forms = [](std::string_view text) {
    std::u32string all;
    for (size_t at = 0; at < text.size(); at += char_at(text, at).length) {
      all += joined_form(text, at);
    }
    return all;
  };
  // Beh in all places; a mark between letters does not part them; dal does not join what follows.
  CHECK(forms("\u0628") == U"\uFE8F");
  CHECK(forms("\u0628\u0628\u0628") == U"\uFE91\uFE92\uFE90");
  CHECK(forms("\u0628\u064E\u0628") == U"\uFE91\u064E\uFE90");
  CHECK(forms("\u0628\u062F\u0628 \u0628") == U"\uFE91\uFEAA\uFE8F \uFE8F");
  CHECK(forms("\u0628\u0640a\u05D0") == U"\uFE91\u0640a\u05D0");
  CHECK(letter_of_form(U'\uFE92') == U'\u0628');
  CHECK(letter_of_form(U'a') == U'a');
}

TEST_CASE("a line for ImGui has its parts from left to right, and letters that join") {
  CHECK_EQ(visual_line("plain (text) 中"), "plain (text) 中");
  CHECK_EQ(visual_line("abc \u05D0\u05D1(\u05D2) 12"), "abc 12 (\u05D2)\u05D1\u05D0");
  // Seen, lam, alef, meem; a mark stays behind its letter.
  CHECK_EQ(visual_line("\u0633\u0644\u0627\u0645"), "\uFEE1\uFE8E\uFEE0\uFEB3");
  CHECK_EQ(visual_line("\u0628\u064E\u0628 a"), "a \uFE90\uFE91\u064E");
}

TEST_CASE("a bidirectional line loses no character") {
  const std::string pieces[] = {"a", "1", " ", "\u05D0", "\u0627",
                                ".", "(", "-", "\u0661", "e\u0301"};
  unsigned seed = 1;
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      seed = seed * 1664525 + 1013904223;
      text += pieces[(seed >> 16) % std::size(pieces)];
    }
    for (const bool right_to_left : {false, true}) {
      std::vector<DirectionRun> runs = visual_runs(text, 0, text.size(), right_to_left);
      std::ranges::sort(runs, {}, &DirectionRun::begin);
      uint32_t at = 0;
      for (const DirectionRun& run : runs) {
        REQUIRE_EQ(run.begin, at);
        at = run.end;
      }
      REQUIRE_EQ(at, text.size());
    }
  }
}

TEST_CASE("no text breaks the layout or takes much longer than prose") {
  constexpr size_t kBytes = 1 << 16;
  const auto work = [](std::string_view text) {
    const Document d = document_of(text);
    const double start = infer::test::thread_seconds();
    for (const Block& block : d.blocks) {
      const Highlighter highlighter(block.language);
      for (const float width : {400.0f, 3.0f})
        REQUIRE_EQ(flaw_of(block, laid_out(block, width, &highlighter)), "");
    }
    return infer::test::thread_seconds() - start;
  };
  const std::string prose =
      repeated("Those 27 cats, **I'd** say,\nslept on `the` mat.\n\n", kBytes / 50);
  for (const auto& [name, text] : infer::test::hostile_texts(kBytes)) {
    CAPTURE(name);
    double ratio = 0;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const double usual = work(prose);
      ratio = work(text) / usual;
      if (ratio < 50) break;
    }
    CHECK(ratio < 50);
    if (ratio > 8) MESSAGE(name, ": ", ratio, " times as long as prose");
  }
}
