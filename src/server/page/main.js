"use strict";
// The page: its views as tabs, the key, and how the server does.
//
// With data in it, the page is a saved one: it shows the views that they are for and asks nobody.
const App = {
  saved: null,
  live: new Live()
};

(() => {
  const views = {chat: Chat, cache: Cache, time: Time, cost: Cost, model: Model};
  const order = Object.keys(views);
  const homes = {shapes: "model", roofline: "cost", growth: "cost", request: "time", miss: "time"};
  const built = new Set();
  let current = null;

  const tab = (name) => document.getElementById(`tab-${name}`);
  const panel = (name) => document.getElementById(`view-${name}`);
  const available = () => order.filter((name) => views[name].needs());

  function readSaved() {
    const text = document.getElementById("quire-data").textContent.trim();
    if (text === "") return;
    try {
      App.saved = JSON.parse(text);
      if (App.saved === null || typeof App.saved !== "object") throw new TypeError();
    } catch {
      notice("The data of this page are damaged: they are no JSON object.");
      App.saved = {};
    }
  }

  function notice(text) {
    const element = document.getElementById("notice");
    element.textContent = text;
    element.hidden = text === "";
  }

  function show(name) {
    if (!available().includes(name)) name = available()[0];
    if (!name || name === current) return;
    if (current && views[current].hidden) views[current].hidden();
    for (const other of order) {
      const isIt = other === name;
      tab(other).setAttribute("aria-selected", String(isIt));
      tab(other).tabIndex = isIt ? 0 : -1;
      panel(other).hidden = !isIt;
    }
    current = name;
    document.title = `${name[0].toUpperCase()}${name.slice(1)} · Quire`;
    if (!built.has(name)) {
      built.add(name);
      views[name].build(panel(name));
    }
    if (!App.saved) App.live.wants(views[name].detail);
    views[name].shown();
  }

  function startTabs() {
    for (const name of order) {
      tab(name).hidden = !views[name].needs();
      tab(name).addEventListener("click", () => {
        location.hash = name;
      });
    }
    document.querySelector(".tabs").addEventListener("keydown", (event) => {
      const names = available();
      const at = names.indexOf(document.activeElement.dataset.view);
      const next =
          {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1}[event.key];
      if (at < 0 || next === undefined) return;
      event.preventDefault();
      const name = names[(next + names.length) % names.length];
      tab(name).focus();
      location.hash = name;
    });
    addEventListener("hashchange", () => show(location.hash.slice(1)));
  }

  function startKey() {
    const form = document.getElementById("key-form");
    Api.whenRefused((error) => {
      document.getElementById("key-message").textContent = error.message;
      form.hidden = false;
    });
    document.getElementById("key-later").addEventListener("click", () => {
      form.hidden = true;
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      Api.setKey(document.getElementById("key").value.trim());
      form.hidden = true;
      if (views[current].again) views[current].again();
      App.live.again();
      views[current].shown();
      askModel();
    });
  }

  async function askModel() {
    try {
      const models = await Api.get("/v1/models");
      document.getElementById("model-name").textContent =
          models.data.length ? models.data[0].id : "";
    } catch (error) {
      if (error.status === 0) notice(error.message);
    }
  }

  const drawStatus = Dom.onceAFrame(() => {
    const live = App.live;
    const element = document.getElementById("status");
    const words =
        {open: "live", retrying: "connecting again", refused: "no events", closed: "paused"};
    element.dataset.state = live.state;
    const status = live.status;
    Dom.fill(
        element, Dom.make("span", {class: "dot", "aria-hidden": "true"}),
        Dom.make("span", {}, words[live.state]),
        live.state === "open" && status ? Dom.make(
                                              "span", {class: "muted num"},
                                              `${Format.count(status.running)} running, ${
                                                  Format.count(status.waiting)} waiting`) :
                                          null);
    if (live.state === "retrying")
      notice(live.error ? live.error.message : "");
    else if (live.state === "refused" && document.getElementById("key-form").hidden)
      notice(`No events: ${live.error.message}`);
    else
      notice("");
  });

  function start() {
    readSaved();
    Theme.start();
    Charts.start();
    startTabs();
    if (App.saved) {
      document.getElementById("model-name").textContent = savedName();
      const home = homes[App.saved.view];
      if (available().length === 0 && document.getElementById("notice").hidden)
        notice("This page was saved without anything to show.");
      show(location.hash.slice(1) || home);
      return;
    }
    startKey();
    askModel();
    App.live.onChange((what) => {
      if (current) views[current].changed(what);
      drawStatus();
    });
    show(location.hash.slice(1) || "chat");
    App.live.start(views[current].detail);
    drawStatus();
  }

  function savedName() {
    for (const name of ["shapes", "roofline", "growth"]) {
      if (App.saved[name] && App.saved[name].model) return `${App.saved[name].model}, saved`;
    }
    return "saved";
  }

  start();
})();
