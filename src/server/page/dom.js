"use strict";
// Elements in one expression. Text is always text: nothing that a server says becomes markup.
const Dom = (() => {
  // make("td", {class: "num", onclick: f}, "text", node, [nodes]); null and false are left out.
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on"))
        element.addEventListener(name.slice(2), value);
      else if (name === "style")
        Object.assign(element.style, value);
      else
        element.setAttribute(name, value === true ? "" : value);
    }
    add(element, children);
    return element;
  }

  function add(element, children) {
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== false) element.append(child);
    }
  }

  function fill(element, ...children) {
    element.replaceChildren();
    add(element, children);
    return element;
  }

  // A number with the value that it was made of, so that it can be compared with its source.
  function number(field, value, text) {
    return make("span", {class: "num", "data-field": field, "data-value": value}, text);
  }

  function tile(label, content, note) {
    return make(
        "div", {class: "tile"}, make("dt", {}, label), make("dd", {}, content),
        note ? make("dd", {class: "muted small"}, note) : null);
  }

  // heads: texts, or {text, num: true} for columns of numbers.
  function table(caption, heads, rows, className) {
    const columns = heads.map((head) => (typeof head === "string" ? {text: head} : head));
    const cell = (content, i) => i === 0 ?
        make("th", {scope: "row"}, content) :
        make("td", {class: columns[i] && columns[i].num ? "right" : null}, content);
    return make(
        "div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
        make(
            "table", {class: className || null}, make("caption", {}, caption),
            make(
                "thead", {},
                make(
                    "tr", {},
                    columns.map(
                        (column) => make(
                            "th", {scope: "col", class: column.num ? "right" : null},
                            column.text)))),
            make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell))))));
  }

  function card(title, ...children) {
    return make("section", {class: "card"}, make("h3", {}, title), children);
  }

  // A choice among few, all of them seen: radio buttons that look like one control.
  function choice(name, label, options, chosen, onChange) {
    const id = (value) => `${name}-${value}`;
    return make(
        "fieldset", {class: "choice"}, make("legend", {}, label),
        options.map(
            ([value, text]) =>
                [make("input", {
                   type: "radio",
                   name,
                   id: id(value),
                   value,
                   checked: value === chosen,
                   onchange: () => onChange(value)
                 }),
                 make("label", {for: id(value)
                 }, text)]));
  }

  // Calls soon, once for all calls until then, and only before something is drawn.
  function onceAFrame(work) {
    let isAsked = false;
    return () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => {
        isAsked = false;
        work();
      });
    };
  }

  return {make, fill, number, tile, table, card, choice, onceAFrame};
})();
