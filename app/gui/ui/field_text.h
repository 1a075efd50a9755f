// The text of a field of ImGui, which has to have stand-ins (text/stand_ins.h) in place of what
// ImGui would lose.
#pragma once

#include <string>
#include <string_view>

struct ImGuiInputTextCallbackData;

namespace infer::gui::ui {

/// Adds a character that was typed to the input of the next frame.
void add_typed(unsigned code);

/// Use: FieldText field(text); ImGui::InputText(…, field.edited(), flags | field.flags(),
/// FieldText::filter); field.give_back();
class FieldText {
 public:
  explicit FieldText(std::string& text);
  FieldText(const FieldText&) = delete;
  FieldText& operator=(const FieldText&) = delete;

  /// What ImGui edits. It is only shown if ImGui would lose some of it.
  std::string* edited() { return same_ ? &text_ : &edited_; }
  int flags() const;
  /// Joins what add_typed() has added.
  static int filter(ImGuiInputTextCallbackData* data);
  /// After the field was drawn: `text` is what was edited.
  void give_back();

 private:
  std::string& text_;
  std::string edited_;
  bool same_ = true;
  bool keeps_ = true;  ///< ImGui gives back all of it
};

}  // namespace infer::gui::ui
