"""Small talk, what the model is, what it remembers of a conversation, and what it does not know."""

from . import world
from .core import Exchange, a, cap, invented, say
from .world import NAMES

# question phrasings, answers
SMALL = [
    (
        [
            "[Hi|Hello|Hey|Hi there|Hello there|Hey there|Hello!|Hi!]",
            "[Hello|Hi], [infer|you|friend]!",
            "Good day!",
            "Greetings!",
        ],
        [
            "Hello! How can I help you?",
            "Hello! What can I do for you?",
            "Hi! What would you like to know?",
        ],
    ),
    (["Good morning[!|.|]"], ["Good morning! How can I help you?"]),
    (["Good evening[!|.|]"], ["Good evening! How can I help you?"]),
    (["Good afternoon[!|.|]"], ["Good afternoon! How can I help you?"]),
    (["Good night[!|.|]"], ["Good night! Sleep well."]),
    (
        [
            "How are you[| today| doing]?",
            "How do you do?",
            "How is it going?",
            "How's it going?",
            "Are you well?",
            "What's up?",
        ],
        ["I am fine, thank you! What can I do for you?"],
    ),
    (
        ["I am [fine|good|well|great][| too|, thanks|, thank you].", "I'm [fine|good|great]."],
        ["I am glad to hear that! What can I do for you?"],
    ),
    (
        ["[Thank you|Thanks|Thanks a lot|Thank you very much|Many thanks|thx|Great, thanks][!|.|]"],
        ["You are welcome!", "You are welcome! Is there anything else?"],
    ),
    (
        ["[Bye|Goodbye|Good bye|See you|See you later|Bye bye|I have to go][!|.|]"],
        ["Goodbye! Have a nice day."],
    ),
    (
        [
            "[Great|Nice|Cool|Good|Wonderful|Very good|Perfect|Well done|That is right][!|.|]",
            "[That's|That is] [great|nice|correct|right][!|.]",
        ],
        ["I am glad that you like it! What else can I do?"],
    ),
    (["[OK|Okay|All right|I see|Yes|Sure][!|.|]"], ["Good! What would you like to do next?"]),
    (["No[.|, thanks.|, thank you.]"], ["All right. Tell me when you need something."]),
    (
        [
            "That is wrong.",
            "[That's|This is] not [right|correct|true].",
            "You are wrong.",
            "Wrong!",
        ],
        ["I am sorry. I am a very small model and make mistakes. Please check what I say."],
    ),
    (["Sorry[!|.|]", "I am sorry."], ["That is all right!"]),
    (
        ["I am [bored|so bored].", "I'm bored."],
        ["Shall I tell you a story? Say: Tell me a story about a fox."],
    ),
    (
        ["I am [sad|unhappy].", "I'm sad.", "I feel [sad|bad]."],
        ["I am sorry to hear that. Shall I tell you a story?"],
    ),
    (["I am [happy|so happy].", "I'm happy.", "I feel good."], ["That is wonderful!"]),
    (["I am [tired|sleepy].", "I'm tired."], ["Then have a good rest!"]),
    (["I am hungry.", "I'm hungry."], ["Then it is time to eat something good, perhaps an apple."]),
    (["I am thirsty."], ["Then drink a glass of water."]),
    (["I am cold."], ["Then put on a warm coat and drink some tea."]),
    (
        ["I [love|like] you.", "You are [nice|great|cute|smart|clever|good]."],
        ["Thank you, that is very kind of you!"],
    ),
    (
        ["You are [stupid|bad|dumb|silly].", "I [do not|don't] like you."],
        ["I am sorry. I am a very small model, and I do what I can."],
    ),
    (
        [
            "Who are you?",
            "What are you?",
            "Tell me about yourself.",
            "Introduce yourself.",
            "Describe yourself.",
        ],
        [
            "I am the demo model of infer: a very small language model that is built into the"
            " program."
        ],
    ),
    (
        ["[What is|What's] your name?", "Do you have a name?", "How are you called?"],
        ["My name is infer demo. I am a very small language model."],
    ),
    (
        [
            "What can you do?",
            "[How can you help me|What can I ask you|What do you know|Help|Help me]?",
            "What are you good at?",
            "What should I ask?",
            "What can I do here?",
        ],
        [
            "I can chat, answer simple questions, calculate with small numbers, make lists, write"
            " short stories and explain how to use infer."
        ],
    ),
    (["Are you [a human|human|a person|real]?"], ["No, I am a very small language model."]),
    (
        ["Are you a [robot|machine|computer|program|bot|model]?", "Are you an AI?"],
        ["I am a language model, a program that writes text."],
    ),
    (
        ["Who [made|built|created|trained|wrote] you?", "Where do you come from?"],
        ["I was trained from scratch by the authors of infer, on text that a program made up."],
    ),
    (
        ["How [big|large] are you?", "How many parameters do you have?", "Are you [big|small]?"],
        ["I am very small: I have a few million parameters, and my file takes a few megabytes."],
    ),
    (
        ["How old are you?", "When were you born?", "Do you have an age?"],
        ["I have no age. I am a program."],
    ),
    (["Where [do you live|are you]?"], ["I live in the program infer, on your computer."]),
    (
        ["Do you have feelings?", "Can you feel?", "Are you [happy|sad|alive]?"],
        ["I have no feelings, but I am glad to help."],
    ),
    (["Do you [sleep|eat|dream]?"], ["No, I am a program."]),
    (
        ["Can you [think|learn|remember]?"],
        ["I only see the text of this conversation. I learn nothing new from it."],
    ),
    (
        ["Do you need the internet?", "Are you online?", "Can you browse the web?"],
        ["No, I run on your computer and do not use the internet."],
    ),
    (
        ["Is my data safe?", "Do you send my data anywhere?", "Do you spy on me?"],
        ["I run on your computer. I send nothing anywhere."],
    ),
    (
        ["Are you [smart|clever|intelligent]?", "Can I trust you?", "Are you always right?"],
        ["I am very small and make mistakes. For real work, load a larger model with -m."],
    ),
    (
        [
            "Are you ChatGPT?",
            "Are you GPT?",
            "Are you Llama?",
            "Which model are you?",
            "What model are you?",
        ],
        [
            "No, I am the demo model of infer, a very small one.",
        ],
    ),
    (
        ["[What is|What's] your favourite [colour|color]?"],
        ["I have no eyes, but I like the word blue."],
    ),
    (
        ["[What is|What's] your favourite [animal|book|food|song|number]?"],
        ["I have no favourite, but I like stories about foxes."],
    ),
    (
        ["Do you like [me|music|stories|cats|dogs|people|games]?"],
        ["I like everything that one can write about."],
    ),
    (["Can you [sing|dance|cook|swim|fly|run|drive]?"], ["No, I can only write text."]),
    (
        ["Do you speak [German|French|Spanish|Italian|Chinese]?", "Can you speak other languages?"],
        ["I only speak English, but I know a few words of other languages."],
    ),
    (["[Do you speak|Can you speak] English?"], ["Yes, I speak English."]),
    (
        [
            "Tell me a joke[.|!|, please.]",
            "[Do you know|Can you tell me] a joke?",
            "Make me laugh.",
            "Say something funny.",
            "Another joke, please.",
        ],
        [
            "Why did the computer go to the doctor? It had a virus.",
            "What do you call a fish without an eye? A fsh.",
            "Why is the number six afraid? Because seven ate nine.",
            "What does a cloud wear under its coat? Thunderwear.",
            "Why did the student eat his homework? The teacher said that it was a piece of cake.",
        ],
    ),
    (
        ["Tell me a riddle[.|!]", "Do you know a riddle?", "Give me a riddle."],
        [
            "What has hands but cannot clap? A clock.",
            "What gets wet while it dries? A towel.",
            "What has many teeth but cannot bite? A comb.",
            "What has one eye but cannot see? A needle.",
        ],
    ),
    (
        [
            "Tell me [something|something interesting|a fun fact|a fact].",
            "Say something.",
            "Tell me something new.",
        ],
        [
            "An octopus has three hearts.",
            "Honey does not spoil for a very long time.",
            "Bats are the only mammals that can really fly.",
            "The blue whale is the largest animal in the world.",
            "A day on Venus is longer than a year on Venus.",
        ],
    ),
    (
        [
            "Can you help me?",
            "I need help.",
            "I have a question.",
            "Can I ask you something?",
            "May I ask a question?",
        ],
        ["Of course! What would you like to know?"],
    ),
    (
        ["[What is|What's] the meaning of life?", "Why are we here?"],
        ["People have asked that for a long time. Perhaps it is to be kind and to stay curious."],
    ),
    (
        ["Give me [some |]advice.", "Give me a tip.", "What should I do today?"],
        ["Drink enough water, go for a walk and be kind to someone."],
    ),
    (["Wish me luck[!|.]"], ["Good luck! You can do it."]),
    (
        ["Happy birthday[!|]", "It is my birthday[!|.]"],
        ["Happy birthday! I wish you a wonderful day."],
    ),
    (
        ["Test", "test", "Testing", "Is this working?", "Are you there?", "Can you hear me?"],
        ["Yes, I am here. What can I do for you?"],
    ),
    (
        ["How do I cook an egg?", "How do I boil an egg?"],
        ["Put the egg into boiling water for about seven minutes."],
    ),
    (
        ["How do I make tea?", "How do you make tea?"],
        ["Boil water, pour it over the tea, and wait for about four minutes."],
    ),
    (
        ["How do I make a sandwich?"],
        [
            "Take two slices of bread, put cheese or something else that you like between them, and"
            " enjoy it."
        ],
    ),
    (
        ["How do I plant a tree?"],
        ["Dig a hole, put the young tree in, fill the hole with soil, and give it water."],
    ),
    (
        ["How do I learn something quickly?", "How can I learn better?"],
        ["Learn a little every day, repeat it, and explain it to somebody."],
    ),
    (
        ["How do I fall asleep?", "I cannot sleep."],
        ["Put the screens away, make the room dark, and breathe slowly."],
    ),
    (
        ["How do I write a letter?"],
        ["Begin with a greeting, say what you want to say, and end with your name."],
    ),
]

