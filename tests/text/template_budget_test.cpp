// What a template may use: limits on sizes, work in proportion to the bytes it touches, numbers
// whatever the locale. The tests run under a locale with decimal commas.
#include <doctest.h>

#include <clocale>
#include <random>
#include <string>

#include "engine/text/chat_template.h"
#include "engine/text/template/numbers.h"
#include "engine/text/template/search.h"
#include "tests/support.h"

namespace infer {
namespace {

std::string text_of(std::string_view source, std::string_view variables = "{}") {
  const auto program = TemplateProgram::parse(source);
  if (!program) return "error: " + program.error().message();
  const Result<std::string> text = (*program)->render(variables, "2026-01-15T12:00:00");
  return text ? *text : "error: " + text.error().message();
}

TEST_CASE("sizes from templates are checked") {
  constexpr std::string_view kWide = "error: template, line 1: a width in a format is too large";
  CHECK_EQ(text_of("{{ '%*d' % (4611686018427387904, 1) }}"), kWide);
  CHECK_EQ(text_of("{{ '%*d' % (-9223372036854775807 - 1, 1) }}"), kWide);
  CHECK_EQ(text_of("{{ '%.*d' % (9223372036854775807, 1) }}"), kWide);
  CHECK_EQ(text_of("{{ '%*d|%-*d|%.*d' % (4, 1, 4, 1, 4, 1) }}"), "   1|1   |0001");
  CHECK_EQ(text_of("{{ [1]|slice(4611686018427387904)|list }}"),
           "error: template, line 1: 4611686018427387904 slices are too many");
  CHECK_EQ(text_of("{{ [1]|batch(1152921504606846976, 0)|list }}"),
           "error: template, line 1: a batch of 1152921504606846976 elements is too large");
  CHECK_EQ(text_of("{{ 'x'.center(9223372036854775807) }}"),
           "error: template, line 1: a value of 9223372036854775807 bytes is too large");
  CHECK_EQ(text_of("{{ 'x'.center(-9223372036854775807 - 1) }}"), "x");
}

TEST_CASE("the least integer") {
  const std::string least = "(-9223372036854775807 - 1)";
  CHECK_EQ(text_of("{{ '%.3d|%d|%x|%o' % (" + least + ", " + least + ", " + least + ", " + least +
                   ") }}"),
           "-9223372036854775808|-9223372036854775808|-8000000000000000|-1000000000000000000000");
  CHECK_EQ(text_of("{{ '%.20d|%+.3d|% .3d|%.3X' % (" + least + ", 7, 7, 171) }}"),
           "-09223372036854775808|+007| 007|0AB");
  CHECK_EQ(text_of("{{ '{:b}'.format(" + least + ")|length }}"), "65");
  constexpr std::string_view kLarge = "error: template, line 1: an integer has more than 64 bits";
  CHECK_EQ(text_of("{{ " + least + "|round(-1) }}"), kLarge);
  CHECK_EQ(text_of("{{ 9223372036854775807|round(-1) }}"), kLarge);
  CHECK_EQ(text_of("{% set m = " + least +
                   " %}{{ 5 % m }} {{ -5 % m }} {{ m % 3 }} {{ m % -3 }} {{ m % -1 }} {{ m % m }} "
                   "{{ 9223372036854775807 % m }} {{ 1 // m }} {{ m // 3 }}"),
           "-9223372036854775803 -5 1 -2 0 0 -1 -1 -3074457345618258603");
  CHECK_EQ(text_of("{{ " + least + " // -1 }}"), kLarge);
  CHECK_EQ(text_of("{{ -" + least + " }}"), kLarge);
  CHECK_EQ(text_of("{{ " + least + "|abs }}"), kLarge);
  CHECK_EQ(text_of("{{ 25|round(-1) }} {{ 35|round(-1) }} {{ -25|round(-1) }}"), "20 40 -20");
  CHECK_EQ(text_of("{{ -1e300|filesizeformat }}"),
           "error: template, line 1: filesizeformat: the number is out of range");
}

TEST_CASE("numbers do not follow the locale") {
  if (std::string_view(std::localeconv()->decimal_point) != ",") {
    test::skipped("the locale has no decimal comma");
  }
  CHECK_EQ(text_of("{{ 0.5 }} {{ 1.5e3 }} {{ 1e400 }} {{ 1e-400 }} {{ 12345.75 }}"),
           "0.5 1500.0 inf 0.0 12345.75");
  CHECK_EQ(text_of("{{ '%.2f|%g|%#g|%e|%.0f|%#.0f' % (1.5, 0.1, 0.5, 12345.678, 2.5, 3.0) }}"),
           "1.50|0.1|0.500000|1.234568e+04|2|3.");
  CHECK_EQ(text_of("{{ '{:.3f}|{:,.2f}|{:08.2f}|{:%}'.format(0.5, 1234567.891, -1.5, 0.25) }}"),
           "0.500|1,234,567.89|-0001.50|25.000000%");
  CHECK_EQ(text_of("{{ 1.25|round(1) }} {{ 2.675|round(2) }} {{ -0.04|round(1) }} {{ 2.5|round }}"),
           "1.2 2.67 -0.0 2.0");
  CHECK_EQ(text_of("{{ '0.5'|float }} {{ '1e400'|float }} {{ '-1e-400'|float }} {{ '0,5'|float }} "
                   "{{ '2.5'|int }} {{ '1_000.5'|float }} {{ 'inf'|float }} {{ '+-1'|float }}"),
           "0.5 inf -0.0 0.0 2 1000.5 inf 0.0");
  CHECK_EQ(text_of("{{ x }} {{ x is float }} {{ x|tojson }} {{ y + 1 }}", R"({"x":0.5,"y":1e2})"),
           "0.5 True 0.5 101.0");
  CHECK_EQ(text_of("{{ 1500|filesizeformat }} {{ strftime_now('%A %B') }}"),
           "1.5 kB Thursday January");
  CHECK_EQ(text_of("{{ n + 0.0 > 1e29 }} {{ n|float }}", R"({"n":123456789012345678901234567890})"),
           "error: template, line 1: an integer has more than 64 bits");
  CHECK_EQ(text_of("{{ n|float }}", R"({"n":123456789012345678901234567890})"),
           "1.2345678901234568e+29");
}

TEST_CASE("decimal numbers out of a double's range") {
  using jinja::decimal_number;
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_EQ(decimal_number("1e309"), infinity);
  CHECK_EQ(decimal_number("-1e309"), -infinity);
  CHECK_EQ(decimal_number("0.0001e312"), 1e308);
  CHECK_EQ(decimal_number("0.00001e315"), infinity);
  CHECK_EQ(decimal_number("1000000e-400"), 0.0);
  CHECK_EQ(decimal_number("1e-99999999999999999999"), 0.0);
  CHECK_EQ(decimal_number("1e99999999999999999999"), infinity);
  CHECK_EQ(decimal_number("0e99999999999999999999"), 0.0);
  CHECK_EQ(decimal_number(std::string(400, '9')), infinity);
  CHECK_EQ(decimal_number("0." + std::string(400, '0') + "1"), 0.0);
  CHECK_EQ(decimal_number("0." + std::string(400, '0') + "1e401"), 1.0);
  for (const char* wrong : {"", "x", "1,5", "inf", "nan", "1e", "--1", "1.5.5", "0x10"}) {
    CAPTURE(wrong);
    CHECK_FALSE(decimal_number(wrong));
  }
}

TEST_CASE("searching finds what std::string finds") {
  std::mt19937 random(1);
  jinja::Budget budget(INT64_MAX);
  const auto letters = [&](size_t size) {
    std::string text(size, 'a');
    for (char& c : text) c = random() % 8 == 0 ? 'b' : 'a';
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string text = letters(random() % (i % 10 == 0 ? 20'000 : 40));
    std::string what = letters(random() % (i % 7 == 0 ? 600 : 12));
    if (i % 3 == 0 && !text.empty()) {
      what = text.substr(random() % text.size(), random() % 5000);
    }
    const size_t from = random() % (text.size() + 2);
    REQUIRE_EQ(jinja::find_text(budget, text, what, from), text.find(what, from));
    REQUIRE_EQ(jinja::find_last_text(budget, text, what), text.rfind(what));
  }
}

TEST_CASE("searching is charged by what it reads") {
  const std::string text(2'000'000, 'a');
  for (const std::string& what :
       {std::string(1'000'000, 'a') + "b", "b" + std::string(1'000'000, 'a'), std::string("b")}) {
    jinja::Budget budget(INT64_MAX);
    CHECK_EQ(jinja::find_text(budget, text, what), std::string::npos);
    CHECK_EQ(jinja::find_last_text(budget, text, what), std::string::npos);
    CHECK(budget.units() >= 2'000'000);
    CHECK(budget.units() <= 64 * 2'000'000);
  }
  jinja::Budget budget(INT64_MAX);
  CHECK_EQ(jinja::find_text(budget, "b" + text, "b"), 0);
  CHECK(budget.units() < 100);
}

TEST_CASE("comparing texts is charged by the length they share") {
  const jinja::Value a = jinja::Value::string(nullptr, std::string(1'000'000, 'a'));
  const jinja::Value b = jinja::Value::string(nullptr, std::string(1'000'000, 'a'));
  const jinja::Value c = jinja::Value::string(nullptr, "b" + std::string(1'000'000, 'a'));
  jinja::Budget equal_budget(INT64_MAX);
  CHECK(jinja::equal(equal_budget, a, b));
  CHECK(equal_budget.units() >= 1'000'000);
  jinja::Budget less_budget(INT64_MAX);
  CHECK_FALSE(*jinja::less(less_budget, a, b));
  CHECK(less_budget.units() >= 1'000'000);
  jinja::Budget early(INT64_MAX);
  CHECK(*jinja::less(early, a, c));
  CHECK(early.units() < 10'000);
  // A comparison ends with the budget.
  jinja::Budget small(100'000);
  CHECK_FALSE(jinja::equal(small, a, b));
  CHECK(small.spent());
  CHECK(small.units() < 200'000);
}

/// Messages of `size` bytes each, as JSON.
std::string conversation(size_t messages, size_t size) {
  std::string content;
  while (content.size() < size) content += "some words of a message, 中文 and more\\n";
  std::string json = R"({"add_generation_prompt":true,"bos_token":"<bos>","messages":[)";
  for (size_t i = 0; i < messages; ++i) {
    json += i == 0 ? "" : ",";
    json += i % 2 == 0 ? R"({"role":"user","content":")" : R"({"role":"assistant","content":")";
    json += content + "\"}";
  }
  return json + "]}";
}

TEST_CASE("long conversations stay within the budget") {
  for (const char* name : {"Qwen-Qwen3-0.6B", "google-gemma-2-2b-it"}) {
    CAPTURE(name);
    const auto program = TemplateProgram::parse(
        test::read_text(test::data_path(std::string("templates/") + name + ".jinja")));
    REQUIRE(program);
    for (const auto& [messages, size] :
         {std::pair<size_t, size_t>{5001, 2000}, {101, 100'000}, {3, 3'400'000}}) {
      const auto text = (*program)->render(conversation(messages, size), "2026-01-15T12:00:00");
      REQUIRE_MESSAGE(text, text.error().message());
      CHECK(text->size() > messages * size * 9 / 10);
    }
  }
}

TEST_CASE("work grows with the conversation") {
  // As templates do that look for the last message of a kind at each message.
  const auto program = TemplateProgram::parse(
      "{% set n = namespace(x=0) %}{% for a in messages %}{% for b in messages %}{% endfor %}"
      "{% set n.x = n.x + 1 %}{% endfor %}{{ n.x }}");
  REQUIRE(program);
  const auto text = (*program)->render(conversation(3000, 20), "2026-01-15T12:00:00");
  REQUIRE_MESSAGE(text, text.error().message());
  CHECK_EQ(*text, "3000");
  const auto endless =
      text_of("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}");
  CHECK(endless.find("takes more than 6001000 steps: the conversation") != std::string::npos);
  CHECK_EQ(jinja::Budget::work_for(0), jinja::Budget::kWork);
  CHECK(jinja::Budget::work_for(SIZE_MAX / 2) <= jinja::Budget::kMostWork);
  CHECK(jinja::Budget::work_for(SIZE_MAX / 2) > jinja::Budget::kMostWork * 9 / 10);
}

}  // namespace
}  // namespace infer
