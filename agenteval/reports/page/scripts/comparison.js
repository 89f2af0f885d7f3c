// The page of a comparison: verdicts, a forest plot of differences, and prompts with the records of all runs.

Object.assign(STATUS_NAMES, {
  worse: 'No longer passes', fixed: 'Now passes', 'both-pass': 'Passes', 'both-fail': 'Does not pass', 'not-compared': 'Not compared',
  'some-pass': 'Passes in some', 'none-pass': 'Passes in none', 'all-pass': 'Passes in all',
});
Object.assign(STATUS_MARKS, { worse: '↘', fixed: '↗', 'both-pass': '✓', 'both-fail': '✗', 'not-compared': '–', 'some-pass': '≈', 'none-pass': '✗', 'all-pass': '✓' });
STATUS_ORDER.push('worse', 'fixed', 'both-fail', 'both-pass', 'some-pass', 'none-pass', 'all-pass', 'not-compared');

function verdictCard({ a, b, better, headline, prompts, sentences }, title) {
  return card(title || `${clip(a, 80)} → ${clip(b, 80)}`,
    el('p', { class: better === null ? 'outcome' : better === b ? 'outcome gain' : 'outcome loss', text: headline }),
    el('ul', { class: 'sentences' }, sentences.map((sentence) => el('li', { text: sentence }))),
    el('p', { class: 'note', text: `over ${prompts}` }));
}

// Where a value is on the line of a forest plot, from 0 to 1.
function forestScale(bars, log) {
  const at = (value) => (log ? Math.log(value) : value);
  const ends = bars.flatMap(({ value, interval }) => [value, ...(interval || [])]).filter(isNumber).map((value) => Math.abs(at(value)));
  const widest = Math.max(log ? Math.log(1.1) : 0.05, ...ends.filter(Number.isFinite)) * 1.05;
  const reach = log ? widest : Math.min(1, widest); // a difference is at most 100 points
  return { place: (value) => Math.max(0, Math.min(1, (at(value) + reach) / (2 * reach))), reach: log ? Math.exp(reach) : reach };
}

function forestPlot(title, bars, log, labels) {
  const shown = bars.filter(({ value }) => isNumber(value) && (!log || value > 0));
  if (!shown.length) return null;
  const { place, reach } = forestScale(shown, log);
  const several = labels.length > 2;
  const items = shown.flatMap((bar, at) => {
    const heading = bar.category && (at === 0 || !shown[at - 1].category) ? [el('li', { class: 'note', text: 'Pass rate by category' })] : [];
    const line = el('span', { class: 'forest-line', 'aria-hidden': 'true' }, el('i', { class: 'forest-zero' }));
    if (bar.interval) {
      const [low, high] = bar.interval.map(place);
      line.append(el('i', { class: 'forest-interval', css: { left: `${low * 100}%`, width: `${(high - low) * 100}%` } }));
    }
    line.append(el('i', { class: 'forest-point', css: { left: `${place(bar.value) * 100}%` } }));
    const names = [bar.category ? clip(bar.category, 60) : bar.name, several && `${clip(bar.b, 30)} against ${clip(bar.a, 30)}`].filter(Boolean).join(', ');
    const tone = log || bar.better === null ? '' : bar.better === bar.b ? ' gain' : ' loss';
    return [...heading, el('li', { title: `${names}: ${bar.shown}, over ${plural(bar.n, 'prompt')}`, class: `forest-row${bar.category ? ' inner' : ''}${tone}` },
      el('span', { class: 'forest-name', text: names, title: names }), line,
      el('span', { class: 'forest-text' }, el('b', { text: bar.shown }), el('span', { class: 'dim', text: bar.sure ? ` ${bar.sure}` : '', title: '95% interval' })))];
  });
  const ends = log ? [`÷${reach.toFixed(2)}`, '1', `×${reach.toFixed(2)}`] : [`−${(reach * 100).toFixed(0)} worse`, '0', `+${(reach * 100).toFixed(0)} better`];
  const scale = el('div', { class: 'forest-row', 'aria-hidden': 'true' }, el('div', { class: 'scale forest-scale' }, ends.map((text) => el('span', { text }))));
  return card(title, el('ul', { class: 'forest' }, items), scale);
}

