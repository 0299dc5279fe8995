"""The commands of a page under docs/, run again, and what the page shows of them held against it.

    python3 page_commands.py PATH_TO_QUIRE PAGE.md            runs all, prints what differs
    python3 page_commands.py PATH_TO_QUIRE PAGE.md --write    and puts the output into the page

A block that is checked is a fence whose first line is a command, behind a comment that says how:

    <!-- check: counts
         lines: first 6, 10-12, last 2
         free: avx\\w+
         in 1.5..40: without \\((\\d+\\.\\d) times\\)
    -->
    ```console
    $ quire explain cache smollm2-135m-instruct -n 16
    (what it prints)
    ```

- `exact`: the lines shown are the lines of the output. `counts`: but for numbers with a decimal
  point, which are measured, and the width of columns. `timed`: but for all numbers.
- `, slow` behind it: not run by the quick part of the test.
- A line `...` stands for lines that are left out; `lines:` says which are kept when the page is
  written, all where it is absent.
- `free: REGEX`: what it matches may differ too, such as the name of the processor's kernels.
- `in LOW..HIGH: REGEX`: the number of its group, or how many times its first group the second is,
  lies in this range, in the page as in the output.

Commands begin with `quire` and go through no shell; they run in the order of the page, in one folder
that is empty at first.

Figures in the text are checked, too: a number of three digits or more stands in a block of the page,
or in an equation in code (`30 * 3 * (64 + 64) * 2 = 23,040`), which is worked out, or in another page
that a comment names (`<!-- given: 128 from numerics.md -->`).
"""

import ast
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

