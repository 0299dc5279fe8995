"use strict";
// The planner with inputs, and the teaching note's own case worked out by it.
const Planner = (() => {
  const fields = {};
  const answer = Dom.make("div", {role: "status"});
  const note = Dom.make("div", {});
  let chart = null;
  let memory = [];

  const kTypes = ["f16", "bf16", "f32", "q8_0", "fp8", "q4_0"];
  const kColors = [...Theme.series, "muted", "faint"];  // as many as there are purposes
  const kNames = {
    weights: "Weights",
    kv: "Keys and values",
    tables: "Tables and index",
    activations: "Activations",
    logits: "Logits and sampling",
    text: "Vocabulary",
    process: "Code and stacks",
    rounding: "Rounding to pages",
    overhead: "Overhead"
  };

  function field(name, label, input) {
    input.id = `plan-${name}`;
    fields[name] = input;
    return Dom.make("div", {class: "field"}, Dom.make("label", {for: input.id
    }, label), input);
  }

  function card() {
    const option = (value, text) => Dom.make("option", {value}, text || value);
    const form = Dom.make(
        "form", {
          class: "fields",
          onsubmit: (event) => {
            event.preventDefault();
            ask();
          }
        },
        field("preset", "Model", Dom.make("select", {}, option("", "The one that runs"))),
        field(
            "context", "Context, tokens",
            Dom.make("input", {type: "number", min: "1", step: "1", placeholder: "as it runs"})),
        field(
            "sequences", "Sequences",
            Dom.make("input", {type: "number", min: "1", step: "1", placeholder: "1"})),
        field(
            "kv_type", "Keys and values as",
            Dom.make("select", {}, option("", "as it runs"), kTypes.map((type) => option(type)))),
        field(
            "memory", "Memory",
            Dom.make("input", {type: "text", placeholder: "such as 24GiB", spellcheck: "false"})),
        Dom.make("button", {type: "submit", class: "primary"}, "Plan"));
    return Dom.card(
        "Planner",
        Dom.make(
            "p", {class: "muted"},
            "What a model takes in memory and what fits, by the same code that starts it."),
        form, answer);
  }

  function noteCard() {
    return Dom.card(
        "The teaching note's case: Qwen-7B on a 24 GiB card",
        Dom.make(
            "p", {class: "muted"},
            "Half of the card for keys and values gives 48, 12, 6 and 3 sequences: the naive " +
                "count. It leaves the other half to the weights, which need more, and reserves " +
                "every sequence's whole context."),
        note);
  }

  async function ask() {
    // Sequences as the empty field's placeholder says: a plan without any question is that of the
    // server's own limits.
    const query = new URLSearchParams();
    for (const [name, input] of Object.entries(fields)) {
      const value = input.value.trim() || (name === "sequences" ? input.placeholder : "");
      if (value !== "") query.set(name, value);
    }
    try {
      drawAnswer(await Api.get(`/quire/plan?${query}`));
    } catch (error) {
      if (chart) chart.drop();
      chart = null;
      Dom.fill(answer, Dom.make("p", {class: "error"}, error.message));
    }
  }

  function drawAnswer(plan) {
    takePresets(plan.presets || []);
    memory = Object.entries(plan.memory)
                 .filter(([name, bytes]) => name !== "total_bytes" && bytes > 0)
                 .map(([name, bytes]) => [name.replace(/_bytes$/, ""), bytes]);
    if (chart) chart.drop();
    chart = Charts.make(
        "Memory by purpose; the table has the figures", 80,
        () => ({
          type: "bar",
          data: {
            labels: [""],
            datasets: memory.map(([name, bytes], i) => ({
                                   label: kNames[name] || Format.words(name),
                                   data: [bytes],
                                   backgroundColor: Theme.color(kColors[i % kColors.length]),
                                   borderColor: Theme.color("card"),
                                   borderWidth: 2
                                 }))
          },
          options: {
            indexAxis: "y",
            scales: {
              x: Charts.bytesAxis(
                  memory.reduce((sum, [, bytes]) => sum + bytes, 0), {stacked: true}),
              y: {stacked: true, display: false}
            },
            plugins: {
              tooltip:
                  {callbacks: {label: (item) => `${item.dataset.label}: ${Format.bytes(item.raw)}`}}
            }
          }
        }));
    const number = (name, value, text) => Dom.number(`plan.${name}`, value, text);
    const fits = plan.fits;
    Dom.fill(
        answer,
        Dom.make(
            "p", {}, Dom.make("strong", {}, plan.model),
            `: ${Format.count(plan.context)} tokens, ` +
                `${Format.plural(plan.sequences, "sequence")}, keys and values as ${plan.kv.type}` +
                `${plan.kv.planned_only ? " (planned only: Quire does not store these)" : ""}.`),
        Dom.make(
            "dl", {class: "tiles"},
            Dom.tile(
                "In all",
                number(
                    "memory.total_bytes", plan.memory.total_bytes,
                    Format.bytes(plan.memory.total_bytes))),
            Dom.tile(
                "Keys and values a token",
                number(
                    "kv.bytes_per_token", plan.kv.bytes_per_token,
                    Format.bytes(plan.kv.bytes_per_token))),
            fits ?
                [
                  Dom.tile(
                      "Sequences that fit",
                      number("fits.sequences", fits.sequences, Format.count(fits.sequences)),
                      "of the whole context"),
                  Dom.tile(
                      "Largest context",
                      number(
                          "fits.largest_context", fits.largest_context,
                          Format.count(fits.largest_context)),
                      `of ${Format.plural(plan.sequences, "sequence")}`)
                ] :
                null),
        chart,
        Dom.table(
            "Memory by purpose",
            ["Purpose", {text: "Bytes", num: true}, {text: "In short", num: true}],
            memory.map(
                ([name, bytes]) =>
                    [kNames[name] || Format.words(name),
                     number(`memory.${name}_bytes`, bytes, Format.count(bytes)),
                     Format.bytes(bytes)])),
        fits && fits.kv_types ?
            Dom.table(
                "What fits with other types of keys and values",
                [
                  "Type", {text: "Bytes a token", num: true}, {text: "Largest context", num: true},
                  {text: "Sequences", num: true}
                ],
                fits.kv_types.map(
                    (type) =>
                        [type.type + (type.planned_only ? " (planned only)" : ""),
                         Format.count(type.bytes_per_token), Format.count(type.largest_context),
                         Format.count(type.sequences)])) :
            null);
  }

  function takePresets(names) {
    if (fields.preset.options.length > 1) return;
    for (const name of names) fields.preset.append(Dom.make("option", {value: name}, name));
  }

  async function workNote() {
    const contexts = [512, 2048, 4096, 8192];
    const naive = (context) => Api.get(
        `/quire/plan?preset=qwen-7b&context=${context}&sequences=1` +
        "&kv_type=f16&kv_size=12GiB");
    const real = (context) => Api.get(
        `/quire/plan?preset=qwen-7b&context=${context}&sequences=1` +
        "&kv_type=f16&memory=24GiB&overhead=1GiB");
    try {
      const rows = await Promise.all(
          contexts.map(async (context) => [context, await naive(context), await real(context)]));
      Dom.fill(note, noteTable(rows), noteWords(rows[1]));
    } catch (error) {
      Dom.fill(note, Dom.make("p", {class: "error"}, error.message));
    }
  }

  function noteTable(rows) {
    const number = (context, name, value) =>
        Dom.number(`note.${context}.${name}`, value, Format.count(value));
    return Dom.table(
        "Sequences of Qwen-7B at once, by context",
        [
          "Context", {text: "KV of one", num: true}, {text: "Naive: 12 GiB for KV", num: true},
          {text: "Beside the weights", num: true}, {text: "Paged, lengths as they come", num: true}
        ],
        rows.map(
            ([context, naive, real]) =>
                [Format.count(context), Format.bytes(real.kv.sequence_bytes),
                 number(context, "naive", naive.concurrency.worst_case),
                 number(context, "real", real.fits.sequences),
                 number(context, "paged", real.concurrency ? real.concurrency.expected : null)]));
  }

  function noteWords([context, , real]) {
    const weights = real.memory.weights_bytes;
    return Dom.make(
        "p", {class: "muted small"},
        `The weights alone are ${Format.bytes(weights)}, and 1 GiB is set aside. Paged: ` +
            "blocks are taken as tokens come, so a sequence holds what it has and not its " +
            `whole context (${Format.count(context)} in the second row); lengths are those ` +
            "of ShareGPT conversations, cut at 2,048 tokens in every row.");
  }

  function shown() {
    ask();
    workNote();
  }

  return {card, noteCard, shown};
})();
