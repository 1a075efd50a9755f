// Chat templates: published ones against the reference's text, and hostile ones.
#include "engine/text/chat_template.h"

#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support.h"

namespace infer {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Result<std::string> rendered(std::string_view source, std::string_view variables = "{}") {
  const auto program = TemplateProgram::parse(source);
  if (!program) return tl::unexpected(program.error());
  return (*program)->render(variables, "2026-01-15T12:00:00");
}

std::string text_of(std::string_view source, std::string_view variables = "{}") {
  const Result<std::string> text = rendered(source, variables);
  return text ? *text : "error: " + text.error().message();
}

/// Every case of every template in a folder.
void check_folder(const fs::path& folder, size_t at_least) {
  size_t cases = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem().string();
    const auto program = TemplateProgram::parse(test::read_text(entry.path().string()));
    REQUIRE_MESSAGE(program, name, ": ", program.error().message());
    fs::path expected = entry.path();
    for (const Json& c :
         Json::parse(test::read_text(expected.replace_extension(".json").string()))) {
      ++cases;
      const auto text = (*program)->render(c["variables"].dump(), c["now"].get<std::string>());
      const std::string where = name + " " + c["case"].get<std::string>();
      if (c.contains("error")) {
        CHECK_MESSAGE(!text, where, " must fail: ", c["error"]);
        constexpr std::string_view kRaised = "TemplateError: ";
        const auto error = c["error"].get<std::string>();
        if (!text && error.starts_with(kRaised)) {
          CHECK_EQ(text.error().message(), error.substr(kRaised.size()));
        }
      } else {
        REQUIRE_MESSAGE(text, where, ": ", text.error().message());
        CHECK_MESSAGE(*text == c["text"].get<std::string>(), where);
      }
    }
  }
  CHECK(cases >= at_least);
  MESSAGE(cases, " cases of templates in ", folder.string());
}

TEST_CASE("published templates give the reference's text") {
  check_folder(test::data_path("templates"), 250);
}

TEST_CASE("messages of failures") {
  CHECK_EQ(text_of("{{ raise_exception('Only users!') }}"), "error: Only users!");
  CHECK_EQ(text_of("a\n{{ 1 +  }}"), "error: template, line 2: expected an expression, found '}}'");
  CHECK_EQ(text_of("{% if x %}\n{{ y.z }}"),
           "error: template, line 1: the block is not closed by 'endif'");
  CHECK_EQ(text_of("\n\n{{ y.z }}"), "error: template, line 3: 'y' is undefined");
  CHECK_EQ(text_of("{{ [1].append(2) }}"),
           "error: template, line 1: access to attribute 'append' of 'list' object is unsafe.");
  CHECK_EQ(text_of("{% include 'x' %}"),
           "error: template, line 1: 'include' is not supported: a chat template is one file");
  CHECK_EQ(rendered("{% include 'x' %}").error().code(), StatusCode::unsupported);
  CHECK_EQ(rendered("{{ x | nosuch }}").error().code(), StatusCode::bad_file);
  CHECK_EQ(rendered("{{ 1 / 0 }}").error().code(), StatusCode::invalid_argument);
  CHECK_EQ(rendered("\xff").error().code(), StatusCode::bad_file);
  CHECK_EQ(rendered("", "[]").error().code(), StatusCode::invalid_argument);
  CHECK_EQ(rendered("", "{").error().code(), StatusCode::invalid_argument);
}

TEST_CASE("JSON in ASCII has an escape for the delete character") {
  const std::string text = R"({"s": "a\u007fb\u0080~"})";
  CHECK(text_of("{{ s|tojson(ensure_ascii=true) }}", text) == R"("a\u007fb\u0080~")");
  CHECK(text_of("{{ s|tojson }}", text) ==
        "\"a\x7f"
        "b\xc2\x80~\"");
}

TEST_CASE("casefold is Unicode's full case folding") {
  CHECK_EQ(text_of("{{ 'Straße ſ ŉ ﬁ ΑΣ É'.casefold() }}"), "strasse s ʼn fi ασ é");
  CHECK_EQ(text_of("{{ ('\u00c0' ~ '\u0130').casefold() }}"), "\xc3\xa0i\xcc\x87");
}

TEST_CASE("pprint sorts dicts") {
  CHECK_EQ(text_of("{{ d|pprint }} {{ d }}", R"({"d": {"b": [{"z": 1, "c": 2}], "a": null}})"),
           "{'a': None, 'b': [{'c': 2, 'z': 1}]} {'b': [{'z': 1, 'c': 2}], 'a': None}");
  CHECK_EQ(text_of("{{ {'b': 1, 'a': {2: 1, 1: {}}, 3: 1, none: 1}|pprint }}"),
           "{None: 1, 3: 1, 'a': {1: {}, 2: 1}, 'b': 1}");
}

