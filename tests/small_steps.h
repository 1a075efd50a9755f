// A small model on a device in small steps, for tests of calls that fail.
#pragma once

#include <doctest.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session/engine_impl.h"
#include "infer/infer.hpp"
#include "tests/support.h"

namespace infer::test {

inline std::string small_model() { return data_path("golden/llama-q4_0.gguf"); }
inline const std::vector<int32_t> kPrompt{1, 300, 262, 290};

inline LoadOptions small_steps(const std::string& device) {
  LoadOptions load;
  load.device = device;
  load.threads = 1;
  load.context = 128;
  load.batch_rows = 2;  // two programs
  load.output_rows = 2;
  load.fewer_rows = false;
  load.exact = true;
  return load;
}

/// Loads, generates greedily and closes.
inline Result<std::vector<int32_t>> generate(const LoadOptions& load, const OpenDevice& open,
                                             const std::string& path = small_model(),
                                             std::span<const int32_t> prompt = kPrompt) {
  INFER_TRY(const std::unique_ptr<Engine> engine, Engine::Impl::open(path, load, open));
  INFER_TRY(const std::unique_ptr<Session> session, engine->open_session());
  GenerateOptions options;
  options.max_tokens = 4;
  options.ignore_end = true;
  options.sampling.temperature = 0;
  std::vector<int32_t> tokens;
  const auto take = [&](int32_t token, std::string_view) {
    tokens.push_back(token);
    return true;
  };
  INFER_TRY(const GenerateResult made, session->generate(prompt, options, take));
  CHECK(made.generated_tokens == 4);
  return tokens;
}

/// Has the first and the last call from every place of the driver fail: a typed failure comes of it
/// or none, and nothing is leaked. Driver: fail_after(), calls(), places(), failed(), live().
/// `functions`: of the driver that fail at least.
template <typename Driver>
void check_failing_calls(Driver& driver, const std::string& device, const OpenDevice& open,
                         size_t functions) {
  const LoadOptions load = small_steps(device);
  const Result<std::vector<int32_t>> expected = generate(load, open);
  REQUIRE_MESSAGE(expected.has_value(), expected.error().message());
  const int64_t calls = driver.calls();
  const std::vector<int64_t> places = driver.places(true);
  CHECK(calls > 100);
  CHECK(places.size() > 40);
  CHECK(driver.live() == 0);
  std::set<std::string> failed;
  for (const int64_t n : places) {
    driver.fail_after(n);
    const Result<std::vector<int32_t>> made = generate(load, open);
    INFO("call " << n << " of " << calls << ": " << driver.failed());
    failed.insert(driver.failed());
    CHECK(driver.live() == 0);
    if (made) {
      CHECK(*made == *expected);
      continue;
    }
    const StatusCode code = made.error().code();
    CHECK((code == StatusCode::device || code == StatusCode::out_of_memory));
    const std::string kind = device.substr(0, device.find(':'));
    CHECK(made.error().message().find(kind) != std::string::npos);
  }
  CHECK(failed.size() >= functions);
  driver.fail_after(-1);
  CHECK(generate(load, open).value() == *expected);
}

/// The same with the CPU as fallback, which then makes the text.
template <typename Driver>
void check_fallback(Driver& driver, const std::string& device, const OpenDevice& open) {
  const std::vector<int32_t> expected = generate(small_steps("cpu"), open_device).value();
  std::vector<std::string> warnings;
  set_log_callback([&](Verbosity, std::string_view text) { warnings.emplace_back(text); });
  LoadOptions load = small_steps(device);
  load.fallback = "cpu";
  driver.fail_after(-1);
  CHECK(generate(load, open).value() == expected);
  const int64_t calls = driver.calls();
  CHECK(warnings.empty());
  for (const int64_t n : driver.places(false)) {
    driver.fail_after(n);
    warnings.clear();
    const Result<std::vector<int32_t>> made = generate(load, open);
    INFO("call " << n << " of " << calls << ": " << driver.failed());
    CHECK(driver.live() == 0);
    // Where memory runs out in the midst of generating, that is a failure.
    if (!made) {
      CHECK(made.error().code() == StatusCode::out_of_memory);
      continue;
    }
    CHECK(*made == expected);
  }
  set_log_callback({});
}

}  // namespace infer::test