COMMENT = re.compile(r"<!-- check: (.*?)-->\n", re.DOTALL)
FENCE = re.compile(r"```(\w*)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
MODES = ("exact", "counts", "timed")
NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
MEASURED = r"(?:\d{1,3}(?:,\d{3})+|\d+)\.\d+"
GIVEN = re.compile(r"<!-- given: (\S+) from (\S+) -->")
EQUATION = re.compile(r"^([\d\s,.*+/()-]+) = (" + NUMBER + r")(?: \D*)?$")
TIMEOUT_S = 600


class Fault(Exception):
    pass


@dataclasses.dataclass
class Block:
    mode: str
    is_slow: bool
    lines: str  # which are kept; empty = all
    free: list
    ranges: list  # (low, high, regex)
    command: str
    shown: list
    begin: int  # of the fence's content in the page
    end: int

    def arguments(self):
        words = shlex.split(self.command)
        if not words or words[0] != "quire":
            raise Fault(f"not a command of quire: {self.command}")
        for word in words:
            if word in ("|", "||", "&", "&&", ";", ">", "<", ">>"):
                raise Fault(f"no shell runs it: {self.command}")
        return words[1:]


def number_of(text):
    return float(text.replace(",", ""))


def parse_options(text, where):
    """The comment's words as the first fields of a Block."""
    head, *rest = [line.strip() for line in text.strip().splitlines()]
    mode, _, more = (part.strip() for part in head.partition(","))
    if mode not in MODES or more not in ("", "slow"):
        raise Fault(f"{where}: unknown check '{head}'")
    options = {"mode": mode, "is_slow": more == "slow", "lines": "", "free": [], "ranges": []}
    for line in rest:
        name, _, value = (part.strip() for part in line.partition(":"))
        bounds = re.fullmatch(rf"in ({NUMBER})\.\.({NUMBER})", name)
        if name == "lines":
            options["lines"] = value
        elif name == "free":
            options["free"].append(re.compile(value))
        elif bounds:
            options["ranges"].append((number_of(bounds[1]), number_of(bounds[2]),
                                      re.compile(value, re.MULTILINE)))
        elif line:
            raise Fault(f"{where}: unknown option '{line}'")
    return options


def parse_page(text):
    """The checked blocks; a fence that nothing checks is a fault."""
    checks = {match.end(): match for match in COMMENT.finditer(text)}
    blocks = []
    for fence in FENCE.finditer(text):
        where = f"line {text.count(chr(10), 0, fence.start()) + 1}"
        check = checks.pop(fence.start(), None)
        if check is None:
            raise Fault(f"{where}: a block that nothing checks")
        lines = fence[2].splitlines()
        if not lines or not lines[0].startswith("$ "):
            raise Fault(f"{where}: its first line is no command")
        command = [lines.pop(0)[2:]]
        while command[-1].endswith("\\"):
            command[-1] = command[-1][:-1].rstrip()
            command.append(lines.pop(0).strip())
        blocks.append(Block(**parse_options(check[1], where), command=" ".join(command),
                            shown=lines, begin=fence.start(2), end=fence.end(2)))
    if checks:
        raise Fault("a check that no block follows directly")
    return blocks


def run(quire, block, folder, environment=None):
    """Standard output, then standard error, as lines."""
    result = subprocess.run([str(quire), *block.arguments()], capture_output=True, cwd=folder,
                            stdin=subprocess.DEVNULL, timeout=TIMEOUT_S,
                            env=environment or dict(os.environ))
    output = (result.stdout + result.stderr).decode("utf-8", "replace")
    if result.returncode != 0:
        raise Fault(f"$ {block.command}\nended with {result.returncode}:\n{output}")
    return [line.rstrip() for line in output.splitlines()]


def comparable(block, line):
    line = line.rstrip()
    for pattern in block.free:
        line = pattern.sub("~", line)
    if block.mode == "exact":
        return line
    line = re.sub(MEASURED if block.mode == "counts" else NUMBER, "~", line)
    return re.sub(r"[ -]{2,}|\s+", " ", line).strip()


def find(part, lines, start):
    """Where `part` stands in `lines` from `start` on; -1 where it does not."""
    for at in range(start, len(lines) - len(part) + 1):
        if lines[at:at + len(part)] == part:
            return at
    return -1


def compare(block, output):
    """Why the lines shown are not those of the output; empty where they are."""
    shown = [comparable(block, line) for line in block.shown]
    lines = [comparable(block, line) for line in output]
    parts = [[]]
    for line in shown:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for idx, part in enumerate(parts):
        is_last = idx + 1 == len(parts)
        found = find(part, lines, at)
        if found < 0 or (idx == 0 and found != 0):
            return f"does not print\n{chr(10).join(part)}"
        if is_last and idx > 0 and part:
            found = len(lines) - len(part)
            if found < at or lines[found:] != part:
                return f"does not end with\n{chr(10).join(part)}"
        at = found + len(part)
    if len(parts) == 1 and at != len(lines):
        return f"goes on with\n{chr(10).join(lines[at:])}"
    return ""


def check_ranges(block, lines, whose):
    text = "\n".join(lines)
    faults = []
    for low, high, pattern in block.ranges:
        match = pattern.search(text)
        if match is None:
            faults.append(f"{whose} has no {pattern.pattern!r}")
            continue
        values = [number_of(group) for group in match.groups()]
        value = values[1] / values[0] if len(values) == 2 else values[0]
        if not low <= value <= high:
            faults.append(f"{whose}: {value:g} for {pattern.pattern!r}, "
                          f"expected {low:g} to {high:g}")
    return faults


def check(block, output):
    """All that is wrong with a block."""
    faults = check_ranges(block, block.shown, "the page") + check_ranges(block, output, "the run")
    difference = compare(block, output)
    if difference:
        faults.append(difference + "\nbut\n" + "\n".join(output))
    return [f"$ {block.command}\n{fault}" for fault in faults]


def chosen(lines, selection):
    """The lines that a selection such as `first 6, 10-12, last 2` keeps, `...` for the others."""
    if not selection:
        return list(lines)
    keep = set()
    for part in selection.split(","):
        words = re.fullmatch(r"(first|last) (\d+)|(\d+)-(\d+)|(\d+)", part.strip())
        if not words:
            raise Fault(f"lines: unknown '{part.strip()}'")
        if words[1]:
            count = min(int(words[2]), len(lines))
            keep.update(range(count) if words[1] == "first"
                        else range(len(lines) - count, len(lines)))
        else:
            first, last = (int(words[3]), int(words[4])) if words[3] else (int(words[5]),) * 2
            keep.update(range(first - 1, min(last, len(lines))))
    kept = []
    for idx, line in enumerate(lines):
        if idx in keep:
            kept.append(line)
        elif not kept or kept[-1] != "...":
            kept.append("...")
    return kept


def evaluate(text):
    """The value of sums and products of numbers."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp):
            left, right = value(node.left), value(node.right)
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Div):
                return left / right
        raise Fault(f"no sum or product: {text}")
    return value(ast.parse(text.replace(",", "").strip(), mode="eval").body)


def check_text(text, blocks, docs=pathlib.Path()):
    """Figures outside of blocks that nothing on the page produces, and equations that do not hold.

    `docs` is the folder of other pages."""
    known, faults = set(), []
    for number, page in GIVEN.findall(text):
        if not re.search(rf"\b{re.escape(number)}\b", (docs / page).read_text(encoding="utf-8")):
            faults.append(f"{number}: {page} does not have it")
        known.add(number_of(number))
    for block in blocks:
        for line in [block.command] + block.shown:
            known.update(number_of(number) for number in re.findall(NUMBER, line))
    prose = FENCE.sub("", COMMENT.sub("", text))
    prose = re.sub(r"<!--.*?-->", "", prose, flags=re.DOTALL)
    for code in re.findall(r"`([^`\n]+)`", prose):
        equation = EQUATION.match(code)
        if not equation:
            continue
        value, told = evaluate(equation[1]), number_of(equation[2])
        decimals = len(equation[2].partition(".")[2])
        if abs(value - told) > 0.5 * 10 ** -decimals + 1e-9:
            faults.append(f"`{code}`: it is {value:g}")
        known.update(number_of(number) for number in re.findall(NUMBER, code))
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)|https?://\S+", "", prose)
    # A name such as SmolLM2-135M or f16 is no figure.
    for number in re.findall(rf"(?<![\w.-])({NUMBER})(?![\w-])", prose):
        digits = re.sub(r"\D", "", number)
        if len(digits) >= 3 and number_of(number) not in known:
            faults.append(f"{number}: nothing on the page prints it")
    return faults


def main():
    quire, page = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    text = page.read_text(encoding="utf-8")
    blocks = parse_page(text)
    outputs, faults = [], []
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks:
            print(f"$ {block.command}", file=sys.stderr)
            outputs.append(run(quire, block, folder))
    if "--write" in sys.argv[3:]:
        for block, output in reversed(list(zip(blocks, outputs))):
            head = text[block.begin:block.end].splitlines()
            count = len(head) - len(block.shown)
            block.shown = chosen(output, block.lines)
            text = (text[:block.begin] + "\n".join(head[:count] + block.shown) + "\n"
                    + text[block.end:])
        page.write_text(text, encoding="utf-8")
    for block, output in zip(blocks, outputs):
        faults += check(block, output)
    faults += check_text(text, blocks, page.parent)
    print("\n\n".join(faults) or "the page is right")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
