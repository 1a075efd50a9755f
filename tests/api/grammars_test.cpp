// Grammars of an engine's sessions: compiled beside what goes on, within bounds of memory.
#include "engine/generate/grammars.h"

#include <atomic>
#include <chrono>
#include <future>
#include <latch>

#include "engine/sample/grammar/gbnf.h"
#include "engine/session/engine_impl.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

const std::string kSlow = "# slow\nroot ::= [a-z ]+";
const std::string kQuick = "root ::= [a-z ]*";

/// An engine whose grammars that begin with "# slow" are compiled only once they may be.
struct SlowGrammars {
  std::unique_ptr<Engine> engine = load();
  std::latch entered{1};
  std::latch may_end{1};
  std::atomic<int> compiled{0};

  SlowGrammars() {
    Engine::Impl& impl = EngineAccess::impl(*engine);
    impl.grammars = std::make_unique<Grammars>(
        impl.tokenizer, Grammars::kKeptBytes,
        [this](bool, const std::string& text) -> Result<std::shared_ptr<const CompiledGrammar>> {
          ++compiled;
          if (text.starts_with("# slow")) {
            entered.count_down();
            may_end.wait();
          }
          return compile_gbnf(text);
        });
  }
};

GenerateOptions held_to(const std::string& grammar, int32_t tokens) {
  GenerateOptions options = sampled(tokens);
  options.grammar = grammar;
  return options;
}

bool ends(const std::future<std::vector<int32_t>>& call) {
  return call.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
}

}  // namespace

TEST_CASE("a cancel counts while the grammar is compiled") {
  SlowGrammars slow;
  const auto session = open(*slow.engine);
  auto call = std::async(std::launch::async,
                         [&] { return session->generate(kPrompt, held_to(kSlow, 20), {}); });
  slow.entered.wait();
  session->cancel();
  const auto result = call.get();  // while it is compiled
  slow.may_end.count_down();
  REQUIRE_MESSAGE(result.has_value(), result.error().message());
  CHECK(result->reason == FinishReason::cancelled);
  CHECK(result->generated_tokens == 0);
  CHECK(session->length() == 0);
  CHECK(!tokens_of(*session, kPrompt, held_to(kSlow, 5)).empty());  // that call alone
}

TEST_CASE("others go on while a grammar is compiled") {
  SlowGrammars slow;
  const auto waits = open(*slow.engine);
  auto call =
      std::async(std::launch::async, [&] { return tokens_of(*waits, kPrompt, held_to(kSlow, 8)); });
  slow.entered.wait();
  const auto plain = open(*slow.engine);
  const auto held = open(*slow.engine);
  auto without =
      std::async(std::launch::async, [&] { return tokens_of(*plain, kPrompt, sampled(20)); });
  auto with =
      std::async(std::launch::async, [&] { return tokens_of(*held, kPrompt, held_to(kQuick, 8)); });
  const bool went_on = ends(without) && ends(with);
  CHECK(went_on);
  CHECK(slow.compiled == 2);
  slow.may_end.count_down();
  CHECK(without.get().size() == 20);
  CHECK(!with.get().empty());
  CHECK(!call.get().empty());
}

TEST_CASE("a grammar that several ask for is compiled once; one that fails is not kept") {
  SlowGrammars slow;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::future<std::vector<int32_t>>> calls;
  for (int i = 0; i < 4; ++i) sessions.push_back(open(*slow.engine));
  for (const auto& session : sessions) {
    calls.push_back(std::async(std::launch::async, [&session] {
      return tokens_of(*session, kPrompt, held_to(kSlow, 6));
    }));
  }
  slow.entered.wait();
  slow.may_end.count_down();
  const std::vector<int32_t> first = calls[0].get();
  CHECK(!first.empty());
  for (int i = 1; i < 4; ++i) CHECK(calls[static_cast<size_t>(i)].get() == first);
  CHECK(slow.compiled == 1);
  for (int i = 0; i < 2; ++i) {
    const auto failed = sessions[0]->generate({}, held_to("root ::= nothing", 6), {});
    REQUIRE(!failed.has_value());
    CHECK(failed.error().code() == StatusCode::invalid_argument);
  }
  CHECK(slow.compiled == 3);
}

