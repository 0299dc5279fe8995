"""Prompts made from a seed, and what an OpenAI-compatible server needs to answer them.

Standard library alone.
"""

import dataclasses
import http.client
import json
import os
import pathlib
import random
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "tests" / "support")]

from serve_load import WORDS  # noqa: E402

BUSY_LOAD = 0.5


@dataclasses.dataclass
class Answer:
    ttft_s: float = 0.0
    gaps_s: list = dataclasses.field(default_factory=list)
    text: str = ""
    # [answer's tokens] what was sampled and the log-probabilities, as the server wrote them
    log_probs: list = dataclasses.field(default_factory=list)
    prompt_tokens: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    usage: dict = dataclasses.field(default_factory=dict)

    def equals(self, other):
        return self.text == other.text and self.log_probs == other.log_probs

    def cached_from(self, tier):
        """Of a Quire server: "memory", "disk" or "remote"."""
        return self.usage["quire"]["cached_by_tier"][tier]


def words(seed, count):
    """About one token a word."""
    return " ".join(random.Random(str(seed)).choices(WORDS, k=count))


def token_ids(seed, count, low=1000, high=20000):
    rng = random.Random(str(seed))
    return [rng.randrange(low, high) for _ in range(count)]


def ask(port, prompt, max_tokens=8, log_probs=5, key=None, **members):
    """The answer to one streamed completion at temperature 0. prompt: text or token ids."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True,
            "ignore_eos": True, "quire": True, "stream_options": {"include_usage": True},
            "cache_prompt": True, **members}
    if log_probs:
        body["logprobs"] = log_probs
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.connect()
    answer, last = Answer(), 0.0
    data = json.dumps(body).encode()
    sent = time.perf_counter()
    connection.request("POST", "/v1/completions", data, headers)
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {response.read()[:500]!r}")
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        arrived = time.perf_counter()
        event = json.loads(line[6:])
        for choice in event.get("choices", []):
            if not (choice.get("text") or choice.get("logprobs")):
                continue
            if last:
                answer.gaps_s.append(arrived - last)
            else:
                answer.ttft_s = arrived - sent
            last = arrived
            answer.text += choice.get("text") or ""
            if choice.get("logprobs"):
                answer.log_probs.append(_values_of(choice["logprobs"]))
        if event.get("usage"):
            usage = answer.usage = event["usage"]
            answer.prompt_tokens = usage["prompt_tokens"]
            answer.tokens = usage["completion_tokens"]
            answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get(
                "cached_tokens", 0)
    connection.close()
    return answer


def _values_of(log_probs):
    """Without the ids that some servers give each event."""
    if "content" in log_probs:
        return [(entry["token"], entry["logprob"],
                 [(top["token"], top["logprob"]) for top in entry.get("top_logprobs", [])])
                for entry in log_probs["content"]]
    return [log_probs["tokens"], log_probs["token_logprobs"], log_probs.get("top_logprobs")]


def forget_page_cache(directory):
    """Writes back and drops what memory holds of the files, as a restart of the machine does."""
    for path in pathlib.Path(directory).rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def describe_ms(values):
    values = [1000 * value for value in values]
    return (f"{statistics.median(values):10.1f} ms  "
            f"({min(values):.1f} to {max(values):.1f})")


def say_if_busy():
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(f"note: the load average is {load:.1f} before anything was started", flush=True)


def add_common_flags(parser, model):
    parser.add_argument("model", nargs="?", default=model)
    parser.add_argument("--binary", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--directory", type=pathlib.Path,
                        help="where scratch directories are made (default: the system's)")
