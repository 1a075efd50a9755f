"""Short stories: one hero, one place, one trouble, and how it ended."""

from .core import Exchange, a, cap, expand, invented, say
from .science import THINGS
from .world import NAMES

# hero, adjectives that suit it
HEROES = """fox rabbit mouse bear owl cat dog horse duck frog hedgehog squirrel wolf lion elephant
turtle sparrow penguin monkey bee snail sheep goat pig cow goose swan eagle deer kitten puppy
dragon robot knight princess prince king queen wizard witch giant pirate sailor farmer baker girl
boy teacher painter fisherman astronaut inventor gardener ghost star cloud snowman tree boat train
balloon tractor dinosaur butterfly crab dolphin whale bat parrot tiger giraffe zebra kangaroo koala
detective doctor child""".split()
NATURES = (
    "little brave clever kind shy curious lonely young old happy quiet small friendly "
    "lazy proud tired hungry funny"
).split()
FIRST = (
    "Tim Mia Leo Nora Max Luna Oscar Bella Felix Rosie Toby Lily Finn Daisy Hugo Ella Sam "
    "Poppy Otto Ruby Milo Ida Benny Clara Bruno Anna Pip Nell"
).split()
PLACES = [row.split("|") for row in """\
in a green forest|forest
near a quiet lake|lake
by the wide sea|sea
on a high mountain|mountain
in a small village|village
at the edge of a deep wood|wood
in an old house|house
on a little farm|farm
in a big town|town
on a small island|island
in a sunny valley|valley
beside a long river|river
in a wide meadow|meadow
behind an old mill|mill
in a garden full of flowers|garden""".splitlines()]
HELPERS = (
    "owl mouse bird turtle frog rabbit bee dog cat deer squirrel hedgehog sparrow duck "
    "butterfly snail"
).split()
TREASURES = [
    "golden key",
    "shiny stone",
    "red ball",
    "old map",
    "small bell",
    "silver coin",
    "warm blanket",
    "blue feather",
    "music box",
    "little lamp",
    "tiny drum",
    "green hat",
    "wooden boat",
    "paper kite",
    "story book",
    "glass marble",
]
FOODS = ["apples", "berries", "nuts", "plums", "pears", "cherries"]
WISHES = [
    "see the sea",
    "learn to sing",
    "find a friend",
    "touch a star",
    "learn to fly",
    "see the world",
    "build a house",
    "grow a garden",
    "hear a good story",
    "dance in the rain",
    "climb the high mountain",
    "learn to swim",
]

OPENINGS = [
    "Once upon a time there was {hero}{named}. {He} lived {place}.",
    "Once upon a time, {place}, there lived {hero}{named}.",
    "[Long ago|Many years ago|A long time ago] there was {hero}{named} who lived {place}.",
    "There once was {hero}{named}. {He} lived {place}.",
    "{Place} there lived {hero}{named}.",
]

