// Unity: characters that speak, from `footlights npc`. Put this on an object; give each character an AudioSource of its
// own in the inspector (its place in the world is where it is heard from); call Act("guard", "greet").
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Net.WebSockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;

public class Footlights : MonoBehaviour
{
    [Serializable]
    public class Actor
    {
        public string character;
        public AudioSource source;
    }

    public string url = "ws://127.0.0.1:8061";
    public List<Actor> actors = new List<Actor>();
    public event Action<string, string> LineStarted; // character, text
    public event Action<string, string> WordSpoken; // character, word: for subtitles and mouths, when it is heard
    public event Action<string, string> LineCut; // character, what was heard

    const int HeaderBytes = 8;
    const float HeardEverySeconds = 0.1f;

    [Serializable] class Message { public string type, character, text, heard, message; public int line, sample_rate; public Member[] characters; public Word[] words; }
    [Serializable] class Member { public string name; public int index; }
    [Serializable] class Word { public string text; public float start_ms, end_ms; }
    [Serializable] class Act_ { public string type = "act"; public string character, action; }
    [Serializable] class Heard_ { public string type = "heard"; public string character; public int line; public float ms; }

    class Voice
    {
        public string name;
        public AudioSource source;
        public int line = -1;
        public readonly List<Word> words = new List<Word>();
        ConcurrentQueue<float> waiting = new ConcurrentQueue<float>();
        int given; // samples handed to the audio thread

        public float HeardMs(int rate) => 1000f * Volatile.Read(ref given) / rate;

        public void Begin(int number, int rate)
        {
            Silence();
            line = number;
            source.clip = AudioClip.Create(name, rate, 1, rate, true, Read);
            source.loop = true;
            source.Play();
        }

        public void Push(float sample) => waiting.Enqueue(sample);

        public void Silence()
        {
            source.Stop();
            waiting = new ConcurrentQueue<float>();
            words.Clear();
            line = -1;
            given = 0;
        }

        void Read(float[] data)
        {
            for (var i = 0; i < data.Length; i++)
            {
                var has = waiting.TryDequeue(out var sample);
                data[i] = has ? sample : 0f;
                if (has) Interlocked.Increment(ref given);
            }
        }
    }

    readonly ClientWebSocket socket = new ClientWebSocket();
    readonly CancellationTokenSource closing = new CancellationTokenSource();
    readonly ConcurrentQueue<(bool isText, byte[] data)> arrived = new ConcurrentQueue<(bool, byte[])>();
    readonly Dictionary<string, Voice> voices = new Dictionary<string, Voice>();
    readonly List<Voice> byIndex = new List<Voice>();
    readonly SemaphoreSlim sending = new SemaphoreSlim(1);
    int rate = 24000;
    float sinceHeard;

    public void Act(string character, string action) => Send(JsonUtility.ToJson(new Act_ { character = character, action = action }));

    async void Start()
    {
        try
        {
            await socket.ConnectAsync(new Uri(url), closing.Token);
            await Receive();
        }
        catch (OperationCanceledException) { }
        catch (WebSocketException error) { Debug.LogWarning($"footlights npc at {url}: {error.Message}"); }
    }

    void OnDestroy() => closing.Cancel();

    async Task Receive()
    {
        var buffer = new byte[65536];
        var whole = new List<byte>();
        while (socket.State == WebSocketState.Open)
        {
            var part = await socket.ReceiveAsync(new ArraySegment<byte>(buffer), closing.Token);
            if (part.MessageType == WebSocketMessageType.Close) return;
            whole.AddRange(new ArraySegment<byte>(buffer, 0, part.Count));
            if (!part.EndOfMessage) continue;
            arrived.Enqueue((part.MessageType == WebSocketMessageType.Text, whole.ToArray()));
            whole.Clear();
        }
    }

    void Update()
    {
        while (arrived.TryDequeue(out var message))
        {
            if (message.isText) Take(JsonUtility.FromJson<Message>(Encoding.UTF8.GetString(message.data)));
            else TakeAudio(message.data);
        }
        sinceHeard += Time.unscaledDeltaTime;
        foreach (var voice in voices.Values)
        {
            var ms = voice.HeardMs(rate);
            while (voice.words.Count > 0 && voice.words[0].start_ms <= ms)
            {
                WordSpoken?.Invoke(voice.name, voice.words[0].text);
                voice.words.RemoveAt(0);
            }
            if (sinceHeard >= HeardEverySeconds && voice.line >= 0 && ms > 0)
                Send(JsonUtility.ToJson(new Heard_ { character = voice.name, line = voice.line, ms = ms }));
        }
        if (sinceHeard >= HeardEverySeconds) sinceHeard = 0;
    }

    void Take(Message message)
    {
        switch (message.type)
        {
            case "scene":
                rate = message.sample_rate;
                foreach (var member in message.characters)
                {
                    var actor = actors.Find(each => each.character == member.name);
                    var source = actor != null ? actor.source : gameObject.AddComponent<AudioSource>();
                    voices[member.name] = new Voice { name = member.name, source = source };
                    byIndex.Add(voices[member.name]);
                }
                break;
            case "line":
                voices[message.character].Begin(message.line, rate);
                LineStarted?.Invoke(message.character, message.text);
                break;
            case "words":
                // A word may come again with better times: the later one counts.
                foreach (var word in message.words)
                {
                    voices[message.character].words.RemoveAll(known => known.start_ms == word.start_ms);
                    voices[message.character].words.Add(word);
                }
                break;
            case "cut":
                voices[message.character].Silence();
                LineCut?.Invoke(message.character, message.heard);
                break;
            case "problem":
                Debug.LogWarning(message.message);
                break;
        }
    }

    void TakeAudio(byte[] data)
    {
        var voice = byIndex[BitConverter.ToUInt16(data, 0)];
        if (BitConverter.ToUInt16(data, 2) != voice.line) return; // of a line that was cut
        for (var at = HeaderBytes; at + 1 < data.Length; at += 2) voice.Push(BitConverter.ToInt16(data, at) / 32768f);
    }

    async void Send(string text)
    {
        await sending.WaitAsync();
        try
        {
            if (socket.State != WebSocketState.Open) return;
            var bytes = new ArraySegment<byte>(Encoding.UTF8.GetBytes(text));
            await socket.SendAsync(bytes, WebSocketMessageType.Text, true, closing.Token);
        }
        catch (OperationCanceledException) { }
        finally { sending.Release(); }
    }
}
