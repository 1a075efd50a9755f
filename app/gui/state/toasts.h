// Short messages at the window's edge: what was done, with an undo, or what went wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "infer/status.hpp"

namespace infer::gui {

struct Toast {
  int64_t id = 0;
  bool is_error = false;
  std::string text;
  std::string action;  ///< label of a button; empty: there is none
  std::function<void()> act;
  double until = 0;  ///< seconds of the window's clock; errors stay until they are closed
};

class Toasts {
 public:
  /// `now`: seconds of the window's clock.
  void set_time(double now);
  void tell(std::string text, std::string action = {}, std::function<void()> act = {});
  void fail(const Status& status);
  void fail(std::string text);
  void close(int64_t id);
  /// Seconds until the next one goes by itself; 0: none does.
  double next_end() const;
  const std::vector<Toast>& all() const { return toasts_; }
  static constexpr double kSeconds = 8;  ///< how long what is no error stays

 private:
  static constexpr size_t kMost = 5;
  void add(Toast toast);

  std::vector<Toast> toasts_;
  int64_t last_id_ = 0;
  double now_ = 0;
};

}  // namespace infer::gui
