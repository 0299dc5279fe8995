"""What the page makes of events that come late, twice or not at all."""

import pytest

from conftest import QUIRE, TINY, get, post, serve_process


@pytest.fixture
def tiny():
    with serve_process.ServeProcess(QUIRE, TINY) as running:
        yield running


def open_heard(visit, tiny, view):
    """The page once a snapshot has come."""
    watched = visit(tiny.url + "/")
    watched.open("time")
    watched.number("status.running")
    watched.open(view)
    return watched


def test_a_lost_token_shifts_no_other_tokens_cost(tiny, visit):
    page = open_heard(visit, tiny, "time").page
    costs = page.evaluate("""() => {
      const costs = App.live.watch("lossy");
      const token = (position, ms) => ({event: "token", request: 900, position, ms});
      const step = (step, ms) => ({event: "step", step, ms, num_tokens: step,
                                   lines: [{request: 900, action: "decode", num_tokens: 1}]});
      App.live.take("events", [{event: "request", request: 900, name: "lossy", ms: 1},
                               step(1, 2), token(20, 10), step(2, 11), token(21, 14)]);
      App.live.take("events", [{event: "dropped", count: 2}, token(23, 40), step(4, 41),
                               token(24, 45)]);
      return [...costs.tokens].map(
          ([at, one]) => [at, one.sinceMs, one.step ? one.step.step : null]);
    }""")
    assert costs == [[20, None, 1], [21, 4, 2], [23, None, None], [24, 5, 4]]


def test_blocks_that_change_while_they_are_asked_for_are_not_lost(tiny, visit):
    watched = visit(tiny.url + "/")

    def answer_late(route):
        before = route.fetch()
        post(tiny, "/v1/completions", {"prompt": "a b c d e f " * 20, "max_tokens": 2})
        watched.page.wait_for_timeout(600)  # its events are there long before the answer
        route.fulfill(response=before)

    watched.page.route("**/quire/blocks", answer_late)
    page = watched.open("cache")
    watched.number("blocks.cached")
    page.wait_for_timeout(500)
    said = get(tiny, "/quire/cache")["blocks"]
    assert said["cached"] > 0
    assert watched.number("blocks.cached") == said["cached"]
    assert watched.number("blocks.free") == said["free"]


def test_lost_events_ask_for_the_blocks_once_a_second_at_most(tiny, visit):
    watched = open_heard(visit, tiny, "cache")
    watched.number("blocks.free")
    before = len([url for url in watched.asked if url.endswith("/quire/blocks")])
    watched.page.evaluate("""async () => {
      for (let i = 0; i < 15; i += 1) {
        App.live.take("events", [{event: "dropped", count: 1}]);
        await new Promise((done) => setTimeout(done, 50));
      }
    }""")
    watched.page.wait_for_timeout(1500)
    asked = len([url for url in watched.asked if url.endswith("/quire/blocks")]) - before
    assert 1 <= asked <= 2


def test_a_block_that_others_share_stays_with_its_owner(tiny, visit):
    watched = open_heard(visit, tiny, "cache")
    watched.number("blocks.free")
    owners = watched.page.evaluate("""() => {
      const map = new BlockMap();
      map.set({num_blocks: 4, block_slots: 16, now_ms: 1, groups: [0], tiers: [], blocks: {
        state: "", references: [], filled: [], group: [], request: [], age_ms: [], tiers: []}});
      const lines = [{sequence: 1, request: 11}, {sequence: 2, request: 12}];
      const change = (change, sequence, references) =>
          ({event: "block", change, sequence, references, ms: 2, findable: true});
      map.take([{event: "step", lines}]);
      const owners = [];
      for (const event of [change("allocate", 1, 1), change("share", 2, 2),
                           change("release", 1, 1), change("release", 2, 0)]) {
        map.take([event]);
        owners.push(map.request[0]);
      }
      return owners;
    }""")
    assert owners == [11, 11, 0, 0]


def test_times_that_an_end_does_not_tell_are_in_no_median(tiny, visit):
    watched = open_heard(visit, tiny, "time")
    watched.page.evaluate("""() => {
      const end = (request, rest) =>
          ({event: "end", request, ms: 90, completion_tokens: 3, ...rest});
      const asked = (request, num_choices) => ({event: "request", request, ms: 1, num_choices});
      App.live.take("events", [asked(901, 1), end(901, {}), asked(902, 1),
                               end(902, {decode_ms: 40}), asked(903, 2),
                               end(903, {decode_ms: 400})]);
    }""")
    assert watched.number("requests.tpot_ms") == 20
