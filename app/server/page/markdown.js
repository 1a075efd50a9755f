"use strict";
// Markdown as CommonMark has it, as far as answers use it. Everything becomes text nodes: nothing
// that a model writes is read as HTML. All takes linear time, since a long answer is shown anew with
// each part of it.

const make = (tag, text = "", name = "") => {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
};

const kPunctuation = /[!-/:-@[-`{-~\p{P}\p{S}]/u;

// A run of * or _ at `at`: how long it is, and whether emphasis may begin or end with it.
const emphasisRun = (text, at) => {
  let end = at;
  while (text[end] === text[at]) ++end;
  const before = text[at - 1] ?? " ", after = text[end] ?? " ";
  const spaceBefore = /\s/.test(before), spaceAfter = /\s/.test(after);
  const markBefore = kPunctuation.test(before), markAfter = kPunctuation.test(after);
  const left = !spaceAfter && (!markAfter || spaceBefore || markBefore);
  const right = !spaceBefore && (!markBefore || spaceAfter || markAfter);
  const inWords = text[at] === "*";
  return {mark: text[at], size: end - at, whole: end - at,
          opens: left && (inWords || !right || markBefore), closes: right && (inWords || !left || markAfter)};
};

// Makes emphasis of the runs among `parts` from `first` on: elements in place of what is between them.
const addEmphasis = (parts, first) => {
  const openers = [];  // indices of runs in `done`
  const done = parts.splice(first);
  const made = [];
  const lowest = new Map();  // of a kind of closing run: no opener for it is below
  for (const part of done) {
    if (!part.mark) {
      made.push(part);
      continue;
    }
    if (part.closes) {
      const kind = `${part.mark}${part.opens}${part.whole % 3}`;
      for (let i = openers.length - 1; part.size > 0 && i >= (lowest.get(kind) ?? 0); --i) {
        const at = openers[i], opener = made[at];
        const odd = (opener.closes || part.opens) && (opener.whole + part.whole) % 3 === 0 &&
                    (opener.whole % 3 !== 0 || part.whole % 3 !== 0);
        if (opener.mark !== part.mark || odd) continue;
        openers.length = i + 1;
        while (part.size > 0 && opener.size > 0) {
          const size = Math.min(2, opener.size, part.size);
          const element = make(size === 2 ? "strong" : "em");
          for (const inner of made.splice(at + 1)) element.append(shown(inner));
          made.push(element);
          opener.size -= size;
          part.size -= size;
        }
        if (opener.size === 0) openers.pop();
      }
      for (const [each, at] of lowest) lowest.set(each, Math.min(at, openers.length));
      if (part.size > 0) lowest.set(kind, openers.length);
    }
    if (part.size === 0) continue;
    if (part.opens) openers.push(made.length);
    made.push(part);
  }
  parts.push(...made);
};

const shown = (part) => part.mark ? part.mark.repeat(part.size) : part;

const addInline = (parent, text) => {
  const parts = [];     // texts, elements, runs of * and _
  const brackets = [];  // indices of [ in `parts`
  const lastRun = new Map();  // of backticks, by their number: where the last one begins
  for (const run of text.matchAll(/`+/g)) lastRun.set(run[0].length, run.index);
  const address = /\]\((https?:\/\/[^)\s]{1,2000})\)/y;
  const plain = /[^\\`*_[\]\n]+/y;
  let i = 0;
  while (i < text.length) {
    const c = text[i];
    plain.lastIndex = i;
    const usual = plain.exec(text);
    if (usual) {
      parts.push(usual[0]);
      i += usual[0].length;
    } else if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) {
      parts.push(text[i + 1]);
      i += 2;
    } else if (c === "`") {
      let size = 1;
      while (text[i + size] === "`") ++size;
      let end = -1;
      if ((lastRun.get(size) ?? -1) > i) {
        const close = new RegExp(`(?<!\`)\`{${size}}(?!\`)`, "g");
        close.lastIndex = i + size;
        end = close.exec(text).index;
        let code = text.slice(i + size, end).replace(/\n/g, " ");
        if (/^ .*[^ ].* $/.test(code) || /^ [^ ] $/.test(code)) code = code.slice(1, -1);
        parts.push(make("code", code));
      } else {
        parts.push("`".repeat(size));
      }
      i = end < 0 ? i + size : end + size;
    } else if (c === "*" || c === "_") {
      const run = emphasisRun(text, i);
      parts.push(run);
      i += run.size;
    } else if (c === "[") {
      brackets.push(parts.length);
      parts.push("[");
      ++i;
    } else if (c === "]") {
      address.lastIndex = i;
      const found = brackets.length ? address.exec(text) : null;
      const at = brackets.pop();
      if (found) {
        addEmphasis(parts, at + 1);
        const link = make("a");
        for (const inner of parts.splice(at).slice(1)) link.append(shown(inner));
        link.href = found[1];
        link.rel = "noopener noreferrer";
        link.target = "_blank";
        parts.push(link);
        brackets.length = 0;  // there is no link within a link
        i += found[0].length;
      } else {
        parts.push("]");
        ++i;
      }
    } else {
      parts.push(c === "\n" ? document.createElement("br") : c);
      ++i;
    }
  }
  addEmphasis(parts, 0);
  for (const part of parts) parent.append(shown(part));
};

const kFence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kItem = /^( {0,3})([-*+]|(\d{1,9})[.)])(?:( +)(.*))?$/;
const kDeepest = 20;  // lists and quotes within each other

const indentOf = (line) => line.search(/\S|$/);
const isBlank = (line) => line.trim() === "";

