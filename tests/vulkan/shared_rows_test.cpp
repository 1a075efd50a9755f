// What a row chooses and attends to is the same however many workgroups share its keys.
#include "tests/shared_rows.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

std::unique_ptr<Device> opened(bool whole) {
  Tuning tuning;
  tuning.split_rows = whole ? 0 : 32;
  return open_tuned(tuning).value();
}

TEST_CASE("chosen slots: parts of a row change none") {
  if (!present()) return;
  test::check_lists(opened);
}

TEST_CASE("attention to lists: chunks of keys change no bit") {
  if (!present()) return;
  test::check_listed(opened);
}

TEST_CASE("attention to blocks: chunks of keys change no bit") {
  if (!present()) return;
  test::check_pooled(opened);
}

}  // namespace
}  // namespace infer::vulkan
