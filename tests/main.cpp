// The main of all test programs. They run under a locale that writes numbers with commas, so that a
// number that is read or written by the locale of the process makes a test fail.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest.h>
#include <stdlib.h>

#include <clocale>
#include <locale>
#include <string_view>

#include "tests/support.h"

// LeakSanitizer's, where the program is built with it: what the C library keeps for a locale counts
// as leaked.
extern "C" {
__attribute__((weak)) void __lsan_disable();
__attribute__((weak)) void __lsan_enable();
}

int main(int argc, char** argv) {
  if (__lsan_disable != nullptr) __lsan_disable();
  setenv("LOCPATH", INFER_TEST_LOCALES, 1);
  const char* const made = std::setlocale(LC_ALL, "de_DE.UTF-8");
  if (made == nullptr || std::string_view(std::localeconv()->decimal_point) != ",") {
    infer::test::skipped(
        "a locale with decimal commas: localedef or the package locales is absent");
  } else {
    std::locale::global(std::locale("de_DE.UTF-8"));  // that of C++'s streams
    std::setlocale(LC_MESSAGES, "C");                 // the tests know the system's English errors
  }
  if (__lsan_enable != nullptr) __lsan_enable();
  return doctest::Context(argc, argv).run();
}