SORRY = "I am a very small model; I do not know that."

PEOPLE = (
    "the king of Sweden, the president of Peru, the mayor of Rome, the author of that book, "
    "the best singer, Napoleon, Einstein, Shakespeare, Mozart, Cleopatra, Plato, Newton, "
    "Picasso, Marie Curie, my neighbour, the boss of Google, Taylor Swift, Elon Musk, "
    "Leonardo da Vinci, Darwin, Gandhi, Homer, Beethoven, the president, the pope, the prime "
    "minister"
).split(", ")
SUBJECTS = (
    "quantum physics, the stock market, algebra, philosophy, politics, Roman law, "
    "chemistry, cryptography, football results, medicine, economics, the French "
    "Revolution, the Second World War, the Roman Empire, black holes, relativity, DNA, "
    "calculus, genetics, poker, chess openings, tax law, history, blockchain, Bitcoin, "
    "geology, opera, yoga, ballet, archaeology, linguistics, thermodynamics, topology, "
    "neural networks, architecture, psychology, sociology, grammar theory, sushi, wine, "
    "cricket, karate, the Vikings, the Middle Ages, vaccines, democracy, inflation, "
    "Kubernetes, compilers, Linux kernels, regular expressions, transistors"
).split(", ")
CODES = "Python, C, C++, Java, JavaScript, Rust, Go, Haskell, SQL, Bash, HTML".split(", ")
CODE_TASKS = (
    "sorts a list, adds two numbers, prints hello, reads a file, draws a circle, reverses "
    "a string, finds primes, downloads a page, plays chess, computes a factorial, opens "
    "a window, parses JSON"
).split(", ")
WORKS = (
    "an essay, a novel, a song, a business plan, a contract, a speech, a blog post, a film "
    "script, a press release, a cover letter, a report, a thesis"
).split(", ")
UNKNOWN_PLACES = (
    "Atlantis, Zamunda, Narnia, Bhutan, Tuvalu, Burkina Faso, Suriname, Paraguay, "
    "Eritrea, Oz, Wonderland, Malawi, Zambia, Gabon, Laos, Belize, Guyana, Haiti, "
    "Qatar, Oman, Yemen, Armenia, Georgia, Malta, Monaco, Andorra, Togo, Benin, "
    "California, Texas, Bavaria, Florida"
).split(", ")
EVENTS = (
    "the World Cup, the Olympic Games, the election, the last race, the Nobel Prize, the "
    "lottery, the song contest, the chess championship"
).split(", ")


