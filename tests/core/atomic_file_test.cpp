// Files that are there in full or not at all.
#include "engine/core/atomic_file.h"

#include <doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

Status write(const std::string& path, const std::string& text) {
  Result<std::unique_ptr<AtomicFile>> file = AtomicFile::create(path);
  if (!file) return file.error();
  if (Status status = (*file)->write(bytes_of(text)); !status.ok()) return status;
  return (*file)->commit();
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}

}  // namespace

TEST_CASE("who may read and write a file stays as it was") {
  const TempDir folder;
  const std::string path = folder.path("file");
  const mode_t mask = ::umask(027);
  CHECK(write(path, "new").ok());
  CHECK(mode_of(path) == 0640);
  for (const mode_t mode : {0600, 0666, 0755, 0400}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    CHECK(write(path, "changed").ok());
    CHECK(mode_of(path) == mode);
    CHECK(read_text(path) == "changed");
  }
  ::umask(mask);
}

TEST_CASE("a link stays and leads to the new file; one that leads nowhere is refused") {
  const TempDir folder;
  const std::string path = folder.path("file");
  const std::string link = folder.path("link");
  CHECK(write(path, "old").ok());
  REQUIRE(::symlink("file", link.c_str()) == 0);
  CHECK(write(link, "new").ok());
  struct stat info {};
  REQUIRE(::lstat(link.c_str(), &info) == 0);
  CHECK(S_ISLNK(info.st_mode));
  CHECK(read_text(path) == "new");
  REQUIRE(::unlink(path.c_str()) == 0);
  const Status refused = write(link, "more");
  CHECK(refused.code() == StatusCode::io);
  CHECK(refused.message().find(link) != std::string::npos);
  CHECK(::lstat(path.c_str(), &info) != 0);
}
