// Text of agents on the page: folded where it is long, prose as Markdown, JSON indented, diffs coloured.

const SHORT_FOLD = { lines: 14, characters: 1400 };
const LONG_FOLD = { lines: 60, characters: 6000 }; // of what people read first: prompts, answers and messages
const SLICE = 100000; // characters that are added at a time: more than that at once makes a browser slow
const MOST_PAINTED = 60000;
const LARGEST_PARSED = 2e6;
const DIFF = /^(diff --git |--- \S.*\n\+\+\+ \S|@@ -\d+(,\d+)? \+\d+|\*\*\* Begin Patch)/m;
const JSON_TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

function foldPoint(text, most) {
  let at = -1;
  for (let line = 0; line < most.lines; line += 1) {
    at = text.indexOf('\n', at + 1);
    if (at < 0) break;
  }
  const lines = at < 0 ? text.length : at;
  return Math.min(lines, text.length > most.characters * 1.3 ? most.characters : text.length);
}

// A block of text; a long one shows its beginning and a button for the rest.
function textBlock(text, paint, { tag = 'pre', folds = SHORT_FOLD, ...properties } = {}) {
  const pre = el(tag, { class: 'text', dir: 'auto', ...properties });
  const fold = foldPoint(text, folds);
  let end = fold;
  const show = () => {
    const part = end < text.length ? text.slice(0, end) : text;
    const painted = paint && part.length <= MOST_PAINTED && !(paint === markdownNodes && rawProse());
    pre.classList.toggle('plain-text', !painted);
    if (painted) pre.replaceChildren(...paint(part));
    else pre.textContent = visible(part);
  };
  show();
  pre.redraw = show;
  if (fold >= text.length) return pre;
  const toggle = button('', () => {
    end = end >= text.length ? fold : Math.min(text.length, end === fold ? Math.max(SLICE, fold) : end + SLICE);
    show();
    label();
  }, { class: 'fold' });
  const label = () => {
    const left = text.length - end;
    if (!left) toggle.textContent = 'Show less';
    else if (left > SLICE) toggle.textContent = `Show more (${sizeText(left)} left)`;
    else toggle.textContent = `Show all ${sizeText(text.length)}`;
    toggle.setAttribute('aria-expanded', String(end !== fold));
  };
  label();
  const box = el('div', { class: 'folding' }, pre, toggle);
  box.unfold = () => {
    if (end !== fold) return;
    toggle.click();
  };
  return box;
}

function paintJson(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(JSON_TOKEN)) {
    if (found.index > last) parts.push(visible(text.slice(last, found.index)));
    const kind = found[1] ? (found[2] ? 'key' : 'string') : 'literal';
    parts.push(el('span', { class: `json-${kind}`, text: found[1] || found[0] }));
    if (found[2]) parts.push(found[2]);
    last = found.index + found[0].length;
  }
  parts.push(visible(text.slice(last)));
  return parts;
}

function jsonBlock(value, properties) {
  return textBlock(JSON.stringify(value, null, 2), paintJson, properties);
}

// The JSON of a line on indented lines; unlike parsing and writing it again, it keeps every digit of its numbers.
function indentJson(line) {
  const parts = [];
  let depth = 0;
  let at = 0;
  const newLine = () => `\n${'  '.repeat(Math.min(depth, 60))}`;
  while (at < line.length) {
    const char = line[at];
    if (char === '"') {
      let end = at + 1;
      while (end < line.length && line[end] !== '"') end += line[end] === '\\' ? 2 : 1;
      parts.push(line.slice(at, end + 1));
      at = end + 1;
      continue;
    }
    if (char === '{' || char === '[') {
      const close = char === '{' ? '}' : ']';
      let next = at + 1;
      while (/\s/.test(line[next] || '')) next += 1;
      if (line[next] === close) {
        parts.push(char + close);
        at = next + 1;
        continue;
      }
      depth += 1;
      parts.push(char, newLine());
    } else if (char === '}' || char === ']') {
      depth -= 1;
      parts.push(newLine(), char);
    } else if (char === ',') parts.push(',', newLine());
    else if (char === ':') parts.push(': ');
    else if (!/\s/.test(char)) parts.push(char);
    at += 1;
  }
  return parts.join('');
}

function parsed(text) {
  const start = text.trimStart()[0];
  if ((start !== '{' && start !== '[') || text.length > LARGEST_PARSED) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function stringBlock(text) {
  if (DIFF.test(text.slice(0, 4000))) return textBlock(text, paintDiff, { class: 'text diff' });
  const value = parsed(text);
  if (value !== undefined) return jsonBlock(value);
  return textBlock(text);
}

// Text for people, of the prompt or of the agent: Markdown as it is meant, unless the reader wants it raw.
function proseBlock(text, properties) {
  if (DIFF.test(text.slice(0, 4000)) || parsed(text) !== undefined) return stringBlock(text);
  return textBlock(text, isMarkdown(text) ? markdownNodes : null, { tag: 'div', class: 'text prose', folds: LONG_FOLD, ...properties });
}

function rawProse() {
  return document.body.classList.contains('raw-prose');
}

function showRawProse(raw) {
  document.body.classList.toggle('raw-prose', raw);
  document.querySelectorAll('.prose').forEach((block) => block.redraw());
}

// What a tool was given or gave back, in the form that is read best.
function valueBlock(value, depth = 0) {
  if (value === null || value === undefined) return el('p', { class: 'none', text: 'none' });
  if (typeof value === 'string') return value === '' ? el('p', { class: 'none', text: 'empty' }) : stringBlock(value);
  if (typeof value !== 'object') return textBlock(String(value));
  if (Array.isArray(value)) {
    const special = depth < 3 && value.length <= 50 && value.some(isReadable);
    return special ? el('div', { class: 'values' }, value.map((item) => valueBlock(item, depth + 1))) : jsonBlock(value);
  }
  const image = imageOf(value);
  if (image) return imageBlock(image);
  if (value.type === 'text' && typeof value.text === 'string') return stringBlock(value.text);
  if (value.type === 'content' && value.content && depth < 3) return valueBlock(value.content, depth + 1);
  return fieldsBlock(value, depth);
}

function isReadable(item) {
  if (item === null || typeof item !== 'object') return false;
  return changeOf(item) !== null || imageOf(item) !== null || (item.type === 'text' && typeof item.text === 'string') || item.type === 'content';
}

// An object: a change as a diff, texts of several lines as texts, everything else as JSON.
function fieldsBlock(value, depth) {
  const change = changeOf(value);
  const apart = change ? [change.oldKey, change.newKey] : [];
  const long = Object.keys(value).filter((key) => !apart.includes(key) && isLong(value[key], depth));
  if (!change && !long.length) return jsonBlock(value);
  const rest = Object.keys(value).filter((key) => !apart.includes(key) && !long.includes(key));
  const blocks = [];
  if (rest.length) blocks.push(jsonBlock(Object.fromEntries(rest.map((key) => [key, value[key]]))));
  if (change) blocks.push(changeBlock(change.before, change.after));
  for (const key of long) blocks.push(el('p', { class: 'field', text: clip(key, 200) }), valueBlock(value[key], depth + 1));
  return el('div', { class: 'values' }, blocks);
}

function isLong(value, depth) {
  if (typeof value === 'string') return value.includes('\n') || value.length > 200;
  return depth < 3 && Array.isArray(value) && value.some(isReadable);
}
