"""The page of a live server: every view, under load and idle."""

import json
import math
import re
import time

import pytest

import figures
from conftest import QUIRE, SMOLLM2, TINY, get, post, serve_process

VIEWS = {"chat": "#prompt", "cache": ".tree [role=treeitem]", "time": ".lane-box",
         "cost": "[data-field='growth.bytes_per_token']", "model": ".stage"}


def wait_idle(server):
    server.wait_for_metric("vllm:num_requests_running", 0, timeout=120)


def ask(page, text, max_tokens=24, seed=7):
    """Sends a message and waits for its answer; the chunks that came."""
    if not page.locator("#setting-seed").is_visible():
        page.click("summary:has-text('Settings')")
    page.fill("#setting-max-tokens", str(max_tokens))
    page.fill("#setting-seed", str(seed))
    with page.expect_response("**/v1/chat/completions") as said:
        page.fill("#prompt", text)
        page.press("#prompt", "Enter")
    page.locator(".foot [data-field='usage.cached_tokens']").last.wait_for(timeout=120000)
    return chunks_of(said.value)


def chunks_of(response):
    lines = response.text().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def usage_of(chunks):
    return next(chunk["usage"] for chunk in chunks if chunk.get("usage"))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_view_under_load_has_no_barrier(view, scheme, server, load, visit):
    watched = visit(server.url + "/", color_scheme=scheme)
    page = watched.open(view)
    page.locator(VIEWS[view]).first.wait_for(timeout=30000)
    page.wait_for_timeout(600)
    watched.shot(f"{view}-{scheme}")
    watched.assert_no_barriers()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_fits_a_phone(view, server, load, visit):
    watched = visit(server.url + "/", viewport={"width": 360, "height": 740}, has_touch=True)
    page = watched.open(view)
    page.locator(VIEWS[view]).first.wait_for(timeout=30000)
    page.wait_for_timeout(400)
    watched.shot(f"{view}-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    watched.assert_no_barriers()


def test_a_token_tells_its_probability_its_alternatives_and_its_cost(server, visit):
    watched = visit(server.url + "/")
    page = watched.open("chat")
    chunks = ask(page, "Name a colour and say why you like it.")
    usage = usage_of(chunks)
    entries = [entry for chunk in chunks for choice in chunk["choices"]
               if choice.get("logprobs") for entry in choice["logprobs"]["content"]]
    assert watched.number("usage.cached_tokens") == usage["prompt_tokens_details"]["cached_tokens"]
    assert watched.number("usage.prompt_tokens") == usage["prompt_tokens"]
    assert page.locator("button.token").count() == len(entries)

    page.locator("button.token").nth(4).click()
    assert math.isclose(watched.number("token.probability"), entries[4]["logprob"])
    best = entries[4]["top_logprobs"]
    if entries[4]["token"] in [other["token"] for other in best]:
        for rank, other in enumerate(best):
            assert math.isclose(watched.number(f"alternative.{rank}"), other["logprob"])
    assert watched.number("token.position") == usage["prompt_tokens"] + 4
    assert watched.number("token.step_tokens") >= 1
    assert watched.number("token.since_ms") > 0
    watched.shot("chat-token")
    watched.assert_no_barriers()


def test_a_branch_shares_what_stands_before_it(server, visit):
    watched = visit(server.url + "/")
    page = watched.open("chat")
    prompt_tokens = usage_of(ask(page, "Tell me of the sea."))["prompt_tokens"]
    page.locator("button.token").nth(6).click()
    with page.expect_response("**/v1/completions") as said:
        page.locator(".alternative:not(.chosen) button").first.click()
    page.locator(".foot [data-field='usage.cached_tokens']").last.wait_for(timeout=120000)
    usage = usage_of(chunks_of(said.value))
    # The answer up to there, with the token chosen: all but that one have their keys.
    assert usage["prompt_tokens"] == prompt_tokens + 7
    assert usage["prompt_tokens_details"]["cached_tokens"] == prompt_tokens + 6
    assert watched.number("usage.cached_tokens") == prompt_tokens + 6
    assert page.locator("button.token.shared").count() == 6
    page.locator("summary:has-text('The prompt')").click()
    assert watched.number("prompt.memory") == prompt_tokens + 6
    assert watched.number("prompt.computed") == 1
    watched.shot("chat-branch")
    watched.assert_no_barriers()


def test_prompt_tokens_from_the_disk_are_marked(visit, tmp_path):
    if not serve_process.model_is_here(SMOLLM2):
        pytest.skip(f"{SMOLLM2} is not in the model cache")
    text = "Tell the story again. " + "The lighthouse stood upon a rock in the sea. " * 50
    flags = ("-c", "2048", "--kv-size", "256MiB", "--kv-disk", tmp_path / "kv")
    with serve_process.ServeProcess(QUIRE, SMOLLM2, *flags) as first:
        post(first, "/v1/chat/completions",
             {"messages": [{"role": "user", "content": text}], "max_tokens": 2})
    with serve_process.ServeProcess(QUIRE, SMOLLM2, *flags) as second:
        watched = visit(second.url + "/")
        page = watched.open("chat")
        tiers = usage_of(ask(page, text, max_tokens=4))["quire"]["cached_by_tier"]
        assert tiers["disk"] > 100
        page.locator("summary:has-text('The prompt')").click()
        assert watched.number("prompt.disk") == tiers["disk"]
        assert page.locator(".tokens.prompt span.token.disk").count() == tiers["disk"] + 1  # legend
        watched.shot("chat-disk")


def test_a_text_goes_on_without_a_chat(visit):
    with serve_process.ServeProcess(QUIRE, TINY) as tiny:
        watched = visit(tiny.url + "/")
        page = watched.open("chat")
        page.click("summary:has-text('Settings')")
        page.click("label[for=form-text]")
        page.fill("#setting-max-tokens", "8")
        page.fill("#prompt", "a b c")
        page.press("#prompt", "Enter")
        page.locator(".foot [data-field='usage.cached_tokens']").wait_for(timeout=30000)
        assert page.locator("button.token").count() == watched.number("usage.completion_tokens")


def test_the_cache_view_shows_what_the_api_says(server, load, visit):
    watched = visit(server.url + "/")
    page = watched.open("cache")
    page.locator(VIEWS["cache"]).first.wait_for(timeout=30000)
    page.wait_for_timeout(1500)
    load.stop()
    wait_idle(server)
    page.wait_for_timeout(1000)
    # The map has followed by events alone what it is compared with.
    for name, blocks in get(server, "/quire/cache")["blocks"].items():
        if name != "total":
            assert watched.number(f"blocks.{name}") == blocks, name
    asked = [url for url in watched.asked if url.endswith("/quire/blocks")]
    assert len(asked) == 1, "the block map polls"


def test_the_map_knows_from_the_start_what_tiers_hold(server, visit):
    def in_tiers():
        return sum(held > 0 for held in get(server, "/quire/blocks")["blocks"]["tiers"])

    post(server, "/v1/completions", {"prompt": "Ships pass by night. " * 20, "max_tokens": 2})
    wait_idle(server)
    # What memory alone holds is written once nothing else is done.
    deadline, stored, before = time.monotonic() + 60, in_tiers(), -1
    while stored == 0 or stored != before:
        assert time.monotonic() < deadline
        time.sleep(2)
        stored, before = in_tiers(), stored

    watched = visit(server.url + "/")
    page = watched.open("cache")
    assert watched.number("blocks.in_tiers") == stored
    blocks = get(server, "/quire/blocks")["blocks"]
    first = next(i for i, held in enumerate(blocks["tiers"]) if held)
    page.click("label[for=map-mode-tier]")
    page.focus("canvas.map")
    page.keyboard.press("Home")
    for _ in range(first):
        page.keyboard.press("ArrowRight")
    assert "a copy on disk" in page.locator(".about").inner_text()
    watched.shot("cache-tiers")


def test_an_idle_page_asks_nothing(server, visit):
    wait_idle(server)
    watched = visit(server.url + "/")
    page = watched.open("cache")
    page.locator(VIEWS["cache"]).first.wait_for(timeout=30000)
    page.wait_for_timeout(4500)  # longer than the tree's pause
    before = len(watched.asked)
    page.wait_for_timeout(3000)
    assert watched.asked[before:] == []


def test_the_model_view_shows_what_the_api_says(server, visit):
    watched = visit(server.url + "/")
    page = watched.open("model")
    page.locator(VIEWS["model"]).first.wait_for(timeout=30000)
    model = get(server, "/quire/model")
    watched.assert_shows(figures.of_shapes(model))
    shown = [stage.get_attribute("data-stage") for stage in page.locator(".stage").all()]
    assert shown == [stage["name"] for part in model["parts"] for stage in part["stages"]]


def test_the_cost_view_shows_what_the_api_says(server, visit):
    watched = visit(server.url + "/")
    page = watched.open("cost")
    growth = get(server, "/quire/growth")
    watched.number("growth.bytes_per_token")
    page.click(".card:has-text('How the cache grows') summary")
    watched.assert_shows(figures.of_growth(growth), "growth.")

    page.select_option("#plan-preset", "qwen-7b")
    page.fill("#plan-context", "2048")
    page.fill("#plan-memory", "24GiB")
    with page.expect_response("**/quire/plan?preset=qwen-7b&context=2048&sequences=1&memory=24GiB"):
        page.click("button.primary:has-text('Plan')")
    page.locator("[data-field='plan.fits.sequences']").wait_for()
    plan = get(server, "/quire/plan?preset=qwen-7b&context=2048&memory=24GiB")
    assert watched.number("plan.memory.total_bytes") == plan["memory"]["total_bytes"]
    assert watched.number("plan.fits.sequences") == plan["fits"]["sequences"]
    assert watched.number("plan.fits.largest_context") == plan["fits"]["largest_context"]

    naive = [watched.number(f"note.{context}.naive") for context in (512, 2048, 4096, 8192)]
    assert naive == [48, 12, 6, 3]
    real = [watched.number(f"note.{context}.real") for context in (512, 2048, 4096, 8192)]
    assert real == [34, 8, 4, 2]

    page.click("button:has-text('Measure this machine')")
    page.locator("[data-field='roofline.weights']").wait_for(timeout=180000)
    roofline = get(server, "/quire/roofline")
    page.click(".card:has-text('Under the roofs') summary")
    depth = roofline["points"][0]["depth"]
    watched.assert_shows(figures.of_roofline(roofline, depth), "roofline.")
    watched.shot("cost-roofline")
    watched.assert_no_barriers()


def test_everything_goes_by_keys(server, load, visit):
    watched = visit(server.url + "/")
    page = watched.open("chat")
    page.focus("#tab-chat")
    page.keyboard.press("ArrowRight")
    page.locator(VIEWS["cache"]).first.wait_for(timeout=30000)
    page.focus("canvas.map")
    page.keyboard.press("ArrowRight")
    assert "Block 1:" in page.locator(".about").inner_text()
    page.locator(".tree [role=treeitem]").first.focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "treeitem"

    page.focus("#tab-cache")
    page.keyboard.press("ArrowRight")
    page.locator(VIEWS["time"]).wait_for()
    page.locator(".lane-box").focus()
    page.keyboard.press("ArrowDown")
    page.locator(".life h4").wait_for()
    page.keyboard.press("Tab")
    watched.shot("time-chosen")

    page.focus("#tab-time")
    page.keyboard.press("Home")
    ask(page, "Count to five.", max_tokens=12)
    page.locator("button.token").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("aside.panel").is_visible()


def test_a_thousand_requests_do_not_slow_the_lanes(browser, visit):
    with serve_process.ServeProcess(QUIRE, TINY) as tiny:
        watched = visit(tiny.url + "/")
        page = watched.open("time")
        watched.number("status.running")  # a snapshot that came later would have the last 200
        for _ in range(50):
            post(tiny, "/v1/completions", {"prompt": ["a"] * 20, "max_tokens": 2})
            time.sleep(.03)  # of more events at once than a batch has, the oldest are not told
        # The page's policy has no eval, so it is looked at from here.
        deadline = time.monotonic() + 60
        while watched.number("requests.seen") < 1000:
            assert time.monotonic() < deadline
            page.wait_for_timeout(100)
        page.click("button:has-text('All')")
        page.wait_for_timeout(500)
        # As often as a frame while the lanes scroll; the median, for others use the machine too.
        times = page.evaluate("""async () => {
          const box = document.querySelector('.lane-box');
          const times = [];
          for (let i = 0; i < 60; i += 1) {
            const before = performance.now();
            box.scrollTop = i * 300;
            await new Promise(requestAnimationFrame);
            await new Promise((done) => setTimeout(done));
            times.push(performance.now() - before);
          }
          return times.sort((a, b) => a - b);
        }""")
        assert times[30] < 50, times
        watched.shot("time-thousand")


def test_a_key_is_asked_for_and_used(visit):
    with serve_process.ServeProcess(QUIRE, TINY, environment={"QUIRE_API_KEY": "sk-right-one"},
                                    key="sk-right-one") as guarded:
        watched = visit(guarded.url + "/", may_log=("401",))
        page = watched.open("cache")
        page.locator("#key-form").wait_for()
        assert "key" in page.locator("#key-message").inner_text().lower()
        watched.shot("key")
        watched.assert_no_barriers()
        page.fill("#key", "sk-right-one")
        page.press("#key", "Enter")
        page.locator("[data-field='blocks.free']").wait_for(timeout=20000)
        assert watched.number("blocks.free") == get(guarded, "/quire/cache")["blocks"]["free"]


def test_a_server_that_is_gone_is_told_and_found_again(visit):
    with serve_process.ServeProcess(QUIRE, TINY) as tiny:
        watched = visit(tiny.url + "/", may_log=("ERR_CONNECTION", "ERR_INCOMPLETE"))
        page = watched.open("cache")
        page.locator(".status[data-state=open]").wait_for()
        tiny.stop()
        page.locator(".status[data-state=retrying]").wait_for(timeout=20000)
        time.sleep(0.1)
        page.locator("#notice:visible").wait_for(timeout=20000)


def send(page, text):
    """Sends a message and gives the body that went out."""
    with page.expect_request("**/v1/chat/completions") as sent:
        page.fill("#prompt", text)
        page.press("#prompt", "Enter")
    return sent.value.post_data_json


def test_a_message_that_failed_is_taken_back_and_not_sent_again(server, visit):
    watched = visit(server.url + "/", may_log=("400",))
    page = watched.open("chat")
    page.click("summary:has-text('Settings')")
    page.fill("#setting-max-tokens", "4")
    page.fill("#setting-temperature", "9")
    send(page, "first")
    page.locator(".turn.unsent").wait_for(timeout=20000)
    assert "Not sent" in page.locator(".turn.unsent").inner_text()
    assert "temperature" in page.locator(".turn .error").inner_text()
    assert page.input_value("#prompt") == "first"
    watched.shot("chat-not-sent")
    watched.assert_no_barriers()

    page.fill("#setting-temperature", "0")
    assert send(page, "second")["messages"] == [{"role": "user", "content": "second"}]
    page.locator(".foot [data-field='usage.cached_tokens']").wait_for(timeout=60000)
    assert page.input_value("#prompt") == ""
    sent = send(page, "third")["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert [sent[0]["content"], sent[2]["content"]] == ["second", "third"]
    page.locator(".foot [data-field='usage.cached_tokens']").nth(1).wait_for(timeout=60000)

    # Neither is what was stopped before anything came.
    send(page, "The ship sails on. " * 300)
    page.click("button:has-text('Stop')")
    page.locator(".turn.unsent:has-text('Taken back')").wait_for(timeout=20000)
    assert page.input_value("#prompt").startswith("The ship sails on.")

    # A branch that fails leaves the answer that it left.
    answer = sent[1]["content"]
    page.fill("#setting-temperature", "9")
    page.locator(".turn.model").nth(1).locator("button.token").nth(2).click()
    page.locator(".alternative:not(.chosen) button").first.click()
    page.locator(".turn.model .error").nth(1).wait_for(timeout=20000)
    page.fill("#setting-temperature", "0")
    sent = send(page, "fourth")["messages"]
    assert [message["content"] for message in sent] == ["second", answer, "fourth"]


def test_an_answer_that_breaks_off_is_kept_and_what_is_shown_has_its_time(visit):
    if not serve_process.model_is_here(SMOLLM2):
        pytest.skip(f"{SMOLLM2} is not in the model cache")
    with serve_process.ServeProcess(QUIRE, SMOLLM2, "-c", "2048", "--kv-size",
                                    "256MiB") as running:
        watched = visit(running.url + "/", may_log=("ERR_CONNECTION", "ERR_INCOMPLETE"))
        page = watched.open("time")
        assert watched.number("status.running") == 0
        assert "as of" not in page.locator(".tiles:visible").inner_text()
        page.click("#tab-chat")
        page.click("summary:has-text('Settings')")
        page.fill("#setting-max-tokens", "2000")
        send(page, "Tell a very long story about a lighthouse, in twenty chapters.")
        page.locator("button.token").nth(8).wait_for(timeout=60000)
        running.kill()
        page.locator(".turn .error").wait_for(timeout=20000)
        assert "the server is gone" in page.locator(".turn .error").inner_text()
        assert "kept" in page.locator(".turn .error").inner_text()
        assert page.locator("button.token").count() > 8
        assert page.locator(".turn.unsent").count() == 0
        page.click("#tab-time")
        page.locator(".tile:has-text('Running') dd.muted").wait_for(timeout=20000)
        said = page.locator(".tile:has-text('Running')").inner_text()
        assert re.search(r"as of \d\d:\d\d:\d\d", said), said
        watched.shot("time-gone")
        watched.assert_no_barriers()
