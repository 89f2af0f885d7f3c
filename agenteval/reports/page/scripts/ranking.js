// Three runs or more: the ranking, the front of quality and cost, each against each, the prompts as a strip, one pair in
// full. All figures come with the page; the runs stand in the order of the ranking.

const CELLS = { p: 'pass', l: 'flaky', f: 'fail', e: 'error', g: 'grader-error', u: 'ungraded', m: 'missing' };
const CELL_WORDS = { p: 'passes', l: 'passes in some trials', f: 'does not pass', e: 'agent failed', g: 'grader erred', u: 'not graded', m: 'missing' };
const NAMED_COLUMNS = 8; // more have numbers, which stand beside the names in the first column
const SHORT_NAME = 30; // letters of a name beside the strip; the whole name is in the ranking

function rankingCards(data, page) {
  const { ranking } = data;
  const pair = el('div', { class: 'pair', id: 'pair' });
  page.showPair = pairShower(data, page, pair);
  return [placesCard(ranking), frontCard(ranking), matrixCard(ranking, page), stripCard(ranking, page), pair, runsCard(data.table)].filter(Boolean);
}

// --- the ranking ---

function placesCard({ headline, measure, titles, rows, values, scale, estimated, costOf, pairs }) {
  const at = (value) => `${(100 * (value - scale.low)) / (scale.high - scale.low)}%`;
  const ticks = [scale.ticks[0], scale.ticks[scale.ticks.length - 1]].map((tick) => (measure === 'Score' ? tick.toFixed(2) : `${Math.round(tick * 100)}%`));
  const drawn = titles.indexOf(measure); // the drawing stands before the value
  const heads = titles.map((title, column) => el('th', { scope: 'col', class: column > 1 ? 'number' : null, text: title }));
  heads.splice(drawn < 0 ? heads.length : drawn, 0, el('th', { scope: 'col', class: 'drawn' }, el('span', { class: 'scale', 'aria-hidden': 'true' }, ticks.map((text) => el('span', { text }))), el('span', { class: 'hidden-text', text: 'Interval' })));
  const lines = rows.map((row, place) => {
    const [value, low, high] = values[place];
    const line = el('span', { class: 'interval', 'aria-hidden': 'true' });
    if (isNumber(low)) line.append(el('i', { class: 'interval-bar', css: { left: at(low), width: `calc(${at(high)} - ${at(low)})` } }));
    if (isNumber(value)) line.append(el('i', { class: 'interval-mark', css: { left: at(value) } }));
    const cells = row.map((text, column) => el(column === 1 ? 'th' : 'td', { scope: column === 1 ? 'row' : null, class: column > 1 ? 'number' : null, text }));
    cells.splice(drawn < 0 ? cells.length : drawn, 0, el('td', { class: 'drawn' }, line));
    return el('tr', null, cells);
  });
  const notes = [`Rank: the range that the verdicts leave open, adjusted for ${plural(pairs, 'pair')} (Holm).`, costOf && `Cost: mean per ${costOf}.`, estimated && '* estimated at list prices, not billed.'].filter(Boolean);
  return el('section', { class: 'card places' }, el('h2', { text: `Ranking by ${measure[0].toLowerCase()}${measure.slice(1)}` }), el('p', { class: 'outcome', text: `${headline}.` }),
    scrolling('Ranking', el('table', { class: 'plain' }, el('thead', null, el('tr', null, heads)), el('tbody', null, lines))), el('p', { class: 'note', text: notes.join(' ') }));
}

function scrolling(name, table) {
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name }, table);
}

function frontCard({ front, shapes, size, measure }) {
  if (!front) return null;
  const drawn = shapes.map(([tag, attributes, text, title]) => svg(tag, { ...attributes, text: title ? null : text }, title ? svg('title', { text: title }) : null, title ? text : null));
  const words = `${measure} against ${front.against}; on the Pareto front (no other run is better in both): ${front.runs.join(', ')}.`;
  return el('section', { class: 'card front' }, el('h2', { text: `Quality and ${front.against}` }),
    svg('svg', { viewBox: `0 0 ${size[0]} ${size[1]}`, role: 'img', 'aria-label': words, class: 'plot front-plot' }, drawn),
    el('p', { class: 'note', text: 'Filled: the Pareto front; no other run is better in both. Whiskers: 95% intervals.' }));
}

// --- each against each ---

