"""The program at a terminal of its own."""

import os
import re
import select
import signal
import termios
import time

from program import INFER

STATISTICS = r"\[\d+ tokens at [^\r]*; memory [^\r]*\]"


class Terminal:
    """infer chat, or another command; all waits have an end."""

    def __init__(self, *arguments, home, ignored=(), stoppable=False, environment=None):
        self.fd, terminal = os.openpty()
        self.modes_before = self.modes()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.fd)
                os.login_tty(terminal)
                os.environ.update(HOME=str(home), TERM="xterm", LANG="C.UTF-8")
                os.environ.pop("XDG_STATE_HOME", None)
                os.environ.update(environment or {})
                for one in (signal.SIGINT, signal.SIGQUIT):  # as a shell's background ignores them
                    signal.signal(one, signal.SIG_DFL)
                for one in ignored:
                    signal.signal(one, signal.SIG_IGN)
                if stoppable:
                    act_as_a_shell()
                os.execv(INFER, [INFER, *map(str, arguments)])
            finally:
                os._exit(127)
        os.close(terminal)
        self.seen = ""
        self.log = ""  # all of it

    def modes(self):
        return termios.tcgetattr(self.fd)

    def receive(self, deadline, what):
        """False at the end of the output."""
        left = deadline - time.monotonic()
        assert left > 0, f"expected {what}, found {self.seen[-2000:]!r}"
        if not select.select([self.fd], [], [], left)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        self.log += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, seconds=60):
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            if len(self.seen) > 100000:
                self.seen = self.seen[-10000:]
            assert self.receive(deadline, repr(pattern)), f"the end, after {self.seen!r}"
        self.seen = self.seen[found.end():]
        return found

    def expect_prompt(self):
        """A new line that is being read: once the key is shown the terminal is the editor's."""
        self.expect("> ")
        self.send("#")
        self.expect("#")
        self.send("\x7f")

    def send(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:  # the program may have to write before it reads on
            readable, writable, _ = select.select([self.fd], [self.fd], [], 60)
            assert readable or writable, "the program reads nothing"
            if readable:
                self.receive(time.monotonic() + 60, "room")
            if writable:
                data = data[os.write(self.fd, data[:512]):]

    def end(self, seconds=60):
        deadline = time.monotonic() + seconds
        while self.receive(deadline, "the end"):
            pass
        return self.wait(deadline)

    def wait(self, deadline):
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, "the program does not end"
            time.sleep(0.01)

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def clean(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.close()


def act_as_a_shell():
    """Returns in a process that can be stopped, of which the caller sees to what a shell does."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        return
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            os._exit(os.waitstatus_to_exitcode(status))
        os.tcsetpgrp(0, os.getpid())
        gathers = termios.tcgetattr(0)[3] & termios.ICANON != 0
        os.write(1, b"stopped, lines\r\n" if gathers else b"stopped, keys\r\n")
        os.tcsetpgrp(0, pid)
        os.kill(pid, signal.SIGCONT)
