// The columns of the table, by kind of page.

function textCell(text, limit) {
  return el('span', { dir: 'auto', text: oneLine(text, limit) });
}

function idCell(row, page) {
  return el('a', { href: page.hashFor(row.id), class: 'id', tabindex: '-1', title: clip(row.id, 500) }, el('bdi', { text: oneLine(row.id, 120) || '␠' }));
}

const COLUMNS = {
  status: { title: 'Status', cell: (row) => statusBadge(row.status, row.graded > 1 || row.status === 'flaky' ? `${STATUS_NAMES[row.status]} ${row.passed}/${row.graded}` : null), key: (row) => STATUS_ORDER.indexOf(row.status) },
  id: { title: 'Id', cell: idCell, key: (row) => row.id },
  groups: { title: 'Category', cell: (row) => textCell(row.groups.join(', '), 60), key: (row) => row.groups.join(', ') },
  score: { title: 'Score', number: true, cell: (row) => scoreText(row.score), key: (row) => row.score },
  duration: { title: 'Time', number: true, cell: (row) => durationText(row.duration), key: (row) => row.duration },
  tokens: { title: 'Tokens', number: true, cell: (row) => shortCount(row.tokens), key: (row) => row.tokens },
  cost: { title: 'Cost', number: true, cell: (row) => costText(row.cost), key: (row) => row.cost },
  steps: { title: 'Steps', number: true, cell: (row) => wholeText(row.steps), key: (row) => row.steps },
  preview: { title: 'Answer, or why it did not pass', cell: (row, page) => textCell(page.deepFound.rows.get(row.index) || row.preview, 180), key: (row) => row.preview },
};
const STATUS_ORDER = ['error', 'fail', 'flaky', 'grader-error', 'ungraded', 'pass'];

// The columns that have a value in some row.
function columnsOf(data, rows) {
  if (data.kind === 'comparison') return comparisonColumns(data);
  const has = (name) => rows.some((row) => row[name] !== null && row[name] !== undefined && row[name] !== '');
  return Object.keys(COLUMNS).filter((name) => name === 'status' || name === 'id' || has(name)).map((name) => {
    const column = { name, ...COLUMNS[name] };
    if (name === 'groups') column.title = clip(data.by, 30);
    if (name === 'score' && data.kind === 'trials') column.title = 'Pass rate';
    return column;
  });
}
