"""Tasks on words: opposites, forms, lists, repetition, rewriting, spelling and JSON."""

import json

from . import world
from .core import Exchange, cap, invented, join, say, word

OPPOSITES = [pair.split("/") for pair in """\
big/small hot/cold tall/short old/young fast/slow good/bad happy/sad light/dark up/down left/right
day/night open/closed full/empty rich/poor hard/soft wet/dry clean/dirty early/late loud/quiet
strong/weak high/low long/short near/far new/old black/white yes/no true/false first/last
inside/outside begin/end win/lose buy/sell push/pull give/take love/hate laugh/cry awake/asleep
sweet/sour thick/thin wide/narrow heavy/light brave/afraid easy/difficult cheap/expensive
summer/winter north/south east/west before/after above/below front/back war/peace friend/enemy
question/answer top/bottom always/never everything/nothing many/few smooth/rough sharp/blunt
deep/shallow warm/cool more/less here/there on/off in/out alive/dead""".split()]

PLURALS = [pair.split("/") for pair in """\
cat/cats dog/dogs house/houses mouse/mice goose/geese child/children man/men woman/women foot/feet
tooth/teeth sheep/sheep fish/fish box/boxes bus/buses city/cities baby/babies leaf/leaves
knife/knives wolf/wolves tomato/tomatoes potato/potatoes book/books tree/trees key/keys
story/stories church/churches dish/dishes fox/foxes apple/apples person/people life/lives
hero/heroes day/days toy/toys berry/berries star/stars hat/hats glass/glasses""".split()]

PASTS = [pair.split("/") for pair in """\
go/went eat/ate see/saw run/ran come/came take/took give/gave make/made find/found think/thought
buy/bought bring/brought write/wrote speak/spoke sing/sang swim/swam drink/drank sit/sat stand/stood
sleep/slept walk/walked play/played look/looked help/helped ask/asked know/knew say/said tell/told
read/read fly/flew fall/fell feel/felt keep/kept leave/left lose/lost meet/met win/won build/built
catch/caught teach/taught drive/drove ride/rode break/broke choose/chose begin/began hear/heard
live/lived love/loved open/opened close/closed work/worked wait/waited""".split()]

SYNONYMS = [pair.split("/") for pair in """\
big/large small/little happy/glad sad/unhappy fast/quick begin/start end/finish smart/clever
beautiful/pretty hard/difficult easy/simple quiet/silent angry/cross afraid/scared kind/friendly
near/close shut/close rich/wealthy sick/ill odd/strange shout/yell speak/talk present/gift
house/home child/kid road/street stone/rock""".split()]

RHYMES = [words.split() for words in """\
cat hat mat bat
dog fog log frog
tree bee sea key
house mouse
moon spoon soon
star car far jar
light night bright kite
day play way
rain train
boat goat coat
king ring sing
bear chair hair
sun run fun
cake lake snake
door floor
fish dish wish
nose rose
tall ball wall fall
book cook look
blue shoe two""".splitlines()]

SPELLED = """cat dog sun tree house moon star fish bird apple water bread milk table chair door
window green blue red white black yellow happy small large school book pencil garden flower river
mountain summer winter spring autumn friend mother father sister brother horse sheep mouse rabbit
elephant tiger lion bear fox wolf owl duck frog bee ant snow rain wind cloud fire stone gold silver
iron glass paper train car bus boat ship king queen prince doctor teacher baker farmer music piano
hello world love peace infer model token""".split()

