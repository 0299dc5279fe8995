"use strict";
// Prefill and decode under this machine's roofs, operator by operator, and the bytes of a step.
const Rooflines = (() => {
  const root = Dom.make("div", {});
  const step = Dom.make("div", {});
  const shapes = {
    embed: "star",
    norm: "cross",
    project: "rect",
    store_kv: "crossRot",
    attend: "triangle",
    feed_forward: "rectRot",
    output: "circle",
    all: "circle"
  };
  let body = null;
  let depth = 0;
  let charts = [];

  function offer() {
    Dom.fill(
        root,
        Dom.make(
            "p", {},
            "Ceilings of memory and arithmetic are measured on this machine, once; then prefill and " +
                "decode are run and timed, operator by operator. It takes some seconds, in which " +
                "requests are slower."),
        Dom.make(
            "button", {type: "button", class: "primary", onclick: fetchIt},
            "Measure this machine"));
  }

  async function fetchIt() {
    Dom.fill(root, Dom.make("p", {class: "muted", role: "status"}, "Measuring …"));
    try {
      set(await Api.get("/quire/roofline"));
    } catch (error) {
      offer();
      root.append(Dom.make("p", {class: "error", role: "alert"}, error.message));
    }
  }

  function set(data) {
    body = data;
    depth = body.points.length ? body.points[0].depth : 0;
    draw();
  }

  const number = (field, value, text) => Dom.number(`roofline.${field}`, value, text);
  const isDrawn = (point) => point.ops > 0 && point.ops_per_second > 0 && point.ops_per_byte > 0;

  function draw() {
    for (const chart of charts) chart.drop();
    const depths = [...new Set(body.points.map((point) => point.depth))];
    const here = body.points.filter((point) => point.depth === depth);
    const roof = Charts.make(
        "Operations a second over operations a byte; the table has the figures", 360,
        () => roofConfig(here));
    charts = [roof];
    const ceilings = body.ceilings;
    Dom.fill(
        root,
        Dom.make(
            "dl", {class: "tiles"},
            ceilings.memory.map(
                (level) => Dom.tile(
                    level.name === "memory"      ? "Memory" :
                        level.name === "weights" ? "The weights" :
                                                   level.name,
                    number(level.name, level.bytes_per_second, Format.rate(level.bytes_per_second)),
                    [
                      "a set of ",
                      number(
                          `${level.name}.set_bytes`, level.set_bytes, Format.bytes(level.set_bytes))
                    ])),
            ceilings.arithmetic.map(
                (kind) => Dom.tile(
                    kind.name,
                    number(
                        kind.name, kind.ops_per_second, `${Format.ops(kind.ops_per_second)}op/s`),
                    `${ceilings.kernels}, ${Format.plural(ceilings.threads, "thread")}`))),
        ceilings.disturbed ?
            Dom.make(
                "p", {role: "note"},
                "The machine was disturbed while it was measured: a smaller level of memory was " +
                    "read more slowly than a larger one. Measure again when nothing else runs.") :
            null,
        depths.length > 1 ?
            Dom.choice(
                "roof-depth", "Tokens in the cache before",
                depths.map((one) => [String(one), Format.count(one)]), String(depth),
                (value) => {
                  depth = Number(value);
                  draw();
                }) :
            null,
        roof,
        Dom.make(
            "p", {class: "muted small"}, "A step is bound by memory left of the ridge (",
            number(
                "int8_ridge_ops_per_byte", body.int8_ridge_ops_per_byte,
                body.int8_ridge_ops_per_byte.toFixed(1)),
            " operations a byte for int8), by arithmetic right of it.",
            here.length > 0 ?
                " Points are full in prefill and outlined in decode: " +
                    `${shapesOf(here)}; the large circle is the whole step.` :
                null),
        here.length > 0 ? drawPoints(here) : null);
  }

  function drawPoints(points) {
    const bytes = Charts.make(
        "Bytes that a step reads, by phase and depth; the table has the figures",
        Math.max(120, 30 + 44 * phases().length), bytesConfig);
    charts.push(bytes);
    return [
      Dom.make("details", {}, Dom.make("summary", {}, "Figures"), pointTable(points)),
      Dom.make("h4", {}, "Bytes a step"), bytes, bytesTable()
    ];
  }

  function shapesOf(points) {
    const names = {
      rect: "square",
      rectRot: "diamond",
      star: "star",
      cross: "upright cross",
      crossRot: "slanting cross",
      triangle: "triangle",
      circle: "circle"
    };
    const there = new Set(points.filter(isDrawn).map((point) => point.operators));
    return Object.keys(shapes)
        .filter((one) => one !== "all" && there.has(one))
        .map((one) => `${names[shapes[one]]} ${Format.words(one)}`)
        .join(", ");
  }

  function pointTable(points) {
    return Dom.table(
        "Operators under the roofs",
        [
          "Operator", "Phase", {text: "Ops a byte", num: true}, {text: "Reached", num: true},
          "Bound by", {text: "Of the roof", num: true}
        ],
        points.map((point) => {
          const value = (name, text) =>
              number(`${point.phase}.${point.depth}.${point.operators}.${name}`, point[name], text);
          return [
            Format.words(point.operators), point.phase,
            value("ops_per_byte", point.ops_per_byte.toFixed(2)),
            value("ops_per_second", `${Format.ops(point.ops_per_second)}op/s`),
            point.bound_by || "–",
            point.fraction ? value("fraction", Format.percent(point.fraction)) : "–"
          ];
        }));
  }

  function roofConfig(points) {
    const drawn = points.filter(isDrawn);
    const xs = drawn.map((point) => point.ops_per_byte);
    const low = Math.min(0.1, ...xs) / 2;
    const high = Math.max(100, ...xs) * 2;
    const steps = Array.from({length: 60}, (_, i) => low * (high / low) ** (i / 59));
    const memory = body.ceilings.memory.filter((level) => level.bytes_per_second > 0);
    const peak = Math.max(...body.ceilings.arithmetic.map((kind) => kind.ops_per_second));
    const datasets = memory.map(
        (level, i) => Charts.line(
            i, level.name === "weights" ? "weights" : `from ${level.name}`,
            steps.map((x) => ({x, y: Math.min(peak, x * level.bytes_per_second)})),
            {borderWidth: level.name === "weights" ? 3 : 1.2, pointRadius: 0, pointStyle: "line"}));
    for (const kind of body.ceilings.arithmetic) {
      datasets.push(Charts.line(
          datasets.length, `${kind.name} peak`,
          [{x: low, y: kind.ops_per_second}, {x: high, y: kind.ops_per_second}],
          {borderWidth: 1.5, pointStyle: "line"}));
    }
    for (const phase of ["prefill", "decode"]) {
      const own = drawn.filter((point) => point.phase === phase);
      const color = Theme.color(phase === "prefill" ? "blue" : "vermillion");
      datasets.push({
        type: "scatter",
        label: phase,
        borderColor: color,
        borderWidth: 2,
        backgroundColor: phase === "prefill" ? color : Theme.color("card"),
        pointStyle: own.map((point) => shapes[point.operators] || "circle"),
        pointRadius: own.map((point) => (point.operators === "all" ? 9 : 6)),
        data: own.map(
            (point) => ({x: point.ops_per_byte, y: point.ops_per_second, name: point.operators}))
      });
    }
    const isPower = (value) => Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6);
    const axis = (text, more) => ({
      type: "logarithmic",
      title: {display: true, text},
      ...more,
      grid:
          {color: ({tick}) => (tick && isPower(tick.value) ? Theme.color("line") : "transparent")},
      ticks: {
        maxRotation: 0,
        autoSkip: false,
        callback: (value) =>
            (!isPower(value)   ? "" :
                 value >= 1000 ? Format.ops(value) :
                                 String(value))
      }
    });
    return {
      type: "line",
      data: {datasets},
      options: {
        parsing: false,
        scales: {
          x: axis("operations a byte", {min: low, max: high}),
          y: axis("operations a second", {})
        },
        plugins: {
          tooltip: {
            callbacks: {
              label: (item) => {
                const what = item.raw.name ?
                    `${item.dataset.label}, ${Format.words(item.raw.name)}` :
                    item.dataset.label;
                return `${what}: ${item.raw.x.toFixed(2)} ops a byte, ${
                    Format.ops(item.raw.y)}op/s`;
              }
            }
          }
        }
      }
    };
  }

  // Of one step, from the sums over several.
  function phases() {
    return body.points.filter((point) => point.operators === "all").map((point) => {
      const steps = Math.max(1, point.steps);
      const tokens = Format.plural(Math.round(point.tokens / steps), "token");
      return {
        field: `${point.phase}.${point.depth}.step`,
        name: [`${point.phase} of ${tokens}`, `after ${Format.count(point.depth)}`],
        weights: point.weight_bytes / steps,
        kv: point.kv_bytes / steps
      };
    });
  }

  function bytesConfig() {
    const rows = phases();
    const set = (label, name, color) => ({
      label,
      data: rows.map((row) => row[name]),
      backgroundColor: Theme.color(color),
      borderColor: Theme.color("card"),
      borderWidth: 1
    });
    return {
      type: "bar",
      data: {
        labels: rows.map((row) => row.name),
        datasets: [set("weights", "weights", "blue"), set("keys and values", "kv", "orange")]
      },
      options: {
        indexAxis: "y",
        scales: {
          x: Charts.bytesAxis(
              Math.max(...rows.map((row) => row.weights + row.kv)), {stacked: true}),
          y: {stacked: true}
        },
        plugins: {
          tooltip:
              {callbacks: {label: (item) => `${item.dataset.label}: ${Format.bytes(item.raw)}`}}
        }
      }
    };
  }

  function bytesTable() {
    return Dom.table(
        "What a step reads, after so many tokens",
        ["Step", {text: "Weights", num: true}, {text: "Keys and values", num: true}],
        phases().map(
            (row) =>
                [row.name.join(" "),
                 number(`${row.field}.weight_bytes`, row.weights, Format.bytes(row.weights)),
                 number(`${row.field}.kv_bytes`, row.kv, Format.bytes(row.kv))]));
  }

  // What the engine's last step took, where operators are told.
  function showStep(event) {
    if (!event || !event.operators || event.operators.length === 0) return;
    const all = event.operators.reduce((sum, one) => sum + (one.ms || 0), 0);
    Dom.fill(
        step,
        Dom.make(
            "p", {},
            `Step ${Format.count(event.step)}: ` +
                `${Format.plural(event.num_tokens || 0, "token")} in ${
                    Format.ms(event.total_ms || 0)}.`),
        Dom.table(
            "The last step by operators",
            [
              "Operator", {text: "Time", num: true}, {text: "Share", num: true},
              {text: "Bytes", num: true}, {text: "Operations", num: true}
            ],
            event.operators.map(
                (one) =>
                    [Format.words(one.operators), Format.ms(one.ms || 0),
                     all ? Format.percent((one.ms || 0) / all) : "–", Format.bytes(one.bytes || 0),
                     Format.ops(one.ops || 0)])));
  }

  const idle = "Shown with the next step: ask for a long answer in Chat and come back.";
  return {
    card: () => Dom.card("Under the roofs", root),
    stepCard: () => {
      Dom.fill(step, Dom.make("p", {class: "muted"}, idle));
      return Dom.card("The last step", step);
    },
    offer,
    set,
    showStep,
    isThere: () => body,
  };
})();
