"""The chat templates that are known by name, against what their models were trained with."""

import json

import pytest

from program import ROOT, fails, infer

DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
MESSAGES = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Who?")]
TURN = "<|START_OF_TURN_TOKEN|><|"
END = "<|END_OF_TURN_TOKEN|>"
SENTENCE = "<｜end▁of▁sentence｜>"

EXPECTED = {
    "alpaca": "<s>Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello</s>\n\n"
              "### Instruction:\nWho?\n\n### Response:\n",
    "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
              "<|im_start|>assistant\n",
    "command-r": f"<s>{TURN}SYSTEM_TOKEN|>Be brief.{END}{TURN}USER_TOKEN|>Hi{END}"
                 f"{TURN}CHATBOT_TOKEN|>Hello{END}{TURN}USER_TOKEN|>Who?{END}"
                 f"{TURN}CHATBOT_TOKEN|>",
    "deepseek": "<s>Be brief.### Instruction:\nHi\n### Response:\nHello\n<|EOT|>\n"
                "### Instruction:\nWho?\n### Response:\n",
    "deepseek2": f"<s>Be brief.\n\nUser: Hi\n\nAssistant: Hello{SENTENCE}User: Who?\n\nAssistant:",
    "deepseek3": f"<s>Be brief.\n\n<｜User｜>Hi<｜Assistant｜>Hello{SENTENCE}"
                 "<｜User｜>Who?<｜Assistant｜>",
    "gemma": "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
             "Hello<end_of_turn>\n<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\n",
    "granite": "<|start_of_role|>system<|end_of_role|>Be brief.<|end_of_text|>\n"
               "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
               "<|start_of_role|>assistant<|end_of_role|>Hello<|end_of_text|>\n"
               "<|start_of_role|>user<|end_of_role|>Who?<|end_of_text|>\n"
               "<|start_of_role|>assistant<|end_of_role|>",
    "llama2": "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s>"
              "<s>[INST] Who? [/INST]",
    "llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
              "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
              "<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "llama4": "<s><|header_start|>system<|header_end|>\n\nBe brief.<|eot|>"
              "<|header_start|>user<|header_end|>\n\nHi<|eot|>"
              "<|header_start|>assistant<|header_end|>\n\nHello<|eot|>"
              "<|header_start|>user<|header_end|>\n\nWho?<|eot|>"
              "<|header_start|>assistant<|header_end|>\n\n",
    "mistral-v1": "<s> [INST] Be brief.\n\nHi [/INST] Hello</s> [INST] Who? [/INST]",
    "mistral-v3": "<s>[INST] Be brief.\n\nHi[/INST] Hello</s>[INST] Who?[/INST]",
    "mistral-v3-tekken": "<s>[INST]Be brief.\n\nHi[/INST]Hello</s>[INST]Who?[/INST]",
    "mistral-v7": "<s>[SYSTEM_PROMPT] Be brief.[/SYSTEM_PROMPT][INST] Hi[/INST] Hello</s>"
                  "[INST] Who?[/INST]",
    "openchat": "<s>Be brief.<|end_of_turn|>GPT4 Correct User: Hi<|end_of_turn|>"
                "GPT4 Correct Assistant: Hello<|end_of_turn|>"
                "GPT4 Correct User: Who?<|end_of_turn|>GPT4 Correct Assistant:",
    "phi3": "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n"
            "<|user|>\nWho?<|end|>\n<|assistant|>\n",
    "phi4": "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|>Hi<|im_end|>"
            "<|im_start|>assistant<|im_sep|>Hello<|im_end|>"
            "<|im_start|>user<|im_sep|>Who?<|im_end|><|im_start|>assistant<|im_sep|>",
    "vicuna": "<s>Be brief.\n\nUSER: Hi\nASSISTANT: Hello</s>\nUSER: Who?\nASSISTANT:",
    "zephyr": "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n"
              "<|user|>\nWho?</s>\n<|assistant|>\n",
}


def rendered(*flags, add_generation_prompt=True):
    variables = {"messages": [{"role": r, "content": c} for r, c in MESSAGES],
                 "add_generation_prompt": add_generation_prompt, "bos_token": "<s>",
                 "eos_token": "</s>"}
    done = infer("template", *flags, "-i", "-", stdin=json.dumps(variables).encode())
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("name", EXPECTED)
def test_it_renders_as_the_models_know_it(name):
    assert rendered("--chat-template", name) == EXPECTED[name]


def test_every_name_is_tested_and_listed():
    text = " ".join(infer("chat", "--help").stdout.decode().split())
    listed = text.split("by name or as Jinja: ")[1].split(" --template")[0]
    assert listed.split(", ") == list(EXPECTED)
    fails(2, "chat", "--chat-template", "no-such", says=", ".join(EXPECTED))


def test_jinja_in_place_of_a_name(tmp_path):
    source = "{% for m in messages %}{{ m.role }} {% endfor %}"
    path = tmp_path / "t.jinja"
    path.write_text(source)
    expected = "system user assistant user "
    assert rendered("--chat-template", source) == expected
    assert rendered("--chat-template-file", path) == rendered("--template", path) == expected
    fails(2, "chat", "--chat-template", source, "--template", path, says="excludes")


def test_a_model_without_a_template_can_chat(tmp_path):
    base = tmp_path / "base.gguf"
    assert infer("synth", "custom", base, "--layers", 1, "--embedding", 64, "--feed-forward", 64,
                 "--heads", 2, "--tokens", 1000).returncode == 0
    chat = ["chat", base, "-p", "Hi", "-st", "-n", 4, "-q"]
    fails(3, *chat, says="no chat template")
    for name in EXPECTED:
        done = infer(*chat, "--chat-template", name)
        assert done.returncode == 0, done.stderr.decode()


def test_an_answer_ends_where_the_template_ends_it():
    # The text of the turn's end is what the model says there: the built-in one's is no chatml.
    flags = ["chat", "-m", DEMO, "-p", "Hi", "-st", "-n", 200, "-q", "--temp", 0, "--json"]
    done = infer(*flags, "--chat-template",
                 "{% for m in messages %}{{ m.content }}{% endfor %}", "--grammar",
                 'root ::= "well<|im_end|>and more"')
    said = "".join(json.loads(line).get("text", "") for line in done.stdout.splitlines())
    assert "and more" in said
    done = infer(*flags, "--chat-template", "chatml", "--grammar",
                 'root ::= "well<|im_end|>and more"')
    said = "".join(json.loads(line).get("text", "") for line in done.stdout.splitlines())
    assert said == "well"


def test_a_system_prompt_from_a_file(tmp_path):
    path = tmp_path / "system"
    path.write_text("Be brief.")
    flags = ["chat", "-m", DEMO, "-p", "Hi", "-st", "-n", 20, "-q", "--temp", 0]
    given = infer(*flags, "-sys", "Be brief.").stdout
    for name in ("-sysf", "--system-prompt-file"):
        assert infer(*flags, name, path).stdout == given != b""
    fails(2, *flags, "-sysf", path, "-sys", "x", says="excludes")
    fails(2, *flags, "-no-cnv", says="infer run")
    assert infer(*flags, "-cnv", "-sys", "Be brief.").stdout == given