function matrixCard({ runs, matrix, measure }, page) {
  const many = runs.length > NAMED_COLUMNS;
  const heads = [el('td'), ...runs.map((run, at) => el('th', { scope: 'col', title: many ? run : null, text: many ? String(at + 1) : run }))];
  const choose = (row, column) => () => {
    page.view.filter.set('a', runs[column]);
    page.set('b', runs[row]);
    document.getElementById('pair').scrollIntoView();
  };
  const lines = matrix.map((cells, row) => el('tr', null, el('th', { scope: 'row', text: many ? `${row + 1}. ${runs[row]}` : runs[row] }), cells.map((cell, column) => {
    if (!cell) return el('td', { class: 'same' });
    const [text, better] = cell;
    const words = `${runs[row]} against ${runs[column]}: ${text} points${better > 0 ? ', shown to be better' : better < 0 ? ', shown to be worse' : ''}`;
    return el('td', { class: better > 0 ? 'gain' : better < 0 ? 'loss' : null }, button(text, choose(row, column), { 'aria-label': words, title: words }));
  })));
  return el('section', { class: 'card full matrix' }, el('h2', { text: `All pairs: points of ${measure.toLowerCase()}, row minus column; coloured where shown` }),
    scrolling('All pairs', el('table', { class: 'plain' }, el('thead', null, el('tr', null, heads)), el('tbody', null, lines))));
}

// --- the prompts as a strip ---

// The cells of one status in one run as one path, equal neighbours joined.
function cellPath(letters, letter, y) {
  const parts = [];
  for (let at = letters.indexOf(letter); at >= 0; at = letters.indexOf(letter, at)) {
    let end = at + 1;
    while (letters[end] === letter) end += 1;
    parts.push(`M${at} ${y}h${end - at}v.86h${at - end}z`);
    at = end;
  }
  return parts.join('');
}

