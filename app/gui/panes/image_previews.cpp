#include "gui/panes/image_previews.h"

#include <imgui/imgui.h>
#include <stb/stb_image.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "gui/open_gl.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

constexpr std::uintmax_t kMostFileBytes = 64 << 20;
constexpr int64_t kMostPixels = 64'000'000;
/// The longer side of what is kept.
constexpr int kMostSide = 256;
/// Wider ones are less high.
constexpr float kMostRatio = 3;
constexpr size_t kMostPictures = 200;

}  // namespace

ImagePreviews::~ImagePreviews() {
  decoder_.end();
  for (const auto& [path, picture] : pictures_) free_texture(picture.texture);
}

ImagePreviews::Decoded ImagePreviews::decode(const std::string& path) {
  Decoded out{.path = path};
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return out;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
  if (failed || bytes == 0 || bytes > kMostFileBytes) return out;
  std::vector<unsigned char> file(bytes);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(bytes));
  if (!in) return out;
  const int size = static_cast<int>(bytes);
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(file.data(), size, &width, &height, &channels) == 0) return out;
  if (width <= 0 || height <= 0 || int64_t{width} * height > kMostPixels) return out;
  const std::unique_ptr<unsigned char, void (*)(void*)> pixels(
      stbi_load_from_memory(file.data(), size, &width, &height, &channels, 4), stbi_image_free);
  if (pixels == nullptr) return out;
  // Each pixel that is kept is the mean of those that it stands for.
  const int by = (std::max(width, height) + kMostSide - 1) / kMostSide;
  out.width = std::max(width / by, 1);
  out.height = std::max(height / by, 1);
  out.rgba.reserve(static_cast<size_t>(out.width) * static_cast<size_t>(out.height) * 4);
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      int64_t sum[4] = {};
      int64_t count = 0;
      for (int from_y = y * by; from_y < std::min((y + 1) * by, height); ++from_y) {
        for (int from_x = x * by; from_x < std::min((x + 1) * by, width); ++from_x, ++count) {
          const size_t row = static_cast<size_t>(from_y) * static_cast<size_t>(width);
          const unsigned char* const from = pixels.get() + (row + static_cast<size_t>(from_x)) * 4;
          for (int c = 0; c < 4; ++c) sum[c] += from[c];
        }
      }
      for (const int64_t s : sum) out.rgba.push_back(static_cast<unsigned char>(s / count));
    }
  }
  return out;
}

void ImagePreviews::take_decoded() {
  for (const Decoded& decoded : decoded_.take()) {
    decoding_.clear();
    Picture& picture = pictures_[decoded.path];
    if (decoded.width == 0) continue;
    picture.texture = make_texture(decoded.width, decoded.height, decoded.rgba);
    picture.ratio = static_cast<float>(decoded.width) / static_cast<float>(decoded.height);
  }
}

void ImagePreviews::draw(const std::vector<std::string>& paths, float height) {
  take_decoded();
  const ui::Scope scope("images");
  const float end = ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x;
  bool first = true;
  for (const std::string& path : paths) {
    const auto known = pictures_.find(path);
    if (known == pictures_.end()) {
      if (!decoding_.empty() || pictures_.size() >= kMostPictures) continue;
      decoding_ = path;
      decoder_.submit([this, path] { decoded_.push(decode(path)); });
      continue;
    }
    const Picture& picture = known->second;
    if (picture.texture == 0) continue;
    const float width = height * std::min(picture.ratio, kMostRatio);
    if (!first) {
      ImGui::SameLine();
      if (ImGui::GetCursorPosX() + width > end) {
        ImGui::NewLine();
        break;
      }
    }
    first = false;
    ImGui::Image(reinterpret_cast<ImTextureID>(static_cast<intptr_t>(picture.texture)),
                 {width, width / picture.ratio});
    ui::add_last_item("image", std::filesystem::path(path).filename().string(), path);
    ui::tooltip(path);
  }
}

}  // namespace infer::gui
