"""How long a request of one token waits beside the long prompt of another. A program:

    infer synth smollm2-135m model.gguf --type q4_0
    INFER_BIN=build/release/infer python3 tests/server/wait.py model.gguf [arguments of infer serve]
"""

import statistics
import sys
import threading
import time

from service import Service

SHORT = {"prompt": [5, 6, 7], "max_tokens": 1, "ignore_eos": True}


def took(service, body):
    begun = time.monotonic()
    service.post("/v1/completions", body, timeout=600)
    return time.monotonic() - begun


def main():
    service = Service("-m", *sys.argv[1:])
    took(service, SHORT)
    alone = statistics.median(took(service, SHORT) for _ in range(10))
    tokens = 4096
    prompts, waits = [], []
    for round_ in range(3):
        body = {"prompt": [10 + round_ + i * 7 % 900 for i in range(tokens)], "max_tokens": 1,
                "ignore_eos": True}
        steps = service.metric("infer_steps_total")
        thread = threading.Thread(target=lambda: prompts.append(took(service, body)))
        thread.start()
        time.sleep(0.3)
        while thread.is_alive():
            waits.append(took(service, SHORT))
            time.sleep(0.05)
        thread.join()
        steps = service.metric("infer_steps_total") - steps
    step = prompts[-1] / max(1, steps)
    waits.sort()
    print(f"alone {alone * 1000:.0f} ms; a prompt of {tokens} tokens {statistics.median(prompts):.1f} s, "
          f"{steps:.0f} steps of {step:.2f} s; one token beside it: median {statistics.median(waits):.2f} s, "
          f"longest {waits[-1]:.2f} s, of {len(waits)}; in steps: {statistics.median(waits) / step:.1f}, "
          f"{waits[-1] / step:.1f}")
    assert service.end() == 0


if __name__ == "__main__":
    main()
