// Differences of two texts by line, and colours for diffs.

const CHANGED_FIELDS = [
  ['old_string', 'new_string'], ['oldText', 'newText'], ['old_str', 'new_str'], ['oldString', 'newString'],
  ['old_text', 'new_text'], ['original', 'replacement'],
];
const MOST_COMPARED = 400000; // cells of the table of common lines
const CONTEXT = 3;

// The texts before and after a change, if the input of a tool has both; null if not.
function changeOf(value) {
  for (const [oldKey, newKey] of CHANGED_FIELDS) {
    const before = Object.hasOwn(value, oldKey) ? value[oldKey] : undefined;
    const after = Object.hasOwn(value, newKey) ? value[newKey] : undefined;
    if (typeof after === 'string' && (typeof before === 'string' || before === null)) {
      return { oldKey, newKey, before: before || '', after };
    }
  }
  return null;
}

function changeBlock(before, after) {
  return textBlock(diffText(before, after), paintDiff, { class: 'text diff' });
}

function diffText(before, after) {
  const old = before === '' ? [] : before.split('\n');
  const now = after === '' ? [] : after.split('\n');
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const middle = commonLines(old.slice(start, old.length - end), now.slice(start, now.length - end));
  const lines = [
    ...old.slice(Math.max(0, start - CONTEXT), start).map((line) => ` ${line}`),
    ...middle,
    ...old.slice(old.length - end, old.length - end + CONTEXT).map((line) => ` ${line}`),
  ];
  return lines.join('\n');
}

function commonLines(old, now) {
  const removed = (lines) => lines.map((line) => `-${line}`);
  const added = (lines) => lines.map((line) => `+${line}`);
  if (old.length * now.length > MOST_COMPARED) return [...removed(old), ...added(now)];
  const width = now.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = old[i] === now[j]
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) {
      lines.push(` ${old[i]}`);
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      lines.push(`-${old[i]}`);
      i += 1;
    } else {
      lines.push(`+${now[j]}`);
      j += 1;
    }
  }
  return [...lines, ...removed(old.slice(i)), ...added(now.slice(j))];
}

function paintDiff(text) {
  return text.split('\n').map((line) => {
    const kind = /^(\+\+\+|---|diff |index |\*\*\* )/.test(line) ? 'file'
      : line.startsWith('@@') ? 'hunk' : line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : 'same';
    return el('span', { class: `diff-line diff-${kind}`, text: line || ' ' });
  });
}
