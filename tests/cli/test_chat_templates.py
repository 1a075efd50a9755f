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
    "deepseek3": f"<s>Be brief.<｜User｜>Hi<｜Assistant｜>Hello{SENTENCE}"
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
    "mistral-v3": "<s>[INST] Hi[/INST] Hello</s>[INST] Be brief.\n\nWho?[/INST]",
    "mistral-v3-tekken": "<s>[INST]Hi[/INST]Hello</s>[INST]Be brief.\n\nWho?[/INST]",
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
    "vicuna": "<s>Be brief. USER: Hi ASSISTANT: Hello</s>USER: Who? ASSISTANT:",
    "zephyr": "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n"
              "<|user|>\nWho?</s>\n<|assistant|>\n",
}

# White space around a text: some formats trim it, others keep it.
SYSTEM, FIRST, ANSWER, SECOND = (
    ("system", " Sys.\n"), ("user", " Hi "), ("assistant", "  Yo\n"), ("user", "\nWho? "))

# What begins an answer, and before it: one user turn; a system message and a user turn; a user
# turn, its answer and another user turn.
SPACED = {
    "alpaca": (
        "### Response:\n",
        "<s>### Instruction:\nHi\n\n",
        "<s>Sys.\n\n### Instruction:\nHi\n\n",
        "<s>### Instruction:\nHi\n\n### Response:\nYo</s>\n\n### Instruction:\nWho?\n\n",
    ),
    "chatml": (
        "<|im_start|>assistant\n",
        "<|im_start|>user\n Hi <|im_end|>\n",
        "<|im_start|>system\n Sys.\n<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n",
        "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n  Yo\n<|im_end|>\n"
        "<|im_start|>user\n\nWho? <|im_end|>\n",
    ),
    "command-r": (
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        "<s><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>",
        "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|> Sys.\n<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>",
        "<s><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Yo<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who?<|END_OF_TURN_TOKEN|>",
    ),
    "deepseek": (
        "### Response:\n",
        "<s>### Instruction:\n Hi \n",
        "<s> Sys.\n### Instruction:\n Hi \n",
        "<s>### Instruction:\n Hi \n### Response:\n  Yo\n\n<|EOT|>\n### Instruction:\n\nWho? \n",
    ),
    "deepseek2": (
        "Assistant:",
        "<s>User:  Hi \n\n",
        "<s> Sys.\n\n\nUser:  Hi \n\n",
        "<s>User:  Hi \n\nAssistant:   Yo\n<｜end▁of▁sentence｜>User: \nWho? \n\n",
    ),
    "deepseek3": (
        "<｜Assistant｜>",
        "<s><｜User｜> Hi ",
        "<s> Sys.\n<｜User｜> Hi ",
        "<s><｜User｜> Hi <｜Assistant｜>  Yo\n<｜end▁of▁sentence｜><｜User｜>\nWho? ",
    ),
    "gemma": (
        "<start_of_turn>model\n",
        "<s><start_of_turn>user\nHi<end_of_turn>\n",
        "<s><start_of_turn>user\n Sys.\n\n\nHi<end_of_turn>\n",
        "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n"
        "<start_of_turn>user\nWho?<end_of_turn>\n",
    ),
    "granite": (
        "<|start_of_role|>assistant<|end_of_role|>",
        "<|start_of_role|>user<|end_of_role|> Hi <|end_of_text|>\n",
        "<|start_of_role|>system<|end_of_role|> Sys.\n<|end_of_text|>\n"
        "<|start_of_role|>user<|end_of_role|> Hi <|end_of_text|>\n",
        "<|start_of_role|>user<|end_of_role|> Hi <|end_of_text|>\n"
        "<|start_of_role|>assistant<|end_of_role|>  Yo\n<|end_of_text|>\n"
        "<|start_of_role|>user<|end_of_role|>\nWho? <|end_of_text|>\n",
    ),
    "llama2": (
        "",
        "<s>[INST] Hi [/INST]",
        "<s>[INST] <<SYS>>\n Sys.\n\n<</SYS>>\n\n Hi [/INST]",
        "<s>[INST] Hi [/INST] Yo </s><s>[INST] Who? [/INST]",
    ),
    "llama3": (
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
        "<s><|start_header_id|>system<|end_header_id|>\n\nSys.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nYo<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>",
    ),
    "llama4": (
        "<|header_start|>assistant<|header_end|>\n\n",
        "<s><|header_start|>user<|header_end|>\n\n Hi <|eot|>",
        "<s><|header_start|>system<|header_end|>\n\nSys.<|eot|>"
        "<|header_start|>user<|header_end|>\n\n Hi <|eot|>",
        "<s><|header_start|>user<|header_end|>\n\n Hi <|eot|>"
        "<|header_start|>assistant<|header_end|>\n\n  Yo\n<|eot|>"
        "<|header_start|>user<|header_end|>\n\n\nWho? <|eot|>",
    ),
    "mistral-v1": (
        "",
        "<s> [INST]  Hi  [/INST]",
        "<s> [INST]  Sys.\n\n\n Hi  [/INST]",
        "<s> [INST]  Hi  [/INST]   Yo\n</s> [INST] \nWho?  [/INST]",
    ),
    "mistral-v3": (
        "",
        "<s>[INST]  Hi [/INST]",
        "<s>[INST]  Sys.\n\n\n Hi [/INST]",
        "<s>[INST]  Hi [/INST] Yo</s>[INST] \nWho? [/INST]",
    ),
    "mistral-v3-tekken": (
        "",
        "<s>[INST] Hi [/INST]",
        "<s>[INST] Sys.\n\n\n Hi [/INST]",
        "<s>[INST] Hi [/INST]  Yo\n</s>[INST]\nWho? [/INST]",
    ),
    "mistral-v7": (
        "",
        "<s>[INST]  Hi [/INST]",
        "<s>[SYSTEM_PROMPT]  Sys.\n[/SYSTEM_PROMPT][INST]  Hi [/INST]",
        "<s>[INST]  Hi [/INST]   Yo\n</s>[INST] \nWho? [/INST]",
    ),
    "openchat": (
        "GPT4 Correct Assistant:",
        "<s>GPT4 Correct User:  Hi <|end_of_turn|>",
        "<s> Sys.\n<|end_of_turn|>GPT4 Correct User:  Hi <|end_of_turn|>",
        "<s>GPT4 Correct User:  Hi <|end_of_turn|>"
        "GPT4 Correct Assistant:   Yo\n<|end_of_turn|>"
        "GPT4 Correct User: \nWho? <|end_of_turn|>",
    ),
    "phi3": (
        "<|assistant|>\n",
        "<|user|>\n Hi <|end|>\n",
        "<|system|>\n Sys.\n<|end|>\n<|user|>\n Hi <|end|>\n",
        "<|user|>\n Hi <|end|>\n<|assistant|>\n  Yo\n<|end|>\n<|user|>\n\nWho? <|end|>\n",
    ),
    "phi4": (
        "<|im_start|>assistant<|im_sep|>",
        "<|im_start|>user<|im_sep|> Hi <|im_end|>",
        "<|im_start|>system<|im_sep|> Sys.\n<|im_end|><|im_start|>user<|im_sep|> Hi <|im_end|>",
        "<|im_start|>user<|im_sep|> Hi <|im_end|>"
        "<|im_start|>assistant<|im_sep|>  Yo\n<|im_end|>"
        "<|im_start|>user<|im_sep|>\nWho? <|im_end|>",
    ),
    "vicuna": (
        "ASSISTANT:",
        "<s>USER:  Hi  ",
        "<s> Sys.\n USER:  Hi  ",
        "<s>USER:  Hi  ASSISTANT:   Yo\n</s>USER: \nWho?  ",
    ),
    "zephyr": (
        "<|assistant|>\n",
        "<|user|>\n Hi </s>\n",
        "<|system|>\n Sys.\n</s>\n<|user|>\n Hi </s>\n",
        "<|user|>\n Hi </s>\n<|assistant|>\n  Yo\n</s>\n<|user|>\n\nWho? </s>\n",
    ),
}


