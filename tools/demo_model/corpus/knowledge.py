"""Questions about the world: each function makes one exchange from the tables."""

from . import science, world
from .animals import (
    animal_can,
    animal_facts,
    animal_food,
    animal_home,
    animal_kind,
    animal_legs,
    animal_sound,
    animal_young,
)
from .core import Exchange, a, cap, join, say


def capital(rng, lead=None):
    country, city, *_ = rng.choice(world.COUNTRIES)
    if lead == "capital":
        question = say(
            rng,
            [
                "And of {c}?",
                "And {c}?",
                "What about {c}?",
                "And the capital of {c}?",
                "How about {c}?",
            ],
            c=country,
        )
    else:
        question = say(
            rng,
            [
                "[What is|What's|Which city is] the capital of {c}?",
                "[What is|What's] the capital [city |]of {c}?",
                "Capital of {c}?",
                "[Do you know|Can you tell me] the capital of {c}?",
                "Tell me the capital of {c}.",
                "[Name|Tell me] {c}'s capital.",
                "What is {c}'s capital?",
            ],
            c=country,
        )
    return Exchange(
        question, f"The capital of {country} is {city}.", city, lambda r: capital(r, "capital")
    )


def capital_of(rng, lead=None):
    country, city, continent, *_ = rng.choice(world.COUNTRIES)
    if city == "London":
        country = "the United Kingdom"
    if lead:
        question = say(rng, ["And {c}?", "What about {c}?", "And of which is {c}?"], c=city)
    else:
        question = say(
            rng,
            [
                "[Which|What] country has {c} as its capital?",
                "{c} is the capital of [which|what] country?",
                "Of which country is {c} the capital?",
                "[What|Where] is {c}?",
                "[In which|In what] country is {c}?",
                "Tell me about {c}.",
            ],
            c=city,
        )
    if question.startswith(("What is", "Where is", "Tell me")):
        where = f"in {continent}" if continent != "Europe and Asia" else "in Europe and in Asia"
        answer = f"{city} is the capital of {country}, a country {where}."
    else:
        answer = f"{city} is the capital of {country}."
    return Exchange(question, answer, cap(country), lambda r: capital_of(r, "city"))


def continent(rng, lead=None):
    country, _, where, *_ = rng.choice(world.COUNTRIES)
    verb = "are" if country in ("the Netherlands", "the Philippines") else "is"
    if where == "Europe and Asia":
        answer = f"{cap(country)} lies both in Europe and in Asia."
    else:
        answer = f"{cap(country)} {verb} in {where}."
    if lead:
        question = say(
            rng, ["And {c}?", "And where {v} {c}?", "What about {c}?"], c=country, v=verb
        )
    else:
        question = say(
            rng,
            [
                "[On|In] [which|what] continent {v} {c}?",
                "Where {v} {c}?",
                "Which continent {v} {c} [in|on]?",
                "In which part of the world {v} {c}?",
            ],
            c=country,
            v=verb,
        )
    return Exchange(question, answer, where, lambda r: continent(r, True))


def language(rng, lead=None):
    country, _, _, tongue, _ = rng.choice([c for c in world.COUNTRIES if c[3]])
    if lead:
        question = say(rng, ["And in {c}?", "What about {c}?"], c=country)
    else:
        question = say(
            rng,
            [
                "[What|Which] language do people speak in {c}?",
                "[What|Which] language is spoken in {c}?",
                "What do people speak in {c}?",
            ],
            c=country,
        )
    return Exchange(
        question, f"People in {country} speak {tongue}.", tongue, lambda r: language(r, True)
    )


def currency(rng, lead=None):
    country, *_, money = rng.choice([c for c in world.COUNTRIES if c[4]])
    if lead:
        question = say(rng, ["And in {c}?", "What about {c}?", "And of {c}?"], c=country)
    else:
        question = say(
            rng,
            [
                "[What is|What's] the currency of {c}?",
                "[What|Which] money do people use in {c}?",
                "What currency [is used|do they use] in {c}?",
                "How do people pay in {c}?",
            ],
            c=country,
        )
    return Exchange(
        question,
        f"The currency of {country} is the {money}.",
        cap(money),
        lambda r: currency(r, True),
    )


