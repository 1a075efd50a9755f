#include "gui/text/visual_line.h"

#include <algorithm>

#include "gui/text/arabic.h"
#include "gui/text/bidi.h"
#include "gui/text/utf8.h"

namespace infer::gui {

std::string visual_line(std::string_view text) {
  if (!may_be_right_to_left(text)) return std::string(text);
  std::string line;
  const auto put = [&](size_t begin, size_t end) {
    while (begin < end) {
      append_utf8(line, mirrored(joined_form(text, begin)));
      begin += char_at(text, begin).length;
    }
  };
  for (const DirectionRun& run : visual_runs(text, 0, text.size(), runs_right_to_left(text))) {
    if (!run.right_to_left) {
      line += text.substr(run.begin, run.end - run.begin);
      continue;
    }
    for (size_t end = run.end; end > run.begin;) {
      const size_t begin = std::max<size_t>(cluster_begin(text, end), run.begin);
      put(begin, end);
      end = begin;
    }
  }
  return line;
}

}  // namespace infer::gui
