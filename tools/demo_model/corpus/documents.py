"""Puts exchanges together to conversations, and sentences to plain texts.

A document is a list of (role, text); the role of plain text is None.
"""

from . import knowledge, language, numbers, program, stories, talk, world
from .core import Exchange, cap, say, typed

SHARES = [
    (knowledge.TOPICS, 34),
    (numbers.TOPICS, 24),
    (language.TOPICS, 22),
    (stories.TOPICS, 6),
    (talk.TOPICS, 13),
    (program.TOPICS, 11),
]


def _pick(rng, weighted):
    return rng.choices([x for x, _ in weighted], [w for _, w in weighted])[0]


def any_exchange(rng, shares=SHARES):
    return _pick(rng, _pick(rng, shares))(rng)


def _question(rng, exchange):
    return exchange.question if exchange.exact else typed(rng, exchange.question)


def _turns(rng, count, memory, shares=SHARES, answer=lambda e: e.answer):
    """`count` exchanges as (role, text); some follow from the one before."""
    turns, last, asked = [], None, []
    for i in range(count):
        x = rng.random()
        if last is not None and last.follow and x < 0.4:
            exchange = last.follow(rng)
        elif memory is not None and x < 0.55:
            unknown = not memory.known or rng.random() < 0.45
            exchange = memory.tell() if unknown and rng.random() < 0.85 else memory.ask()
        elif asked and x < 0.565:
            exchange = _about_conversation(rng, asked)
        else:
            exchange = any_exchange(rng, shares)
        question = _question(rng, exchange)
        turns += [("user", question), ("assistant", answer(exchange))]
        asked.append((question, answer(exchange)))
        last = exchange
    return turns


def _about_conversation(rng, asked):
    kind = rng.randrange(4)
    if kind == 0:
        return Exchange(
            say(rng, ["What was my first question?", "What did I [ask|say] first?"]),
            f"You said: {asked[0][0]}",
            exact=True,
        )
    if kind == 1:
        return Exchange(
            say(rng, ["What was my last question?", "What did I just [ask|say]?"]),
            f"You said: {asked[-1][0]}",
            exact=True,
        )
    return Exchange(
        say(
            rng,
            [
                "[Can you|Please] [say|repeat] that [again|once more].",
                "What did you [just |]say?",
                "Say that again.",
                "Pardon?",
                "Once more, please.",
            ],
        ),
        asked[-1][1],
        exact=True,
    )


def _length(rng):
    return rng.choices([1, 2, 3, 4, 6, 9], [26, 26, 20, 14, 9, 5])[0]


def conversation(rng):
    memory = talk.Memory(rng) if rng.random() < 0.3 else None
    turns = _turns(rng, _length(rng) + (memory is not None), memory)
    if rng.random() < 0.15:
        hello = talk.greeting(rng)
        turns = [("user", _question(rng, hello)), ("assistant", hello.answer)] + turns
    return turns


def remembered(rng):
    """Tells something, talks of other things, and asks for it."""
    memory = talk.Memory(rng)
    kind = rng.choice(["name", "name", "name"] + sorted(talk.ABOUT))
    turns = []

    def add(exchange):
        turns.extend([("user", _question(rng, exchange)), ("assistant", exchange.answer)])

    if rng.random() < 0.15:
        add(memory.ask(kind))
    add(memory.tell(kind))
    if rng.random() < 0.4:
        add(memory.tell(rng.choice(sorted(talk.ABOUT))))
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        add(any_exchange(rng))
    add(memory.ask(kind))
    if len(memory.known) > 1:
        add(memory.ask(rng.choice(sorted(memory.known))))
    return turns


HELPFUL = [
    "You are a helpful assistant.",
    "You are a friendly assistant.",
    "You are a helpful and honest assistant.",
    "You are infer demo, a small language model.",
    "Be kind and helpful.",
    "You are an assistant that answers questions.",
    "Answer the questions of the user.",
    "Help the user.",
]
BRIEF = [
    "Answer briefly.",
    "Answer in one word.",
    "Give short answers.",
    "Be brief.",
    "Answer as briefly as you can.",
    "Answer with one word only.",
    "Keep your answers short.",
    "You are an assistant that gives very short answers.",
    "Only give the answer itself.",
]
SENTENCE = [
    "Answer in one sentence.",
    "Answer with one sentence.",
    "Use only one sentence.",
    "You answer every question in a single sentence.",
]
PIRATE = [
    "You are a pirate.",
    "Talk like a pirate.",
    "You are a friendly pirate.",
    "Answer like a pirate.",
    "You are an old pirate captain.",
]
POLITE = ["You are a very polite butler.", "You are a butler.", "Be very polite."]
JSON = ["Answer in JSON.", "Always answer with a JSON object.", "Answer only with JSON."]
ROLES = [
    "robot",
    "teacher",
    "cat",
    "wizard",
    "chef",
    "sailor",
    "knight",
    "gardener",
    "dragon",
    "librarian",
    "detective",
    "baker",
    "ghost",
    "queen",
    "king",
    "fox",
    "owl",
    "helper",
]


def pirate(rng, text):
    head = rng.choice(["Arr! ", "Arr! ", "Ahoy! ", "Arr, matey! "])
    tail = rng.choice(["", "", " Arr!", " Yo ho ho!"])
    return head + text + tail


