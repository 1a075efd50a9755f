// Texts on their way to ImGui.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace infer::gui::ui {

/// Told of every text that is about to be drawn and has letters beyond ASCII: the fonts may lack
/// them. Empty: nobody is.
void set_text_hook(std::function<void(std::string_view)> hook);
/// A text that is drawn without ShownText and the controls: tells the hook.
void will_draw(std::string_view text);

/// A text as ImGui draws it (text/stand_ins.h). Tells the hook. Lives no longer than the text.
class ShownText {
 public:
  explicit ShownText(std::string_view text);
  ShownText(const ShownText&) = delete;
  ShownText& operator=(const ShownText&) = delete;

  const char* begin() const { return text_.data(); }
  const char* end() const { return text_.data() + text_.size(); }
  std::string string() const { return std::string(text_); }
  float width() const;  ///< pixels, in the current font

 private:
  std::string space_;
  std::string_view text_;
};

/// One line of at most `width` pixels as ImGui draws it. What is longer ends in "…". Scripts that
/// run from right to left are in the order in which they are drawn. Tells the hook.
class ShownLine {
 public:
  ShownLine(std::string_view text, float width);

  const char* begin() const { return drawn_.data(); }
  const char* end() const { return drawn_.data() + drawn_.size(); }
  /// What is left of the text, in the order in which it is read.
  const std::string& text() const { return text_; }

 private:
  std::string text_, drawn_;
};

}  // namespace infer::gui::ui
