#include "engine/kv/page_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace infer {
namespace {

/// Calls transfer(fd, data, size, offset) until all is done; the number of the failure, 0 if none.
template <typename Data, typename Transfer>
int transfer_all(int fd, Data* data, size_t size, int64_t offset, Transfer transfer) {
  while (size > 0) {
    const ssize_t done = transfer(fd, data, size, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return EIO;
    data += done;
    size -= static_cast<size_t>(done);
    offset += done;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<PageStore>> PageStore::create(const std::string& folder, int64_t page_bytes,
                                                     int32_t slots) {
  // First what may throw, so that it leaves no file open.
  std::unique_ptr<PageStore> store(new PageStore(page_bytes, slots));
  std::string name = folder + "/infer-cache-XXXXXX";
  store->fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (store->fd_ < 0) {
    return fail(StatusCode::io, "{}: cannot create a file there: {}", folder,
                std::generic_category().message(errno));
  }
  ::unlink(name.c_str());
  return store;
}

PageStore::PageStore(int64_t page_bytes, int32_t slots)
    : buffer_(static_cast<size_t>(page_bytes)), slots_(static_cast<size_t>(slots)) {
  free_.reserve(slots_.size());
  for (int32_t slot = slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

PageStore::~PageStore() {
  if (fd_ >= 0) ::close(fd_);
}

PrefixNode* PageStore::oldest() const {
  if (!free_.empty() || oldest_ < 0) return nullptr;
  return slots_[static_cast<size_t>(oldest_)].node;
}

int32_t PageStore::put(PrefixNode* node) {
  if (free_.empty()) return -1;
  const int32_t slot = free_.back();
  const int64_t offset = slot * static_cast<int64_t>(buffer_.size());
  if (transfer_all(fd_, buffer_.data(), buffer_.size(), offset, ::pwrite) != 0) return -1;
  free_.pop_back();
  at(slot) = {node, newest_, -1};
  (newest_ < 0 ? oldest_ : at(newest_).after) = slot;
  newest_ = slot;
  return slot;
}

bool PageStore::get(int32_t slot) {
  const int64_t offset = slot * static_cast<int64_t>(buffer_.size());
  return transfer_all(fd_, buffer_.data(), buffer_.size(), offset, ::pread) == 0;
}

void PageStore::drop(int32_t slot) {
  const Slot& s = at(slot);
  (s.before < 0 ? oldest_ : at(s.before).after) = s.after;
  (s.after < 0 ? newest_ : at(s.after).before) = s.before;
  free_.push_back(slot);
}

}  // namespace infer
