// The text on stage: a copy of the text area behind it, in which words light up when they are heard.

export class Script {
  constructor(mirror, caption) {
    this.mirror = mirror;
    this.caption = caption;
    this.text = "";
    this.marks = []; // {from, to, spoken, state, span}; in order, not overlapping
    this.now = null;
  }

  /** Show a text. Marks survive up to the first character that differs. */
  show(text) {
    let kept = 0;
    while (kept < text.length && text[kept] === this.text[kept]) kept += 1;
    this.text = text;
    this.marks = this.marks.filter((mark) => mark.to <= kept);
    this.#draw();
  }

  /** Take the words of an utterance; its earlier marks, and others' from its base on, make way. */
  mark(utterance) {
    const first = utterance.words[0]?.from ?? utterance.base;
    const states = new Map(this.marks.filter((mark) => mark.id === utterance.id).map((mark) => [mark.from, mark.state]));
    this.marks = this.marks.filter((mark) => mark.from < first && !(mark.state === "cut" && mark.to > first));
    for (const word of utterance.words) {
      if (word.to > this.text.length || word.to <= word.from) continue;
      this.marks.push({ ...word, id: utterance.id, state: states.get(word.from) ?? "" });
    }
    this.#draw();
  }

  /** Light the words of an utterance up to a time. */
  light(id, ms) {
    let now = null;
    for (const mark of this.marks) {
      if (mark.id !== id) continue;
      if (mark.start_ms > ms) break;
      if (mark.end_ms > ms) now = mark;
      this.#set(mark, mark === now ? "now" : "heard");
    }
    this.#speak(now);
  }

  /** All words of an utterance have been heard. */
  finish(id) {
    for (const mark of this.marks) if (mark.id === id) this.#set(mark, "heard");
    this.#speak(null);
  }

  /** An utterance was stopped: what lies between two places was not heard. */
  cut(id, from, to) {
    for (const mark of this.marks) if (mark.id === id) mark.state = mark.to <= from ? "heard" : "";
    this.marks = this.marks.filter((mark) => mark.to <= from || mark.from >= to);
    if (from < to) this.marks.push({ from, to, id, state: "cut" });
    this.marks.sort((a, b) => a.from - b.from);
    this.#draw();
    this.#speak(null);
  }

  clear() {
    this.marks = [];
    this.#draw();
    this.#speak(null);
  }

  #set(mark, state) {
    if (mark.state === state) return;
    mark.state = state;
    if (mark.span) mark.span.className = mark.isRevised && state !== "cut" ? `${state} revised` : state;
  }

  #speak(mark) {
    if (mark === this.now) return;
    this.now = mark;
    const differs = mark && mark.spoken && plain(mark.spoken) !== plain(mark.text);
    this.caption.textContent = differs ? `${mark.text.trim()} is spoken “${mark.spoken}”` : "";
    mark?.span?.scrollIntoView({ block: "nearest" });
  }

  #draw() {
    const parts = [];
    let at = 0;
    this.marks.forEach((mark, index) => {
      const next = this.marks[index + 1]?.from ?? this.text.length;
      const to = Math.max(mark.to, Math.min(next, withPunctuation(this.text, mark.to)));
      mark.span = document.createElement("span");
      mark.span.className = mark.state;
      mark.span.classList.toggle("revised", Boolean(mark.isRevised) && mark.state !== "cut");
      mark.span.textContent = this.text.slice(mark.from, to);
      parts.push(this.text.slice(at, mark.from), mark.span);
      at = to;
    });
    // A last line break has no height of its own in the copy; the space gives it one.
    parts.push(`${this.text.slice(at)} `);
    this.mirror.replaceChildren(...parts);
  }
}

function withPunctuation(text, from) {
  let to = from;
  while (to < text.length && /[\p{P}\p{S}]/u.test(text[to])) to += 1;
  return to;
}

function plain(text) {
  return text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}
