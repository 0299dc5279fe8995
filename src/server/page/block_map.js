"use strict";
// The blocks of the cache as squares. Fetched once, changed by events from then on: a step redraws
// the squares that it touched and no others.
//
// States differ in shape as well: a used block is full, a cached one half, a free one a dot; a
// block that several hold has a hole.
class BlockMap {
  static kGap = 1;
  static kMostFree = 2048;
  static kMostSequences = 4096;  // whose owners are remembered
  static kGiven = "a copy given to a tier";
  static kRestored = "came from a tier";

  constructor() {
    this.body = null;
    this.mode = "owner";
    this.dirty = new Set();
    this.cursor = -1;
    this.isWhole = true;  // the next painting is of all blocks
    this.hasGrown = false;
    this.canvas = Dom.make("canvas", {
      tabindex: "0",
      role: "application",
      class: "map",
      hidden: true,
      "aria-label": "Map of the cache's blocks. Arrow keys move from block to block"
    });
    this.box = Dom.make("div", {class: "map-box"}, this.canvas);
    this.about = Dom.make("p", {class: "about", role: "status"}, "The blocks are not known yet.");
    this.legend = Dom.make("p", {class: "legend"});
    this.draw = Dom.onceAFrame(() => this.paint());
    this.canvas.addEventListener("keydown", (event) => this.move(event));
    this.canvas.addEventListener("focus", () => this.moveTo(Math.max(this.cursor, 0)));
    this.canvas.addEventListener("pointerdown", (event) => this.moveTo(this.blockAt(event)));
    new ResizeObserver(() => {
      const width = this.box.clientWidth;
      if (width > 0 && (this.isWhole || width !== this.width)) this.redraw();
    }).observe(this.box);
    Theme.onChange(() => this.redraw());
  }

  set(body) {
    const blocks = body.blocks;
    if (!this.body) {
      this.canvas.hidden = false;
      this.about.textContent = "Choose a block to read about it.";
    }
    this.body = body;
    this.state = [...blocks.state];
    this.references = blocks.references.slice();
    this.filled = blocks.filled.slice();
    this.group = blocks.group.slice();
    this.request = blocks.request.slice();
    this.tiers = blocks.tiers.map((held) => BlockMap.copiesIn(body.tiers, held));
    this.changed = blocks.age_ms.map((age) => body.now_ms - age);
    this.now = body.now_ms;
    this.owners = new Map();   // sequence -> request, learned from steps
    this.unnamed = new Map();  // block -> sequence, where its request is not learned yet
    // So that one sees how much room there is; of large pools the beginning.
    while (this.state.length < Math.min(body.num_blocks, BlockMap.kMostFree))
      this.addFree(this.now);
    this.redraw();
  }

  // Where copies of a block are, bit by bit; "" where none is known.
  static copiesIn(tiers, held) {
    const names = tiers.filter((_, i) => (held >> i) & 1)
                      .map((tier) => ({disk: "on disk", remote: "in Redis"})[tier] || tier);
    return names.length ? `a copy ${names.join(" and ")}` : "";
  }

  addFree(ms) {
    this.state.push("f");
    this.references.push(0);
    this.filled.push(0);
    this.group.push(0);
    this.request.push(0);
    this.tiers.push("");
    this.changed.push(ms);
  }

  get count() {
    return this.body ? this.state.length : 0;
  }

  colorBy(mode) {
    this.mode = mode;
    this.redraw();
  }

  // Block events come before the step whose lines name their sequences' requests.
  take(events) {
    if (!this.body) return;
    for (const event of events) {
      if (event.event === "step") {
        for (const line of event.lines || []) this.nameOwner(line.sequence, line.request);
      } else if (event.event === "block") {
        this.takeBlock(event);
      }
    }
    this.draw();
  }

  nameOwner(sequence, request) {
    if (!sequence || this.owners.get(sequence) === request) return;
    BlockMap.remember(this.owners, sequence, request);
    for (const [id, owner] of this.unnamed) {
      if (owner !== sequence) continue;
      this.request[id] = request || 0;
      this.unnamed.delete(id);
      this.dirty.add(id);
    }
  }

  // The last few thousand are kept.
  static remember(map, key, value) {
    map.delete(key);
    map.set(key, value);
    if (map.size > BlockMap.kMostSequences) map.delete(map.keys().next().value);
  }