SUBJECTS = [
    ("I", 1),
    ("You", 2),
    ("He", 3),
    ("She", 3),
    ("We", 2),
    ("They", 2),
    ("The cat", 3),
    ("The dog", 3),
    ("The girl", 3),
    ("The boy", 3),
    ("My friend", 3),
    ("The teacher", 3),
    ("Anna", 3),
    ("Tom", 3),
    ("The farmer", 3),
    ("My sister", 3),
]
# base, third person, past
ACTIONS = [row.split("|") for row in """\
walk to school|walks to school|walked to school
play in the garden|plays in the garden|played in the garden
eat an apple|eats an apple|ate an apple
drink a cup of tea|drinks a cup of tea|drank a cup of tea
read a book|reads a book|read a book
write a letter|writes a letter|wrote a letter
sing a song|sings a song|sang a song
open the door|opens the door|opened the door
look at the stars|looks at the stars|looked at the stars
run to the river|runs to the river|ran to the river
help the old man|helps the old man|helped the old man
buy some bread|buys some bread|bought some bread
live in a small house|lives in a small house|lived in a small house
like the summer|likes the summer|liked the summer
wait for the train|waits for the train|waited for the train
sleep in the sun|sleeps in the sun|slept in the sun
build a tower|builds a tower|built a tower
find a key|finds a key|found a key
see a bird|sees a bird|saw a bird
swim in the lake|swims in the lake|swam in the lake
carry a basket|carries a basket|carried a basket
cook some soup|cooks some soup|cooked some soup
paint a picture|paints a picture|painted a picture
go home|goes home|went home""".splitlines()]

REPEATED = (
    "the a my our one every red blue green small large old new happy quiet bright fast "
    "slow cold warm cat dog fox bird fish horse tree house river mountain moon star boat "
    "train garden king robot cake apple bread sings sleeps runs jumps swims flies waits "
    "likes sees finds eats in on under over near with and very today here now hello world "
    "good morning night sun rain snow wind stone window door table chair book song"
).split()


def opposite(rng, lead=None):
    pair = rng.choice(OPPOSITES)
    x, y = pair if rng.random() < 0.5 and pair[1] not in ("short", "old", "light") else pair
    if rng.random() < 0.4 and sum(pair[1] in p for p in OPPOSITES) == 1:
        x, y = pair[1], pair[0]
    question = say(
        rng,
        (
            ["And of {x}?", "And {x}?"]
            if lead
            else [
                "[What is|What's] the opposite of {x}?",
                "Opposite of {x}?",
                "[Tell me|Give me|Name] the opposite of {x}.",
                "What is the opposite of the word {x}?",
            ]
        ),
        x=x,
    )
    return Exchange(question, f"The opposite of {x} is {y}.", cap(y), lambda r: opposite(r, True))


def plural(rng, lead=None):
    x, y = rng.choice(PLURALS)
    question = say(
        rng,
        (
            ["And of {x}?", "And {x}?"]
            if lead
            else [
                "[What is|What's] the plural of {x}?",
                "Plural of {x}?",
                "[Tell me|Give me] the plural of {x}.",
            ]
        ),
        x=x,
    )
    return Exchange(question, f"The plural of {x} is {y}.", cap(y), lambda r: plural(r, True))


def past(rng, lead=None):
    x, y = rng.choice(PASTS)
    question = say(
        rng,
        (
            ["And of {x}?", "And {x}?"]
            if lead
            else [
                "[What is|What's] the past tense of {x}?",
                "[What is|What's] the past of {x}?",
                "Give me the past tense of {x}.",
            ]
        ),
        x=x,
    )
    return Exchange(question, f"The past tense of {x} is {y}.", cap(y), lambda r: past(r, True))


def synonym(rng, lead=None):
    x, y = rng.choice(SYNONYMS)
    question = say(
        rng,
        (
            ["And for {x}?"]
            if lead
            else [
                "[What is|What's|Give me] another word for {x}?",
                "Find a word that means the same as {x}.",
                "What is a synonym [of|for] {x}?",
            ]
        ),
        x=x,
    )
    question = question.replace(
        "Give me another word for " + x + "?", "Give me another word for " + x + "."
    )
    return Exchange(question, f"Another word for {x} is {y}.", cap(y), lambda r: synonym(r, True))


def rhyme(rng, lead=None):
    words = rng.choice(RHYMES)
    x = rng.choice(words)
    y = next(w for w in words if w != x)
    question = say(
        rng,
        (
            ["And with {x}?"]
            if lead
            else [
                "What rhymes with {x}?",
                "[Which word|What word] rhymes with {x}?",
                "Find a rhyme for {x}.",
                "Give me a word that rhymes with {x}.",
            ]
        ),
        x=x,
    )
    return Exchange(question, f"{cap(y)} rhymes with {x}.", cap(y), lambda r: rhyme(r, True))


