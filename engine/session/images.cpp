// Images in prompts.
#include <algorithm>
#include <utility>

#include "engine/core/file.h"
#include "engine/session/engine_impl.h"
#include "engine/session/fingerprint.h"

namespace infer {

Status Engine::Impl::load_images() {
  if (!opened.tower) return {};
  const TowerInfo& tower = opened.tower->tower->tower();
  const std::string& path = opened.tower->source->metadata().source();
  EncodeOptions form;
  form.parse_special = true;
  form.add_special = false;
  INFER_TRY_S(const std::vector<int32_t> ids, tokenizer->encode(tower.token, form));
  if (ids.size() != 1) {
    return error(StatusCode::bad_file,
                 "{}: its images stand as the token {}, which the model's vocabulary does not have",
                 path, tower.token);
  }
  image_token = ids.front();
  image_mark = tower.token;
  image_text = tower.text;
  image_expanded = tower.expanded;
  keeps_image_token = tower.keeps_token;
  if (!tower.line_token.empty() && opened.tower->tower->line_end().empty()) {
    INFER_TRY_S(const std::vector<int32_t> line, tokenizer->encode(tower.line_token, form));
    if (line.size() == 1) {
      INFER_TRY_S(std::vector<float> row, read_row(*opened.source, "token_embd.weight", line[0]));
      opened.tower->tower->set_line_end(std::move(row));
    }
  }
  INFER_TRY_S(const uint64_t seed, weights_fingerprint(*opened.tower->source));
  INFER_TRY_S(images, ImageReader::create(*opened.tower, opened.device_list(), seed));
  return {};
}

Result<std::vector<int32_t>> Engine::Impl::picture_text(const std::string& text) const {
  if (text.empty()) return std::vector<int32_t>();
  EncodeOptions form;
  form.parse_special = true;
  form.add_special = false;
  // Between marks of images, as it stands in a prompt.
  INFER_TRY(std::vector<int32_t> tokens, tokenizer->encode(image_mark + text + image_mark, form));
  if (tokens.size() < 2) {
    return fail(StatusCode::internal, "the text '{}' has no tokens", printable(text));
  }
  tokens.pop_back();
  tokens.erase(tokens.begin());
  return tokens;
}

bool Engine::reads_images() const {
  const std::lock_guard lock(impl_->placed_mutex);
  return impl_->opened.tower != nullptr;
}

const std::string& Engine::image_text() const { return impl_->image_text; }

int64_t Engine::image_places(std::string_view text) const {
  const std::string& mark = impl_->image_mark;
  if (mark.empty()) return 0;
  int64_t places = 0;
  for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at)) {
    ++places;
    at += mark.size();
  }
  return places;
}

Result<ModelImage> Engine::read_image(std::span<const std::byte> file, std::string_view name) {
  return guarded([&]() -> Result<ModelImage> {
    if (impl_->image_text.empty()) {
      return fail(StatusCode::unsupported,
                  "{}: {} was loaded without a file that reads images (mmproj)", name,
                  impl_->description.path);
    }
    INFER_TRY(const CallCount call, impl_->begin_call());
    INFER_CHECK_R(impl_->usable());
    std::shared_ptr<const OpenedTower> tower;
    {
      const std::lock_guard lock(impl_->placed_mutex);
      tower = impl_->opened.tower;
    }
    Result<std::shared_ptr<const ImageRows>> rows =
        fail(StatusCode::device, "{}: a device has failed, and images are not read any more", name);
    if (tower) {
      INFER_TRY(const ReadyImage ready, prepare_image(*tower, file, name, [&](const auto& text) {
                  return impl_->picture_text(text);
                }));
      impl_->thread->call([&] {
        const Status computed = guarded([&]() -> Status {
          if (!impl_->images) return {};  // the tower has no room on the CPU
          const auto none = std::move(rows);
          rows = impl_->run_or_fall_back(
              [&] { return impl_->images ? impl_->images->read(ready) : none; });
          return {};
        });
        if (!computed.ok()) rows = tl::unexpected(computed);
      });
    }
    INFER_CHECK_R(rows ? Status() : rows.error());
    ModelImage image;
    image.tokens = (*rows)->tokens;
    image.rows = *std::move(rows);
    return image;
  });
}

Result<std::vector<int32_t>> Engine::tokenize(std::string_view text, const TokenizeOptions& options,
                                              std::span<const ModelImage> images) const {
  if (images.empty()) return tokenize(text, options);
  return guarded([&]() -> Result<std::vector<int32_t>> {
    const std::string& mark = impl_->image_mark;
    const std::string& expanded = impl_->image_expanded;
    std::string whole;
    int64_t number = 0;
    while (!mark.empty() && !expanded.empty()) {
      const size_t at = text.find(mark);
      if (at == std::string_view::npos) break;
      whole += text.substr(0, at);
      const size_t place = expanded.find("{}");
      whole += expanded.substr(0, place);
      if (place != std::string::npos) {
        whole += std::to_string(number++);
        whole += expanded.substr(place + 2);
      }
      text.remove_prefix(at + mark.size());
    }
    whole += text;
    INFER_TRY(const std::vector<int32_t> tokens, tokenize(whole, options));
    return place_images(tokens, images);
  });
}

Result<std::vector<int32_t>> Engine::place_images(std::span<const int32_t> prompt,
                                                  std::span<const ModelImage> images) const {
  return guarded([&]() -> Result<std::vector<int32_t>> {
    const auto places = std::ranges::count(prompt, impl_->image_token);
    if (impl_->image_text.empty() ? !images.empty() : places != std::ssize(images)) {
      return fail(StatusCode::invalid_argument,
                  "images: expected as many as the prompt has places for ({}), {}, found {}",
                  impl_->image_mark, impl_->image_text.empty() ? 0 : places, images.size());
    }
    std::vector<int32_t> placed;
    size_t next = 0;
    for (const int32_t token : prompt) {
      if (images.empty() || token != impl_->image_token) {
        placed.push_back(token);
        continue;
      }
      if (impl_->keeps_image_token) placed.push_back(token);
      const std::vector<int32_t>& rows = images[next++].tokens;
      placed.insert(placed.end(), rows.begin(), rows.end());
    }
    return placed;
  });
}

}  // namespace infer
