#include <doctest/doctest.h>

#include <string>

#include "gui/text/text_edit.h"

namespace infer::gui {
namespace {

using Step = TextEdit::Step;

TEST_CASE("text edit: a step passes what a reader counts as one character") {
  TextEdit edit;
  const std::string family = "👨\u200d👩\u200d👧";
  edit.reset("e\u0301" + family + "字");
  CHECK(edit.caret() == edit.text().size());
  edit.move(Step::left, false);
  CHECK(edit.text().substr(edit.caret()) == "字");
  edit.move(Step::left, false);
  CHECK(edit.text().substr(edit.caret()) == family + "字");
  edit.erase(Step::left);
  CHECK(edit.text() == family + "字");
  edit.erase(Step::right);
  CHECK(edit.text() == "字");
  edit.erase(Step::left);
  CHECK(edit.text() == "字");
}

TEST_CASE("text edit: words and paragraphs") {
  TextEdit edit;
  edit.reset("one two\n  three");
  edit.move(Step::word_left, false);
  CHECK(edit.caret() == 10);
  edit.move(Step::word_left, false);
  CHECK(edit.caret() == 4);
  edit.move(Step::word_right, false);
  CHECK(edit.caret() == 7);
  edit.move(Step::word_right, true);
  CHECK(edit.selected_text() == "\n  three");
  edit.select_word(5);
  CHECK(edit.selected_text() == "two");
  edit.select_paragraph(5);
  CHECK(edit.selected_text() == "one two");
  edit.select_paragraph(12);
  CHECK(edit.selected_text() == "  three");
  edit.erase(Step::word_left);  // what is selected
  CHECK(edit.text() == "one two\n");
  edit.erase(Step::word_left);
  CHECK(edit.text() == "one ");
}

TEST_CASE("text edit: what is pasted is made fit, and nothing of it is lost") {
  TextEdit edit;
  edit.reset("");
  edit.insert(
      "a\r\nb\rc\td\x01\x7F"
      "😀 𠮷");
  CHECK(edit.text() == "a\nb\nc\td😀 𠮷");
  edit.reset("");
  edit.insert("x\xFF\xC3(\xED\xA0\x80y\xF0\x9F");
  CHECK(edit.text().find("x\uFFFD\uFFFD(") == 0);
  CHECK(edit.text().find('y') != std::string::npos);
  CHECK(edit.text().ends_with("\uFFFD"));
}

TEST_CASE("text edit: typing is undone together, all else step by step") {
  TextEdit edit;
  edit.reset("start");
  for (const char* typed : {" ", "o", "n", "é"}) edit.type(typed);
  CHECK(edit.text() == "start oné");
  edit.insert("\n");
  edit.insert("more text");
  edit.undo();
  CHECK(edit.text() == "start oné\n");
  edit.undo();
  CHECK(edit.text() == "start oné");
  edit.undo();
  CHECK(edit.text() == "start");
  edit.undo();  // nothing is left
  CHECK(edit.text() == "start");
  edit.redo();
  CHECK(edit.text() == "start oné");
  edit.select_all();
  edit.insert("new");
  edit.redo();  // there is no way back to what was undone
  CHECK(edit.text() == "new");
  edit.undo();
  CHECK(edit.text() == "start oné");
  CHECK(edit.selected_text() == "start oné");
}

TEST_CASE("text edit: what can be undone stays bounded") {
  TextEdit edit;
  edit.reset(std::string(1 << 20, 'x'));
  for (int i = 0; i < 100; ++i) edit.insert("word after word");
  for (int i = 0; i < 100; ++i) edit.undo();
  CHECK(edit.text().size() > (1 << 20));  // not all of it
  CHECK(edit.text().size() < (1 << 20) + 100 * 15);
}

TEST_CASE("text edit: places beyond the end are the end") {
  TextEdit edit;
  edit.reset("short");
  edit.move_to(99, false);
  CHECK(edit.caret() == 5);
  edit.select({2, 99});
  CHECK(edit.selected_text() == "ort");
  edit.select_word(99);
  CHECK(edit.selected_text() == "short");
  edit.reset("");
  edit.select_word(0);
  edit.select_paragraph(0);
  edit.move(Step::right, true);
  edit.move(Step::word_left, true);
  CHECK_FALSE(edit.has_selection());
}

}  // namespace
}  // namespace infer::gui