def country_facts(rng):
    country, city, where, tongue, money = rng.choice(world.COUNTRIES)
    verb = "are" if country in ("the Netherlands", "the Philippines") else "is"
    place = "that lies in Europe and in Asia" if " and " in where else f"in {where}"
    text = f"{cap(country)} {verb} a country {place}. Its capital is {city}."
    if tongue:
        text += f" People there speak {tongue}."
    if money:
        text += f" They pay with the {money}."
    question = say(
        rng,
        [
            "[Tell me|Say] something about {c}.",
            "What do you know about {c}?",
            "Tell me [more |]about {c}.",
            "What is {c}?",
            "[Describe|Explain] {c}.",
        ],
        c=country,
    )
    return Exchange(question, text)


def colour(rng, lead=None):
    thing, is_colour = rng.choice(world.COLOURS)
    if lead:
        question = say(rng, ["And {t}?", "What about {t}?"], t=thing)
    else:
        question = say(
            rng,
            [
                "[What|Which] [colour|color] is {t}?",
                "[What is|What's] the [colour|color] of {t}?",
                "[What|Which] [colour|color] does {t} have?",
            ],
            t=thing,
        )
    return Exchange(
        question, f"{cap(thing)} is {is_colour}.", cap(is_colour), lambda r: colour(r, True)
    )


def sky(rng):
    question = say(
        rng,
        [
            "[What|Which] [colour|color] is the sky?",
            "[What is|What's] the [colour|color] of the sky?",
            "Is the sky blue?",
        ],
    )
    answer = "The sky is blue on a clear day."
    if question.startswith("Is"):
        answer = "Yes, the sky is blue on a clear day."
    return Exchange(question, answer, "Blue")


def colour_mix(rng, lead=None):
    one, two, result = rng.choice(world.MIXES)
    if rng.random() < 0.5:
        one, two = two, one
    if lead:
        question = say(rng, ["And {a} and {b}?", "What about {a} and {b}?"], a=one, b=two)
    else:
        question = say(
            rng,
            [
                "[What|Which] colour do [you get|I get] [when|if] [you|I] mix {a} and {b}?",
                "What is {a} mixed with {b}?",
                "What do {a} and {b} make?",
                "Mix {a} and {b}.",
            ],
            a=one,
            b=two,
        )
    return Exchange(
        question, f"{cap(one)} and {two} make {result}.", cap(result), lambda r: colour_mix(r, True)
    )


def day(rng, lead=None):
    i = rng.randrange(7)
    step, phrase = rng.choice([(1, "after"), (-1, "before")])
    if lead:
        question = say(
            rng, ["And {p} {d}?", "And which day is {p} {d}?"], p=phrase, d=world.DAYS[i]
        )
    else:
        question = say(
            rng,
            [
                "[What|Which] day [comes|is] {p} {d}?",
                "[What|Which] day of the week [comes|is] {p} {d}?",
            ],
            p=phrase,
            d=world.DAYS[i],
        )
        if rng.random() < 0.25:
            step = 1
            question = say(
                rng,
                [
                    "Today is {d}. What [day |]is tomorrow?",
                    "If today is {d}, what day is tomorrow?",
                ],
                d=world.DAYS[i],
            )
            answer = world.DAYS[(i + 1) % 7]
            return Exchange(question, f"If today is {world.DAYS[i]}, tomorrow is {answer}.", answer)
    answer = world.DAYS[(i + step) % 7]
    return Exchange(
        question, f"{answer} comes {phrase} {world.DAYS[i]}.", answer, lambda r: day(r, True)
    )


