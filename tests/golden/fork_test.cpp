// Sessions that begin as another one, of every family of models and on several devices: bit for bit
// the logits of a session that was given the tokens.
#include <doctest.h>

#include <algorithm>
#include <string>

#include "infer/infer.hpp"
#include "tests/devices.h"
#include "tests/golden/golden.h"
#include "tests/kept_devices.h"

namespace infer::test {
namespace {

std::vector<float> logits_of(Session& session, std::span<const int32_t> tokens) {
  std::vector<float> all;
  const Status status = session.evaluate(tokens, [&](int64_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
    return true;
  });
  CHECK_MESSAGE(status.ok(), status.message());
  return all;
}

/// Two texts that begin alike: one goes on in the session, the other in its fork.
void check_fork(const GoldenModel& model, const LoadOptions& load) {
  INFO(model.name << " on " << load.device << " " << load.gpu_layers);
  const auto engine = Engine::load(model.path, load);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  const std::vector<int32_t>& tokens = model.tokens;
  std::vector<int32_t> begin;
  while (begin.size() < 70) begin.push_back(tokens[begin.size() % tokens.size()]);
  const std::vector<int32_t> reversed(tokens.rbegin(), tokens.rend());
  const auto session = (*engine)->open_session().value();
  REQUIRE(session->evaluate(begin, {}).ok());
  const auto fork = session->fork().value();
  const std::vector<float> one = logits_of(*session, tokens);
  const std::vector<float> two = logits_of(*fork, reversed);
  LoadOptions alone = load;
  alone.prefix_reuse = false;
  const auto plain = Engine::load(model.path, alone);
  REQUIRE_MESSAGE(plain.has_value(), plain.error().message());
  const auto given = (*plain)->open_session().value();
  REQUIRE(given->evaluate(begin, {}).ok());
  CHECK(one == logits_of(*given, tokens));
  const auto other = (*plain)->open_session().value();
  REQUIRE(other->evaluate(begin, {}).ok());
  CHECK(two == logits_of(*other, reversed));
}

LoadOptions small() {
  LoadOptions load;
  load.context = 300;  // GPT-2 has positions for 320
  load.batch_rows = 32;
  load.threads = 1;
  return load;
}

}  // namespace

TEST_CASE("a fork computes what a session that was given the tokens computes") {
  for (const GoldenModel& model : golden_models_with_new_steps()) check_fork(model, small());
}

TEST_CASE("a fork whose layers are on several devices") {
  const std::vector<std::string> devices = other_devices();
  if (devices.empty()) return;
  const KeptDevices kept;
  for (const GoldenModel& model : golden_models()) {
    if (model.name != "llama-q4_k" && model.name != "gpt-oss-mxfp4") continue;
    for (const int32_t layers : {1, 99}) {
      LoadOptions load = small();
      load.device = devices[0];
      load.gpu_layers = layers;
      check_fork(model, load);
    }
  }
}

}  // namespace infer::test
