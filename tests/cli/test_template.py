"""infer template: against Jinja2 as transformers sets it up, and from outside."""

import json
import re

import pytest

from program import ROOT, fails, infer

pytest.importorskip("jinja2", reason="python3-jinja2 is absent")

from jinja_reference import NOW, VARIABLES, Maker, reference  # noqa: E402

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"
TEMPLATES = ROOT / "tests" / "data" / "templates"
MARK = "\x01"
# What the reference writes with addresses or, as views, differently from how it is written here.
OPAQUE = re.compile(r"<generator|dict_(keys|items|values)|<built-in|<function|<bound| object at |"
                    r"reverseiterator|0x[0-9a-f]{6}")


@pytest.fixture
def render(tmp_path):
    def run(source, variables=VARIABLES, **options):
        (tmp_path / "t.jinja").write_bytes(source.encode())
        (tmp_path / "v.json").write_text(json.dumps({**variables, "now": NOW}))
        return infer("template", "--template", tmp_path / "t.jinja", "--input",
                     tmp_path / "v.json", **options)
    return run


def check(render, source, variables=VARIABLES):
    expected = reference(source, {**variables, "now": NOW})
    done = render(source, variables)
    if expected is None:
        assert done.returncode in (1, 3), (source, done.stdout)
        assert done.stdout == b""
        assert done.stderr.startswith(b"infer: error: "), (source, done.stderr)
    else:
        assert done.returncode == 0, (source, done.stderr)
        assert done.stdout.decode() == expected, source


def check_together(render, sources):
    """Those that give text in one run, between marks; some of those that fail, one by one."""
    good, bad = [], []
    for source in sources:
        text = reference(source, VARIABLES)
        if text is None:
            bad.append(source)
        elif MARK not in text and not OPAQUE.search(text):
            good.append((source, text))
    done = render(MARK.join(source for source, _ in good))
    assert done.returncode == 0, done.stderr
    texts = done.stdout.decode().split(MARK)
    assert len(texts) == len(good)
    for (source, expected), text in zip(good, texts):
        assert text == expected, source
    for source in bad[:15]:
        check(render, source)


def test_random_expressions(render):
    for start in range(0, 2000, 500):
        check_together(render, ["{{ " + Maker(seed).expression() + " }}"
                                for seed in range(start, start + 500)])


@pytest.mark.parametrize("start", range(0, 250, 50))
def test_random_templates(render, start):
    for seed in range(start, start + 50):
        source = Maker(seed).template()
        text = reference(source, VARIABLES)
        if text is None or not OPAQUE.search(text):
            check(render, source)


