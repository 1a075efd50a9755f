"use strict";
// The page of the server: a conversation, and what the server does meanwhile. It keeps nothing but the
// API key, until the tab is closed.

const byId = (id) => document.getElementById(id);
const messages = [];
let running = null;  // AbortController of the answer that comes

const headers = () => {
  const key = byId("key").value;
  return key ? {Authorization: `Bearer ${key}`} : {};
};

// The conversation.

const show = (element) => {
  const log = byId("messages");
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  if (element) log.append(element);
  if (atEnd) log.scrollTop = log.scrollHeight;
};

const events = async function* (body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const {done, value} = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      if (block.startsWith(":")) continue;  // a comment, while nothing has come
      const data = block.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
};

// The name of the model that answers; empty if there is no choice.
const chosenModel = () => byId("models").hidden ? "" : byId("models").value;

const requestBody = () => {
  const system = byId("system").value.trim();
  const body = {
    messages: system ? [{role: "system", content: system}, ...messages] : messages,
    stream: true, stream_options: {include_usage: true},
  };
  if (chosenModel()) body.model = chosenModel();
  if (byId("temperature").value !== "") body.temperature = Number(byId("temperature").value);
  if (byId("most").value !== "") body.max_tokens = Number(byId("most").value);
  return body;
};

// Asks for the answer to the last message. `own`: what shows that message.
const answer = async (own) => {
  const asked = messages.at(-1);
  const element = make("div", "", "message assistant");
  const thoughts = make("details");
  thoughts.append(make("summary", "Thoughts"), make("div"));
  const content = make("div");
  element.append(content);
  show(element);
  const message = {role: "assistant", content: ""};
  let reasoning = "";
  let usage = null;
  let first = 0;
  let complete = false;
  const begun = performance.now();
  running = new AbortController();
  byId("send").hidden = true;
  byId("stop").hidden = false;
  try {
    const response = await fetch("v1/chat/completions", {
      method: "POST", headers: {"Content-Type": "application/json", ...headers()},
      body: JSON.stringify(requestBody()), signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response.body)) {
      if (event.error) throw new Error(event.error.message);
      usage = event.usage || usage;
      const delta = event.choices.length ? event.choices[0].delta : {};
      if ((delta.content || delta.reasoning_content) && !first) first = performance.now();
      if (delta.reasoning_content) {
        reasoning += delta.reasoning_content;
        if (!thoughts.isConnected) element.prepend(thoughts);
        thoughts.lastChild.textContent = reasoning;
      }
      if (delta.content) {
        message.content += delta.content;
        content.replaceChildren(markdown(message.content));
      }
      show();
    }
    complete = true;
  } catch (failure) {
    if (failure.name !== "AbortError") {
      element.append(make("p", `It failed: ${failure.message}`, "failed"));
      show();
    } else if (!message.content && !reasoning) {
      element.remove();
    }
  }
  running = null;
  byId("send").hidden = false;
  byId("stop").hidden = true;
  if (messages.at(-1) === asked) {  // else a new conversation has begun
    if (message.content || complete) {
      messages.push(message);
    } else {
      // The message would be sent again with the next one.
      messages.pop();
      own.classList.add("unanswered");
      if (!byId("text").value) byId("text").value = asked.content;
    }
  }
  if (chosenModel()) describe();  // it is loaded now
  if (usage) {
    const seconds = (performance.now() - first) / 1000;
    const rate = usage.completion_tokens > 1 ? (usage.completion_tokens - 1) / seconds : 0;
    // Without a text there is no time of it.
    const speed = first ? `, ${rate.toFixed(1)} tokens/s, first after ${((first - begun) / 1000).toFixed(2)} s` : "";
    element.append(make("div", `${usage.completion_tokens} tokens${speed}; prompt ${usage.prompt_tokens} tokens, ` +
      `${usage.prompt_tokens_details.cached_tokens} of them in the cache`, "figures"));
    show();
  }
};

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (!text || running) return;
  byId("text").value = "";
  messages.push({role: "user", content: text});
  const own = make("div", text, "message user");
  show(own);
  answer(own);
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("form").requestSubmit();
});
byId("stop").addEventListener("click", () => running && running.abort());
byId("new").addEventListener("click", () => {
  if (running) running.abort();
  messages.length = 0;
  byId("messages").replaceChildren();
  byId("text").focus();
});
byId("key").value = sessionStorage.getItem("key") || "";
byId("key").addEventListener("change", () => {
  sessionStorage.setItem("key", byId("key").value);
  describe();
});

