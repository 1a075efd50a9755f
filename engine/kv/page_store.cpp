#include "engine/kv/page_store.h"

#include "engine/core/platform/files.h"

namespace infer {
namespace {

/// Calls transfer(fd, bytes, offset) until all is done. Whether it was.
template <typename Byte, typename Transfer>
bool transfer_all(int fd, std::span<Byte> bytes, uint64_t offset, Transfer transfer) {
  while (!bytes.empty()) {
    const os::Answer<size_t> done = transfer(fd, bytes, offset);
    if (!done || *done == 0) return false;
    bytes = bytes.subspan(*done);
    offset += *done;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<PageStore>> PageStore::create(const std::string& folder, int64_t page_bytes,
                                                     int32_t slots) {
  // First what may throw, so that it leaves no file open.
  std::unique_ptr<PageStore> store(new PageStore(page_bytes, slots));
  const os::Answer<int> created = os::create_nameless(folder);
  if (!created) {
    return fail(StatusCode::io, "{}: cannot create a file there: {}", folder,
                created.error().message());
  }
  store->fd_ = *created;
  return store;
}

PageStore::PageStore(int64_t page_bytes, int32_t slots)
    : buffer_(static_cast<size_t>(page_bytes)), slots_(static_cast<size_t>(slots)) {
  free_.reserve(slots_.size());
  for (int32_t slot = slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

PageStore::~PageStore() { os::close_file(fd_); }

PrefixNode* PageStore::oldest() const {
  if (!free_.empty() || oldest_ < 0) return nullptr;
  return slots_[static_cast<size_t>(oldest_)].node;
}

int32_t PageStore::put(PrefixNode* node) {
  if (free_.empty()) return -1;
  const int32_t slot = free_.back();
  if (!transfer_all(fd_, std::span(buffer_), place_of(slot), os::write_at)) return -1;
  free_.pop_back();
  at(slot) = {node, newest_, -1};
  (newest_ < 0 ? oldest_ : at(newest_).after) = slot;
  newest_ = slot;
  return slot;
}

bool PageStore::get(int32_t slot) {
  return transfer_all(fd_, std::span(buffer_), place_of(slot), os::read_at);
}

void PageStore::drop(int32_t slot) {
  const Slot& s = at(slot);
  (s.before < 0 ? oldest_ : at(s.before).after) = s.after;
  (s.after < 0 ? newest_ : at(s.after).before) = s.before;
  free_.push_back(slot);
}

}  // namespace infer
