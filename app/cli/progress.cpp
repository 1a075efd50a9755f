#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cli/output.h"
#include "platform/streams.h"

namespace infer::cli {
namespace {

/// Work that takes less passes without a bar: a line that flickers helps nobody.
constexpr std::chrono::milliseconds kDelay{300};
constexpr std::chrono::milliseconds kRedraw{250};
constexpr int kMaxBar = 40;

/// Columns that the bar's line covers; 0: none is drawn.
int columns_drawn = 0;

void write_error(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace

void erase_progress() {
  if (columns_drawn == 0) return;
  // Spaces in place of a control sequence: what NO_COLOR promises holds for these too.
  write_error(fmt::format("\r{:{}}\r", "", columns_drawn));
  columns_drawn = 0;
}

Progress::Progress(std::string label, bool wanted)
    : label_(std::move(label)), start_(std::chrono::steady_clock::now()) {
  shown_ = wanted && platform::stderr_is_terminal() && !terminal_is_dumb();
}

Progress::~Progress() {
  if (drawn_ >= 0) erase_progress();
}

void Progress::update(double done, std::string_view detail) {
  if (!shown_) return;
  const int percent = static_cast<int>(std::clamp(done, 0.0, 1.0) * 100);
  if (done >= 1) {
    erase_progress();
    drawn_ = -1;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  const bool changed = percent != drawn_ || (!detail.empty() && now - drawn_at_ >= kRedraw);
  if (!changed || now - start_ < kDelay) return;
  // "loading [####    ]  50 %", one column short of the edge, where some terminals would wrap.
  const int room = platform::terminal_columns() - 1;
  if (static_cast<int>(label_.size() + detail.size()) + 10 > room) detail = {};
  const int text = static_cast<int>(label_.size() + detail.size()) + 10;
  const int bar = std::clamp(room - text, 0, kMaxBar);
  const int filled = bar * percent / 100;
  const bool color = colors_allowed();
  const std::string line =
      fmt::format("{} [{}{:#>{}}{}{:{}}] {:>3} %{}", label_, color ? "\033[32m" : "", "", filled,
                  color ? "\033[0m" : "", "", bar - filled, percent, detail);
  // What a longer line before left is covered.
  write_error(fmt::format("\r{}{:{}}", line, "", std::max(columns_drawn - text - bar, 0)));
  columns_drawn = std::max(columns_drawn, text + bar);
  drawn_ = percent;
  drawn_at_ = now;
}

}  // namespace infer::cli
