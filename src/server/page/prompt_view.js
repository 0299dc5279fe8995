"use strict";
// An answer's prompt as the model reads it, token by token, each marked by where its keys and
// values came from. Asked for when somebody opens it.
const PromptView = (() => {
  function make(answer) {
    const body = Dom.make("div", {class: "tokens prompt"});
    const view = Dom.make(
        "details", {class: "prompt-view", hidden: true},
        Dom.make("summary", {}, "The prompt, as the model reads it"), body);
    let isAsked = false;
    view.addEventListener("toggle", async () => {
      if (!view.open || isAsked) return;
      isAsked = true;
      try {
        const tokens = await Answers.promptTokens(answer);
        const counts = new Map();
        for (const token of tokens) counts.set(token.tier, (counts.get(token.tier) || 0) + 1);
        Dom.fill(
            body,
            Dom.make(
                "p", {class: "legend"},
                [...counts].map(
                    ([tier, n]) => Dom.make(
                        "span",
                        {class: `token ${tier}`, "data-field": `prompt.${tier}`, "data-value": n},
                        `${tier}: ${n}`))),
            tokens.map((token) => promptToken(token)));
      } catch (error) {
        isAsked = false;
        Dom.fill(body, Dom.make("p", {class: "error"}, error.message));
      }
    });
    return view;
  }

  function promptToken(token) {
    const text = (token.text || "").replace(/\n/g, "⏎");
    const breaks = (token.text || "").includes("\n") ? Dom.make("br") : null;
    return [
      Dom.make("span", {class: `token ${token.tier}`, title: token.tier}, text || "·"), breaks
    ];
  }

  return {make};
})();