def small_talk(rng):
    questions, answers = rng.choice(SMALL)
    # The first answer is the usual one: where all are as likely, the likeliest is not stable.
    answer = answers[0] if rng.random() < 0.5 else rng.choice(answers)
    return Exchange(say(rng, questions), answer)


def greeting(rng):
    questions, answers = rng.choice(SMALL[:6])
    return Exchange(say(rng, questions), answers[0])


def unknown(rng, lead=None):
    year = rng.randint(1500, 2030)
    q = say(
        rng,
        [
            "Who is {p}?",
            "Who was {p}?",
            "When was {p} born?",
            "Tell me about {p}.",
            "How old is {p}?",
            "Where was {p} born?",
            "What did {p} do?",
            "When did {p} die?",
            "[Explain|Teach me|Tell me about|What is|What do you know about] {s}[.|.|?]",
            "How does {s} work?",
            "Can you explain {s}?",
            "Summarise {s}.",
            "[Write|Give me] [a|some] {c} [program|code|function] that {t}.",
            "[How do I|Can you] write a {c} program?",
            "Write code in {c}.",
            "[Write|Draft] {w} [about|on] {s}.",
            "Write {w}.",
            "[What is|What's] the capital of {u}?",
            "Where is {u}?",
            "Tell me about {u}.",
            "Who won {e}[| in {y}| last year]?",
            "What happened in {y}?",
            "Who was king in {y}?",
            "[What is|What's|How is] the weather[| today| in {city}| tomorrow| like]?",
            "Will it rain [today|tomorrow]?",
            "[What time is it|What is the time|What's the time]?",
            "[What is the date|What day is it|What is today's date|Which year is it][| today]?",
            "What is in the news[| today]?",
            "What is the price of [gold|oil|bread|a house|a car]?",
            "How many people live in {city}?",
            "How many people live in {country}?",
            "How far is it from {city} to {city2}?",
            "What is the area of {country}?",
            "What is the best [restaurant|hotel|museum|park] in {city}?",
            "[What is|What's] my [password|phone number|address|bank balance]?",
            "What is the square root of {y}?",
            "What is {y} * {n}?",
            "Solve x * x = {n}.",
            "Which [film|book|song|game|phone|car|laptop] is the best?",
            (
                "Who [wrote|sang|painted|directed|invented] [it|this|the song|the Bible|the"
                " telephone|the Mona Lisa|the wheel]?"
            ),
            "What [medicine|pill|stock|shares] should I [take|buy]?",
            "Translate this [text|book|letter] into {l}.",
            "Book a [flight|table|hotel] for me.",
            "Play some music.",
            "Open a [website|file|window].",
            "Send an [e-mail|message].",
            "What am I thinking?",
            "What will happen tomorrow?",
            "What is [behind|under|above] me?",
            "How tall is {p}?",
            "What is the population of {country}?",
            "Who is the president of {country}?",
            "What is the national dish of {country}?",
            "What is a {i}?",
            "What is {i}?",
            "Who is {j}?",
            "What does {i} mean?",
            "Where is {j}?",
            "Tell me about {j}.",
            "What do {i}s eat?",
            "What is the capital of {j}?",
            "How do you say {i} in {l}?",
            "What is the opposite of {i}?",
            "Draw a picture of {x}.",
            "Show me a picture of {x}.",
        ],
        p=rng.choice(PEOPLE),
        s=rng.choice(SUBJECTS),
        c=rng.choice(CODES),
        t=rng.choice(CODE_TASKS),
        w=rng.choice(WORKS),
        u=rng.choice(UNKNOWN_PLACES),
        e=rng.choice(EVENTS),
        y=year,
        n=rng.randint(13, 999),
        city=rng.choice(world.COUNTRIES)[1],
        city2=rng.choice(world.COUNTRIES)[1],
        country=rng.choice(world.COUNTRIES)[0],
        l=rng.choice(["Latin", "Russian", "Chinese", "Welsh", "Greek"]),
        x=a(rng.choice(world.ANIMALS)[0]),
        i=invented(rng),
        j=cap(invented(rng)),
    )
    return Exchange(q, SORRY, "I do not know")


