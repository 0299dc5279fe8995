"use strict";
// Chart.js in the page's colours: quiet grids, no animation, and a table beside every picture.
const Charts = (() => {
  const shown = new Set();

  function style() {
    Chart.defaults.color = Theme.color("muted");
    Chart.defaults.borderColor = Theme.color("line");
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 12;
    Chart.defaults.animation = false;
    Chart.defaults.maintainAspectRatio = false;
    Chart.defaults.plugins.legend.labels.usePointStyle = true;
    Chart.defaults.plugins.legend.labels.boxWidth = 8;
    Chart.defaults.plugins.legend.position = "bottom";
  }

  // build() gives the configuration of a chart in the colours of the moment. Returns an element
  // with `update`, which draws what build() then says.
  function make(label, height, build) {
    const canvas = Dom.make("canvas", {role: "img", "aria-label": label});
    const element = Dom.make("div", {class: "chart", style: {height: `${height}px`}}, canvas);
    const one = {
      chart: null,
      draw() {
        if (!element.isConnected) return;
        style();
        if (one.chart) one.chart.destroy();
        one.chart = new Chart(canvas, build());
      },
    };
    shown.add(one);
    // Chart.js measures its parent, which has a size only once it is in the page.
    requestAnimationFrame(one.draw);
    element.update = one.draw;
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
      ticks: {stepSize, callback: (value) => Format.bytes(value)},
      ...more
    };
  }

  return {make, start, bytesAxis, line, seriesColor, points};
})();
