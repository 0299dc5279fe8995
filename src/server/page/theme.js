"use strict";
// Light, dark, or as the system has it; and the palette for what is drawn on a canvas.
//
// Colours are those of Okabe and Ito, which differ for colour-blind eyes too. Wherever one carries
// a meaning, a label or a pattern does as well.
const Theme = (() => {
  const modes = ["auto", "light", "dark"];
  const listeners = new Set();
  const colors = new Map();  // by name, of the theme of the moment
  const probe = Dom.make("span", {hidden: true});
  let mode = "auto";

  // Storage may be closed to a page from a file.
  function stored() {
    try {
      return localStorage.getItem("quire-theme");
    } catch {
      return null;
    }
  }

  function apply() {
    document.documentElement.dataset.theme = mode;
    const button = document.getElementById("theme");
    button.textContent = {auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark"}[mode];
    button.setAttribute("aria-label", `Colours: ${mode}. Press for the next`);
    colors.clear();
    for (const listener of listeners) listener();
  }

  function start() {
    if (modes.includes(stored())) mode = stored();
    document.getElementById("theme").addEventListener("click", () => {
      mode = modes[(modes.indexOf(mode) + 1) % modes.length];
      try {
        localStorage.setItem("quire-theme", mode);
      } catch { /* the choice then lasts as long as the page */
      }
      apply();
    });
    document.body.append(probe);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
    apply();
  }

  // A variable's own text names both themes' colours; that of an element is one of them.
  function color(name) {
    if (!colors.has(name)) {
      probe.style.color = `var(--${name})`;
      colors.set(name, getComputedStyle(probe).color);
    }
    return colors.get(name);
  }

  const onChange = (listener) => listeners.add(listener);
  const series = ["blue", "orange", "green", "purple", "sky", "vermillion", "ink"];

  // A fill for canvases: lines at an angle over a colour, for eyes that do not see the colour.
  const patterns = new Map();
  function pattern(context, name, kind) {
    const key = `${color(name)} ${kind} ${devicePixelRatio}`;
    if (!patterns.has(key)) patterns.set(key, drawPattern(context, color(name), kind));
    return patterns.get(key);
  }

  function drawPattern(context, ink, kind) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const draw = tile.getContext("2d");
    draw.fillStyle = ink;
    draw.globalAlpha = kind === "solid" ? 1 : 0.35;
    draw.fillRect(0, 0, 8, 8);
    draw.globalAlpha = 1;
    draw.strokeStyle = ink;
    draw.lineWidth = 1.5;
    draw.beginPath();
    if (kind === "lines" || kind === "cross") {
      for (const x of [-8, 0, 8]) {
        draw.moveTo(x, 8);
        draw.lineTo(x + 8, 0);
      }
    }
    if (kind === "cross") {
      for (const x of [-8, 0, 8]) {
        draw.moveTo(x, 0);
        draw.lineTo(x + 8, 8);
      }
    }
    draw.stroke();
    if (kind === "dots") {
      draw.beginPath();
      draw.arc(4, 4, 2, 0, 7);
      draw.fill();
    }
    return context.createPattern(tile, "repeat");
  }

  return {start, color, onChange, series, pattern};
})();
