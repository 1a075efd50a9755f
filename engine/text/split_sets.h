// Sets of characters and special cuts that single pre-tokenizers use.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/text/char_text.h"

namespace infer::split {

/// Letters of scripts that have case, as DeepSeek's LLM and MoE vocabularies list them.
bool is_deepseek_letter(const CharText& text, uint32_t pos);
bool is_afmoe_script(const CharText& text, uint32_t pos);
bool is_youtu_punctuation(const CharText& text, uint32_t pos);

/// `(?=(\d{3})+(?!\d))`: cuts runs of digits into threes from the right.
void split_digit_groups(const CharText& text, uint32_t begin, uint32_t end,
                        std::vector<uint32_t>& ends);
/// `\d{1,3}(?=(?:\d{3})*\b)`: the same, apart from what surrounds them, unless a word goes on.
void split_number_groups(const CharText& text, uint32_t begin, uint32_t end,
                         std::vector<uint32_t>& ends);
/// The same for \p{N} whatever follows.
void split_afmoe_numbers(const CharText& text, uint32_t begin, uint32_t end,
                         std::vector<uint32_t>& ends);
/// `\s+$`
void split_final_space(const CharText& text, uint32_t begin, uint32_t end,
                       std::vector<uint32_t>& ends);

}  // namespace infer::split
