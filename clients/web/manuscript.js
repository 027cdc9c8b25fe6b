// A text that changes while it is spoken: as its writer has it, and as the listener gets it (docs/protocol.md,
// Revision). Offsets given and taken are UTF-16 units; those of the server are code points of the spoken text.

import { toCodePoints, toUnits } from "./codepoints.js";

export class Manuscript {
  constructor() {
    this.text = ""; // the writer's
    this.kept = ""; // what was heard and is another in the writer's text
    this.resumesAt = 0; // where, in the writer's text, the spoken one goes on after that
    this.revisions = 0;
    this.answered = 0;
    this.before = new Map(); // text before each unanswered revision
  }

  /** The text that words and reports count in. */
  get spoken() {
    return this.kept + (this.before.get(this.answered) ?? this.text).slice(this.resumesAt);
  }

  append(text) {
    this.text += text;
  }

  /** Replace all from `start` on. Returns the message's `from`. */
  revise(start, text) {
    this.before.set(this.revisions, this.text);
    this.revisions += 1;
    const from = toCodePoints(this.text, start);
    this.text = this.text.slice(0, start) + text;
    return from;
  }

  revised({ kept_to: keptTo, resumes_at: resumesAt, revision }) {
    const kept = this.#first(keptTo);
    this.answered = revision;
    for (const number of this.before.keys()) if (number < revision) this.before.delete(number);
    this.#settle(kept, resumesAt);
  }

  skipped({ kept_to: keptTo, resumes_at: resumesAt }) {
    this.#settle(this.#first(keptTo), resumesAt);
  }

  /** Where a word of the spoken text is in the writer's, `[from, to]`; null: it was heard, and is not there any more. */
  place({ char_start: start, char_end: end }) {
    const [from, to] = [toUnits(this.spoken, start), toUnits(this.spoken, end)];
    const shift = this.resumesAt - this.kept.length;
    if (from >= this.kept.length) return [from + shift, to + shift];
    const found = sameWord(this.kept, from, this.text.slice(0, this.resumesAt));
    return found === null ? null : [found, found + to - from];
  }

  /** The words that were heard and are not in the writer's text any more. */
  get lost() {
    const text = this.text.slice(0, this.resumesAt);
    return wordsOf(this.kept).filter(({ from }) => sameWord(this.kept, from, text) === null).map(({ said }) => said);
  }

  /** Where, in the writer's text, what follows the first `codePoints` characters of the spoken one begins. */
  placeAfter(codePoints) {
    const at = toUnits(this.spoken, codePoints);
    return at >= this.kept.length ? this.resumesAt + at - this.kept.length : Math.min(at, this.resumesAt);
  }

  #first(codePoints) {
    return this.spoken.slice(0, toUnits(this.spoken, codePoints));
  }

  #settle(kept, resumesAt) {
    const text = this.before.get(this.answered) ?? this.text;
    const units = toUnits(text, resumesAt);
    const isWhole = text.slice(0, units) === kept;
    this.kept = isWhole ? "" : kept;
    this.resumesAt = isWhole ? 0 : units;
  }
}

const NEAR_WORDS = 4;

/** Where the word at `at` of a text is in another that differs by a word here and there; null if it is not. */
function sameWord(text, at, other) {
  const words = wordsOf(other);
  let next = 0;
  for (const { word, from } of wordsOf(text)) {
    const found = words.slice(next, next + NEAR_WORDS).findIndex((each) => each.word === word);
    if (from >= at) return found < 0 ? null : words[next + found].from;
    next += found < 0 ? 1 : found + 1;
  }
  return null;
}

function wordsOf(text) {
  const found = text.matchAll(/[\p{L}\p{N}][^\s]*/gu);
  return [...found].map(({ 0: said, index }) => ({ said, word: plain(said), from: index }));
}

function plain(word) {
  return word.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}
