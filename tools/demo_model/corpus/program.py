"""Questions about the program infer itself. The truth is in its README and in its --help."""

from .core import Exchange, say

FACTS = [
    (
        [
            "What is infer?",
            "What does infer do?",
            "Tell me about infer.",
            "What is this program?",
            "Explain infer.",
        ],
        (
            "infer is a program that runs quantised language models. It reads GGUF files and"
            " generates text on the CPU."
        ),
    ),
    (
        [
            "How do I [run|use|start] a model[| with infer]?",
            "How do I complete a prompt?",
            "How do I generate text[| with infer]?",
            "How do I use infer?",
            "How do I start infer?",
            "How do I [run|use] infer run?",
            "What does infer run do?",
            "How do I load a model?",
        ],
        (
            "Use infer run with a model and a prompt:\n\n"
            '    infer run -m model.gguf -p "Once upon a time"'
        ),
    ),
    (
        [
            "How do I load my own model?",
            "How do I use another model?",
            "How do I load a larger model?",
            "How do I choose a model?",
            "Which flag gives the model?",
            "What does -m [do|mean]?",
        ],
        'Give the file of the model with -m, for example: infer run -m model.gguf -p "Hello"',
    ),
    (
        [
            "What happens without -m?",
            "Which model is the default?",
            "Do I need a model file?",
            "What is the built-in model?",
            "Is there a built-in model?",
        ],
        "Without -m infer uses the built-in model. That is me: very small, but there at once.",
    ),
    (
        ["How do I give a prompt?", "What does -p [do|mean]?", "Which flag gives the prompt?"],
        'The flag -p gives the prompt, for example: infer run -m model.gguf -p "Hello"',
    ),
    (
        [
            "How do I read a prompt from a file?",
            "What does -f [do|mean]?",
            "Can the prompt come from a file?",
        ],
        (
            "The flag -f reads the prompt from a file: infer run -m model.gguf -f prompt.txt. With"
            " -f - it reads stdin."
        ),
    ),
    (
        [
            "How do I limit the number of tokens?",
            "What does -n [do|mean]?",
            "How do I generate 100 tokens?",
            "How do I set the length of the output?",
        ],
        (
            "The flag -n says how many tokens to generate, for example -n 100. Without it infer"
            " goes on until the end of the text."
        ),
    ),
    (
        [
            "What does -c [do|mean]?",
            "How do I set the context size?",
            "How do I change the context?",
            "Which flag sets the context?",
        ],
        (
            "The flag -c sets the tokens of context, for example -c 8192. With 0 infer takes what"
            " fits."
        ),
    ),
    (
        [
            "What does -t [do|mean]?",
            "How do I set the number of threads?",
            "How many threads does infer use?",
            "How do I use more threads?",
        ],
        "The flag -t sets the number of CPU threads. With 0 infer uses all that it may use.",
    ),
    (
        [
            "What does --temp [do|mean]?",
            "How do I set the temperature?",
            "What is the temperature?",
            "How do I change the temperature?",
        ],
        (
            "The flag --temp sets the temperature. With 0 infer always takes the most likely token;"
            " higher values give more varied text."
        ),
    ),
    (
        ["What does --top-k [do|mean]?", "What is top-k?"],
        "The flag --top-k K samples among the K most likely tokens. With 0 it is off.",
    ),
    (
        ["What does --top-p [do|mean]?", "What is top-p?"],
        (
            "The flag --top-p P samples among the likeliest tokens whose probabilities add up to P."
            " With 1 it is off."
        ),
    ),
    (
        ["What does --min-p [do|mean]?", "What is min-p?"],
        "The flag --min-p P drops tokens that are less likely than P times the most likely one.",
    ),
    (
        [
            "What does --seed [do|mean]?",
            "What does -s [do|mean]?",
            "How do I get the same text again?",
            "How do I set the seed?",
            "How do I make the output reproducible?",
        ],
        "The flag -s or --seed sets the seed. Equal seeds give equal text.",
    ),
    (
        ["What does --repeat-penalty [do|mean]?", "How do I avoid repetitions?"],
        "The flag --repeat-penalty makes recent tokens less likely. With 1 it is off.",
    ),
    (
        ["What does --ignore-eos [do|mean]?"],
        "The flag --ignore-eos goes on past end-of-text tokens.",
    ),
    (
        ["What does --context-shift [do|mean]?", "What happens when the context is full?"],
        (
            "A full context ends the generation. With --context-shift infer drops the earlier half"
            " and goes on."
        ),
    ),
    (
        ["What does --keep [do|mean]?"],
        "The flag --keep N says how many first tokens --context-shift never drops.",
    ),
    (
        ["What does --json [do|mean]?", "How do I get JSON output?", "Can infer print JSON?"],
        "The flag --json prints one JSON object on stdout in place of the text.",
    ),
    (
        ["What does -q [do|mean]?", "How do I make infer quiet?"],
        "The flag -q or --quiet prints only errors on stderr.",
    ),
    (
        ["What does -v [do|mean]?", "How do I make infer verbose?"],
        "The flag -v or --verbose says on stderr what is done.",
    ),
    (
        ["What does --memory [do|mean]?", "How do I limit the memory?", "How do I cap memory use?"],
        (
            "The flag --memory caps the memory that infer uses, for example --memory 8G or --memory"
            " 50%."
        ),
    ),
    (
        ["What does --reserve [do|mean]?", "How much memory does infer leave free?"],
        (
            "The flag --reserve says how much free memory to leave alone. Without it infer leaves 5"
            " %, at least 256 MiB."
        ),
    ),
    (
        [
            "What does --spill [do|mean]?",
            "Can infer run a model that is larger than memory?",
            "My model does not fit into memory. What can I do?",
        ],
        (
            "With --spill infer reads the weights layer by layer from the file, so that a model"
            " larger than memory runs, but slowly."
        ),
    ),
    (
        ["What does --mmap [do|mean]?", "What does --no-repack [do|mean]?"],
        (
            "The flag --mmap, also --no-repack, uses the weights as they lie in the mapped file. It"
            " loads at once and runs slower."
        ),
    ),
    (
        [
            "What does -ctk [do|mean]?",
            "How do I set the type of the cache?",
            "What does -ctv [do|mean]?",
            "Which types can the cache have?",
        ],
        (
            "The flags -ctk and -ctv set the type of cached keys and values: auto, f32, f16, q8_0"
            " or q4_0. The default is f16."
        ),
    ),
    (["What does --exact [do|mean]?"], "The flag --exact keeps activations in float32."),
    (
        ["What does --isa [do|mean]?"],
        (
            "The flag --isa forces the instruction set of the CPU's kernels, for example avx2 or"
            " scalar."
        ),
    ),
    (
        ["What does --device [do|mean]?", "How do I choose a device?"],
        "The flag --device chooses the device to run on. See infer devices for what there is.",
    ),
    (
        ["What does -b [do|mean]?", "How do I set the batch size?"],
        "The flag -b sets how many tokens one step computes at most.",
    ),
    (
        [
            "What does infer info do?",
            "How do I see what a model [holds|contains]?",
            "How do I look into a model file?",
        ],
        "Use infer info to see what a model file holds: infer info model.gguf",
    ),
    (
        [
            "What does infer plan do?",
            "How do I know whether a model fits?",
            "How much memory does a model need?",
            "Will my model fit into memory?",
        ],
        (
            "Use infer plan to see what memory a model would use, before it is loaded: infer plan"
            " -m model.gguf -c 8192"
        ),
    ),
    (
        [
            "What does infer bench do?",
            "How do I measure the speed?",
            "How fast is my machine?",
            "How do I benchmark a model?",
        ],
        (
            "Use infer bench to measure the speed against the ceilings of the machine: infer bench"
            " -m model.gguf"
        ),
    ),
    (
        ["What does infer eval do?", "How do I get the logits?"],
        (
            "Use infer eval to write the logits of every position to a file: infer eval -m"
            " model.gguf --tokens 1,2,3 --logits out.f32"
        ),
    ),
    (
        [
            "What does infer tokenize do?",
            "How do I tokenize a text?",
            "How do I turn text into tokens?",
        ],
        (
            "Use infer tokenize to turn a text into token ids: infer tokenize -m model.gguf -f"
            " text.txt"
        ),
    ),
    (
        ["What does infer detokenize do?", "How do I turn tokens into text?"],
        "Use infer detokenize to turn token ids back into text.",
    ),
    (
        ["What does infer synth do?", "How do I make a model of random weights?"],
        "Use infer synth to write a model of random weights for measurements.",
    ),
    (
        [
            "What does infer selftest do?",
            "How do I check my machine?",
            "How do I test infer?",
            "Is this machine computing right?",
        ],
        "Use infer selftest to check that every operation computes right on this machine.",
    ),
    (
        ["What does infer devices do?", "Which devices do I have?", "How do I list the devices?"],
        "Use infer devices to list what this machine has.",
    ),
    (
        ["What does infer completion do?", "How do I complete commands in the shell?"],
        (
            "The command infer completion prints a script for your shell: source <(infer completion"
            " bash)"
        ),
    ),
    (
        ["What does infer perplexity do?", "How do I measure the perplexity?"],
        (
            "The command infer perplexity measures how well a model predicts a text: infer"
            " perplexity -m model.gguf -f text.txt"
        ),
    ),
    (
        [
            "What does infer chat do?",
            "How do I chat with a model?",
            "How do I start a conversation?",
        ],
        "Use infer chat to converse in the terminal: infer chat -m model.gguf",
    ),
    (
        ["What does infer serve do?", "How do I start [a|the] server?", "Is there a server?"],
        "The command infer serve starts a server that speaks the protocol of OpenAI.",
    ),
    (
        ["What does infer gui do?", "Is there a window?", "How do I open the window?"],
        "The command infer gui opens the desktop window.",
    ),
    (
        [
            "What does infer quantize do?",
            "How do I quantise a model?",
            "How do I quantize a model?",
        ],
        (
            "The command infer quantize changes the type of a model's weights: infer quantize"
            " in.gguf out.gguf TYPE"
        ),
    ),
    (
        ["What does infer convert do?", "How do I convert a model?"],
        (
            "The command infer convert makes a GGUF file of a model directory: infer convert DIR"
            " out.gguf"
        ),
    ),
    (
        [
            "Which commands [are there|does infer have]?",
            "What commands are there?",
            "List the commands of infer.",
            "What are the commands of infer?",
            "Show me the commands.",
        ],
        (
            "The main commands are run, chat, info, plan, bench, eval, tokenize, detokenize,"
            " devices and selftest. infer --help lists them all."
        ),
    ),
    (
        [
            "How do I get help?",
            "Where is the help?",
            "How do I list the flags?",
            "Which flags are there?",
            "What options does infer have?",
            "How do I see all options?",
        ],
        "Type infer --help for the commands and infer COMMAND --help for the flags of one.",
    ),
    (
        [
            "Which file formats can infer read?",
            "What files does infer read?",
            "Which formats are supported?",
            "What is the format of the models?",
        ],
        "infer reads GGUF files, also split ones.",
    ),
    (
        [
            (
                "Which models [does infer run|can infer run|are supported|can I run|does infer"
                " support]?"
            ),
            "Does infer support [Llama|Mistral|Qwen|Gemma|Phi]?",
            "What architectures are supported?",
        ],
        (
            "infer runs many families, among them Llama, Mistral, Qwen, Gemma, Phi, gpt-oss,"
            " DeepSeek and Granite. infer info tells what a file is."
        ),
    ),
    (
        ["Where do I get models?", "Where can I find a model?", "How do I download a model?"],
        "infer reads GGUF files, which many sites offer. Save one to disk and give it with -m.",
    ),
    (
        [
            "How do I interrupt infer?",
            "How do I stop the generation?",
            "How do I stop it?",
            "How do I quit?",
            "How do I exit?",
            "What does Ctrl-C do?",
        ],
        "Press Ctrl-C to interrupt. A second one ends the program at once.",
    ),
    (
        [
            "What are the exit codes[| of infer]?",
            "Which exit codes are there?",
            "List the exit codes.",
            "What do the exit codes mean?",
        ],
        (
            "The exit codes are 0 done, 1 failed while running, 2 wrong usage, 3 bad model or input"
            " file, 4 does not fit into memory, 5 no such device, and 130 interrupted."
        ),
    ),
    (
        ["Where does infer print errors?", "What goes to stderr?", "What goes to stdout?"],
        "stdout holds generated text or JSON and nothing else. Reports and errors go to stderr.",
    ),
    (
        ["How do I build infer?", "How do I compile infer?", "How do I install infer?"],
        "Build it with: tools/setup.sh && cmake --preset release && cmake --build --preset release",
    ),
    (
        ["How do I run the tests?", "How do I test the build?"],
        "Run the tests with: ctest --preset release",
    ),
    (
        [
            "Can I use infer from [C|C++]?",
            "Is there a library?",
            "How do I embed infer?",
            "Is there an API?",
        ],
        "Yes. infer/infer.h is the C API and infer/infer.hpp the C++ one.",
    ),
    (
        [
            "What licence does infer have?",
            "What is the license of infer?",
            "Is infer free?",
            "Is infer open source?",
        ],
        "infer is free software under the MIT licence.",
    ),
    (
        ["Does infer need a GPU?", "Can infer use my GPU?", "Does infer run on the CPU?"],
        "infer does not need a GPU. It runs on the CPU.",
    ),
    (
        ["What language is infer written in?", "Which language is infer written in?"],
        "infer is written in C++20.",
    ),
    (
        [
            "Does infer run on ARM?",
            "On which machines does infer run?",
            "Which processors does infer support?",
        ],
        (
            "infer runs on x86-64 processors, on 64-bit ARM, and with plain code on every other "
            "processor."
        ),
    ),
    (
        ["Does infer need the internet?", "Does infer send data?"],
        "No. infer runs on your own machine and needs no network.",
    ),
    (
        ["Which version of infer is this?", "How do I see the version?", "What version is this?"],
        "The command infer --version prints the version.",
    ),
    (
        ["Is the output always the same?", "Does the batch change the result?"],
        (
            "Yes. A row's result depends on that row alone, not on the batch or the number of"
            " threads. Equal seeds give equal text."
        ),
    ),
    (
        ["Why is infer slow?", "How do I make it faster?", "How do I make infer faster?"],
        (
            "Use a smaller or more strongly quantised model, such as Q4_K, and as many threads as"
            " the machine has cores. infer bench shows how close you are to the limit."
        ),
    ),
    (
        ["What is the KV cache?", "What is the cache?"],
        (
            "The cache keeps keys and values of earlier tokens, so that they are not computed"
            " again. It lies in pages of 64 tokens."
        ),
    ),
    (
        ["What is a chat template?"],
        (
            "A chat template turns the messages of a conversation into the text that a model was"
            " trained on."
        ),
    ),
    (
        ["What is a draft model?", "What is speculative decoding?"],
        (
            "A small draft model proposes tokens, and the large one checks several at once. That is"
            " faster and changes no token."
        ),
    ),
    (
        ["What is a context?", "What is the context length?"],
        "The context is the text that a model sees at once, counted in tokens.",
    ),
    (
        ["What is a system prompt?", "What does -sys do?"],
        "A system prompt tells the model how to answer. It stands before the conversation.",
    ),
    (
        ["What is perplexity?"],
        "Perplexity says how surprised a model is by a text. Lower is better.",
    ),
    (["What is a prompt?"], "A prompt is the text that you give to a model."),
    (
        ["What are logits?"],
        "Logits are the scores that a model gives to every possible next token.",
    ),
    (
        ["What is sampling?"],
        "Sampling chooses the next token at random, the likely ones more often.",
    ),
    (
        ["What is a weight?", "What are weights?", "What is a parameter?"],
        "Weights, also called parameters, are the numbers that a model has learned.",
    ),
    (
        ["What is Q8_0?", "What is Q4_0?", "What is Q4_K?"],
        "It is a type of quantised weights: the number says how many bits a weight takes.",
    ),
]

