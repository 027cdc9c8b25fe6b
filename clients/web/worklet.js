// The audio thread's side of the player: reads the play-out queue, reports where it is about 40 times a second.

import { PlayoutQueue } from "./playout.js";

const REPORT_BLOCKS = 5; // of 128 samples

class Playout extends AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = new PlayoutQueue(sampleRate);
    this.blocks = 0;
    this.port.onmessage = ({ data }) => {
      if (data.type === "push") this.queue.push(data.id, data.first, data.samples);
      else if (data.type === "end") this.queue.end(data.id);
      else if (data.type === "discard") this.queue.discard(data.id, data.from);
      else if (data.type === "clear") this.port.postMessage({ type: "cleared", at: this.queue.clear() });
    };
  }

  process(_inputs, outputs) {
    const finished = this.queue.read(outputs[0][0]);
    for (const id of finished) this.port.postMessage({ type: "finished", id });
    this.blocks += 1;
    if (finished.length || this.blocks % REPORT_BLOCKS === 0) {
      this.port.postMessage({ type: "state", state: this.queue.state });
    }
    return true;
  }
}

registerProcessor("playout", Playout);