  takeBlock(event) {
    const id = event.block || 0;
    while (this.state.length <= id) {
      this.dirty.add(this.state.length);
      this.addFree(event.ms);
      this.hasGrown = true;
    }
    const references = event.references || 0;
    this.references[id] = references;
    this.now = Math.max(this.now, event.ms);
    this.changed[id] = event.ms;
    if ((event.group || 0) >= 0) this.group[id] = event.group || 0;
    this.state[id] = references > 0 ? "u" : event.findable ? "c" : "f";
    switch (event.change) {
      // How full a block is becomes known again once it is full.
      case "allocate":
      case "copy_on_write":
        this.filled[id] = null;
        this.tiers[id] = "";
        break;
      case "fill":
        this.filled[id] = this.body.block_slots;
        break;
      case "evict":
        this.filled[id] = 0;
        this.tiers[id] = "";
        break;
      case "offload":
        this.tiers[id] = BlockMap.kGiven;
        break;
      case "restore":
        this.tiers[id] = BlockMap.kRestored;
        this.filled[id] = this.body.block_slots;
        break;
      default:
        break;
    }
    if (this.state[id] === "f") this.filled[id] = 0;
    this.takeOwner(id, event);
    this.dirty.add(id);
  }

  // Who took a block owns it until it lets go; which of several holders is next is not told.
  takeOwner(id, event) {
    const request = this.owners.get(event.sequence) || 0;
    const isOwned = this.request[id] !== 0 || this.unnamed.has(id);
    if (event.change === "release") {
      const isOwn =
          request ? request === this.request[id] : this.unnamed.get(id) === event.sequence;
      if (this.state[id] === "u" && !(event.sequence && isOwn)) return;
    } else if (
        this.state[id] === "u" && (!event.sequence || (event.change === "share" && isOwned))) {
      return;
    }
    this.request[id] = 0;
    this.unnamed.delete(id);
    if (this.state[id] !== "u" || event.change === "release") return;
    if (request)
      this.request[id] = request;
    else
      BlockMap.remember(this.unnamed, id, event.sequence);
  }

  counts() {
    const counts = {u: 0, c: 0, f: 0};
    for (const state of this.state) counts[state] += 1;
    counts.f += Math.max(0, this.body.num_blocks - this.state.length);
    counts.inTiers =
        this.state.filter((state, id) => state !== "f" && this.tiers[id] !== "").length;
    return counts;
  }

  redraw() {
    this.isWhole = true;
    this.draw();
  }

  // As large as lets all blocks stand on a screen or two.
  measure() {
    const width = this.box.clientWidth;
    const wanted = Math.sqrt((width * 420) / Math.max(this.count, 1));
    const size = Math.min(22, Math.max(5, Math.floor(wanted)));
    const columns = Math.max(1, Math.floor(width / size));
    const height = Math.min(16000, Math.ceil(Math.max(this.count, 1) / columns) * size);
    return {width, size, columns, height};
  }

