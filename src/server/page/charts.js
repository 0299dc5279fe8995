"use strict";
// Chart.js in the page's colours: quiet grids, no animation, and a table beside every picture. Its
// legend is text and buttons: it wraps on a narrow screen, shows dashes, and goes by keys.
const Charts = (() => {
  const shown = new Set();

  function style() {
    Chart.defaults.color = Theme.color("muted");
    Chart.defaults.borderColor = Theme.color("line");
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 12;
    Chart.defaults.animation = false;
    Chart.defaults.maintainAspectRatio = false;
    Chart.defaults.plugins.legend.display = false;
  }

  // What a set of data looks like in its chart.
  function swatch(dataset, type) {
    const canvas =
        Dom.make("canvas", {class: "swatch", width: "48", height: "24", "aria-hidden": "true"});
    const draw = canvas.getContext("2d");
    draw.scale(2, 2);
    draw.fillStyle = dataset.backgroundColor || "transparent";
    draw.strokeStyle = dataset.borderColor;
    draw.lineWidth = dataset.borderWidth;
    if (type === "bar") {
      draw.fillRect(0, 0, 24, 12);
    } else if (type === "scatter") {
      const own = dataset.pointStyle;
      const pointStyle = Array.isArray(own) ? "circle" : own;
      Chart.helpers.drawPoint(draw, {pointStyle, radius: 4, borderWidth: 2}, 12, 6);
    } else {
      draw.setLineDash(dataset.borderDash);
      draw.moveTo(0, 6);
      draw.lineTo(24, 6);
      draw.stroke();
    }
    return canvas;
  }

  // A set of data a button, which hides it and shows it again.
  function keysOf(chart) {
    return chart.data.datasets.map((dataset, i) => {
      const key = Dom.make(
          "button", {
            type: "button",
            class: "key",
            "aria-pressed": "true",
            onclick: () => {
              const isSeen = chart.isDatasetVisible(i);
              chart.setDatasetVisibility(i, !isSeen);
              chart.update();
              key.setAttribute("aria-pressed", String(!isSeen));
            }
          },
          swatch(dataset, dataset.type || chart.config.type), dataset.label);
      return key;
    });
  }

  // build() gives the configuration of a chart in the colours of the moment.
  function make(label, height, build) {
    const canvas = Dom.make("canvas", {role: "img", "aria-label": label});
    const keys = Dom.make("div", {class: "legend keys"});
    const element = Dom.make(
        "div", {}, Dom.make("div", {class: "chart", style: {height: `${height}px`}}, canvas), keys);
    const one = {
      chart: null,
      draw() {
        if (!element.isConnected) return;
        style();
        if (one.chart) one.chart.destroy();
        one.chart = new Chart(canvas, build());
        Dom.fill(keys, keysOf(one.chart));
      },
    };
    shown.add(one);
    // Chart.js measures its parent, which has a size only once it is in the page.
    requestAnimationFrame(one.draw);
    element.drop = () => {
      shown.delete(one);
      if (one.chart) one.chart.destroy();
    };
    return element;
  }

  function start() {
    Theme.onChange(() => {
      for (const one of shown) one.draw();
    });
  }

  const seriesColor = (i) => Theme.color(Theme.series[i % Theme.series.length]);
  const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4]];
  const points = ["circle", "triangle", "rect", "rectRot", "star", "crossRot", "cross"];

  // Lines differ in colour, in dashes and in the shape of their points.
  function line(i, label, data, more) {
    return {
      label,
      data,
      borderColor: seriesColor(i),
      backgroundColor: seriesColor(i),
      borderDash: dashes[i % dashes.length],
      pointStyle: points[i % points.length],
      pointRadius: 0,
      pointHitRadius: 8,
      borderWidth: 2,
      ...more
    };
  }

  // Ticks at powers of two, which are the round numbers of bytes.
  function bytesAxis(most, more) {
    const stepSize = 2 ** Math.ceil(Math.log2(Math.max(most, 1) / 6));
    return {
      beginAtZero: true,
      ticks: {stepSize, maxRotation: 0, callback: (value) => Format.bytes(value)},
      ...more
    };
  }

  return {make, start, bytesAxis, line};
})();
