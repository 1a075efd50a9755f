"""Questions about animals: each function makes one exchange from the tables."""

from . import world
from .core import Exchange, a, cap, say, word


def _animal(rng, wanted=lambda row: True):
    return rng.choice([row for row in world.ANIMALS if wanted(row)])


def animal_sound(rng, lead=None):
    (
        name,
        plural,
        *_,
    ) = row = _animal(rng, lambda r: r[4])
    sound = row[4]
    third = sound + "s" if sound not in ("screech", "hiss", "buzz") else sound + "es"
    if lead:
        question = say(rng, ["And {x}?", "What about {x}?"], x=a(name))
    else:
        question = say(
            rng,
            [
                "[What sound|What noise|Which sound] does {x} make?",
                "What sound does {x} make?",
                "How does {x} sound?",
                "What does {x} say?",
            ],
            x=a(name),
        )
    verb = {
        "baa": f"{cap(a(name))} says baa.",
        "moo": f"{cap(a(name))} says moo.",
        "oink": f"{cap(a(name))} says oink.",
    }
    return Exchange(
        question,
        verb.get(sound, f"{cap(a(name))} {third}."),
        cap(sound),
        lambda r: animal_sound(r, True),
    )


def animal_young(rng, lead=None):
    row = _animal(rng, lambda r: r[5])
    name, young = row[0], row[5]
    if lead:
        question = say(
            rng, ["And a baby {x}?", "What about a baby {x}?", "And of {y}?"], x=name, y=a(name)
        )
    else:
        question = say(
            rng,
            [
                "What is a [baby|young] {x} called?",
                "[What do you call|What's the name of] a [baby|young] {x}?",
                "What is the young of {y} called?",
                "How do you call a baby {x}?",
            ],
            x=name,
            y=a(name),
        )
    return Exchange(
        question,
        f"A young {name} is called {a(young)}.",
        cap(young),
        lambda r: animal_young(r, True),
    )


def animal_legs(rng, lead=None):
    row = _animal(rng)
    name, plural, legs = row[0], row[1], int(row[3])
    noun = "arms" if name == "octopus" else "legs"
    if lead:
        question = say(rng, ["And {x}?", "What about {y}?"], x=a(name), y=plural)
    else:
        question = say(
            rng,
            [
                "How many legs does {x} have?",
                "How many legs do {y} have?",
                "How many legs has {x}?",
            ],
            x=a(name),
            y=plural,
        )
    number = "no" if legs == 0 else word(legs)
    return Exchange(
        question,
        f"{cap(a(name))} has {number} {noun}.",
        cap(word(legs)),
        lambda r: animal_legs(r, True),
    )


def animal_food(rng, lead=None):
    row = _animal(rng)
    if lead:
        question = say(rng, ["And {y}?", "What about {y}?", "And what do {y} eat?"], y=row[1])
    else:
        question = say(
            rng,
            [
                "What do {y} eat?",
                "What does {x} eat?",
                "[What is|What's] the food of {y}?",
                "What do {y} live on?",
            ],
            x=a(row[0]),
            y=row[1],
        )
    return Exchange(
        question, f"{cap(row[1])} eat {row[6]}.", cap(row[6]), lambda r: animal_food(r, True)
    )


def animal_home(rng, lead=None):
    row = _animal(rng)
    if lead:
        question = say(rng, ["And {y}?", "What about {y}?", "And where do {y} live?"], y=row[1])
    else:
        question = say(
            rng,
            ["Where do {y} live?", "Where does {x} live?", "Where can I find {y}?"],
            x=a(row[0]),
            y=row[1],
        )
    return Exchange(
        question, f"{cap(row[1])} live {row[7]}.", cap(row[7]), lambda r: animal_home(r, True)
    )


def animal_kind(rng, lead=None):
    row = _animal(rng)
    name, kind = row[0], row[2]
    if rng.random() < 0.5:
        asked = (
            kind if rng.random() < 0.5 else rng.choice("mammal bird fish insect reptile".split())
        )
        question = say(
            rng,
            ["Is {x} {k}?", "Is {x} {k} or not?", "Are {y} {p}?"],
            x=a(name),
            k=a(asked),
            y=row[1],
            p=asked if asked == "fish" else asked + "s",
        )
        if asked == kind:
            return Exchange(question, f"Yes, {a(name)} is {a(kind)}.", "Yes")
        return Exchange(question, f"No, {a(name)} is not {a(asked)}. It is {a(kind)}.", "No")
    if lead:
        question = say(rng, ["And {x}?", "What about {x}?"], x=a(name))
    else:
        question = say(
            rng,
            [
                "What kind of animal is {x}?",
                "What type of animal is {x}?",
                "What group does {x} belong to?",
            ],
            x=a(name),
        )
    return Exchange(
        question,
        f"{cap(a(name))} is {a(kind)}.",
        cap(kind),
        lambda r: animal_kind(r, True) if r.random() < 0.5 else animal_food(r),
    )


def animal_can(rng):
    row = _animal(rng)
    name, plural = row[0], row[1]
    if rng.random() < 0.6:
        can = name in world.FLYERS or (row[2] == "bird" and name not in world.CANNOT_FLY)
        question = say(rng, ["Can {y} fly?", "Can {x} fly?", "Do {y} fly?"], x=a(name), y=plural)
        if name == "chicken":
            answer = "No, chickens cannot really fly. They only flutter a little."
        else:
            answer = f"Yes, {plural} can fly." if can else f"No, {plural} cannot fly."
    else:
        row = _animal(rng, lambda r: r[0] in world.SWIMMERS)
        can, plural = True, row[1]
        question = say(rng, ["Can {y} swim?", "Can {x} swim?"], x=a(row[0]), y=plural)
        answer = f"Yes, {plural} can swim very well."
    return Exchange(question, answer, "Yes" if can else "No")


def animal_facts(rng, lead=None):
    name, plural, kind, legs, _, young, food, home, fact = _animal(rng)
    first = f"{cap(a(name))} is {a(kind)}."
    parts = [first, f"{cap(plural)} live {home} and eat {food}.", fact]
    if young and rng.random() < 0.4:
        parts.append(f"A young {name} is called {a(young)}.")
    if lead:
        question = say(rng, ["And {x}?", "And {y}?", "Now tell me about {y}."], x=a(name), y=plural)
    else:
        question = say(
            rng,
            [
                "[Tell me|Say] something about {y}.",
                "What is {x}?",
                "Tell me about {y}.",
                "Tell me about the {n}.",
                "What do you know about {y}?",
                "Describe {x}.",
                "Tell me a fact about {y}.",
                "What are {y}?",
            ],
            x=a(name),
            y=plural,
            n=name,
        )
    if question.startswith("Tell me a fact"):
        return Exchange(question, fact, follow=lambda r: animal_facts(r))
    return Exchange(question, " ".join(parts), parts[0], lambda r: animal_facts(r, True))
