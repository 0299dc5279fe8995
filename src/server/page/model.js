"use strict";
// The fifth view: the graph of the model that runs, stage by stage, and beside it the
// decoder of the first papers, which the teaching note draws.
const Model = (() => {
  const root = Dom.make("div", {class: "graphs"});
  let graph = null;
  let phase = "decode";

  const kOperators = {
    embed: "purple",
    norm: "muted",
    project: "blue",
    store_kv: "vermillion",
    attend: "orange",
    feed_forward: "green",
    output: "purple"
  };

  function build(view) {
    Dom.fill(
        view, Dom.make("h2", {}, "Model"),
        Dom.make(
            "p", {class: "lead"},
            // A saved page may be of a published shape, of which nobody has a file.
            "Every stage of the forward pass with its shapes" +
                (App.saved ? "" : ", read from the model's file") +
                "; beside it the classic decoder, and what has changed since."),
        root);
    if (App.saved && App.saved.shapes) set(App.saved.shapes);
  }

  async function shown() {
    if (App.saved || graph) return;
    try {
      set(await Api.get("/quire/model"));
    } catch (error) {
      Dom.fill(root, Dom.make("p", {class: "error"}, error.message));
    }
  }

  function set(body) {
    graph = body;
    draw();
  }

  const number = (field, value, text) =>
      Dom.number(`model.${field}`, value, text || Format.count(value));

  function draw() {
    const load = graph[phase];
    const ofLoad = (field, text) => number(`${phase}.${field}`, load[field], text);
    Dom.fill(
        root,
        Dom.make(
            "dl", {class: "tiles wide"},
            Dom.tile("Parameters", number("parameters", graph.parameters)),
            Dom.tile("Layers", number("num_layers", graph.num_layers)),
            Dom.tile("Width", number("d_model", graph.d_model)),
            Dom.tile("Vocabulary", number("vocab_size", graph.vocab_size)),
            Dom.tile(
                "Weights in memory",
                number("held_bytes", graph.held_bytes, Format.bytes(graph.held_bytes))),
            Dom.tile(
                "Keys and values a token",
                number(
                    "kv_bytes_per_token", graph.kv_bytes_per_token,
                    Format.bytes(graph.kv_bytes_per_token)))),
        Dom.card(
            graph.model || graph.architecture,
            Dom.choice(
                "phase", "Shapes of",
                [
                  ["prefill", `Prefill of ${Format.count(graph.prefill_tokens)} tokens`],
                  ["decode", `Decode at position ${Format.count(graph.decode_position)}`]
                ],
                phase,
                (value) => {
                  phase = value;
                  draw();
                }),
            Dom.make(
                "p", {class: "muted small"}, ofLoad("ops", Format.ops(load.ops)), " operations, ",
                ofLoad("weight_bytes", Format.bytes(load.weight_bytes)), " of weights and ",
                ofLoad("kv_bytes", Format.bytes(load.kv_bytes)), " of keys and values: ",
                ofLoad("ops_per_byte", load.ops_per_byte.toFixed(2)), " operations a byte."),
            Dom.make("div", {class: "flow"}, graph.parts.map(drawPart))),
        Dom.card(
            "The classic decoder",
            Dom.make(
                "p", {class: "muted small"},
                "As in the first papers, and below each stage what this model has instead."),
            classic()));
  }

  function drawPart(part, i) {
    const stages = part.stages.map((stage) => drawStage(i, stage));
    if (part.num_layers === 0) return Dom.make("div", {class: "part"}, stages);
    const heads = `${part.num_heads} heads, ${part.num_kv_heads} of keys and values, ` +
        `${part.key_dim} wide`;
    const sums = part.num_layers > 1 ? "; figures are of all of them" : "";
    const window = part.window ? `, window of ${Format.count(part.window)}` : "";
    return Dom.make(
        "div", {class: "part layers"},
        Dom.make(
            "p", {class: "part-head"}, Dom.make("strong", {}, `× ${part.num_layers} layers`),
            Dom.make("span", {class: "muted"}, ` ${heads}${window}${sums}`)),
        stages);
  }

  function drawStage(partIdx, stage) {
    const load = stage[phase];
    const figure = (name, value, text, unit) =>
        value && [number(`${partIdx}.${stage.name}.${name}`, value, text), ` ${unit}`];
    const weights = stage.tensors.map(
        (tensor) => `${tensor.name} ${Format.shape(tensor.shape)} ` +
            tensor.types.map((type) => type.type).join(", "));
    return Dom.make(
        "div", {class: "stage", "data-stage": stage.name}, Dom.make("i", {
          class: "tag",
          style: {background: `var(--${kOperators[stage.operators]})`},
          title: Format.words(stage.operators)
        }),
        Dom.make(
            "div", {class: "stage-name"}, Dom.make("strong", {}, stage.label),
            Dom.make("code", {class: "muted"}, stage.formula)),
        Dom.make(
            "div", {class: "stage-shape num"},
            load.in.length ? `${Format.shape(load.in)} → ${Format.shape(load.out)}` :
                             Format.shape(load.out)),
        Dom.make("div", {class: "stage-load small muted num"}, [
          figure("parameters", stage.parameters, Format.ops(stage.parameters), "parameters"),
          figure("ops", load.ops, Format.ops(load.ops), "ops"),
          figure("kv_bytes", load.kv_bytes, Format.bytes(load.kv_bytes), "KV"), ...weights
        ].filter(Boolean).map((one, i) => (i > 0 ? [" · ", one] : one))));
  }

  // The stages of the classic graph, and this model's word for each.
  function classic() {
    const layers = graph.parts.filter((part) => part.num_layers > 0);
    const first = layers[0] || {};
    const norm = graph.norm === "rms" ? "RMS norm" : "LayerNorm";
    const place = {
      before: "before attention and feed-forward",
      before_and_after: "before and after attention and feed-forward",
      after_residual: "after the sum"
    }[graph.norm_placement] ||
        "";
    const activation = {silu: "SiLU", gelu: "GELU", relu: "ReLU"}[graph.activation] || "";
    const heads = first.num_kv_heads === first.num_heads ?
        `${first.num_heads} heads, each with its own keys` :
        `${first.num_heads} heads share ${first.num_kv_heads} of keys and values`;
    const windows = layers.filter((part) => part.window > 0);
    const times = first.ffn_dim ? (first.ffn_dim / graph.d_model).toFixed(2) : "";
    const rows = [
      [
        "Token embedding", "a row a token",
        graph.tied_output ? "a row a token; the output layer is the same table" : "a row a token"
      ],
      [
        "Positions", "learned, a row a position, added",
        graph.positions === "learned" ? "learned, added" : "rotary: queries and keys are turned"
      ],
      [
        "Attention", "every head has keys of its own",
        heads + (graph.query_key_norm ? "; queries and keys are normed" : "") +
            (windows.length ?
                 `; ${windows.reduce((n, part) => n + part.num_layers, 0)} layers see a ` +
                     `window of ${Format.count(windows[0].window)}` :
                 "")
      ],
      ["Add, then norm", "LayerNorm after the sum (post-norm)", `${norm} ${place}`],
      [
        "Feed-forward", "two matrices, four times the width, ReLU",
        `${graph.gated_ffn ? "three matrices, gated" : "two matrices"}, ${
            times} times the width, ` +
            activation
      ],
      ["Add, then norm", "LayerNorm after the sum (post-norm)", `${norm} ${place}`],
      [
        "Output layer", "a matrix and a softmax",
        graph.tied_output ? `${norm}, then the token embedding again` : `${norm}, then a matrix`
      ],
    ];
    return Dom.make(
        "ol", {class: "classic"},
        rows.map(
            ([name, then, here], i) => Dom.make(
                "li", {class: i >= 2 && i <= 5 ? "in-layer" : null}, Dom.make("strong", {}, name),
                Dom.make("span", {class: "then"}, then), Dom.make("span", {class: "here"}, here))));
  }

  return {
    detail: "",
    needs: () => !App.saved || Boolean(App.saved.shapes),
    build,
    shown,
    hidden() {},
    changed() {},
    again() {
      graph = null;
    }
  };
})();
