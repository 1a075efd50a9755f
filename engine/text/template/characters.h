// Characters as Python sees them: white space, case, classes, positions by code point in UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace infer::jinja {

/// str.isspace() of one character; also what \s matches.
bool is_space(char32_t code);
/// What ends a line for str.splitlines().
bool is_line_end(char32_t code);
/// str.isprintable() of one character.
bool is_printable(char32_t code);

/// The first position from `pos` on without white space.
size_t skip_spaces(std::string_view text, size_t pos);
std::string_view strip_right(std::string_view text);
/// Where the last character of a text begins that is not empty.
size_t last_character(std::string_view text);

/// Where the `index`-th code point begins; the size if there are fewer.
size_t byte_offset(std::string_view text, int64_t index);
int64_t count_code_points(std::string_view text);
/// Every code point of a text that is UTF-8.
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

/// Appends a character in upper case, which may be several.
void add_upper(std::u32string& out, char32_t code);
/// Appends text[at] in lower case. The characters around it decide about a final sigma.
void add_lower(std::u32string& out, std::u32string_view text, size_t at);

/// Python's str.upper() and so on. Of the special cases of Unicode those without conditions are
/// known for upper case in Latin script, and the final sigma.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// For comparisons without regard to case: Unicode's full case folding.
std::string casefold(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swapcase(std::string_view text);

// str.isalpha() and so on; false for an empty text unless Python says otherwise.
bool is_alpha(std::string_view text);
bool is_alnum(std::string_view text);
bool is_digit(std::string_view text);
bool is_decimal(std::string_view text);
bool is_numeric(std::string_view text);
bool is_all_space(std::string_view text);
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_title(std::string_view text);
bool is_identifier(std::string_view text);
bool is_ascii(std::string_view text);

/// \w
bool is_word(char32_t code);

/// `text` with & < > ' " replaced by HTML's entities.
std::string escape_html(std::string_view text);

}  // namespace infer::jinja
