"""The web page in a headless Chromium, against the real server."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from realtime.settings import ServerSettings
from tests.clients.chromium import Page, open_browser, open_tab
from tests.clients.conftest import running, settings_for

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

STATE = "document.getElementById('server').dataset.state"
LIT = "[...document.querySelectorAll('#mirror .heard, #mirror .now')].map(span => span.textContent)"
RECORD = """window.lights = [];
new MutationObserver(() => {
  const now = document.querySelector('#mirror .now')?.textContent;
  if (now && now !== lights.at(-1)) lights.push(now);
}).observe(document.getElementById('mirror'), { subtree: true, childList: true, attributes: true });"""


def gauge(name: str) -> str:
    return f"parseFloat(document.getElementById('{name}').textContent)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """One browser for all tests; each has its own tab."""
    async with open_browser(tmp_path_factory.mktemp("profile")) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def page(server: str, browser: str) -> AsyncIterator[Page]:
    """The page, connected, with the text area focused; it must not complain about anything."""
    async with open_tab(browser) as page:
        await page.resize(1100, 800)
        await page.open(server.replace("ws://", "http://"))
        await page.until(f"{STATE} === 'ready'")
        await page.run(RECORD)
        await page.run("document.getElementById('text').focus()")
        yield page
        assert page.complaints == []


async def test_speaks_while_typing(page: Page, tmp_path: Path) -> None:
    await page.type("One two three ", 0.02)
    await page.until("lights.length > 0")
    await page.until(f"{gauge('played')} > 0")
    assert await page.run(gauge("ttfa")) > 0
    await page.type("four. ", 0.02)
    await page.until(f"{LIT}.join('|') === 'One|two|three|four.'")
    await page.until("document.getElementById('stop').disabled", 15)
    # One after the other; a browser that draws late may miss one.
    lights = await page.run("lights")
    assert lights == [word for word in ("One", "two", "three", "four.") if word in lights]
    assert len(lights) > 1
    assert await page.run(gauge("underruns")) == 0
    await page.screenshot(tmp_path / "typed.png")
    assert (tmp_path / "typed.png").stat().st_size > 10_000


async def test_an_edit_goes_on_from_what_was_not_heard(page: Page) -> None:
    text = "document.getElementById('text')"
    words = " ".join(f"word{number}" for number in range(20))
    await page.run(f"{text}.value = '{words} '; {text}.dispatchEvent(new Event('input'))")
    await page.until(f"{LIT}.length > 2")
    await page.run(f"{text}.value = '{words} '.replace('word15', 'other'); {text}.dispatchEvent(new Event('input'))")
    await page.until(f"{LIT}.includes('other')", 15)
    played = await page.run(gauge("played"))
    # 16 words of 200 ms: from the start again it would be some 0.6 s more at least.
    assert played < 17 * 0.2 + 0.5


async def test_an_edit_of_what_is_to_come_revises_it_while_it_sounds(page: Page, tmp_path: Path) -> None:
    text = "document.getElementById('text')"
    words = " ".join(f"word{number}" for number in range(20))
    await page.run(
        "window.sent = []; const send = WebSocket.prototype.send;"
        "WebSocket.prototype.send = function (data) { sent.push(JSON.parse(data)); send.call(this, data); }; 0"
    )
    await page.run(f"{text}.value = '{words} '; {text}.dispatchEvent(new Event('input'))")
    await page.until(f"{LIT}.length > 2")
    await page.run(f"{text}.value = '{words} '.replace('word15', 'other'); {text}.dispatchEvent(new Event('input'))")
    await page.until(f"{LIT}.includes('other')", 15)
    await page.screenshot(tmp_path / "revised.png")
    revised = await page.run("[...document.querySelectorAll('#mirror .revised')].map(span => span.textContent)")
    assert revised[:2] == ["other", "word16"]
    sent = await page.run("sent.map(message => message.type)")
    assert sent.count("context.open") == 1
    assert "cancel" not in sent
    assert "played" in sent
    (revision,) = await page.run("sent.filter(message => message.type === 'text.revise')")
    assert revision["from"] == words.index("word15")


async def test_captions_that_change_are_spoken_as_they_end(page: Page, tmp_path: Path) -> None:
    await page.click("#captions")
    await page.until("document.querySelectorAll('#mirror .revised').length > 0", 15)
    await page.screenshot(tmp_path / "captions.png")
    await page.until("document.getElementById('text').value.endsWith('are safe.')", 25)
    await page.until("document.getElementById('stop').disabled", 25)
    heard = await page.run(LIT)
    assert heard[:1] == ["Good"]
    assert heard[-1:] == ["safe."]
    assert len(heard) >= 12
    # A wrong word that was heard before it was corrected is told, and no right one.
    told = await page.run("document.getElementById('differs').textContent")
    lost = set(told.removeprefix("Heard before it changed: ").split())
    assert lost <= {"to", "two", "fury", "hour", "bar", "fifteen", "a", "bored", "were"}


async def test_stop_shows_what_was_heard(page: Page, tmp_path: Path) -> None:
    await page.click("#sample")
    await page.until(f"{LIT}.length >= 4", 15)
    await page.key("Escape", 27)
    await page.until("!document.getElementById('report').hidden")
    spoken, unspoken, text = await page.run(
        "['spoken', 'unspoken'].map(id => document.getElementById(id).textContent)"
        ".concat(document.getElementById('text').value)"
    )
    assert spoken.startswith("Good evening, and")
    assert unspoken
    assert spoken + unspoken == text
    assert "to the word" in await page.run("document.getElementById('reported').textContent")
    assert "".join(await page.run(LIT)).replace(" ", "") == spoken.replace(" ", "")
    # Silence, and nothing comes after it.
    played = await page.run(gauge("played"))
    await page.run("new Promise(resolve => setTimeout(resolve, 300))")
    assert await page.run(gauge("played")) == played
    await page.screenshot(tmp_path / "stopped.png")


async def test_ctrl_enter_speaks_it_all_and_astral_characters_keep_their_place(page: Page) -> None:
    await page.click("#live")
    await page.run("document.getElementById('text').focus()")
    await page.type("\U0001f3ad \U0001f600x costs $20 now")
    assert not await page.run(f"{LIT}.length")
    await page.key("Enter", 13, modifiers=2)
    await page.until("document.getElementById('caption').textContent.includes('twenty dollars')")
    await page.until(f"{LIT}.join('|') === '\U0001f600x|costs|$20|now'")


async def test_what_is_not_spoken_as_written_is_told_beside_the_text(page: Page, tmp_path: Path) -> None:
    notices = "[...document.querySelectorAll('#notices li')].map(item => item.innerText)"
    first = "“!unsaid”: what is unsaid is left out"
    await page.type("\U0001f600 one !unsaid two ", 0.02)
    await page.until(f"{notices}.length === 1")
    # Two further words of that kind: each is quoted, whole or its beginning; a word that was quoted is not told again.
    await page.type(f"!unsaid three !unsaid{'o' * 30} four. ", 0.005)
    await page.until(f"{notices}.length === 2")
    await page.until(f"{LIT}.includes('four.')", 15)
    assert await page.run(notices) == [first, f"“!unsaid{'o' * 17}…”: what is unsaid is left out"]
    # A status that is read out, between the text and the controls.
    assert await page.run("document.querySelector('[role=status] > #notices').closest('.stage') !== null")
    await page.screenshot(tmp_path / "notices.png")
    await page.run("const t = document.getElementById('text'); t.value = ''; t.dispatchEvent(new Event('input')); 0")
    await page.until(f"{notices}.length === 0")


async def test_a_phone_sees_it_all(page: Page, tmp_path: Path) -> None:
    await page.resize(360, 740, scheme="light", is_phone=True)
    assert await page.run("document.documentElement.scrollWidth <= innerWidth")
    await page.screenshot(tmp_path / "phone.png")


async def test_controls_have_names(page: Page) -> None:
    unnamed = """[...document.querySelectorAll('button, input, select, textarea')]
      .filter(element => !element.labels?.length && !element.textContent.trim()).map(element => element.id)"""
    assert await page.run(unnamed) == []


async def test_the_key_is_asked_for_and_kept(locked_server: str, browser: str) -> None:
    async with open_tab(browser) as page:
        await page.open(locked_server.replace("ws://", "http://"))
        await page.until("!document.getElementById('unlock').hidden")
        for key in ("wrong", "open sesame"):
            await page.run(f"document.getElementById('key').value = '{key}'")
            await page.run("document.getElementById('unlock').requestSubmit()")
            await page.until(f"{STATE} === '{'lost' if key == 'wrong' else 'ready'}'")
        assert await page.run("document.getElementById('unlock').hidden")


async def test_speaks_where_browsers_have_no_worklets(server: str, browser: str) -> None:
    async with open_tab(browser) as page:
        await page.before_every_page("Object.defineProperty(BaseAudioContext.prototype, 'audioWorklet', {})")
        await page.open(server.replace("ws://", "http://"))
        await page.until(f"{STATE} === 'ready'")
        await page.run("document.getElementById('text').value = 'One two'")
        await page.click("#speak")
        await page.until(f"{gauge('played')} >= 0.4")
        await page.until("document.getElementById('stop').disabled")
        assert page.complaints == []


async def test_a_lost_connection_is_told_and_opened_again(browser: str) -> None:
    settings = settings_for(step_s=0.005)
    async with open_tab(browser) as page:
        with running(settings) as url:
            await page.open(url.replace("ws://", "http://"))
            await page.until(f"{STATE} === 'ready'")
            await page.run("document.getElementById('text').value = 'One two three four five six seven'")
            await page.click("#speak")
            await page.until(f"{gauge('played')} > 0.2")
        await page.until(f"{STATE} === 'lost'")
        assert not await page.run("document.getElementById('problem').hidden")
        await page.until("document.getElementById('stop').disabled")
        port = int(url.rpartition(":")[2])
        with running(dataclasses.replace(settings, server=ServerSettings(port=port))):
            await page.click("#speak")
            await page.until(f"{STATE} === 'ready'")
            await page.until(f"{gauge('played')} >= 1.4 && {LIT}.length === 7", 15)
            assert await page.run("document.getElementById('problem').hidden")


# ---------------------------------------------------------------------------------------------- the play-out queue


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def blank(server: str, browser: str) -> AsyncIterator[Page]:
    """A tab that can import the page's modules."""
    async with open_tab(browser) as page:
        await page.open(server.replace("ws://", "http://") + "/icon.svg")
        yield page


