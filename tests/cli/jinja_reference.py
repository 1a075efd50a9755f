"""Jinja2 set up as Hugging Face's transformers sets it up, and makers of random templates."""

import copy
import datetime
import json
import random

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = "2026-01-15T12:00:00"


class Generation(jinja2.ext.Extension):
    """{% generation %}: the block's text, made by a call of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_text")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    @staticmethod
    def _text(caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime.fromisoformat(NOW).strftime
    return env


ENVIRONMENT = environment()


def reference(source, variables):
    """The text, or None where the reference fails."""
    try:  # on a copy: the filter indent extends a list that it is given
        return ENVIRONMENT.from_string(source).render(**copy.deepcopy(variables))
    except Exception:
        return None


VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief.\n"},
        {"role": "user", "content": "  Größe \"x\" & <b>'y'</b>?  "},
        {"role": "assistant", "content": None, "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1, "b": [1.5, "ü", None, True]}}}]},
        {"role": "user", "content": ["a", {"type": "text", "text": "t"}]},
    ],
    "tools": [{"name": "g", "nested": {"k": [1, {"z": "ß"}]}}],
    "s": "Hello World", "u": "Zürich 日本 🎉 ǅ", "e": "", "w": "  a\tb \n c  ",
    "n": 7, "m": -3, "z": 0, "f": 2.5, "g": 1e-7, "h": 1e16, "b": True, "c": False, "x": None,
    "l": [3, 1, 2], "k": ["b", "A", "c", "a"], "d": {"b": 1, "a": 2, "C": "x"}, "o": [],
    "p": [{"n": "x", "v": 2}, {"n": "y", "v": 1}, {"n": "X", "v": 2}],
}


class Maker:
    """Random expressions and templates, the same for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def number(self, depth):
        if depth <= 0:
            return self.pick("n", "m", "z", "f", "b", "0", "1", "2", "10", "-1", "3.5", "0.1", "1e3",
                             "l|length", "g", "h", "1_000", "0x1F")
        d = depth - 1
        return self.pick(
            lambda: f"({self.number(d)} {self.pick('+', '-', '*', '/', '//', '%')} {self.number(d)})",
            lambda: f"{self.string(d)}|length",
            lambda: f"({self.number(d)})|abs",
            lambda: f"({self.number(d)})|round({self.pick('', '1', '2')})",
            lambda: f"({self.number(d)})|int",
            lambda: f"({self.string(d)})|int({self.pick('', '5')})",
            lambda: f"({self.string(d)})|float",
            lambda: f"{self.list(d)}|length",
            lambda: f"l|{self.pick('sum', 'max', 'min', 'first', 'last')}",
            lambda: f"({self.string(d)}).{self.pick('find', 'count', 'rfind')}({self.string(0)})",
            lambda: f"-({self.number(d)})",
            lambda: f"2 ** {self.pick('0', '3', '10', '-2', '0.5')}",
        )()

    def string(self, depth):
        if depth <= 0:
            return self.pick("s", "u", "e", "w", "'a'", "' x '", "\"it's\"", "'l'", "'o'", "'äÖß'",
                             "'\\n'", "'a,b,,c'", "'12'", "' 4.5 '", "'%s'", "'aXbX'",
                             "messages[0].content", "messages[1]['content']", "p[0].n")
        d = depth - 1
        return self.pick(
            lambda: f"({self.string(d)} ~ {self.any(d)})",
            lambda: f"({self.string(d)} + {self.string(d)})",
            lambda: f"({self.string(d)})[{self.slice()}]",
            lambda: f"({self.string(d)})|{self.pick('upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'escape', 'safe', 'striptags', 'urlencode', 'e')}",
            lambda: f"({self.string(d)}).{self.pick('upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase')}()",
            lambda: f"({self.string(d)}).{self.pick('strip', 'lstrip', 'rstrip')}({self.string(0)})",
            lambda: f"({self.string(d)})|replace({self.string(0)}, {self.string(0)})",
            lambda: f"({self.string(d)}).replace({self.string(0)}, {self.string(0)}{self.pick('', ', 1', ', 2')})",
            lambda: f"({self.string(d)}).{self.pick('center', 'ljust', 'rjust', 'zfill')}({self.pick('3', '12', '17')})",
            lambda: f"({self.string(d)})|{self.pick('center(20)', 'indent', 'indent(2, true)', 'indent(1, false, true)', 'truncate(9)', 'truncate(5, true)', 'wordwrap(5)')}",
            lambda: f"{self.list(d)}|join({self.pick('', repr(', '), repr('-'))})",
            lambda: f"({self.any(d)})|tojson{self.pick('', '(indent=2)', '(ensure_ascii=true)', '(sort_keys=true)')}",
            lambda: f"({self.any(d)})|string",
            lambda: f"({self.string(d)} * {self.pick('0', '1', '3')})",
            lambda: f"'{self.pick('%s', '%r', '%5s|', '%-5s|', '%.2s')}' % ({self.string(d)})",
            lambda: f"'{self.pick('%d', '%5d', '%05d', '%x', '%+d', '%.3f', '%e', '%g', '%8.2f')}' % ({self.number(0)})",
            lambda: f"'{self.pick('{}', '{0!r}', '{:>8}', '{:^8}', '{:*<9}')}'.format({self.string(d)})",
            lambda: f"'{self.pick('{}', '{:5}', '{:05}', '{:.2f}', '{:e}', '{:,}')}'.format({self.number(0)})",
            lambda: f"({self.string(d)} if {self.boolean(d)} else {self.string(d)})",
            lambda: f"({self.any(d)})|default({self.string(0)}{self.pick('', ', true')})",
            lambda: f"({self.string(d)}).{self.pick('split', 'rsplit')}({self.pick('', repr(','), repr('X'), 'none, 1', repr('o') + ', 1')})|{self.pick('first', 'last')}",
            lambda: f"'{self.pick('a', '-')}'.join(k)",
            lambda: f"({self.string(d)}).{self.pick('removeprefix', 'removesuffix')}({self.string(0)})",
        )()

    def slice(self):
        bounds = ["", "0", "1", "2", "-1", "-2", "5", "100", "-100"]
        steps = ["", ":", ":1", ":2", ":-1", ":-2"]
        return f"{self.pick(*bounds)}:{self.pick(*bounds)}{self.pick(*steps)}"

    def list(self, depth):
        if depth <= 0:
            return self.pick("l", "k", "o", "[1, 'a', none]", "(1, 2)", "['x']", "p", "d.keys()",
                             "range(4)", "messages", "d", "d.items()", "[0.5, true]", "'abc'")
        d = depth - 1
        return self.pick(
            lambda: f"({self.list(d)}|list)[{self.slice()}]",
            lambda: f"[{self.any(d)}, {self.any(d)}]",
            lambda: f"({self.any(d)},)",
            lambda: f"({self.list(d)})|{self.pick('list', 'sort', 'reverse|list', 'unique|list', 'batch(2)|list', 'slice(2)|list', 'sort(reverse=true)', 'batch(2, 0)|list')}",
            lambda: f"({self.list(d)})|map('{self.pick('upper', 'string', 'length', 'tojson')}')|list",
            lambda: f"p|map(attribute='{self.pick('n', 'v', 'q')}')|list",
            lambda: f"({self.list(d)})|{self.pick('select', 'reject')}({self.pick('', repr('string'), repr('defined'), repr('equalto') + ', 1', repr('odd'))})|list",
            lambda: f"p|{self.pick('selectattr', 'rejectattr')}({self.pick(repr('v') + ', ' + repr('>') + ', 1', repr('n') + ', ' + repr('eq') + ', ' + repr('x'), repr('q'), repr('q') + ', ' + repr('defined'))})|list",
            lambda: f"p|{self.pick('sort', 'groupby', 'unique')}(attribute='{self.pick('n', 'v')}')|list",
            lambda: f"d|{self.pick('dictsort', 'items|list', 'dictsort(reverse=true)', 'list', 'dictsort(true)')}",
            lambda: f"(l + {self.pick('[4]', 'k', 'o', 'l')})",
            lambda: f"({self.string(d)}).{self.pick('split', 'splitlines', 'rsplit')}()",
            lambda: f"({self.string(d)}).{self.pick('split', 'partition', 'rpartition', 'rsplit')}({self.pick(repr(','), repr(' '), repr('o'))})",
        )()

    def boolean(self, depth):
        if depth <= 0:
            return self.pick("b", "c", "true", "false", "n", "e", "x", "undefined_name", "o")
        d = depth - 1
        tests = ("defined", "undefined", "none", "string", "number", "mapping", "sequence",
                 "iterable", "boolean", "integer", "float", "true", "false", "callable", "upper",
                 "lower", "odd", "even", "divisibleby 3", "sameas none", "eq 1", "in [1, 'a']",
                 "filter", "test")
        return self.pick(
            lambda: f"({self.any(d)}) is {self.pick('', 'not ')}{self.pick(*tests)}",
            lambda: f"({self.any(d)} {self.pick('==', '!=')} {self.any(d)})",
            lambda: f"({self.number(d)} {self.pick('<', '<=', '>', '>=')} {self.number(d)})",
            lambda: f"({self.number(0)} < {self.number(0)} <= {self.number(0)})",
            lambda: f"({self.any(d)} {self.pick('in', 'not in')} {self.list(d)})",
            lambda: f"({self.string(d)} {self.pick('in', 'not in')} {self.string(d)})",
            lambda: f"({self.any(d)} {self.pick('and', 'or')} {self.any(d)})",
            lambda: f"(not {self.any(d)})",
            lambda: f"({self.string(d)}).{self.pick('startswith', 'endswith')}({self.string(0)})",
            lambda: f"({self.string(d)}).{self.pick('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric')}()",
        )()

    def any(self, depth):
        if depth <= 0:
            return self.pick("d", "messages[2]", "undefined_name", "d.zz", "x", "tools", "none",
                             self.number(0), self.string(0), self.list(0), self.boolean(0),
                             "{'a': 1, 2: [none]}", "d.get('a')", "d['b']", "p[1]")
        return self.pick(self.number, self.string, self.list, self.boolean)(depth)

    def expression(self):
        return self.any(self.random.randint(1, 3))

    def tag(self, content):
        """A block with random white space control."""
        signs = ("", "", "", "-", "+")
        return "{%" + self.pick(*signs) + f" {content} " + self.pick(*signs) + "%}"

    def space(self):
        return self.pick("", " ", "\n", "  \n", "\n  ", "\t", "x", " x ", "\n\n", "y\n  ", "\r\n")

    def output(self):
        return self.pick("{{ ", "{{- ", "{{") + self.pick("i", "v", "t", "n", "loop.index", "w", "j") + \
            self.pick(" }}", " -}}", "}}")

    def block(self, depth):
        s, b = self.space, self.body
        if depth <= 0:
            return self.pick(
                lambda: self.output(),
                lambda: self.pick("{#", "{#-", "{#+") + " c " + self.pick("#}", "-#}", "+#}"),
                lambda: self.tag(f"set {self.pick('v', 't', 'i')} = {self.pick('1', 'n', 'v', repr('q'))}"),
                lambda: self.tag("raw") + s() + "{{ r }}" + s() + self.tag("endraw"),
            )()
        d = depth - 1
        return self.pick(
            lambda: self.tag(f"for i in {self.pick('l', 'k', 'o', 'range(3)')}{self.pick('', ' if i != 1', ' if v')}") + b(d) + self.pick("", self.tag("else") + b(d)) + self.tag("endfor"),
            lambda: self.tag(f"for i, j in {self.pick('d.items()', '[(1, 2), (3, 4)]')}") + b(d) + self.output() + self.tag("endfor"),
            lambda: self.tag(f"for i in {self.pick('l', 'k')}") + b(d) + self.tag("if " + self.pick("loop.first", "loop.last", "loop.index == 2", "i == 1")) + self.pick("", self.tag(self.pick("break", "continue"))) + self.tag("endif") + b(d) + self.tag("endfor"),
            lambda: self.tag(f"if {self.pick('n', 'v', 't', 'i', 'c')}") + b(d) + self.pick("", self.tag("elif " + self.pick("v", "b")) + b(d)) + self.pick("", self.tag("else") + b(d)) + self.tag("endif"),
            lambda: self.tag(f"set {self.pick('v', 't')}{self.pick('', ' | upper')}") + b(d) + self.tag("endset") + self.output(),
            lambda: self.tag(f"macro {self.pick('m', 'q')}(i{self.pick('', '=3')}, t={self.pick('v', '5', 'i')})") + b(d) + self.tag("endmacro") + "{{ " + self.pick("m", "q") + "(" + self.pick("1", "t=2", "", "v, n") + ") }}",
            lambda: self.tag("with v = " + self.pick("1", "t", "n")) + b(d) + self.tag("endwith"),
            lambda: self.tag("filter " + self.pick("upper", "trim", "replace('x', 'z')")) + b(d) + self.tag("endfilter"),
            lambda: self.tag("set ns = namespace(a=1)") + self.tag("for i in l") + self.tag("set ns.a = ns.a + i") + b(d) + self.tag("endfor") + "{{ ns.a }}",
            lambda: self.tag("macro c()") + "[{{ caller(1) }}]" + self.tag("endmacro") + self.tag("call(t) c()") + b(d) + self.tag("endcall"),
            lambda: self.tag("generation") + b(d) + self.tag("endgeneration"),
        )()

    def body(self, depth):
        parts = [self.space()]
        for _ in range(self.random.randint(1, 3)):
            parts += [self.block(self.pick(0, depth)), self.space()]
        return "".join(parts)

    def template(self):
        return self.body(self.random.randint(1, 3))
