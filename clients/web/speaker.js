// One connection and one player: text in, sound out, and an account of what was heard. No page elements in here.

import { commonPrefix } from "./codepoints.js";
import { Manuscript } from "./manuscript.js";
import { Player } from "./player.js";

const ACKNOWLEDGE_MS = 150;
const STILL_UNSPOKEN = 40; // characters an open context may hold back until more text comes

/** One context: text that starts at `base` of the page's text. Offsets are UTF-16, as everywhere in JavaScript. */
export class Utterance {
  constructor(id, base, connection) {
    this.id = id;
    this.base = base;
    this.connection = connection;
    this.manuscript = new Manuscript();
    this.isEnded = false; // no more text
    this.isOver = false; // no more sound
    this.words = []; // {from, to, spoken, start_ms, end_ms, isRevised}; those that still are in the text
    this.firstTextAt = null;
  }

  get text() {
    return this.manuscript.text;
  }

  append(text) {
    if (!text) return;
    this.firstTextAt ??= performance.now();
    this.manuscript.append(text);
    this.connection.append(this.id, text);
  }

  /** Replace all text from `start` (an offset in `text`) on. */
  revise(start, text) {
    const from = this.manuscript.revise(start, text);
    this.connection.revise(this.id, from, text);
  }

  /** Make its text this one: by what is new at its end, or by revising what differs. */
  changeTo(text) {
    const same = commonPrefix(text, this.text);
    if (same < this.text.length) this.revise(same, text.slice(same));
    else this.append(text.slice(same));
  }

  flush() {
    if (this.text) this.connection.send("text.flush", { context: this.id });
  }

  end() {
    if (this.isEnded) return;
    this.isEnded = true;
    this.connection.send("text.end", { context: this.id });
  }

  /** The page's offset behind the first so many characters of the spoken text. */
  placeAfter(codePoints) {
    return this.base + this.manuscript.placeAfter(codePoints);
  }

  /** Take words that will be heard. */
  learn(words) {
    const starts = new Set(words.map((word) => word.char_start));
    const isRevised = this.manuscript.answered > 0;
    const kept = this.words.filter((word) => !starts.has(word.char_start));
    this.words = this.#placed([...kept, ...words.map((word) => ({ ...word, isRevised }))]);
  }

  /** The spoken text has changed from that character on: words behind it are void, words before may have moved. */
  forget(keptTo) {
    this.words = this.#placed(this.words.filter((word) => word.char_start < keptTo));
  }

  /** In order, with their places on the page; without those that are heard but not written any more. */
  #placed(words) {
    const found = words.map((word) => ({ ...word, at: this.manuscript.place(word) }));
    return found
      .filter(({ at }) => at !== null)
      .map(({ at, ...word }) => ({ ...word, from: this.base + at[0], to: this.base + at[1] }))
      .sort((a, b) => a.char_start - b.char_start);
  }

  /** It has fallen silent since it has no text left to speak, not since the server was late. */
  get wantsText() {
    const last = this.words.at(-1);
    const spokenTo = last ? last.to - this.base : 0;
    return !this.isEnded && this.text.length - spokenTo < STILL_UNSPOKEN;
  }
}

