// Takes generated text apart into reasoning, content and calls of tools while it comes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/output_format.h"

namespace infer {

/// The events do not depend on how the text is divided into pieces, except for the places where
/// their texts are divided. White space around a section is kept only between texts of the same
/// kind. A text without sections is passed on unchanged. Not thread-safe.
///
/// The answer is the content and the calls; reasoning may be before it, and not in the middle.
class OutputReader {
 public:
  /// `prompt`: if it ends within reasoning, the output continues this reasoning. `tools`: those of
  /// OutputOptions::declared_tools.
  OutputReader(std::string_view template_source, std::string_view prompt,
               const OutputOptions& options = {}, DeclaredTools tools = {});

  void push(std::string_view text, std::vector<OutputEvent>& events);
  /// Called at the end of the text.
  void finish(std::vector<OutputEvent>& events);
  std::string_view format() const { return format_.name; }

 private:
  enum class Mode { opening, probe, choice, content, reasoning, tools, header, message_call };

  bool step(bool last);
  bool step_probe(bool last);
  bool step_choice(bool last);
  bool step_opening(bool last);
  bool step_content(bool last);
  bool step_reasoning(bool last);
  bool step_tools(bool last);
  bool step_header(bool last);
  bool step_message_call(bool last);
  void begin(Mode mode);
  void begin_header();
  void begin_section(std::string_view mark);
  /// Whether a mark belongs to the next message's header.
  bool begins_header(std::string_view mark) const;
  void emit(OutputEvent::Kind kind, std::string_view text);
  void give_back(std::string_view text);
  bool emit_calls(const calls::Calls& calls);
  /// How much of the end of pending_ may be the beginning of a mark.
  size_t partial(const std::vector<std::string_view>& marks) const;
  /// The first of the marks in pending_ from `from` on, and where; null if there is none.
  const std::string_view* first(const std::vector<std::string_view>& marks, size_t& at,
                                size_t from = 0) const;
  /// Where the first mark is in the JSON at the front of pending_, outside of its strings; npos if
  /// none is there yet. Goes on where the last call of it ended.
  size_t first_outside_strings(std::span<const std::string_view> marks,
                               const std::string_view*& found);
  /// Has marks count in strings as well, from the beginning of pending_ on: a string of what was
  /// taken for JSON does not end.
  void give_up_strings();
  void take(std::string_view text);
  /// Passes on what stands before the first mark and takes the mark; false: none is there yet.
  bool take_mark(const std::vector<std::string_view>& marks, OutputEvent::Kind kind, bool last,
                 std::string_view& mark);

  const OutputFormat& format_;
  const ReasoningMarks* reasoning_;
  DeclaredTools tools_;
  bool takes_calls_;
  Mode mode_ = Mode::content;
  Mode answer_ = Mode::content;  // what an answer begins in
  std::string pending_;          // not yet decided
  std::string space_;            // white space that belongs to a section if one follows
  bool skip_space_ = false;      // at the beginning of a section
  bool text_begun_ = false;      // of the present mode
  bool after_calls_ = false;     // and before further text
  const ToolSection* section_ = nullptr;
  Mode before_section_ = Mode::content;
  std::string opening_;     // of the section of calls or the message, as it came
  std::string recipient_;   // of a message that is a call
  size_t searched_ = 0;     // of pending_, without what is looked for
  bool in_string_ = false;  // of JSON, at searched_
  bool marks_in_strings_ = false;
  std::string again_;  // text to be taken once more
  std::vector<std::string_view> content_marks_;
  std::vector<std::string_view> reasoning_marks_;
  std::vector<OutputEvent>* events_ = nullptr;
};

}  // namespace infer