PLOTS = {
    "lost": [
        [
            "One [morning|day|afternoon] {name} went for a walk to look for {food}.",
            "One day {name} walked farther from home than ever before.",
        ],
        [
            "Soon {he} [did not know|no longer knew] the way home, and it was getting dark.",
            "But when {he} looked around, {he} saw that {he} was lost.",
        ],
        ["{He} sat down under a tree and [began to cry|was very sad|did not know what to do]."],
        [
            'Then {helper} came by. "Why are you [so |]sad?" asked the {helpern}.',
            '"What is the matter?" asked {helper} that was passing by.',
        ],
        ['"I cannot find my way home," said {name}.'],
        [
            '"Come with me," said the {helpern}. "I know every path in this {spot}."',
            '"Do not worry," said the {helpern}. "I will show you the way."',
        ],
        [
            "Together they walked through the night until they saw the lights of home.",
            "They followed the [moon|stars|river] and came home before the morning.",
        ],
        [
            "{name} thanked the {helpern} and gave {ithelper} some {food}.",
            "{name} was so happy that {he} invited the {helpern} to supper.",
        ],
        [
            "From that day on they were [best friends|good friends].",
            "And from then on {name} was never lost again.",
        ],
    ],
    "treasure": [
        ["One day {name} found {treasure} [under a stone|in the grass|behind a tree|in the sand]."],
        ['"Whose is this?" {he} wondered.', '"How beautiful!" said {name}.'],
        [
            "{He} asked {helper}, but the {helpern} did not know.",
            '{He} showed it to {helper}. "It is not mine," said the {helpern}.',
        ],
        ["So {name} [went|walked] from door to door and asked everyone about it."],
        [
            "At last {he} met an old woman who was looking for something.",
            "In the evening {he} met an old man with sad eyes.",
        ],
        ['"My {treasuren}!" said the old one. "I thought that it was lost for ever."'],
        ["{name} gave it back at once[|, although {he} liked it very much]."],
        ['"Thank you," said the old one. "You have a good heart."'],
        ["And as a reward {name} got a basket of {food}, which {he} shared with the {helpern}."],
    ],
    "wish": [
        ["{name} had one great wish: to {wish}."],
        [
            '"You are too small for that," said the others.',
            "But nobody believed that it was possible.",
        ],
        [
            "Every day {name} tried, and every day it did not work.",
            "{He} tried once, {he} tried twice, and {he} tried again.",
        ],
        [
            'One evening {helper} saw it and said: "You must not give up. I will help you."',
            'Then {helper} came and said: "Let us try it together."',
        ],
        ["They worked [all night|all week|until the sun came up].", "Together they made a plan."],
        [
            "And at last the day came: {name} could {wish}!",
            "And one fine morning the wish came true: {name} could {wish}.",
        ],
        ["All the others [clapped and cheered|could hardly believe their eyes]."],
        [
            '"You see," said the {helpern}, "a friend makes hard things easy."',
            '{name} smiled. "I could not have done it alone," {he} said.',
        ],
    ],
    "storm": [
        ["One night a great storm came. The wind [howled|roared], and the rain fell for hours."],
        ["{name} was [safe and warm|at home], but then {he} heard a small voice outside."],
        ['It was {helper}, wet and cold. "My home is gone," said the {helpern}.'],
        ['"Come in quickly," said {name}. "There is room for two."'],
        ["{He} made a fire and gave the {helpern} some {food}."],
        ["In the morning the sun was shining again."],
        ["Together they built a new home for the {helpern}, [stone by stone|right next door]."],
        ["Since then {name} has had a good neighbour, and neither of them is afraid of storms."],
    ],
    "race": [
        [
            "Every [summer|spring|year] there was a great race for everyone who lived near the"
            " {spot}."
        ],
        [
            "{name} wanted to win, but {he} was not very fast.",
            '"This time I will win," said {name}.',
        ],
        ["The race began. All the others ran ahead, and {name} was the last."],
        ["Halfway {he} saw {helper} that had fallen and could not get up."],
        ["The others had just run past. But {name} stopped and helped the {helpern} up."],
        ["They came to the end together, long after all the others."],
        [
            "{name} did not win the race. But everyone cheered for {him} the loudest.",
            "{name} had lost the race, but {he} had won a friend.",
        ],
        ['"That is the best prize of all," said {name}.'],
    ],
    "share": [
        ["One autumn {name} had gathered many {food} for the winter."],
        [
            'Then came {helper} that had nothing to eat. "Could you give me some?" asked the '
            "{helpern}."
        ],
        ['At first {name} thought: "What if there is not enough for me?"'],
        ["But {he} saw how thin the {helpern} was, and {he} shared everything."],
        [
            "The winter was long and cold, and the {food} were soon gone.",
            "It was a hard winter, and in the end nothing was left.",
        ],
        ["But the {helpern} knew a secret place where there was more food."],
        ['"You shared with me, and now I share with you," said the {helpern}.'],
        [
            "So both of them came well through the winter, and in spring they [sang|danced]"
            " together."
        ],
    ],
    "afraid": [
        ["{name} was afraid of [the dark|deep water|loud noises|thunder|everything new]."],
        [
            "The others laughed, and so {he} stayed at home when they went out to play.",
            "{He} told nobody, because {he} thought that the others would laugh.",
        ],
        [
            "One evening {he} heard somebody call for help. It was {helper} that had fallen into a "
            "hole."
        ],
        ["{Names} heart beat fast. There was nobody else to help."],
        ['"I am afraid," said {name} to {himself}, "but I will go."'],
        ["{He} took a long rope, went out, and pulled the {helpern} up."],
        ['"You are the bravest of all," said the {helpern}.'],
        [
            '"I was afraid the whole time," said {name}. "That is what being brave means," said '
            "the {helpern}."
        ],
    ],
    "quarrel": [
        ["{name} had a good friend, {helper}. They played together every day."],
        ["But one day both of them wanted to have {treasure} that they had found."],
        ['"It is mine!" said {name}. "No, it is mine!" said the {helpern}.'],
        [
            "They pulled and pulled, until the {treasuren} fell into the water and was gone.",
            "They shouted until both of them went home angry.",
        ],
        ["That evening {name} could not sleep. {He} missed {his} friend."],
        ['The next morning {he} went to the {helpern}. "I am sorry," said {name}.'],
        ['"I am sorry too," said the {helpern}. "Nothing is worth more than a friend."'],
        ["They laughed, ate some {food}, and were friends again."],
    ],
    "seed": [
        ["In spring {name} planted a tiny seed and gave it water every day."],
        ["A week went by, and nothing happened. Two weeks went by, and still there was nothing."],
        ['"You are wasting your time," said {helper}.'],
        ["But {name} was patient. {He} watered the seed and sang to it."],
        ["Then, one bright morning, a small green leaf came out of the ground."],
        [
            "It grew and grew, until it was a tall tree full of {food}.",
            (
                "It grew higher than the house, and in autumn it carried more {food} than anyone"
                " could eat."
            ),
        ],
        ["{name} gave some to everyone, even to the {helpern}."],
        ['"Good things take time," said {name}[| and smiled].'],
    ],
}

