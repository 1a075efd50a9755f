"""What all topics share: choosing, alternatives in a phrase, and how a person types."""

import re

_INNERMOST = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")


def expand(rng, phrase):
    """Chooses one of each "[a|b|c]"; they may be nested."""
    while True:
        done = _INNERMOST.sub(lambda m: rng.choice(m.group(1).split("|")), phrase, count=1)
        if done == phrase:
            return phrase
        phrase = done


def say(rng, phrases, **slots):
    """One of the phrases with its alternatives chosen, then its {slots} filled."""
    phrase = phrases if isinstance(phrases, str) else rng.choice(phrases)
    return expand(rng, phrase).format(**slots)


def a(noun):
    """The noun with its indefinite article."""
    silent = noun.startswith(("hour", "honest"))
    vowel = noun[0].lower() in "aeiou" and not noun.startswith(("uni", "use", "eu", "one"))
    return f"{'an' if vowel or silent else 'a'} {noun}"


def cap(text):
    return text[:1].upper() + text[1:]


def join(items, last="and"):
    items = list(items)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()


def word(number):
    return WORDS[number] if 0 <= number < len(WORDS) else str(number)


def typed(rng, text):
    """A question as people type it: sometimes without capitals, apostrophes or a question mark.
    Only for texts whose letters the answer does not repeat."""
    if rng.random() < 0.22:
        text = text[:1].lower() + text[1:] if rng.random() < 0.4 else text.lower()
    if rng.random() < 0.22 and text[-1] in "?.!":
        text = text[:-1]
    if rng.random() < 0.1:
        text = text.replace("'", "")
    if rng.random() < 0.06:
        low = text if text.startswith(("I ", "I'm")) else text[:1].lower() + text[1:]
        text = expand(rng, "[please|Please|hey,|Hey,|so,|ok,|um,]") + " " + low
    elif rng.random() < 0.04 and text[-1] in "?.!":
        text = text[:-1] + expand(rng, "[, please|, thanks| please]") + text[-1]
    return text


_ONSETS = (
    "b br c ch cl d dr f fl fr g gl gr h j k kl l m n p pl pr qu r s sh sk sl sn sp st t th tr "
    "v w z"
).split()
_VOWELS = "a e i o u a e i o u ai ea ee oo ou".split()
_CODAS = "  b ck d ff g l ll m mp n nd nk nt p r rd rk rn s sh sk ss st t th x".split(" ")


def invented(rng):
    """A word that does not exist, so that words are also read which no table holds."""
    return "".join(
        rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
        for _ in range(rng.choice([1, 1, 2, 2, 2, 3]))
    )


class Exchange:
    """A question and its answer; `short` is the answer in a word or two where there is one, and
    `follow` makes a further question that is understood only after this one."""

    def __init__(self, question, answer, short=None, follow=None, exact=False):
        self.question = question
        self.answer = answer
        self.short = short
        self.follow = follow
        self.exact = exact  # the question is quoted: leave its letters alone
