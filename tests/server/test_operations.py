"""What tools/serve has for those who run servers."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

SERVE = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "serve"
METRIC = re.compile(r"infer_[a-z_]+")


def test_the_dashboard_shows_what_there_is(service):
    service.post("/v1/completions", {"prompt": "Once", "max_tokens": 2})
    _, _, text = service.ask("GET", "/metrics")
    known = {re.split("[{ ]", line)[0] for line in text.decode().splitlines() if not line.startswith("#")}
    dashboard = json.loads((SERVE / "grafana-dashboard.json").read_text(encoding="utf-8"))
    wanted = {name for panel in dashboard["panels"] for target in panel["targets"]
              for name in METRIC.findall(target["expr"])}
    assert len(wanted) > 10 and wanted <= known
    scaled = (SERVE / "kubernetes" / "infer.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"infer_[a-z]+_[a-z_]+", scaled)) <= known


def test_promtool(service):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    _, _, text = service.ask("GET", "/metrics")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_in_the_files_exist():
    from service import BIN
    help_text = subprocess.run([BIN, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    for file in ("infer.service", "kubernetes/infer.yaml"):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", (SERVE / file).read_text(encoding="utf-8")):
            if option in ("--from-file", "--now"):
                continue
            assert option in help_text, (file, option)


def test_the_unit():
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run([analyse, "security", "--offline=true", "--threshold=25", SERVE / "infer.service"],
                          capture_output=True, text=True)
    if "nknown option" in done.stderr or "unrecognized" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at files")
    assert done.returncode == 0, done.stdout + done.stderr