def spell(rng, lead=None):
    x = rng.choice(SPELLED)
    kind = rng.randrange(5)
    if kind <= 1:
        q = say(
            rng,
            (
                ["And {x}?"]
                if lead == "spell"
                else [
                    "[Spell|Please spell] the word {x}.",
                    "How do you spell {x}?",
                    "Spell {x}.",
                    "Can you spell {x}?",
                ]
            ),
            x=x,
        )
        return Exchange(q, "-".join(x), follow=lambda r: spell(r, None))
    if kind == 2:
        q = say(
            rng,
            [
                "How many letters [are in|does] {x}[| have]?",
                "How many letters are in the word {x}?",
            ],
            x=x,
        )
        q = q.replace("are in " + x + " have", "are in " + x)
        q = q.replace("does " + x + "?", "does " + x + " have?")
        return Exchange(
            q, f"The word {x} has {word(len(x))} letters: {'-'.join(x)}.", cap(word(len(x)))
        )
    if kind == 3:
        last = rng.random() < 0.4
        q = say(
            rng,
            ["[What is|What's] the {w} letter of {x}?", "[With|On] which letter does {x} {v}?"],
            w="last" if last else "first",
            v="end" if last else "begin",
            x=x,
        )
        letter = x[-1] if last else x[0]
        return Exchange(
            q, f"The {'last' if last else 'first'} letter of {x} is {letter}.", letter.upper()
        )
    q = say(
        rng,
        [
            "[Write|Put] {x} in [upper case|capital letters|capitals|uppercase].",
            "[Write|Put] the word {x} in [upper case|capital letters|capitals].",
            "Make {x} upper case.",
        ],
        x=x,
    )
    return Exchange(q, x.upper(), exact=True)


def _list_noun(kind):
    exception = {"fish": "fish", "seasons": "seasons"}
    return exception.get(kind, kind)


def listing(rng, lead=None):
    kind = rng.choice(sorted(world.LISTS))
    items = world.LISTS[kind].split()
    if kind == "oceans":
        items = [i + " Ocean" for i in items]
    n = min(rng.choice([2, 3, 3, 3, 4, 5, 5]), len(items))
    noun = _list_noun(kind)
    chosen = rng.sample(items, n)
    if rng.random() < 0.75:  # a usual order makes the likeliest answer a good one
        start = rng.randrange(max(1, len(items) - n + 1))
        chosen = items[start : start + n] if rng.random() < 0.5 else items[:n]
    number = word(n) if rng.random() < 0.75 else str(n)
    style = rng.random()
    if lead and style < 0.75:
        question = say(
            rng, ["And {n} {k}[?|.]", "Now {n} {k}[?|.]", "And now name {n} {k}."], n=number, k=noun
        )
        style = lead
    elif style < 0.6:
        question = say(
            rng,
            [
                "[Name|Tell me|Give me|Say] {n} {k}.",
                "Can you name {n} {k}?",
                "What are {n} {k}?",
                "Name {n} {k}, please.",
            ],
            n=number,
            k=noun,
        )
    elif style < 0.8:
        question = say(
            rng,
            [
                "[List|Write a list of|Make a list of|Give me a list of] {n} {k}.",
                "Write down {n} {k}.",
            ],
            n=number,
            k=noun,
        )
    elif style < 0.9:
        question = say(
            rng,
            [
                "[List|Name] {n} {k} [with numbers|in a numbered list].",
                "Make a numbered list of {n} {k}.",
            ],
            n=number,
            k=noun,
        )
    else:
        question = say(
            rng,
            [
                "[Name|List|Give me] {n} {k} as a JSON [array|list].",
                "Write a JSON array [of|with] {n} {k}.",
            ],
            n=number,
            k=noun,
        )
        return Exchange(question, json.dumps(chosen))
    if style < 0.6:
        answer = cap(join(chosen)) + "."
    elif style < 0.8:
        answer = "\n".join(f"- {item}" for item in chosen)
    else:
        answer = "\n".join(f"{i}. {item}" for i, item in enumerate(chosen, 1))
    return Exchange(question, answer, ", ".join(chosen), lambda r: listing(r, min(style, 0.85)))