ENDINGS = [
    "",
    "",
    "",
    "And they lived happily ever after.",
    "The end.",
    "And if they have not moved away, they still live there today.",
]

PEOPLE = set(
    "knight princess prince king queen wizard witch giant pirate sailor farmer baker girl "
    "boy teacher painter fisherman astronaut inventor gardener detective doctor "
    "child".split()
)
SHE = {"princess", "queen", "witch", "girl"}
WOMEN = set(
    "Mia Nora Luna Bella Rosie Lily Daisy Ella Poppy Ruby Ida Clara Anna Nell Emma Grace "
    "Kate Olivia Rosa Sara Tina Lucy Nina Eva Julia Lena Maria Alice Carol Gina Hannah "
    "Jane Laura Pia Sophie Vera Zoe Fatima Yuki Ines Ada Mary Rachel Susan".split()
)
HE = {"prince", "king", "wizard", "boy", "knight", "pirate", "fisherman"}


def any_hero(rng):
    kind = rng.random()
    if kind < 0.14:
        return rng.choice(THINGS)[0]
    return invented(rng) if kind < 0.2 else rng.choice(HEROES)


def story(rng, hero=None, name=None, nature=None, plot=None, place=None):
    hero = hero or rng.choice(HEROES)
    helper = rng.choice([h for h in HELPERS if h != hero])
    if nature is None and rng.random() < 0.75:
        nature = rng.choice(NATURES)
    called = name or (rng.choice(FIRST) if rng.random() < 0.55 else None)
    if called in WOMEN:
        he = "she"
    elif called:
        he = "he"
    elif hero in SHE:
        he = "she"
    else:
        he = "he" if hero in HE else "it" if hero not in PEOPLE else rng.choice(["he", "she"])
    if hero in SHE:
        he = "she"
    if hero in HE:
        he = "he"
    him = {"he": "him", "she": "her", "it": "it"}[he]
    his = {"he": "his", "she": "her", "it": "its"}[he]
    where, spot = place or rng.choice(PLACES)
    treasure = rng.choice(TREASURES)
    noun = f"{nature} {hero}" if nature else hero
    short = called or f"the {hero}"
    slots = {
        "hero": a(noun),
        "named": f" {rng.choice(['called', 'named'])} {called}" if called else "",
        "name": short,
        "Names": cap(short) + "'s",
        "he": he,
        "He": cap(he),
        "him": him,
        "his": his,
        "himself": {"he": "himself", "she": "herself", "it": "itself"}[he],
        "place": where,
        "Place": cap(where),
        "spot": spot,
        "helper": a(helper),
        "helpern": helper,
        "ithelper": "it",
        "treasure": a(treasure),
        "treasuren": treasure,
        "food": rng.choice(FOODS),
        "wish": rng.choice(WISHES),
    }
    lines = [say(rng, OPENINGS, **slots)]
    kind = plot or rng.choice(sorted(PLOTS))
    for choices in PLOTS[kind]:
        line = say(rng, choices, **slots)
        lines.append(cap(line))
    end = rng.choice(ENDINGS)
    if end:
        lines.append(end)
    if len(lines) > 7 and rng.random() < 0.5:
        return " ".join(lines[:4]) + "\n\n" + " ".join(lines[4:])
    return " ".join(lines)