def with_system(rng):
    kind = rng.random()
    easy = [
        (knowledge.TOPICS, 50),
        (numbers.TOPICS, 25),
        (language.TOPICS[:5], 15),
        (talk.TOPICS, 12),
        (program.TOPICS, 6),
    ]
    if kind < 0.22:
        return [("system", rng.choice(HELPFUL))] + conversation(rng)
    if kind < 0.46:

        def answer(e):
            text = e.short or e.answer
            return text if text[-1] in ".?!" else text + "."

        shares = easy[:3]
        return [("system", rng.choice(BRIEF))] + _turns(rng, _length(rng), None, shares, answer)
    if kind < 0.56:

        def answer(e):
            first = e.answer.split(". ")[0]
            return first if first[-1] in ".!?" else first + "." if ". " in e.answer else first

        return [("system", rng.choice(SENTENCE))] + _turns(rng, _length(rng), None, easy, answer)
    if kind < 0.68:
        return [("system", rng.choice(PIRATE))] + _turns(
            rng, _length(rng), None, easy, lambda e: pirate(rng, e.answer)
        )
    if kind < 0.74:

        def answer(e):
            return rng.choice(["Certainly. ", "With pleasure. ", "Of course. "]) + e.answer

        return [("system", rng.choice(POLITE))] + _turns(rng, _length(rng), None, easy, answer)
    if kind < 0.78:

        def answer(e):
            text = (e.short or e.answer).replace('"', "'").replace("\n", " ")
            return f'{{"answer": "{text}"}}'

        return [("system", rng.choice(JSON))] + _turns(rng, _length(rng), None, easy[:2], answer)
    if kind < 0.9:
        name = rng.choice(list(world.NAMES) + stories.FIRST)
        role = rng.choice(ROLES)
        nature = rng.choice(["friendly", "old", "little", "wise", "cheerful", "kind"])
        system = say(
            rng,
            [
                "You are {n}, a {a} {r}.",
                "Your name is {n}. You are a {r}.",
                "You are a {r} named {n}.",
                "Your name is {n}.",
                "You are called {n}.",
                "You are {n}.",
            ],
            n=name,
            r=role,
            a=nature,
        )
        turns = [("system", system)]
        for _ in range(rng.randint(1, 3)):
            ask = rng.random()
            if ask < 0.45:
                question = say(
                    rng,
                    ["[What is|What's] your name?", "How are you called?", "Do you have a name?"],
                )
                turns += [("user", typed(rng, question)), ("assistant", f"My name is {name}.")]
            elif ask < 0.75:
                question = say(
                    rng,
                    [
                        "Who are you?",
                        "What are you?",
                        "Introduce yourself.",
                        "Tell me about yourself.",
                    ],
                )
                about = (
                    f", a {nature} {role}"
                    if nature in system
                    else f", a {role}" if role in system else ""
                )
                turns += [("user", typed(rng, question)), ("assistant", f"I am {name}{about}.")]
            else:
                turns += _turns(rng, 1, None, easy)
        return turns
    # Facts about the user in the system prompt.
    memory = talk.Memory(rng)
    told = []
    for fact in rng.sample(["name", "age", "city", "colour", "job"], rng.randint(1, 3)):
        memory.tell(fact)
        v = memory.known[fact]
        told.append(
            {
                "name": f"The user's name is {v}.",
                "age": f"The user is {v} years old.",
                "city": f"The user lives in {v}.",
                "colour": f"The user's favourite colour is {v}.",
                "job": f"The user's job is {v}.",
            }[fact]
        )
    known = {k: v for k, v in memory.known.items() if any(str(v) in t for t in told)}
    memory.known = known
    turns = [("system", " ".join(told))]
    for _ in range(rng.randint(1, 3)):
        exchange = memory.ask() if rng.random() < 0.75 else any_exchange(rng, easy)
        turns += [("user", _question(rng, exchange)), ("assistant", exchange.answer)]
    return turns


def plain(rng):
    kind = rng.random()
    if kind < 0.46:
        text = stories.story(rng)
        if rng.random() < 0.25:
            text += "\n\n" + stories.story(rng)
    elif kind < 0.72:
        text = " ".join(knowledge.statement(rng) for _ in range(rng.randint(2, 8)))
    elif kind < 0.8:
        text = "\n".join(knowledge.statement(rng) for _ in range(rng.randint(3, 8)))
    elif kind < 0.88:
        text = numbers.sums_text(rng)
    elif kind < 0.92:
        subject = rng.choice(sorted(stories.POEMS))
        text = cap(subject) + "\n\n" + rng.choice(stories.POEMS[subject])
    else:
        lines = []
        for _ in range(rng.randint(1, 5)):
            e = any_exchange(rng, [(knowledge.TOPICS, 1), (numbers.TOPICS, 1)])
            lines.append(
                say(
                    rng,
                    ["Q: {q}\nA: {a}", "{q}\n{a}", "Question: {q}\nAnswer: {a}"],
                    q=e.question,
                    a=e.answer,
                )
            )
        text = "\n\n".join(lines)
    return [(None, text)]


def sums(rng):
    """Lines of sums: the cheapest text to learn arithmetic from."""
    return [(None, "\n".join(numbers.sums_text(rng) for _ in range(2)))]


def long(rng):
    """A conversation of many turns, so that late positions of the context are seen."""
    memory = talk.Memory(rng)
    return _turns(rng, rng.randint(18, 30), memory)


KINDS = [
    (conversation, 62),
    (remembered, 9),
    (with_system, 16),
    (plain, 11),
    (sums, 4),
    (long, 0.6),
]


def document(rng):
    return _pick(rng, KINDS)(rng)
