// Sound out: one AudioContext at the voice's own rate, fed by the play-out queue on the audio thread.
//
// Browsers give AudioWorklet to secure pages only (https or localhost). A phone that opens a server of the local
// network over plain http has none, so there the same queue is read by a ScriptProcessorNode on this thread.

import { PlayoutQueue } from "./playout.js";

const FALLBACK_BLOCK = 1024; // samples: 43 ms at 24 kHz
const MAX_GUESS_MS = 60; // a report that is later than this says nothing about now

export class Player extends EventTarget {
  /** Must be called from a user's action: browsers keep an AudioContext silent otherwise. */
  static async create(rate) {
    const context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
    const port = context.audioWorklet ? await openWorklet(context) : openFallback(context);
    const player = new Player(context, port);
    await player.resume();
    return player;
  }

  constructor(context, { node, post, listen }) {
    super();
    this.context = context;
    this.rate = context.sampleRate;
    this.post = post;
    this.state = { id: null, position: 0, buffered: 0, played: 0, dry: 0, waiting: true };
    this.seenAt = context.currentTime;
    this.stoppedAt = context.currentTime;
    this.last = { id: null, ms: 0 };
    this.sounding = null; // stream whose first sound was last announced
    this.meter = context.createAnalyser();
    this.meter.fftSize = 512;
    this.meter.smoothingTimeConstant = 0.6;
    node.connect(this.meter).connect(context.destination);
    listen((message) => this.#receive(message));
  }

  /** Samples of a stream, at a position in it. */
  push(id, first, samples) {
    this.post({ type: "push", id, first, samples }, [samples.buffer]);
  }

  /** No more audio comes for this stream; a `finished` event follows when its last sample is out. */
  end(id) {
    this.post({ type: "end", id });
  }

  /** Drop the samples of a stream from that one on. */
  discard(id, from) {
    if (this.last.id === id) this.last.ms = Math.min(this.last.ms, this.#ms(from));
    this.post({ type: "discard", id, from });
  }

  /** Silence, now. Resolves to `{id, position}` of the stream that was playing, or null. */
  clear() {
    return new Promise((resolve) => {
      this.addEventListener("cleared", ({ detail }) => resolve(detail), { once: true });
      this.post({ type: "clear" });
    });
  }

  async resume() {
    if (this.context.state !== "running") await this.context.resume();
  }

  /** Milliseconds between a sample leaving the queue and its reaching the ear, as far as the browser knows. */
  get latencyMs() {
    return 1000 * (this.context.outputLatency || this.context.baseLatency || 0);
  }

  /** What is being heard: `{id, ms}`, extrapolated from the last report and less the device's own latency. */
  get heard() {
    const { id, position, buffered, waiting } = this.state;
    const sinceMs = 1000 * (this.context.currentTime - (waiting ? this.stoppedAt : this.seenAt));
    // While it sounds the queue has gone on since it reported; when it has stopped the device still empties itself.
    const onMs = waiting ? Math.min(sinceMs, this.latencyMs) : Math.min(sinceMs, MAX_GUESS_MS, this.#ms(buffered));
    const ms = Math.max(0, this.#ms(position) + onMs - this.latencyMs);
    // A guess may have gone too far, but what was heard is not unheard.
    this.last = { id, ms: id === this.last.id ? Math.max(ms, this.last.ms) : ms };
    return this.last;
  }

  #ms(samples) {
    return (1000 * samples) / this.rate;
  }

  #receive(message) {
    if (message.type === "state") {
      const before = this.state;
      this.state = message.state;
      this.seenAt = this.context.currentTime;
      if (this.state.waiting && !before.waiting) this.stoppedAt = this.seenAt;
      if (!this.state.waiting && this.state.id !== this.sounding) {
        this.sounding = this.state.id;
        this.#emit("sounding", this.sounding);
      }
      if (this.state.dry > before.dry) this.#emit("dry", this.state.id);
    } else if (message.type === "finished") {
      this.#emit("finished", message.id);
    } else if (message.type === "cleared") {
      this.state = { ...this.state, id: null, position: 0, buffered: 0, waiting: true };
      this.#emit("cleared", message.at);
    }
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

async function openWorklet(context) {
  await context.audioWorklet.addModule("worklet.js");
  const node = new AudioWorkletNode(context, "playout", { numberOfInputs: 0, outputChannelCount: [1] });
  return {
    node,
    post: (message, transfer = []) => node.port.postMessage(message, transfer),
    listen: (handler) => {
      node.port.onmessage = ({ data }) => handler(data);
    },
  };
}

function openFallback(context) {
  const queue = new PlayoutQueue(context.sampleRate);
  const node = context.createScriptProcessor(FALLBACK_BLOCK, 0, 1);
  let handler = () => {};
  node.onaudioprocess = ({ outputBuffer }) => {
    for (const id of queue.read(outputBuffer.getChannelData(0))) handler({ type: "finished", id });
    handler({ type: "state", state: queue.state });
  };
  const post = (message) => {
    if (message.type === "push") queue.push(message.id, message.first, message.samples);
    else if (message.type === "end") queue.end(message.id);
    else if (message.type === "discard") queue.discard(message.id, message.from);
    else if (message.type === "clear") handler({ type: "cleared", at: queue.clear() });
  };
  return {
    node,
    post,
    listen: (given) => {
      handler = given;
    },
  };
}