function stripCard({ runs, letters }, page) {
  const total = letters[0].length;
  if (!total) return null;
  const used = Object.keys(CELLS).filter((letter) => letters.some((text) => text.includes(letter)));
  const paths = letters.flatMap((text, y) => used.filter((letter) => text.includes(letter)).map((letter) => svg('path', { class: `cell-${CELLS[letter]}`, d: cellPath(text, letter, y) })));
  const picture = svg('svg', { viewBox: `0 0 ${total} ${runs.length}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', class: total < 1000 ? 'cells crisp' : 'cells' }, paths);
  const mark = el('i', { class: 'strip-mark', hidden: true });
  const readout = el('p', { class: 'note strip-note', text: 'Point at a prompt, or move with the arrow keys; a click or Enter opens it.' });
  const slider = el('div', { class: 'strip-cells', role: 'slider', tabindex: '0', 'aria-label': 'Prompts, the hardest first', 'aria-valuemin': '1', 'aria-valuemax': String(total), 'aria-valuenow': '1', 'aria-valuetext': `1 of ${total}` }, picture, mark);
  let place = 0;
  const show = (at) => {
    place = Math.max(0, Math.min(total - 1, at));
    const words = promptWords(page.rows[place], runs, letters, place);
    mark.hidden = false;
    mark.style.setProperty('left', `${(100 * place) / total}%`);
    mark.style.setProperty('width', `max(2px, ${100 / total}%)`);
    slider.setAttribute('aria-valuenow', String(place + 1));
    slider.setAttribute('aria-valuetext', visible(words));
    readout.textContent = visible(words);
  };
  const under = (event) => Math.floor(((event.clientX - slider.getBoundingClientRect().left) / slider.getBoundingClientRect().width) * total);
  slider.addEventListener('pointermove', (event) => show(under(event)));
  slider.addEventListener('click', (event) => { show(under(event)); if (page.rows[place]) page.open(page.rows[place]); });
  slider.addEventListener('keydown', (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -total, End: total };
    if (event.key === 'Enter' && page.rows[place]) page.open(page.rows[place]);
    else if (Object.hasOwn(steps, event.key)) show(place + steps[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const legend = el('ul', { class: 'cell-legend' }, used.map((letter) => el('li', null, el('i', { class: `cell-${CELLS[letter]}` }), CELL_WORDS[letter])));
  const names = el('ol', { class: 'strip-names' }, runs.map((run) => el('li', { title: run.length > SHORT_NAME ? run : null, text: clip(run, SHORT_NAME) })));
  return el('section', { class: 'card full prompts-strip' }, el('h2', { text: 'Prompts x runs, the hardest on the left' }), legend, el('div', { class: 'strip-rows' }, names, slider), readout);
}

// What became of a prompt, in words: passes in a, b; does not pass in c.
function promptWords(row, runs, letters, at) {
  const groups = Object.keys(CELLS).map((letter) => [letter, runs.filter((_, run) => letters[run][at] === letter)]).filter(([, names]) => names.length);
  const words = groups.map(([letter, names]) => `${CELL_WORDS[letter]}${'eg'.includes(letter) ? ':' : ' in'} ${names.join(', ')}`);
  return `${row ? clip(row.id, 200) : `Prompt ${at + 1}`}: ${words.join('; ')}`;
}

// --- one pair in full ---

// Shows the pair that the address names, else the two best runs; nothing if it is shown already.
function pairShower(data, page, box) {
  let shown = null;
  return (a, b) => {
    const [first, second] = data.ranking.runs;
    const asked = [a, b].every((name) => data.labels.includes(name)) && a !== b ? [a, b] : [first, second];
    const verdict = data.verdicts.find((one) => asked.includes(one.a) && asked.includes(one.b));
    if (verdict === shown) return;
    shown = verdict;
    box.replaceChildren(...pairCards(data, page, verdict, asked));
  };
}

function pairCards(data, page, verdict, [first, second]) {
  const of = (list) => list.filter(({ a, b }) => a === verdict.a && b === verdict.b);
  const choice = (key, chosen, other) => {
    const select = el('select', { 'aria-label': key === 'a' ? 'First run of the pair' : 'Second run of the pair' }, data.ranking.runs.filter((run) => run !== other).map((run) => {
      const option = el('option', { text: run, selected: run === chosen });
      option.filterValue = run;
      return option;
    }));
    select.addEventListener('change', () => {
      page.view.filter.set('a', first);
      page.view.filter.set('b', second);
      page.set(key, select.options[select.selectedIndex].filterValue);
      box.querySelectorAll('select')[key === 'a' ? 0 : 1].focus();
    });
    return select;
  };
  const box = document.getElementById('pair');
  const { a, b, onlyA, onlyB } = verdict;
  const only = (passes, fails, count) => tileItem({ name: `Passes in ${passes}, does not pass in ${fails}`, value: wholeText(count), filter: { passes, fails }, note: `of ${verdict.prompts}` }, page);
  const title = `${clip(b, 80)} − ${clip(a, 80)}`;
  return [
    el('section', { class: 'card full pair-choice' }, el('h2', { text: 'Two runs in full' }), choice('a', first, second), el('span', { class: 'dim', text: 'and' }), choice('b', second, first)),
    verdictCard(verdict, `${b} against ${a}`),
    forestPlot(`Difference, ${title}`, of(data.differences), false, [a, b]),
    el('div', { class: 'stack' }, el('div', { class: 'pair-tiles' }, only(a, b, onlyA), only(b, a, onlyB)), forestPlot(`${ratioNames(of(data.ratios))} of ${clip(b, 80)}, as a multiple`, of(data.ratios), true, [a, b]), winsCard(of(data.wins))),
  ].filter(Boolean);
}

// --- the table ---

// The filters `passes` and `fails`: rows that one run passes and another does not.
function sideConditions(filter, data) {
  const wanted = [['passes', '1'], ['fails', '0']].filter(([key]) => filter.has(key));
  return new Map(wanted.map(([key, side]) => {
    const run = (data.labels || []).indexOf(filter.get(key));
    return [key, (row) => row.sides?.[run] === side];
  }));
}

function sideChoices(data, page) {
  if (!data.ranking) return [];
  return [['passes', 'Passes in'], ['fails', 'Does not pass in']].map(([key, words]) => {
    const select = el('select', { 'aria-label': words, 'data-key': key }, el('option', { value: '', text: `${words} …` }), data.ranking.runs.map((run) => {
      const option = el('option', { text: `${words} ${clip(run, 60)}` });
      option.filterValue = run;
      return option;
    }));
    select.addEventListener('change', () => page.set(key, select.selectedIndex ? select.options[select.selectedIndex].filterValue : null));
    return select;
  });
}

function showSides(selects, filter) {
  for (const select of selects) {
    const value = filter.get(select.dataset.key);
    select.selectedIndex = Math.max(0, Array.from(select.options).findIndex((option) => value !== undefined && option.filterValue === value));
  }
}

function rankingColumns(data) {
  const { status, id, groups, preview } = COLUMNS;
  const places = data.ranking.runs.map((run) => data.labels.indexOf(run));
  document.documentElement.style.setProperty('--runs', String(places.length));
  const marks = {
    name: 'each',
    title: 'Each run, best first',
    cell: (row) => el('span', { class: 'run-marks', role: 'img', 'aria-label': clip(promptWords(row, data.ranking.runs, data.ranking.letters, row.index), 2000), title: clip(promptWords(row, data.ranking.runs, data.ranking.letters, row.index), 2000) },
      places.map((at) => runMark(row.runs[at]))),
    key: (row) => (row.sides.match(/1/g) || []).length / Math.max(1, row.sides.replace(/-/g, '').length),
  };
  const winner = { name: 'winner', title: 'Won by', cell: (row) => textCell(row.winner || '', 40), key: (row) => row.winner };
  return [{ name: 'status', ...status }, { name: 'id', ...id }, { name: 'groups', ...groups, title: clip(data.by, 30) }, marks, ...(data.winners ? [winner] : []), { name: 'preview', ...preview }];
}

function runMark(cell) {
  const status = cell ? cell[0] : 'missing';
  return el('span', { class: `run-mark status ${status}`, text: STATUS_MARKS[status] || '–' });
}
