"use strict";
// The second view: what lies in the cache, who holds it, how much of the prompts came out of it,
// and where a prompt parted from what was there.
const Cache = (() => {
  const kTreePauseMs = 3000;  // between two looks at the tree while it changes
  const kBlocksPauseMs = 1000;
  let map = null;
  let tree = null;
  let counters = null;
  let treeTimer = 0;
  let asking = null;  // the fetch of the blocks in flight: {batches of events since, isOld}
  let asksAgain = false;
  let askedMs = -Infinity;
  let blocksTimer = 0;
  let isShown = false;
  const figures = Dom.make("dl", {class: "tiles"});
  const hits = Dom.make("div", {});
  const misses = Dom.make("div", {});
  const parting = Dom.make("div", {class: "parting", role: "status"});
  const error = Dom.make("p", {class: "error", role: "alert", hidden: true});

  function build(root) {
    map = new BlockMap();
    tree = new PrefixTree();
    const refresh =
        Dom.make("button", {type: "button", class: "small", onclick: fetchTree}, "Look again");
    Dom.fill(
        root, Dom.make("h2", {}, "Cache"),
        Dom.make(
            "p", {class: "lead"},
            "Keys and values lie in blocks of 16 tokens. What prompts have in common is " +
                "computed once and held once."),
        error, figures,
        Dom.card(
            "Blocks",
            Dom.choice(
                "map-mode", "Colour by",
                [["owner", "Owner"], ["shared", "Holders"], ["tier", "Tier"], ["age", "Age"]],
                map.mode, (mode) => map.colorBy(mode)),
            map.box, map.legend, map.about),
        Dom.card("Prefix tree", Dom.make("div", {class: "row"}, tree.note, refresh), tree.list),
        Dom.card("Where prompts came from", hits),
        Dom.card("Misses: where a prompt parted from the cache", misses, parting));
  }

  async function shown() {
    isShown = true;
    // The blocks come with the snapshot that opens a stream with their changes: so none is lost.
    await Promise.all([fetchTree(), fetchCounters()]);
    drawRequests();
  }

  function hiddenAgain() {
    isShown = false;
    clearTimeout(treeTimer);
    treeTimer = 0;
    clearTimeout(blocksTimer);
    blocksTimer = 0;
    asksAgain = false;
  }

  function tellError(what) {
    error.hidden = what === null;
    error.textContent = what ? what.message : "";
  }

  // One fetch at a time, and one a second.
  function wantBlocks() {
    if (asking) asksAgain = true;
    if (asking || blocksTimer) return;
    const pause = Math.max(0, askedMs + kBlocksPauseMs - performance.now());
    blocksTimer = setTimeout(() => {
      blocksTimer = 0;
      fetchBlocks();
    }, pause);
  }

  // Events that come before the answer may be of after it: they are taken once more. Each tells a
  // block's state as a whole, so that what the answer knew of already does no harm.
  async function fetchBlocks() {
    const mine = {batches: [], isOld: false};
    asking = mine;
    askedMs = performance.now();
    try {
      const body = await Api.get("/quire/blocks");
      if (!mine.isOld) {
        map.set(body);
        for (const batch of mine.batches) map.take(batch);
        tellError(null);
        drawFigures();
      }
    } catch (what) {
      if (!mine.isOld) tellError(what);
    }
    asking = null;
    if (asksAgain && isShown) wantBlocks();
    asksAgain = false;
  }

  async function fetchTree() {
    try {
      tree.set(await Api.get("/quire/tree?limit=500"));
    } catch (what) {
      tellError(what);
    }
  }

  async function fetchCounters() {
    try {
      counters = await Api.get("/quire/cache");
      drawFigures();
    } catch (what) {
      tellError(what);
    }
  }

  function drawFigures() {
    if (!map.body) return;
    const counts = map.counts();
    const bytes = map.body.block_bytes;
    const tile = (label, name, n) =>
        Dom.tile(label, Dom.number(`blocks.${name}`, n, Format.count(n)), Format.bytes(n * bytes));
    const found = counters ? counters.prefix_cache : null;
    Dom.fill(
        figures, tile("Used blocks", "used", counts.u), tile("Cached blocks", "cached", counts.c),
        tile("Free blocks", "free", counts.f),
        map.body.tiers.length ? tile("Also in a tier", "in_tiers", counts.inTiers) : null,
        found && found.tokens_looked_up ?
            Dom.tile(
                "Found, since the start",
                Dom.number(
                    "prefix_cache.hit_rate", found.tokens_found / found.tokens_looked_up,
                    Format.percent(found.tokens_found / found.tokens_looked_up)),
                [
                  Dom.number(
                      "prefix_cache.tokens_found", found.tokens_found,
                      Format.count(found.tokens_found)),
                  " of ",
                  Dom.number(
                      "prefix_cache.tokens_looked_up", found.tokens_looked_up,
                      Format.plural(found.tokens_looked_up, "token")),
                  " looked up"
                ]) :
            null);
  }

  function drawRequests() {
    const ended = [...App.live.requests.values()].filter((request) => request.end).slice(-40);
    const sum = {memory: 0, disk: 0, remote: 0, computed: 0};
    for (const request of ended) {
      for (const [tier, tokens] of Object.entries(Parting.partsOf(request.end)))
        sum[tier] += tokens;
    }
    const all = Object.values(sum).reduce((a, b) => a + b, 0);
    Dom.fill(hits, all === 0 ? Dom.make("p", {class: "muted"}, "No request has ended yet.") : [
      Parting.strip("hits", sum, all),
      Dom.make(
          "p", {class: "muted small"},
          `The prompts of the last ${Format.plural(ended.length, "request")}: ` +
              `${Format.plural(all, "token")}.`)
    ]);
    drawMisses(ended.filter((request) => request.end.miss && request.end.miss !== "none")
                   .slice(-20)
                   .reverse());
  }

  function drawMisses(requests) {
    if (requests.length === 0) {
      Dom.fill(misses, Dom.make("p", {class: "muted"}, "No prompt has missed yet."));
      return;
    }
    Dom.fill(
        misses,
        Dom.table(
            "Requests whose prompts were not cached as a whole, the last one first",
            ["Request", {text: "Prompt", num: true}, {text: "Found", num: true}, "Why not more"],
            requests.map(
                (request) =>
                    [Dom.make(
                         "button",
                         {type: "button", class: "link", onclick: () => drawParting(request)},
                         Format.requestName(request)),
                     Format.count(request.end.prompt_tokens || 0), Format.count(request.cached),
                     request.end.miss_text || Format.words(request.end.miss)]),
            "wordy"));
  }

  function drawParting(request) {
    Dom.fill(
        parting, Dom.make("h4", {}, request.name || `Request ${request.id}`),
        Parting.about(request.end));
  }

  const drawSoon = Dom.onceAFrame(() => {
    drawFigures();
    drawRequests();
  });

  function changed(what) {
    if (!isShown) return;
    // A snapshot opens another stream: an answer asked for before it lacks what lies between.
    if (what.snapshot && asking) asking.isOld = true;
    if (what.snapshot || (what.state && App.live.state !== "open")) wantBlocks();
    if (!what.events || what.events.length === 0) return;
    if (what.events[0].event === "dropped") wantBlocks();
    map.take(what.events);
    if (asking) asking.batches.push(what.events);
    drawSoon();
    const isOther = what.events.some(
        (event) => event.event === "end" ||
            (event.event === "block" && (event.change === "fill" || event.change === "evict")));
    if (!isOther || treeTimer) return;
    treeTimer = setTimeout(() => {
      treeTimer = 0;
      fetchTree();
      fetchCounters();
    }, kTreePauseMs);
  }

  return {detail: "blocks", needs: () => !App.saved, build, shown, hidden: hiddenAgain, changed};
})();
