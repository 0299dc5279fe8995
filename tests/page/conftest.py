"""A browser, servers and load for the tests of the page.

    QUIRE=build/release/quire QUIRE_CACHE=... python -m pytest tests/page

Whatever a page logs as an error, and every request of it, is kept; a test in which something was
logged, or in which a request left for another host than its server's, fails.
"""

import json
import os
import pathlib
import sys
import threading
import urllib.parse
import urllib.request

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import figures  # noqa: E402
import serve_process  # noqa: E402

QUIRE = pathlib.Path(os.environ.get("QUIRE", HERE.parents[1] / "build" / "release" / "quire"))
SCREENSHOTS = pathlib.Path(os.environ.get("QUIRE_SCREENSHOTS", "build/page-screenshots"))
CHROMIUM = pathlib.Path("/usr/bin/chromium")
SMOLLM2 = "smollm2-135m-instruct"
TINY = HERE.parent / "golden" / "models" / "tiny-llama.gguf"


def post(server, path, body):
    headers = {"Content-Type": "application/json"}
    if server.key:
        headers["Authorization"] = f"Bearer {server.key}"
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.loads(reply.read())


def get(server, path):
    return json.loads(server.get(path, timeout=120))


class Load:
    """A few clients that ask one after another, with a beginning in common."""

    def __init__(self, server, num_clients=2):
        self.server, self.stops, self.faults, self.answered = server, threading.Event(), [], 0
        self.threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(num_clients)]
        for thread in self.threads:
            thread.start()

    def _ask(self, client):
        turn = 0
        while not self.stops.is_set():
            turn += 1
            body = {"messages": [{"role": "user", "content": f"Client {client}, question {turn}: "
                                  "why do ships float on water and stones do not?"}],
                    "max_tokens": 12}
            try:
                post(self.server, "/v1/chat/completions", body)
                self.answered += 1
            except OSError as fault:
                self.faults.append(fault)
                return

    def stop(self):
        self.stops.set()
        for thread in self.threads:
            thread.join()
        assert not self.faults, self.faults


class Watched:
    """A page, and what it logs and asks for."""

    def __init__(self, browser, url, **options):
        options = {"viewport": {"width": 1280, "height": 900}} | options
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.url, self.logged, self.asked = url, [], []
        self.page.on("console", lambda message: message.type in ("error", "warning") and
                     self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, view=""):
        self.page.goto(f"{self.url}#{view}" if view else self.url)
        return self.page

    def shot(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.evaluate("scrollTo(0, 0)")
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def assert_no_barriers(self):
        """axe's rules, contrast among them."""
        found = Axe().run(self.page).response["violations"]
        assert not found, "\n".join(
            f"{one['id']}: {one['help']}: {one['nodes'][0]['html']} "
            f"{one['nodes'][0].get('failureSummary', '')}" for one in found)

    def number(self, field):
        """The value behind a number that is shown."""
        shown = self.page.locator(f"[data-field='{field}']:visible").first
        shown.wait_for(timeout=20000)
        return float(shown.get_attribute("data-value"))

    def figures(self):
        """All numbers of the view that is shown: field -> (value, text)."""
        shown = self.page.evaluate("""() => {
          const view = document.querySelector("[role=tabpanel]:not([hidden])");
          return [...view.querySelectorAll("[data-field]")].map(
              (one) => [one.dataset.field, Number(one.dataset.value), one.innerText]);
        }""")
        fields = [field for field, _, _ in shown]
        assert len(set(fields)) == len(fields), "a field is shown twice"
        return {field: (value, text) for field, value, text in shown}

    def assert_shows(self, expected, of=""):
        """Of the fields that begin so: these and no others, each with a text that is its value."""
        shown = {field: one for field, one in self.figures().items() if field.startswith(of)}
        assert {field: value for field, (value, _) in shown.items()} == expected
        wrong = {field: one for field, one in shown.items() if not figures.rounds(one[1], one[0])}
        assert not wrong, wrong
        assert of or self.unproven() == []

    def unproven(self):
        """Texts of tiles and of columns of numbers that are numbers without a field."""
        return self.page.evaluate("""() => {
          const view = document.querySelector("[role=tabpanel]:not([hidden])");
          return [...view.querySelectorAll("td.right, .tile dd:not(.small)")]
              .filter((one) => /\\d/.test(one.innerText) && !one.querySelector("[data-field]"))
              .map((one) => one.innerText);
        }""")

    def strangers(self):
        host = urllib.parse.urlsplit(self.url).netloc
        return [url for url in self.asked if urllib.parse.urlsplit(url).scheme not in
                ("data", "blob", "file") and urllib.parse.urlsplit(url).netloc != host]


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing; scripts/apt-page-packages.txt names its package")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """SmolLM2 with a disk tier."""
    if not serve_process.model_is_here(SMOLLM2):
        pytest.skip(f"{SMOLLM2} is not in the model cache; quire pull {SMOLLM2} brings it")
    disk = tmp_path_factory.mktemp("kv") / "kv"
    with serve_process.ServeProcess(QUIRE, SMOLLM2, "-c", "2048", "--kv-size", "256MiB",
                                    "--kv-disk", disk) as running:
        yield running


@pytest.fixture
def load(server):
    running = Load(server)
    yield running
    running.stop()


@pytest.fixture
def visit(browser):
    """Opens watched pages; none of them may log anything or ask another host."""
    opened = []

    def open_page(url, may_log=(), **options):
        watched = Watched(browser, url, **options)
        watched.may_log = may_log
        opened.append(watched)
        return watched

    yield open_page
    for watched in opened:
        logged = [text for text in watched.logged
                  if not any(allowed in text for allowed in watched.may_log)]
        strangers = watched.strangers()
        watched.context.close()
        assert not logged, logged
        assert not strangers, strangers
