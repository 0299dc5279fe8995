"""The file of results: a JSON line for each row, appended when it is done; and its table.

A row is known by its file, name, threads, kernels and peers. Measured again, its last line counts.
"""

import json

KEY = ("model", "row", "threads", "kernels", "peers")


def key_of(record):
    return tuple(tuple(value) if isinstance(value, list) else value
                 for value in (record[name] for name in KEY))


class Results:
    def __init__(self, path):
        self.path = path
        self.records = {}
        if path.exists():
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                try:
                    record = json.loads(line)
                    self.records[key_of(record)] = record
                except (ValueError, KeyError, TypeError):
                    # Cut off when the run was: that row is measured again.
                    print(f"note: {path}:{number} is no result; it is passed over")

    def has(self, wanted, rounds):
        """Whether the row is there with as many rounds at least."""
        record = self.records.get(key_of(wanted))
        return record is not None and len(record["rounds"]) >= rounds

    def add(self, record):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        cut_off = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("a") as file:
            file.write(("\n" if cut_off else "") + json.dumps(record) + "\n")
        self.records.pop(key_of(record), None)
        self.records[key_of(record)] = record


def number(value, unit):
    return f"{value:.2f}" if unit == "s" else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def cell(record, engine):
    if engine in record["not_measured"]:
        return "not measured"
    found = record["engines"].get(engine)
    if found is None:
        return ""
    unit = record["unit"]
    return (f"{number(found['median'], unit)} ({number(found['lowest'], unit)} to "
            f"{number(found['highest'], unit)})")


def percent(value):
    return "" if value is None else f"{100 * value:.0f} %"


def note(record):
    words = [f"{engine}: {reason}" for engine, reason in record["not_measured"].items()]
    if record["noisy_rounds"]:
        words.append(f"noisy: {record['noisy_rounds']} of {len(record['rounds'])} rounds")
    return "; ".join(words)


def table(records):
    """Markdown, one table for each setting; ratios above 1 are better for Quire."""
    settings = {}
    for record in records:
        settings.setdefault((record["machine"], record["threads"], record["kernels"]),
                            []).append(record)
    text = []
    for (machine, threads, kernels), group in settings.items():
        peers = list(dict.fromkeys(peer for record in group for peer in record["peers"]))
        dates = sorted({record["date"][:10] for record in group})
        text.append(f"{machine}; {threads} threads; {kernels or 'fastest'} kernels; "
                    f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}. Medians (lowest to "
                    "highest) of interleaved rounds; ratio: median of the rounds' ratios, above 1 "
                    "is better for Quire.\n")
        text.append("| file | row | unit | Quire | " + "".join(
            f"{peer} | ratio | " for peer in peers) + "of read bandwidth | of int8 peak | note |")
        text.append("|---|---|---|--:|" + "--:|--:|" * len(peers) + "--:|--:|---|")
        for record in group:
            sides = "".join(
                f"{cell(record, peer)} | "
                f"{format(record['ratios'][peer], '.2f') if peer in record['ratios'] else ''} | "
                for peer in peers)
            text.append(f"| {record['model']} | {record['row']} | {record['unit']} | "
                        f"{cell(record, 'quire')} | {sides}{percent(record.get('share_of_read'))} "
                        f"| {percent(record.get('share_of_int8'))} | {note(record)} |")
        text.append("")
    return "\n".join(text)
