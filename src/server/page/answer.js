"use strict";
// One answer of the model, token by token, and how it is asked for: as the next message of a chat,
// as what goes on from a text, or as a branch, which goes on from another answer with one token
// chosen by hand.
//
// A branch is sent as token ids, so its keys and values up to that token are those of the answer it
// leaves: the server finds them, and cached_tokens proves it.
const Answers = (() => {
  const texts = new Map();  // token id -> text, as far as it has been seen

  const idOf = (name) => Number(name.slice("token_id:".length));
  const newName = () => `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;

  async function textOf(id) {
    if (!texts.has(id)) texts.set(id, (await Api.post("/detokenize", {tokens: [id]})).prompt);
    return texts.get(id);
  }

  const common = {
    stream: true,
    stream_options: {include_usage: true},
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    quire: true
  };

  function empty(branch) {
    return {
      name: newName(),
      promptIds: [],
      promptCount: 0,
      asked: null,  // what its prompt is made of: {messages} or {prompt}
      tokens: [],
      usage: null,
      finish: null,
      error: null,
      isDone: false,
      branch,
      costs: null,
      sentMs: performance.now(),
      firstMs: 0,
      abort: new AbortController(),
      onChange: () => {}
    };
  }

  function text(answer) {
    return answer.tokens.map((token) => (token.isEnd ? "" : token.text)).join("");
  }

  function sampling(settings) {
    const body = {temperature: settings.temperature, top_p: settings.topP};
    if (settings.seed !== null) body.seed = settings.seed;
    return body;
  }

  // For models without a chat template: the text that goes on.
  function askText(prompt, settings) {
    const answer = empty(null);
    answer.asked = {prompt};
    const body =
        {prompt, max_tokens: settings.maxTokens, logprobs: 5, ...sampling(settings), ...common};
    run(answer, "/v1/completions", body, (choice) => takeTextChunk(answer, choice));
    return answer;
  }

  function askChat(messages, settings) {
    const answer = empty(null);
    answer.asked = {messages};
    const decoder = new TextDecoder();
    const body = {
      messages,
      max_tokens: settings.maxTokens,
      logprobs: true,
      top_logprobs: 5,
      ...sampling(settings),
      ...common
    };
    run(answer, "/v1/chat/completions", body, async (choice) => {
      const entries = choice.logprobs ? choice.logprobs.content : [];
      entries.forEach((entry, i) => {
        takeChatToken(answer, decoder, entry, endsWith(choice, i, entries.length));
      });
    });
    return answer;
  }

  // The model's own end is a token too, the last of its chunk; it has no part in the text.
  function endsWith(choice, i, count) {
    return choice.finish_reason === "stop" && choice.stop_reason === null && i === count - 1;
  }

  function takeChatToken(answer, decoder, entry, isEnd) {
    const alternatives = entry.top_logprobs.map((other) => {
      const id = idOf(other.token);
      const own = new TextDecoder().decode(new Uint8Array(other.bytes));
      if (!own.includes("\ufffd")) texts.set(id, own);
      return {id, logProb: other.logprob, text: own};
    });
    // A character may end in a later token; until then its pieces have no text of their own.
    const piece = decoder.decode(new Uint8Array(entry.bytes), {stream: true});
    addToken(answer, {
      id: idOf(entry.token),
      text: piece,
      logProb: entry.logprob,
      alternatives,
      isPiece: piece === "" && entry.bytes.length > 0,
      isEnd
    });
  }

  function addToken(answer, token) {
    if (!answer.firstMs) answer.firstMs = performance.now();
    answer.tokens.push({arrivedMs: performance.now(), ...token});
    answer.onChange();
  }

  // Leaves `from` before its token `index`, with `chosen` there instead: {id, text, logProb}; null
  // draws again.
  function askBranch(from, index, chosen, settings) {
    const answer = empty({index, chosen, from});
    const kept = from.tokens.slice(0, index);
    answer.tokens = kept.map((token) => ({...token, isShared: true}));
    answer.kept = kept.length + (chosen ? 1 : 0);
    if (chosen) {
      answer.tokens.push({
        ...from.tokens[index],
        ...chosen,
        isChosen: true,
        isEnd: false,
        isPiece: false,
        arrivedMs: performance.now()
      });
    }
    const prompt = [...from.promptIds, ...answer.tokens.map((token) => token.id)];
    answer.promptIds = from.promptIds;
    answer.asked = from.asked;
    const body = {
      prompt,
      max_tokens: Math.max(1, settings.maxTokens - answer.kept),
      logprobs: 5,
      ...sampling(settings),
      ...common
    };
    run(answer, "/v1/completions", body, (choice) => takeTextChunk(answer, choice));
    return answer;
  }

  async function takeTextChunk(answer, choice) {
    const entries = choice.logprobs;
    if (!entries) return;
    const ids = entries.tokens.map(idOf);
    const shown = ids.filter((id, i) => !endsWith(choice, i, ids.length));
    // The text of a chunk is that of its token; of several, each is asked for.
    let pieces = [choice.text];
    if (shown.length > 1) {
      pieces = await Promise.all(shown.map(textOf));
      if (pieces.join("") !== choice.text) pieces = [...shown.slice(1).map(() => ""), choice.text];
    } else if (choice.text !== "") {
      texts.set(shown[0], choice.text);
    }
    ids.forEach((id, i) => {
      const alternatives = Object.entries(entries.top_logprobs[i] || {})
                               .map(([name, logProb]) => ({
                                      id: idOf(name),
                                      logProb,
                                      text: texts.has(idOf(name)) ? texts.get(idOf(name)) : null
                                    }));
      alternatives.sort((a, b) => b.logProb - a.logProb);
      const isEnd = i >= shown.length;
      addToken(answer, {
        id,
        text: isEnd ? "" : pieces[i],
        logProb: entries.token_logprobs[i],
        alternatives,
        isPiece: !isEnd && pieces[i] === "",
        isEnd
      });
    });
  }

  async function run(answer, path, body, takeChoice) {
    // Events name a request as its answer is named.
    const prefix = path === "/v1/chat/completions" ? "chatcmpl" : "cmpl";
    answer.costs = App.live.watch(`${prefix}-${answer.name}`);
    answer.costs.onChange = () => answer.onChange();
    // Chunks in their order, though one may wait for the texts of its tokens. Those that came
    // before a fault are taken too.
    let order = Promise.resolve();
    let fault = null;
    try {
      await Api.stream(path, {...body, request_id: answer.name}, {
        signal: answer.abort.signal,
        onChunk: (chunk) => {
          order = order.then(() => takeChunk(answer, chunk, takeChoice));
        },
      });
    } catch (error) {
      fault = error;
    }
    await order.catch((error) => {
      fault = fault || error;
    });
    if (fault && fault.name === "AbortError")
      answer.finish = "stopped";
    else if (fault)
      answer.error = errorOf(answer, fault);
    answer.isDone = true;
    answer.doneMs = performance.now();
    answer.onChange();
  }

  function errorOf(answer, fault) {
    if (fault.code !== "broken_off") return fault.message;
    return "The answer broke off: the server is gone, or the connection to it." +
        (hasOwn(answer) ? " What came until then is kept." : "");
  }

  // Whether the model has said something of it: a branch begins with what the other answer said.
  const hasOwn = (answer) => answer.tokens.length > (answer.kept || 0);
  // One that came to nothing is no part of the conversation.
  const isLost = (answer) =>
      Boolean(answer.error || answer.finish === "stopped") && !hasOwn(answer);

  // The answer of a turn that later ones follow: the one chosen, or in place of a branch that came
  // to nothing the one that it left; null where none came.
  function standingOf(turn) {
    let answer = turn.answers[turn.chosen];
    while (answer && isLost(answer)) answer = answer.branch && answer.branch.from;
    return answer;
  }

  // A message and its answer go together.
  const isSaid = (turn) => !turn.reply || standingOf(turn.reply) !== null;

  function messagesOf(turns) {
    const list = [];
    for (const turn of turns) {
      if (turn.role === "user" && isSaid(turn)) list.push({role: "user", content: turn.content});
      const answer = turn.role === "assistant" && standingOf(turn);
      if (answer) list.push({role: "assistant", content: text(answer)});
    }
    return list;
  }

  async function takeChunk(answer, chunk, takeChoice) {
    if (chunk.usage) {
      answer.usage = chunk.usage;
      answer.promptCount = chunk.usage.prompt_tokens;
    }
    for (const choice of chunk.choices) {
      const ids = chunk.prompt_token_ids || choice.prompt_token_ids;
      if (ids && !answer.branch) answer.promptIds = ids;
      await takeChoice(choice);
      if (choice.finish_reason) answer.finish = choice.finish_reason;
    }
  }

  // The prompt's tokens with their texts, and where each came from: "memory", "disk", "remote", or
  // "computed". A prefix lies in the tiers in this order.
  async function promptTokens(answer) {
    const names = await promptTexts(answer);
    const ids = answer.branch ?
        [...answer.promptIds, ...answer.tokens.slice(0, answer.kept).map((token) => token.id)] :
        answer.promptIds;
    const branchTexts = answer.tokens.slice(0, answer.kept || 0).map((token) => token.text);
    const all = [...names, ...branchTexts];
    const tiers = answer.usage && answer.usage.quire ? answer.usage.quire.cached_by_tier : {};
    const ends =
        [["memory", tiers.memory || 0], ["disk", tiers.disk || 0], ["remote", tiers.remote || 0]];
    return ids.map((id, i) => {
      let left = i;
      for (const [tier, tokens] of ends) {
        if (left < tokens) return {id, text: all[i], tier};
        left -= tokens;
      }
      return {id, text: all[i], tier: "computed"};
    });
  }

  async function promptTexts(answer) {
    const ids = answer.promptIds;
    const body = {...answer.asked, return_token_strs: true};
    const said = await Api.post("/tokenize", body);
    const isSame = said.tokens.length === ids.length && said.tokens.every((id, i) => id === ids[i]);
    if (isSame) return Spelling.textsOf(said.token_strs);
    return Promise.all(ids.map(textOf));
  }

  return {
    askChat,
    askText,
    askBranch,
    standingOf,
    isSaid,
    messagesOf,
    text,
    textOf,
    promptTokens
  };
})();

// Vocabularies spell tokens in an alphabet of their own: bytes as printable characters (byte-level
// BPE), or a sign for the space (SentencePiece).
const Spelling = (() => {
  const byteOf = new Map();
  let next = 256;
  for (let byte = 0; byte < 256; byte += 1) {
    const isPrintable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    byteOf.set(String.fromCodePoint(isPrintable ? byte : next++), byte);
  }

  function textsOf(spellings) {
    if (!spellings.some((one) => one.includes("\u0120") || one.includes("\u010a"))) {
      return spellings.map((one) => one.replace(/\u2581/g, " "));
    }
    const decoder = new TextDecoder();
    return spellings.map((one) => {
      const bytes = [...one].map((character) => byteOf.get(character));
      if (bytes.includes(undefined)) return one;
      return decoder.decode(new Uint8Array(bytes), {stream: true});
    });
  }

  return {textsOf};
})();
