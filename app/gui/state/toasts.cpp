#include "gui/state/toasts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gui/text/sanitise.h"

namespace infer::gui {
namespace {

constexpr size_t kTextBytes = 1000;

}  // namespace

void Toasts::set_time(double now) {
  now_ = now;
  std::erase_if(toasts_, [now](const Toast& toast) { return toast.until <= now; });
}

void Toasts::tell(std::string text, std::string action, std::function<void()> act) {
  add({0, false, std::move(text), std::move(action), std::move(act), now_ + kSeconds});
}

void Toasts::fail(const Status& status) {
  if (status.code() != StatusCode::cancelled) fail(status.message());
}

void Toasts::fail(std::string text) {
  add({0, true, std::move(text), {}, {}, std::numeric_limits<double>::infinity()});
}

void Toasts::add(Toast toast) {
  // Names from files may be in it.
  toast.text = one_line(toast.text, kTextBytes);
  // The same failure again says nothing new.
  std::erase_if(toasts_, [&](const Toast& other) {
    return other.is_error && toast.is_error && other.text == toast.text;
  });
  toast.id = ++last_id_;
  toasts_.push_back(std::move(toast));
  if (toasts_.size() > kMost) toasts_.erase(toasts_.begin());
}

double Toasts::next_end() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Toast& toast : toasts_) next = std::min(next, toast.until);
  return std::isinf(next) ? 0 : std::max(next - now_, 0.001);
}

void Toasts::close(int64_t id) {
  std::erase_if(toasts_, [id](const Toast& toast) { return toast.id == id; });
}

}  // namespace infer::gui
