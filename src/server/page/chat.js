"use strict";
// The first view: talk with the model, and look into every token of what it says.
//
// A turn of the model may have several answers, of which one is shown: branches stand beside the
// answer that they left.
const Chat = (() => {
  // {role: "user", content, reply} or {role: "assistant", answers, chosen, element}
  const turns = [];
  let selected = null;  // {turn, index}
  let shading = "probability";
  let form = "chat";  // "text" for models without a chat template
  const log = Dom.make("div", {class: "log"});
  const said = Dom.make("p", {class: "hidden", "aria-live": "polite"});
  const input = Dom.make(
      "textarea",
      {id: "prompt", rows: "2", placeholder: "Say something", "aria-label": "Your message"});
  const send = Dom.make("button", {type: "submit", class: "primary"}, "Send");
  const stop = Dom.make("button", {type: "button", hidden: true, onclick: stopAnswer}, "Stop");
  const shadingNote = Dom.make("p", {class: "muted small"});
  const fields = {};

  function setting(name, label, value, more) {
    const id = `setting-${name}`;
    fields[name] = Dom.make("input", {id, value, ...more});
    return Dom.make("div", {class: "field"}, Dom.make("label", {for: id
    }, label), fields[name]);
  }

  function settings() {
    const numberOf = (name, otherwise) => {
      const value = fields[name].value.trim() === "" ? NaN : Number(fields[name].value);
      return Number.isFinite(value) ? value : otherwise;
    };
    return {
      temperature: numberOf("temperature", 0.7),
      topP: numberOf("top-p", 1),
      maxTokens: numberOf("max-tokens", 256),
      seed: numberOf("seed", null)
    };
  }

  function build(root) {
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        submit();
      }
    });
    const composer = Dom.make(
        "form", {
          class: "composer",
          onsubmit: (event) => {
            event.preventDefault();
            submit();
          }
        },
        input, Dom.make("div", {class: "actions"}, send, stop));
    const number = {type: "number", step: "any", min: "0"};
    const options = Dom.make(
        "details", {class: "options"}, Dom.make("summary", {}, "Settings"),
        Dom.make(
            "div", {class: "fields"},
            setting("system", "System message", "", {type: "text", class: "wide"}),
            setting("temperature", "Temperature", "0.7", {...number, max: "2"}),
            setting("top-p", "Top p", "1", {...number, max: "1"}),
            setting("max-tokens", "Tokens at most", "256", {...number, step: "1", min: "1"}),
            setting("seed", "Seed", "", {...number, step: "1", placeholder: "random"})),
        Dom.choice(
            "form", "Ask as", [["chat", "Chat"], ["text", "Plain text that goes on"]], form,
            (value) => {
              form = value;
            }),
        Dom.choice(
            "shading", "Shade tokens by",
            [["probability", "Probability"], ["time", "Time"], ["none", "Nothing"]], shading,
            (value) => {
              shading = value;
              redraw();
            }),
        shadingNote);
    Dom.fill(
        root, Dom.make("h2", {class: "hidden"}, "Chat"),
        Dom.make(
            "div", {class: "chat"}, Dom.make("div", {class: "talk"}, log, said, composer, options),
            TokenPanel.root));
    redraw();
  }

  function submit() {
    const content = input.value.trim();
    if (content === "" || isBusy()) return;
    input.value = "";
    ask(content);
  }

  function ask(content) {
    turns.push({role: "user", content});
    answerWith(
        form === "chat" ? Answers.askChat(messages(), settings()) :
                          Answers.askText(wholeText(), settings()),
        null);
  }

  function wholeText() {
    return messages().map((message) => message.content).join("");
  }

  function messages() {
    const system = fields.system.value.trim();
    return [...(system ? [{role: "system", content: system}] : []), ...Answers.messagesOf(turns)];
  }

  // A new turn, or one more answer of an old one.
  function answerWith(answer, turn) {
    if (turn) {
      turn.answers.push(answer);
      turn.chosen = turn.answers.length - 1;
      // What followed the other answer does not follow this one.
      turns.length = turns.indexOf(turn) + 1;
    } else {
      turn = {role: "assistant", answers: [answer], chosen: 0, element: null};
      turns[turns.length - 1].reply = turn;
      turns.push(turn);
    }
    const draw = Dom.onceAFrame(() => drawAnswer(turn));
    answer.onChange = () => {
      draw();
      if (answer.isDone) announce(answer);
      if (answer.isDone && !Answers.standingOf(turn)) takeBack(turn);
    };
    TokenPanel.hide();
    selected = null;
    redraw();
    turn.element.scrollIntoView({block: "nearest"});
  }

  // What got no answer can be changed and sent again.
  function takeBack(turn) {
    const message = turns.find((other) => other.reply === turn);
    if (message && !message.isBack) {
      message.isBack = true;
      if (input.value.trim() === "") input.value = message.content;
    }
    redraw();
  }

  function announce(answer) {
    said.textContent = answer.error ? `Failed: ${answer.error}` : `Answer: ${Answers.text(answer)}`;
    updateButtons();
  }

  const answers = () =>
      turns.filter((turn) => turn.role === "assistant").flatMap((turn) => turn.answers);
  const isBusy = () => answers().some((answer) => !answer.isDone);

  function stopAnswer() {
    for (const answer of answers())
      if (!answer.isDone) answer.abort.abort();
  }

  function updateButtons() {
    const busy = isBusy();
    send.hidden = busy;
    stop.hidden = !busy;
  }

  function redraw() {
    shadingNote.textContent = {
      probability: "The darker a token and the more broken its line, the less likely it was.",
      time: "The darker a token and the more broken its line, the longer it took.",
      none: ""
    }[shading];
    if (turns.length === 0)
      Dom.fill(log, welcome());
    else
      Dom.fill(log, turns.map(drawTurn));
    updateButtons();
  }

  function welcome() {
    const ideas = [
      "Why is the sky blue?", "Tell a story about a lighthouse.", "Name three uses of a paper clip."
    ];
    return Dom.make(
        "div", {class: "welcome"},
        Dom.make("p", {class: "lead"}, "Ask something, then press any token of the answer."),
        Dom.make(
            "p", {class: "muted"},
            "You see how likely it was, what else could have been said and what it cost, and " +
                "can go on from there with another one."),
        Dom.make(
            "div", {class: "ideas"},
            ideas.map(
                (idea) => Dom.make("button", {type: "button", onclick: () => ask(idea)}, idea))));
  }

  function drawTurn(turn) {
    if (turn.role === "user") {
      const text = Dom.make("p", {}, turn.content);
      if (Answers.isSaid(turn)) return Dom.make("div", {class: "turn user"}, text);
      const word = turn.reply.answers[0].error ? "Not sent" : "Taken back";
      return Dom.make(
          "div", {class: "turn user unsent"}, text,
          Dom.make("p", {class: "muted small"}, `${word}: it is no part of the conversation.`));
    }
    turn.element = Dom.make("div", {class: "turn model"});
    drawAnswer(turn);
    return turn.element;
  }

  function drawAnswer(turn) {
    const answer = turn.answers[turn.chosen];
    if (turn.drawn !== answer) {
      turn.parts = {
        variants: Dom.make("div", {class: "variants"}),
        tokens: Dom.make("div", {
          class: "tokens",
          role: "group",
          "aria-label": "Answer, token by token. Arrow keys move"
        }),
        foot: Dom.make("div", {class: "foot"}),
        prompt: PromptView.make(answer)
      };
      turn.parts.tokens.addEventListener("keydown", (event) => moveFocus(event, turn));
      turn.parts.tokens.addEventListener("click", (event) => chooseToken(event, turn));
      turn.drawn = answer;
      turn.numDrawn = 0;
    }
    const {variants, tokens, foot, prompt} = turn.parts;
    if (!turn.element.contains(tokens)) Dom.fill(turn.element, variants, prompt, tokens, foot);
    drawVariants(turn, variants);
    // Tokens come one by one: those that stand are left as they are.
    if (turn.shadedBy !== shading) {
      tokens.replaceChildren();
      turn.numDrawn = 0;
      turn.shadedBy = shading;
    }
    for (; turn.numDrawn < answer.tokens.length; turn.numDrawn += 1) {
      tokens.append(...tokenButton(answer, turn.numDrawn));
    }
    if (tokens.querySelector("[tabindex='0']") === null && tokens.querySelector("button")) {
      tokens.querySelector("button").tabIndex = 0;
    }
    prompt.hidden = !answer.usage;
    Dom.fill(foot, footOf(answer));
    if (selected && selected.turn === turn) showToken(turn, selected.index);
    updateButtons();
  }

  function drawVariants(turn, element) {
    element.hidden = turn.answers.length < 2;
    Dom.fill(element, turn.answers.map((answer, i) => {
      const label = answer.branch ? `Branch ${i} at token ${answer.branch.index + 1}` : "Answer";
      return Dom.make(
          "button", {
            type: "button",
            class: "small",
            "aria-pressed": i === turn.chosen,
            "data-on": i === turn.chosen ? "yes" : null,
            onclick: () => chooseAnswer(turn, i)
          },
          label);
    }));
    for (const [i, button] of [...element.children].entries()) {
      button.setAttribute("aria-pressed", String(i === turn.chosen));
    }
  }

  function chooseAnswer(turn, i) {
    if (isBusy()) return;
    turn.chosen = i;
    turns.length = turns.indexOf(turn) + 1;
    selected = null;
    TokenPanel.hide();
    redraw();
  }

  // From sure to surprising, and from quick to slow, in four steps.
  function shadeOf(answer, index) {
    const token = answer.tokens[index];
    if (shading === "probability") {
      const p = Math.exp(token.logProb);
      return p > 0.8 ? "" : p > 0.5 ? "p1" : p > 0.2 ? "p2" : p > 0.05 ? "p3" : "p4";
    }
    if (shading === "time" && index > 0) {
      const ms = token.arrivedMs - answer.tokens[index - 1].arrivedMs;
      const gaps =
          answer.tokens.slice(1).map((one, i) => one.arrivedMs - answer.tokens[i].arrivedMs);
      const mean = gaps.reduce((a, b) => a + b, 0) / gaps.length;
      return ms < 1.1 * mean ? "" : ms < 1.5 * mean ? "t1" : ms < 2.5 * mean ? "t2" : "t3";
    }
    return "";
  }

  function tokenButton(answer, index) {
    const token = answer.tokens[index];
    const name = [
      "token", shadeOf(answer, index), token.isShared ? "shared" : "",
      token.isChosen ? "by-hand" : "", token.isEnd ? "end" : ""
    ].filter(Boolean).join(" ");
    const shown = token.isEnd    ? "■" :
        token.isPiece            ? "·" :
        /^\s+$/.test(token.text) ? token.text.replace(/\n/g, "⏎").replace(/ /g, "\u00a0") :
                                   token.text.replace(/\n/g, "⏎");
    const button = Dom.make(
        "button", {type: "button", class: name, tabindex: "-1", "data-index": index}, shown);
    if (shown.trim() === "" || token.isEnd || token.isPiece) {
      button.setAttribute(
          "aria-label",
          token.isEnd       ? "end of the answer" :
              token.isPiece ? "part of a character" :
                              Format.visible(token.text));
    }
    const breaks = (token.isEnd ? "" : token.text).split("\n").length - 1;
    return [button, ...Array.from({length: breaks}, () => Dom.make("br"))];
  }

  function chooseToken(event, turn) {
    const button = event.target.closest("button.token");
    if (button) showToken(turn, Number(button.dataset.index));
  }

  function moveFocus(event, turn) {
    const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
    const buttons = [...turn.parts.tokens.querySelectorAll("button.token")];
    const at = buttons.indexOf(document.activeElement);
    let next = at + (steps[event.key] || 0);
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = buttons.length - 1;
    if (at < 0 || next === at || next < 0 || next >= buttons.length) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
    if (!TokenPanel.root.hidden) showToken(turn, next);
  }

  function showToken(turn, index) {
    const answer = turn.answers[turn.chosen];
    for (const button of log.querySelectorAll("button.token[data-on]")) {
      button.removeAttribute("data-on");
    }
    const button = turn.parts.tokens.querySelector(`[data-index="${index}"]`);
    if (button) button.dataset.on = "yes";
    const hasCost = answer.costs.tokens.has(answer.promptIds.length + index);
    const key = `${answer.name} ${index} ${answer.isDone} ${hasCost}`;
    if (selected && selected.key === key && !TokenPanel.root.hidden) return;
    selected = {turn, index, key};
    const opens = TokenPanel.root.hidden;
    TokenPanel.show(answer, index, (at, chosen) => branch(turn, at, chosen), () => {
      selected = null;
      if (button) button.focus();
    });
    // On a small screen the panel lies over the lower half.
    if (opens && button) button.scrollIntoView({block: "nearest"});
  }

  function branch(turn, index, chosen) {
    if (isBusy()) return;
    answerWith(Answers.askBranch(turn.answers[turn.chosen], index, chosen, settings()), turn);
  }

  function footOf(answer) {
    if (answer.error) return Dom.make("p", {class: "error"}, answer.error);
    const usage = answer.usage;
    if (!usage) {
      return Dom.make(
          "p", {class: "muted small"},
          answer.isDone            ? "Stopped." :
              answer.tokens.length ? `${Format.plural(answer.tokens.length, "token")} …` :
                                     "Reading …");
    }
    const cached = usage.prompt_tokens_details.cached_tokens;
    const seconds = (answer.doneMs || performance.now()) - answer.sentMs;
    const parts = [
      Dom.number(
          "usage.completion_tokens", usage.completion_tokens,
          Format.plural(usage.completion_tokens, "token")),
      ` in ${Format.ms(seconds)}, the first after ${Format.ms(answer.firstMs - answer.sentMs)}. `,
      answer.branch ? "Its beginning is shared: " : "Prompt: ",
      Dom.number("usage.cached_tokens", cached, Format.count(cached)),
      " of ",
      Dom.number(
          "usage.prompt_tokens", usage.prompt_tokens, Format.plural(usage.prompt_tokens, "token")),
      " from the cache",
      usage.quire && usage.quire.miss ? `; then: ${usage.quire.miss.message}.` : ".",
    ];
    if (answer.finish === "length") parts.push(" It was cut at the limit of tokens.");
    return Dom.make("p", {class: "muted small"}, parts);
  }

  return {detail: "", needs: () => !App.saved, build, shown() {}, changed() {}};
})();