TEST_CASE("the time") {
  const auto program = TemplateProgram::parse("{{ strftime_now('%d %B %Y %H:%M:%S %j %f|%Z') }}");
  REQUIRE(program);
  CHECK_EQ(*(*program)->render("{}", "2024-02-29T23:59:58"),
           "29 February 2024 23:59:58 060 000000|");
  CHECK_FALSE((*program)->render("{}", "yesterday"));
  CHECK((*program)->render("{}", ""));
}

TEST_CASE("large integers are passed on") {
  CHECK_EQ(text_of("{{ n }} {{ n|tojson }} {{ n is integer }}",
                   R"({"n":123456789012345678901234567890})"),
           "123456789012345678901234567890 123456789012345678901234567890 True");
  CHECK_EQ(text_of("{{ n }}", R"({"n":18446744073709551615})"), "18446744073709551615");
  CHECK_FALSE(rendered("{{ n + 1 }}", R"({"n":18446744073709551615})"));
  CHECK_FALSE(rendered("{{ 99999999999999999999 }}"));
  CHECK_FALSE(rendered("{{ 9223372036854775807 + 1 }}"));
}

TEST_CASE("one template renders in several threads") {
  const auto program = TemplateProgram::parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in range(50) %}{{ m(i ~ 'a') }}{% endfor "
      "%}");
  REQUIRE(program);
  const std::string expected = *(*program)->render("{}", "");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) wrong[t] += *(*program)->render("{}", "") != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong, std::vector<int>(4));
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// Templates that must fail, and soon.
void check_refused(const std::string& name, const std::string& source,
                   std::string_view variables = "{}") {
  const double start = test::thread_seconds();
  const Result<std::string> text = rendered(source, variables);
  const double seconds = test::thread_seconds() - start;
  CHECK_MESSAGE(!text, name);
  if (!text) {
    const StatusCode code = text.error().code();
    CHECK_MESSAGE((code == StatusCode::bad_file || code == StatusCode::invalid_argument), name);
    CHECK_MESSAGE(text.error().message().size() < 1000, name);
  }
  WARN_MESSAGE(seconds < 1.0, name, " took ", seconds, " s");
  CHECK_MESSAGE(seconds < 20.0, name);
}

TEST_CASE("hostile sources are refused") {
  constexpr size_t kMany = 100'000;
  check_refused("parentheses", "{{ " + repeated("(", kMany) + repeated(")", kMany) + " }}");
  check_refused("brackets", "{{ " + repeated("[", kMany) + repeated("]", kMany) + " }}");
  check_refused("open brackets", "{{ " + repeated("[", kMany));
  check_refused("braces", "{{ " + repeated("{1:", kMany) + "1" + repeated("}", kMany) + " }}");
  check_refused("subscripts", "{{ " + repeated("x[", kMany));
  check_refused("calls", "{{ " + repeated("x(", kMany));
  check_refused("not", "{{ " + repeated("not ", kMany) + "x }}");
  check_refused("minus", "{{ " + repeated("-", kMany) + "1 }}");
  check_refused("if else", "{{ " + repeated("1 if x else ", kMany) + "1 }}");
  check_refused("attributes", "{{ x" + repeated(".a", kMany) + " }}");
  check_refused("filters", "{{ 'x'" + repeated("|trim", kMany) + " }}");
  check_refused("tests", "{{ x" + repeated(" is y", kMany) + " }}");
  check_refused("sum", "{{ 1" + repeated("+1", kMany) + " }}");
  check_refused("power", "{{ 1" + repeated("**1", kMany) + " }}");
  check_refused("and", "{{ x" + repeated(" and x", kMany) + " }}");
  check_refused("targets", "{% set " + repeated("(", kMany) + " %}");
  check_refused("ifs", repeated("{% if x %}", kMany));
  check_refused("fors", repeated("{% for x in y %}", kMany));
  check_refused("macros", repeated("{% macro x() %}", kMany));
  check_refused("comment", "{#" + repeated("{#", kMany));
  check_refused("raw", "{% raw %}" + repeated("{% endra %}", kMany));
  check_refused("string", "{{ '" + repeated("\\'", kMany));
  check_refused("too long", repeated("x", size_t{2} << 20));
  check_refused("odd bytes", std::string("{{ \0 }}", 7));
}

