"use strict";
// The third view: each request's life as a lane. Live from the server's events, or from the lives
// in a saved page.
const Time = (() => {
  let lanes = null;
  let isShown = false;
  const figures = Dom.make("dl", {class: "tiles"});
  const life = Dom.make("div", {class: "life", role: "status"});
  const empty = Dom.make("p", {class: "muted"}, "No request has come yet. Ask something in Chat.");

  function build(root) {
    lanes = new Lanes(drawLife);
    if (!App.saved) lanes.now = () => App.live.now();
    const button = (text, label, act) => Dom.make(
        "button", {type: "button", class: "small", "aria-label": label, onclick: act}, text);
    const follow = button("Follow", "Follow the present", () => lanes.follow(true));
    const legend = Dom.make("p", {class: "legend"});
    const drawLegend = () => Dom.fill(
        legend,
        Object.values(Lanes.kKinds).map((kind) => Dom.make("span", {}, swatch(kind), kind[0])),
        Dom.make("span", {class: "muted"}, "Upright line: the first token."));
    drawLegend();
    Theme.onChange(drawLegend);
    Dom.fill(
        root, Dom.make("h2", {}, "Time"),
        Dom.make(
            "p", {class: "lead"},
            "A lane a request, from its arrival to its end: when it waited, and when steps of " +
                "the engine computed something of it."),
        figures,
        Dom.card(
            "Requests",
            Dom.make(
                "div", {class: "row"}, App.saved ? null : follow,
                button("All", "Show all of the time known", () => lanes.showAll()),
                button("−", "Longer times", () => lanes.zoom(2)),
                button("+", "Shorter times", () => lanes.zoom(0.5))),
            lanes.element, empty, legend),
        Dom.card("The request chosen", life));
    Dom.fill(
        life, Dom.make("p", {class: "muted"}, "Choose a lane: click it, or use the arrow keys."));
    if (App.saved) takeSaved(App.saved.requests || []);
  }

  function swatch([, color, pattern]) {
    const canvas =
        Dom.make("canvas", {class: "swatch", width: "24", height: "12", "aria-hidden": "true"});
    const context = canvas.getContext("2d");
    context.fillStyle = Theme.pattern(context, color, pattern);
    context.fillRect(0, 0, 24, 12);
    return canvas;
  }

  // `quire explain request` tells spans of more kinds than a lane has colours.
  function takeSaved(lives) {
    const kinds = {
      queued: "queued",
      waits_for_tier: "loading",
      prefill: "prefill",
      decode: "decode",
      between: "queued",
      preempted: "preempted"
    };
    const requests = lives.map((one) => ({
                                 id: one.request.request || 0,
                                 name: one.request.name || "",
                                 state: "ended",
                                 prompt: one.request.prompt_tokens || 0,
                                 choices: one.request.num_choices || 1,
                                 arrived: one.request.ms || 0,
                                 waiting: null,
                                 cached: one.end ? (one.end.cached_memory || 0) +
                                         (one.end.cached_disk || 0) + (one.end.cached_remote || 0) :
                                                   0,
                                 firstToken: one.end && one.end.first_token_ms ?
                                     (one.request.ms || 0) + one.end.first_token_ms :
                                     0,
                                 tokens: one.end ? one.end.completion_tokens || 0 : 0,
                                 end: one.end || null,
                                 spans: one.spans.map((span) => ({
                                                        kind: kinds[span.kind] || "queued",
                                                        label: Format.words(span.kind),
                                                        from: span.begin_ms,
                                                        to: span.end_ms,
                                                        reason: span.reason || "",
                                                        steps: span.steps || 0,
                                                        tokens: span.tokens || 0,
                                                        first: span.first_position || 0
                                                      }))
                               }));
    show(requests);
    lanes.showAll();
    if (requests.length) requestAnimationFrame(() => lanes.choose(0));
  }

  function show(requests) {
    lanes.set(requests);
    empty.hidden = requests.length > 0;
    lanes.element.hidden = requests.length === 0;
    drawFigures(requests);
  }

  function median(values) {
    if (values.length === 0) return null;
    const sorted = values.slice().sort((a, b) => a - b);
    return sorted[sorted.length >> 1];
  }

  function drawFigures(requests) {
    const ended = requests.filter((request) => request.end);
    const of = (name) =>
        median(ended.map((request) => request.end[name] || 0).filter((ms) => ms > 0));
    // Of several answers at once, tokens come side by side.
    const tpot = median(
        ended
            .filter(
                ({end, choices}) => end.completion_tokens > 1 && end.decode_ms > 0 && choices === 1)
            .map((request) => request.end.decode_ms / (request.end.completion_tokens - 1)));
    const status = App.live.status;
    const asOf = App.live.lost && `as of ${Format.clock(App.live.lost.date)}`;
    Dom.fill(
        figures,
        status && !App.saved ?
            [
              Dom.tile(
                  "Running",
                  Dom.number("status.running", status.running, Format.count(status.running)),
                  asOf),
              Dom.tile(
                  "Waiting",
                  Dom.number("status.waiting", status.waiting, Format.count(status.waiting)),
                  asOf)
            ] :
            null,
        Dom.tile(
            "Requests seen",
            Dom.number("requests.seen", requests.length, Format.count(requests.length))),
        Dom.tile("First token, median", time("requests.first_token_ms", of("first_token_ms"))),
        Dom.tile("A token after it, median", time("requests.tpot_ms", tpot)),
        Dom.tile("Queued, median", time("requests.queue_ms", of("queue_ms"))));
  }

  function time(field, ms) {
    return ms === null ? Format.ms(ms) : Dom.number(field, ms, Format.ms(ms));
  }

  function drawLife(request) {
    const end = request.end;
    const pairs = [
      ["State", request.state],
      [
        "Prompt",
        [
          Dom.number(
              "request.prompt_tokens", request.prompt, Format.plural(request.prompt, "token")),
          ", ", Dom.number("request.cached", request.cached, Format.count(request.cached)),
          " found in the cache"
        ]
      ],
      [
        "Answer",
        Dom.number("request.tokens", request.tokens, Format.plural(request.tokens, "token"))
      ]
    ];
    if (end) {
      const parts = [
        ["queue_ms", "Queued"], ["tier_wait_ms", "Waited for a tier"],
        ["first_token_ms", "First token after"], ["decode_ms", "Decoding"], ["total_ms", "In all"]
      ];
      for (const [field, label] of parts) {
        if (field === "first_token_ms" && !end[field]) {
          if (!end.is_pin) pairs.push(["First token", "none came"]);
          continue;
        }
        pairs.push([label, time(`end.${field}`, end[field] || 0)]);
      }
      pairs.push(["Ended by", Format.words(end.reason) + (end.error ? `: ${end.error}` : "")]);
      const count = (field, word) => Dom.number(
          `end.${field}`, end[field] || 0,
          word ? Format.plural(end[field] || 0, word) : Format.count(end[field] || 0));
      if (end.num_preemptions) pairs.push(["Preempted", count("num_preemptions", "time")]);
      if (end.draft_tokens) {
        pairs.push(
            ["Drafts", [count("accepted_draft_tokens"), " of ", count("draft_tokens"), " taken"]]);
      }
    }
    Dom.fill(
        life,
        Dom.make(
            "h4", {}, `Request ${request.id}`,
            request.name ? Dom.make("code", {class: "muted"}, ` ${request.name}`) : null),
        Dom.make(
            "dl", {class: "pairs"},
            pairs.map(([name, value]) => [Dom.make("dt", {}, name), Dom.make("dd", {}, value)])),
        partingOf(end), spanTable(request));
  }

  function partingOf(end) {
    const parting = end && Parting.about(end);
    return parting && [Dom.make("h4", {}, "Where its prompt came from"), parting];
  }

  function spanTable(request) {
    const spans = request.spans.slice(-200);
    if (spans.length === 0) return null;
    return Dom.table(
        "What its time was spent on",
        [
          "What", {text: "From", num: true}, {text: "For", num: true}, {text: "Steps", num: true},
          {text: "Tokens", num: true}, "Why"
        ],
        spans.map((span, i) => {
          const count = (name) =>
              (span[name] ? Dom.number(`span.${i}.${name}`, span[name], Format.count(span[name])) :
                            "");
          return [
            span.label || Lanes.kKinds[span.kind][0],
            time(`span.${i}.from_ms`, Math.max(0, span.from - request.arrived)),
            time(`span.${i}.ms`, span.to - span.from), count("steps"), count("tokens"),
            span.reason === "none" ? "" : Format.words(span.reason)
          ];
        }));
  }

  const drawSoon = Dom.onceAFrame(() => {
    const requests = [...App.live.requests.values()].reverse();
    show(requests);
    const chosen = App.live.requests.get(lanes.chosen);
    if (chosen && chosen.state !== "ended")
      drawLife(chosen);
    else if (chosen && chosen.end && !life.querySelector("[data-field='end.total_ms']"))
      drawLife(chosen);
  });

  return {
    detail: "",
    needs: () => !App.saved || Boolean(App.saved.requests),
    build,
    shown() {
      isShown = true;
      if (!App.saved)
        drawSoon();
      else
        lanes.draw();
    },
    hidden() {
      isShown = false;
    },
    changed() {
      if (isShown) drawSoon();
    },
  };
})();