TEST_CASE("all grammars together stay within their limit, and give the same tokens") {
  const auto engine = load();
  Engine::Impl& impl = EngineAccess::impl(*engine);
  const auto grammar = [](int i) {
    return "root ::= word{" + std::to_string(i + 1) +
           ",}\nword ::= [a-z]+ (\" \" | \", \" | \"\\n\")";
  };
  std::vector<std::vector<int32_t>> expected;
  for (int i = 0; i < 12; ++i) {
    impl.grammars = std::make_unique<Grammars>(impl.tokenizer);
    expected.push_back(tokens_of(*open(*engine), kPrompt, held_to(grammar(i), 30)));
    CHECK(expected.back().size() == 30);
  }
  const int64_t one = impl.grammars->bytes();
  // Room for the vocabulary and about three of them.
  impl.grammars = std::make_unique<Grammars>(impl.tokenizer);
  REQUIRE(impl.grammars->constraint(held_to("root ::= [a-z]", 1)).has_value());
  const int64_t least = impl.grammars->bytes();
  const int64_t limit = least + 3 * (one - least);
  impl.grammars = std::make_unique<Grammars>(impl.tokenizer, limit);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 12; ++i) {
      const auto session = open(*engine);
      std::vector<int32_t> tokens;
      const auto result =
          session->generate(kPrompt, held_to(grammar(i), 30), [&](int32_t token, auto) {
            tokens.push_back(token);
            return true;
          });
      REQUIRE_MESSAGE(result.has_value(), result.error().message());
      CHECK(tokens == expected[static_cast<size_t>(i)]);
      CHECK(impl.grammars->bytes() <= limit);
    }
  }
  // All at once, in less room than two of them take: tables are given up while they are in use.
  impl.grammars = std::make_unique<Grammars>(impl.tokenizer, least + (one - least) * 3 / 2);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::future<std::vector<int32_t>>> calls;
  for (int i = 0; i < 4; ++i) sessions.push_back(open(*engine));
  for (int i = 0; i < 4; ++i) {
    Session* const session = sessions[static_cast<size_t>(i)].get();
    calls.push_back(std::async(std::launch::async, [session, i, &grammar] {
      return tokens_of(*session, kPrompt, held_to(grammar(i), 30));
    }));
  }
  for (int i = 0; i < 4; ++i) {
    CHECK(calls[static_cast<size_t>(i)].get() == expected[static_cast<size_t>(i)]);
  }
}

TEST_CASE("a grammar for which those in use leave no room is refused for now") {
  const auto engine = load();
  Engine::Impl& impl = EngineAccess::impl(*engine);
  const auto many = [](int i) {  // a large grammar
    std::string text = "root ::= \"" + std::to_string(i) + "\"";
    for (int k = 0; k < 2000; ++k) text += " | \"w" + std::to_string(k * 7 + i) + "\"";
    return text;
  };
  REQUIRE(impl.grammars->constraint(held_to("root ::= [a-z]", 1)).has_value());
  const int64_t least = impl.grammars->bytes();
  REQUIRE(impl.grammars->constraint(held_to(many(0), 1)).has_value());
  const int64_t large = impl.grammars->bytes() - least;
  impl.grammars = std::make_unique<Grammars>(impl.tokenizer, least + 2 * large);
  std::vector<std::unique_ptr<Constraint>> in_use;
  for (int i = 0; i < 10; ++i) {
    auto made = impl.grammars->constraint(held_to(many(i), 1));
    CHECK(impl.grammars->bytes() <= least + 2 * large);
    if (made) {
      in_use.push_back(*std::move(made));
      continue;
    }
    CHECK(made.error().code() == StatusCode::busy);
    CHECK(made.error().message().find("running calls") != std::string::npos);
  }
  CHECK(!in_use.empty());
  CHECK(in_use.size() < 10);
  in_use.clear();
  CHECK(impl.grammars->constraint(held_to(many(9), 1)).has_value());
}

TEST_CASE("grammars are planned for: with the rest, or when the first is used") {
  LoadOptions options;
  options.threads = 2;
  options.context = 512;
  const MemoryReport plain = plan_model(kModel, options).value();
  CHECK(plain.grammars == 0);
  CHECK(plain.drafters == 0);
  options.grammars = true;
  const MemoryReport planned = plan_model(kModel, options).value();
  CHECK(planned.grammars == Grammars::kMostBytes);
  CHECK(planned.total == plain.total + planned.grammars);

  options.memory_limit = plain.total + (1 << 20);
  CHECK(plan_model(kModel, options).error().code() == StatusCode::does_not_fit);
  options.grammars = false;
  for (const int64_t more : {int64_t{0}, Grammars::kMostBytes}) {
    CAPTURE(more);
    options.memory_limit = plain.total + (1 << 20) + more;
    const auto engine = Engine::load(kModel, options);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    const auto session = open(**engine);
    const auto result = session->generate(kPrompt, held_to(kQuick, 5), {});
    CHECK(result.has_value() == (more > 0));
    CHECK((*engine)->memory().grammars == more);
    CHECK((*engine)->memory().total <= options.memory_limit);
    if (result) continue;
    CHECK(result.error().code() == StatusCode::does_not_fit);
    CHECK(result.error().message().find("grammars") != std::string::npos);
    GenerateOptions optional = held_to(kQuick, 5);
    optional.grammar_start = {.marks = {"a"}, .optional = true};
    CHECK(tokens_of(*session, kPrompt, optional) ==
          tokens_of(*open(**engine), kPrompt, sampled(5)));
    REQUIRE(session->truncate(0).ok());
    CHECK(tokens_of(*session, kPrompt, sampled(5)).size() == 5);
  }
}

