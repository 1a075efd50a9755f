// ImGui without a back end: frames on a made-up display whose draw lists the tests read.
#pragma once

#include <imgui.h>

#include <algorithm>
#include <functional>
#include <string>

namespace infer::test {

class ImGuiFrames {
 public:
  explicit ImGuiFrames(float width = 800, float height = 600) {
    context_ = ImGui::CreateContext();
    ImGui::SetCurrentContext(context_);
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.DisplaySize = {width, height};
    io.DeltaTime = 1.0f / 60;
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
    io.GetClipboardTextFn = [](void* user) {
      return static_cast<ImGuiFrames*>(user)->clipboard.c_str();
    };
    io.SetClipboardTextFn = [](void* user, const char* text) {
      static_cast<ImGuiFrames*>(user)->clipboard = text;
    };
    io.ClipboardUserData = this;
    for (int key = 0; key < ImGuiKey_COUNT; ++key) io.KeyMap[key] = key;
    unsigned char* pixels = nullptr;
    int texture_width = 0, texture_height = 0;
    io.Fonts->GetTexDataAsAlpha8(&pixels, &texture_width, &texture_height);
  }
  ~ImGuiFrames() {
    ImGui::DestroyContext(context_);
    ImGui::SetCurrentContext(before_);
  }
  ImGuiFrames(const ImGuiFrames&) = delete;

  /// Draws `content` in a window that fills the display without borders.
  void frame(const std::function<void()>& content) {
    const ImGuiIO& io = ImGui::GetIO();
    ImGui::NewFrame();
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(io.DisplaySize);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
    ImGui::Begin("test", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings |
                     ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoBackground);
    content();
    scroll_ = ImGui::GetScrollMaxY();
    ImGui::End();
    ImGui::PopStyleVar(2);
    ImGui::Render();
  }

  /// Moves the pointer, then presses and releases the button `clicks` times, each in a frame.
  void click(ImVec2 at, int clicks, const std::function<void()>& content) {
    ImGuiIO& io = ImGui::GetIO();
    io.MousePos = at;
    frame(content);
    for (int i = 0; i < clicks; ++i) {
      io.MouseDown[0] = true;
      frame(content);
      io.MouseDown[0] = false;
      frame(content);
    }
    // The next click is not one of these.
    for (int i = 0; i < 40; ++i) frame(content);
  }

  void drag(ImVec2 from, ImVec2 to, const std::function<void()>& content) {
    ImGuiIO& io = ImGui::GetIO();
    io.MousePos = from;
    frame(content);
    io.MouseDown[0] = true;
    frame(content);
    io.MousePos = to;
    frame(content);
    frame(content);
    io.MouseDown[0] = false;
    frame(content);
    for (int i = 0; i < 40; ++i) frame(content);
  }

  void press(ImGuiKey key, bool control, bool shift, const std::function<void()>& content) {
    ImGuiIO& io = ImGui::GetIO();
    io.KeyCtrl = control;
    io.KeyShift = shift;
    io.KeysDown[key] = true;
    frame(content);
    io.KeysDown[key] = false;
    io.KeyCtrl = io.KeyShift = false;
    frame(content);
  }

  /// The rectangle around all vertices that `colour` has; max.x < min.x if there are none.
  struct Extent {
    ImVec2 min{1e9f, 1e9f}, max{-1e9f, -1e9f};
    size_t vertices = 0;
  };
  static Extent extent(ImU32 colour = 0) {
    Extent all;
    const ImDrawData& data = *ImGui::GetDrawData();
    for (int i = 0; i < data.CmdListsCount; ++i) {
      for (const ImDrawVert& vertex : data.CmdLists[i]->VtxBuffer) {
        if (colour != 0 && vertex.col != colour) continue;
        all.min = {std::min(all.min.x, vertex.pos.x), std::min(all.min.y, vertex.pos.y)};
        all.max = {std::max(all.max.x, vertex.pos.x), std::max(all.max.y, vertex.pos.y)};
        ++all.vertices;
      }
    }
    return all;
  }

  float longest_scroll() const { return scroll_; }
  std::string clipboard;

 private:
  ImGuiContext* const before_ = ImGui::GetCurrentContext();  // that of a window
  ImGuiContext* context_ = nullptr;
  float scroll_ = 0;
};

}  // namespace infer::test
