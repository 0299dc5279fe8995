"use strict";
// Where a prompt's keys and values came from: found in memory, on disk or in Redis, or computed;
// and the token at which it parted from what was there.
const Parting = (() => {
  const kTiers =
      [["memory", "Memory"], ["disk", "Disk"], ["remote", "Redis"], ["computed", "Computed"]];

  function partsOf(end) {
    const memory = end.cached_memory || 0;
    const disk = end.cached_disk || 0;
    const remote = end.cached_remote || 0;
    return {memory, disk, remote, computed: (end.prompt_tokens || 0) - memory - disk - remote};
  }

  // One bar, parted by where the tokens came from, with its figures below it. name: of the figures'
  // fields.
  function strip(name, parts, all) {
    const there = kTiers.filter(([tier]) => parts[tier] > 0);
    const share = (tier) => Format.percent(parts[tier] / all, 1);
    return [
      Dom.make(
          "div", {
            class: "strip",
            role: "img",
            "aria-label": there.map(([tier, label]) => `${label} ${share(tier)}`).join(", ")
          },
          there.map(
              ([tier]) => Dom.make(
                  "i", {class: `part ${tier}`, style: {width: `${(parts[tier] / all) * 100}%`}}))),
      Dom.make(
          "p", {class: "legend"},
          there.map(
              ([tier, label]) => Dom.make(
                  "span", {}, Dom.make("i", {class: `swatch part ${tier}`}), `${label} `,
                  Dom.number(`${name}.${tier}`, parts[tier], Format.plural(parts[tier], "token")),
                  Dom.number(`${name}.${tier}_share`, parts[tier] / all, share(tier)))))
    ];
  }

  // Of a request that has ended; null where it had no prompt.
  function about(end) {
    const prompt = end.prompt_tokens || 0;
    if (prompt === 0) return null;
    // A pin ends when its prompt is computed, and draws no token.
    const isComputed = end.prompt_computed || (end.is_pin && end.reason === "stop");
    if (!isComputed) return Dom.make("p", {}, "It ended before its prompt was computed.");
    const hasMissed = end.miss && end.miss !== "none";
    return [
      strip("parting", partsOf(end), prompt),
      hasMissed ? Dom.make(
                      "p", {}, "It parted at token ",
                      Dom.number(
                          "end.miss_position", end.miss_position || 0,
                          Format.count(end.miss_position || 0)),
                      ` of ${Format.count(prompt)}: ${end.miss_text || Format.words(end.miss)}.`) :
                  null
    ];
  }

  return {partsOf, strip, about};
})();
