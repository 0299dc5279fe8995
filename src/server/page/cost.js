"use strict";
// The fourth view: what a token and a step cost in bytes, operations and time, and what fits.
const Cost = (() => {
  let hasAsked = false;

  function build(root) {
    const saved = App.saved;
    Dom.fill(
        root, Dom.make("h2", {}, "Cost"),
        Dom.make(
            "p", {class: "lead"},
            "Decode reads all weights for every step and every key for every token; " +
                "prefill shares one reading among many tokens. That is why they cost so " +
                "differently."),
        !saved || saved.growth ? Growth.card() : null,
        !saved || saved.roofline ? Rooflines.card() : null,
        saved ? null : [Rooflines.stepCard(), Planner.card(), Planner.noteCard()]);
    if (saved && saved.growth) Growth.set(saved.growth);
    if (saved && saved.roofline) Rooflines.set(saved.roofline);
  }

  function shown() {
    if (App.saved || hasAsked) return;
    hasAsked = true;
    Growth.fetch();
    Planner.shown();
    if (!Rooflines.isThere()) Rooflines.offer();
    Rooflines.showStep(App.live.lastStep);
  }

  const showStep = Dom.onceAFrame(() => Rooflines.showStep(App.live.lastStep));

  return {
    detail: "operators",
    needs: () => !App.saved || Boolean(App.saved.growth || App.saved.roofline),
    build,
    shown,
    hidden() {},
    changed(what) {
      if (what.events && what.events.length) showStep();
    },
    again() {
      hasAsked = false;
    }
  };
})();
