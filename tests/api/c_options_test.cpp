// The C API: every row of load_options.def and samplers.def.
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include "tests/api/c_model.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("C: the defaults of loading are those of C++") {
  infer_load_options c;
  infer_load_options_init(&c, sizeof(c));
  const LoadOptions options;
  const auto text = [](const char* value) { return std::string(value == nullptr ? "" : value); };
#define INFER_LOAD_TEXT(name, ...) CHECK(text(c.name) == options.name);
#define INFER_LOAD_LIST(name, ...) CHECK(c.name == nullptr);
#define INFER_LOAD_NUMBER(type, name, ...) CHECK(c.name == options.name);
#define INFER_LOAD_FLAG(name, ...) CHECK((c.name != 0) == options.name);
#include "infer/load_options.def"
}

TEST_CASE("C: every option of loading arrives") {
  infer_memory memory;
  const auto refused = [&](const infer_load_options& options, const std::string& says) {
    CAPTURE(says);
    CHECK(infer_plan(kModel.c_str(), &options, &memory, sizeof(memory)) == INFER_INVALID_ARGUMENT);
    CHECK(std::string(infer_last_error()).find(says) != std::string::npos);
  };
  infer_load_options options;
#define INFER_LOAD_NUMBER(type, name, preset, low, ...) \
  infer_load_options_init(&options, sizeof(options));   \
  options.name = static_cast<type>((low)-1);            \
  refused(options, #name);
#include "infer/load_options.def"
  infer_load_options_init(&options, sizeof(options));
  infer_tensor_placement place{"no such tensor", "cpu"};
  options.placements = &place;
  CHECK(infer_plan(kModel.c_str(), &options, &memory, sizeof(memory)) == INFER_OK);
  options.placement_count = 1;
  refused(options, "no such tensor");
  place.pattern = "ffn";
  CHECK(infer_plan(kModel.c_str(), &options, &memory, sizeof(memory)) == INFER_OK);
  place.device = nullptr;
  refused(options, "placement");
  options.placements = nullptr;
  refused(options, "placements");
}

TEST_CASE("C: every number of sampling arrives, and unset it is as absent") {
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  const auto generate = [&](const infer_generate_options& options) {
    REQUIRE(infer_session_truncate(session, 0) == INFER_OK);
    return infer_generate(session, kPrompt.data(), kPrompt.size(), &options, nullptr, nullptr);
  };
  // What is refused: NaN, a number below the range, or one above it.
  const auto refused = [&](const char* name, auto infer_generate_options::*field, double low,
                           double high) {
    CAPTURE(name);
    infer_generate_options options = generate_c(1);
    using T = std::remove_reference_t<decltype(options.*field)>;
    CHECK(generate(options) == INFER_OK);
    if constexpr (!std::numeric_limits<T>::is_integer) {
      options.*field = std::numeric_limits<T>::quiet_NaN();
    } else if (high < std::numeric_limits<T>::max()) {
      options.*field = static_cast<T>(high + 1);
    } else if (low != 0) {
      options.*field = static_cast<T>(low > 0 ? 0 : low - 2);
    } else {
      return;
    }
    CHECK(generate(options) == INFER_INVALID_ARGUMENT);
    CHECK(std::string(infer_last_error()).find(name) != std::string::npos);
    options.*field = static_cast<T>(low);
    CHECK(generate(options) == INFER_OK);
    if (low < 0) return;
    options.*field = -1;
    CHECK(generate(options) == INFER_OK);
  };
#define INFER_SAMPLING(type, name, preset, low, high, ...) \
  refused(#name, &infer_generate_options::name, low, high);
#include "infer/samplers.def"
  infer_generate_options options;
  infer_generate_options_init(&options, sizeof(options));
  CHECK(options.temperature == -1);
  CHECK(options.penalty_last == -2);
  CHECK(options.frequency_penalty == 0);
  CHECK(options.dry_penalty_last == -1);
  infer_session_free(session);
  infer_engine_free(engine);
}

TEST_CASE("C: what would fit in place of options that do not") {
  infer_alternative_list* list = nullptr;
  const auto path = kModel.c_str();
  REQUIRE(infer_alternative_list_create(path, nullptr, &list) == INFER_OK);
  CHECK(infer_alternative_list_size(list) == 0);  // it fits
  CHECK(infer_alternative_list_get(list, 0) == nullptr);
  infer_alternative_list_free(list);
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  int user = 0;
  options.progress_user = &user;
  options.drafters = "ngram;suffix";
  options.context = 1 << 20;
  const Result<MemoryReport> least = [&] {
    LoadOptions shorter;
    shorter.context = 2048;
    shorter.drafters = {"ngram", "suffix"};
    return plan_model(kModel, shorter);
  }();
  REQUIRE(least.has_value());
  options.memory_limit = least->total;
  infer_memory memory;
  REQUIRE(infer_plan(path, &options, &memory, sizeof(memory)) == INFER_DOES_NOT_FIT);
  REQUIRE(infer_alternative_list_create(path, &options, &list) == INFER_OK);
  LoadOptions same;
  same.drafters = {"ngram", "suffix"};
  same.context = options.context;
  same.memory_limit = options.memory_limit;
  const auto expected = alternatives(kModel, same);
  REQUIRE(expected.has_value());
  REQUIRE(infer_alternative_list_size(list) == expected->size());
  bool shorter = false;
  for (size_t i = 0; i < expected->size(); ++i) {
    const infer_alternative* alternative = infer_alternative_list_get(list, i);
    REQUIRE(alternative != nullptr);
    CHECK(alternative->kind == static_cast<int32_t>((*expected)[i].kind));
    CHECK(alternative->memory->total == (*expected)[i].plan.total);
    CHECK(alternative->options->context == (*expected)[i].options.context);
    CHECK(std::string(alternative->options->drafters) == options.drafters);
    CHECK(std::string(alternative->options->device) == "cpu");
    CHECK(alternative->options->progress_user == &user);
    shorter = shorter || alternative->kind == INFER_FITS_CONTEXT;
    if (alternative->kind == INFER_FITS_MEMORY) continue;  // needs that much free
    CHECK(infer_plan(path, alternative->options, &memory, sizeof(memory)) == INFER_OK);
    CHECK(memory.total <= options.memory_limit);
  }
  CHECK(shorter);
  CHECK(infer_alternative_list_get(list, expected->size()) == nullptr);
  infer_alternative_list_free(list);
  infer_alternative_list_free(nullptr);
  CHECK(infer_alternative_list_size(nullptr) == 0);
  CHECK(infer_alternative_list_create(nullptr, nullptr, &list) == INFER_INVALID_ARGUMENT);
  CHECK(infer_alternative_list_create(path, nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  options.struct_size = 0;
  CHECK(infer_alternative_list_create(path, &options, &list) == INFER_INVALID_ARGUMENT);
}

TEST_CASE("C: fields of options keep their places") {
  if constexpr (sizeof(void*) == 8) {
    CHECK(offsetof(infer_generate_options, temperature) == 132);
    CHECK(offsetof(infer_generate_options, dry_penalty_last) == 212);
    CHECK(offsetof(infer_load_options, device) == 40);
    CHECK(offsetof(infer_load_options, cache_folder_limit) == 208);
  }
}