async def queue(blank: Page, script: str) -> object:
    """What a script says of a queue of one sample a millisecond, 10 ms lead, 20 ms after running dry.

    ``say(id, first, count)`` pushes samples of value 1; ``hear(count)`` gives the rounded values read.
    """
    return await blank.run(
        f"""import('/playout.js').then(({{ PlayoutQueue }}) => {{
          const queue = new PlayoutQueue(1000, {{ startMs: 10, resumeMs: 20 }});
          const say = (id, first, count) => queue.push(id, first, new Float32Array(count).fill(1));
          const hear = (count) => {{
            const out = new Float32Array(count);
            const finished = queue.read(out);
            return {{ sum: Math.round(out.reduce((a, b) => a + b, 0)), finished, ...queue.state }};
          }};
          {script}
        }})"""
    )


async def test_manuscript_places_what_was_heard(blank: Page) -> None:
    script = """import('/manuscript.js').then(({ Manuscript }) => {
      const text = new Manuscript();
      text.append('😀 wreck a nice beach today');
      const from = text.revise(3, 'recognise a speech today.');
      const before = text.spoken;
      text.revised({ kept_to: 14, resumes_at: 13, revision: 1 });
      const word = (start, end) => text.place({ char_start: start, char_end: end });
      return [from, before, text.spoken, text.lost, word(8, 9), word(2, 7), word(15, 21)];
    })"""
    assert await blank.run(script) == [
        2,
        "😀 wreck a nice beach today",
        "😀 wreck a nice speech today.",
        ["wreck", "nice"],
        [13, 14],
        None,
        [15, 21],
    ]


