"""What several files of tests use."""

import pytest

from at_terminal import Terminal
from hub_server import Hub
from program import infer

# What could lead downloads, or the search for models, somewhere else.
HUB_NAMES = ("HF_HUB_CACHE", "HF_HOME", "HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN",
             "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "MODEL_ENDPOINT", "XDG_CACHE_HOME", "INFER_MODELS",
             "LLAMA_CACHE", "OLLAMA_MODELS", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "http_proxy",
             "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")

TEMPLATE = """{%- for m in messages -%}
<|{{ m.role }}|>{{ m.content }}</s>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}"""


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "synth.gguf"
    done = infer("synth", "custom", path, "--layers", 2, "--embedding", 64, "--feed-forward", 96,
                 "--heads", 4, "--kv-heads", 2, "--tokens", 1000, "--context", 4096)
    assert done.returncode == 0, done.stderr.decode()
    return path


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "plain.jinja"
    path.write_text(TEMPLATE)
    return path


@pytest.fixture
def terminal(model, template, tmp_path):
    all_of_them = []

    def start(*arguments, **options):
        t = Terminal("chat", "-m", model, "--template", template,
                     *(arguments or ("-n", 6, "--temp", 0)), home=tmp_path, **options)
        all_of_them.append(t)
        return t
    yield start
    for t in all_of_them:
        t.clean()


@pytest.fixture
def servers():
    """Starts servers that speak the hub's API."""
    started = []

    def start():
        started.append(Hub())
        return started[-1]
    yield start
    for server in started:
        server.close()


@pytest.fixture
def hub(servers, tmp_path, monkeypatch):
    """The hub that the program asks, and an empty home folder."""
    for name in HUB_NAMES:
        monkeypatch.delenv(name, raising=False)
    # OpenSSL asks for a locale; with this variable glibc loses some bytes then, which counts as a leak.
    monkeypatch.delenv("LOCPATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    hub = servers()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.folder = tmp_path / "home" / ".cache" / "huggingface" / "hub" / "models--org--tiny-GGUF"
    return hub
