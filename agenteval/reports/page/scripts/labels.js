// Labels: what a person says of an answer. They are kept in the browser's storage and downloaded for ae-calibrate and
// ae-grade. In labelling mode the verdicts of the graders are hidden until the person has decided.

const LABEL_NAMES = { pass: '✓ Pass', fail: '✗ Fail', unsure: '? Unsure' };
const LABEL_VALUES = { pass: true, fail: false, unsure: null };
const LABEL_FILTERS = [['pass', '✓ pass'], ['fail', '✗ fail'], ['unsure', '? unsure'], ['disagree', '≠ disagrees with the grader'], ['none', '– no label']];
const REVEALING = ['status', 'marks', 'score', 'preview']; // columns that tell the verdict

function labelWord(label) {
  return label.pass === null ? 'unsure' : label.pass ? 'pass' : 'fail';
}

class LabelStore {
  constructor(data) {
    this.key = `agenteval-labels:${data.run}`;
    this.given = new Map(Object.entries(data.givenLabels || {})); // of ae-format --labels
    this.own = new Map();
    try {
      this.own = new Map(Object.entries(JSON.parse(localStorage.getItem(this.key)) || {}));
    } catch { /* a page from disk may have no storage */ }
  }

  get(name) {
    return this.own.get(name) || this.given.get(name) || null;
  }

  get size() {
    return new Set([...this.given.keys(), ...this.own.keys()]).size;
  }

  // Keeps a label; its digest says for which output it is, as that of ae-calibrate.
  async set(name, pass, note, output) {
    this.own.set(name, { pass, note, outputHash: await outputHash(output) });
    this.save();
  }

  remove(name) {
    this.own.delete(name);
    this.save();
  }

  save() {
    try {
      localStorage.setItem(this.key, JSON.stringify(Object.fromEntries(this.own)));
    } catch {
      notice('This browser does not save labels for this page: download them before you close it.');
    }
  }

  lines() {
    const names = [...new Set([...this.given.keys(), ...this.own.keys()])];
    return names.map((name) => {
      const { pass, note, outputHash: digest } = this.get(name);
      return `${JSON.stringify({ id: name, pass, ...(note ? { note } : {}), ...(digest ? { outputHash: digest } : {}) })}\n`;
    });
  }
}

async function outputHash(text) {
  if (!globalThis.crypto || !crypto.subtle) return null;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('').slice(0, 16);
}

// --- rows ---

// The answers of a row: the names of their labels and how they ended.
function answersOf(row) {
  return row.marks ? Array.from(row.marks).map((mark, at) => [`${row.id}#${at + 1}`, MARK_STATUSES[mark]]) : [[row.id, row.status]];
}

// What the labels of a row say, in the words of the filter.
function labelStates(row, labels) {
  const states = new Set();
  for (const [name, status] of answersOf(row)) {
    const label = labels.get(name);
    if (!label) continue;
    const word = labelWord(label);
    states.add(word);
    if (word !== 'unsure' && (status === 'pass' || status === 'fail') && status !== word) states.add('disagree');
  }
  if (!states.size) states.add('none');
  return states;
}

function labelCell(row, page) {
  const states = labelStates(row, page.labels);
  const words = Object.keys(LABEL_NAMES).filter((word) => states.has(word));
  if (!words.length) return el('span', { class: 'dim', text: '–' });
  const disagrees = states.has('disagree') && !page.isBlind(row);
  return el('span', null, words.map((word) => el('span', { class: `status ${word === 'unsure' ? 'ungraded' : word}`, text: LABEL_NAMES[word] })), disagrees && el('b', { class: 'disagrees', title: 'The grader says otherwise', text: ' ≠' }));
}

const LABEL_COLUMN = { name: 'label', title: 'Label', hidden: true, cell: labelCell, key: () => null };

// --- the bar with which an answer is labelled ---

function labelBar(page, name, output, verdict) {
  const bar = el('div', { class: 'label-bar', role: 'group', 'aria-label': `Your verdict on ${clip(name, 80)}`, 'data-label-of': name });
  const note = el('input', { type: 'text', class: 'label-note', placeholder: 'Note', 'aria-label': 'Note' });
  const said = el('span', { class: 'dim', role: 'status' });
  const buttons = Object.entries(LABEL_NAMES).map(([word, text]) => button(text, () => bar.choose(word), { class: `small label-${word}` }));
  const remove = button('Remove', () => {
    page.labels.remove(name);
    page.labelsChanged();
  }, { class: 'small' });
  bar.choose = async (word) => {
    await page.labels.set(name, LABEL_VALUES[word], note.value.trim(), output);
    page.labelsChanged();
  };
  note.addEventListener('input', () => {
    const label = page.labels.get(name);
    if (label) page.labels.set(name, label.pass, note.value.trim(), output);
  });
  bar.refresh = () => {
    const label = page.labels.get(name);
    bar.hidden = !page.labelling && !label;
    buttons.forEach((one, at) => one.setAttribute('aria-pressed', String(Boolean(label) && labelWord(label) === Object.keys(LABEL_NAMES)[at])));
    if (label && document.activeElement !== note) note.value = label.note || '';
    remove.hidden = !page.labels.own.has(name);
    const differs = label && verdict && label.pass !== null && label.pass !== verdict.pass;
    said.textContent = !label ? 'The verdict is hidden until you decide.' : differs ? `The grader says ${verdict.pass ? 'pass' : 'fail'}.` : label.pass !== null && verdict ? 'The grader agrees.' : '';
  };
  bar.append(el('b', { text: 'Your verdict' }), ...buttons, note, remove, said);
  bar.refresh();
  return bar;
}

// Marks what tells the verdict on an answer, so that it can be hidden.
function tellsVerdict(element, name) {
  if (element) element.dataset.verdictOf = name;
  return element;
}
