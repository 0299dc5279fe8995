"""The rules of the house that a compiler does not check.

Rooms and who may include whom come from the table in docs/design.md: the document is the data.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("src", "tests", "bench")
CPP_SUFFIXES = (".h", ".cc")
TEXT_SUFFIXES = CPP_SUFFIXES + (".cmake", ".in", ".md", ".py", ".sh", ".txt")
# Files that others wrote, or whose content is input and not ours to phrase.
NOT_OURS = ("tests/golden", "tests/fuzz/corpus", "tests/house/house_test.py")
MAX_COLUMNS = 100

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
ROOM_ROW = re.compile(r"^\| `src/(\w+)` \|[^|]*\|([^|]*)\|$", re.MULTILINE)
# What a comment never says: where the work is planned, and what is left undone.
FORBIDDEN = {
    "an issue or pull request": re.compile(
        r"\b(?:issue|pull request|PR)s? ?#?\d+|(?:^|[\s(])#\d+\b|\bGH-\d+", re.IGNORECASE),
    "a milestone": re.compile(r"\bmilestones?\b", re.IGNORECASE),
    "unfinished work": re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"),
    "whoever asked for it": re.compile(r"\bas requested\b", re.IGNORECASE),
}


def files(folders, suffixes):
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in suffixes and path.is_file() and not name.startswith(NOT_OURS):
                found.append((name, path.read_text(encoding="utf-8")))
    return found


def rooms_of(design):
    """Room -> set of rooms it may include; None stands for any."""
    rooms = {}
    for room, allowed in ROOM_ROW.findall(design):
        words = [word.strip() for word in allowed.split(",")]
        if words == ["anything"]:
            rooms[room] = None
        else:
            rooms[room] = set() if words == ["nothing of ours"] else set(words)
    return rooms


def include_faults(rooms, name, text):
    """Why the includes of src/<room>/... break the table; empty if they do not."""
    room = name.split("/")[1]
    faults = []
    for included in INCLUDE.findall(text):
        other = included.split("/")[0]
        if "/" not in included or other not in rooms:
            faults.append(f'{name}: "{included}" does not begin with a room')
        elif other != room and rooms[room] is not None and other not in rooms[room]:
            faults.append(f'{name}: {room} may not include {other} ("{included}")')
    return faults


def comments_of(name, text):
    """(line number, text) of what may hold a comment."""
    marker = "//" if name.endswith(CPP_SUFFIXES) else "#"
    for number, line in enumerate(text.splitlines(), start=1):
        if name.endswith(".md"):
            yield number, line
        elif marker in line:
            yield number, line.split(marker, 1)[1]


class HouseTest(unittest.TestCase):
    def setUp(self):
        self.rooms = rooms_of((ROOT / "docs/design.md").read_text(encoding="utf-8"))

    def assertNoFaults(self, faults):
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_the_table_of_rooms_is_read(self):
        self.assertEqual(set(), self.rooms["base"])
        self.assertEqual({"kernels", "formats", "tensor", "base"}, self.rooms["models"])
        self.assertIsNone(self.rooms["cli"])
        for allowed in self.rooms.values():
            self.assertLessEqual(allowed or set(), set(self.rooms))

    def test_a_forbidden_include_is_noticed(self):
        faults = include_faults(self.rooms, "src/models/x.cc", '#include "kv/block.h"\n')
        self.assertEqual(['src/models/x.cc: models may not include kv ("kv/block.h")'], faults)
        self.assertEqual([], include_faults(self.rooms, "src/models/x.cc", "#include <vector>\n"))
        self.assertEqual(1, len(include_faults(self.rooms, "src/kv/x.cc", '#include "x.h"\n')))

    def test_rooms_include_only_what_the_table_allows(self):
        faults = []
        for name, text in files(["src"], CPP_SUFFIXES):
            faults += include_faults(self.rooms, name, text)
        self.assertNoFaults(faults)

    def test_every_folder_of_src_is_a_room_with_its_library(self):
        faults = []
        for folder in sorted(path for path in (ROOT / "src").iterdir() if path.is_dir()):
            room = folder.name
            listing = folder / "CMakeLists.txt"
            if room not in self.rooms:
                faults.append(f"src/{room} is not in the table of docs/design.md")
            elif not listing.exists():
                faults.append(f"src/{room} has no CMakeLists.txt")
            elif not re.search(rf"quire_room\(\s*{room}\b|add_library\(\s*quire_{room}\b",
                               listing.read_text(encoding="utf-8")):
                faults.append(f"src/{room}/CMakeLists.txt makes no library quire_{room}")
        self.assertNoFaults(faults)

    def test_headers_say_pragma_once_before_any_code(self):
        faults = []
        for name, text in files(CODE_FOLDERS, (".h",)):
            code = [line for line in text.splitlines()
                    if line.strip() and not line.startswith("//")]
            if not code or code[0] != "#pragma once":
                faults.append(f"{name}: the first line of code must be '#pragma once'")
        self.assertNoFaults(faults)

    def test_lines_fit_in_the_columns(self):
        faults = []
        for name, text in files(CODE_FOLDERS, CPP_SUFFIXES):
            for number, line in enumerate(text.splitlines(), start=1):
                if len(line) > MAX_COLUMNS:
                    faults.append(f"{name}:{number}: {len(line)} columns, {MAX_COLUMNS} allowed")
        self.assertNoFaults(faults)

    def test_no_comment_tells_of_plans(self):
        faults = []
        for name, text in files(CODE_FOLDERS + ("docs", "scripts"), TEXT_SUFFIXES):
            for number, comment in comments_of(name, text):
                for what, pattern in FORBIDDEN.items():
                    if pattern.search(comment):
                        faults.append(f"{name}:{number}: mentions {what}: {comment.strip()}")
        self.assertNoFaults(faults)


if __name__ == "__main__":
    unittest.main()
