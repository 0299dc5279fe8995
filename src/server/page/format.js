"use strict";
// Numbers and tokens as people read them.
const Format = (() => {
  const whole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

  function count(value) {
    return value === null || value === undefined ? "–" : whole.format(value);
  }

  // Three digits and a unit.
  function scaled(value, step, units) {
    let i = 0;
    while (Math.abs(value) >= step && i + 1 < units.length) {
      value /= step;
      i += 1;
    }
    const digits = i === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return `${value.toFixed(digits)} ${units[i]}`;
  }

  const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  const rate = (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
  const ops = (value) => scaled(value, 1000, ["", "k", "M", "G", "T"]).trim();
  const percent = (value, digits = 0) => `${(value * 100).toFixed(digits)} %`;

  function ms(value) {
    if (value === null || value === undefined) return "–";
    if (value >= 60000) return `${(value / 60000).toFixed(1)} min`;
    if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
    return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
  }

  // Small probabilities keep a digit that says something.
  function probability(logProb) {
    const value = Math.exp(logProb) * 100;
    if (value >= 99.95) return "100 %";
    if (value >= 1) return `${value.toFixed(1)} %`;
    return value >= 0.01 ? `${value.toFixed(2)} %` : "< 0.01 %";
  }

  // A token's text where it stands alone: what cannot be seen has a sign.
  function visible(text) {
    if (text === "") return "∅";
    return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍");
  }

  const words = (name) => (name || "").replace(/_/g, " ");
  const shape = (dims) => (dims && dims.length ? `[${dims.map(count).join(", ")}]` : "–");
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

  const clock = (date) => date.toLocaleTimeString("en-GB");

  // Of the server's long names the part that differs.
  function requestName(request) {
    const name = (request.name || "").replace(/^(chatcmpl|cmpl|embd)-/, "");
    return `${request.id} ${name.length > 10 ? `${name.slice(0, 9)}…` : name}`.trim();
  }

  return {
    requestName,
    count,
    bytes,
    rate,
    ops,
    percent,
    ms,
    probability,
    visible,
    words,
    shape,
    plural,
    clock
  };
})();
