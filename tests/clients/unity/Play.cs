// A game without a screen: greets the guard, bribes him when he has said some words, and prints what happens.
using System;
using System.Diagnostics;
using System.Reflection;
using System.Threading;
using UnityEngine;

public static class Play
{
    const double FrameSeconds = 0.02;
    const int WordsBeforeBribe = 3;

    public static int Main(string[] arguments)
    {
        var game = new Footlights { url = arguments[0] };
        int words = 0, lines = 0, cuts = 0;
        game.LineStarted += (who, text) => { lines++; words = 0; Console.WriteLine("line\t" + who + "\t" + text); };
        game.WordSpoken += (who, word) => { words++; Console.WriteLine("word\t" + who + "\t" + word); };
        game.LineCut += (who, heard) => { cuts++; Console.WriteLine("cut\t" + who + "\t" + heard); };
        Call(game, "Start");
        var clock = Stopwatch.StartNew();
        var asked = 0;
        while (clock.Elapsed.TotalSeconds < 60)
        {
            Thread.Sleep(TimeSpan.FromSeconds(FrameSeconds));
            UnityEngine.Time.unscaledDeltaTime = (float)FrameSeconds;
            foreach (var source in AudioSource.all.ToArray()) source.Advance(FrameSeconds);
            Call(game, "Update");
            if (asked == 0 && AudioSource.all.Count > 0) { asked = 1; game.Act("guard", "greet"); }
            if (asked == 1 && words >= WordsBeforeBribe) { asked = 2; game.Act("guard", "bribe"); }
            if (asked == 2 && cuts == 1 && lines == 2 && words >= WordsBeforeBribe) break;
        }
        Call(game, "OnDestroy");
        Console.WriteLine("loud\t" + (AudioSource.all[0].loudness > 0.01));
        return 0;
    }

    static void Call(Footlights game, string message) =>
        typeof(Footlights).GetMethod(message, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(game, null);
}
