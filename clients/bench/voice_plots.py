"""PNG pictures of how a voice sounds beside its teacher's. Axes: bins, then frames."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from clients.bench.plots import COLOURS, grid, save
from clients.bench.proof import Measured
from clients.bench.prosody import FRAME_S, Prosody, pitch
from clients.bench.takes import Take

TOP_HZ = 8000
WINDOW_S, HOP_S = 0.02, 0.005
RANGE_DB = 70
FEWER_DOTS = 72
"""An inch: noise hardly compresses."""


def spectrograms(takes: Mapping[str, Take], text: str, path: Path) -> None:
    """One above the other, the same seconds and decibels: 0 is the loudest point of each."""
    figure, axes = grid(len(takes), 1, (10, 2.1 * len(takes)), sharex=True)
    for panel, (name, take) in zip(axes[:, 0], takes.items(), strict=True):
        window, hop = round(WINDOW_S * take.sample_rate), round(HOP_S * take.sample_rate)
        frames = np.lib.stride_tricks.sliding_window_view(take.samples, window)[::hop]
        power = np.square(np.abs(np.fft.rfft(frames * np.hanning(window), 4 * window))) + 1e-12
        db = 10 * np.log10(power.T / power.max())
        extent = (0, len(frames) * HOP_S, 0, take.sample_rate / 2)
        panel.imshow(db, origin="lower", aspect="auto", cmap="magma", vmin=-RANGE_DB, vmax=0, extent=extent)
        panel.set_ylim(0, TOP_HZ)
        panel.set_ylabel("Hz")
        panel.set_title(name, fontsize=9, loc="left")
    axes[-1, 0].set_xlim(0, max(take.audio_s for take in takes.values()))
    axes[-1, 0].set_xlabel(f"seconds: “{text}”")
    save(figure, path, FEWER_DOTS)


def contours(takes: Mapping[str, Mapping[str, Take]], text: str, path: Path) -> None:
    """A panel a voice: pitch over time, a line a reader."""
    figure, axes = grid(1, len(takes), (4.2 * len(takes), 3))
    for panel, (voice, readers) in zip(axes[0], takes.items(), strict=True):
        for (name, take), colour in zip(readers.items(), COLOURS[1::-1], strict=False):
            hertz = pitch(take.samples, take.sample_rate)
            hertz[hertz == 0] = np.nan
            panel.plot(np.arange(len(hertz)) * FRAME_S, hertz, color=colour, linewidth=1.4, label=name)
        panel.set_title(voice, fontsize=10)
        panel.set_xlabel("seconds")
    axes[0, 0].set_ylabel("pitch, Hz")
    axes[0, 0].legend(fontsize=8)
    figure.suptitle(f"“{text}”", fontsize=9)
    save(figure, path)


def manner(measured: Sequence[Measured], voices: Sequence[str], path: Path) -> None:
    """Distributions over takes, by voice: pitch range, energy range, pauses at marks."""
    figure, axes = grid(1, 3, (12, 3.2))
    kinds: list[tuple[str, Callable[[Prosody], list[float]]]] = [
        ("pitch range of a take, semitones", lambda m: [] if m.pitch_range is None else [m.pitch_range]),
        ("energy range of a take, dB", lambda m: [m.energy_range]),
        ("pause at a mark, ms", lambda m: [1000 * pause for pause in m.pauses_s]),
    ]
    for panel, (title, figures) in zip(axes[0], kinds, strict=True):
        for shift, (reader, colour) in enumerate(zip(measured, COLOURS[1::-1], strict=False)):
            values = [
                [value for s in reader.of(v).sounds if (m := s.manner) is not None for value in figures(m)]
                for v in voices
            ]
            places = [i + 0.36 * (shift - 0.5) for i in range(len(voices))]
            boxes = panel.boxplot(
                values, positions=places, widths=0.3, whis=(5, 95), showfliers=False, patch_artist=True
            )
            for box in boxes["boxes"]:
                box.set(facecolor=colour, alpha=0.6)
            panel.plot([], [], "s", color=colour, alpha=0.6, label=reader.reader.name)
        panel.set_xticks(range(len(voices)), voices)
        panel.set_title(title, fontsize=10)
    axes[0, 0].legend(fontsize=8)
    save(figure, path)