CORNERS = [
    # White space.
    "  {% if true %}\n  x\n  {% endif %}\n", "  {%+ if true %}\n  x\n  {%- endif +%}\n  y",
    "a  {%- if true -%}  b  {%- endif -%}  c", "{# x #}\n a {#- y -#} b {#+ z +#}\n c",
    "a\r\nb\rc\n", "a\n\n", "{% raw %}\n {{ x }} {% if %}\n {% endraw %}\n b",
    "x {%- raw -%} y {%- endraw -%} z", "{{- 1 }} {{ 2 -}} 3", "\n  {{ 1 }}\n", "{% if 1 %}{% endif %}\n\n",
    # Loops.
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}"
    "{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}"
    "{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}|{% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}{% else %}none{% endfor %}",
    "{% for i in o %}x{% else %}empty{% endfor %}", "{% for i in l %}{% continue %}{% else %}e{% endfor %}",
    "{% for i in [[1, [2]], [3]] recursive %}{{ loop.depth }}{{ loop(i) if i is sequence else i }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in undefined_name %}x{% else %}y{% endfor %}", "{% for a, b in l %}{% endfor %}", "{% for c in 'aé' %}{{ c }}.{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in 5 %}{% endfor %}", "{% for loop in l %}{% endfor %}",
    "{% for i in l if loop.index %}{% endfor %}",
    # Scopes.
    "{% set v = 1 %}{% for i in l %}{{ v }}{% set v = v + i %}{{ v }};{% endfor %}{{ v }}",
    "{% for i in l %}{{ v }}{% endfor %}{% set v = 5 %}{{ v }}", "{% if c %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% macro q() %}{{ v }}{% endmacro %}{% set v = 3 %}{{ q() }}", "{% with v = 1, t = v %}{{ v }}{{ t }}{% endwith %}{{ v }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set ns = namespace(x=1) %}{% set ns.x = 2 %}{{ ns.x }}{{ ns }}",
    "{% set d.x = 1 %}", "{% set v %}\n  a {{ n }}\n{% endset %}[{{ v }}]", "{% set v | upper | replace('A', 'b') %}a{% endset %}{{ v }}",
    # Macros.
    "{% macro q(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ q(1) }}{{ q(1, 2, 3, 4, x=5) }}",
    "{% macro q(a) %}{{ a }}{% endmacro %}{{ q() }}|{{ q(a=1) }}|{{ q(1, 2) }}", "{% macro q(a) %}{{ a }}{% endmacro %}{{ q(b=1) }}",
    "{% macro q() %}[{{ caller('x') }}]{% endmacro %}{% call(y) q() %}{{ y }}{{ n }}{% endcall %}",
    "{% macro q(a) %}{{ q.name }}{{ q.arguments }}{{ q(a - 1) if a }}{% endmacro %}{{ q(2) }}", "{% macro q() %}{{ caller() }}{% endmacro %}{{ q() }}",
    # Undefined.
    "{{ a }}{{ a|default('d') }}{{ a is defined }}{{ [a] }}{{ a|length }}{{ a|list }}{{ not a }}", "{{ a.b }}", "{{ d.q }}{{ d.q is undefined }}", "{{ d.q.r }}",
    "{{ a + 1 }}", "{{ a ~ 1 }}", "{{ a == b2 }}{{ a in [1] }}", "{{ a|tojson }}", "{{ a() }}", "{{ 1 if c }}", "{{ (1 if c).x }}", "{{ a|upper }}{{ a|join }}",
    "{% if a is defined and a.b %}x{% endif %}", "{{ s.__class__ }}", "{{ s.__class__.x }}", "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ l.append }}",
    # Attributes and subscripts.
    "{{ {'items': 1}['items'] }}{{ {'items': 1}.items is callable }}{{ d['a'] }}{{ d.a }}{{ l[0] }}{{ l.0 }}{{ l[-1] }}{{ l[9] }}{{ s[1:3] }}{{ u[-5:] }}{{ l[::-1] }}{{ s['upper']() }}",
    "{{ l['x'] }}{{ s.x }}{{ n.x }}{{ none.x }}", "{{ l[1:'a'] }}", "{{ l[::0] }}", "{{ (1, 2)[1:] }}{{ range(9)[2:8:2]|list }}{{ {1: 'x'}[true] }}{{ {1.0: 'y'}[1] }}",
    # Arithmetic.
    "{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % -3 }}{{ -7 % 3 }}{{ 7.5 // 2 }}{{ -7.5 % 2 }}{{ 2 ** 10 }}{{ 2 ** -1 }}{{ 2 ** 3 ** 2 }}{{ 7 / 2 }}{{ 6 / 2 }}{{ 1e16 }}{{ 1e15 }}{{ 1e-5 }}{{ 0.0001 }}{{ 1.0 }}{{ 100000000000000000000.0 }}{{ -0.0 }}",
    "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1.0 // 0 }}", "{{ 'a' + 1 }}", "{{ 'a' * 3 }}{{ 3 * [1] }}{{ [1] + [2] }}{{ (1,) + (2,) }}", "{{ 'a' - 'b' }}", "{{ true + true }}{{ -true }}{{ +n }}{{ -'a' }}",
    "{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 1 == 1.0 }}{{ true == 1 }}{{ '1' == 1 }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ 1 in 'a' }}", "{{ 'a' in d }}{{ 'b' not in k }}{{ not 'b' in k }}",
    # Strings and formats.
    "{{ 'a\\n\\t\\x41\\u00e9\\'\\\"\\\\q\\q' }}{{ \"a\" 'b' }}", "{{ [1.5, 'a\\'b', \"a'b\", 'a\"\\'', none, true, 'é\\n\\x00\\u200b'] }}{{ ('a',) }}{{ {'a': {'b': (1, 2)}} }}{{ () }}",
    "{{ '%s-%r-%5.1f-%%-%(a)s' % d }}", "{{ '%(a)s %(b)05d' % d }}{{ '%s %s' % (1, 'x') }}{{ '%c' % 65 }}{{ '%5s|%-5s|' % ('a', 'b') }}", "{{ '%s' % (1, 2) }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % 'a' }}",
    "{{ '{} {1}'.format(1, 2) }}", "{{ '{0} {1} {a} {d[b]} {l[0]} {0!r:>5}'.format('x', 2, a=3, d=d, l=l) }}{{ '{:>{w}}'.format('x', w=4) }}{{ '{{}}'.format() }}", "{{ '{x}'.format() }}",
    "{{ 'a b c'.split() }}{{ ' a  b '.split(' ') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a  b '.split(none, 1) }}{{ 'a\\nb\\r\\nc\\n'.splitlines() }}{{ 'a\\nb'.splitlines(true) }}{{ ''.split() }}{{ ''.split(',') }}",
    "{{ 'a'.split('') }}", "{{ 'ß'.upper() }}{{ 'ΑΣ'.lower() }}{{ 'ǆ'.title() }}{{ 'they\\'re'.title() }}{{ 'they\\'re bill-by'|title }}{{ 'HELLO wORLD'|capitalize }}", "{{ 'abc'.find('c', 1) }}{{ 'abcabc'.rfind('b', 0, 4) }}{{ 'aaa'.count('aa') }}{{ 'abc'.index('z') }}",
    "{{ 'xxaxx'.strip('x') }}{{ 'ab'.center(5, '*') }}{{ 'abc'.center(6) }}{{ '-5'.zfill(4) }}{{ 'a-b'.partition('-') }}{{ 'a'.startswith(('b', 'a')) }}{{ 'aXb'.swapcase() }}", "{{ ','.join(['a', 1]) }}",
    # Filters.
    "{{ {'b': [1, {'c': 'é<>&\\''}], 'a': 1.0}|tojson }}{{ d|tojson(indent=2) }}{{ d|tojson(sort_keys=true, separators=(',', ':')) }}{{ 'é🎉'|tojson(ensure_ascii=true) }}{{ [] | tojson(indent=2) }}{{ {1: none, true: 2}|tojson }}{{ (1, 2)|tojson(indent='--') }}",
    "{{ d.keys()|tojson }}", "{{ l|map('string')|tojson }}", "{{ l|sort }}{{ k|sort }}{{ k|sort(case_sensitive=true) }}{{ p|sort(attribute='v,n')|map(attribute='n')|join }}{{ l|sort(reverse=true) }}", "{{ [1, 'a']|sort }}",
    "{{ p|groupby('v') }}{% for g, items in p|groupby('n') %}{{ g }}{{ items|length }}{% endfor %}{{ (p|groupby('v'))[0].grouper }}{{ (p|groupby('v')|first).list|length }}", "{{ d|dictsort }}{{ d|dictsort(by='value') }}",
    "{{ p|selectattr('v', 'gt', 1)|map(attribute='n')|list }}{{ p|map(attribute='q', default='z')|list }}{{ l|select('odd')|list }}{{ l|reject('==', 1)|sum }}{{ k|map('upper')|join('-') }}{{ p|sum(attribute='v') }}",
    "{{ l|map('nosuch')|list }}", "{{ l|nosuch }}", "{% if c %}{{ l|nosuch }}{% endif %}x", "{% if b %}{{ l|nosuch }}{% endif %}", "{{ l is nosuch }}", "{{ 'default' is filter }}{{ 'nosuch' is filter }}{{ 'odd' is test }}",
    "{{ 42.55|round }}{{ 42.55|round(1, 'floor') }}{{ 2.5|round }}{{ 3|round }}{{ 2.675|round(2) }}{{ '42.9'|int }}{{ 'x'|int(7) }}{{ '0x1F'|int(0, 16) }}{{ ' 12 '|int }}{{ '1e3'|float }}{{ 'x'|float }}{{ 1e300|int|string|length if c }}",
    "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb\\n\\nc'|indent(2, true, true) }}|{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true, '…', 0) }}|{{ 'a b c d e f'|wordwrap(3) }}|{{ 'a-b cc-dd'|wordwrap(4) }}|{{ 'abcdefgh'|wordwrap(3) }}",
    "{{ '<a href=\"x\">b &amp; c</a>'|striptags }}{{ '<&>\"\\''|e }}{{ '<'|safe ~ '<' }}{{ '<'|safe + '<' }}{{ '<'|e|e }}{{ '<'|e|forceescape }}{{ 'a b/ü'|urlencode }}{{ {'a': 1, 'b': 'x y'}|urlencode }}{{ 1000000|filesizeformat }}{{ 1500|filesizeformat(true) }}{{ {'a': 1, 'b': none}|xmlattr }}",
    "{{ l|batch(2)|list }}{{ l|batch(2, 'x')|list }}{{ l|slice(2)|list }}{{ [1, 2, 3, 4, 5]|slice(3, 'x')|list }}{{ ['a', 'A', 'b']|unique|list }}{{ l|first }}{{ l|last }}{{ []|first }}{{ 'abc'|reverse }}{{ l|reverse|list }}{{ l|max }}{{ k|min }}{{ []|max }}{{ 'abc'|list }}{{ d|list }}{{ d|items|list }}{{ 'a b'|wordcount }}",
    "{{ 5|default(1) }}{{ ''|default('x') }}{{ ''|default('x', true) }}{{ ''|d('x', boolean=true) }}{{ none|default('x') }}{{ 'abc'|attr('upper') is callable }}{{ d|attr('a') }}{{ -3|abs }}{{ [1, 2]|join(',') }}{{ p|join('+', attribute='n') }}",
    "{{ l|join(1, 2, 3) }}", "{{ s|replace('o') }}", "{{ s|upper(1) }}",
    # Functions.
    "{{ range(3)|list }}{{ range(1, 9, 3)|list }}{{ range(3) }}{{ dict(a=1, b=2) }}{{ dict([('x', 1)], y=2) }}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ j() }}", "{{ range(200000) }}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %A %d %b') }}", "{{ raise_exception('no ' ~ n) }}", "{% do l %}", "{% print n, s %}", "{% autoescape false %}{{ '<' }}{% endautoescape %}",
    "{% generation %}{% set v = 1 %}{{ n }}{% endgeneration %}{{ v }}", "{% filter upper %}a{{ s }}{% endfilter %}", "{% if n is divisibleby 7 and n is not even %}y{% endif %}{{ 1 is sameas 1 }}{{ n is in [7] }}",
    "{% break %}", "{% endif %}", "{% if %}", "{{ 1", "{% for %}", "{{ }}", "{{ ( }}", "{{ 'a }}", "{# a", "{% raw %}", "{{ 1 2 }}", "{% set = 1 %}", "{% set 1 = 1 %}", "{{ a b }}", "{{ a.1.2 }}", "{{ 1.a }}", "{{ not }}", "{% macro %}", "{% if x %}{% else %}{% elif %}{% endif %}",
    "{{ f(*l) }}", "{% macro q(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ q(*l) }}{{ q(1, **{'b': 2, 'c': 3}) }}", "{{ {}.a }}{{ {'a': 1,} }}{{ [1, 2,] }}{{ (1,) }}", "{{ {[]: 1} }}", "{{ d | length }}{{ s | length }}{{ u | length }}", "{{ 1_000 + 0b11 + 0o17 + 0xfF }}",
]


