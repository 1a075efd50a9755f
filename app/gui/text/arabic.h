// The forms of Arabic letters. A letter looks different at the begin, in the middle and at the end
// of a word; Unicode has a character for each form (Arabic Presentation Forms A and B), so that
// letters join without a shaping engine. Lam and alef are not drawn as one.
#pragma once

#include <cstddef>
#include <string_view>

namespace infer::gui {

/// The form of the letter at `at` between its neighbours. Other characters stay as they are.
char32_t joined_form(std::string_view text, size_t at);

/// The letter that a form belongs to, for fonts without forms. Other characters stay as they are.
char32_t letter_of_form(char32_t form);

}  // namespace infer::gui
