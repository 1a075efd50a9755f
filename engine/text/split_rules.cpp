#include "engine/text/split_rules.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/text/split_sets.h"

namespace infer::split {
namespace {

struct Interval {
  char32_t first, last;
};

template <size_t kCount>
bool contains(const std::array<Interval, kCount>& sorted, char32_t code) {
  const auto next = std::upper_bound(sorted.begin(), sorted.end(), code,
                                     [](char32_t c, const Interval& i) { return c < i.first; });
  return next != sorted.begin() && code <= std::prev(next)->last;
}

constexpr std::array<Interval, 21> kHan{
    {{0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},
     {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},
     {0x4e00, 0x9fff},   {0xf900, 0xfa6d},   {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3},
     {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739}, {0x2b740, 0x2b81d},
     {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a},
     {0x31350, 0x323af}}};

constexpr std::array<Interval, 84> kDeepseekLetters{
    {{0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},
     {0xd8, 0xf6},       {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},
     {0x295, 0x2af},     {0x370, 0x373},     {0x376, 0x377},     {0x37b, 0x37d},
     {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},     {0x38c, 0x38c},
     {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
     {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},
     {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},
     {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},   {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},
     {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},
     {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
     {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},
     {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},
     {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},   {0x2115, 0x2115},
     {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
     {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
     {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},
     {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},
     {0xa680, 0xa69b},   {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},
     {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},
     {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
     {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}}};

// Blocks that Arcee's AFM takes as one run: ideographs, kana, and the scripts of South-East Asia.
constexpr std::array<Interval, 15> kAfmoeScripts{{{0x0e40, 0x0e7f},
                                                  {0x0e80, 0x0eff},
                                                  {0x1000, 0x109f},
                                                  {0x1100, 0x11ff},
                                                  {0x1780, 0x17ff},
                                                  {0x2f00, 0x2fdf},
                                                  {0x3040, 0x309f},
                                                  {0x30a0, 0x30ff},
                                                  {0x3400, 0x4dbf},
                                                  {0x4e00, 0x9fff},
                                                  {0xa9e0, 0xa9ff},
                                                  {0xaa60, 0xaa7f},
                                                  {0xac00, 0xd7af},
                                                  {0xf900, 0xfaff},
                                                  {0xff65, 0xff9f}}};

constexpr std::array<Interval, 9> kYoutuPunctuation{{{0x2014, 0x2014},
                                                     {0x2018, 0x2019},
                                                     {0x201c, 0x201d},
                                                     {0x2026, 0x2026},
                                                     {0x3001, 0x303f},
                                                     {0xfe30, 0xfe4f},
                                                     {0xff01, 0xff01},
                                                     {0xff0c, 0xff0c},
                                                     {0xff1a, 0xff1b}}};

bool is_word_char(const CharText& text, uint32_t pos) {
  return text.is(pos, kLetter | kMark | kNumber) || text.code(pos) == '_';
}

}  // namespace

bool is_han(char32_t code) { return code >= 0x2e80 && contains(kHan, code); }

bool is_deepseek_letter(const CharText& text, uint32_t pos) {
  return contains(kDeepseekLetters, text.code(pos));
}

bool is_afmoe_script(const CharText& text, uint32_t pos) {
  return text.code(pos) >= 0x0e40 && contains(kAfmoeScripts, text.code(pos));
}

bool is_youtu_punctuation(const CharText& text, uint32_t pos) {
  return contains(kYoutuPunctuation, text.code(pos));
}

void split_digit_groups(const CharText& text, uint32_t begin, uint32_t end,
                        std::vector<uint32_t>& ends) {
  uint32_t gap = begin;
  for (uint32_t pos = begin; pos < end;) {
    const uint32_t stop = run_of(text, pos, end, kNd);
    if (stop == pos) {
      ++pos;
      continue;
    }
    for (uint32_t cut = pos + (stop - pos) % 3; cut < stop; cut += 3) {
      if (cut > gap) ends.push_back(cut);
      gap = cut;
    }
    pos = stop;
  }
  if (gap < end) ends.push_back(end);
}

void split_number_groups(const CharText& text, uint32_t begin, uint32_t end,
                         std::vector<uint32_t>& ends) {
  uint32_t gap = begin;
  const auto cut = [&](uint32_t pos) {
    if (pos > gap) ends.push_back(pos);
    gap = pos;
  };
  for (uint32_t pos = begin; pos < end;) {
    const uint32_t stop = run_of(text, pos, end, kNd);
    if (stop == pos) {
      ++pos;
      continue;
    }
    if (stop == end || !is_word_char(text, stop)) {
      cut(pos);
      for (uint32_t group = pos + (stop - pos) % 3; group < stop; group += 3) cut(group);
      cut(stop);
    }
    pos = stop;
  }
  if (gap < end) ends.push_back(end);
}

void split_afmoe_numbers(const CharText& text, uint32_t begin, uint32_t end,
                         std::vector<uint32_t>& ends) {
  uint32_t gap = begin;
  const auto cut = [&](uint32_t pos) {
    if (pos > gap) ends.push_back(pos);
    gap = pos;
  };
  for (uint32_t pos = begin; pos < end;) {
    const uint32_t stop = run_of(text, pos, end, kNumber);
    if (stop == pos) {
      ++pos;
      continue;
    }
    cut(pos);
    for (uint32_t group = pos + (stop - pos) % 3; group < stop; group += 3) cut(group);
    cut(stop);
    pos = stop;
  }
  if (gap < end) ends.push_back(end);
}

void split_final_space(const CharText& text, uint32_t begin, uint32_t end,
                       std::vector<uint32_t>& ends) {
  uint32_t first = end;
  while (first > begin && text.is(first - 1, kSpace)) --first;
  // `$` also holds before a newline that ends the text, but \s+ takes that one as well.
  if (first > begin) ends.push_back(first);
  if (first < end) ends.push_back(end);
}

}  // namespace infer::split
