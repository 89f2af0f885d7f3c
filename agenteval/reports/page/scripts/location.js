// The view in the address: #id=ID opens a record (at &trial=2&step=14), other key=value pairs are the filter, a bare #ID
// opens that record.

const PLACE_KEYS = ['trial', 'step'];
// Graders and checks are filtered by keys of their own: #grader.judge=fail&check.tests=pass
const VERDICT_KEY = /^(?:grader|check)\../;
const FILTER_KEYS = ['status', 'passes', 'fails', 'category', 'tool', 'label', 'q', 'deep', 'sort', 'a', 'b'];

function isVerdictKey(key) {
  return key !== null && VERDICT_KEY.test(key);
}

function decodePart(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % is no escape
  }
}

function encodePart(text) {
  return encodeURIComponent(text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd'));
}

function readHash(hash, groupKey, isId) {
  const view = { id: null, trial: null, step: null, filter: new Map() };
  const text = hash.replace(/^#/, '');
  if (!text) return view;
  const pairs = text.split('&').map((part) => {
    const at = part.indexOf('=');
    return at < 0 ? [null, part] : [decodePart(part.slice(0, at)), decodePart(part.slice(at + 1))];
  });
  const known = (key) => key === 'id' || PLACE_KEYS.includes(key) || FILTER_KEYS.includes(key) || isVerdictKey(key) || key === groupKey || key === `metadata.${groupKey}`;
  if (!pairs.every(([key]) => known(key)) && (pairs.length === 1 || isId(decodePart(text)))) {
    view.id = decodePart(text);
    return view;
  }
  for (const [key, value] of pairs) {
    if (!known(key) || value === '') continue;
    if (key === 'id') view.id = value;
    else if (PLACE_KEYS.includes(key)) view[key] = /^\d{1,9}$/.test(value) ? Number(value) : null;
    else view.filter.set(FILTER_KEYS.includes(key) || isVerdictKey(key) ? key : 'category', value);
  }
  return view;
}

function hashOf(view, groupKey) {
  const parts = [];
  for (const key of FILTER_KEYS) {
    if (!view.filter.has(key)) continue;
    const shown = key === 'category' && !FILTER_KEYS.includes(groupKey) && groupKey !== 'id' ? groupKey : key;
    parts.push(`${encodePart(shown)}=${encodePart(view.filter.get(key))}`);
  }
  for (const [key, value] of view.filter) if (isVerdictKey(key)) parts.push(`${encodePart(key)}=${encodePart(value)}`);
  if (view.id !== null) parts.push(`id=${encodePart(view.id)}`);
  for (const key of PLACE_KEYS) if (view.id !== null && view[key]) parts.push(`${key}=${view[key]}`);
  return `#${parts.join('&')}`;
}