TEST_CASE("hostile programs are refused") {
  check_refused("repeated string", "{{ 'x' * 1000000000 }}");
  check_refused("repeated twice", "{{ ('x' * 10000000) * 10000000 }}");
  check_refused("repeated list", "{{ [1] * 1000000000 }}");
  check_refused("negative overflow", "{{ 'x' * 9223372036854775807 }}");
  check_refused("doubling",
                "{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s "
                "%}{% endfor %}");
  check_refused(
      "doubling output",
      "{% set n = namespace(s='x'*1000) %}{% for i in range(100000) %}{{ n.s }}{% endfor %}");
  check_refused("loops",
                "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  check_refused("filters in loops",
                "{% set s = 'x' * 10000000 %}{% for a in range(100000) %}{% if s|upper == 'Y' %}{% "
                "endif %}{% endfor %}");
  check_refused("search in loops",
                "{% set s = 'x' * 10000000 %}{% for a in range(100000) %}{% if 'y' in s %}{% endif "
                "%}{% endfor %}");
  check_refused("lists in loops",
                "{% set s = range(100000)|list %}{% for a in range(100000) %}{% if -1 in s %}{% "
                "endif %}{% endfor %}");
  check_refused("recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  check_refused(
      "mutual recursion",
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
  check_refused("recursive call block",
                "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}");
  check_refused("recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  check_refused("exponential macros",
                "{% macro m(n) %}{{ m(n-1) if n }}{{ m(n-1) if n }}{% endmacro %}{{ m(60) }}");
  check_refused(
      "nested lists",
      "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}{% endfor %}");
  check_refused("nested iterators",
                "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = "
                "[n.x]|reverse %}{% endfor %}");
  check_refused("nested cyclers",
                "{% set n = namespace(x=1) %}{% for i in range(100000) %}{% set n.x = cycler(n.x) "
                "%}{% endfor %}");
  check_refused("shared lists",
                "{% set n = namespace(x=[1,2]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] "
                "%}{% endfor %}{{ n.x }}");
  check_refused("shared lists compared",
                "{% set n = namespace(x=[1,2], y=[1,2]) %}{% for i in range(100) %}{% set n.x = "
                "[n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}");
  check_refused("shared lists as JSON",
                "{% set n = namespace(x=[1,2]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] "
                "%}{% endfor %}{{ n.x|tojson }}");
  check_refused("shared keys",
                "{% set n = namespace(x=(1,2), y=(1,2)) %}{% for i in range(100) %}{% set n.x = "
                "(n.x, n.x) %}{% set n.y = (n.y, n.y) %}{% endfor %}{{ {n.x: 1, n.y: 2} }}");
  check_refused("namespace in itself", "{% set n = namespace() %}{% set n.n = [n] %}{{ n }}");
  check_refused("range", "{{ range(1000000000)|list }}");
  check_refused("wide", "{{ 'x'.center(1000000000) }}");
  check_refused("wide format", "{{ '%1000000000d' % 1 }}");
  check_refused("wide braces", "{{ '{:>1000000000}'.format(1) }}");
  check_refused("precise", "{{ '%.1000000000f' % 1.5 }}{{ 'x' * 1000000000 }}");
  check_refused("indent", "{{ [1]|tojson(indent=1000000000) }}");
  check_refused("batch", "{{ [1]|batch(1000000000, 0)|list }}");
  check_refused("slices", "{{ [1]|slice(1000000000)|list }}");
  check_refused("replace", "{{ ('x' * 100000).replace('x', 'y' * 100000) }}");
  check_refused("join", "{{ (['x' * 10000] * 100000)|join }}");
  check_refused("power", "{{ 10 ** 1000000000 }}");
  check_refused("deep variables", "{{ x }}",
                "{\"x\":" + repeated("[", 100000) + repeated("]", 100000) + "}");
  check_refused("time", "{{ strftime_now('%Y' * 10000) }}");
}

TEST_CASE("what looks hostile and is not") {
  CHECK_EQ(text_of("{% set n = namespace(x=0) %}{% for i in range(100000) %}{% set n.x = n.x + i "
                   "%}{% endfor %}{{ n.x }}"),
           "4999950000");
  CHECK_EQ(text_of("{% set n = namespace(f=none) %}{% for i in range(1000) %}{% macro m() %}{{ i "
                   "}}{% endmacro %}{% set n.f = m %}{% endfor %}{{ n.f is callable }}"),
           "True");
  CHECK_EQ(text_of("{% set n = namespace() %}{% set n.n = n %}{{ n.n.n.n is defined }}"), "True");
  CHECK_EQ(text_of("{{ " + repeated("(", 40) + "1" + repeated(")", 40) + " }}"), "1");
  CHECK_EQ(text_of("{{ 1" + repeated("+1", 150) + " }}"), "151");
  CHECK_EQ(text_of(repeated("{% if 1 %}", 60) + "x" + repeated("{% endif %}", 60)), "x");
}

}  // namespace
}  // namespace infer
