// The page: wires text area, buttons and gauges to a Speaker.

import { CAPTIONS } from "./captions.js";
import { Connection } from "./connection.js";
import { Lamps } from "./lamps.js";
import { Notices } from "./notices.js";
import { Script } from "./script.js";
import { Speaker } from "./speaker.js";
import { Typing } from "./typing.js";

const TOKENS_PER_SECOND = 15;
const SHOWN = 12; // words that were heard before they changed
const SAMPLE =
  "Good evening, and welcome to the front row. I am reading this to you while it is still being written, at about " +
  "fifteen tokens a second, as a language model would. Tickets are $24.50, the doors open at 7:30 p.m., and the play " +
  "lasts 2 hours. Cut in whenever you like: press stop, and you will see exactly how much of this you heard.";

const $ = (id) => document.getElementById(id);
const text = $("text");
const script = new Script($("mirror"), $("caption"));
const lamps = new Lamps($("lamps"), document.querySelector(".stage"));
const notices = new Notices($("notices"));
const typing = new Typing(() => ({ speaker, voice: $("voice").value }));
let speaker = null;
let connecting = null;
let feed = null; // timer of the sample or the captions that are being fed

// ------------------------------------------------------------------------------------------------ connection

function connect(key = sessionStorage.getItem("key") ?? "") {
  const url = new URL("v1/stream", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const connection = new Connection(url.href, key);
  show("connecting", "Connecting…");
  connecting = connection
    .open()
    .then((ready) => {
      if (key) sessionStorage.setItem("key", key);
      $("unlock").hidden = true;
      adopt(new Speaker(connection, ready), ready);
    })
    .catch(async (error) => {
      connecting = null;
      if (await needsKey(key)) {
        show("lost", "Locked");
        $("unlock").hidden = false;
        $("key").focus();
      } else {
        show("lost", "Not connected");
        complain(`${error.message} It is tried again when you speak.`);
      }
      throw error;
    });
  connection.addEventListener("lost", ({ detail }) => {
    connecting = null;
    quiet();
    show("lost", "Connection lost");
    complain(`${detail.reason || "The connection was lost."} It is opened again when you speak.`);
  });
  return connecting;
}

async function needsKey(key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const answer = await fetch("v1/voices", { headers }).catch(() => null);
  return answer !== null && (answer.status === 401 || answer.status === 403);
}

function adopt(given, ready) {
  speaker?.close();
  speaker = given;
  const chosen = $("voice").value;
  $("voice").replaceChildren(...ready.voices.map((voice) => new Option(voice, voice)));
  if (ready.voices.includes(chosen)) $("voice").value = chosen;
  $("voice").disabled = false;
  show("ready", `${ready.model}, ${ready.sample_rate / 1000} kHz`);
  complain("");
  speaker.addEventListener("words", ({ detail: utterance }) => script.mark(utterance));
  speaker.addEventListener("finished", ({ detail: utterance }) => script.finish(utterance.id));
  speaker.addEventListener("stopped", ({ detail: { utterance, char_end: end } }) => {
    script.cut(utterance.id, utterance.placeAfter(end), utterance.base + utterance.text.length);
  });
  speaker.addEventListener("revised", ({ detail: { utterance } }) => {
    const { lost } = utterance.manuscript;
    $("differs").textContent = lost.length ? `Heard before it changed: ${lost.slice(-SHOWN).join(" ")}` : "";
  });
  speaker.addEventListener("notice", ({ detail: { utterance, message } }) => notices.add(utterance, message, text.value));
  speaker.addEventListener("problem", ({ detail: message }) => complain(message));
}

function show(state, words) {
  $("server").dataset.state = state;
  $("server").textContent = words;
}

function complain(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

// ------------------------------------------------------------------------------------------------ speaking

/** Open the connection if need be and start over: nothing sounds, nothing is lit. */
async function prepare() {
  await (connecting ?? connect());
  quiet();
  await speaker.stop();
  script.clear();
  $("report").hidden = true;
  $("differs").textContent = "";
  notices.clear();
  complain("");
}

function quiet() {
  clearInterval(feed); // a timeout's too
  feed = null;
  text.readOnly = false;
  typing.reset(text.value);
}

async function speakAll() {
  if (!text.value.trim()) return text.focus();
  await prepare();
  script.show(text.value);
  typing.reset(text.value);
  const utterance = await speaker.begin(0, $("voice").value);
  utterance.append(text.value);
  utterance.end();
}

async function speakSample() {
  await prepare();
  const tokens = SAMPLE.match(/\s?\S{1,5}/g);
  text.value = "";
  text.readOnly = true;
  script.show("");
  const utterance = await speaker.begin(0, $("voice").value);
  feed = setInterval(() => {
    const token = tokens.shift();
    if (token === undefined || utterance.isOver) {
      utterance.end();
      quiet();
      return;
    }
    text.value += token;
    script.show(text.value);
    utterance.append(token);
  }, 1000 / TOKENS_PER_SECOND);
}

/** A caption as a recogniser gives it: whole each time, and changed where it has understood better. */
async function speakCaptions() {
  await prepare();
  text.value = "";
  text.readOnly = true;
  script.show("");
  const utterance = await speaker.begin(0, $("voice").value);
  const captions = [...CAPTIONS];
  const next = () => {
    const caption = captions.shift();
    if (caption === undefined || utterance.isOver) {
      utterance.end();
      quiet();
      return;
    }
    text.value = caption.text;
    script.show(caption.text);
    utterance.changeTo(caption.text);
    feed = setTimeout(next, caption.forMs);
  };
  next();
}

async function stop() {
  quiet();
  const report = await speaker?.stop();
  if (!report) return;
  $("spoken").textContent = report.spoken;
  $("unspoken").textContent = report.unspoken;
  const how = report.precision === "exact" ? "to the word" : "estimated";
  $("reported").textContent = `${(report.played_ms / 1000).toFixed(1)} s of speech, ${how}.`;
  $("report").hidden = false;
  $("report").scrollIntoView({ block: "nearest" });
}

function typed() {
  script.show(text.value);
  if (!text.value.trim()) notices.clear();
  if (!$("live").checked) {
    typing.reset(text.value);
    return;
  }
  $("report").hidden = true;
  (connecting ?? connect()).then(() => typing.update(text.value), () => {});
}

// ------------------------------------------------------------------------------------------------ page

text.addEventListener("input", typed);
$("live").addEventListener("change", () => typing.reset(text.value));
$("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  speakAll().catch(() => {});
});
$("sample").addEventListener("click", () => speakSample().catch(() => {}));
$("captions").addEventListener("click", () => speakCaptions().catch(() => {}));
$("stop").addEventListener("click", stop);
$("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  connect($("key").value).catch(() => {});
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    speakAll().catch(() => {});
  }
});

function seconds(samples) {
  return `${(samples / speaker.rate).toFixed(1)} s`;
}

function set(id, words) {
  if ($(id).textContent !== words) $(id).textContent = words;
}

function everyFrame() {
  requestAnimationFrame(everyFrame);
  if (!speaker) return;
  const heard = speaker.hear();
  if (heard) script.light(heard.utterance.id, heard.ms);
  lamps.draw(speaker.isSpeaking ? speaker.player?.meter : null);
  $("stop").disabled = !speaker.isSpeaking;
  set("ttfa", speaker.ttfaMs === null ? "–" : `${Math.round(speaker.ttfaMs)} ms`);
  set("underruns", String(speaker.underruns));
  if (speaker.player) {
    set("buffer", seconds(speaker.player.state.buffered));
    set("played", seconds(speaker.player.state.played));
  }
}

script.show(text.value);
typing.reset(text.value);
connect().catch(() => {});
requestAnimationFrame(everyFrame);
