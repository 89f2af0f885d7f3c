// The columns of the table, by kind of page; which of them are shown is remembered.

const MOST_VERDICT_COLUMNS = 5; // graders, and checks, that have a column at first
const LEAST_TEXT = 190; // pixels for the answer, or why it did not pass
const COLUMNS_KEY = 'agenteval-columns';

function textCell(text, limit) {
  return el('span', { dir: 'auto', text: oneLine(text, limit) });
}

function idCell(row, page) {
  return el('a', { href: page.hashFor(row.id), class: 'id', tabindex: '-1', title: clip(row.id, 500) }, el('bdi', { text: oneLine(row.id, 120) || '␠' }));
}

const COLUMNS = {
  status: { title: 'Status', cell: (row) => statusBadge(row.status, row.graded > 1 || row.status === 'flaky' ? `${STATUS_NAMES[row.status]} ${row.passed}/${row.graded}` : null), key: (row) => STATUS_ORDER.indexOf(row.status) },
  marks: { title: 'Trials', cell: (row) => el('span', { class: 'marks', 'aria-hidden': 'true' }, trialMarks(row.marks)), key: (row) => (row.graded ? row.passed / row.graded : null) },
  id: { title: 'Id', cell: idCell, key: (row) => row.id },
  prompt: { title: 'Prompt', cell: (row) => textCell(row.prompt, 160), key: (row) => row.prompt },
  groups: { title: 'Category', cell: (row) => textCell(row.groups.join(', '), 60), key: (row) => row.groups.join(', ') },
  score: { title: 'Score', number: true, cell: (row) => scoreText(row.score), key: (row) => row.score },
  duration: { title: 'Time', number: true, cell: (row) => durationText(row.duration), key: (row) => row.duration },
  tokens: { title: 'Tokens', number: true, cell: (row) => shortCount(row.tokens), key: (row) => row.tokens },
  cost: { title: 'Cost', number: true, cell: (row) => costText(row.cost), key: (row) => row.cost },
  steps: { title: 'Steps', number: true, cell: (row) => wholeText(row.steps), key: (row) => row.steps },
  preview: { title: 'Answer, or why it did not pass', cell: (row, page) => textCell(page.deepFound.rows.get(row.index) || row.preview, 180), key: (row) => row.preview },
};
const STATUS_ORDER = ['error', 'fail', 'flaky', 'grader-error', 'ungraded', 'pass'];
const MARK_STATUSES = { p: 'pass', f: 'fail', e: 'error', u: 'ungraded', g: 'grader-error' };

// A small square for each trial.
function trialMarks(marks) {
  return Array.from(marks || '').map((mark) => el('i', { class: `mark ${MARK_STATUSES[mark]}` }));
}

// --- graders and checks ---

// Whether a grader or a check passes a record: of trials it may be mixed; `none` if there is no verdict.
function verdictState(tally) {
  if (!tally) return 'none';
  const [passed, graded] = tally;
  return passed === graded ? 'pass' : passed === 0 ? 'fail' : 'mixed';
}

function verdictCell(tally) {
  if (!tally) return el('span', { class: 'dim', text: '–' });
  const [passed, graded, score] = tally;
  const state = verdictState(tally);
  const figure = graded > 1 ? `${passed}/${graded}` : isNumber(score) && score !== passed ? score.toFixed(2) : '';
  return el('span', { class: `verdict-mark ${state}` }, el('span', { text: state === 'pass' ? '✓' : state === 'fail' ? '✗' : '≈' }), el('span', { class: 'offscreen-text', text: STATUS_NAMES[state] || 'Mixed' }), figure && ` ${figure}`);
}

