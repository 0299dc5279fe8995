"""One row: rounds A B A B, a raw read between, noisy rounds again; and what comes of them."""

import statistics
from dataclasses import dataclass, field

from idle import Meter


class NotMeasured(Exception):
    """An engine cannot do this row; the message says why."""


@dataclass
class Measured:
    value: float
    shares: dict = field(default_factory=dict)  # share_of_read, share_of_int8; Quire's alone


@dataclass
class Rules:
    rounds: int = 5
    retries: int = 3         # of a noisy round
    idle_limit: float = 0.1  # processors that others may use


def run_round(row, file, engines, read_rate, meter):
    """One turn of each engine. NotMeasured of one does not stop the others."""
    values, shares, reads, reasons = {}, {}, [], {}
    for engine in engines:
        reads.append(read_rate(file))
        try:
            measured = engine.measure(row, file)
        except NotMeasured as reason:
            reasons[engine.name] = str(reason)
            continue
        values[engine.name] = measured.value
        shares.update(measured.shares)
    return {"values": values, "shares": shares, "read_bytes_per_second": reads,
            "others": round(meter.others(), 3)}, reasons


def run_rounds(row, file, engines, read_rate, rules, say, new_meter=Meter):
    """(rounds, {engine: why it has no value}). A round that stays noisy is kept and marked."""
    rounds, not_measured = [], {}
    engines = list(engines)
    if row.lower_is_better:
        # The first start reads files from the disk and packs the weights.
        not_measured = run_round(row, file, engines, read_rate, new_meter())[1]
        engines = [engine for engine in engines if engine.name not in not_measured]
    for number in range(rules.rounds):
        for attempt in range(1 + rules.retries):
            found, reasons = run_round(row, file, engines, read_rate, new_meter())
            not_measured.update(reasons)
            engines = [engine for engine in engines if engine.name not in reasons]
            found["noisy"] = found["others"] > rules.idle_limit
            if not found["noisy"] or not engines:
                break
            again = attempt < rules.retries
            say(f"round {number + 1}: others used {found['others']:.2f} processors"
                + ("; again" if again else "; kept, and marked noisy"))
        if not found["values"]:
            break
        rounds.append(found)
        say(f"round {number + 1}: " + ", ".join(
            f"{name} {value:.2f}" for name, value in found["values"].items()))
    return rounds, not_measured


def spread(values):
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def ratio_of(rounds, ours, theirs, lower_is_better):
    """The median of the rounds' ratios; above 1 is better for `ours`. None without both."""
    ratios = []
    for found in rounds:
        a, b = found["values"].get(ours), found["values"].get(theirs)
        if a and b:
            ratios.append(b / a if lower_is_better else a / b)
    return statistics.median(ratios) if ratios else None


def summarize(row, rounds, peers, ours="quire"):
    """The figures of a row's record."""
    engines = {}
    for name in (ours, *peers):
        values = [found["values"][name] for found in rounds if name in found["values"]]
        if values:
            engines[name] = spread(values)
    ratios = {peer: ratio_of(rounds, ours, peer, row.lower_is_better) for peer in peers}
    shares = {}
    for name in sorted({name for found in rounds for name in found["shares"]}):
        shares[name] = statistics.median(found["shares"][name] for found in rounds
                                         if name in found["shares"])
    reads = [rate for found in rounds for rate in found["read_bytes_per_second"]]
    return {"engines": engines,
            "ratios": {peer: ratio for peer, ratio in ratios.items() if ratio is not None},
            **shares,
            "read_bytes_per_second": spread(reads) if reads else None,
            "noisy_rounds": sum(found["noisy"] for found in rounds)}
