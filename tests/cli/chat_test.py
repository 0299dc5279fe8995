"""A chat on a pseudo-terminal with SmolLM2 from the model cache.

    python3 chat_test.py PATH_TO_QUIRE [unittest arguments]
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

QUIRE = sys.argv[1]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from terminal import Terminal  # noqa: E402

MODEL = "smollm2-135m-instruct"
PROMPT = "> "


class ChatTest(unittest.TestCase):
    def start(self, *flags):
        terminal = Terminal([QUIRE, "run", MODEL, "--temp", "0", *flags])
        terminal.wait_for(re.escape(PROMPT))
        return terminal

    def test_a_second_turn_reuses_the_first_ones_entries(self):
        chat = self.start("-n", "24")
        chat.send("Name one colour.\n")
        chat.wait_for(r"\n> ")
        chat.send("Name another.\n")
        chat.wait_for(r"\n> ")
        chat.send("/stats\n")
        stats = chat.wait_for(r"cached\)[^\n]*\n")
        prompt, cached = map(int, re.search(r"(\d+) prompt tokens \((\d+) cached", stats).groups())
        # Only the new message is computed.
        self.assertGreater(cached, 0)
        self.assertLess(prompt - cached, 25)
        chat.send("/exit\n")
        self.assertEqual(chat.end()[1], 0)

    def test_an_interrupt_stops_the_answer_and_not_the_chat(self):
        chat = self.start()
        chat.send("Tell me a very long story about a ship.\n")
        chat.wait_for("ship[^\n]*\n.{30}")
        chat.send("\x03")
        chat.wait_for(r"\n> ", seconds=10)
        chat.send("/reset\n")
        chat.wait_for(r"> ")
        chat.send("\x04")
        self.assertEqual(chat.end()[1], 0)

    def test_a_paste_of_many_lines_is_one_message(self):
        chat = self.start("-n", "4")
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "chat.json"
            chat.send("\x1b[200~first line\nsecond line\nthird line\x1b[201~\n")
            chat.wait_for(r"third line[^>]*\n> ")
            chat.send(f"/save {path}\n")
            chat.wait_for("saved to")
            messages = json.loads(path.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        self.assertEqual(messages[0]["content"], "first line\nsecond line\nthird line")
        chat.send("/exit\n")
        self.assertEqual(chat.end()[1], 0)

    def test_a_full_context_is_said_with_the_numbers(self):
        chat = self.start("-c", "64")
        chat.send("word " * 100 + "\n")
        self.assertIn("context of 64", chat.wait_for("forgets the conversation"))
        chat.send("Count to one hundred.\n")
        self.assertIn("64 tokens is full", chat.wait_for("forgets the conversation"))
        chat.send("/exit\n")
        self.assertEqual(chat.end()[1], 0)

    def test_commands_that_do_not_exist_are_said(self):
        chat = self.start()
        chat.send("/frobnicate\n")
        chat.wait_for("no command /frobnicate")
        chat.send("/help\n")
        chat.wait_for("/system TEXT")
        chat.send("/exit\n")
        self.assertEqual(chat.end()[1], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