def one_of(rng):
    kind = rng.choice(
        [
            k
            for k in sorted(world.LISTS)
            if k not in (
                "clothes",
                "fish",
                "sports",
                "oceans",
                "things in a kitchen",
                "things in a forest",
                "pieces of furniture",
                "countries",
            )
        ]
    )
    single = {"capitals": "capital", "body parts": "body part"}.get(kind, kind[:-1])
    single = single[:-2] + "y" if single.endswith("ie") else single
    item = rng.choice(world.LISTS[kind].split()[:4])
    q = say(rng, ["[Name|Tell me|Give me|Say] [a|one] {k}.", "Name any {k}."], k=single)
    if single[0] in "aeiou":
        q = q.replace(" a " + single, " an " + single)
    return Exchange(q, cap(item) + ".", cap(item))


def repeat(rng):
    words = rng.choices(REPEATED, k=rng.randint(1, 7))
    if rng.random() < 0.4:
        words = [invented(rng) if rng.random() < 0.5 else w for w in words]
    if rng.random() < 0.25:
        words[rng.randrange(len(words))] = rng.choice(world.NAMES)
    if rng.random() < 0.15:
        words.append(str(rng.randint(0, 999)))
    text = " ".join(words)
    if rng.random() < 0.4:
        text = cap(text) + rng.choice([".", "!", ""])
    kind = rng.random()
    if kind < 0.75:
        q = say(
            rng,
            [
                "[Repeat|Say|Write|Echo]: {t}",
                "Repeat after me: {t}",
                "[Repeat|Say|Write] this: {t}",
                "Repeat the words: {t}",
                '[Repeat|Say] "{t}"',
            ],
            t=text,
        )
        return Exchange(q, text, text, exact=True)
    x = rng.choice(REPEATED)
    n = rng.choice([2, 3, 3, 4, 5])
    q = say(
        rng,
        ["[Say|Write|Repeat] [the word |]{x} {n} times.", "Say {x} {n} times, please."],
        x=x,
        n=word(n),
    )
    return Exchange(q, " ".join([x] * n), exact=True)


def rewrite(rng):
    (subject, person), (base, third, before) = rng.choice(SUBJECTS), rng.choice(ACTIONS)
    present = f"{subject} {third if person == 3 else base}."
    low = subject if subject in ("I", "Anna", "Tom") else subject[0].lower() + subject[1:]
    kind = rng.randrange(6)
    if kind == 0:
        q = say(
            rng,
            [
                "[Put|Write] [this|the sentence] in[|to] the past[| tense]: {s}",
                "Past tense: {s}",
                "Rewrite in the past tense: {s}",
            ],
            s=present,
        )
        return Exchange(q, f"{subject} {before}.", exact=True)
    if kind == 1:
        q = say(
            rng,
            [
                "Make [this|it] a question: {s}",
                "Turn this into a question: {s}",
                "Make a question of: {s}",
                "Rewrite as a question: {s}",
            ],
            s=present,
        )
        return Exchange(q, f"{'Does' if person == 3 else 'Do'} {low} {base}?", exact=True)
    if kind == 2:
        q = say(
            rng,
            ["[Make this negative|Negate this|Say the opposite|Negate this sentence]: {s}"],
            s=present,
        )
        not_ = "does not" if person == 3 else "do not"
        return Exchange(q, f"{subject} {not_} {base}.", exact=True)
    if kind == 3:
        order = cap(base) + "."
        q = say(
            rng,
            ["[Make this polite|Say this politely|Rewrite this politely|Make it polite]: {s}"],
            s=order,
        )
        return Exchange(q, f"Could you {base}, please?", exact=True)
    if kind == 4:
        q = say(
            rng,
            ["[Put|Write] this in the future: {s}", "Rewrite in the future tense: {s}"],
            s=present,
        )
        return Exchange(q, f"{subject} will {base}.", exact=True)
    raw = present[0].lower() + present[1:-1] if subject != "I" else present[:-1]
    q = say(
        rng,
        ["[Correct|Fix|Correct this|Fix the sentence]: {s}", "Correct the spelling: {s}"],
        s=raw,
    )
    return Exchange(q, present, exact=True)


