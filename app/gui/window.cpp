#include "gui/window.h"

#include <GLFW/glfw3.h>
#include <imgui/backends/imgui_impl_glfw.h>
#include <imgui/backends/imgui_impl_opengl3.h>
#include <imgui/imgui.h>
#include <stb/stb_image.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/glfw_library.h"
#include "gui/keys.h"
#include "gui/open_gl.h"
#include "gui/text/clipboard.h"
#include "gui/ui/field_text.h"
#include "gui/ui/record.h"
#include "platform/embed.h"
#include "platform/folders.h"

INFER_EMBED(infer_icon, INFER_ICON, 16);

namespace infer::gui {
namespace {

constexpr double kNever = Window::kForever;
/// Frames are at least this far apart, in seconds, where the screen does not wait itself.
constexpr double kFrame = 1.0 / 75;
constexpr int kLeastWidth = 640;
constexpr int kLeastHeight = 480;

std::string last_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text == nullptr ? "no reason given" : text;
}

Window& window_of(GLFWwindow* window) {
  return *static_cast<Window*>(glfwGetWindowUserPointer(window));
}

void read_layout() {
  follow_layout([](int key) { return glfwGetKeyName(key, 0); });
}

}  // namespace

Result<std::unique_ptr<Window>> Window::open(const WindowOptions& options) {
  if (Status opened = open_glfw(); !opened.ok()) return tl::unexpected(std::move(opened));
  std::unique_ptr<Window> window(new Window());
  if (Status created = window->create(options); !created.ok()) {
    return tl::unexpected(std::move(created));
  }
  return window;
}

Status Window::create(const WindowOptions& options) {
  glfwSetErrorCallback(nullptr);
  if (glfwInit() == GLFW_FALSE) {
    const bool display =
        !platform::variable("DISPLAY").empty() || !platform::variable("WAYLAND_DISPLAY").empty();
    return {StatusCode::unsupported,
            display ? "the window cannot be opened: " + last_error()
                    : std::string("there is no display (DISPLAY and WAYLAND_DISPLAY are not set): "
                                  "`infer chat` works in this terminal")};
  }
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 0);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, options.scale > 0 ? GLFW_FALSE : GLFW_TRUE);
  glfwWindowHint(GLFW_VISIBLE, GLFW_FALSE);
  glfwWindowHintString(GLFW_X11_CLASS_NAME, "infer");
  glfwWindowHintString(GLFW_X11_INSTANCE_NAME, "infer");
  const float scale = options.scale > 0 ? options.scale : 1;
  const auto pixels = [&](int units) {
    return static_cast<int>(std::lround(static_cast<float>(units) * scale));
  };
  window_ = glfwCreateWindow(std::max(pixels(options.width), kLeastWidth),
                             std::max(pixels(options.height), kLeastHeight), options.title.c_str(),
                             nullptr, nullptr);
  if (window_ == nullptr) {
    return {
        StatusCode::unsupported,
        "the window needs OpenGL 3.0, which this display does not offer (" + last_error() +
            "): install the package libgl1-mesa-dri (Debian, Ubuntu) or mesa-dri-drivers (Fedora)"};
  }
  fixed_scale_ = options.scale;
  glfwSetWindowUserPointer(window_, this);
  glfwSetWindowSizeLimits(window_, kLeastWidth, kLeastHeight, GLFW_DONT_CARE, GLFW_DONT_CARE);
  fit_to_screen();
  if (options.maximised) glfwMaximizeWindow(window_);
  glfwMakeContextCurrent(window_);
  glfwSwapInterval(1);
  ImGui::CreateContext();
  imgui_ = true;
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  io.ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigInputTextCursorBlink = false;  // else a frame would be due twice a second
  set_icon();
  listen();  // before ImGui, which calls on what listened before
  if (!ImGui_ImplGlfw_InitForOpenGL(window_, true) || !ImGui_ImplOpenGL3_Init("#version 130")) {
    return {StatusCode::unsupported, "OpenGL 3.0 cannot be used on this display"};
  }
  convert_clipboard();
  io.KeyMap[ImGuiKey_Tab] = -1;  // ui::take_tab_and_enter() has it
  queue_keys();
  read_layout();
  due_at_ = kNever;
  last_frame_ = -kNever;
  glfwShowWindow(window_);
  return {};
}

