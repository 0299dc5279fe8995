"use strict";
// What the engine does, as the server tells it: one stream of events, and what they add up to.
//
// Requests are kept as spans of time, so that a long answer takes no more room than a short one.
// Nothing here asks twice: a snapshot first, changes from then on. While nobody looks at the page
// it listens to nothing.
class Live {
  static kMaxRequests = 3000;
  static kRetryMs = [1000, 2000, 5000, 10000];

  constructor() {
    this.run = null;
    this.requests = new Map();  // by id, in the order they came
    this.status = null;
    this.state = "closed";  // "open", "retrying", "refused"
    this.error = null;
    this.lost = null;  // {ms, date} of the stream's end, until there is another
    this.dropped = 0;
    this.lastStep = null;
    this.listeners = new Set();
    this.watched = new Map();  // by the request's name: what its tokens cost
    this.detail = "";
    this.clock = 0;  // of performance.now() when the run's time was 0
    this.retries = 0;
    this.abort = null;
  }

  // Of what is known: it stands still while the server is gone.
  now() {
    return (this.lost ? this.lost.ms : performance.now()) - this.clock;
  }

  onChange(listener) {
    this.listeners.add(listener);
  }

  tell(what) {
    for (const listener of this.listeners) listener(what);
  }

  start(detail) {
    this.detail = detail;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden)
        this.close();
      else
        this.open();
    });
    if (!document.hidden) this.open();
  }

  // The details that the view shown needs; the server measures no others.
  wants(detail) {
    if (detail === this.detail) return;
    this.detail = detail;
    this.close();
    if (!document.hidden) this.open();
  }

  // After a refusal, with another key.
  again() {
    this.close();
    this.open();
  }

  close() {
    if (this.abort) this.abort.abort();
    this.abort = null;
    this.state = "closed";
  }

  async open() {
    if (this.abort) return;
    const abort = new AbortController();
    this.abort = abort;
    const path = "/quire/events" + (this.detail ? `?detail=${this.detail}` : "");
    try {
      await Api.listen(path, {
        signal: abort.signal,
        onOpen: () => this.become("open", null),
        onEvent: (name, data) => this.take(name, data),
      });
      this.error = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = error;
    }
    if (abort.signal.aborted) return;
    abort.abort();  // what a fault of ours has left open
    this.abort = null;
    const status = this.error ? this.error.status : 0;
    if (status >= 400 && status !== 429 && status !== 503) {
      this.become("refused", this.error);
      return;
    }
    this.become("retrying", this.error);
    const pause = Live.kRetryMs[Math.min(this.retries, Live.kRetryMs.length - 1)];
    this.retries += 1;
    setTimeout(() => {
      if (this.state === "retrying" && !document.hidden) this.open();
    }, pause);
  }

  become(state, error) {
    this.state = state;
    this.error = error;
    this.lost = state === "open" ? null : this.lost || {ms: performance.now(), date: new Date()};
    this.tell({state: true});
  }

  take(name, data) {
    if (name === "snapshot") {
      this.takeSnapshot(data);
      this.retries = 0;
      this.tell({snapshot: true, events: []});
    } else if (name === "events") {
      for (const event of data) this.note(event);
      this.trim();
      this.tell({events: data});
    }
  }

  takeSnapshot(snapshot) {
    const isSameRun = this.run && this.run.unix_time === snapshot.run.unix_time;
    if (!isSameRun) this.requests.clear();
    this.run = snapshot.run;
    this.clock = performance.now() - snapshot.now_ms;
    this.status = snapshot.status;
    this.forgetSteps();
    const there = new Set();
    for (const one of snapshot.requests) {
      there.add(one.request);
      const request = this.requestOf(one.request, one.arrived_ms);
      Object.assign(request, {
        name: one.name,
        prompt: one.prompt_tokens || 0,
        max: one.max_tokens,
        arrived: one.arrived_ms,
        state: one.state,
        cached: one.cached || 0
      });
      if (one.first_token_ms) request.firstToken = one.arrived_ms + one.first_token_ms;
      if (one.end && !request.end)
        this.noteEnd({...one.end, request: one.request});
      else if (one.state === "running")
        request.waiting = null;
    }
    // What ended while nobody listened is over, though how is not known.
    for (const request of this.requests.values()) {
      if (request.state !== "ended" && !there.has(request.id)) request.state = "ended";
    }
  }

  requestOf(id, ms) {
    let request = this.requests.get(id);
    if (!request) {
      request = {
        id,
        name: "",
        prompt: 0,
        max: 0,
        choices: 1,
        arrived: ms,
        state: "waiting",
        cached: 0,
        firstToken: 0,
        tokens: 0,
        end: null,
        spans: [],
        waiting: {kind: "queued", from: ms, reason: ""}
      };
      this.requests.set(id, request);
    }
    return request;
  }

  note(event) {
    switch (event.event) {
      case "run":
        this.run = event;
        break;
      case "request": {
        const request = this.requestOf(event.request, event.ms);
        Object.assign(request, {
          name: event.name || "",
          prompt: event.prompt_tokens || 0,
          max: event.max_tokens || 0,
          arrived: event.ms,
          choices: event.num_choices || 1
        });
        break;
      }
      case "step":
        this.noteStep(event);
        break;
      case "token":
        this.noteToken(event);
        break;
      case "end":
        this.noteEnd(event);
        break;
      case "dropped":
        this.dropped += event.count;
        this.forgetSteps();
        break;
      default:
        break;  // blocks are the block map's
    }
  }

  noteStep(step) {
    this.lastStep = step;
    this.status = {
      ...this.status,
      running: step.num_running || 0,
      waiting: step.num_waiting || 0,
      used_blocks: step.used_blocks || 0,
      cached_blocks: step.cached_blocks || 0
    };
    if (this.run && this.run.num_blocks) {
      this.status.free_blocks =
          this.run.num_blocks - this.status.used_blocks - this.status.cached_blocks;
    }
    const end = step.ms + (step.total_ms || 0);
    for (const line of step.lines || []) {
      if (!line.request) continue;
      const request = this.requestOf(line.request, step.ms);
      if (request.state === "ended") continue;
      if (line.action === "wait")
        this.noteWait(request, step.ms, line);
      else if (line.action === "preempt")
        this.beginWait(request, end, "preempted", line.reason);
      else if (line.num_tokens)
        this.noteWork(request, step, end, line);
    }
  }

  noteWork(request, step, end, line) {
    this.endWait(request, step.ms);
    request.state = "running";
    if (line.is_admission) request.cached = Math.max(request.cached, line.cached_tokens || 0);
    const last = request.spans[request.spans.length - 1];
    const goesOn =
        last && last.kind === line.action && line.action === "decode" && step.step - last.step <= 1;
    if (goesOn) {
      last.to = end;
      last.step = step.step;
      last.tokens += line.num_tokens;
      last.steps += 1;
    } else {
      request.spans.push({
        kind: line.action,
        from: step.ms,
        to: end,
        step: step.step,
        steps: 1,
        tokens: line.num_tokens,
        first: line.first_position || 0,
        reason: line.reason || ""
      });
    }
    const watch = this.watched.get(request.name);
    if (watch) watch.noteStep(step, line);
  }

  noteWait(request, ms, line) {
    const kind = line.reason === "tier_load"                    ? "loading" :
        request.waiting && request.waiting.kind === "preempted" ? "preempted" :
                                                                  "queued";
    if (request.waiting && request.waiting.kind === kind) {
      request.waiting.reason = line.reason || "";
      return;
    }
    this.endWait(request, ms);
    this.beginWait(request, ms, kind, line.reason);
  }

  beginWait(request, ms, kind, reason) {
    request.state = "waiting";
    request.waiting = {kind, from: ms, reason: reason || ""};
  }

  endWait(request, ms) {
    const waiting = request.waiting;
    request.waiting = null;
    if (!waiting || ms <= waiting.from) return;
    request.spans.push({
      kind: waiting.kind,
      from: waiting.from,
      to: ms,
      step: 0,
      steps: 0,
      tokens: 0,
      first: 0,
      reason: waiting.reason
    });
  }

  noteToken(event) {
    const request = this.requestOf(event.request, event.ms);
    request.tokens += 1;
    if (!request.firstToken) request.firstToken = event.ms;
    const watch = this.watched.get(request.name);
    if (watch) watch.noteToken(event);
  }

  // Where events were lost, the last step known need not be that of the tokens which follow.
  forgetSteps() {
    for (const watch of this.watched.values()) watch.step = null;
  }

  noteEnd(event) {
    const request = this.requestOf(event.request, event.ms);
    if (request.spans.length === 0) this.spansOfEnd(request, event);
    this.endWait(request, event.ms);
    request.state = "ended";
    request.end = event;
    request.cached =
        (event.cached_memory || 0) + (event.cached_disk || 0) + (event.cached_remote || 0);
    request.tokens = Math.max(request.tokens, event.completion_tokens || 0);
  }

  // Of a request whose steps were not heard of: the parts that its end tells, one after another.
  spansOfEnd(request, end) {
    const begin = end.ms - (end.total_ms || 0);
    const queued = end.queue_ms || 0;
    const loaded = Math.min(queued, end.tier_wait_ms || 0);
    const total = end.total_ms || 0;
    const first = end.first_token_ms || total;  // none: its prompt was computed until the end
    const parts = [
      ["queued", queued - loaded], ["loading", loaded], ["prefill", first - queued],
      ["decode", total - first]
    ];
    request.waiting = null;
    let from = begin;
    for (const [kind, ms] of parts) {
      if (ms <= 0) continue;
      request.spans.push(
          {kind, from, to: from + ms, step: 0, steps: 0, tokens: 0, first: 0, reason: ""});
      from += ms;
    }
  }

  // The oldest ended ones give way.
  trim() {
    let excess = this.requests.size - Live.kMaxRequests;
    if (excess <= 0) return;
    for (const [id, request] of this.requests) {
      if (excess <= 0) break;
      if (request.state !== "ended") continue;
      this.requests.delete(id);
      excess -= 1;
    }
  }

  // What the tokens of a request that is about to be sent under this name cost. The last ones are
  // kept: nobody looks at older answers again.
  watch(name) {
    const costs = new TokenCosts();
    for (const old of this.watched.keys()) {
      if (this.watched.size < 200) break;
      this.watched.delete(old);
    }
    this.watched.set(name, costs);
    return costs;
  }
}

// The tokens of one answer beside the steps that drew them. By position, for events may be lost.
class TokenCosts {
  constructor() {
    this.tokens = new Map();  // by index in the sequence, prompt included: {ms, sinceMs, ...}
    this.step = null;
    this.onChange = () => {};
  }

  // A step is told before the tokens that came of it.
  noteStep(step, line) {
    this.step = {
      step: step.step,
      tokens: step.num_tokens || 0,
      forwardMs: step.forward_ms || 0,
      totalMs: step.total_ms || 0,
      action: line.action,
      sequences: step.lines.filter((one) => one.num_tokens).length
    };
  }

  noteToken(event) {
    const position = event.position || 0;
    const before = this.tokens.get(position - 1);
    this.tokens.set(position, {
      ms: event.ms,
      sinceMs: before ? event.ms - before.ms : null,
      drafted: Boolean(event.was_drafted),
      step: this.step
    });
    this.onChange();
  }
}
