"""How a document is spelt. The chat template in the model's file does the same in Jinja."""

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = [END_OF_TEXT, START, END]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def render(document):
    return "".join(text for text, _ in segments(document)) + END_OF_TEXT


def segments(document):
    """(text, whether the model writes it): what users and system prompts say it only reads."""
    for role, text in document:
        if role is None:
            yield text, True
        elif role == "assistant":
            yield f"{START}assistant\n", False
            yield f"{text}{END}", True
            yield "\n", False
        else:
            yield f"{START}{role}\n{text}{END}\n", False