// What there are ratios of: Time, tokens and cost.
function ratioNames(bars) {
  const names = bars.map(({ name }, at) => (at ? name.toLowerCase() : name));
  return names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}` : names.join('');
}

function winsCard(pairs) {
  return card('Prompts won', el('ul', { class: 'rates' }, pairs.map(({ a, b, aWins, bWins, ties }) => {
    const total = Math.max(1, aWins + bWins + ties);
    const part = (count, name) => el('i', { class: `won-${name}`, css: { width: `${(100 * count) / total}%` } });
    return el('li', { class: 'wins' },
      el('span', { text: `${clip(a, 60)} ${wholeText(aWins)}` }),
      el('span', { class: 'dim', text: `${wholeText(ties)} equal` }),
      el('span', { text: `${wholeText(bWins)} ${clip(b, 60)}` }),
      el('span', { class: 'won', 'aria-hidden': 'true' }, part(aWins, 'a'), part(ties, 'tie'), part(bWins, 'b')));
  })));
}

function runsCard({ heads, rows }) {
  const cells = (row, tag) => row.map((text, at) => el(at ? tag : 'th', { scope: tag === 'th' ? 'col' : at ? null : 'row', class: at ? 'number' : null, text: clip(String(text), 80) }));
  return el('section', { class: 'card full' }, el('h2', { text: 'Runs' }),
    el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Runs' },
      el('table', { class: 'plain' }, el('thead', null, el('tr', null, cells(heads, 'th'))), el('tbody', null, rows.map((row) => el('tr', null, cells(row, 'td')))))));
}

function comparisonCards(data) {
  return [
    el('div', { class: 'stack' }, data.verdicts.map((verdict) => verdictCard(verdict))),
    forestPlot(`Difference, ${data.labels.length === 2 ? `${clip(data.labels[1], 60)} − ${clip(data.labels[0], 60)}` : 'later run − earlier run'}`, data.differences, false, data.labels),
    el('div', { class: 'stack' }, forestPlot(`${ratioNames(data.ratios)}, as a multiple`, data.ratios, true, data.labels), winsCard(data.wins)),
    runsCard(data.table),
  ].filter(Boolean);
}

function runCell(cell) {
  if (!cell) return el('span', { class: 'dim', text: 'missing' });
  const [status, score, , , , passed, graded] = cell;
  const figures = graded > 1 ? `${passed}/${graded}` : scoreText(score);
  return statusBadge(status, figures || STATUS_NAMES[status]);
}

function comparisonColumns(data) {
  const { status, id, groups, preview } = COLUMNS;
  if (data.ranking) return rankingColumns(data);
  const runs = data.labels.map((label, at) => ({ name: `run${at + 1}`, title: clip(label, 40), cell: (row) => runCell(row.runs[at]), key: (row) => (row.runs[at] ? row.runs[at][1] : null) }));
  const winner = { name: 'winner', title: 'Won by', cell: (row) => textCell(row.winner || '', 40), key: (row) => row.winner };
  return [{ name: 'status', ...status }, { name: 'id', ...id }, { name: 'groups', ...groups, title: clip(data.by, 30) }, ...runs, winner, { name: 'preview', ...preview }];
}

// A run of a prompt: a result, or the trials of the prompt.
function comparedColumn(title, record) {
  if (!Array.isArray(record.trials)) return { title, run: record };
  return { title, trials: record.trials.filter((trial) => trial !== null && typeof trial === 'object'), passRate: record.passRate };
}

function comparisonBody(joined, line) {
  const entries = Object.entries(joined.runs);
  const columns = entries.map(([title, record]) => comparedColumn(title, record));
  const first = entries.length ? entries[0][1] : {};
  const bodies = columns.every(({ run }) => run) ? sideBySide(columns) : [el('div', { class: 'side-by-side' }, columns.map(trialsColumn))];
  return [promptSection(first), ...bodies, rawSection(line)];
}

function trialsColumn({ title, trials, passRate }) {
  return el('section', { class: 'run-column', 'aria-label': clip(title, 200) },
    el('h3', { class: 'run-title' }, el('span', { text: clip(title, 200) }), isNumber(passRate) && el('span', { text: percentText(passRate) })),
    trials.slice(0, 100).map((trial, at) => {
      const part = disclosure(`Trial ${trial.trialNum ?? at + 1}`, () => el('div', null, runParts(trial)));
      part.querySelector('summary').append(' ', statusBadge(runStatus(trial)));
      if (at === 0) part.open = true;
      return part;
    }));
}