async def test_queue_waits_for_its_lead(blank: Page) -> None:
    assert await queue(blank, "say('a', 0, 9); return [hear(5).played, (say('a', 9, 1), hear(5).played)]") == [0, 5]


async def test_queue_counts_running_dry_and_waits_longer_then(blank: Page) -> None:
    script = """
      say('a', 0, 10);
      const first = hear(16);
      say('a', 10, 19);
      const held = hear(5);
      say('a', 29, 1);
      return [first.played, first.dry, held.played, hear(5).played, queue.state.dry];
    """
    assert await queue(blank, script) == [10, 1, 10, 15, 1]


async def test_queue_plays_streams_in_turn_and_tells_their_ends(blank: Page) -> None:
    script = """
      say('a', 0, 10); queue.end('a'); say('b', 0, 100);
      const out = hear(15);
      return [out.finished, out.id, out.position, out.dry];
    """
    assert await queue(blank, script) == [["a"], "b", 5, 0]


async def test_queue_fills_lost_audio_with_silence_and_drops_what_comes_twice(blank: Page) -> None:
    script = """
      say('a', 0, 100); say('a', 0, 100); say('a', 200, 100); queue.end('a');
      hear(64);
      return [hear(36).sum, hear(100).sum, hear(100).sum, hear(1).finished];
    """
    assert await queue(blank, script) == [36, 0, 100, ["a"]]


async def test_queue_discards_what_was_revised(blank: Page) -> None:
    script = "say('a', 0, 100); hear(20); queue.discard('a', 50); return [queue.buffered, hear(64).position]"
    assert await queue(blank, script) == [30, 50]


async def test_queue_goes_back_to_what_was_revised_behind_it(blank: Page) -> None:
    script = """
      say('a', 0, 300); hear(200); queue.discard('a', 150);
      const held = hear(5);
      queue.push('a', 150, new Float32Array(100).fill(2));
      const out = hear(100);
      return [held.position, held.waiting, out.position, out.sum > 100];
    """
    assert await queue(blank, script) == [150, True, 250, True]


async def test_queue_is_silent_after_a_soft_edge_when_cleared(blank: Page) -> None:
    script = """
      say('a', 0, 500); hear(200);
      const at = queue.clear();
      const edge = hear(64), after = hear(64);
      return [at.id, at.position, edge.sum > 0, edge.sum < 64, after.sum];
    """
    assert await queue(blank, script) == ["a", 200, True, True, 0]
