"""Pages that `quire explain --html` writes: they show their data and ask nobody."""

import json
import subprocess

import pytest

import figures
from conftest import QUIRE, SMOLLM2, serve_process

TABS = {"shapes": "model", "roofline": "cost", "growth": "cost"}
LOOKS = {"light": {"color_scheme": "light"}, "dark": {"color_scheme": "dark"},
         "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True}}


def run(*arguments):
    ran = subprocess.run([QUIRE, *map(str, arguments)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def model():
    if not serve_process.model_is_here(SMOLLM2):
        pytest.skip(f"{SMOLLM2} is not in the model cache; quire pull {SMOLLM2} brings it")
    return SMOLLM2


@pytest.fixture(scope="module")
def explained(model, tmp_path_factory):
    """explained(subject, ...): the page and what --json printed beside it, made once."""
    made = {}

    def explain(subject, *arguments):
        if (subject, arguments) not in made:
            file = tmp_path_factory.mktemp("saved") / f"{subject}.html"
            said = json.loads(run("explain", subject, *arguments, "--html", file, "--json"))
            made[subject, arguments] = file, said
        return made[subject, arguments]

    return explain


@pytest.fixture(scope="module")
def trace(model, tmp_path_factory):
    """Two prompts one after the other, of which the second parts from the first."""
    folder = tmp_path_factory.mktemp("trace")
    story = "The lighthouse keeper counted the ships that passed in the night. " * 4
    lines = [{"custom_id": name, "method": "POST", "url": "/v1/completions",
              "body": {"prompt": story + end, "max_tokens": 8, "temperature": 0}}
             for name, end in (("first", "One of them was red."), ("second", "None came back."))]
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("batch", model, prompts, "--parallel", 1, "-c", 512, "--trace", folder / "trace.jsonl")
    return folder / "trace.jsonl"


@pytest.mark.parametrize("text, value, otherwise", [
    ("2.95 s", 2953.711, 2956), ("21.5 ms", 21.53, 21.56), ("92.3 %", .9231, .924),
    ("22.5 KiB", 23040, 23100), ("1 token", 1, 2), ("134,515,008", 134515008, 134515007),
    ("405 Gop/s", 405.4e9, 405.6e9), ("17.3 k", 17280, 17200), ("–", 0, 0)])
def test_a_text_is_compared_as_far_as_it_tells(text, value, otherwise):
    assert figures.rounds(text, value) == (text != "–")
    assert not figures.rounds(text, otherwise)


def data_of(file):
    text = file.read_text()
    begin = text.index(">", text.index('<script id="quire-data"')) + 1
    return json.loads(text[begin:text.index("</script>", begin)])


def open_saved(visit, file, subject, look):
    watched = visit(file.as_uri(), offline=True, **LOOKS[look])
    page = watched.open()
    shown = [tab.get_attribute("data-view") for tab in page.locator("[role=tab]:visible").all()]
    assert shown == [TABS.get(subject, "time")]
    page.wait_for_timeout(500)
    watched.shot(f"saved-{subject}-{look}")
    # What is folded up is shown, too.
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    watched.assert_no_barriers()
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.asked == [file.as_uri()]
    return watched


def curves(watched, label):
    """The points of each set of a chart."""
    return watched.page.evaluate("""(label) => {
      const canvas = [...document.querySelectorAll("canvas")].find(
          (one) => (one.ariaLabel || "").startsWith(label));
      return Chart.getChart(canvas).data.datasets.map(({label, data}) => ({label, data}));
    }""", label)


@pytest.mark.parametrize("look", LOOKS)
def test_saved_shapes_are_those_of_the_model(look, model, explained, visit):
    file, said = explained("shapes", model)
    assert data_of(file) == {"view": "shapes", "shapes": said}
    watched = open_saved(visit, file, "shapes", look)
    assert said["parameters"] == 134515008
    watched.assert_shows(figures.of_shapes(said))

    def shape(dims):
        return f"[{', '.join(f'{dim:,}' for dim in dims)}]"

    stages = [stage for part in said["parts"] for stage in part["stages"]]
    for shown, stage in zip(watched.page.locator(".stage").all(), stages, strict=True):
        load, text = stage["decode"], shown.inner_text()
        arrow = f"{shape(load['in'])} → " if load["in"] else ""
        assert arrow + shape(load["out"]) in text
        assert all(f"{one['name']} {shape(one['shape'])}" in text for one in stage["tensors"])
    watched.page.click("label[for=phase-prefill]")
    watched.assert_shows(figures.of_shapes(said, "prefill"))


@pytest.mark.parametrize("look", LOOKS)
def test_saved_growth_has_the_curves_figures(look, model, explained, visit):
    file, said = explained("growth", model)
    assert data_of(file) == {"view": "growth", "growth": said}
    watched = open_saved(visit, file, "growth", look)
    watched.assert_shows(figures.of_growth(said))
    drawn = [series["bytes"] for series in said["series"] if
             not series["name"].startswith("type_") or
             series["bytes_per_token"] != said["bytes_per_token"]]
    shown = curves(watched, "Bytes of keys and values")[:len(drawn)]
    assert [[point["y"] for point in curve["data"]] for curve in shown] == drawn
    assert all([point["x"] for point in curve["data"]] == said["tokens"] for curve in shown)


@pytest.mark.parametrize("look", LOOKS)
def test_a_saved_roofline_has_the_figures_measured(look, model, explained, visit):
    file, said = explained("roofline", model, "-p", 64, "-n", 4, "-d", "0,128", "-c", 512)
    assert data_of(file) == {"view": "roofline", "roofline": said}
    watched = open_saved(visit, file, "roofline", look)
    for depth in (0, 128):
        watched.page.click(f"label[for=roof-depth-{depth}]")
        watched.page.evaluate("document.querySelector('details').open = true")
        watched.page.wait_for_timeout(200)
        watched.assert_shows(figures.of_roofline(said, depth))
        points = {(curve["label"], point["name"]): (point["x"], point["y"])
                  for curve in curves(watched, "Operations a second")
                  if curve["label"] in ("prefill", "decode") for point in curve["data"]}
        assert points == {
            (one["phase"], one["operators"]): (one["ops_per_byte"], one["ops_per_second"])
            for one in said["points"] if one["depth"] == depth and one["ops"] > 0}


@pytest.mark.parametrize("look", LOOKS)
def test_a_saved_life_adds_up(look, trace, explained, visit):
    file, said = explained("request", "first", "--trace", trace)
    assert data_of(file) == {"view": "request"} | said
    watched = open_saved(visit, file, "request", look)
    watched.assert_shows(figures.of_life(said["requests"][0]))


@pytest.mark.parametrize("look", LOOKS)
def test_a_saved_miss_tells_where_the_prompt_parted(look, trace, explained, visit):
    file, said = explained("miss", "second", "--trace", trace)
    assert data_of(file) == {"view": "miss"} | said
    end = said["requests"][0]["end"]
    assert end["miss"] == "differs"
    assert end["cached_memory"] > 16
    watched = open_saved(visit, file, "miss", look)
    watched.assert_shows(figures.of_life(said["requests"][0]))
    assert end["miss_text"] in watched.page.locator(".life").inner_text()


def test_a_text_of_the_data_ends_no_script(model, explained, visit, tmp_path):
    """A model may be called anything."""
    saved, said = explained("shapes", model)
    text = saved.read_text()
    wicked = "\\u003c/script>\\u003cscript>document.title='owned'\\u003c/script>"
    begin = text.index('<script id="quire-data"')
    file = tmp_path / "shapes.html"
    file.write_text(text[:begin] + text[begin:].replace(json.dumps(said["model"])[1:-1], wicked, 1))
    watched = visit(file.as_uri(), offline=True)
    page = watched.open()
    page.locator(".stage").first.wait_for()
    assert page.title() == "Model · Quire"


def test_damaged_data_make_no_live_page(model, explained, visit, tmp_path):
    text = explained("shapes", model)[0].read_text()
    begin = text.index(">", text.index('<script id="quire-data"')) + 1
    file = tmp_path / "shapes.html"
    file.write_text(text[:begin] + "null" + text[text.index("</script>", begin):])
    watched = visit(file.as_uri(), offline=True)
    page = watched.open()
    page.locator("#notice:visible").wait_for()
    assert "damaged" in page.locator("#notice").inner_text()
    assert page.locator("[role=tab]:visible").count() == 0
    assert watched.asked == [file.as_uri()]
