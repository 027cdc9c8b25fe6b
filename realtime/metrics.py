"""Every Prometheus name of the gateway, in one list. One registry per `Metrics`: two servers fit in one process."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from engine.core import Tally

SECONDS_TO_FIRST_AUDIO = (0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.6, 0.8, 1.2, 2.0, 4.0, 8.0)
SECONDS_TO_STOP = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
SHARES_OF_FRAME = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 4.0)


class Metrics:
    """Recorded by the session, the bridge and the app; read by ``/metrics``."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sessions = self._gauge("sessions", "Open sessions")
        self.contexts = self._gauge("contexts", "Contexts that have begun and not ended")
        self.sessions_refused = self._counter("sessions_refused", "Connections refused", "reason")
        self.contexts_ended = self._counter("contexts_ended", "Contexts by how they ended", "end")
        self.errors = self._counter("errors", "Error messages sent to clients", "code")
        self.cancels = self._counter("cancels", "Contexts cut short by their client or by its loss", "cause")
        self.revisions = self._counter("revisions", "Revisions given to the engine; kind: client or skip", "kind")
        self.void_audio_seconds = self._counter("void_audio_seconds", "Audio made and then revised")
        self.engine_revisions = self._counter("engine_revisions", "Revisions carried out by the engine")
        self.discarded_frames = self._counter("discarded_frames", "Frames made and thrown away by the engine")
        self.withdrawn_guesses = self._counter("withdrawn_guesses", "Turns begun too early, unheard, and begun anew")
        self.spliced_guesses = self._counter("spliced_guesses", "Turns begun too early and taken back to a pause")
        self.speech_faults = self._counter("speech_faults", "Speech that was none; kind: dud or runaway", "kind")
        self.heard_faults = self._counter("heard_faults", "Speech that was none and was heard in part, then went on")
        self.turn_retries = self._counter("turn_retries", "Speech that was none and was made again")
        self.text_characters = self._counter("text_characters", "Characters appended")
        self.audio_seconds = self._counter("audio_seconds", "Audio made for listeners")
        self.underruns = self._counter("underruns", "A listener ran dry; cause: engine, text or reader", "cause")
        self.pauses = self._counter("pauses", "Utterances paused; cause: lead or reader", "cause")
        self.ttfa_seconds = self._histogram(
            "ttfa_seconds", "First speakable text received to first audio queued", SECONDS_TO_FIRST_AUDIO
        )
        self.stop_seconds = self._histogram(
            "stop_seconds", "Abort sent to the worker until the engine confirmed it", SECONDS_TO_STOP
        )
        self.step_seconds = self._histogram("step_seconds", "Duration of engine steps", SECONDS_TO_STOP)
        self.step_frame_share = self._histogram(
            "step_frame_share",
            "Duration of an engine step over the duration of the audio frame it makes",
            SHARES_OF_FRAME,
        )
        self.utterances = self._gauge("utterances", "Utterances the worker holds")
        self.worker_ready = self._gauge("worker_ready", "1 while the model is warm")
        self.worker_restarts = self._counter("worker_restarts", "Workers replaced after their death")
        self.worker_down_seconds = self._histogram(
            "worker_down_seconds", "Worker lost until the next one was warm", (0.25, 0.5, 1, 2, 3, 5, 10, 30, 60)
        )
        self.command_queue = self._gauge("command_queue", "Commands not yet on the pipe to the worker")

    def add_tally(self, tally: Tally) -> None:
        """Count what a worker's engine has done since it told last."""
        self.engine_revisions.inc(tally.revisions)
        self.discarded_frames.inc(tally.discarded_frames)
        self.withdrawn_guesses.inc(tally.withdrawn_guesses)
        self.spliced_guesses.inc(tally.spliced_guesses)
        self.speech_faults.labels("dud").inc(tally.duds)
        self.speech_faults.labels("runaway").inc(tally.runaways)
        self.turn_retries.inc(tally.retries)
        self.heard_faults.inc(tally.heard_faults)

    def render(self) -> bytes:
        """The text exposition of all of them."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"footlights_{name}", text, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"footlights_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"footlights_{name}", text, buckets=buckets, registry=self.registry)
