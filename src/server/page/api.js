"use strict";
// What the server is asked, and how it says no. Answers are JSON or streams of events; a refusal is
// an ApiError with the server's own words.
class ApiError extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const Api = (() => {
  const keyName = "quire-key";
  let key = "";
  let onRefused = () => {};
  try {
    key = sessionStorage.getItem(keyName) || "";
  } catch { /* closed to this page: the key lasts as long as it does */
  }

  function setKey(value) {
    key = value;
    try {
      sessionStorage.setItem(keyName, value);
    } catch { /* as above */
    }
  }

  function headersWith(more) {
    return {...(key ? {Authorization: `Bearer ${key}`} : {}), ...more};
  }

  async function refusalOf(response) {
    let message = `${response.status} ${response.statusText}`;
    let code = "";
    try {
      const body = JSON.parse(await response.text());
      if (body.error && body.error.message) {
        message = body.error.message;
        code = body.error.code || "";
      }
    } catch { /* not the server's own words: the status has to do */
    }
    const error = new ApiError(response.status, message, code);
    if (error.status === 401 || error.status === 403) onRefused(error);
    return error;
  }

  async function ask(path, options = {}) {
    let response;
    try {
      response =
          await fetch(path, {cache: "no-store", ...options, headers: headersWith(options.headers)});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The server does not answer.", "");
    }
    if (!response.ok) throw await refusalOf(response);
    return response;
  }

  const get = async (path) => (await ask(path)).json();
  const asPost = (body, more) => ({method: "POST", body: JSON.stringify(body), ...more});
  const post = async (path, body) => (await ask(path, asPost(body))).json();

  const brokenOff = () => new ApiError(0, "The connection to the server broke off.", "broken_off");

  // Calls onEvent(name, data) for each event, with data as text; returns when the stream ends.
  async function read(response, onEvent) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const {value, done} = await reader.read().catch((error) => {
          throw error.name === "AbortError" ? error : brokenOff();
        });
        if (done) return;
        rest += value;
        let end;
        while ((end = rest.indexOf("\n\n")) >= 0) {
          tell(rest.slice(0, end), onEvent);
          rest = rest.slice(end + 2);
        }
      }
    } finally {
      // A listener that throws ends the stream as well.
      reader.cancel().catch(() => {});
    }
  }

  function tell(block, onEvent) {
    let name = "message";
    const data = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event:"))
        name = line.slice(6).trim();
      else if (line.startsWith("data:"))
        data.push(line.slice(5).trimStart());
    }
    if (data.length) onEvent(name, data.join("\n"));
  }

  // The chunks of a streamed answer, parsed.
  async function stream(path, body, {signal, onChunk}) {
    const response = await ask(path, asPost(body, {signal}));
    let isWhole = false;
    await read(response, (name, data) => {
      if (data === "[DONE]") {
        isWhole = true;
        return;
      }
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(0, chunk.error.message, chunk.error.code);
      onChunk(chunk);
    });
    if (!isWhole) throw brokenOff();
  }

  async function listen(path, {signal, onOpen, onEvent}) {
    const response = await ask(path, {signal});
    onOpen();
    await read(response, (name, data) => onEvent(name, JSON.parse(data)));
  }

  return {
    get,
    post,
    stream,
    listen,
    setKey,
    hasKey: () => key !== "",
    whenRefused: (listener) => {
      onRefused = listener;
    }
  };
})();
