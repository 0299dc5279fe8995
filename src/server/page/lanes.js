"use strict";
// Requests as lanes over time, on a canvas of the window's size: only the lanes and spans that are
// seen are drawn, however many there are.
class Lanes {
  static kRow = 22;
  static kHead = 24;
  static kLabel = 116;
  static kKinds = {
    queued: ["Queued", "muted", "lines"],
    loading: ["Loading from a tier", "orange", "dots"],
    prefill: ["Prefill", "blue", "solid"],
    decode: ["Decode", "green", "solid"],
    preempted: ["Preempted", "vermillion", "cross"],
  };

  constructor(onChoose) {
    this.onChoose = onChoose;
    this.requests = [];
    this.from = 0;
    this.span = 20000;
    this.follows = true;
    this.chosen = null;
    this.now = () => 0;
    this.canvas = Dom.make("canvas", {class: "lanes", "aria-hidden": "true"});
    this.spacer = Dom.make("div", {class: "spacer"}, this.canvas);
    this.element = Dom.make(
        "div", {
          class: "lane-box",
          tabindex: "0",
          role: "application",
          "aria-label": "Requests over time. Up and down choose a request, left and right " +
              "move through time, plus and minus change the scale"
        },
        this.spacer);
    this.draw = Dom.onceAFrame(() => this.paint());
    this.element.addEventListener("scroll", this.draw);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("pointermove", (event) => this.drag(event));
    new ResizeObserver(this.draw).observe(this.element);
    Theme.onChange(this.draw);
  }

  set(requests) {
    this.requests = requests;
    const height = Math.min(520, Math.max(110, (requests.length + 1) * Lanes.kRow + Lanes.kHead));
    this.element.style.height = `${height}px`;
    this.spacer.style.height = `${requests.length * Lanes.kRow + Lanes.kHead}px`;
    this.draw();
  }

  zoom(factor) {
    const end = this.from + this.span;
    const middle = this.follows ? end : this.from + this.span / 2;
    this.span = Math.min(3600000, Math.max(20, this.span * factor));
    this.from = this.follows ? middle - this.span : middle - this.span / 2;
    this.draw();
  }

  follow(isOn) {
    this.follows = isOn;
    this.draw();
  }

  // So that all that is known is seen.
  showAll() {
    if (this.requests.length === 0) return;
    const first = Math.min(...this.requests.map((request) => request.arrived));
    const last = Math.max(...this.requests.map((request) => Lanes.endOf(request, this.now())));
    this.follows = false;
    this.span = Math.max(20, (last - first) * 1.05);
    this.from = first - this.span * 0.02;
    this.draw();
  }

  static endOf(request, now) {
    if (request.end) return request.end.ms;
    if (request.state !== "ended") return now;
    const last = request.spans[request.spans.length - 1];
    return last ? last.to : request.arrived;
  }

  scale(width) {
    return (width - Lanes.kLabel) / this.span;
  }