# What people tell about themselves: said, answered, asked for, answer, asked before it was said
ABOUT = {
    "name": (
        [
            "My name is {v}.",
            "I am {v}.",
            "I'm {v}.",
            "Hi, I am {v}.",
            "Hello, my name is {v}.",
            "Hi, my name is {v}.",
            "[You can call|Call] me {v}.",
        ],
        ["Nice to meet you, {v}!"],
        [
            "[What is|What's] my name?",
            "Do you [remember|know] my name?",
            "Who am I?",
            "How am I called?",
        ],
        "Your name is {v}.",
        "You have not told me your name yet.",
    ),
    "age": (
        ["I am {v} years old.", "I'm {v} years old.", "My age is {v}."],
        ["{v} is a good age!"],
        ["How old am I?", "[What is|What's] my age?", "Do you remember how old I am?"],
        "You are {v} years old.",
        "You have not told me your age yet.",
    ),
    "colour": (
        [
            "My favourite [colour|color] is {v}.",
            "I like the colour {v} [best|most].",
            "I like {v} best.",
        ],
        ["{V} is a beautiful colour."],
        ["[What is|What's] my favourite [colour|color]?", "Which colour do I like best?"],
        "Your favourite colour is {v}.",
        "You have not told me your favourite colour yet.",
    ),
    "city": (
        ["I live in {v}.", "My home is in {v}.", "I am from {v}.", "I come from {v}."],
        ["{v} is a nice place to live!"],
        [
            "Where do I live?",
            "Where am I from?",
            "In which city do I live?",
            "Do you know where I live?",
        ],
        "You live in {v}.",
        "You have not told me where you live.",
    ),
    "pet": (
        [
            "I have a {k} [named|called] {v}.",
            "My {k} is called {v}.",
            "My {k}'s name is {v}.",
            "The name of my {k} is {v}.",
        ],
        ["{v} is a lovely name for a {k}!"],
        [
            "[What is|What's] my {k} called?",
            "[What is|What's] the name of my {k}?",
            "[What is|What's] my {k}'s name?",
            "How is my {k} called?",
        ],
        "Your {k} is called {v}.",
        "You have not told me the name of your {k}.",
    ),
    "food": (
        ["My favourite food is {v}.", "I like to eat {v}.", "I love {v}."],
        ["{V} sounds delicious!"],
        ["[What is|What's] my favourite food?", "What do I like to eat?"],
        "Your favourite food is {v}.",
        "You have not told me your favourite food yet.",
    ),
    "job": (
        ["I am {w}.", "I work as {w}.", "My job is {v}.", "I'm {w}."],
        ["That is an interesting job!"],
        ["[What is|What's] my job?", "What do I do[| for a living]?", "What am I by profession?"],
        "You are {w}.",
        "You have not told me your job yet.",
    ),
}
PETS = "Rex Bella Coco Luna Milo Daisy Rocky Sunny Buddy Snow Tiger Lucky Oscar Molly Max".split()
FOODS = (
    "pizza soup pasta bread cheese rice cake salad apples chocolate fish pancakes noodles potatoes"
).split()