  layOut(layout) {
    const {width, height} = layout;
    Object.assign(this, layout);
    const scale = Math.min(devicePixelRatio || 1, 16000 / height);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  paint() {
    if (!this.body || !this.canvas.isConnected) return;
    const layout = this.measure();
    if (layout.width === 0) {  // not shown: all of it once it is
      this.isWhole = true;
      return;
    }
    if (Object.keys(layout).some((name) => layout[name] !== this[name])) this.isWhole = true;
    if (this.isWhole) {
      this.layOut(layout);
      for (let id = 0; id < this.count; id += 1) this.paintBlock(id);
    } else {
      for (const id of this.dirty) this.paintBlock(id);
    }
    if (this.isWhole || this.hasGrown) this.drawLegend();
    this.isWhole = this.hasGrown = false;
    this.dirty.clear();
    if (this.cursor >= 0) this.tellAbout();
  }

  paintBlock(id) {
    const x = (id % this.columns) * this.size;
    const y = Math.floor(id / this.columns) * this.size;
    const size = this.size - BlockMap.kGap;
    const context = this.context;
    const state = this.state[id];
    context.clearRect(x, y, this.size, this.size);
    if (state === "f") {
      const dot = Math.max(2, size / 4);
      context.fillStyle = Theme.color("line-strong");
      context.fillRect(x + (size - dot) / 2, y + (size - dot) / 2, dot, dot);
    } else {
      context.fillStyle = this.colorOf(id);
      if (state === "c")
        context.fillRect(x, y + size / 2, size, size / 2);
      else
        context.fillRect(x, y, size, size);
      context.strokeStyle = context.fillStyle;
      context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      if (this.references[id] > 1)
        context.clearRect(x + size / 3, y + size / 3, size / 3, size / 3);
    }
    if (id === this.cursor) {
      context.lineWidth = 2;
      context.strokeStyle = Theme.color("ink");
      context.strokeRect(x + 1, y + 1, size - 2, size - 2);
      context.lineWidth = 1;
    }
  }

  colorOf(id) {
    const {color} = Theme;
    switch (this.mode) {
      case "shared": {
        const n = this.references[id];
        return color(n > 3 ? "vermillion" : n > 1 ? "orange" : n === 1 ? "sky" : "faint");
      }
      case "tier":
        return color(
            this.tiers[id] === ""                     ? "green" :
                this.tiers[id] === BlockMap.kRestored ? "orange" :
                                                        "purple");
      case "age": {
        const seconds = (this.now - this.changed[id]) / 1000;
        return color(
            seconds < 1      ? "vermillion" :
                seconds < 10 ? "orange" :
                seconds < 60 ? "sky" :
                               "blue");
      }
      default: {
        const owner = this.request[id];
        return owner ? color(Theme.series[owner % 6]) : color("faint");
      }
    }
  }

  drawLegend() {
    const more = this.body.num_blocks - this.count;
    const swatch = (name) =>
        Dom.make("i", {class: "swatch", style: {background: `var(--${name})`}});
    const item = (names, text) => Dom.make("span", {}, [names].flat().map(swatch), text);
    const keys = {
      owner: [
        ["faint", "nobody's, or not known"],
        [Theme.series.slice(0, 6), "a colour a request, six in turn"]
      ],
      shared:
          [["faint", "no holder"], ["sky", "one"], ["orange", "2 or 3"], ["vermillion", "more"]],
      tier:
          [["green", "memory alone"], ["purple", "also in a tier"], ["orange", "came from a tier"]],
      age: [
        ["vermillion", "changed within 1 s"], ["orange", "10 s"], ["sky", "a minute"],
        ["blue", "longer ago"]
      ],
    };
    Dom.fill(
        this.legend, keys[this.mode].map(([name, text]) => item(name, text)),
        Dom.make(
            "span", {class: "muted"},
            `Full: used. Half: cached. Dot: free. With a hole: held by several.${
                more > 0 ? ` ${Format.count(more)} more, never used, are not shown.` : ""}`));
  }

  blockAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    return Math.floor((event.clientY - box.top) / this.size) * this.columns + column;
  }

  move(event) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns};
    let next = this.cursor + (steps[event.key] || 0);
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = this.count - 1;
    if (next === this.cursor) return;
    event.preventDefault();
    this.moveTo(next);
  }

  moveTo(id) {
    if (!this.body || id < 0 || id >= this.count) return;
    const before = this.cursor;
    this.cursor = id;
    for (const one of [before, id])
      if (one >= 0) this.dirty.add(one);
    this.draw();
    this.tellAbout();
  }

  tellAbout() {
    const id = this.cursor;
    if (id >= this.count) return;
    const state = {u: "used", c: "cached", f: "free"}[this.state[id]];
    const owner = this.request[id] ? ` by request ${this.request[id]}` : "";
    const window = this.body.groups[this.group[id]];
    const group = this.body.groups.length > 1 ?
        `, group ${this.group[id]}${window ? ` (window of ${Format.count(window)})` : ""}` :
                                             "";
    const tier = this.tiers[id] ? `, ${this.tiers[id]}` : "";
    const filled = this.filled[id] === null ?
        (this.state[id] === "c" ? "partly filled" : "being filled") :
        `${this.filled[id]} of ${this.body.block_slots} slots filled`;
    const age = Math.max(0, this.now - this.changed[id]);
    this.about.textContent = `Block ${id}: ${state}${owner}, ` +
        `${Format.plural(this.references[id], "holder")}, ${filled}${group}${tier}, ` +
        `changed ${Format.ms(age)} ago.`;
  }
}