export class Speaker extends EventTarget {
  constructor(connection, ready) {
    super();
    this.connection = connection;
    this.rate = ready.sample_rate;
    this.player = null;
    this.utterances = new Map();
    this.count = 0;
    this.acknowledged = 0;
    this.ttfaMs = null;
    this.underruns = 0;
    const on = (type, handler) => connection.addEventListener(type, ({ detail }) => handler(detail));
    on("audio", (message) => this.#live(message.context) && this.player.push(message.context, message.first, message.samples));
    on("audio.discard", (message) => this.player?.discard(message.context, Math.round((message.from_ms * this.rate) / 1000)));
    on("words", (message) => this.#words(message));
    on("text.notice", (message) => this.#notice(message));
    on("text.revised", (message) => this.#revised(message));
    on("text.skipped", (message) => this.#revised(message));
    on("done", (message) => this.player?.end(message.context));
    on("error", (message) => this.#fail(message));
    on("lost", () => this.utterances.forEach((utterance) => this.player?.end(utterance.id)));
  }

  /** Give the audio device back. */
  close() {
    this.player?.context.close();
  }

  /** Must be called from a user's action the first time. */
  async begin(base, voice) {
    await this.#wake();
    this.count += 1;
    const utterance = new Utterance(`page-${this.count}`, base, this.connection);
    this.utterances.set(utterance.id, utterance);
    this.connection.send("context.open", { context: utterance.id, voice });
    return utterance;
  }

  /** Silence now. Resolves to the account of the utterance that was being heard, `{utterance, …}`, or null. */
  async stop() {
    if (!this.player || this.utterances.size === 0) return null;
    const stopped = [...this.utterances.values()];
    this.utterances.clear();
    const at = await this.player.clear();
    const reports = stopped.map((utterance) => {
      utterance.isOver = true;
      return this.#cancel(utterance, at && at.id === utterance.id ? this.#heardMs(at) : 0);
    });
    const [report] = await Promise.all(reports);
    if (report) this.#emit("stopped", report);
    return report;
  }

  /** Has all that was made of its text been heard? */
  isSilent(utterance) {
    return utterance.isOver || (this.player !== null && this.player.state.waiting && this.player.state.buffered === 0);
  }

  get isSpeaking() {
    return this.utterances.size > 0;
  }

  /** `{utterance, ms}` of what is being heard, or null. Also tells the server, now and then. */
  hear() {
    if (!this.player) return null;
    const { id, ms } = this.player.heard;
    const utterance = this.utterances.get(id);
    if (!utterance) return null;
    if (performance.now() - this.acknowledged > ACKNOWLEDGE_MS && ms > 0) {
      this.acknowledged = performance.now();
      this.connection.send("played", { context: id, ms: Math.round(ms) });
    }
    return { utterance, ms };
  }

  async #wake() {
    this.waking ??= Player.create(this.rate).then((player) => this.#adopt(player));
    await this.waking;
    await this.player.resume();
  }

  #adopt(player) {
    this.player = player;
    player.addEventListener("sounding", ({ detail: id }) => {
      const utterance = this.utterances.get(id);
      if (utterance) this.ttfaMs = performance.now() - utterance.firstTextAt + player.latencyMs;
    });
    player.addEventListener("dry", ({ detail: id }) => {
      const utterance = this.utterances.get(id);
      if (utterance && !utterance.wantsText) this.underruns += 1;
    });
    player.addEventListener("finished", ({ detail: id }) => {
      const utterance = this.utterances.get(id);
      if (!utterance) return;
      utterance.isOver = true;
      this.utterances.delete(id);
      this.#emit("finished", utterance);
    });
  }

  /** How much of a stream that stopped at `position` had left the device. */
  #heardMs({ id, position }) {
    const { last, latencyMs } = this.player;
    return Math.max((1000 * position) / this.rate - latencyMs, last.id === id ? last.ms : 0, 0);
  }

  #live(id) {
    return this.player !== null && this.utterances.has(id);
  }

  #words({ context, words }) {
    const utterance = this.utterances.get(context);
    if (!utterance) return;
    utterance.learn(words);
    this.#emit("words", utterance);
  }

  #notice({ context, message }) {
    const utterance = this.utterances.get(context);
    if (utterance) this.#emit("notice", { utterance, message });
  }

  #revised(message) {
    const utterance = this.utterances.get(message.context);
    if (!utterance) return;
    if (message.type === "text.revised") utterance.manuscript.revised(message);
    else utterance.manuscript.skipped(message);
    utterance.forget(message.kept_to);
    this.#emit("words", utterance);
    this.#emit("revised", { utterance, ...message });
  }

  #fail(message) {
    const utterance = this.utterances.get(message.context);
    if (utterance && message.terminal) {
      utterance.isOver = true;
      this.utterances.delete(utterance.id);
      this.player?.end(utterance.id);
    }
    if (utterance || !message.context) this.#emit("problem", message.message);
  }

  #cancel(utterance, playedMs) {
    return new Promise((resolve) => {
      const finish = (report) => {
        for (const type of ["cancelled", "heard", "error"]) this.connection.removeEventListener(type, receive);
        this.connection.removeEventListener("lost", lose);
        resolve(report && { ...report, utterance });
      };
      const receive = ({ detail }) => {
        if (detail.context === utterance.id) finish(detail.type === "error" ? null : detail);
      };
      const lose = () => finish(null);
      for (const type of ["cancelled", "heard", "error"]) this.connection.addEventListener(type, receive);
      this.connection.addEventListener("lost", lose);
      if (this.connection.isOpen) this.connection.send("cancel", { context: utterance.id, played_ms: playedMs });
      else finish(null);
    });
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
