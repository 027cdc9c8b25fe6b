// What is waiting to be heard. No Web Audio in here: the worklet and the fallback both read from one of these.
//
// Audio is placed by its sample position in its stream (one stream per context), so a lost message becomes silence of
// the right length and a repeated one is not heard twice. Streams play one after the other, in the order they began.

const RAMP = 64; // samples to rise from or fall to silence, so that no start or stop clicks

export class PlayoutQueue {
  /**
   * @param {number} rate samples per second
   * @param {{startMs?: number, resumeMs?: number}} [lead] audio to hold before the first sound, and after running dry
   */
  constructor(rate, { startMs = 40, resumeMs = 120 } = {}) {
    this.rate = rate;
    this.startSamples = (rate * startMs) / 1000;
    this.resumeSamples = (rate * resumeMs) / 1000;
    this.streams = [];
    this.played = 0; // samples of speech played in all, gaps not counted
    this.dry = 0; // times the head stream ran out before its end
    this.waiting = true;
    this.needed = this.startSamples;
    this.rise = 0; // samples since sound last began
    this.last = 0; // last sample given out
    this.fall = RAMP; // samples since sound last stopped
  }

  /** Put samples of a stream at a position. */
  push(id, first, samples) {
    const stream = this.#stream(id);
    stream.chunks.push({ first, samples });
    stream.received = Math.max(stream.received, first + samples.length);
  }

  /** No more audio comes for this stream. */
  end(id) {
    this.#stream(id).ended = true;
  }

  /** Drop what a stream holds from a position on: it was revised. What comes next is heard from its start. */
  discard(id, from) {
    const stream = this.streams.find((each) => each.id === id);
    if (!stream) return;
    stream.chunks = stream.chunks
      .filter((chunk) => chunk.first < from)
      .map(({ first, samples }) => ({ first, samples: samples.subarray(0, from - first) }));
    stream.received = Math.min(stream.received, from);
    if (stream.position > from) {
      stream.position = from;
      if (stream === this.streams[0]) this.#stop();
    }
  }

  /** Drop everything. Returns where the head stream stood. */
  clear() {
    const head = this.streams[0];
    this.streams = [];
    this.#stop();
    this.needed = this.startSamples;
    return head ? { id: head.id, position: head.position } : null;
  }

  /** Samples that can be played without a gap, over all streams. */
  get buffered() {
    return this.streams.reduce((sum, stream) => sum + Math.max(0, stream.received - stream.position), 0);
  }

  get state() {
    const head = this.streams[0];
    return {
      id: head ? head.id : null,
      position: head ? head.position : 0,
      buffered: this.buffered,
      played: this.played,
      dry: this.dry,
      waiting: this.waiting,
    };
  }

  /** Fill one block. Returns the ids of streams whose last sample has now been given out. */
  read(out) {
    const finished = [];
    out.fill(0);
    let filled = 0;
    while (filled < out.length) {
      const head = this.streams[0];
      if (!head) {
        this.#stop();
        this.needed = this.startSamples;
        break;
      }
      const ready = head.received - head.position;
      if (ready <= 0 && head.ended) {
        finished.push(head.id);
        this.streams.shift();
        continue;
      }
      if (this.waiting && ready < this.needed && !head.ended) break;
      if (ready <= 0) {
        this.dry += 1;
        this.#stop();
        this.needed = this.resumeSamples;
        break;
      }
      if (this.waiting) {
        this.waiting = false;
        this.rise = 0;
      }
      const count = Math.min(out.length - filled, ready);
      this.#copy(head, out.subarray(filled, filled + count));
      head.position += count;
      this.played += count;
      filled += count;
    }
    for (; filled < out.length && this.fall < RAMP; filled += 1, this.fall += 1) {
      out[filled] = this.last * (1 - this.fall / RAMP);
    }
    return finished;
  }

  #stream(id) {
    let stream = this.streams.find((each) => each.id === id);
    if (!stream) {
      stream = { id, chunks: [], position: 0, received: 0, ended: false };
      this.streams.push(stream);
    }
    return stream;
  }

  #copy(stream, out) {
    const start = stream.position;
    const end = start + out.length;
    for (const { first, samples } of stream.chunks) {
      const from = Math.max(first, start);
      const to = Math.min(first + samples.length, end);
      if (from < to) out.set(samples.subarray(from - first, to - first), from - start);
    }
    stream.chunks = stream.chunks.filter(({ first, samples }) => first + samples.length > end);
    for (let i = 0; i < out.length && this.rise < RAMP; i += 1, this.rise += 1) out[i] *= this.rise / RAMP;
    this.last = out[out.length - 1];
    this.fall = 0;
  }

  #stop() {
    this.waiting = true;
  }
}