// What begins with this line instead of going on with a paragraph.
const interrupts = (line) => {
  const item = line.match(kItem);
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || /^ {0,3}>/.test(line) ||
         (item && !isBlank(item[5] ?? "") && (item[3] === undefined || item[3] === "1"));
};

// The fence that is open after a line; `fence`: before it.
const fenceAfter = (fence, line) => {
  const found = line.match(kFence);
  if (!found) return fence;
  if (!fence) return found[1];
  return found[1].startsWith(fence) && isBlank(found[2]) ? null : fence;
};

// Whether an empty line stands between parts of an item.
const hasGap = (lines) => {
  let fence = null;
  return lines.some((line, at) => {
    fence = fenceAfter(fence, line);
    return !fence && at > 0 && isBlank(line);
  });
};

// The lines of an item or a quote from lines[i] on, and what follows. `own`: what the container has of
// a line; nothing: the line is not in it. A paragraph goes on without the container's mark.
const contained = (lines, i, own) => {
  const inner = [];
  let fence = null;
  let paragraph = false;  // it may go on
  for (; i < lines.length; ++i) {
    const first = inner.length === 0;
    let line = own(lines[i], first);
    if (line === null) {
      if (!paragraph || isBlank(lines[i]) || interrupts(lines[i]) || kItem.test(lines[i])) break;
      line = lines[i].trimStart();
    }
    const before = fence;
    fence = fenceAfter(fence, line);
    paragraph = !fence && !before && !isBlank(line) && !kHeading.test(line) && !kRule.test(line);
    inner.push(line);
  }
  while (inner.length && isBlank(inner.at(-1)) && !fence) {
    inner.pop();
    --i;
  }
  return [inner, i];
};

const addBlocks = (out, lines, depth, tight = false) => {
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) {
      const p = tight ? out : make("p");
      addInline(p, paragraph.join("\n"));
      if (p !== out) out.append(p);
    }
    paragraph = [];
  };
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    const fence = line.match(kFence);
    const heading = line.match(kHeading);
    const item = depth < kDeepest && !kRule.test(line) ? line.match(kItem) : null;
    if (isBlank(line)) {
      flush();
      ++i;
    } else if (!paragraph.length && indentOf(line) >= 4) {
      const code = [];
      for (; i < lines.length && (isBlank(lines[i]) || indentOf(lines[i]) >= 4); ++i) code.push(lines[i].slice(4));
      while (isBlank(code.at(-1))) code.pop();
      const pre = make("pre");
      pre.append(make("code", code.join("\n")));
      out.append(pre);
    } else if (fence) {
      flush();
      const indent = indentOf(line);
      const code = [];
      for (++i; i < lines.length; ++i) {
        if (!fenceAfter(fence[1], lines[i])) break;
        code.push(lines[i].slice(Math.min(indent, indentOf(lines[i]))));
      }
      ++i;
      const pre = make("pre");
      pre.append(make("code", code.join("\n")));
      out.append(pre);
    } else if (heading) {
      flush();
      const element = make(`h${Math.min(6, heading[1].length + 2)}`);
      addInline(element, heading[2] ?? "");
      out.append(element);
      ++i;
    } else if (kRule.test(line)) {
      flush();
      out.append(make("hr"));
      ++i;
    } else if (depth < kDeepest && /^ {0,3}>/.test(line)) {
      flush();
      const [inner, next] = contained(lines, i, (each) => {
        const quoted = each.match(/^ {0,3}> ?(.*)$/);
        return quoted ? quoted[1] : null;
      });
      const quote = make("blockquote");
      addBlocks(quote, inner, depth + 1);
      out.append(quote);
      i = Math.max(next, i + 1);
    } else if (item && (!paragraph.length || interrupts(line))) {
      flush();
      i = addList(out, lines, i, depth);
    } else {
      paragraph.push(line.trim());
      ++i;
    }
  }
  flush();
};

// A list that begins at lines[i]; what follows it.
const addList = (out, lines, i, depth) => {
  const kind = (item) => item[2].at(-1);
  const first = lines[i].match(kItem);
  const list = make(first[3] === undefined ? "ul" : "ol");
  if (first[3] !== undefined && Number(first[3]) !== 1) list.start = Number(first[3]);
  const items = [];
  let loose = false;
  while (i < lines.length) {
    const item = lines[i].match(kItem);
    if (!item || kRule.test(lines[i]) || kind(item) !== kind(first)) break;
    const spaces = isBlank(item[5] ?? "") || item[4].length > 4 ? 1 : item[4].length;
    const width = item[1].length + item[2].length + spaces;
    const [inner, next] = contained(lines, i, (line, begins) => {
      if (begins) return line.slice(Math.min(width, line.length));
      if (isBlank(line)) return "";
      return indentOf(line) >= width ? line.slice(width) : null;
    });
    items.push(inner);
    i = Math.max(next, i + 1);
    let after = i;
    while (after < lines.length && isBlank(lines[after])) ++after;
    loose ||= hasGap(inner);
    const goesOn = after < lines.length && lines[after].match(kItem);
    if (!goesOn || kind(goesOn) !== kind(first) || kRule.test(lines[after])) break;
    loose ||= after > i;
    i = after;
  }
  for (const inner of items) {
    const element = make("li");
    addBlocks(element, inner, depth + 1, !loose);
    list.append(element);
  }
  out.append(list);
  return i;
};

const markdown = (text) => {
  const out = document.createDocumentFragment();
  addBlocks(out, text.split("\n").map((line) => line.replace(/^[ \t]+/, (white) => white.replace(/\t/g, "    "))), 0);
  return out;
};
