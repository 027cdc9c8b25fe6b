// The native protocol, version 1, over one WebSocket: JSON text messages, audio in binary ones. Knows no audio device.

const HEADER_BYTES = 16; // <HHIQ: header version, context index, sequence number, first sample
const HEADER_VERSION = 1;
const PIECE = 8000; // characters; a message may have 64 KiB, a character may need 6 bytes

export class Connection extends EventTarget {
  constructor(url, key = "") {
    super();
    this.url = url;
    this.key = key;
    this.socket = null;
    this.contexts = new Map(); // context index -> context id
  }

  /** Resolves to the server's `session.ready`, rejects with an Error that can be shown. */
  open() {
    const protocols = ["footlights.v1"];
    if (this.key) protocols.push(`footlights.key.${base64url(this.key)}`);
    this.socket = new WebSocket(this.url, protocols);
    this.socket.binaryType = "arraybuffer";
    return new Promise((resolve, reject) => {
      let isReady = false;
      this.socket.onopen = () => this.send("session.start", { protocol: 1 });
      this.socket.onmessage = ({ data }) => {
        const message = typeof data === "string" ? JSON.parse(data) : this.#audio(data);
        if (message.type === "session.ready") {
          isReady = true;
          resolve(message);
        } else if (message.type === "error" && !isReady) {
          reject(new Error(message.message));
        } else {
          if (message.type === "audio.start") this.contexts.set(message.index, message.context);
          this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
        }
      };
      this.socket.onclose = ({ code, reason }) => {
        reject(new Error(reason || "The server did not answer."));
        if (isReady) this.dispatchEvent(new CustomEvent("lost", { detail: { code, reason } }));
      };
    });
  }

  get isOpen() {
    return this.socket !== null && this.socket.readyState === WebSocket.OPEN;
  }

  send(type, fields) {
    if (this.isOpen) this.socket.send(JSON.stringify({ type, ...fields }));
  }

  /** Text of any length, cut between characters (never inside a surrogate pair). */
  append(context, text) {
    for (let rest = text; rest; ) {
      const head = firstPiece(rest);
      this.send("text.append", { context, text: head });
      rest = rest.slice(head.length);
    }
  }

  /** Other text of any length from a character (code points) on. */
  revise(context, from, text) {
    const head = firstPiece(text);
    this.send("text.revise", { context, from, text: head });
    this.append(context, text.slice(head.length));
  }

  #audio(buffer) {
    const header = new DataView(buffer, 0, HEADER_BYTES);
    const version = header.getUint16(0, true);
    if (version !== HEADER_VERSION) throw new Error(`audio header version ${version}`);
    const pcm = new DataView(buffer, HEADER_BYTES);
    const samples = new Float32Array(pcm.byteLength / 2);
    for (let i = 0; i < samples.length; i += 1) samples[i] = pcm.getInt16(2 * i, true) / 32768;
    const context = this.contexts.get(header.getUint16(2, true));
    return { type: "audio", context, first: Number(header.getBigUint64(8, true)), samples };
  }
}

function firstPiece(text) {
  const isHalf = text.length > PIECE && /[\uD800-\uDBFF]/.test(text[PIECE - 1]);
  return text.slice(0, isHalf ? PIECE - 1 : PIECE);
}

function base64url(text) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