SHORT = [
    (
        "{Hero} {named} lived {place}. One day {he} found {treasure} and gave it to {helper}. The "
        "{helpern} was so happy that they became friends."
    ),
    (
        "Once upon a time {hero} {named} wanted to {wish}. It was hard, but {helper} helped. In the"
        " end {he} did it, and everyone was happy."
    ),
    (
        "{Hero} {named} was lost {place}. {Helper} showed {him} the way home, and since then they"
        " have been friends."
    ),
]


def short_story(rng, hero=None, name=None, nature=None):
    hero = hero or rng.choice(HEROES)
    name = name or rng.choice(FIRST)
    helper = rng.choice([h for h in HELPERS if h != hero])
    female = (name in WOMEN or hero in SHE) and hero not in HE
    noun = f"{nature} {hero}" if nature else hero
    slots = {
        "hero": a(noun),
        "Hero": cap(a(noun)),
        "named": f"named {name}",
        "he": "she" if female else "he",
        "him": "her" if female else "him",
        "place": rng.choice(PLACES)[0],
        "treasure": a(rng.choice(TREASURES)),
        "helper": a(helper),
        "Helper": cap(a(helper)),
        "helpern": helper,
        "wish": rng.choice(WISHES),
    }
    return say(rng, SHORT, **slots)


TITLED = {
    "lost": "being lost",
    "treasure": "a treasure",
    "wish": "a great wish",
    "storm": "a storm",
    "race": "a race",
    "share": "sharing",
    "afraid": "being brave",
    "quarrel": "two friends",
    "seed": "a seed",
}


def story_request(rng, lead=None):
    hero = any_hero(rng)
    nature = rng.choice(NATURES) if rng.random() < 0.35 else None
    name = rng.choice(FIRST + list(NAMES)) if rng.random() < 0.25 else None
    if name and rng.random() < 0.1:
        name = cap(invented(rng))
    kind = rng.random()
    noun = f"{nature} {hero}" if nature else hero
    who = a(noun) + (f" {rng.choice(['named', 'called'])} {name}" if name else "")

    def follow(r):
        return story_request(r, True)

    if lead:
        q = say(
            rng,
            [
                "[Now|And] [one|a story] about {h}[.|, please.]",
                "And about {h}?",
                "[Another one|Now another], about {h}.",
            ],
            h=who,
        )
        return Exchange(q, story(rng, hero, name, nature), follow=follow, exact=bool(name))
    if kind < 0.55:
        q = say(
            rng,
            [
                "[Tell me|Write|Can you tell me|Write me] a story about {h}.",
                "[Tell|Make up|Invent] a story about {h}.",
                "A story about {h}, please.",
                "I want a story about {h}.",
                "Write a [fairy tale|tale] about {h}.",
            ],
            h=who,
        )
        return Exchange(q, story(rng, hero, name, nature), follow=follow, exact=bool(name))
    if kind < 0.72:
        q = say(
            rng,
            [
                "[Tell me|Write] a [very |]short story about {h}.",
                "[Tell me|Write] a story about {h} in [three|a few] sentences.",
            ],
            h=who,
        )
        return Exchange(q, short_story(rng, hero, name, nature), follow=follow, exact=bool(name))
    if kind < 0.85:
        q = expand(
            rng,
            "[Tell me a story|Tell me a story please|Can you tell me a story|I want to "
            "hear a story|Write a story|Tell me a bedtime story|Tell me a fairy tale|"
            "Once more, a story]",
        )
        return Exchange(q + rng.choice([".", ".", "!"]), story(rng), follow=follow)
    if kind < 0.93:
        plot = rng.choice(sorted(TITLED))
        q = say(rng, "[Tell me|Write] a story about {t}.", t=TITLED[plot])
        return Exchange(q, story(rng, plot=plot), follow=follow)
    place = rng.choice(PLACES)
    q = say(rng, "[Tell me|Write] a story about {h} {p}.", h=who, p=place[0])
    return Exchange(q, story(rng, hero, name, nature, place=place), follow=follow, exact=bool(name))


