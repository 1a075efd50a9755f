#include "tests/conversations/failing_vfs.h"

#include <doctest.h>
#include <sqlite3.h>

#include <cstring>
#include <limits>
#include <new>

namespace infer::conversations::test {
namespace {

int64_t counted = 0;
int64_t synced = 0;
bool counts_reads = false;
int64_t failing = std::numeric_limits<int64_t>::max();
int failure = SQLITE_OK;
bool only_reading = false;
sqlite3_vfs* system_vfs = nullptr;

int count(bool is_read = false) {
  if (is_read != counts_reads) return SQLITE_OK;
  const bool fails = ++counted == failing || (!is_read && counted > failing);
  return fails ? failure : SQLITE_OK;
}

/// A file of ours, with that of the system behind it.
struct File {
  sqlite3_file base;
  sqlite3_io_methods methods;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }

int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  const int failed = count();
  if (failed != SQLITE_OK) return failed;
  return of(file)->real()->pMethods->xWrite(of(file)->real(), data, size, offset);
}
int sync(sqlite3_file* file, int flags) {
  if (count() != SQLITE_OK) return SQLITE_IOERR_FSYNC;
  ++synced;
  return of(file)->real()->pMethods->xSync(of(file)->real(), flags);
}
int truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (count() != SQLITE_OK) return SQLITE_IOERR_TRUNCATE;
  return of(file)->real()->pMethods->xTruncate(of(file)->real(), size);
}
int shm_map(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
  if (extend != 0 && count() != SQLITE_OK) return SQLITE_IOERR_SHMSIZE;
  return of(file)->real()->pMethods->xShmMap(of(file)->real(), region, size, extend, out);
}
int close(sqlite3_file* file) { return of(file)->real()->pMethods->xClose(of(file)->real()); }
int read(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  if (count(true) != SQLITE_OK) return SQLITE_IOERR_READ;
  return of(file)->real()->pMethods->xRead(of(file)->real(), data, size, offset);
}
int file_size(sqlite3_file* file, sqlite3_int64* size) {
  return of(file)->real()->pMethods->xFileSize(of(file)->real(), size);
}
int lock(sqlite3_file* file, int kind) {
  return of(file)->real()->pMethods->xLock(of(file)->real(), kind);
}
int unlock(sqlite3_file* file, int kind) {
  return of(file)->real()->pMethods->xUnlock(of(file)->real(), kind);
}
int check_lock(sqlite3_file* file, int* out) {
  return of(file)->real()->pMethods->xCheckReservedLock(of(file)->real(), out);
}
int control(sqlite3_file* file, int what, void* value) {
  return of(file)->real()->pMethods->xFileControl(of(file)->real(), what, value);
}
int sector_size(sqlite3_file* file) {
  return of(file)->real()->pMethods->xSectorSize(of(file)->real());
}
int characteristics(sqlite3_file* file) {
  return of(file)->real()->pMethods->xDeviceCharacteristics(of(file)->real());
}
int shm_lock(sqlite3_file* file, int offset, int n, int flags) {
  return of(file)->real()->pMethods->xShmLock(of(file)->real(), offset, n, flags);
}
void shm_barrier(sqlite3_file* file) { of(file)->real()->pMethods->xShmBarrier(of(file)->real()); }
int shm_unmap(sqlite3_file* file, int remove) {
  return of(file)->real()->pMethods->xShmUnmap(of(file)->real(), remove);
}

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
  File* const made = new (file) File();
  if (only_reading && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
  }
  const int code = system_vfs->xOpen(system_vfs, name, made->real(), flags, out);
  if (code != SQLITE_OK) return code;
  made->methods = {
      2,         close,      read,    write,       truncate,        sync,    file_size, lock,
      unlock,    check_lock, control, sector_size, characteristics, shm_map, shm_lock,  shm_barrier,
      shm_unmap, nullptr,    nullptr};
  made->base.pMethods = &made->methods;
  return SQLITE_OK;
}

sqlite3_vfs shim = {};

}  // namespace

FailingVfs::FailingVfs() {
  stop();
  system_vfs = sqlite3_vfs_find(nullptr);
  shim = *system_vfs;
  shim.zName = "failing";
  shim.pNext = nullptr;
  shim.szOsFile = static_cast<int>(sizeof(File)) + system_vfs->szOsFile;
  shim.xOpen = open;
  REQUIRE(sqlite3_vfs_register(&shim, 1) == SQLITE_OK);
}

FailingVfs::~FailingVfs() {
  stop();
  sqlite3_vfs_unregister(&shim);
  sqlite3_vfs_register(system_vfs, 1);
}

void FailingVfs::fail_at(int64_t call, int code) {
  counted = synced = 0;
  counts_reads = false;
  failing = call;
  failure = code;
}

void FailingVfs::fail_read_at(int64_t call) {
  fail_at(call, SQLITE_IOERR_READ);
  counts_reads = true;
}

void FailingVfs::read_only() { only_reading = true; }

void FailingVfs::stop() {
  failing = std::numeric_limits<int64_t>::max();
  only_reading = false;
}

int64_t FailingVfs::calls() const { return counted; }

int64_t FailingVfs::syncs() const { return synced; }

}  // namespace infer::conversations::test
