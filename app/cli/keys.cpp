#include "cli/keys.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "cli/output.h"

namespace infer::cli {
namespace {

constexpr char kEscape = '\033';
constexpr std::string_view kPasteEnd = "\033[201~";
/// No sequence of a key is longer.
constexpr size_t kMostParameters = 64;

/// "3;5" as 3 and 5; what is not there is 1.
std::pair<int, int> numbers_of(std::string_view parameters) {
  std::pair<int, int> numbers{1, 1};
  const size_t middle = parameters.find(';');
  const auto read = [](std::string_view text, int& to) {
    (void)std::from_chars(text.data(), text.data() + text.size(), to);
  };
  read(parameters.substr(0, middle), numbers.first);
  if (middle != std::string_view::npos) read(parameters.substr(middle + 1), numbers.second);
  return numbers;
}

}  // namespace

std::string Keys::sequence_end(char last) {
  const auto [number, modifier] = numbers_of(parameters_);
  constexpr int kAlt = 2;
  constexpr int kControl = 4;
  // xterm sends 1 + the modifiers. rxvt has a letter of its own for Ctrl.
  bool word = modifier > 0 && ((modifier - 1) & (kAlt | kControl)) != 0;
  switch (last) {
    case 'A':
    case 'a': return kUp;
    case 'B':
    case 'b': return kDown;
    case 'c':
    case 'd': word = word || letter_; [[fallthrough]];
    case 'C':
    case 'D':
      if (last == 'C' || last == 'c') return word ? kWordRight : kRight;
      return word ? kWordLeft : kLeft;
    case 'H': return kHome;
    case 'F': return kEnd;
    case '^': word = true; [[fallthrough]];
    case '$':
    case '@':
    case '~': break;
    default: return kNothing;
  }
  switch (number) {
    case 1:
    case 7: return kHome;
    case 4:
    case 8: return kEnd;
    case 3: return word ? kDeleteWord : kDelete;
    case 200: state_ = State::paste; return {};
    default: return kNothing;
  }
}

std::string Keys::push(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  switch (state_) {
    case State::plain:
      if (byte == kEscape) state_ = State::escape;
      break;
    case State::escape:
      if (byte == kEscape) return {};
      state_ = byte == '[' ? State::bracket : byte == 'O' ? State::letter : State::plain;
      letter_ = byte == 'O';
      parameters_.clear();
      if (state_ != State::plain) return {};
      break;
    case State::bracket:
    case State::letter:
      if (byte == '[' && parameters_.empty() && !letter_) {  // F1 to F5 on Linux' console
        state_ = State::console;
        return {};
      }
      // rxvt ends sequences with '$', which elsewhere is no last byte.
      if (code >= 0x20 && code < 0x40 && (byte != '$' || parameters_.starts_with('?'))) {
        if (parameters_.size() < kMostParameters) parameters_ += byte;
        return {};
      }
      state_ = State::plain;
      if (code < 0x20 || code >= 0x7f) return kNothing + push(byte);
      return sequence_end(byte);
    case State::console: state_ = State::plain; return kNothing;
    case State::paste:
      pasted_ += byte;
      if (!pasted_.ends_with(kPasteEnd)) return {};
      pasted_.resize(pasted_.size() - kPasteEnd.size());
      state_ = State::plain;
      return kPaste;
  }
  return std::string(1, byte);
}

std::string Keys::paste(std::string text) {
  pasted_ = std::move(text);
  return kEscape + std::string(kPaste);
}

std::string Keys::take_paste() {
  std::string text;
  for (size_t i = 0; i < pasted_.size(); ++i) {
    if (pasted_[i] == '\r') {
      text += '\n';
      if (i + 1 < pasted_.size() && pasted_[i + 1] == '\n') ++i;
    } else if (pasted_[i] != '\0') {
      text += pasted_[i];
    }
  }
  pasted_.clear();
  return valid_utf8(text);
}

void Keys::reset() {
  state_ = State::plain;
  pasted_.clear();
}

}  // namespace infer::cli