def reverse(rng):
    kind = rng.choice(["fruits", "animals", "colours", "tools", "vegetables", "drinks"])
    words = rng.sample(world.LISTS[kind].split(), rng.randint(2, 4))
    shown = ", ".join(words)
    which = rng.randrange(4)
    if which == 0:
        q = say(rng, ["[Reverse|Turn around] the list: {w}", "Reverse: {w}"], w=shown)
        return Exchange(q, ", ".join(reversed(words)), exact=True)
    if which == 1:
        q = say(
            rng,
            ["[Sort|Order] [these words|the words|alphabetically|by the alphabet]: {w}"],
            w=shown,
        )
        return Exchange(q, ", ".join(sorted(words)), exact=True)
    if which == 2:
        i = rng.randrange(len(words))
        q = say(
            rng,
            ["[What|Which] is the {o} word: {w}?", "Which word is the {o} one: {w}?"],
            o=world.ORDINALS[i],
            w=shown,
        )
        return Exchange(q, f"The {world.ORDINALS[i]} word is {words[i]}.", cap(words[i]))
    q = say(
        rng,
        [
            "[Write|Turn|Put] this [as|into] a JSON array: {w}",
            "As JSON: {w}",
            "Make a JSON array of: {w}",
        ],
        w=shown,
    )
    return Exchange(q, json.dumps(words), exact=True)


CITIES = [row[1] for row in world.COUNTRIES]


def json_object(rng):
    fields = {
        "name": rng.choice(world.NAMES),
        "age": rng.randint(5, 80),
        "city": rng.choice(CITIES[:40]),
        "colour": rng.choice(world.LISTS["colours"].split()),
        "animal": rng.choice(world.LISTS["animals"].split()),
        "country": cap(rng.choice(world.COUNTRIES)[0]),
        "price": rng.randint(1, 99),
        "count": rng.randint(0, 20),
        "title": "The Little " + cap(rng.choice("fox owl star boat bear house robot".split())),
        "id": rng.randint(1, 999),
        "fruit": rng.choice(world.LISTS["fruits"].split()),
        "done": rng.random() < 0.5,
    }
    keys = rng.choice(
        [["name", "age"]] * 4
        + [
            ["name", "city"],
            ["name", "age", "city"],
            ["animal", "colour"],
            ["fruit", "price"],
            ["title", "price"],
            ["id", "name"],
            ["country", "city"],
            ["name", "colour"],
            ["fruit", "count"],
            ["name", "done"],
        ]
    )
    if rng.random() < 0.25:
        keys = rng.sample(sorted(fields), rng.choice([1, 2, 3]))
    if "country" in keys and "city" in keys:
        row = rng.choice(world.COUNTRIES)
        fields["country"], fields["city"] = cap(row[0]), row[1]
    made = {k: fields[k] for k in keys}
    text = json.dumps(made, ensure_ascii=False)
    if rng.random() < 0.5 and keys[0] == "name" and set(keys) <= {"name", "age", "city"}:
        about = f"{made['name']}"
        if "age" in made:
            about += f" is {made['age']} years old"
        if "city" in made:
            about += (" and" if "age" in made else "") + f" lives in {made['city']}"
        q = say(
            rng,
            [
                "[Write|Turn|Put] this [as|into] JSON: {t}.",
                "As JSON: {t}.",
                "{t}. Write that as JSON.",
            ],
            t=about,
        )
        return Exchange(q, text, text, exact=True)
    q = say(
        rng,
        [
            "[Give me|Write|Make|Create] a JSON object with {k}.",
            "[Give me|Write] an example of a JSON object with {k}.",
            "[Give me|Write] JSON with the [keys|fields] {k}.",
            "Give me a JSON object with the [keys|fields] {k}.",
            "Answer with a JSON object that has {k}.",
        ],
        k=join(keys),
    )
    return Exchange(q, text, text)


def json_value(rng):
    name, age = rng.choice(world.NAMES), rng.randint(5, 80)
    city = rng.choice(CITIES[:40])
    text = json.dumps({"name": name, "age": age, "city": city}, ensure_ascii=False)
    key, answer = rng.choice(
        [
            ("name", f"The name is {name}."),
            ("age", f"The age is {age}."),
            ("city", f"The city is {city}."),
        ]
    )
    q = (
        say(
            rng,
            ["What is the {k} in this JSON: ", "Which {k} is in this object: ", "Read the {k}: "],
            k=key,
        )
        + text
    )
    return Exchange(q, answer, answer.split(" is ")[1].rstrip("."), exact=True)


