"""Decoding with drafts against decoding without, one user, in turns.

    python3 bench/speculation.py [MODEL] [--binary PATH] [--rounds 5] [--tokens 300] [--threads 2]

One server answers three prompts: a code edit (a file of this repository with a variable renamed), a
summary that quotes its text, both at temperature 0, and a story drawn at temperature 1, which does
not repeat. Each round asks each prompt without drafts ("speculative.n_max": 0) and with them, the
order changing from round to round. Prompts are in the cache by then: what is compared is the time
from the first token to the last. The two answers must be equal, log-probabilities to the last bit;
--no-gates passes the speed limits over, which are meant for the 1.5B model on an idle machine.
"""

import argparse
import http.client
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from serve_process import ServeProcess  # noqa: E402

CODE = "src/kv/prefix_match.cc"
TEXT = "docs/scheduling.md"
TEXT_BYTES = 4000
REPEATING, OTHER = 1.8, .97  # tokens a second with drafts over those without, at least


def prompts():
    """Name, prompt, members of the request, least ratio."""
    code = (ROOT / CODE).read_text()
    text = (ROOT / TEXT).read_text()[:TEXT_BYTES]
    return [
        ("code edit",
         "Rewrite this C++ file with the variable `found` renamed to `match` everywhere. Print "
         f"the whole file and nothing else.\n\n```cpp\n{code}```\n",
         {"temperature": 0}, REPEATING),
        ("summary with quotes",
         "Summarise this text section by section. After each sentence of yours, quote the passage "
         f"that it rests on word for word.\n\n{text}\n",
         {"temperature": 0}, REPEATING),
        ("prose",
         "Write a long story about a lighthouse keeper who finds a map, without repeating yourself.",
         {"temperature": 1, "seed": 7}, OTHER),
    ]


def ask(server, prompt, max_tokens, members):
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
            "ignore_eos": True, "quire": True, "logprobs": True, "top_logprobs": 1, **members}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=3600)
    start = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    data = response.read()
    taken_ms = 1000 * (time.perf_counter() - start)
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {data[:500]!r}")
    answer = json.loads(data)
    usage = answer["usage"]
    decode_ms = taken_ms - usage["quire"]["queue_ms"] - usage["quire"]["prefill_ms"]
    details = usage["completion_tokens_details"]
    accepted, rejected = (details["accepted_prediction_tokens"],
                          details["rejected_prediction_tokens"])
    return {"choice": answer["choices"][0], "tokens": usage["completion_tokens"],
            "rate": 1000 * (usage["completion_tokens"] - 1) / decode_ms,
            "accepted": accepted, "drafted": accepted + rejected}


def measure(server, args):
    is_equal, passes = True, True
    for name, prompt, members, least in prompts():
        ask(server, prompt, 2, {**members, "speculative.n_max": 0})
        rates = {False: [], True: []}
        ratios, drafted, accepted, tokens = [], 0, 0, 0
        for number in range(args.rounds):
            answers = {}
            for with_drafts in (False, True) if number % 2 == 0 else (True, False):
                off = {} if with_drafts else {"speculative.n_max": 0}
                answers[with_drafts] = ask(server, prompt, args.tokens, {**members, **off})
                rates[with_drafts].append(answers[with_drafts]["rate"])
            is_equal &= answers[True]["choice"] == answers[False]["choice"]
            ratios.append(answers[True]["rate"] / answers[False]["rate"])
            drafted += answers[True]["drafted"]
            accepted += answers[True]["accepted"]
            tokens += answers[True]["tokens"]
        ratio = statistics.median(ratios)
        passes &= ratio >= least
        print(f"{name:20} {statistics.median(rates[False]):7.1f} tok/s without, "
              f"{statistics.median(rates[True]):7.1f} with: {ratio:.2f} times "
              f"({min(ratios):.2f} to {max(ratios):.2f}, at least {least}); "
              f"{accepted} of {drafted} drafts accepted in {tokens} tokens", flush=True)
    print("answers are equal" if is_equal else "ANSWERS DIFFER")
    return is_equal and (passes or args.no_gates)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--binary", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--spec-type", default="ngram")
    parser.add_argument("--draft-max", type=int, default=15)
    parser.add_argument("--no-gates", action="store_true")
    args = parser.parse_args()
    with ServeProcess(args.binary, args.model, "--threads", args.threads, "--parallel", 1,
                      "--ctx-size", 4096, "--spec-type", args.spec_type, "--draft-max",
                      args.draft_max) as server:
        return 0 if measure(server, args) else 1


if __name__ == "__main__":
    sys.exit(main())
