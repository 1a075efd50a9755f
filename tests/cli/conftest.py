"""What several files of tests use."""

import pytest

from at_terminal import Terminal
from program import infer

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
