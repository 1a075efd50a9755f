"""LangChain, as programs use it."""

import pytest

langchain = pytest.importorskip("langchain_openai")


def test_chat(service):
    model = langchain.ChatOpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="none",
                                 model="infer-demo", max_tokens=10, seed=1)
    whole = model.invoke("Tell me a story.")
    assert whole.content.startswith("Once upon a time")
    assert "".join(part.content for part in model.stream("Tell me a story.")) == whole.content
    assert whole.usage_metadata["output_tokens"] == 10
