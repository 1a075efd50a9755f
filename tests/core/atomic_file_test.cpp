// Files that are there in full or not at all.
#include "engine/core/atomic_file.h"

#include <doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "engine/core/file.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

Status write(const std::string& path, const std::string& text,
             AtomicFile::Access access = AtomicFile::Access::as_usual) {
  Result<std::unique_ptr<AtomicFile>> file = AtomicFile::create(path, access);
  if (!file) return file.error();
  if (Status status = (*file)->write(bytes_of(text)); !status.ok()) return status;
  return (*file)->commit();
}

/// The names in a folder.
std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
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

TEST_CASE("a private file is the user's alone, whatever was there before") {
  const TempDir folder;
  const std::string path = folder.path("file");
  for (const mode_t mask : {0, 022, 0277}) {
    const mode_t before = ::umask(mask);
    ::unlink(path.c_str());
    CHECK(write(path, "new", AtomicFile::Access::user_only).ok());
    CHECK(mode_of(path) == 0600);
    REQUIRE(::chmod(path.c_str(), 0664) == 0);
    CHECK(write(path, "changed", AtomicFile::Access::user_only).ok());
    CHECK(mode_of(path) == 0600);
    ::umask(before);
  }
}

TEST_CASE("a file that others may write is not trusted") {
  const TempDir folder;
  const std::string inner = folder.path("inner");
  REQUIRE(::mkdir(inner.c_str(), 0700) == 0);
  const std::string path = inner + "/file";
  CHECK(write(path, "text").ok());
  const auto trusted = [&] { return File::open(path).value().written_by_user(); };
  for (const mode_t mode : {0600, 0644, 0400}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    CHECK(trusted().ok());
  }
  for (const mode_t mode : {0620, 0602, 0666}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    CHECK(trusted().code() == StatusCode::invalid_argument);
    CHECK(trusted().message().find(path) != std::string::npos);
  }
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  for (const mode_t mode : {0770, 0707, 0777}) {
    REQUIRE(::chmod(inner.c_str(), mode) == 0);
    CHECK(trusted().code() == StatusCode::invalid_argument);
  }
  REQUIRE(::chmod(inner.c_str(), 0755) == 0);
  CHECK(trusted().ok());
  if (::geteuid() != 0) return;  // only root can give a file away
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  CHECK(trusted().message().find("12345") != std::string::npos);
  REQUIRE(::chown(path.c_str(), 0, 0) == 0);
  REQUIRE(::chown(inner.c_str(), 12345, 12345) == 0);
  CHECK(trusted().code() == StatusCode::invalid_argument);
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

TEST_CASE("what a killed writer left is removed by the next writer of the same file") {
  const TempDir folder;
  const std::string path = folder.path("file");
  for (const mode_t mode : {0600, 0444}) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto file = AtomicFile::create(path);
      if (file) (void)(*file)->write(bytes_of(std::string(3 << 20, 'x')));
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(names_in(folder.path("")).size() == (mode == 0600 ? 1 : 2));
    CHECK(write(path, "new").ok());
    CHECK(names_in(folder.path("")) == std::set<std::string>{"file"});
    CHECK(read_text(path) == "new");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
}

TEST_CASE("writers at work leave each other's files alone, and so what has another name") {
  const TempDir folder;
  const std::string path = folder.path("file");
  std::set<std::string> others{"file.1-0.partial", "file.1.part",     "file.-0.part",
                               "file.1-.part",     "file.1-0-0.part", "file.1x-0.part",
                               "other.1-0.part",   "file2.1-0.part",  "file.2-0.part"};
  for (const std::string& name : others) write_bytes(folder.path(name), bytes_of("x"));
  REQUIRE(::unlink(folder.path("file.2-0.part").c_str()) == 0);
  REQUIRE(::symlink("file.1.part", folder.path("file.2-0.part").c_str()) == 0);

  std::vector<std::unique_ptr<AtomicFile>> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(std::move(AtomicFile::create(path).value()));
    CHECK(writers.back()->write(bytes_of(std::to_string(i))).ok());
  }
  CHECK(names_in(folder.path("")).size() == others.size() + 3);
  CHECK(writers[1]->commit().ok());
  CHECK(read_text(path) == "1");
  CHECK(writers[0]->commit().ok());
  CHECK(read_text(path) == "0");
  writers.clear();
  CHECK(read_text(path) == "0");
  others.insert("file");
  CHECK(names_in(folder.path("")) == others);
}
