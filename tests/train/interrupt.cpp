#include "tenet/train/interrupt.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace tenet;

namespace {

volatile sig_atomic_t handled = 0;

// Sets what SIGINT does until its end.
class Handler {
 public:
  explicit Handler(void (*handler)(int)) : before_(signal(SIGINT, handler)) {}
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
  ~Handler() { signal(SIGINT, before_); }

 private:
  void (*before_)(int);
};

void count(int) { handled = handled + 1; }

// Runs `body` in a process of its own; what it gives is the exit status, or minus the signal that ended it.
template <class Body>
int in_process(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("the first Ctrl-C is noted, the second does what it did before") {
  const Handler handler(count);
  handled = 0;
  {
    const InterruptGuard guard;
    CHECK_FALSE(InterruptGuard::requested());
    raise(SIGINT);
    CHECK(InterruptGuard::requested());
    CHECK(handled == 0);
    raise(SIGINT);
    CHECK(handled == 1);
  }
  CHECK(InterruptGuard::requested());
  raise(SIGINT);
  CHECK(handled == 2);
  const InterruptGuard next;
  CHECK_FALSE(InterruptGuard::requested());
}

TEST_CASE("without a Ctrl-C the handler comes back too") {
  const Handler handler(count);
  handled = 0;
  { const InterruptGuard guard; }
  raise(SIGINT);
  CHECK(handled == 1);
  CHECK_FALSE(InterruptGuard::requested());
}

TEST_CASE("the outermost guard alone acts") {
  const Handler handler(count);
  handled = 0;
  {
    const InterruptGuard outer;
    { const InterruptGuard inner; }
    raise(SIGINT);
    CHECK(handled == 0);
    const InterruptGuard inner;
    CHECK(InterruptGuard::requested());
  }
  raise(SIGINT);
  CHECK(handled == 1);
}

TEST_CASE("a process is ended by the second Ctrl-C, and by the first after the guard") {
  const Handler handler(SIG_DFL);
  CHECK(in_process([] {
          const InterruptGuard guard;
          raise(SIGINT);
          return 7;
        }) == 7);
  CHECK(in_process([] {
          const InterruptGuard guard;
          raise(SIGINT);
          raise(SIGINT);
          return 7;
        }) == -SIGINT);
  CHECK(in_process([] {
          { const InterruptGuard guard; }
          raise(SIGINT);
          return 7;
        }) == -SIGINT);
}

TEST_CASE("where Ctrl-C is ignored it stays so") {
  const Handler handler(SIG_IGN);
  const InterruptGuard guard;
  raise(SIGINT);
  CHECK_FALSE(InterruptGuard::requested());
}