def continue_story(rng):
    text = story(rng).replace("\n\n", " ")
    cut = text.index(". ") + 1
    if rng.random() < 0.5 and ". " in text[cut + 1 :]:
        cut = text.index(". ", cut + 1) + 1
    q = (
        say(rng, ["[Continue|Go on with|Finish] [this|the] story: ", "How does this story go on? "])
        + text[:cut]
    )
    return Exchange(q, text[cut:].strip(), exact=True)


POEMS = {
    "the sea": [
        "The sea is wide, the sea is deep,\nit sings the little boats to sleep.",
        "The waves come in, the waves go out,\nthe gulls above them cry and shout.",
    ],
    "the moon": ["The moon looks down with silver light\nand keeps us company at night."],
    "the sun": ["The sun gets up, the day is new,\nit dries the grass and drinks the dew."],
    "winter": ["The snow falls softly, white and deep,\nand all the fields are fast asleep."],
    "spring": ["The snow is gone, the grass is green,\nthe brightest flowers can be seen."],
    "summer": ["The days are long, the sun is high,\nand swallows dance across the sky."],
    "autumn": [
        "The leaves turn red, the leaves turn gold,\nthe wind is fresh, the nights are cold."
    ],
    "rain": ["The rain is falling on the street,\nit makes small rivers at my feet."],
    "a cat": ["The cat is sleeping in the sun,\nfor her the day has just begun."],
    "a dog": ["The dog is waiting at the door,\nhe wants to run outside once more."],
    "a friend": ["A friend is someone who is there\nwith time to laugh and time to share."],
    "a tree": ["The tree stands tall, the tree stands still,\nit watches from the quiet hill."],
    "a bird": ["A bird sat singing in a tree,\nand all its songs were there for me."],
    "the night": ["The night is dark, the stars are bright,\nsleep well until the morning light."],
    "home": ["However far I go and roam,\nthe shortest way is always home."],
    "a computer": ["It counts and counts both night and day\nand never asks to go and play."],
    "love": ["My heart is light, my heart is new,\nbecause it always thinks of you."],
    "music": ["A little song, a little drum,\nand all the people dance and hum."],
    "a star": ["A little star, so far, so bright,\nis shining through the quiet night."],
    "snow": ["The snow comes down without a sound\nand puts a blanket on the ground."],
}


def poem(rng, lead=None):
    subject = rng.choice(sorted(POEMS))
    q = say(
        rng,
        (
            ["And about {s}?", "Now one about {s}."]
            if lead
            else [
                "[Write|Tell me|Make] a [short |]poem about {s}.",
                "[Write|Give me] a rhyme about {s}.",
                "Can you write a poem about {s}?",
                "A poem about {s}, please.",
            ]
        ),
        s=subject,
    )
    return Exchange(q, rng.choice(POEMS[subject]), follow=lambda r: poem(r, True))


TOPICS = [(story_request, 10), (continue_story, 2), (poem, 3)]
