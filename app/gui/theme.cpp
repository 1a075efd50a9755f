#include "gui/theme.h"

#include <imgui/imgui.h>

namespace infer::gui {
namespace {

constexpr Theme kLight{
    .background = 0xF6F7F9,
    .panel = 0xFFFFFF,
    .raised = 0xE9ECF1,
    .border = 0xC4CAD4,
    .text = 0x1B1F27,
    .faint = 0x5C6675,
    .on_accent = 0xFFFFFF,
    .accent = 0x1F5FBF,
    .danger = 0xB3261E,
    .warning = 0x8A5A00,
    .good = 0x1B7A43,
    .user_message = 0xE3ECFA,
    .code = 0xEEF0F4,
    .selection = 0xB5D0F7,
    .series = {0x2F6FCF, 0x1B9E77, 0xD98A00, 0x8E5BC0, 0x7A8494, 0xDCE1E8, 0xC2417C, 0x4E9AA8},
};
constexpr Theme kDark{
    .background = 0x15181D,
    .panel = 0x1C2026,
    .raised = 0x2A3038,
    .border = 0x3C444F,
    .text = 0xE4E8EE,
    .faint = 0x9AA5B4,
    .on_accent = 0xFFFFFF,
    .accent = 0x3B76D0,
    .danger = 0xF08A80,
    .warning = 0xE8B95A,
    .good = 0x6CCB95,
    .user_message = 0x243349,
    .code = 0x11141A,
    .selection = 0x2F548C,
    .series = {0x5B94E8, 0x39C79A, 0xF0AE3C, 0xB184E0, 0x8A95A6, 0x2E353F, 0xE56FA4, 0x6FC1D0},
};
constexpr Theme kContrast{
    .background = 0x000000,
    .panel = 0x000000,
    .raised = 0x1F1F1F,
    .border = 0xFFFFFF,
    .text = 0xFFFFFF,
    .faint = 0xD8D8D8,
    .on_accent = 0x000000,
    .accent = 0xFFD400,
    .danger = 0xFF8F8F,
    .warning = 0xFFD400,
    .good = 0x7CFF9B,
    .user_message = 0x00224D,
    .code = 0x141414,
    .selection = 0x005FCC,
    .series = {0x4DA3FF, 0x00E5A0, 0xFFB000, 0xD79BFF, 0xB0B0B0, 0x303030, 0xFF7AB8, 0x66E8FF},
};

Theme g_theme = kDark;
float g_scale = 1;

}  // namespace

ThemeKind theme_of(std::string_view name, bool system_is_dark) {
  if (name == "light") return ThemeKind::light;
  if (name == "dark") return ThemeKind::dark;
  if (name == "contrast") return ThemeKind::contrast;
  return system_is_dark ? ThemeKind::dark : ThemeKind::light;
}

const Theme& theme_colours(ThemeKind kind) {
  switch (kind) {
    case ThemeKind::light: return kLight;
    case ThemeKind::contrast: return kContrast;
    case ThemeKind::dark: break;
  }
  return kDark;
}

const Theme& theme() { return g_theme; }
float scale() { return g_scale; }

ImVec4 colour(Rgb rgb, float alpha) {
  return {static_cast<float>(rgb >> 16 & 255) / 255, static_cast<float>(rgb >> 8 & 255) / 255,
          static_cast<float>(rgb & 255) / 255, alpha};
}

unsigned packed(Rgb rgb, float alpha) { return ImGui::ColorConvertFloat4ToU32(colour(rgb, alpha)); }

void apply_theme(ThemeKind kind, float scale) {
  g_theme = theme_colours(kind);
  g_scale = scale;
  const Theme& t = g_theme;
  ImGuiStyle style;  // ImGui's own measures, to be scaled once
  style.WindowPadding = {12, 10};
  style.FramePadding = {8, 5};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.CellPadding = {6, 4};
  style.IndentSpacing = 16;
  style.ScrollbarSize = 12;
  style.GrabMinSize = 12;
  style.WindowRounding = 0;
  style.ChildRounding = 6;
  style.FrameRounding = 5;
  style.PopupRounding = 6;
  style.ScrollbarRounding = 6;
  style.GrabRounding = 5;
  style.TabRounding = 5;
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 1;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = kind == ThemeKind::contrast ? 1.0f : 0.0f;
  style.ScaleAllSizes(scale);
  ImVec4* c = style.Colors;
  c[ImGuiCol_Text] = colour(t.text);
  c[ImGuiCol_TextDisabled] = colour(t.faint);
  c[ImGuiCol_WindowBg] = colour(t.background);
  c[ImGuiCol_ChildBg] = colour(t.panel, 0);
  c[ImGuiCol_PopupBg] = colour(t.panel);
  c[ImGuiCol_Border] = colour(t.border);
  c[ImGuiCol_BorderShadow] = colour(0, 0);
  c[ImGuiCol_FrameBg] = colour(t.raised);
  c[ImGuiCol_FrameBgHovered] = colour(t.raised, 0.8f);
  c[ImGuiCol_FrameBgActive] = colour(t.raised, 0.6f);
  c[ImGuiCol_TitleBg] = c[ImGuiCol_TitleBgActive] = c[ImGuiCol_TitleBgCollapsed] = colour(t.panel);
  c[ImGuiCol_MenuBarBg] = colour(t.panel);
  c[ImGuiCol_ScrollbarBg] = colour(t.background, 0);
  c[ImGuiCol_ScrollbarGrab] = colour(t.border);
  c[ImGuiCol_ScrollbarGrabHovered] = colour(t.faint);
  c[ImGuiCol_ScrollbarGrabActive] = colour(t.faint);
  c[ImGuiCol_CheckMark] = colour(t.accent);
  c[ImGuiCol_SliderGrab] = c[ImGuiCol_SliderGrabActive] = colour(t.accent);
  c[ImGuiCol_Button] = colour(t.raised);
  c[ImGuiCol_ButtonHovered] = colour(t.border);
  c[ImGuiCol_ButtonActive] = colour(t.border, 0.7f);
  c[ImGuiCol_Header] = colour(t.raised);
  c[ImGuiCol_HeaderHovered] = colour(t.raised, 0.7f);
  c[ImGuiCol_HeaderActive] = colour(t.border);
  c[ImGuiCol_Separator] = c[ImGuiCol_SeparatorHovered] = c[ImGuiCol_SeparatorActive] =
      colour(t.border);
  c[ImGuiCol_ResizeGrip] = colour(t.border, 0);
  c[ImGuiCol_Tab] = colour(t.panel);
  c[ImGuiCol_TabHovered] = c[ImGuiCol_TabActive] = colour(t.raised);
  c[ImGuiCol_PlotHistogram] = c[ImGuiCol_PlotLines] = colour(t.accent);
  c[ImGuiCol_TableHeaderBg] = colour(t.raised);
  c[ImGuiCol_TableBorderStrong] = c[ImGuiCol_TableBorderLight] = colour(t.border);
  c[ImGuiCol_TableRowBg] = colour(t.panel, 0);
  c[ImGuiCol_TableRowBgAlt] = colour(t.raised, 0.35f);
  c[ImGuiCol_TextSelectedBg] = colour(t.selection);
  c[ImGuiCol_DragDropTarget] = colour(t.accent);
  c[ImGuiCol_NavHighlight] = colour(t.accent);
  c[ImGuiCol_ModalWindowDimBg] = colour(0x000000, 0.5f);
  ImGui::GetStyle() = style;
}

}  // namespace infer::gui
