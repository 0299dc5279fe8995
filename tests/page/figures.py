"""Numbers as the page shows them: what a text says, and what a page is to show of `--json`."""

import re
import statistics

NUMBER = re.compile(r"(-?[\d,]+)(?:\.(\d+))?\s*(.*)")
UNITS = {"%": .01, "ms": 1, "s": 1e3, "min": 60e3, "B": 1, "op/s": 1}
UNITS |= {f"{letter}iB": 1024 ** power for power, letter in enumerate("KMGT", 1)}
for power, letter in enumerate("kMGT", 1):
    UNITS |= {f"{letter}{unit}": 1000 ** power for unit in ("", "B/s", "op/s")}
UNITS |= {f"{word}{ending}": 1 for word in ("token", "byte", "block", "time")
          for ending in ("", "s")} | {"": 1}


def rounds(text, value):
    """Whether a text is that value, rounded to the digits that it has."""
    match = NUMBER.fullmatch(text)
    if match is None:
        return False
    digits, fraction, factor = match[1].replace(",", ""), match[2] or "", UNITS[match[3]]
    said = float(f"{digits}.{fraction or 0}") * factor
    return abs(said - value) <= .5 * 10 ** -len(fraction) * factor * (1 + 1e-9)


def of_shapes(said, phase="decode"):
    figures = {name: said[name] for name in ("parameters", "num_layers", "d_model", "vocab_size",
                                             "held_bytes", "kv_bytes_per_token")}
    for name in ("ops", "weight_bytes", "kv_bytes", "ops_per_byte"):
        figures[f"{phase}.{name}"] = said[phase][name]
    for i, part in enumerate(said["parts"]):
        for stage in part["stages"]:
            for name, value in (("parameters", stage["parameters"]), ("ops", stage[phase]["ops"]),
                                ("kv_bytes", stage[phase]["kv_bytes"])):
                if value:
                    figures[f"{i}.{stage['name']}.{name}"] = value
    return {f"model.{name}": value for name, value in figures.items()}


def of_growth(said):
    figures = {"bytes_per_token": said["bytes_per_token"]}
    for i, term in enumerate(said["terms"]):
        figures[f"terms.{i}.bytes_per_token"] = term["bytes_per_token"]
    for series in said["series"]:
        figures[f"{series['name']}.bytes_per_token"] = series["bytes_per_token"]
        figures[f"{series['name']}.last_bytes"] = series["bytes"][-1]
    for i, point in enumerate(said["measured"]):
        for name in ("tokens", "used_blocks", "expected_blocks", "used_bytes", "formula_bytes"):
            figures[f"measured.{i}.{name}"] = point[name]
    return {f"growth.{name}": value for name, value in figures.items()}


def of_roofline(said, depth):
    """Of the points, those at a depth."""
    figures = {"int8_ridge_ops_per_byte": said["int8_ridge_ops_per_byte"]}
    for level in said["ceilings"]["memory"]:
        figures[level["name"]] = level["bytes_per_second"]
        figures[f"{level['name']}.set_bytes"] = level["set_bytes"]
    for kind in said["ceilings"]["arithmetic"]:
        figures[kind["name"]] = kind["ops_per_second"]
    for point in said["points"]:
        place = f"{point['phase']}.{point['depth']}"
        if point["operators"] == "all":
            for name in ("weight_bytes", "kv_bytes"):
                figures[f"{place}.step.{name}"] = point[name] / max(1, point["steps"])
        if point["depth"] != depth:
            continue
        for name in ("ops_per_byte", "ops_per_second", "fraction"):
            if name != "fraction" or point.get(name):
                figures[f"{place}.{point['operators']}.{name}"] = point[name]
    return {f"roofline.{name}": value for name, value in figures.items()}


def of_life(life):
    """Of a request that has ended, which is the only one of its page."""
    request, end = life["request"], life["end"]
    prompt, tokens = end["prompt_tokens"], end["completion_tokens"]
    parts = {tier: end.get(f"cached_{tier}", 0) for tier in ("memory", "disk", "remote")}
    figures = {"requests.seen": 1, "request.prompt_tokens": prompt,
               "request.cached": sum(parts.values()), "request.tokens": tokens}
    if request.get("num_choices", 1) == 1 and tokens > 1:
        figures["requests.tpot_ms"] = end["decode_ms"] / (tokens - 1)
    for name in ("first_token_ms", "queue_ms"):
        if end.get(name):
            figures[f"requests.{name}"] = statistics.median([end[name]])
    for name in ("queue_ms", "tier_wait_ms", "first_token_ms", "decode_ms", "total_ms"):
        figures[f"end.{name}"] = end.get(name, 0)
    if end.get("draft_tokens"):
        figures["end.draft_tokens"] = end["draft_tokens"]
        figures["end.accepted_draft_tokens"] = end.get("accepted_draft_tokens", 0)
    if end.get("num_preemptions"):
        figures["end.num_preemptions"] = end["num_preemptions"]
    for tier, count in (parts | {"computed": prompt - sum(parts.values())}).items():
        if count:
            figures[f"parting.{tier}"] = count
            figures[f"parting.{tier}_share"] = count / prompt
    if end.get("miss", "none") != "none":
        figures["end.miss_position"] = end.get("miss_position", 0)
    for i, span in enumerate(life["spans"]):
        figures[f"span.{i}.from_ms"] = max(0, span["begin_ms"] - request.get("ms", 0))
        figures[f"span.{i}.ms"] = span["end_ms"] - span["begin_ms"]
        for name in ("steps", "tokens"):
            if span.get(name):
                figures[f"span.{i}.{name}"] = span[name]
    return figures