/// What does not fit would lie beyond the edges: not all desktops make a window smaller.
void Window::fit_to_screen() {
  GLFWmonitor* const monitor = glfwGetPrimaryMonitor();
  if (monitor == nullptr) return;
  int x = 0, y = 0, most_width = 0, most_height = 0, width = 0, height = 0;
  glfwGetMonitorWorkarea(monitor, &x, &y, &most_width, &most_height);
  glfwGetWindowSize(window_, &width, &height);
  const bool known = most_width > 0 && most_height > 0;
  if (!known || (width <= most_width && height <= most_height)) return;
  // The frame that the desktop draws needs room as well.
  glfwSetWindowSize(window_, std::min(width, most_width * 19 / 20),
                    std::min(height, most_height * 19 / 20));
}

/// For desktops that do not take it from the program's entry in their menu.
void Window::set_icon() {
  const auto bytes = static_cast<int>(infer_icon_end - infer_icon);
  GLFWimage image{};
  int channels = 0;
  image.pixels =
      stbi_load_from_memory(infer_icon, bytes, &image.width, &image.height, &channels, 4);
  if (image.pixels == nullptr) return;
  glfwSetWindowIcon(window_, 1, &image);
  stbi_image_free(image.pixels);
}

/// Everything that may change what is shown makes frames due.
void Window::listen() {
  glfwSetWindowRefreshCallback(window_, [](GLFWwindow* w) { window_of(w).something_happened(); });
  glfwSetWindowSizeCallback(window_,
                            [](GLFWwindow* w, int, int) { window_of(w).something_happened(); });
  glfwSetWindowFocusCallback(window_,
                             [](GLFWwindow* w, int) { window_of(w).something_happened(); });
  glfwSetWindowIconifyCallback(window_,
                               [](GLFWwindow* w, int) { window_of(w).something_happened(); });
  glfwSetWindowContentScaleCallback(
      window_, [](GLFWwindow* w, float, float) { window_of(w).something_happened(); });
  glfwSetWindowCloseCallback(window_, [](GLFWwindow* w) { window_of(w).something_happened(); });
  glfwSetMouseButtonCallback(
      window_, [](GLFWwindow* w, int, int, int) { window_of(w).something_happened(); });
  glfwSetCursorPosCallback(
      window_, [](GLFWwindow* w, double, double) { window_of(w).something_happened(); });
  glfwSetCursorEnterCallback(window_,
                             [](GLFWwindow* w, int) { window_of(w).something_happened(); });
  glfwSetScrollCallback(window_,
                        [](GLFWwindow* w, double, double) { window_of(w).something_happened(); });
  glfwSetDropCallback(window_, [](GLFWwindow* w, int count, const char** paths) {
    Window& window = window_of(w);
    window.dropped_.insert(window.dropped_.end(), paths, paths + count);
    window.something_happened();
  });
}

/// In place of ImGui's own functions, which get what is queued before each frame.
void Window::queue_keys() {
  glfwSetKeyCallback(window_, [](GLFWwindow* w, int key, int, int action, int) {
    read_layout();  // GLFW does not tell that the layout of the keyboard has changed
    if (action == GLFW_REPEAT) return window_of(w).something_happened();  // ImGui repeats itself
    const bool releases = action == GLFW_RELEASE;
    window_of(w).take_key({releases ? KeyEvent::Kind::release : KeyEvent::Kind::press, key});
  });
  glfwSetCharCallback(window_, [](GLFWwindow* w, unsigned code) {
    window_of(w).take_key({KeyEvent::Kind::character, static_cast<int>(code)});
  });
  glfwSetMouseButtonCallback(window_, [](GLFWwindow* w, int button, int action, int) {
    double x = 0, y = 0;
    glfwGetCursorPos(w, &x, &y);
    const bool releases = action == GLFW_RELEASE;
    window_of(w).take_key({releases ? KeyEvent::Kind::button_release : KeyEvent::Kind::button_press,
                           button, static_cast<float>(x), static_cast<float>(y)});
  });
}

void Window::take_key(const KeyEvent& event) {
  keys_.add(event);
  something_happened();
}

void Window::give_keys() {
  if (keys_.empty()) return;
  something_happened();
  keys_.give_frame([&](const KeyEvent& event) {
    using Kind = KeyEvent::Kind;
    switch (event.kind) {
      case Kind::character: ui::add_typed(static_cast<unsigned>(event.key)); return;
      case Kind::press:
      case Kind::release:
        return ImGui_ImplGlfw_KeyCallback(window_, event.key, 0,
                                          event.kind == Kind::press ? GLFW_PRESS : GLFW_RELEASE, 0);
      case Kind::button_press:
      case Kind::button_release:
        if (event.key >= 0 && event.key < kButtons) {
          down_[event.key] = event.kind == Kind::button_press;
        }
        ImGui::GetIO().MousePos = {event.x, event.y};
    }
  });
}

