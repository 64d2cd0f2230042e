#include "tenet/io/atomic_file.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <string>

#include "../temporary_folder.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

TEST_CASE("an atomic file appears when it is committed, and replaces what was there") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  {
    AtomicFile file(path);
    file.write("new ", 4);
    file.write("text", 4);
    CHECK(read_file(path) == "old");
    CHECK(folder.files() == 2);
    file.commit();
    CHECK(read_file(path) == "new text");
    CHECK(folder.files() == 1);
  }
  CHECK(read_file(path) == "new text");
}

TEST_CASE("an atomic file which is not committed leaves nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  {
    AtomicFile file(path);
    file.write("new", 3);
  }
  CHECK(read_file(path) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a full disk leaves what was there") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  // A limit on the size of files stands for the full disk.
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    AtomicFile file(path);
    const std::string text(10000, 'x');
    file.write(text.data(), text.size());
    file.commit();
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK_THAT(message, Contains("cannot write: File too large") && Contains(path));
  CHECK(read_file(path) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a file that cannot be created or put in place is an error") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(AtomicFile(folder / "missing/file"), Contains("cannot create") && Contains("No such file"));
  std::filesystem::create_directory(folder / "taken");
  folder.write("taken/x", "");
  AtomicFile file(folder / "taken");
  CHECK_THROWS_WITH(file.commit(), Contains("cannot put it in its place"));
  CHECK(folder.files() == 1);
}
