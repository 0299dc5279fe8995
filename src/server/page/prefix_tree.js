"use strict";
// The prefix tree: what is cached, as text. A node is a piece without branches; what different
// prompts have in common stands once, and their ends below it.
class PrefixTree {
  constructor() {
    this.list = Dom.make("ul", {class: "tree", role: "tree", "aria-label": "Prefix tree"});
    this.note = Dom.make("p", {class: "muted small"}, "What is cached is not known yet.");
    this.open = new Map();  // by path of texts, so that it outlives an update
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=treeitem]");
      if (item) this.toggle(item, true);
    });
  }

  set(body) {
    const children = new Map();
    for (const node of body.nodes) {
      if (!children.has(node.parent)) children.set(node.parent, []);
      children.get(node.parent).push(node);
    }
    const total = body.nodes.reduce((sum, node) => sum + node.tokens, 0);
    this.most = Math.max(1, ...body.nodes.map((node) => node.tokens));
    const focused = document.activeElement && this.list.contains(document.activeElement) ?
        document.activeElement.dataset.path :
        null;
    Dom.fill(this.list, (children.get(-1) || []).map((node) => this.item(node, children, "", 1)));
    this.note.textContent = body.nodes.length === 0 ?
        "Nothing is cached yet." :
        `${Format.plural(body.nodes.length, "piece")}, ${Format.plural(total, "token")}` +
            (body.truncated ? "; there are more than are shown." : ".");
    const items = [...this.list.querySelectorAll("[role=treeitem]")];
    const first = items.find((item) => item.dataset.path === focused) || items[0];
    if (first) first.tabIndex = 0;
    if (first && focused !== null) first.focus();
  }

  item(node, children, above, level) {
    const below = children.get(node.id) || [];
    const path = `${above}/${node.text}`;
    const isOpen = this.open.has(path) ? this.open.get(path) : level < 4;
    const width = Math.max(4, Math.sqrt(node.tokens / this.most) * 72);
    const tiers = (node.tiers || []).filter((tier) => tier !== "memory");
    return Dom.make(
        "li", {
          role: "treeitem",
          tabindex: "-1",
          "data-path": path,
          "aria-level": level,
          "aria-expanded": below.length ? String(isOpen) : null
        },
        Dom.make(
            "div", {class: "node"},
            Dom.make("span", {class: "twist", "aria-hidden": "true"}, below.length ? "▸" : ""),
            Dom.make("code", {}, node.text.replace(/\n/g, "⏎")),
            Dom.make(
                "span", {class: "meta"},
                Dom.make(
                    "i", {class: "length", "aria-hidden": "true", style: {width: `${width}px`}}),
                Dom.make("span", {class: "num"}, Format.plural(node.tokens, "token")),
                Dom.make("span", {class: "num"}, Format.plural(node.blocks, "block")),
                Dom.make(
                    "span", {class: node.used ? "badge on" : "badge"},
                    node.used ? `used, ${Format.plural(node.references, "holder")}` : "cached"),
                tiers.map((tier) => Dom.make("span", {class: "badge"}, tier)))),
        below.length ? Dom.make(
                           "ul", {role: "group", hidden: !isOpen},
                           below.map((child) => this.item(child, children, path, level + 1))) :
                       null);
  }

  toggle(item, takeFocus) {
    if (takeFocus) this.focusOn(item);
    if (item.getAttribute("aria-expanded") === null) return;
    this.expand(item, item.getAttribute("aria-expanded") !== "true");
  }

  expand(item, isOpen) {
    item.setAttribute("aria-expanded", String(isOpen));
    item.querySelector("ul").hidden = !isOpen;
    this.open.set(item.dataset.path, isOpen);
  }

  focusOn(item) {
    for (const other of this.list.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    item.tabIndex = 0;
    item.focus();
  }

  move(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    const seen = [...this.list.querySelectorAll("[role=treeitem]")].filter(
        (one) => !one.parentElement.closest("ul[hidden]"));
    const at = seen.indexOf(item);
    const expanded = item.getAttribute("aria-expanded");
    let next = null;
    switch (event.key) {
      case "ArrowDown":
        next = seen[at + 1];
        break;
      case "ArrowUp":
        next = seen[at - 1];
        break;
      case "Home":
        next = seen[0];
        break;
      case "End":
        next = seen[seen.length - 1];
        break;
      case "ArrowRight":
        if (expanded === "false")
          this.expand(item, true);
        else if (expanded === "true")
          next = seen[at + 1];
        break;
      case "ArrowLeft":
        if (expanded === "true")
          this.expand(item, false);
        else
          next = item.parentElement.closest("[role=treeitem]");
        break;
      case "Enter":
      case " ":
        this.toggle(item, false);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (next) this.focusOn(next);
  }
}
