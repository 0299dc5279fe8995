"use strict";
// How keys and values grow with the tokens: by the formula, in blocks, and measured.
const Growth = (() => {
  const root = Dom.make("div", {});
  let growth = null;
  let chart = null;

  const number = (field, value, text) => Dom.number(`growth.${field}`, value, text);

  function set(body) {
    growth = body;
    if (chart) chart.drop();
    chart =
        Charts.make("Bytes of keys and values over tokens; the table has the figures", 300, config);
    const terms = growth.terms.map(
        (term, i) => Dom.make(
            "li", {},
            `${Format.plural(term.layers, "layer")}: ${
                Format.plural(term.num_kv_heads, "key head")} × ` +
                `(${term.key_dim} + ${term.value_dim}) elements = `,
            number(
                `terms.${i}.bytes_per_token`, term.bytes_per_token,
                `${Format.count(term.bytes_per_token)} bytes`),
            " a token", term.window ? `, the last ${Format.count(term.window)} tokens` : ""));
    const last = growth.tokens.length - 1;
    Dom.fill(
        root,
        Dom.make(
            "p", {}, "A token adds ",
            Dom.make(
                "strong", {},
                number(
                    "bytes_per_token", growth.bytes_per_token,
                    `${Format.count(growth.bytes_per_token)} bytes`)),
            ` of keys and values (${
                growth.kv_type}). Dashed curves are the same model as if it were ` +
                "built otherwise."),
        Dom.make("ul", {class: "plain"}, terms), chart,
        Dom.make(
            "details", {}, Dom.make("summary", {}, "Figures"),
            Dom.table(
                "Keys and values at the end of the curves",
                [
                  "Curve", {text: "Bytes a token", num: true},
                  {text: `At ${Format.count(growth.tokens[last])} tokens`, num: true}
                ],
                growth.series.map(
                    (series) =>
                        [series.label || series.name,
                         number(
                             `${series.name}.bytes_per_token`, series.bytes_per_token,
                             Format.count(series.bytes_per_token)),
                         number(
                             `${series.name}.last_bytes`, series.bytes[last],
                             Format.bytes(series.bytes[last]))])),
            growth.measured.length ?
                Dom.table(
                    "Measured in a run",
                    [
                      {text: "Tokens"}, {text: "Blocks", num: true}, {text: "Expected", num: true},
                      {text: "Bytes", num: true}, {text: "By the formula", num: true}
                    ],
                    growth.measured.map(
                        (point, i) => ["tokens", "used_blocks", "expected_blocks", "used_bytes",
                                       "formula_bytes"]
                                          .map(
                                              (name) => number(
                                                  `measured.${i}.${name}`, point[name],
                                                  Format.count(point[name]))))) :
                null));
  }

  // A type that takes as much as the model's own would lie on its curve.
  function drawn() {
    return growth.series.filter(
        (series) =>
            !series.name.startsWith("type_") || series.bytes_per_token !== growth.bytes_per_token);
  }

  // The model as it is in whole lines, everything else in dashes of its own.
  function curve(series, i) {
    const isOwn = series.name === "formula" || series.name === "blocks";
    const label = (series.label || series.name).replace(/^the model as it is, stored/, "stored");
    return Charts.line(
        i, label, growth.tokens.map((tokens, k) => ({x: tokens, y: series.bytes[k]})), {
          borderWidth: series.name === "formula" ? 4 : 1.8,
          borderDash: isOwn ? [] : [3 + 2 * (i % 4), 2 + (i % 3)],
          stepped: series.name === "blocks",
          pointStyle: "line"
        });
  }

  function config() {
    const datasets = drawn().map(curve);
    if (growth.measured.length) {
      datasets.push({
        type: "scatter",
        label: "measured",
        pointStyle: "crossRot",
        pointRadius: 5,
        borderColor: Theme.color("ink"),
        borderWidth: 2,
        data: growth.measured.map((point) => ({x: point.tokens, y: point.used_bytes}))
      });
    }
    return {
      type: "line",
      data: {datasets},
      options: {
        parsing: false,
        interaction: {mode: "nearest", intersect: false},
        scales: {
          x: {
            type: "linear",
            max: growth.tokens[growth.tokens.length - 1],
            title: {display: true, text: "tokens of a sequence"},
            ticks: {callback: (value) => Format.count(value)}
          },
          y: Charts.bytesAxis(
              Math.max(...growth.series.flatMap((one) => one.bytes)),
              {title: {display: true, text: "keys and values"}})
        },
        plugins: {
          tooltip: {
            callbacks: {
              label: (item) => `${item.dataset.label}: ${Format.bytes(item.raw.y)} at ${
                  Format.count(item.raw.x)}`
            }
          }
        }
      }
    };
  }

  async function fetchIt() {
    try {
      set(await Api.get("/quire/growth"));
    } catch (error) {
      Dom.fill(root, Dom.make("p", {class: "error"}, error.message));
    }
  }

  return {
    card: () => Dom.card("How the cache grows", root),
    set,
    fetch: fetchIt,
    isThere: () => growth
  };
})();
