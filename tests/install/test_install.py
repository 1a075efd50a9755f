"""The installed library, used from outside the source tree: by pkg-config and by find_package, from
C and from C++, shared and static. INFER_BUILD_DIR is the build to install, CMAKE the cmake to use."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
MODEL = SOURCE / "tests/data/golden/llama-q4_0.gguf"
VOCABULARY = SOURCE / "tests/data/vocab/llama-spm.gguf"
CMAKE = os.environ.get("CMAKE", "cmake")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def run(*command, env=None, cwd=None):
    done = subprocess.run([str(c) for c in command], env=env, cwd=cwd, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    build = os.environ.get("INFER_BUILD_DIR")
    if not build:
        pytest.skip("INFER_BUILD_DIR is not set")
    cache = (pathlib.Path(build) / "CMakeCache.txt").read_text()
    if re.search(r"^INFER_SANITIZE:\w+=.+$", cache, re.M):
        pytest.skip("a build with sanitizers is not for installing")
    first = tmp_path_factory.mktemp("first") / "prefix"
    run(CMAKE, "--install", build, "--prefix", first)
    moved = tmp_path_factory.mktemp("moved") / "elsewhere"
    shutil.move(first, moved)  # a tree that was moved must still work
    return moved


@pytest.fixture(scope="module")
def libdir(prefix):
    return next(prefix.glob("lib*/**/pkgconfig/infer.pc")).parent.parent


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Copies, so that nothing of the source tree is found by accident."""
    folder = tmp_path_factory.mktemp("sources")
    for path in [HERE / "consumer.c", HERE / "consumer.cpp", SOURCE / "examples/complete.c",
                 SOURCE / "examples/complete.cpp", SOURCE / "examples/search.cpp"]:
        shutil.copy(path, folder)
    return folder


def check_consumer(program, env=None):
    out = run(program, MODEL, VOCABULARY, env=env).stdout
    assert "all right" in out, out


def check_example(program, env=None):
    done = run(program, MODEL, "Hello", 5, env=env)
    assert "tokens in" in done.stderr
    missing = subprocess.run([str(program), "/nonexistent.gguf"], env=env, capture_output=True,
                             text=True, timeout=60)
    assert missing.returncode == 1 and "nonexistent" in missing.stderr


def check_search(program, folder):
    lines = folder / "lines.txt"
    lines.write_text("a new movie\nthe cat sits outside\n")
    out = run(program, SOURCE / "tests/data/embed/bert-mean", lines, "the cat sits outside").stdout
    assert out.splitlines()[0] == "1.000  the cat sits outside"


def test_desktop(prefix):
    """What a desktop finds: the entry, its program, its icon and the type of its files."""
    if not (prefix / "bin/infer").exists():
        pytest.skip("a build without the program")
    entry = prefix / "share/applications/infer.desktop"
    if not entry.exists():
        pytest.skip("a build without the window")
    values = dict(line.split("=", 1) for line in entry.read_text().splitlines() if "=" in line)
    assert values["Exec"].split()[0] == "infer" and values["Terminal"] == "false"
    icons = prefix / "share/icons/hicolor"
    assert (icons / f"scalable/apps/{values['Icon']}.svg").exists()
    for size in [48, 128, 256]:
        png = (icons / f"{size}x{size}/apps/{values['Icon']}.png").read_bytes()
        assert int.from_bytes(png[16:20], "big") == int.from_bytes(png[20:24], "big") == size
    mime = (prefix / "share/mime/packages/infer-gguf.xml").read_text()
    assert values["MimeType"].rstrip(";") in mime
    about = (prefix / "share/metainfo/io.infer.infer.metainfo.xml").read_text()
    assert "infer.desktop" in about and "<binary>infer</binary>" in about


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_c_with_pkg_config(prefix, libdir, sources, tmp_path, kind):
    env = dict(os.environ, PKG_CONFIG_PATH=str(libdir / "pkgconfig"))
    version = run("pkg-config", "--modversion", "infer", env=env).stdout.strip()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    static = ["--static"] if kind == "static" else []
    flags = run("pkg-config", *static, "--cflags", "--libs", "infer", env=env).stdout.split()
    assert str(prefix) in " ".join(flags)
    link = ["-static"] if kind == "static" else [f"-Wl,-rpath,{libdir}"]
    for name, check in [("consumer", check_consumer), ("complete", check_example)]:
        program = tmp_path / name
        run(os.environ.get("CC", "cc"), "-std=c99", "-pedantic", *WARNINGS, sources / f"{name}.c",
            "-o", program, *flags, *link)
        check(program)


CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
find_package(infer 0.1 REQUIRED COMPONENTS @KIND@)
foreach(name consumer complete search)
  add_executable(${name} "@SOURCES@/${name}.cpp")
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
  target_link_libraries(${name} PRIVATE @TARGET@)
endforeach()
"""


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_cpp_with_find_package(prefix, sources, tmp_path, kind):
    target = "infer::infer" if kind == "shared" else "infer::static"
    text = CMAKE_PROJECT.replace("@KIND@", kind).replace("@TARGET@", target)
    (tmp_path / "CMakeLists.txt").write_text(text.replace("@SOURCES@", str(sources)))
    run(CMAKE, "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF")
    run(CMAKE, "--build", tmp_path / "build", "-j2")
    check_consumer(tmp_path / "build/consumer")
    check_example(tmp_path / "build/complete")
    check_search(tmp_path / "build/search", tmp_path)
    needed = run("readelf", "-d", tmp_path / "build/consumer").stdout
    assert ("libinfer.so" in needed) == (kind == "shared")


def test_only_the_api_is_exported(libdir):
    lines = run("nm", "-D", "-C", "--defined-only", libdir / "libinfer.so").stdout.splitlines()
    names = [line.split(" ", 2)[2] for line in lines]
    strange = [n for n in names if not re.match(r"infer_[a-z]|infer::", n)]
    assert strange == []
    header = (SOURCE / "engine/include/infer/infer.h").read_text()
    declared = set(re.findall(r"INFER_API[^;(]*?\b(infer_\w+)\(", header))
    assert declared and {n for n in names if n.startswith("infer_")} == declared
    # Of the C++ API: only what its headers declare.
    public = "".join(header.read_text()
                     for header in (SOURCE / "engine/include/infer").glob("*.hpp"))
    for name in names:
        if name.startswith("infer::"):
            last = re.sub(r"\[abi:\w+\]", "", name).split("(")[0].split("::")[-1]
            assert re.search(rf"\b{re.escape(last.lstrip('~'))}\b", public), name


def test_soname_and_dependencies(libdir):
    dynamic = run("readelf", "-d", libdir / "libinfer.so").stdout
    assert re.search(r"SONAME.*\[libinfer\.so\.\d+\]", dynamic)
    needed = set(re.findall(r"NEEDED.*\[(.+?)\]", dynamic))
    allowed = re.compile(r"(libstdc\+\+|libgcc_s|libm|libc|libdl|libpthread|ld-linux.*)\.so.*")
    assert all(allowed.fullmatch(n) for n in needed), needed


def test_manual_pages_and_completion_scripts(prefix):
    program = prefix / "bin/infer"
    if not program.exists():
        pytest.skip("this build leaves the program out")
    share = prefix / "share"
    pages = sorted(path.name for path in (share / "man/man1").iterdir())
    commands = run(program, "help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert pages == sorted(["infer.1", *(f"infer-{c.split()[0]}.1" for c in commands)])
    assert (share / "man/man1/infer-run.1").read_text() == run(program, "man", "run").stdout
    for shell, path in (("bash", "bash-completion/completions/infer"),
                        ("zsh", "zsh/site-functions/_infer"),
                        ("fish", "fish/vendor_completions.d/infer.fish")):
        text = (share / path).read_text()
        assert text == run(program, "completion", shell).stdout
        assert str(SOURCE) not in text and "--top-k" in text.replace("-l top-k", "--top-k")


def test_nothing_names_the_build_machine(prefix, libdir):
    texts = [libdir / "pkgconfig/infer.pc", *(libdir / "cmake/infer").glob("*.cmake")]
    assert len(texts) >= 4
    for path in texts:
        text = path.read_text()
        assert str(SOURCE) not in text and os.environ["INFER_BUILD_DIR"] not in text, path
        assert "/usr/" not in text.replace("/usr/bin/cmake", ""), path
    if (prefix / "bin/infer").exists():  # a build may leave the program out
        run(prefix / "bin/infer", "--version")
