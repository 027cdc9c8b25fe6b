// What Footlights.cs uses of Unity, as far as it uses it: enough to compile it and to play it without a device.
using System;
using System.Collections.Generic;
using System.Web.Script.Serialization;

namespace UnityEngine
{
    public class Object { }

    public class GameObject : Object
    {
        public T AddComponent<T>() where T : new() => new T();
    }

    public class MonoBehaviour : Object
    {
        public readonly GameObject gameObject = new GameObject();
    }

    public class AudioClip : Object
    {
        public delegate void PCMReaderCallback(float[] data);

        public PCMReaderCallback read;
        public int frequency;

        public static AudioClip Create(
            string name, int lengthSamples, int channels, int frequency, bool stream, PCMReaderCallback read) =>
            new AudioClip { read = read, frequency = frequency };
    }

    public class AudioSource : Object
    {
        public static readonly List<AudioSource> all = new List<AudioSource>();
        public AudioClip clip;
        public bool loop;
        public bool isPlaying;
        public double loudness;

        public AudioSource() { all.Add(this); }

        public void Play() => isPlaying = true;

        public void Stop() => isPlaying = false;

        // What a device does so many seconds long.
        public void Advance(double seconds)
        {
            if (!isPlaying) return;
            var data = new float[(int)(seconds * clip.frequency)];
            clip.read(data);
            foreach (var sample in data) loudness = Math.Max(loudness, Math.Abs(sample));
        }
    }

    public static class Time
    {
        public static float unscaledDeltaTime;
    }

    public static class Debug
    {
        public static void LogWarning(object message) => Console.Error.WriteLine(message);
    }

    public static class JsonUtility
    {
        static readonly JavaScriptSerializer serializer = new JavaScriptSerializer();

        public static string ToJson(object value) => serializer.Serialize(value);

        public static T FromJson<T>(string text) => serializer.Deserialize<T>(text);
    }
}
