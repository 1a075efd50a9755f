// One window with OpenGL and Dear ImGui. It draws only when something happens: input, a wake-up
// from another thread, or a time that was asked for.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gui/key_queue.h"
#include "infer/status.hpp"

struct GLFWwindow;
struct ImGuiIO;

namespace infer::gui {

struct WindowOptions {
  std::string title = "infer";
  int width = 1280, height = 800;  ///< in units; the monitor's scale makes pixels of them
  bool maximised = false;          ///< that is its size when it no longer is
  float scale = 0;                 ///< pixels for each unit; 0: as the monitor says
};

/// What a window shows. All functions are called on the thread that runs it.
class WindowClient {
 public:
  virtual ~WindowClient() = default;
  /// Each time the window wakes, drawn or not: takes what other threads have made.
  virtual void poll() = 0;
  /// Before a frame with so many pixels for each unit: sets fonts and style if they have changed.
  /// Returns whether the texture of the fonts was made anew.
  virtual bool prepare(float scale) = 0;
  virtual void draw() = 0;
  /// Files were dropped on the window.
  virtual void drop(const std::vector<std::string>& paths) = 0;
  /// The window is to be closed: false keeps it open.
  virtual bool may_close() = 0;
};

class Window {
 public:
  /// Errors: unsupported if there is no display, no GLFW or no OpenGL 3, with what is missing and
  /// which package brings it.
  static Result<std::unique_ptr<Window>> open(const WindowOptions& options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  static constexpr double kForever = std::numeric_limits<double>::infinity();
  /// Waits for at most `most_wait` seconds until something happens, then draws if that is needed.
  /// False once the window is closed. Returns at once if something has happened.
  bool turn(WindowClient& client, double most_wait);

  /// Something is to be drawn. Any thread.
  void wake();
  /// A frame is due within so many seconds, even if nothing happens.
  void redraw_within(double seconds);
  /// What the keyboard and the buttons of the mouse did. Frames take it in order.
  void take_key(const KeyEvent& event);
  void close();
  /// In pixels, `scale` of them for each unit. The system may take a while, or give another size.
  void set_size(int width, int height, float scale);
  /// Its size in units, as WindowOptions has it.
  void size(int& width, int& height) const;
  bool is_maximised() const;
  /// Comes to the front, or asks for attention where the system does not allow that.
  void raise();

  /// Whether no frames are drawn, because nobody would see them.
  bool is_hidden() const;
  /// Frames drawn since the window was opened.
  int64_t frames() const { return frames_; }
  /// Seconds that the latest frame took, without waiting for the screen.
  double frame_seconds() const { return frame_seconds_; }
  /// Pixels of the latest frame, 3 bytes each, the upper row first.
  std::vector<unsigned char> pixels(int& width, int& height) const;
  /// Called before each frame with the input that it will get: tests press keys here.
  std::function<void(ImGuiIO&)> on_input;

 private:
  Window() = default;
  Status create(const WindowOptions& options);
  void fit_to_screen();
  void set_icon();
  void listen();
  void queue_keys();
  void give_keys();
  void give_input();
  void draw_frame(WindowClient& client);
  double seconds_until_due(double most_wait) const;
  void something_happened() { frames_due_ = kSettling; }

  /// Frames after an event: ImGui needs more than one to settle.
  static constexpr int kSettling = 3;
  /// Frames after a wake-up: a part that is as large as what it shows has its size in the second.
  static constexpr int kSizing = 2;

  GLFWwindow* window_ = nullptr;
  bool imgui_ = false;
  float fixed_scale_ = 0;
  int frames_due_ = kSettling;
  double due_at_ = 0;  ///< by glfwGetTime(); infinity: none
  double last_frame_ = 0;
  std::atomic<bool> woken_{false};
  bool closed_ = false;
  std::vector<std::string> dropped_;
  KeyQueue keys_;
  static constexpr int kButtons = 5;
  bool down_[kButtons] = {};  ///< buttons, as the frames know them
  float x_ = -1, y_ = -1;     ///< the pointer's place, as the last frame knew it
  int64_t frames_ = 0;
  double frame_seconds_ = 0;
};

}  // namespace infer::gui