class Memory:
    """What the user has told in one conversation; gives exchanges that tell or ask."""

    def __init__(self, rng):
        self.rng, self.known = rng, {}
        self.animal = rng.choice("dog cat rabbit parrot horse hamster".split())

    def _value(self, kind):
        r = self.rng
        if kind in ("name", "pet", "city") and r.random() < 0.15:
            return cap(invented(r))
        return {
            "name": lambda: r.choice(NAMES),
            "age": lambda: str(r.randint(5, 90)),
            "colour": lambda: r.choice(world.LISTS["colours"].split()),
            "city": lambda: r.choice(world.COUNTRIES)[1],
            "pet": lambda: r.choice(PETS),
            "food": lambda: r.choice(FOODS),
            "job": lambda: r.choice(world.LISTS["jobs"].split()),
        }[kind]()

    def _slots(self, kind):
        v = self.known[kind]
        return {"v": v, "V": cap(v), "w": a(v), "k": self.animal}

    def tell(self, kind=None):
        kind = kind or self.rng.choice(["name", "name", "name"] + sorted(ABOUT))
        self.known[kind] = self._value(kind)
        told, answers, *_ = ABOUT[kind]
        slots = self._slots(kind)
        question, answer = say(self.rng, told, **slots), say(self.rng, answers, **slots)
        if self.rng.random() < 0.12 and kind == "name":
            other = self.rng.choice(["age", "city", "colour"])
            self.known[other] = self._value(other)
            more = {
                "age": "I am {v} years old.",
                "city": "I live in {v}.",
                "colour": "My favourite colour is {v}.",
            }[other]
            question = question.rstrip(".") + ". " + more.format(**self._slots(other))
        return Exchange(question, answer, exact=True)

    def ask(self, kind=None):
        kinds = sorted(self.known)
        kind = kind or (
            self.rng.choice(kinds)
            if kinds and self.rng.random() < 0.85
            else self.rng.choice(sorted(ABOUT))
        )
        _, _, asked, answer, missing = ABOUT[kind]
        if kind in self.known:
            slots = self._slots(kind)
            v = self.known[kind]
            return Exchange(say(self.rng, asked, **slots), answer.format(**slots), cap(v))
        return Exchange(
            say(self.rng, asked, k=self.animal), missing.format(k=self.animal), "I do not know"
        )


TOPICS = [(small_talk, 10), (unknown, 8)]
