// What the server tells of a text that it does not speak as written: beside the text, with the words it is about.

const SHOWN = 5;
const PLACE = /^character (\d+): /;
const QUOTED = 24;

export class Notices {
  constructor(list) {
    this.list = list;
  }

  /** Add a notice of an utterance; `text` is the page's, in which its place is quoted. One that is shown stays. */
  add(utterance, message, text) {
    const told = described(utterance, message, text);
    if ([...this.list.children].some((item) => item.textContent === told)) return;
    const item = document.createElement("li");
    item.textContent = told;
    this.list.append(item);
    if (this.list.children.length > SHOWN) this.list.firstElementChild.remove();
  }

  clear() {
    this.list.replaceChildren();
  }
}

/** Nobody counts characters: what stands there is named in place of its number. */
function described(utterance, message, text) {
  const place = PLACE.exec(message);
  const rest = place && text.slice(utterance.placeAfter(Number(place[1])));
  const [word] = rest?.match(/^\S+/) ?? [""];
  if (!word) return message;
  const letters = [...word];
  const quoted = letters.length > QUOTED ? `${letters.slice(0, QUOTED).join("")}…` : word;
  return `“${quoted}”: ${message.slice(place[0].length)}`;
}