def month(rng, lead=None):
    i = rng.randrange(12)
    name = world.MONTHS[i]
    kind = rng.random()
    if kind < 0.35:
        step, phrase = rng.choice([(1, "after"), (-1, "before")])
        answer = world.MONTHS[(i + step) % 12]
        question = say(
            rng, "[And which month|Which month|What month] [comes|is] {p} {m}?", p=phrase, m=name
        )
        return Exchange(
            question, f"{answer} comes {phrase} {name}.", answer, lambda r: month(r, True)
        )
    if kind < 0.7:
        question = say(
            rng,
            (
                ["And {m}?"]
                if lead == "days"
                else [
                    "How many days [are in|does] {m}[| have]?",
                    "How long is {m}?",
                    "How many days are there in {m}?",
                ]
            ),
            m=name,
        )
        question = question.replace("are in " + name + " have", "are in " + name)
        question = question.replace("does " + name + "?", "does " + name + " have?")
        answer = f"{name} has {world.MONTH_DAYS[i]} days."
        if i == 1:
            answer = "February has 28 days, and 29 in a leap year."
        return Exchange(question, answer, str(world.MONTH_DAYS[i]), lambda r: month(r))
    question = say(
        rng,
        [
            "[Which|What] is the {o} month[| of the year]?",
            "[Name|What's] the {o} month of the year.",
        ],
        o=world.ORDINALS[i],
    )
    return Exchange(question, f"{name} is the {world.ORDINALS[i]} month of the year.", name)