TEST_CASE("sessions under one grammar, and under others, get the tokens of one alone") {
  const auto engine = load();
  Engine::Impl& impl = EngineAccess::impl(*engine);
  const auto grammar = [](size_t i) {
    return i % 2 == 0 ? std::string("root ::= ([a-m]+ [n-z]* \" \"?)+")
                      : "root ::= ([a-z]{1," + std::to_string(i + 2) + "} [ .,])+";
  };
  constexpr size_t kSessions = 6;
  std::vector<std::vector<int32_t>> expected;
  const auto how = [&](size_t i) {
    GenerateOptions options = held_to(grammar(i), 40);
    options.sampling.seed = i;
    if (i == 5) options.sampling.temperature = 0.0f;
    return options;
  };
  for (size_t i = 0; i < kSessions; ++i) {
    expected.push_back(tokens_of(*open(*engine), kPrompt, how(i)));
    CHECK(expected.back().size() == 40);
  }
  for (int round = 0; round < 4; ++round) {
    impl.grammars = std::make_unique<Grammars>(impl.tokenizer);  // no mask is known
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < kSessions; ++i) sessions.push_back(open(*engine));
    std::vector<std::future<std::vector<int32_t>>> calls;
    for (size_t i = 0; i < kSessions; ++i) {
      calls.push_back(std::async(std::launch::async,
                                 [&, i] { return tokens_of(*sessions[i], kPrompt, how(i)); }));
    }
    for (size_t i = 0; i < kSessions; ++i) CHECK(calls[i].get() == expected[i]);
  }
}

TEST_CASE(
    "grammars that name tokens: what is written, and the same with drafts and beside others") {
  // Control tokens, any tokens, one by its id, and text around them.
  const std::string grammar =
      "root ::= <s> block+ text*\n"
      "block ::= <[300]> (!<[300]>){1,6} <[300]> | \"a\" <s> [a-z]{1,3} | <s> !<s>\n"
      "text ::= [a-z ] | <[262]> | <unk>";
  const auto run = [&](Session& session, uint64_t seed, int32_t draft_tokens) {
    GenerateOptions options = held_to(grammar, 60);
    options.sampling.seed = seed;
    if (seed == 0) options.sampling.temperature = 0.0f;
    options.draft_tokens = draft_tokens;
    return tokens_of(session, kPrompt, options);
  };
  const auto plain = load();
  LoadOptions load_options;
  load_options.threads = 2;
  load_options.context = 512;
  load_options.draft_model = kModel;
  load_options.drafters = {"model", "suffix", "ngram"};
  const auto drafted = Engine::load(kModel, load_options);
  REQUIRE_MESSAGE(drafted.has_value(), drafted.error().message());
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    expected.push_back(run(*open(*plain), seed, 0));
    REQUIRE(expected.back().size() > 3);
    CHECK(expected.back()[0] == 1);
    const auto session = open(**drafted);
    for (const int32_t tokens : {5, -1, 0}) {
      CHECK(run(*session, seed, tokens) == expected.back());
      if (tokens == 5) CHECK(session->statistics().speculation.drafted > 0);
      REQUIRE(session->truncate(0).ok());
    }
  }
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::future<std::vector<int32_t>>> calls;
  for (size_t i = 0; i < expected.size(); ++i) sessions.push_back(open(**drafted));
  for (size_t i = 0; i < expected.size(); ++i) {
    calls.push_back(std::async(std::launch::async,
                               [&, i] { return run(*sessions[i], i, i % 2 == 0 ? 4 : -1); }));
  }
  for (size_t i = 0; i < expected.size(); ++i) CHECK(calls[i].get() == expected[i]);

  const auto refused = open(*plain)->generate(kPrompt, held_to("root ::= <nothing>", 5), {});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::invalid_argument);
  CHECK(refused.error().message().find("line 1, column 10") != std::string::npos);
}
