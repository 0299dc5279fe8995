"use strict";
// What one token was: how likely, what else could have been, what it cost, and a way from here.
const TokenPanel = (() => {
  const root = Dom.make("aside", {class: "panel", "aria-label": "The token chosen", hidden: true});

  function bar(logProb) {
    const percent = Math.max(0.5, Math.exp(logProb) * 100);
    return Dom.make(
        "span", {class: "bar", "aria-hidden": "true"},
        Dom.make("i", {style: {width: `${percent}%`}}));
  }

  function alternativeRow(answer, index, token, other, rank, onBranch) {
    const isChosen = other.id === token.id;
    const label = Dom.make(
        "code", {}, other.text === null ? `token ${other.id}` : Format.visible(other.text));
    if (other.text === null) {
      Answers.textOf(other.id).then((text) => {
        other.text = text;
        label.textContent = Format.visible(text);
      }, () => {});
    }
    return Dom.make(
        "li", {class: isChosen ? "alternative chosen" : "alternative"}, label, bar(other.logProb),
        Dom.make(
            "span",
            {class: "num", "data-field": `alternative.${rank}`, "data-value": other.logProb},
            Format.probability(other.logProb)),
        Dom.make(
            "button", {
              type: "button",
              class: "small",
              disabled: !answer.isDone,
              "aria-label": isChosen ?
                  "Draw again from here" :
                  `Branch with ${Format.visible(other.text || String(other.id))}`,
              onclick: () => onBranch(index, isChosen ? null : other)
            },
            isChosen ? "Draw again" : "Branch"));
  }

  function costRows(answer, index) {
    const own = index - (answer.kept || 0);
    const position = answer.promptIds.length + index;
    const cost = answer.costs ? answer.costs.tokens.get(position) : null;
    const token = answer.tokens[index];
    const rows = [];
    if (cost) {
      rows.push([
        "Since the token before",
        cost.sinceMs !== null ?
            Dom.number("token.since_ms", cost.sinceMs, Format.ms(cost.sinceMs)) :
            own > 0 ? "not known" :
                      "the first of its answer"
      ]);
      if (cost.step) {
        const step = cost.step;
        rows.push(
            ["Its step", `${Format.count(step.step)}, ${step.action}`],
            [
              "The step's tokens",
              Dom.number(
                  "token.step_tokens", step.tokens,
                  `${Format.count(step.tokens)} of ${Format.plural(step.sequences, "sequence")}`)
            ],
            ["Forward pass", Format.ms(step.forwardMs)], ["Whole step", Format.ms(step.totalMs)]);
      }
      if (cost.drafted) rows.push(["Drafted", "yes: guessed before it was computed"]);
    } else if (own > 0) {
      const before = answer.tokens[index - 1];
      rows.push(["Arrived after the token before", Format.ms(token.arrivedMs - before.arrivedMs)]);
    }
    rows.push(["Position", Dom.number("token.position", position, Format.count(position))]);
    const layers = App.live.run ? App.live.run.layers || [] : [];
    if (layers.length) {
      const sum = (value) => layers.reduce((all, layer) => all + value(layer), 0);
      const written = sum((layer) => layer.kv_bytes_per_token || 0);
      const read =
          sum((layer) => (layer.kv_bytes_per_token || 0) *
                  Math.min(position + 1, layer.window || Infinity));
      rows.push(
          ["Writes keys and values", Format.bytes(written)],
          ["Reads keys and values", Format.bytes(read)]);
    }
    return rows;
  }

  function show(answer, index, onBranch, onClose) {
    const token = answer.tokens[index];
    const list = token.alternatives.some((other) => other.id === token.id) ?
        token.alternatives :
        [{id: token.id, text: token.text, logProb: token.logProb}, ...token.alternatives];
    const close = Dom.make(
        "button", {
          type: "button",
          class: "quiet",
          "aria-label": "Close",
          onclick: () => {
            hide();
            onClose();
          }
        },
        "✕");
    Dom.fill(
        root,
        Dom.make(
            "div", {class: "panel-head"},
            Dom.make("h3", {}, Dom.make("code", {}, Format.visible(token.text))), close),
        Dom.make(
            "p", {},
            Dom.make(
                "strong",
                {class: "num", "data-field": "token.probability", "data-value": token.logProb},
                Format.probability(token.logProb)),
            ` likely. Token ${token.id}, log-probability ${token.logProb.toFixed(3)}.`),
        Dom.make("h4", {}, "What could have been"),
        Dom.make(
            "ul", {class: "alternatives"},
            list.map((other, rank) => alternativeRow(answer, index, token, other, rank, onBranch))),
        answer.isDone ? null :
                        Dom.make("p", {class: "muted small"}, "Branch once the answer has ended."),
        Dom.make("h4", {}, "What it cost"),
        Dom.make(
            "dl", {class: "pairs"},
            costRows(answer, index)
                .map(([name, value]) => [Dom.make("dt", {}, name), Dom.make("dd", {}, value)])));
    root.hidden = false;
  }

  function hide() {
    root.hidden = true;
  }

  return {root, show, hide};
})();
