#include "chat/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "chat/image_marks.h"
#include "chat/messages.h"
#include "chat/template_input.h"

namespace infer::chat {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each digit; -1: it is none.
constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

/// The address of a part that is an image; null if it is something else.
const std::string* address_of(const Json& part) {
  if (!part.is_object() || text_in(part, "type") != "image_url") return nullptr;
  const auto found = part.find("image_url");
  if (found == part.end()) return nullptr;
  if (found->is_string()) return found->get_ptr<const std::string*>();
  if (!found->is_object()) return nullptr;
  const auto url = found->find("url");
  return url != found->end() && url->is_string() ? url->get_ptr<const std::string*>() : nullptr;
}

Result<std::string> read_image_file(const std::string& path) {
  const auto failed = [&](StatusCode code, std::string_view why) {
    return tl::unexpected(Status(code, fmt::format("{}: {}", path, why)));
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) return failed(StatusCode::not_found, "the image cannot be opened");
  std::string bytes;
  char piece[1 << 16];
  while (file.read(piece, sizeof(piece)) || file.gcount() > 0) {
    bytes.append(piece, static_cast<size_t>(file.gcount()));
    if (bytes.size() > kMostImageBytes) {
      return failed(StatusCode::bad_file,
                    fmt::format("expected an image of at most {} bytes", kMostImageBytes));
    }
  }
  if (file.bad()) return failed(StatusCode::io, "the image cannot be read");
  return bytes;
}

/// The image whose tokens come first; null: none.
const ModelImage* image_at(std::span<const int32_t> tokens, std::span<const ModelImage> images) {
  for (const ModelImage& image : images) {
    const std::vector<int32_t>& own = image.tokens;
    if (own.empty() || own.size() > tokens.size()) continue;
    if (std::ranges::equal(tokens.first(own.size()), own)) return &image;
  }
  return nullptr;
}

/// Contents in parts become texts, with `image` in place of each image.
void join_parts(Json& messages, const std::string& image) {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content")) continue;
    Json& content = message["content"];
    if (!content.is_array()) continue;
    std::string text;
    for (const Json& part : content) {
      if (!part.is_object()) continue;
      text += text_in(part, "type") == "image" ? image : text_in(part, "text");
    }
    content = text;
  }
}

}  // namespace

Result<Json> content_of(const std::string& text) {
  Json parts = Json::array();
  const auto add_text = [&](std::string_view part) {
    if (!part.empty()) parts.push_back({{"type", "text"}, {"text", part}});
  };
  const std::vector<ImageMark> marks = image_marks(text);
  if (marks.empty()) return Json(text);
  size_t taken = 0;
  for (const auto& [begin, end, path] : marks) {
    auto file = read_image_file(path);
    if (!file) return tl::unexpected(file.error());
    add_text(std::string_view(text).substr(taken, begin - taken));
    parts.push_back(image_part(*file));
    taken = end;
  }
  add_text(std::string_view(text).substr(taken));
  return parts;
}

bool decode_base64(std::string_view text, std::string& bytes) {
  while (text.ends_with('=') || text.ends_with('\n') || text.ends_with('\r')) {
    text.remove_suffix(1);
  }
  bytes.clear();
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    const int value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return count < 6;
}

bool decode_image(std::string_view address, std::string& file) {
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kForm = ";base64,";
  if (!address.starts_with(kScheme)) return false;
  const size_t form = address.find(kForm);
  return form != std::string_view::npos && decode_base64(address.substr(form + kForm.size()), file);
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

Json image_part(std::string_view file) {
  const char* type = file.starts_with("\xff\xd8") ? "jpeg"
                     : file.starts_with("RIFF")   ? "webp"
                                                  : "png";
  return {
      {"type", "image_url"},
      {"image_url", {{"url", fmt::format("data:image/{};base64,{}", type, encode_base64(file))}}}};
}

Result<std::vector<std::string>> take_images(Json& messages) {
  std::vector<std::string> files;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (content == message.end() || !content->is_array()) continue;
    for (Json& part : *content) {
      const std::string* address = address_of(part);
      if (address == nullptr) continue;
      if (!decode_image(*address, files.emplace_back())) {
        return tl::unexpected(
            Status(StatusCode::invalid_argument,
                   fmt::format("message {}: image_url: expected data:image/png;base64,… with the "
                               "image itself, found '{}': no addresses are fetched",
                               i, address->substr(0, 40))));
      }
      part = {{"type", "image"}};
    }
  }
  return files;
}

Result<std::vector<ModelImage>> MessageImages::read(Engine& engine, Json& messages) {
  auto files = take_images(messages);
  if (!files) return tl::unexpected(files.error());
  std::vector<Known> read;
  std::vector<ModelImage> images;
  for (size_t i = 0; i < files->size(); ++i) {
    std::string& file = (*files)[i];
    const auto same = std::ranges::find(known_, file, &Known::file);
    if (same != known_.end()) {
      images.push_back(same->image);
    } else {
      auto image =
          engine.read_image(std::as_bytes(std::span(file)), fmt::format("image {}", i + 1));
      if (!image) return tl::unexpected(image.error());
      images.push_back(*std::move(image));
    }
    read.push_back({std::move(file), images.back()});
  }
  known_ = std::move(read);
  return images;
}

Result<std::string> render_with_images(const Engine& engine, const ChatTemplate& chat_template,
                                       Json variables, size_t count) {
  if (count == 0) return render_conversation(chat_template, std::move(variables));
  Result<std::string> text = render_conversation(chat_template, variables);
  if (text && engine.image_places(*text) == static_cast<int64_t>(count)) return text;
  join_parts(variables["messages"], engine.image_text());
  return render_conversation(chat_template, std::move(variables));
}

size_t begin_of_image(std::span<const int32_t> prompt, std::span<const ModelImage> images,
                      size_t place) {
  for (size_t i = 0; i < place;) {
    const ModelImage* image = image_at(prompt.subspan(i), images);
    const size_t size = image == nullptr ? 1 : image->tokens.size();
    if (place < i + size) return i;
    i += size;
  }
  return place;
}

std::vector<ModelImage> images_in(std::span<const int32_t> tokens,
                                  std::span<const ModelImage> images) {
  std::vector<ModelImage> found;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const ModelImage* image = image_at(tokens.subspan(i), images);
    if (image == nullptr) continue;
    found.push_back(*image);
    i += image->tokens.size() - 1;
  }
  return found;
}

}  // namespace infer::chat
