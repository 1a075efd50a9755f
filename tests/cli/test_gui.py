"""infer gui: where there is a display and where there is none."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from program import INFER, ROOT, fails, infer

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"
RUNTIME = 1


def environment(folder, **more):
    """Of a user whose folders are all in this one, without a display unless one is given."""
    names = ["DISPLAY", "WAYLAND_DISPLAY"]
    variables = {k: v for k, v in os.environ.items() if k not in names}
    for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HOME"]:
        path = folder / name.lower()
        path.mkdir(mode=0o700, exist_ok=True)
        variables[name] = str(path)
    return variables | more


def has_window():
    done = infer("gui", env={k: v for k, v in os.environ.items() if "DISPLAY" not in k})
    return b"built without the window" not in done.stderr


def test_without_a_display_it_says_so(tmp_path):
    said = fails(RUNTIME, "gui", env=environment(tmp_path))
    assert "built without" in said or "display" in said or "libglfw3" in said
    assert "infer chat" in said or "package" in said


def test_a_display_that_is_not_there(tmp_path):
    fails(RUNTIME, "gui", env=environment(tmp_path, DISPLAY=":987"))


def test_the_scale_is_a_number_in_its_range(tmp_path):
    for scale in ["1e9", "8.5", "1e6", "0.01", "0.4999", "9", "-1", "nan", "inf"]:
        fails(2, "gui", "--scale", scale, env=environment(tmp_path),
              says=f"--scale: expected 0.5 to 8, found {scale}")
    for scale in ["0.5", "1.25", "8", "8e0"]:  # these get as far as the display
        fails(RUNTIME, "gui", "--scale", scale, env=environment(tmp_path))


def test_without_arguments_in_a_script_it_is_a_mistake(tmp_path):
    """Also where there is a display: what reads the output waits for it."""
    for display in [{}, {"DISPLAY": ":987"}]:
        done = infer(env=environment(tmp_path, **display))
        assert done.returncode == 2 and b"no command given" in done.stderr


def test_without_arguments_a_desktop_gets_the_window(tmp_path):
    done = subprocess.run([INFER], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=60,
                          env=environment(tmp_path, DISPLAY=":987"))
    assert done.returncode == RUNTIME  # the window was tried; the help would end with 2


@pytest.fixture
def display():
    """The name of a display that is made for the test."""
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is missing")
    if not has_window():
        pytest.skip("a build without the window")
    ours, theirs = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(theirs), "-screen", "0", "1280x800x24"],
                              pass_fds=[theirs], stderr=subprocess.DEVNULL)
    os.close(theirs)
    with open(ours) as told:  # to its end: a server that cannot write its line ends
        number = told.readline().strip()
        told.read()
    yield ":" + number
    server.terminate()
    server.wait()


def wait_until(condition, process, what):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end, what
        time.sleep(0.05)


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_window_opens_waits_and_ends(display, tmp_path):
    env = environment(tmp_path, DISPLAY=display)
    first = subprocess.Popen([INFER, "gui"], env=env, stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
    try:
        store = tmp_path / "xdg_data_home/infer/conversations.db"
        wait_until(store.exists, first, "no store")
        # A second one hands its model to the first one and ends.
        socket = tmp_path / "xdg_runtime_dir"
        wait_until(lambda: any(p.is_socket() for p in socket.rglob("*")), first, "no socket")
        second = infer("gui", MODEL, env=env)
        assert second.returncode == 0, second.stderr.decode()
        assert first.poll() is None
        # Once all is drawn it waits: in three seconds at most a tenth of one processor's time.
        time.sleep(3)
        before = processor_seconds(first)
        time.sleep(3)
        assert processor_seconds(first) - before < 0.3
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=60)
    assert first.returncode == 143, first.stderr.read().decode()
