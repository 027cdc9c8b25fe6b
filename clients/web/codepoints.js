// The protocol counts Unicode code points, JavaScript UTF-16 units.

/** Units in the first `count` code points of a text. */
export function toUnits(text, count) {
  let units = 0;
  for (let left = count; left > 0 && units < text.length; left -= 1) units += text.codePointAt(units) > 0xffff ? 2 : 1;
  return units;
}

/** Code points in the first `units` units of a text. */
export function toCodePoints(text, units) {
  let count = 0;
  for (let at = 0; at < Math.min(units, text.length); count += 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return count;
}

/** Units in which two texts begin alike; never half a character. */
export function commonPrefix(a, b) {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length += 1;
  const isHalf = length > 0 && /[\uD800-\uDBFF]/.test(a[length - 1]);
  return isHalf ? length - 1 : length;
}