@pytest.mark.parametrize("source", CORNERS)
def test_corners(render, source):
    check(render, source)


def test_published_template(tmp_path):
    for template in TEMPLATES.glob("*.jinja"):
        for case in json.loads(template.with_suffix(".json").read_text()):
            (tmp_path / "v.json").write_text(json.dumps({**case["variables"], "now": case["now"]}))
            done = infer("template", "--template", template, "--input", tmp_path / "v.json")
            assert done.stdout.decode() == case.get("text", "")
            assert done.returncode == (1 if "error" in case else 0)


def test_output_is_the_rendering_alone(render):
    assert render("a\n\n").stdout == b"a\n"
    assert render("").stdout == b""


def test_exit_codes(render, tmp_path):
    good = tmp_path / "good.json"
    good.write_text("{}")
    template = tmp_path / "x.jinja"
    template.write_text("{{ raise_exception('Only users here') }}")
    fails(1, "template", "--template", template, "--input", good, says="Only users here")
    template.write_text("{% if %}")
    fails(3, "template", "--template", template, "--input", good, says="line 1")
    template.write_text("x")
    for text in ("", "{", "[]", "1", '{"a": 1} x'):
        bad = tmp_path / "bad.json"
        bad.write_text(text)
        fails(3, "template", "--template", template, "--input", bad, says="bad.json")
    bad.write_text('{"now": "soon"}')
    fails(1, "template", "--template", template, "--input", bad, says="soon")
    bad.write_text('{"now": 5}')
    fails(3, "template", "--template", template, "--input", bad, says="now")
    fails(3, "template", "--template", tmp_path / "absent", "--input", good)
    fails(3, "template", "--template", template, "--input", tmp_path / "absent")
    fails(2, "template", "--template", template, says="--input")
    fails(2, "template", "--input", good, says="-m")
    fails(2, "template", "-m", MODEL, "--template", template, "--input", good)
    fails(3, "template", "-m", MODEL, "--input", good, says="no chat template")


def test_json_and_stdin(tmp_path):
    template = tmp_path / "x.jinja"
    template.write_text("<{{ a }}>")
    done = infer("template", "--template", template, "--input", "-", "--json", stdin=b'{"a": "x"}')
    assert json.loads(done.stdout) == {"text": "<x>"}