// What the server does.

const bytes = (count) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    ++unit;
  }
  return `${count.toFixed(unit > 0 && count < 100 ? 1 : 0)} ${units[unit]}`;
};

// How many, with three digits.
const count = (number) => {
  const [unit, name] = number < 999.5e6 ? [1e6, "million"] : [1e9, "billion"];
  return `${Number((number / unit).toPrecision(3))} ${name}`;
};

const fill = (id, rows) => {
  const list = byId(id);
  list.replaceChildren();
  for (const [name, value] of rows) list.append(make("dt", name), make("dd", value));
};

const watch = async () => {
  try {
    const response = await fetch("metrics", {headers: headers()});
    if (response.status === 401) throw new Error("The server wants an API key: see Settings.");
    if (!response.ok) throw new Error(`The server says ${response.status}.`);
    const found = new Map();
    for (const line of (await response.text()).split("\n")) {
      const parts = line.match(/^infer_(\w+)\{model_name="((?:[^"\\]|\\.)*)",?(?:\w+="([^"]*)")?\} (\S+)$/);
      if (!parts || (chosenModel() && JSON.parse(`"${parts[2]}"`) !== chosenModel())) continue;
      found.set(parts[1] + (parts[3] ? `/${parts[3]}` : ""), Number(parts[4]));
    }
    const value = (name) => found.get(name) || 0;
    fill("speed", [
      ["generated", `${value("generation_tokens_per_second").toFixed(1)} tokens/s`],
      ["prompts", `${value("prompt_tokens_per_second").toFixed(1)} tokens/s`],
      ["running", String(value("num_requests_running"))],
      ["waiting", String(value("num_requests_waiting"))]]);
    const states = ["running", "idle", "kept", "free"].map((name) => [name, value(`kv_cache_pages/${name}`)]);
    const total = states.reduce((sum, [, count]) => sum + count, 0) || 1;
    byId("pages").replaceChildren(...states.map(([name, count]) => {
      const part = make("div", "", name);
      part.style.setProperty("flex", String(count / total));
      return part;
    }));
    fill("cache", states.map(([name, count]) => [`${name} pages`, String(count)]));
    const memory = ["weights", "kv", "activations", "scratch", "host", "process", "draft"]
      .map((name) => [name === "kv" ? "cache" : name, value(`memory_bytes/${name}`)]).filter(([, size]) => size > 0);
    fill("memory", [...memory.map(([name, size]) => [name, bytes(size)]),
      ["together", bytes(memory.reduce((sum, [, size]) => sum + size, 0))]]);
    byId("note").textContent = "";
  } catch (failure) {
    byId("note").textContent = failure instanceof TypeError ? "The server does not answer." : failure.message;
  }
  setTimeout(watch, document.hidden ? 5000 : 1000);
};

const describe = async () => {
  const response = await fetch("v1/models", {headers: headers()}).catch(() => null);
  if (!response || !response.ok) return;
  const models = (await response.json()).data;
  const choice = byId("models");
  const names = models.map(({id}) => id);
  if (names.join("\n") !== [...choice.options].map((option) => option.value).join("\n")) {
    const before = choice.value;
    choice.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(before)) choice.value = before;
    choice.hidden = names.length < 2;
  }
  const model = models.find(({id}) => id === choice.value);
  if (!model) return;
  document.title = `${model.id} – infer`;
  const name = choice.hidden ? model.id : "";
  byId("model").textContent = name || (model.meta ? "" : model.status);
  if (!model.meta) return;
  byId("model").textContent = `${name && `${name}, `}${count(model.meta.n_params)} parameters, ` +
    `context of ${model.max_model_len} tokens`;
};

byId("models").addEventListener("change", describe);

describe();
watch();
byId("text").focus();