  paint() {
    const box = this.element;
    if (!box.isConnected || box.clientWidth === 0) return;
    const width = box.clientWidth;
    const height = box.clientHeight;
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) ||
        this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    if (this.follows) this.from = this.now() - this.span * 0.97;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    this.colors = {
      ink: Theme.color("ink"),
      muted: Theme.color("muted"),
      line: Theme.color("line"),
      soft: Theme.color("soft"),
      ground: Theme.color("card")
    };
    const first = Math.max(0, Math.floor((box.scrollTop - Lanes.kHead) / Lanes.kRow));
    const last =
        Math.min(this.requests.length - 1, Math.ceil((box.scrollTop + height) / Lanes.kRow));
    this.paintAxis(context, width, height);
    for (let row = first; row <= last; row += 1) {
      const y = Lanes.kHead + row * Lanes.kRow - box.scrollTop;
      this.paintLane(context, this.requests[row], y, width);
    }
    this.paintHead(context, width);
  }

  step() {
    const wanted = this.span / 6;
    const power = 10 ** Math.floor(Math.log10(wanted));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= wanted);
  }

  paintAxis(context, width, height) {
    context.strokeStyle = this.colors.line;
    context.beginPath();
    for (let ms = Math.ceil(this.from / this.step()) * this.step(); ms < this.from + this.span;
         ms += this.step()) {
      const x = Math.round(Lanes.kLabel + (ms - this.from) * this.scale(width)) + 0.5;
      context.moveTo(x, Lanes.kHead);
      context.lineTo(x, height);
    }
    context.stroke();
  }

  // Over the lanes that are scrolled under it.
  paintHead(context, width) {
    context.fillStyle = this.colors.ground;
    context.fillRect(0, 0, width, Lanes.kHead);
    context.fillStyle = this.colors.muted;
    const digits = Math.max(0, Math.ceil(-Math.log10(this.step() / 1000)));
    for (let ms = Math.ceil(this.from / this.step()) * this.step(); ms < this.from + this.span;
         ms += this.step()) {
      const x = Lanes.kLabel + (ms - this.from) * this.scale(width);
      if (x < width - 40 && ms >= 0) context.fillText(`${(ms / 1000).toFixed(digits)} s`, x, 12);
    }
  }

  paintLane(context, request, y, width) {
    const scale = this.scale(width);
    const isChosen = this.chosen === request.id;
    if (isChosen) {
      context.fillStyle = this.colors.soft;
      context.fillRect(0, y, width, Lanes.kRow);
    }
    context.save();
    context.beginPath();
    context.rect(Lanes.kLabel, y, width - Lanes.kLabel, Lanes.kRow);
    context.clip();
    const spans = request.spans;
    // The spans of a request are in the order of their ends.
    let low = 0;
    let high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle].to < this.from)
        low = middle + 1;
      else
        high = middle;
    }
    for (; low < spans.length && spans[low].from <= this.from + this.span; low += 1) {
      this.paintSpan(context, spans[low].kind, spans[low].from, spans[low].to, y, scale);
    }
    if (request.waiting && request.state !== "ended") {
      this.paintSpan(context, request.waiting.kind, request.waiting.from, this.now(), y, scale);
    }
    if (request.firstToken) {
      const x = Lanes.kLabel + (request.firstToken - this.from) * scale;
      context.fillStyle = this.colors.ink;
      context.fillRect(x, y + 2, 1.5, Lanes.kRow - 4);
    }
    context.restore();
    context.fillStyle = isChosen ? this.colors.ink : this.colors.muted;
    context.fillText(Format.requestName(request), 6, y + Lanes.kRow / 2);
  }

  paintSpan(context, kind, from, to, y, scale) {
    const x = Lanes.kLabel + (from - this.from) * scale;
    const [, color, pattern] = Lanes.kKinds[kind] || Lanes.kKinds.queued;
    context.fillStyle = Theme.pattern(context, color, pattern);
    const inset = kind === "decode" ? 6 : 4;
    context.fillRect(x, y + inset, Math.max(1, (to - from) * scale - 0.5), Lanes.kRow - 2 * inset);
  }

  choose(row) {
    if (row < 0 || row >= this.requests.length) return;
    this.chosen = this.requests[row].id;
    const top = row * Lanes.kRow;
    const box = this.element;
    if (top < box.scrollTop) box.scrollTop = top;
    const bottom = top + Lanes.kHead + Lanes.kRow;
    if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
    this.draw();
    this.onChoose(this.requests[row]);
  }

  shift(part) {
    this.follows = false;
    this.from += part * this.span;
    this.draw();
  }

  key(event) {
    const row = this.requests.findIndex((request) => request.id === this.chosen);
    switch (event.key) {
      case "ArrowDown":
        this.choose(row + 1);
        break;
      case "ArrowUp":
        this.choose(Math.max(0, row - 1));
        break;
      case "Home":
        this.choose(0);
        break;
      case "End":
        this.choose(this.requests.length - 1);
        break;
      case "ArrowLeft":
        this.shift(-0.1);
        break;
      case "ArrowRight":
        this.shift(0.1);
        break;
      case "+":
      case "=":
        this.zoom(0.5);
        break;
      case "-":
        this.zoom(2);
        break;
      default:
        return;
    }
    event.preventDefault();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
  }

  grab(event) {
    const row = Math.floor((event.offsetY - Lanes.kHead + this.element.scrollTop) / Lanes.kRow);
    this.dragFrom = {x: event.clientX, from: this.from};
    this.choose(row);
  }

  drag(event) {
    if (!this.dragFrom || event.buttons === 0) return;
    const moved = event.clientX - this.dragFrom.x;
    if (Math.abs(moved) < 4) return;
    this.follows = false;
    this.from = this.dragFrom.from - moved / this.scale(this.element.clientWidth);
    this.draw();
  }
}