// A column for each grader, if there are several, and for each check.
function verdictColumns(data, rows) {
  if (!data.columns) return [];
  const columnOf = (kind, field) => ([name, records], place) => ({
    name: `${kind}.${name}`, kind: 'verdict', title: name, what: kind, field, place, records,
    cell: (row) => verdictCell(row[field][place]),
    key: (row) => {
      const tally = row[field][place];
      return tally ? (isNumber(tally[2]) ? tally[2] : tally[0] / tally[1]) : null;
    },
  });
  const graders = data.columns.graders.length > 1 ? data.columns.graders.map(columnOf('grader', 'graders')) : [];
  const checks = data.columns.checks.map(columnOf('check', 'checks'));
  const often = checks.filter(({ records }) => records * 2 >= rows.length);
  const first = new Set([...graders.slice(0, MOST_VERDICT_COLUMNS), ...(graders.length + often.length <= MOST_VERDICT_COLUMNS + 1 ? often : [])]);
  return [...graders, ...checks].map((column) => ({ ...column, hidden: !first.has(column) }));
}

// The columns that have a value in some row.
function columnsOf(data, rows) {
  const has = (name) => name === 'status' || name === 'id' || rows.some((row) => row[name] !== null && row[name] !== undefined && row[name] !== '' && row[name].length !== 0);
  if (data.kind === 'comparison') return comparisonColumns(data).filter(({ name }) => !data.fields.includes(name) || has(name));
  const columns = Object.keys(COLUMNS).filter(has).map((name) => {
    const column = { name, ...COLUMNS[name] };
    if (name === 'groups') column.title = clip(data.by, 30);
    if (name === 'score' && data.kind === 'trials') column.title = 'Pass rate';
    return column;
  });
  const verdicts = verdictColumns(data, rows);
  columns.splice(1, 0, { ...LABEL_COLUMN });
  const at = columns.findIndex(({ name }) => ['duration', 'tokens', 'cost', 'steps', 'preview'].includes(name));
  columns.splice(at < 0 ? columns.length : at, 0, ...verdicts);
  return columns;
}

// --- which are shown ---

function storedColumns() {
  try {
    return new Map(Object.entries(JSON.parse(localStorage.getItem(COLUMNS_KEY)) || {}));
  } catch {
    return new Map(); // a page from disk may have no storage
  }
}

function shownColumns(columns, chosen) {
  return columns.filter(({ name, hidden }) => chosen.get(name) ?? !hidden);
}

// The columns that give way where the table is too narrow, the first one first; those that were asked for stay.
function droppable(columns, chosen) {
  const order = ['steps', 'tokens', 'check', 'cost', 'grader', 'groups', 'prompt', 'duration'];
  const place = (column) => order.indexOf(column.what || column.name);
  return columns.filter((column) => place(column) >= 0 && !chosen.get(column.name)).reverse().sort((a, b) => place(a) - place(b));
}

// A menu with a box for each column.
function columnMenu(page) {
  const item = (column) => {
    const box = el('input', { type: 'checkbox' });
    box.checked = page.table.columns.some(({ name }) => name === column.name);
    box.addEventListener('change', () => {
      page.chosenColumns.set(column.name, box.checked);
      try {
        localStorage.setItem(COLUMNS_KEY, JSON.stringify(Object.fromEntries(page.chosenColumns)));
      } catch { /* a page from disk may have no storage */ }
      page.fitColumns();
      page.apply();
    });
    return el('li', null, el('label', null, box, ` ${column.what ? `${column.what}: ` : ''}${oneLine(column.title, 60)}`));
  };
  return menu('Columns', () => el('ul', { class: 'menu-list' }, page.columns.filter(({ name }) => name !== 'id').map(item)));
}

// A button that opens what lies below it, until something else is clicked.
function menu(title, build) {
  const body = el('div', { class: 'menu-body' });
  const details = el('details', { class: 'menu' }, el('summary', { class: 'small', text: title }), body);
  details.addEventListener('toggle', () => body.replaceChildren(...(details.open ? [build()] : [])));
  addEventListener('click', (event) => { if (!details.contains(event.target)) details.open = false; });
  details.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !details.open) return;
    details.open = false;
    details.querySelector('summary').focus();
    event.stopPropagation();
  });
  return details;
}
