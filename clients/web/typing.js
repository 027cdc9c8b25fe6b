// Speaks a text while it is being typed. Only finished words are sent; an edit further back revises what was not heard
// yet. Text of an utterance that is over cannot be revised: speech then goes on with a new one from the edited word.

import { commonPrefix } from "./codepoints.js";

const FLUSH_MS = 700; // a pause this long at the end of a word: speak what there is
const END_MS = 2500; // a pause this long anywhere: the last word is finished too
const LISTEN_MS = 300; // how often it is asked, after that, whether all has been heard
const EDIT_MS = 300; // an edit further back is settled after this long without a key

export class Typing {
  /** @param {() => {speaker: object, voice: string}} current */
  constructor(current) {
    this.current = current;
    this.reset("");
  }

  /** Forget what was sent: `text` counts as said, only what is added to it will be spoken. */
  reset(text) {
    this.said = text;
    this.utterance = null;
    this.value = text;
    clearTimeout(this.timer);
  }

  /** The text as it is now. */
  update(value) {
    this.value = value;
    clearTimeout(this.timer);
    if (!value.startsWith(this.said)) {
      this.timer = setTimeout(() => this.#edit(), value.trim() ? EDIT_MS : 0);
      return;
    }
    this.#send(finishedWords(value, this.said.length));
    this.timer = setTimeout(() => this.#pause(), FLUSH_MS);
  }

  #send(end) {
    if (end <= this.said.length) return;
    const text = this.value.slice(this.said.length, end);
    const base = this.said.length;
    this.said = this.value.slice(0, end);
    if (!this.utterance && !text.trim()) return;
    // Opening may wait for the audio device; what is typed meanwhile queues behind it.
    if (!this.utterance) {
      const { speaker, voice } = this.current();
      this.utterance = speaker.begin(base, voice);
    }
    this.#tell((utterance) => utterance.append(text));
  }

  #pause() {
    if (/[\s.!?…;:,)"'”’]$/.test(this.value)) {
      this.#send(this.value.length);
      this.#tell((utterance) => utterance.flush());
    }
    this.timer = setTimeout(() => {
      this.#send(this.value.length);
      this.#tell((utterance) => utterance.flush());
      this.#endWhenHeard();
    }, END_MS - FLUSH_MS);
  }

  /** Until then an edit may still revise it. */
  #endWhenHeard() {
    this.timer = setTimeout(async () => {
      const waiting = this.utterance;
      const utterance = await waiting;
      if (waiting !== this.utterance) return;
      if (utterance && !this.current().speaker.isSilent(utterance)) {
        this.#endWhenHeard();
        return;
      }
      utterance?.end();
      this.utterance = null;
    }, LISTEN_MS);
  }

  async #edit() {
    const utterance = await this.utterance;
    const edited = commonPrefix(this.value, this.said);
    if (!utterance || utterance.isOver || utterance.isEnded || edited < utterance.base || !this.value.trim()) {
      await this.#restart();
      return;
    }
    const end = Math.max(edited, finishedWords(this.value, edited));
    utterance.changeTo(this.value.slice(utterance.base, end));
    this.said = this.value.slice(0, end);
    this.timer = setTimeout(() => this.#pause(), FLUSH_MS);
  }

  async #restart() {
    const edited = commonPrefix(this.value, this.said);
    const { speaker } = this.current();
    const report = await speaker.stop();
    const heardTo = report ? report.utterance.placeAfter(report.char_end) : this.said.length;
    const { value } = this;
    this.reset(value.slice(0, wordStart(value, Math.min(edited, heardTo))));
    this.update(value);
  }

  #tell(action) {
    this.utterance?.then(action, () => {});
  }
}

/** Where the last finished word ends: after the last white space. */
function finishedWords(text, from) {
  let end = text.length;
  while (end > from && !/\s/.test(text[end - 1])) end -= 1;
  return end;
}

function wordStart(text, at) {
  let start = Math.min(at, text.length);
  while (start > 0 && !/\s/.test(text[start - 1])) start -= 1;
  return start;
}
