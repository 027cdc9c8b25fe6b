// The row of lamps at the stage's edge: each follows one band of what is being heard.

const COUNT = 24;
const LOW_HZ = 90;
const HIGH_HZ = 6000;

export class Lamps {
  constructor(row, stage) {
    this.stage = stage;
    this.bulbs = Array.from({ length: COUNT }, () => row.appendChild(document.createElement("i")));
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)");
    this.bins = null;
    this.isDark = true;
  }

  /** Follow an AnalyserNode, null for darkness. */
  draw(meter) {
    if (!meter || this.isStill.matches) {
      if (!this.isDark) this.#set(() => 0, 0);
      this.isDark = true;
      return;
    }
    this.isDark = false;
    this.bins ??= new Uint8Array(meter.frequencyBinCount);
    meter.getByteFrequencyData(this.bins);
    const binHz = meter.context.sampleRate / meter.fftSize;
    // Low notes in the middle, high ones at both ends: the light stands where a speaker would.
    const level = (index) => {
      const side = Math.abs(index - (COUNT - 1) / 2) / (COUNT / 2);
      const hz = LOW_HZ * (HIGH_HZ / LOW_HZ) ** side;
      const value = (this.bins[Math.round(hz / binHz)] ?? 0) / 255;
      return value ** 1.6;
    };
    const mean = this.bins.reduce((sum, value) => sum + value, 0) / this.bins.length / 255;
    this.#set(level, Math.min(1, 2.2 * mean));
  }

  #set(level, mean) {
    this.bulbs.forEach((bulb, index) => bulb.style.setProperty("--lit", level(index).toFixed(2)));
    this.stage.style.setProperty("--level", mean.toFixed(2));
  }
}
