"""Arithmetic with small numbers, comparisons and counting."""

from .core import Exchange, cap, say, word
from .world import NAMES

SIGNS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def _operands(rng, sign):
    if sign == "+":
        most = rng.choice([10, 10, 20, 50, 100])
        return rng.randint(0, most), rng.randint(0, most)
    if sign == "-":
        most = rng.choice([10, 20, 20, 50, 100])
        x = rng.randint(0, most)
        return x, rng.randint(0, x)
    if sign == "*":
        return rng.randint(0, 12), rng.randint(0, 12)
    y = rng.randint(1, 10)
    return y * rng.randint(0, 10), y


def _result(x, sign, y):
    return {"+": x + y, "-": x - y, "*": x * y, "/": x // max(y, 1)}[sign]


def sum_of(rng, lead=None):
    sign = rng.choice("+++--**/") if lead is None or rng.random() < 0.4 else lead
    x, y = _operands(rng, sign)
    result = _result(x, sign, y)
    shown = rng.choice(["x", "×"]) if sign == "*" and rng.random() < 0.25 else sign
    name = SIGNS[sign]
    if lead:
        question = say(
            rng,
            ["And {x} {s} {y}?", "And {x} {n} {y}?", "{x} {s} {y}?", "What about {x} {s} {y}?"],
            x=x,
            s=shown,
            y=y,
            n=name,
        )
    else:
        question = say(
            rng,
            [
                "[What is|What's] {x} {s} {y}?",
                "[What is|What's] {x} {n} {y}?",
                "{x} {s} {y}",
                "{x} {s} {y} =",
                "{x}{s}{y}",
                "{x}{s}{y}=?",
                "[Calculate|Compute] {x} {s} {y}.",
                "How much is {x} {s} {y}?",
                "How much is {x} {n} {y}?",
                "{x} {s} {y} = ?",
            ],
            x=x,
            s=shown,
            y=y,
            n=name,
        )
    if max(x, y) <= 12 and lead is None and rng.random() < 0.08:
        question = say(rng, "What is {x} {n} {y}?", x=word(x), y=word(y), n=name)
    return Exchange(question, f"{x} {sign} {y} = {result}", str(result), lambda r: sum_of(r, sign))


def sum_chain(rng, lead=None):
    """A question about the last result: the answers before have to be read."""
    x, y = _operands(rng, "+")
    first = Exchange(say(rng, "What is {x} + {y}?", x=x, y=y), f"{x} + {y} = {x + y}", str(x + y))

    def more(r, value=x + y):
        z = r.randint(1, 10)
        up = r.random() < 0.6 or value < z
        result = value + z if up else value - z
        sign = "+" if up else "-"
        q = say(
            r,
            (
                ["[And plus|Add|Now add|Plus] {z}[| to that].", "And if you add {z}?"]
                if up
                else ["[And minus|Take away|Now subtract|Minus] {z}."]
            ),
            z=z,
        )
        return Exchange(
            q, f"{value} {sign} {z} = {result}", str(result), lambda rr: more(rr, result)
        )

    first.follow = more
    return first


def compare(rng, lead=None):
    most = rng.choice([10, 20, 100, 1000])
    x, y = rng.sample(range(most + 1), 2)
    larger = rng.random() < 0.6
    word_ = rng.choice(["larger", "bigger", "greater"]) if larger else "smaller"
    kind = rng.random()
    if lead:
        question = say(rng, ["And {x} or {y}?", "What about {x} and {y}?"], x=x, y=y)
        word_, larger = lead, lead != "smaller"
    elif kind < 0.25:
        yes = (x > y) == larger
        question = say(rng, "Is {x} {w} than {y}?", x=x, y=y, w=word_)
        if yes:
            return Exchange(question, f"Yes, {x} is {word_} than {y}.", "Yes")
        return Exchange(question, f"No, {x} is not {word_} than {y}.", "No")
    else:
        question = say(
            rng,
            [
                "[Which|What] [number |]is {w}, {x} or {y}?",
                "Which is {w}: {x} or {y}?",
                "Is {x} or {y} {w}?",
            ],
            x=x,
            y=y,
            w=word_,
        )
    best, other = (max(x, y), min(x, y)) if larger else (min(x, y), max(x, y))
    return Exchange(
        question, f"{best} is {word_} than {other}.", str(best), lambda r: compare(r, word_)
    )


def extreme(rng):
    numbers = rng.sample(range(rng.choice([10, 20, 100])), rng.randint(3, 5))
    kind = rng.randrange(3)
    shown = ", ".join(map(str, numbers))
    if kind == 0:
        q = say(
            rng,
            [
                "[Sort|Order] these numbers: {n}",
                "Sort the numbers {n}.",
                "Put these numbers in order: {n}.",
            ],
            n=shown,
        )
        return Exchange(q, ", ".join(map(str, sorted(numbers))))
    best, name = (max(numbers), "largest") if kind == 1 else (min(numbers), "smallest")
    q = say(
        rng,
        [
            "[Which|What] is the {w} [number |]of {n}?",
            "What is the {w} number in this list: {n}?",
            "Find the {w} number: {n}",
        ],
        n=shown,
        w=name,
    )
    return Exchange(q, f"The {name} number is {best}.", str(best))


def parity(rng, lead=None):
    x = rng.randint(0, rng.choice([10, 20, 100]))
    kind = "even" if x % 2 == 0 else "odd"
    if lead:
        question = say(rng, ["And {x}?", "What about {x}?"], x=x)
    else:
        question = say(
            rng,
            [
                "Is {x} [even or odd|odd or even]?",
                "Is {x} an [even|odd] number?",
                "Is the number {x} [even|odd]?",
            ],
            x=x,
        )
        if " or " not in question:
            asked = "even" if "even" in question else "odd"
            yes = asked == kind
            return Exchange(
                question, f"{'Yes' if yes else 'No'}, {x} is {kind}.", "Yes" if yes else "No"
            )
    return Exchange(question, f"{x} is {kind}.", cap(kind), lambda r: parity(r, True))


def neighbour(rng, lead=None):
    x = rng.randint(1, rng.choice([10, 20, 99]))
    step, name = rng.choice([(1, "after"), (-1, "before")])
    question = say(
        rng,
        ["[What|Which] number [comes|is] {p} {x}?"] if not lead else ["And {p} {x}?"],
        p=name,
        x=x,
    )
    return Exchange(
        question, f"{x + step} comes {name} {x}.", str(x + step), lambda r: neighbour(r, True)
    )


def count(rng):
    kind = rng.randrange(5)
    if kind == 0:
        low = rng.choice([1, 1, 1, rng.randint(0, 20)])
        high = low + rng.choice([4, 9, 9, rng.randint(2, 14)])
        q = say(
            rng,
            [
                "Count from {a} to {b}.",
                "Can you count from {a} to {b}?",
                "Write the numbers from {a} to {b}.",
            ],
            a=low,
            b=high,
        )
        if low == 1 and rng.random() < 0.5:
            q = say(rng, ["Count to {b}.", "Can you count to {b}?"], b=high)
        return Exchange(q, ", ".join(map(str, range(low, high + 1))))
    if kind == 1:
        high = rng.choice([5, 10, 10, rng.randint(4, 15)])
        q = say(
            rng, ["Count [backwards|down] from {b}[| to 1].", "Count from {b} down to 1."], b=high
        )
        return Exchange(q, ", ".join(map(str, range(high, 0, -1))))
    if kind == 2:
        step = rng.choice([2, 3, 5, 10])
        high = step * rng.choice([5, 10, 10])
        q = say(
            rng,
            ["Count [by|in] {w} to {b}.", "Count to {b} in steps of {s}."],
            w={2: "twos", 3: "threes", 5: "fives", 10: "tens"}[step],
            b=high,
            s=step,
        )
        return Exchange(q, ", ".join(map(str, range(step, high + 1, step))))
    if kind == 3:
        low, step = rng.randint(0, 20), rng.choice([1, 2, 3, 5, 10])
        row = [low + step * i for i in range(4)]
        q = say(
            rng,
            [
                "[What comes next|Continue|Which number comes next]: {n}, ...",
                "[What|Which number] comes next? {n}",
            ],
            n=", ".join(map(str, row)),
        )
        return Exchange(q, f"The next number is {low + 4 * step}.", str(low + 4 * step))
    x = rng.randint(1, 10)
    q = say(
        rng, ["[Write|Say|Give me] the times table of {x}.", "What is the {x} times table?"], x=x
    )
    return Exchange(q, "\n".join(f"{i} * {x} = {i * x}" for i in range(1, 11)))


def double(rng, lead=None):
    x = rng.randint(1, rng.choice([10, 20, 50]))
    if rng.random() < 0.5:
        q = say(
            rng,
            (
                ["[What is|What's] [double|twice] {x}?", "Double {x}."]
                if not lead
                else ["And [double|twice] {x}?"]
            ),
            x=x,
        )
        return Exchange(q, f"Twice {x} is {2 * x}.", str(2 * x), lambda r: double(r, True))
    x *= 2
    q = say(
        rng,
        ["[What is|What's] half of {x}?", "Half of {x}?"] if not lead else ["And half of {x}?"],
        x=x,
    )
    return Exchange(q, f"Half of {x} is {x // 2}.", str(x // 2), lambda r: double(r, True))


ITEMS = (
    "apples pears books eggs coins balls pencils flowers cookies stones marbles oranges "
    "stamps cards shells buttons candles cups"
).split()


def problem(rng):
    name, other = rng.sample(NAMES, 2)
    item = rng.choice(ITEMS)
    x, y = rng.randint(2, 12), rng.randint(1, 9)
    kind = rng.randrange(6)
    if kind == 0:
        text = say(
            rng,
            [
                (
                    "{n} has {x} {i} and [gets|finds|buys] {y} more. How many {i} does {n} "
                    "have[| now]?"
                ),
                "{n} has {x} {i}. {o} gives {n} {y} more. How many {i} does {n} have[| now]?",
            ],
            n=name,
            o=other,
            x=x,
            y=y,
            i=item,
        )
        return Exchange(
            text, f"{name} has {x + y} {item}, because {x} + {y} = {x + y}.", str(x + y), exact=True
        )
    if kind == 1:
        y = rng.randint(1, x)
        text = say(
            rng,
            [
                (
                    "{n} has {x} {i} and [loses|gives away|sells] {y}[| of them]. How many "
                    "{i} [does {n} have|are] left?"
                ),
                "There are {x} {i}. {n} takes {y} [of them|away]. How many {i} are left?",
            ],
            n=name,
            x=x,
            y=y,
            i=item,
        )
        who = f"{name} has" if f"does {name} have" in text else "There are"
        return Exchange(
            text, f"{who} {x - y} {item} left, because {x} - {y} = {x - y}.", str(x - y), exact=True
        )
    if kind == 2:
        x, y = rng.randint(2, 9), rng.randint(2, 9)
        text = say(
            rng,
            [
                "There are {x} boxes with {y} {i} each. How many {i} are there?",
                "{n} buys {x} bags of {y} {i}. How many {i} does {n} have?",
            ],
            n=name,
            x=x,
            y=y,
            i=item,
        )
        who = f"{name} has" if name in text else "There are"
        return Exchange(
            text, f"{who} {x * y} {item}, because {x} * {y} = {x * y}.", str(x * y), exact=True
        )
    if kind == 3:
        text = f"{name} has {x} {item} and {other} has {y}. How many do they have together?"
        return Exchange(
            text,
            f"Together they have {x + y} {item}, because {x} + {y} = {x + y}.",
            str(x + y),
            exact=True,
        )
    if kind == 4:
        second = rng.choice([i for i in ITEMS if i != item])
        asked, n = rng.choice([(item, x), (second, y)])
        text = f"{name} has {x} {item} and {y} {second}. How many {asked} does {name} have?"
        return Exchange(text, f"{name} has {n} {asked}.", str(n), exact=True)
    age = rng.randint(5, 60)
    text = f"{name} is {age} years old. How old will {name} be in {y} years?"
    return Exchange(
        text, f"In {y} years {name} will be {age + y} years old.", str(age + y), exact=True
    )


def sums_text(rng):
    """Lines of sums, as plain text."""
    lines = []
    for _ in range(rng.randint(4, 12)):
        sign = rng.choice("+++--*")
        x, y = _operands(rng, sign)
        lines.append(f"{x} {sign} {y} = {_result(x, sign, y)}")
    return "\n".join(lines)


def counted(rng):
    n = rng.randint(1, 8)
    x = rng.choice("apple pear dog cat star tree a b x o".split())
    row = " ".join([x] * n)
    q = say(rng, ["How many words are there: {r}", "Count the words: {r}"], r=row)
    return Exchange(
        q, f"There {'is' if n == 1 else 'are'} {word(n)} word{'s' * (n != 1)}.", cap(word(n))
    )


TOPICS = [
    (sum_of, 14),
    (sum_chain, 2),
    (compare, 4),
    (extreme, 3),
    (parity, 2),
    (neighbour, 2),
    (count, 3),
    (double, 1.5),
    (problem, 6),
    (counted, 0.5),
]
