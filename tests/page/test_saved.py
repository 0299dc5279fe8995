"""Pages that `quire explain --html` writes: they show their data and ask nobody."""

import json
import subprocess

import pytest

from conftest import QUIRE, SMOLLM2, serve_process

TABS = {"shapes": "model", "roofline": "cost", "growth": "cost"}


def explain(*arguments):
    ran = subprocess.run([QUIRE, "explain", *map(str, arguments)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def model():
    if not serve_process.model_is_here(SMOLLM2):
        pytest.skip(f"{SMOLLM2} is not in the model cache; quire pull {SMOLLM2} brings it")
    return SMOLLM2


def open_saved(visit, file, subject):
    watched = visit(file.as_uri(), offline=True)
    page = watched.open()
    shown = [tab.get_attribute("data-view") for tab in page.locator("[role=tab]:visible").all()]
    assert shown == [TABS.get(subject, "time")]
    page.wait_for_timeout(500)
    watched.shot(f"saved-{subject}")
    watched.assert_no_barriers()
    assert watched.asked == [file.as_uri()]
    return watched


def test_saved_shapes_are_those_of_the_model(model, visit, tmp_path):
    file = tmp_path / "shapes.html"
    explain("shapes", model, "--html", file)
    watched = open_saved(visit, file, "shapes")
    said = json.loads(explain("shapes", model, "--json"))
    assert watched.number("model.parameters") == said["parameters"] == 134515008


def test_saved_growth_has_the_curves_figures(model, visit, tmp_path):
    file = tmp_path / "growth.html"
    explain("growth", model, "--html", file)
    watched = open_saved(visit, file, "growth")
    said = json.loads(explain("growth", model, "--json"))
    assert watched.number("growth.bytes_per_token") == said["bytes_per_token"]


def test_a_saved_life_adds_up(model, visit, tmp_path):
    trace, file = tmp_path / "run.jsonl", tmp_path / "request.html"
    ran = subprocess.run([QUIRE, "run", model, "-p", "Say hello.", "-n", "8", "--trace", trace],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    request = next(json.loads(line)["request"] for line in trace.read_text().splitlines()
                   if json.loads(line)["event"] == "request")
    explain("request", request, "--trace", trace, "--html", file)
    watched = open_saved(visit, file, "request")
    said = json.loads(explain("request", request, "--trace", trace, "--json"))
    assert watched.number("end.total_ms") == said["requests"][0]["end"]["total_ms"]
    assert watched.page.locator(".life tbody tr").count() == len(said["requests"][0]["spans"])


def test_a_text_of_the_data_ends_no_script(browser, model, visit, tmp_path):
    """A model may be called anything."""
    file = tmp_path / "shapes.html"
    explain("shapes", model, "--html", file)
    text = file.read_text()
    name = json.loads(explain("shapes", model, "--json"))["model"]
    wicked = "\\u003c/script>\\u003cscript>document.title='owned'\\u003c/script>"
    begin = text.index('<script id="quire-data"')
    file.write_text(text[:begin] + text[begin:].replace(json.dumps(name)[1:-1], wicked, 1))
    watched = visit(file.as_uri(), offline=True)
    page = watched.open()
    page.locator(".stage").first.wait_for()
    assert page.title() == "Model · Quire"


def test_damaged_data_make_no_live_page(model, visit, tmp_path):
    file = tmp_path / "shapes.html"
    explain("shapes", model, "--html", file)
    text = file.read_text()
    begin = text.index(">", text.index('<script id="quire-data"')) + 1
    file.write_text(text[:begin] + "null" + text[text.index("</script>", begin):])
    watched = visit(file.as_uri(), offline=True)
    page = watched.open()
    page.locator("#notice:visible").wait_for()
    assert "damaged" in page.locator("#notice").inner_text()
    assert page.locator("[role=tab]:visible").count() == 0
    assert watched.asked == [file.as_uri()]
