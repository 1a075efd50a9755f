// Grammars, schemas and their patterns from tests/data/hostile end within bounds: each is refused
// with a reason, or some tokens can be chosen by it.
#include <doctest.h>

#include <nlohmann/json.hpp>

#include "tests/hostile.h"
#include "tests/sample/grammar_support.h"

using namespace infer;
using namespace infer::test;

namespace {

void check_all(const std::string& file, const std::string& source, size_t at_least,
               Result<std::shared_ptr<const CompiledGrammar>> (*compile)(std::string_view)) {
  for (const Hostile& hostile : read_hostile(file, source, "", at_least)) {
    CAPTURE(hostile.name);
    check_bounded(hostile, [&] { try_out(compile(hostile.source)); });
  }
}

std::string schema_of(std::string_view pattern) {
  return nlohmann::json({{"type", "string"}, {"pattern", pattern}}).dump();
}

}  // namespace

TEST_CASE("hostile grammars end soon and in little memory") {
  check_all("grammars.json", "grammar", 50,
            [](std::string_view text) { return compile_gbnf(text); });
}

TEST_CASE("hostile schemas end soon and in little memory") {
  check_all("schemas.json", "schema", 50, compile_json_schema);
}

TEST_CASE("hostile patterns of schemas end soon and in little memory") {
  check_all("patterns.json", "pattern", 30,
            [](std::string_view pattern) { return compile_json_schema(schema_of(pattern)); });
}