/// The mouse as it was when the keys were pressed that this frame has.
void Window::give_input() {
  ImGuiIO& io = ImGui::GetIO();
  const bool waits = keys_.has_button();
  if (waits) io.MousePos = {x_, y_};
  give_keys();
  std::copy(std::begin(down_), std::end(down_), std::begin(io.MouseDown));
  x_ = io.MousePos.x;
  y_ = io.MousePos.y;
}

Window::~Window() {
  if (imgui_) {
    if (ImGui::GetIO().BackendRendererUserData != nullptr) ImGui_ImplOpenGL3_Shutdown();
    if (ImGui::GetIO().BackendPlatformUserData != nullptr) ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
  }
  if (window_ != nullptr) glfwDestroyWindow(window_);
  glfwTerminate();
}

bool Window::is_hidden() const {
  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  return width <= 0 || height <= 0 || glfwGetWindowAttrib(window_, GLFW_ICONIFIED) != 0;
}

double Window::seconds_until_due(double most_wait) const {
  if (woken_.load()) return 0;
  if (is_hidden()) return most_wait;
  const double now = glfwGetTime();
  if (frames_due_ > 0) return std::min(most_wait, std::max(0.0, last_frame_ + kFrame - now));
  return std::min(most_wait, std::max(0.0, due_at_ - now));
}

bool Window::turn(WindowClient& client, double most_wait) {
  if (closed_) return false;
  const double wait = seconds_until_due(most_wait);
  if (wait <= 0) {
    glfwPollEvents();
  } else if (wait == kNever) {
    glfwWaitEvents();
  } else {
    glfwWaitEventsTimeout(wait);
  }
  if (woken_.exchange(false)) frames_due_ = std::max(frames_due_, kSizing);
  if (glfwWindowShouldClose(window_) != GLFW_FALSE) {
    if (client.may_close()) {
      closed_ = true;
      return false;
    }
    glfwSetWindowShouldClose(window_, GLFW_FALSE);
  }
  if (!dropped_.empty()) client.drop(std::exchange(dropped_, {}));
  client.poll();
  if (is_hidden()) return true;  // what is due is drawn when it is seen again
  const double now = glfwGetTime();
  if (now >= due_at_) {
    due_at_ = kNever;
    frames_due_ = std::max(frames_due_, kSizing);
  }
  if (frames_due_ > 0 && now >= last_frame_ + kFrame) draw_frame(client);
  return true;
}

void Window::draw_frame(WindowClient& client) {
  const double start = glfwGetTime();
  last_frame_ = start;
  --frames_due_;
  float x = fixed_scale_;
  float y = fixed_scale_;
  if (fixed_scale_ <= 0) glfwGetWindowContentScale(window_, &x, &y);
  if (!(x > 0.25f)) x = 1;
  if (client.prepare(x)) {
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    ImGui_ImplOpenGL3_CreateFontsTexture();
  }
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  give_input();
  if (on_input) on_input(ImGui::GetIO());
  ImGui::NewFrame();
  ui::begin_record();
  client.draw();
  ImGui::Render();
  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  clear_screen(width, height, ImGui::GetStyle().Colors[ImGuiCol_WindowBg]);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  frame_seconds_ = glfwGetTime() - start;
  glfwSwapBuffers(window_);
  ++frames_;
}

void Window::wake() {
  if (!woken_.exchange(true)) glfwPostEmptyEvent();
}

void Window::redraw_within(double seconds) { due_at_ = std::min(due_at_, glfwGetTime() + seconds); }

void Window::close() {
  glfwSetWindowShouldClose(window_, GLFW_TRUE);
  something_happened();
}

void Window::set_size(int width, int height, float scale) {
  fixed_scale_ = scale;
  glfwSetWindowSize(window_, width, height);
  something_happened();
}

void Window::size(int& width, int& height) const {
  float x = fixed_scale_;
  float y = fixed_scale_;
  if (fixed_scale_ <= 0) glfwGetWindowContentScale(window_, &x, &y);
  if (!(x > 0.25f && y > 0.25f)) x = y = 1;
  glfwGetWindowSize(window_, &width, &height);
  width = static_cast<int>(std::lround(static_cast<float>(width) / x));
  height = static_cast<int>(std::lround(static_cast<float>(height) / y));
}

bool Window::is_maximised() const { return glfwGetWindowAttrib(window_, GLFW_MAXIMIZED) != 0; }

void Window::raise() {
  if (glfwGetWindowAttrib(window_, GLFW_ICONIFIED) != 0) glfwRestoreWindow(window_);
  glfwFocusWindow(window_);
  glfwRequestWindowAttention(window_);
}

std::vector<unsigned char> Window::pixels(int& width, int& height) const {
  glfwGetFramebufferSize(window_, &width, &height);
  return read_screen(width, height);
}

}  // namespace infer::gui
