"""The page at /, in a browser."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"


def test_its_files(service):
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript"),
                       ("/markdown.js", "text/javascript")):
        status, headers, text = service.ask("GET", path)
        assert status == 200 and headers["content-type"] == f"{kind}; charset=utf-8" and text
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert b"http://" not in text  # it asks this server alone
        assert b"innerHTML" not in text


MARKDOWN = [
    # Numbers go on behind empty lines and behind what stands between.
    ("1. a\n\n2. b\n\n3. c", "<ol><li><p>a</p></li><li><p>b</p></li><li><p>c</p></li></ol>"),
    ("1. a\n```\ncode\n```\n2. b", '<ol><li>a</li></ol><pre><code>code</code></pre><ol start="2"><li>b</li></ol>'),
    ("1. a\n\n   ```py\n   x = 1\n   ```\n2. b",
     "<ol><li><p>a</p><pre><code>x = 1</code></pre></li><li><p>b</p></li></ol>"),
    ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
    ("text\n2. no", "<p>text<br>2. no</p>"),
    ("2 * 3 * 4 = 24", "<p>2 * 3 * 4 = 24</p>"),
    ("snake_case_name \\*x\\*", "<p>snake_case_name *x*</p>"),
    ("**b** *e* **a *b* c** ``a`b``",
     "<p><strong>b</strong> <em>e</em> <strong>a <em>b</em> c</strong> <code>a`b</code></p>"),
    ("*a **b c** d*", "<p><em>a <strong>b c</strong> d</em></p>"),
    ("a* *b* _c_ **d", "<p>a* <em>b</em> <em>c</em> **d</p>"),
    ("````\n```\nx\n```\n````", "<pre><code>```\nx\n```</code></pre>"),
    ("~~~\n```\n~~~", "<pre><code>```</code></pre>"),
    ("# T\n> q\nr\n\n---", "<h3>T</h3><blockquote><p>q<br>r</p></blockquote><hr>"),
    ("[o](https://e.org) [l](javascript:alert(1)) <b>",
     '<p><a href="https://e.org">o</a> [l](javascript:alert(1)) &lt;b&gt;</p>'),
]
LONG = ["[" * 32000, "*a " * 16000, "`" * 32000, "`a``b" * 8000, "[](http://" * 4000, "**a *b " * 6000, "- " * 10000,
        ">" * 20000, "1. a\n\n" * 8000, "```\n" * 10001]

# As much of a document as markdown.js uses. It prints the HTML of each text.
NODE = """
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
class Element {
  constructor(name) { this.name = name; this.parts = []; }
  set textContent(text) { this.parts = text ? [text] : []; }
  append(...parts) { for (const part of parts) this.parts.push(...(part.name === "" ? part.parts : [part])); }
  get html() {
    const inner = this.parts.map((part) => typeof part === "string" ? escaped(part) : part.html).join("");
    if (this.name === "") return inner;
    if (this.name === "br" || this.name === "hr") return `<${this.name}>`;
    const more = (this.start ? ` start="${this.start}"` : "") + (this.href ? ` href="${this.href}"` : "");
    return `<${this.name}${more}>${inner}</${this.name}>`;
  }
}
globalThis.document = {createElement: (name) => new Element(name), createDocumentFragment: () => new Element("")};
const fs = require("fs");
require("vm").runInThisContext(fs.readFileSync(process.argv[2], "utf8") + ";globalThis.markdown = markdown");
console.log(JSON.stringify(JSON.parse(fs.readFileSync(0, "utf8")).map((text) => markdown(text).html)));
"""


def test_markdown(tmp_path):
    node = shutil.which("node")
    if not node:
        pytest.skip("node is missing")
    script = tmp_path / "run.js"
    script.write_text(NODE)
    texts = [text for text, _ in MARKDOWN] + LONG
    ran = subprocess.run([node, script, ROOT / "app" / "server" / "page" / "markdown.js"], input=json.dumps(texts),
                         capture_output=True, text=True, check=True, timeout=60)
    made = json.loads(ran.stdout)
    for (text, expected), found in zip(MARKDOWN, made):
        assert found == expected, text
    assert made[len(MARKDOWN)] == "<p>" + "[" * 32000 + "</p>"


@pytest.fixture
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service as Driver
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not chromium:
        pytest.skip("chromium or chromium-driver is missing")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--window-size=1200,800"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(service=Driver(driver), options=options)
    yield made
    made.quit()


def wait(browser, condition, seconds=30):
    from selenium.webdriver.support.ui import WebDriverWait
    return WebDriverWait(browser, seconds).until(lambda _: condition())


def test_a_conversation(start, browser, tmp_path):
    service = start("-t", "2")
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    wait(browser, lambda: "infer-demo" in find("#model").text)
    find("#text").send_keys("Tell me a story.\n")
    wait(browser, lambda: browser.find_elements("css selector", ".figures"))
    assert re.match(r"[A-Z].{60,}", find(".assistant").text)  # a story, by chance this or that one
    assert "tokens/s" in find(".figures").text
    find("#text").send_keys("And one about a <b>dragon</b>!\n")
    wait(browser, lambda: len(browser.find_elements("css selector", ".figures")) == 2)
    own = browser.find_elements("css selector", ".user")[1]
    assert own.text == "And one about a <b>dragon</b>!"
    wait(browser, lambda: "weights" in find("#memory").text)
    assert find("#pages").find_elements("css selector", "div")
    browser.save_screenshot(str(tmp_path / "page.png"))
    # What a model writes is never read as HTML.
    shown = browser.execute_script("""
      const place = document.createElement("div");
      place.append(markdown("# T\\n**b** `c` <img src=x onerror=alert(1)> [l](javascript:alert(1)) [o](https://e.org)\\n" +
                            "- one\\n- two\\n```\\n<script>x</script>\\n```"));
      return place.innerHTML;""")
    assert "<img" not in shown and "<script" not in shown and "javascript:" not in shown.split("href=")[-1]
    assert "<strong>b</strong>" in shown and "<code>c</code>" in shown and "<li>two</li>" in shown
    assert 'href="https://e.org"' in shown
    for text, expected in MARKDOWN:
        made = browser.execute_script("""
          const place = document.createElement("div");
          place.append(markdown(arguments[0]));
          for (const link of place.querySelectorAll("a")) for (const name of ["rel", "target"]) link.removeAttribute(name);
          return place.innerHTML;""", text)
        assert made == expected, text
    find("#new").click()
    assert not browser.find_elements("css selector", ".message")
    errors = [entry for entry in browser.get_log("browser")
              if entry["level"] == "SEVERE" and "favicon" not in entry["message"]]
    assert not errors


def test_a_key_is_asked_for(start, browser):
    service = start("-t", "2", env={"INFER_API_KEY": "secret"})
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    wait(browser, lambda: "API key" in find("#note").text)
    find("#key").send_keys("secret\t")
    wait(browser, lambda: "infer-demo" in find("#model").text)
    find("#text").send_keys("Hello\n")
    wait(browser, lambda: browser.find_elements("css selector", ".figures"))


def test_a_message_without_an_answer_is_taken_back(start, browser):
    service = start("-t", "2", "-c", "256")
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    value = lambda: find("#text").get_property("value")  # noqa: E731
    sent = lambda: browser.execute_script("return messages.map((message) => message.role)")  # noqa: E731
    wait(browser, lambda: "infer-demo" in find("#model").text)
    long = "word " * 300
    browser.execute_script("arguments[0].value = arguments[1]", find("#text"), long)
    find("#send").click()
    wait(browser, lambda: "It failed: " in find(".assistant").text)
    wait(browser, lambda: value() == long.strip())
    assert sent() == []
    find("#text").clear()
    # A request that is stopped before anything came.
    browser.execute_script("""
      window.usual = window.fetch;
      window.fetch = (path, options) => options.signal ? new Promise((_, fail) =>
        options.signal.addEventListener("abort", () => fail(new DOMException("", "AbortError")))) : usual(path, options);""")
    find("#text").send_keys("Hello\n")
    wait(browser, lambda: find("#stop").is_displayed())
    find("#stop").click()
    wait(browser, lambda: value() == "Hello")
    assert sent() == []
    find("#send").click()
    wait(browser, lambda: find("#stop").is_displayed())
    find("#text").send_keys("Another")  # what is being written stays
    find("#stop").click()
    wait(browser, lambda: find("#send").is_displayed())
    assert (value(), sent()) == ("Another", [])
    browser.execute_script("window.fetch = usual")
    find("#text").send_keys(" one\n")
    wait(browser, lambda: browser.find_elements("css selector", ".figures"))
    assert sent() == ["user", "assistant"]
    assert len(browser.find_elements("css selector", ".unanswered")) == 3


def test_figures(start, browser):
    service = start("-t", "2")
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    wait(browser, lambda: "parameters" in find("#model").text)
    counts = browser.execute_script("return [2.05e6, 134.5e6, 999.7e6, 7.2416e9, 1.04e12].map(count)")
    assert counts == ["2.05 million", "135 million", "1 billion", "7.24 billion", "1040 billion"]
    # An answer without a token.
    browser.execute_script("""
      const usual = window.fetch;
      window.fetch = async (path, options) => {
        if (!options.signal) return usual(path, options);
        const usage = {prompt_tokens: 7, completion_tokens: 0, prompt_tokens_details: {cached_tokens: 3}};
        return new Response(`data: ${JSON.stringify({choices: [], usage})}\\n\\ndata: [DONE]\\n\\n`);
      };""")
    find("#text").send_keys("Hello\n")
    wait(browser, lambda: browser.find_elements("css selector", ".figures"))
    assert find(".figures").text == "0 tokens; prompt 7 tokens, 3 of them in the cache"


def test_the_model_is_chosen(start, browser, tmp_path):
    for name in ("alpha", "beta"):
        shutil.copy(DEMO, tmp_path / f"{name}.gguf")
    service = start("-t", "2", "-c", "512", "--models", tmp_path)
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    states = lambda: {model["id"]: model["status"] for model in service.get("/v1/models")["data"]}  # noqa: E731
    wait(browser, lambda: find("#models").is_displayed())
    options = find("#models").find_elements("css selector", "option")
    assert [option.text for option in options] == ["alpha", "beta"]
    options[1].click()
    wait(browser, lambda: browser.title.startswith("beta "))
    assert find("#model").text == "unloaded"
    find("#text").send_keys("Hello\n")
    wait(browser, lambda: browser.find_elements("css selector", ".figures"))
    assert states() == {"alpha": "unloaded", "beta": "loaded"}
    wait(browser, lambda: "parameters" in find("#model").text)
    assert find("#models").get_property("value") == "beta"
    # The numbers are those of this model.
    wait(browser, lambda: "weights" in find("#memory").text)
    options[0].click()
    wait(browser, lambda: "weights" not in find("#memory").text)


def test_one_model_is_no_choice(start, browser):
    service = start("-t", "2")
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    wait(browser, lambda: "infer-demo" in find("#model").text)
    assert not find("#models").is_displayed()


def test_a_narrow_screen(start, browser):
    service = start("-t", "2")
    browser.set_window_size(500, 700)
    browser.get(f"http://127.0.0.1:{service.port}/")
    find = lambda selector: browser.find_element("css selector", selector)  # noqa: E731
    wait(browser, lambda: "infer-demo" in find("#model").text)
    browser.execute_script("byId('most').value = '60'")
    for i in range(4):
        find("#text").send_keys("Tell me a story. " * 10 + "\n")
        wait(browser, lambda: len(browser.find_elements("css selector", ".figures")) == i + 1)
    height = browser.execute_script("return window.innerHeight")
    for selector in ("#text", "#send"):
        place = find(selector).rect
        assert place["y"] >= 0 and place["y"] + place["height"] <= height
    # The messages scroll, to their end, and the rest is below.
    content, visible, at = browser.execute_script(
        "const log = byId('messages'); return [log.scrollHeight, log.clientHeight, log.scrollTop]")
    assert content > visible > 0 and abs(content - visible - at) < 2
    assert find("aside").rect["y"] >= find("#chat").rect["y"] + find("#chat").rect["height"]
    browser.execute_script("document.querySelector('main').scrollTop = 1e6")
    assert find("#key").rect["y"] + find("#key").rect["height"] <= height