CODES = {
    "0": "done",
    "1": "failed while running",
    "2": "wrong usage",
    "3": "the model or an input file is absent, broken or unsupported",
    "4": "does not fit into memory",
    "5": "no such device, or it failed",
    "130": "interrupted by Ctrl-C",
}
REASONS = [
    (["the model does not fit into memory", "there is not enough memory"], "4"),
    (
        [
            "the model file is broken",
            "the model is missing",
            "the file does not exist",
            "the model is not supported",
        ],
        "3",
    ),
    (["a flag is wrong", "I use it wrongly", "an option is unknown"], "2"),
    (["I press Ctrl-C", "it is interrupted"], "130"),
    (["everything went well", "it is done", "all is well"], "0"),
    (["there is no such device", "the device failed"], "5"),
    (["something fails while running"], "1"),
]


def fact(rng):
    questions, answer = rng.choice(FACTS)
    return Exchange(say(rng, questions), answer)


def exit_code(rng, lead=None):
    if rng.random() < 0.35 and not lead:
        phrases, code = rng.choice(REASONS)
        q = say(
            rng,
            [
                "[What is|Which is|What's] the exit code if {r}?",
                "Which exit code does infer give when {r}?",
            ],
            r=rng.choice(phrases),
        )
        return Exchange(q, f"The exit code is {code}: {CODES[code]}.", code)
    code = rng.choice(sorted(CODES))
    q = say(
        rng,
        (
            ["And [code |exit code |]{c}?", "And what does {c} mean?"]
            if lead
            else [
                "What does exit code {c} mean?",
                "What is exit code {c}?",
                "infer ended with exit code {c}. What does [that|it] mean?",
                "Why does infer exit with {c}?",
                "What does the exit code {c} of infer mean?",
            ]
        ),
        c=code,
    )
    return Exchange(
        q,
        f"Exit code {code} means: {CODES[code]}.",
        cap_first(CODES[code]),
        lambda r: exit_code(r, True),
    )


def cap_first(text):
    return text[0].upper() + text[1:]


TOPICS = [(fact, 10), (exit_code, 2)]
