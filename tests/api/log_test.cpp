// The log callback, through both APIs.
#include <stdexcept>

#include "engine/core/log.h"
#include "infer/infer.h"
#include "tests/api/model.h"

using namespace infer;

TEST_CASE("the log goes to the callback, by level, and a sink that throws does no harm") {
  std::vector<std::pair<int, std::string>> lines;
  const auto take = [](void* user, infer_log_level level, const char* message) {
    static_cast<decltype(lines)*>(user)->emplace_back(level, message);
  };
  REQUIRE(infer_set_log_callback(take, &lines) == INFER_OK);
  log(LogLevel::warning, "one {}", 1);
  log(LogLevel::info, "below the level");
  REQUIRE(infer_set_log_level(INFER_LOG_INFO) == INFER_OK);
  log(LogLevel::info, "two");
  REQUIRE(infer_set_log_level(INFER_LOG_ERROR) == INFER_OK);
  log(LogLevel::warning, "dropped");
  log(LogLevel::error, "three");
  REQUIRE(infer_set_log_level(INFER_LOG_WARNING) == INFER_OK);
  CHECK(lines == decltype(lines){{INFER_LOG_WARNING, "one 1"},
                                 {INFER_LOG_INFO, "two"},
                                 {INFER_LOG_ERROR, "three"}});
  int calls = 0;
  set_log_callback([&](Verbosity, std::string_view) {
    ++calls;
    throw std::runtime_error("full");
  });
  log(LogLevel::warning, "x");
  set_log_callback({});
  CHECK(calls == 1);
}
