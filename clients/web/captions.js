// A recorded run of live captions: a recogniser that changes its mind while the speaker goes on.

const STEPS = [
  [500, "Good"],
  [400, "Good evening to"],
  [500, "Good evening two"],
  [600, "Good evening, two hours ago the"],
  [500, "Good evening, two hours ago the fury"],
  [500, "Good evening, two hours ago the ferry reached"],
  [600, "Good evening, two hours ago the ferry reached the hour bar"],
  [700, "Good evening, two hours ago the ferry reached the harbour with fifteen"],
  [600, "Good evening, two hours ago the ferry reached the harbour with fifty passengers"],
  [600, "Good evening, two hours ago the ferry reached the harbour with fifty passengers a bored"],
  [700, "Good evening, two hours ago the ferry reached the harbour with fifty passengers aboard, and all of them were safe."],
  [300, "Good evening, two hours ago the ferry reached the harbour with fifty passengers aboard, and all of them are safe."],
];

export const CAPTIONS = STEPS.map(([forMs, text]) => ({ forMs, text }));
