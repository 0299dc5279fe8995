"""Whether the time to the first token tells one tenant what another one holds.

    python3 bench/tiers/tenants.py [MODEL] [--binary PATH] [--pairs 200] [--tokens 256]

Tenant A asks one prompt of each pair; the pool is small, so it goes to disk. Then tenant B asks
both prompts of each pair, in an order drawn by lot. AUC: how often the prompt that A holds was
answered sooner than the one that nobody holds; 0.5 = nothing can be told. As a control A asks some
pairs itself: there nearly every time. The status is 1 where B's AUC is 0.6 or more (or 0.4 or
less), where a block of A's was found for B, or where the control cannot tell.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

import asking
from serve_process import ServeProcess

KEYS = {"A": "sk-tenant-a-0123456789abcdef", "B": "sk-tenant-b-0123456789abcdef"}
ADMIN = "sk-operator-0123456789abcdef"
FARTHEST = .1  # of the AUC from 0.5
CONTROL_AUC = .9


def auc(held, fresh):
    """The share of pairs of one from each list where the held one is the sooner."""
    sooner = sum((a < b) + (a == b) / 2 for a in held for b in fresh)
    return sooner / (len(held) * len(fresh))


def ask(server, tenant, prompt):
    return asking.ask(server.port, prompt, max_tokens=2, log_probs=0, key=KEYS[tenant])


def ask_pairs(server, args, tenant, pairs, rng):
    """Seconds to the first token of the held prompts and of fresh ones; tokens found of each."""
    seconds, found = {"held": [], "fresh": []}, {"held": 0, "fresh": 0}
    for pair in pairs:
        for kind in rng.sample(("held", "fresh"), 2):
            seed = f"held {pair}" if kind == "held" else f"fresh {tenant} {pair}"
            answer = ask(server, tenant, asking.token_ids(seed, args.tokens))
            seconds[kind].append(answer.ttft_s)
            found[kind] += answer.cached_tokens
    return seconds, found


def measure(server, args):
    rng = random.Random(args.seed)
    for tenant in KEYS:
        ask(server, tenant, asking.token_ids(f"first {tenant}", args.tokens))
    for pair in range(args.pairs):
        ask(server, "A", asking.token_ids(f"held {pair}", args.tokens))
    seconds, found = ask_pairs(server, args, "B", range(args.pairs), rng)
    control, own = ask_pairs(server, args, "A", rng.sample(range(args.pairs), args.control), rng)
    return seconds, found, control, own


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_common_flags(parser, "smollm2-135m-instruct")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--control", type=int, default=20, help="pairs that A asks again")
    parser.add_argument("--tokens", type=int, default=256, help="of a prompt")
    parser.add_argument("--kv-size", default="64MiB")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    asking.say_if_busy()
    with tempfile.TemporaryDirectory(dir=args.directory) as scratch:
        scratch = pathlib.Path(scratch)
        keys = scratch / "keys.json"
        keys.touch(mode=0o600)
        keys.write_text(json.dumps({"keys": [
            *({"key": key, "name": tenant} for tenant, key in KEYS.items()),
            {"key": ADMIN, "name": "operator", "admin": True}]}))
        with ServeProcess(args.binary, args.model, "-t", args.threads, "-c", 1024, "--kv-size",
                          args.kv_size, "--parallel", 2, "--api-key-file", keys, "--log-level",
                          "warning", "--kv-disk", scratch / "kv", key=ADMIN) as server:
            seconds, found, control, own = measure(server, args)
            stored = server.metrics().get("quire_tier_blocks_stored_total", 0)
    told, known = auc(**seconds), auc(**control)
    for who, values in (("B", seconds), ("A", control)):
        for kind, name in (("held", "that A holds on disk"), ("fresh", "that nobody holds")):
            print(f"  {who}, a prompt {name:22} {asking.describe_ms(values[kind])}  mean "
                  f"{1000 * statistics.mean(values[kind]):.1f} ms")
    print(f"AUC over {args.pairs} pairs: {told:.3f} for B (0.4 to 0.6 is asked), {known:.3f} for A "
          f"(control, at least {CONTROL_AUC}); {stored:.0f} blocks stored; tokens found: B "
          f"{found['held']}, A {own['held']}")
    is_well = (abs(told - .5) < FARTHEST and known >= CONTROL_AUC and own["held"] > 0
               and found == {"held": 0, "fresh": 0})
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