def season(rng):
    name = rng.choice(world.SEASONS)
    kind = rng.randrange(6)
    if kind == 0:
        q = say(
            rng,
            [
                "[What are|Name|Tell me|List] the [four |]seasons[| of the year].",
                "How many seasons are there?",
                "Which seasons are there?",
            ],
        )
        q = q.replace("What are the", "What are the").rstrip(".") + ("?" if q[0] in "WH" else ".")
        return Exchange(
            q.replace("??", "?"),
            "There are four seasons: spring, summer, autumn and winter.",
            "Spring, summer, autumn and winter",
        )
    if kind == 1:
        i = world.SEASONS.index(name)
        return Exchange(
            say(rng, "[Which|What] season comes after {s}?", s=name),
            f"After {name} comes {world.SEASONS[(i + 1) % 4]}.",
            cap(world.SEASONS[(i + 1) % 4]),
        )
    if kind == 2:
        i = rng.randrange(12)
        name = world.SEASONS[(i - 2) // 3 % 4]
        return Exchange(
            say(rng, "[In which|Which|What] season is {m}?", m=world.MONTHS[i]),
            f"{world.MONTHS[i]} is in {name}, at least north of the equator.",
            cap(name),
        )
    if kind == 3:
        return Exchange(
            say(rng, "[Which months are|When is] {s}?", s=name),
            f"{cap(name)} is in {world.SEASON_MONTHS[name]}.",
            cap(world.SEASON_MONTHS[name]),
        )
    if kind == 4:
        q, s = rng.choice(
            [
                ("[Which|What] is the coldest season?", "winter"),
                ("[Which|What] is the warmest season?", "summer"),
                ("In [which|what] season do the leaves fall?", "autumn"),
                ("In [which|what] season do flowers begin to bloom?", "spring"),
                ("When does it snow?", "winter"),
            ]
        )
        answers = {
            "winter": "Winter is the coldest season, and then it snows in many places.",
            "summer": "Summer is the warmest season.",
            "autumn": "The leaves fall in autumn.",
            "spring": "Flowers begin to bloom in spring.",
        }
        return Exchange(say(rng, q), answers[s], cap(s))
    return Exchange(
        say(
            rng,
            ["[Tell me about|Describe] {s}.", "What is {s} like?", "What happens in {s}?"],
            s=name,
        ),
        world.SEASON_FACTS[name],
        follow=lambda r: season(r),
    )


def unit(rng, lead=None):
    large, small, count = rng.choice(world.UNITS)
    if lead:
        question = say(
            rng,
            ["And how many {s} [are in|has] {l}?", "And in {l}, how many {s}?"],
            s=small,
            l=a(large),
        )
    else:
        question = say(
            rng,
            [
                "How many {s} are [there |]in {l}?",
                "How many {s} does {l} have?",
                "How many {s} [are|make] {l}?",
            ],
            s=small,
            l=a(large),
        )
    return Exchange(
        question, f"{cap(a(large))} has {count} {small}.", count, lambda r: unit(r, True)
    )


def planet(rng, lead=None):
    i = rng.randrange(8)
    name, fact = world.PLANETS[i]
    kind = rng.randrange(6)
    if lead:
        return Exchange(
            say(rng, ["And {p}?", "What about {p}?", "And what about {p}?"], p=name),
            fact,
            follow=lambda r: planet(r, True),
        )
    if kind == 0:
        q = say(
            rng,
            [
                "[Name|List] the planets[| of the solar system].",
                "[Which|What] planets are there[| in the solar system]?",
                "What are the planets of the solar system?",
            ],
        )
        return Exchange(
            q,
            "The planets are Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune.",
        )
    if kind == 1:
        return Exchange(
            say(
                rng,
                [
                    "How many planets are there[| in the solar system]?",
                    "How many planets does the solar system have?",
                ],
            ),
            "There are eight planets in the solar system.",
            "Eight",
        )
    if kind == 2:
        q, p = rng.choice([("[largest|biggest]", 4), ("smallest", 0), ("hottest", 1)])
        q = say(rng, f"[Which|What] is the {q} planet[| in the solar system]?")
        return Exchange(q, world.PLANETS[p][1], world.PLANETS[p][0])
    if kind == 3:
        q, p = rng.choice(
            [
                ("[Which|What] planet is [closest|nearest] to the Sun?", 0),
                ("[Which|What] planet is farthest from the Sun?", 7),
                ("[Which|What] planet has [bright |big |]rings?", 5),
                ("[Which|What] planet is [called |]the red planet?", 3),
                ("[Which|What] planet do we live on?", 2),
            ]
        )
        return Exchange(say(rng, q), world.PLANETS[p][1], world.PLANETS[p][0])
    if kind == 4:
        o = world.ORDINALS[i]
        return Exchange(
            say(rng, "[Which|What] is the {o} planet from the Sun?", o=o),
            f"{name} is the {o} planet from the Sun.",
            name,
        )
    return Exchange(
        say(
            rng,
            ["[Tell me about|What is|Tell me something about|What do you know about] {p}."],
            p=name,
        ).replace("What is " + name + ".", "What is " + name + "?"),
        fact,
        follow=lambda r: planet(r, True),
    )


def science_fact(rng):
    questions, answers = rng.choice(science.FACTS)
    answer = rng.choice(answers)
    return Exchange(
        say(rng, questions), answer, answer.split(". ")[0] + ("." if ". " in answer else "")
    )


def thing(rng, lead=None):
    name, kind, use = rng.choice(science.THINGS)
    if lead:
        question = say(rng, ["And {x}?", "And what is {x}?", "What about {x}?"], x=a(name))
    elif rng.random() < 0.35:
        question = say(
            rng,
            [
                "What is {x} [used |]for?",
                "What do [you|people] use {x} for?",
                "What do you do with {x}?",
                "What can I do with {x}?",
            ],
            x=a(name),
        )
        return Exchange(
            question, f"People use {a(name)} to {use}.", cap(use), lambda r: thing(r, True)
        )
    elif rng.random() < 0.3:
        question = say(
            rng,
            [
                "What do [you|people] use to {u}?",
                "What do I need to {u}?",
                "With what do people {u}?",
            ],
            u=use,
        )
        return Exchange(question, f"People use {a(name)} to {use}.", cap(a(name)))
    else:
        question = say(
            rng,
            ["[What is|What's] {x}?", "[Explain|Describe] {x}.", "Can you explain what {x} is?"],
            x=a(name),
        )
    return Exchange(
        question,
        f"{cap(a(name))} is {a(kind)}. People use it to {use}.",
        cap(kind),
        lambda r: thing(r, True),
    )


def thing_which(rng):
    """A choice between two animals or things by what is known of them."""
    kind = rng.randrange(3)
    if kind == 0:
        small = "ant mouse bee snail frog sparrow spider butterfly".split()
        large = "elephant whale horse cow bear giraffe lion camel".split()
        one, two = rng.choice(small), rng.choice(large)
        pair = [one, two]
        rng.shuffle(pair)
        big = rng.random() < 0.5
        which = two if big else one
        adj = "bigger" if big else "smaller"
        q = say(
            rng,
            ["[What|Which] is {d}, {a} or {b}?", "Is {a} or {b} {d}?"],
            d=adj,
            a=a(pair[0]),
            b=a(pair[1]),
        )
        other = one if big else two
        return Exchange(q, f"{cap(a(which))} is {adj} than {a(other)}.", cap(a(which)))
    if kind == 1:
        one, two, three = rng.sample([r for r in world.ANIMALS if r[2] in ("mammal", "bird")], 3)
        names = [one[0], two[0]]
        item = rng.choice(
            world.LISTS["fruits"].split()
            + world.LISTS["tools"].split()
            + world.LISTS["colours"].split()
        )
        words = names + [three[0], item]
        rng.shuffle(words)
        q = say(
            rng,
            [
                "Which [word |one |]does not [fit|belong]: {w}?",
                "Find the odd one out: {w}.",
                "What is the odd one out: {w}?",
            ],
            w=", ".join(words),
        )
        return Exchange(
            q, f"The word {item} does not fit, because the others are animals.", cap(item)
        )
    kinds = rng.sample(
        [
            "fruits",
            "vegetables",
            "tools",
            "clothes",
            "drinks",
            "vehicles",
            "metals",
            "colours",
            "sports",
            "jobs",
        ],
        1,
    )[0]
    item = rng.choice(world.LISTS[kinds].split())
    asked = (
        kinds
        if rng.random() < 0.55
        else rng.choice(["fruits", "tools", "clothes", "drinks", "vehicles", "metals"])
    )
    single = {"clothes": "piece of clothing"}
    one = single.get(asked, asked[:-1])
    real = single.get(kinds, kinds[:-1])
    if item == "tomato" or item == "orange":
        item, kinds, real = "pear", "fruits", "fruit"
    article = "" if real in ("drink", "metal", "sport", "colour") else None
    noun = cap(item) if article == "" else cap(a(item))
    q = say(rng, "Is {x} {k}?", x=item if article == "" else a(item), k=a(one))
    if one == real:
        return Exchange(q, f"Yes, {noun[0].lower() + noun[1:]} is {a(real)}.", "Yes")
    return Exchange(q, f"No, {noun[0].lower() + noun[1:]} is not {a(one)}. It is {a(real)}.", "No")


def statement(rng):
    """A sentence that is true, for plain text."""
    exchange = rng.choice(
        [
            capital,
            continent,
            animal_food,
            animal_home,
            animal_facts,
            colour,
            colour_mix,
            day,
            unit,
            planet,
            science_fact,
            thing,
            season,
            country_facts,
            language,
        ]
    )(rng)
    return exchange.answer


def colours_list(rng):
    kind = rng.randrange(2)
    if kind:
        q = say(rng, ["[What|Which] [are the |]colours [of|are in|does] [the|a] rainbow[|]?"])
        q = rng.choice(
            [
                "What are the colours of the rainbow?",
                "Which colours are in a rainbow?",
                "Name the colours of the rainbow.",
                "What colours does a rainbow have?",
            ]
        )
        return Exchange(q, "A rainbow is red, orange, yellow, green, blue, indigo and violet.")
    q = rng.choice(
        [
            "What are the days of the week?",
            "Name the days of the week.",
            "List the days of the week.",
            "Which days does a week have?",
            "What are the months of the year?",
            "Name the months.",
            "List the twelve months.",
            "Name all the months of the year.",
        ]
    )
    if "month" in q:
        return Exchange(q, f"The months are {join(world.MONTHS)}.")
    return Exchange(q, f"The days of the week are {join(world.DAYS)}.")


TOPICS = [
    (capital, 10),
    (capital_of, 4),
    (continent, 3),
    (language, 3),
    (currency, 2),
    (country_facts, 3),
    (animal_sound, 3),
    (animal_young, 3),
    (animal_legs, 3),
    (animal_food, 3),
    (animal_home, 3),
    (animal_kind, 4),
    (animal_can, 2),
    (animal_facts, 5),
    (colour, 3),
    (sky, 0.5),
    (colour_mix, 1.5),
    (day, 3),
    (month, 4),
    (season, 3),
    (unit, 3),
    (planet, 4),
    (science_fact, 12),
    (thing, 6),
    (thing_which, 3),
    (colours_list, 1.5),
]