def rendered(*flags, messages=MESSAGES, add_generation_prompt=True):
    variables = {"messages": [{"role": r, "content": c} for r, c in messages],
                 "add_generation_prompt": add_generation_prompt, "bos_token": "<s>",
                 "eos_token": "</s>"}
    done = infer("template", *flags, "-i", "-", stdin=json.dumps(variables).encode())
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("name", EXPECTED)
def test_it_renders_as_the_models_know_it(name):
    assert rendered("--chat-template", name) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("answer", [True, False])
def test_it_trims_as_the_models_know_it(name, answer):
    begin, one_turn, with_system, turns = SPACED[name]
    # Phi 3 ends a conversation that no answer follows.
    end = begin if answer else "</s>" if name == "phi3" else ""
    for expected, messages in ((one_turn, [FIRST]), (with_system, [SYSTEM, FIRST]),
                               (turns, [FIRST, ANSWER, SECOND])):
        assert rendered("--chat-template", name, messages=messages,
                        add_generation_prompt=answer) == expected + end
    whole = EXPECTED[name]
    assert whole.endswith(begin)
    assert rendered("--chat-template", name, add_generation_prompt=answer) == (
        whole[:len(whole) - len(begin)] + end)


@pytest.mark.parametrize("name, expected", [
    ("mistral-v3", "<s>[INST] Be brief.\n\nHi[/INST] Hello</s>"),
    ("mistral-v3-tekken", "<s>[INST]Be brief.\n\nHi[/INST]Hello</s>"),
])
def test_an_answer_after_the_last_user_turn_keeps_the_system_prompt(name, expected):
    assert rendered("--chat-template", name, messages=MESSAGES[:3]) == expected


def test_deepseek_3_puts_all_system_messages_first():
    messages = [("system", "A"), ("user", "Hi"), ("system", "B")]
    assert rendered("--chat-template", "deepseek3", messages=messages) == (
        "<s>A\n\nB<｜User｜>Hi<｜Assistant｜>")


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