def reading(rng):
    """A short text with a question about it."""
    one, two = rng.sample(world.NAMES, 2)
    animal = rng.choice("dog cat rabbit parrot horse hamster".split())
    pet = rng.choice("Rex Bella Coco Luna Milo Daisy Rocky Sunny Buddy Snow".split())
    colour = rng.choice(world.LISTS["colours"].split()[:8])
    city = rng.choice(CITIES[:40])
    job = rng.choice(world.LISTS["jobs"].split())
    fruit = rng.choice(world.LISTS["fruits"].split())
    facts = [
        (f"{one} lives in {city}.", f"Where does {one} live?", f"{one} lives in {city}."),
        (
            f"{one} has a {animal} called {pet}.",
            f"What is the {animal} called?",
            f"The {animal} is called {pet}.",
        ),
        (
            f"The car of {two} is {colour}.",
            f"What colour is the car of {two}?",
            f"The car of {two} is {colour}.",
        ),
        (f"{two} is a {job}.", f"What does {two} do?", f"{two} is a {job}."),
        (f"{two} likes {fruit} cake.", f"What does {two} like?", f"{two} likes {fruit} cake."),
        (
            f"{one} and {two} are friends.",
            f"Who is a friend of {one}?",
            f"{two} is a friend of {one}.",
        ),
    ]
    chosen = rng.sample(facts, rng.randint(2, 4))
    _, question, answer = rng.choice(chosen)
    text = " ".join(f[0] for f in chosen)
    lead = rng.choice(["", "", "Text: ", "Read this: "])
    rest = [f for f in chosen if f[1] != question]

    def more(r):
        f = r.choice(rest)
        return Exchange(f[1], f[2], exact=True)

    sep = "\n" if lead else " "
    return Exchange(f"{lead}{text}{sep}{question}", answer, follow=more, exact=True)


def translate(rng):
    """A very small phrase book."""
    table = {
        "French": (
            "hello/bonjour thank you/merci yes/oui no/non good night/bonne nuit "
            "water/eau cat/chat dog/chien bread/pain"
        ),
        "German": (
            "hello/hallo thank you/danke yes/ja no/nein good night/gute Nacht "
            "water/Wasser cat/Katze dog/Hund bread/Brot"
        ),
        "Spanish": (
            "hello/hola thank you/gracias yes/sí no/no good night/buenas noches "
            "water/agua cat/gato dog/perro bread/pan"
        ),
        "Italian": (
            "hello/ciao thank you/grazie yes/sì no/no good night/buona notte "
            "water/acqua cat/gatto dog/cane bread/pane"
        ),
    }
    tongue = rng.choice(sorted(table))
    english = ["hello", "thank you", "yes", "no", "good night", "water", "cat", "dog", "bread"]
    rest, found = table[tongue] + " ", {}
    for i, e in enumerate(english):
        start = rest.index(e + "/") + len(e) + 1
        end = rest.index(" " + english[i + 1] + "/") if i + 1 < len(english) else len(rest)
        found[e] = rest[start:end].strip()
    e = rng.choice(english)
    q = say(
        rng,
        [
            "How do you say {e} in {t}?",
            "[What is|What's] {e} in {t}?",
            "Translate {e} [to|into] {t}.",
            "What is the {t} word for {e}?",
        ],
        e=e,
        t=tongue,
    )
    return Exchange(q, f"{cap(e)} is {found[e]} in {tongue}.", cap(found[e]))


TOPICS = [
    (opposite, 4),
    (plural, 2.5),
    (past, 2.5),
    (synonym, 1.5),
    (rhyme, 1.5),
    (spell, 4),
    (listing, 9),
    (one_of, 2),
    (repeat, 8),
    (rewrite, 6),
    (reverse, 4),
    (json_object, 5),
    (json_value, 1.5),
    (reading, 5),
    (translate, 2),
]
