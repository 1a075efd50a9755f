#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/session/placements.h"

#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <string>

namespace infer {
namespace {

constexpr uint32_t kMaxSteps = 100'000;  // of one match; names are short, so this is plenty
constexpr size_t kMaxPatterns = 1024;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

/// Finds one regular expression in names.
class Pattern {
 public:
  static Result<Pattern> compile(const std::string& text) {
    int problem = 0;
    size_t at = 0;
    Pattern pattern;
    pattern.text_ = text;
    pattern.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                      &problem, &at, nullptr));
    if (pattern.code_ == nullptr) {
      char reason[160] = {};
      pcre2_get_error_message(problem, reinterpret_cast<PCRE2_UCHAR*>(reason), sizeof reason);
      return fail(StatusCode::invalid_argument,
                  "placement '{}': not a regular expression: {} at byte {}", text, reason, at);
    }
    pattern.match_.reset(pcre2_match_data_create(1, nullptr));
    pattern.context_.reset(pcre2_match_context_create(nullptr));
    if (pattern.match_ == nullptr || pattern.context_ == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(pattern.context_.get(), kMaxSteps);
    return pattern;
  }

  Result<bool> is_in(const std::string& name) const {
    const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()),
                                  name.size(), 0, 0, match_.get(), context_.get());
    if (found >= 0) return true;
    if (found == PCRE2_ERROR_NOMATCH) return false;
    return fail(StatusCode::invalid_argument,
                "placement '{}': takes too many steps with the name '{}'", text_, name);
  }

 private:
  std::string text_;
  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_data, FreeMatch> match_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
};

/// Makes "vulkan:0" of "Vulkan0" and "VULKAN:0", and "cpu" of "CPU" and "cpu:0".
std::string device_name(const std::string& given) {
  std::string name;
  for (const char c : given) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !name.empty() && std::isalpha(static_cast<unsigned char>(name.back()))) {
      name += ':';
    }
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name == "cpu:0" ? "cpu" : name;
}

Result<int32_t> device_number(const std::string& given,
                              std::span<const std::unique_ptr<Device>> devices) {
  const std::string name = device_name(given);
  std::string known;
  for (size_t d = 0; d < devices.size(); ++d) {
    const std::string own = devices[d]->info().name;
    // "vulkan" means the device of that kind, if there is only one.
    const bool only =
        own.starts_with(name + ":") && std::ranges::count_if(devices, [&](const auto& device) {
                                         return device->info().name.starts_with(name + ":");
                                       }) == 1;
    if (own == name || only) return static_cast<int32_t>(d);
    known += (known.empty() ? "" : ", ") + own;
  }
  return fail(
      StatusCode::invalid_argument,
      "placement on '{}': the model is loaded on {}; name the device in the list of devices "
      "too",
      given, known);
}

}  // namespace

Result<std::vector<int32_t>> weight_devices(std::span<const TensorPlacement> placements,
                                            std::span<const Weight> weights,
                                            std::span<const std::unique_ptr<Device>> devices) {
  if (placements.empty()) return std::vector<int32_t>();
  if (placements.size() > kMaxPatterns) {
    return fail(StatusCode::invalid_argument, "{} placements: expected at most {}",
                placements.size(), kMaxPatterns);
  }
  std::vector<int32_t> found(weights.size(), -1);
  for (const TensorPlacement& placement : placements) {
    INFER_TRY(const Pattern pattern, Pattern::compile(placement.pattern));
    INFER_TRY(const int32_t device, device_number(placement.device, devices));
    bool used = false;
    for (size_t w = 0; w < weights.size(); ++w) {
      INFER_TRY(const bool matches, pattern.is_in(weights[w].name));
      used = used || matches;
      if (matches && found[w] < 0) found[w] = device;
    }
    if (!used) {
      return fail(StatusCode::invalid_argument,
                  "placement '{}': no tensor of the model has such a name ('infer info --tensors' "
                  "lists them)",
                  placement.pattern);
    }
  }
  return found;
}

}  // namespace infer
