// The top of the page: what was run, tiles and plots.

const SHOWN_GROUPS = 8;
const SHOWN_HEATED = 36; // prompts in the card of trials
const MOST_HEATED = 600;

function header(data) {
  const theme = button('', null, { class: 'small', id: 'theme' });
  const help = button('Keys', () => showHelp(true), { class: 'small', title: 'Keyboard: ?' });
  const facts = data.facts.map(([name, value]) => el('div', null, el('dt', { text: name }), el('dd', { text: value })));
  const files = data.source && el('div', null, el('dt', { text: 'Source' }), el('dd', { text: clip(data.source, 200) }));
  const made = el('div', null, el('dt', { text: 'Made by' }), el('dd', { text: data.made }));
  document.getElementById('top').replaceChildren(
    el('div', { class: 'title' }, el('h1', { text: data.title }), el('p', { class: 'dim', text: data.subtitle || (data.ranking ? '' : plural(data.records, data.noun)) }), el('div', { class: 'actions' }, help, theme)),
    el('dl', { class: 'facts' }, facts, files, made));
  document.title = `${visible(data.title)}: agenteval ${data.kind === 'comparison' ? 'comparison' : 'report'}`;
  themeButton(theme);
}

function themeButton(theme) {
  const order = ['auto', 'light', 'dark'];
  const use = (name) => {
    document.documentElement.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
    try {
      localStorage.setItem('agenteval-theme', name);
    } catch { /* a page from disk may have no storage */ }
  };
  let stored = null;
  try {
    stored = localStorage.getItem('agenteval-theme');
  } catch { /* a page from disk may have no storage */ }
  use(order.includes(stored) ? stored : 'auto');
  theme.addEventListener('click', () => use(order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length]));
}

// The address of a filter, and what shows the table when it is followed.
function filterLink(filter, page, properties, ...content) {
  const kept = ['a', 'b'].filter((key) => page.view.filter.has(key)).map((key) => [key, page.view.filter.get(key)]);
  const address = hashOf({ id: null, filter: new Map([...kept, ...Object.entries(filter)]) }, page.data.by);
  return el('a', { href: address, on: { click: () => document.getElementById('list').scrollIntoView() }, ...properties }, ...content);
}

function tileItem(tile, page) {
  return el('div', { class: tile.value === null ? 'tile unknown' : 'tile' },
    el('h2', { text: tile.name }),
    el('p', { class: String(tile.value).length > 11 ? 'value long' : 'value' }, tile.filter ? filterLink(tile.filter, page, { 'aria-label': `${tile.name}: ${tile.value}, list them` }, tile.value) : tile.value === null ? '–' : tile.value),
    isNumber(tile.rate) && rateBar(tile.rate, tile.interval),
    el('p', { class: 'note', text: tile.note }));
}

// `pick` sets a filter.
function plotCards(data, pick, page) {
  if (data.kind === 'comparison') return data.ranking ? rankingCards(data, page) : comparisonCards(data);
  const cards = [];
  const named = data.groups.filter((group) => group.name !== '');
  if (named.length) cards.push(ratesCard(`Pass rate by ${clip(data.by, 60)}`, data.groups, (name) => pick('category', name || 'none')));
  if (data.graders.length > 1) cards.push(ratesCard('Pass rate by grader', data.graders, (name) => pick(`grader.${name}`, 'fail'), 'List what it does not pass'));
  if (data.checks.length) cards.push(ratesCard('Pass rate by check', data.checks, (name) => pick(`check.${name}`, 'fail'), 'List what does not pass it'));
  if (data.scores) cards.push(scoresCard(data.scores));
  for (const [name, title] of [['durations', 'Latency'], ['tokens', 'Tokens']]) {
    const plot = data[name];
    if (plot && plot.same) cards.push(card(title, el('p', { class: 'all-same', text: plot.count === 1 ? plot.same : `all ${wholeText(plot.count)}: ${plot.same}` })));
    else if (plot) cards.push(card(title, histogramPlot(plot.counts, plot.labels, plot.marks, plot.log, plot.edges), markNote(plot.marks)));
  }
  return cards;
}

function scoresCard(counts) {
  const edges = counts.map((_, at) => at / counts.length).concat(1);
  const used = counts.flatMap((count, at) => (count ? [at] : []));
  if (used.length > 1) return card('Scores', histogramPlot(counts, edges.map((edge) => edge.toFixed(2)), [], false, edges));
  const [at] = used;
  return card('Scores', el('p', { class: 'all-same', text: `${counts[at] === 1 ? '' : `all ${wholeText(counts[at])}: `}${edges[at].toFixed(2)} to ${edges[at + 1].toFixed(2)}` }));
}

// Rates by name, the lowest first.
function ratesCard(title, bars, pick, hint) {
  const ordered = [...bars].sort((a, b) => (a.rate ?? 2) - (b.rate ?? 2));
  const list = el('div');
  const show = (count) => list.replaceChildren(
    rateList(ordered.slice(0, count), pick, hint),
    ordered.length > count ? button(`Show all ${ordered.length}`, () => show(ordered.length), { class: 'fold' }) : '');
  show(SHOWN_GROUPS);
  return card(title, list);
}

// Prompts by trials: who is flaky, and where. Prompts that pass in some trials come first.
function showTrialsCard(page) {
  const rank = ({ passed, graded }) => (graded ? Math.abs(passed / graded - 0.5) + (passed === graded ? 1 : 0) : 3);
  const rows = page.rows.filter(({ marks }) => marks && marks.length > 1).sort((a, b) => rank(a) - rank(b));
  if (!rows.length) return;
  const item = (row) => el('li', null,
    el('a', { href: page.addressOf(row.id), class: 'trial-id', title: clip(row.id, 300), dir: 'auto', text: oneLine(row.id, 60) || '␠' }),
    el('span', { class: 'marks' }, Array.from(row.marks).map((mark, at) => el('a', {
      href: page.addressOf(row.id, { trial: at + 1 }), tabindex: '-1', class: `mark ${MARK_STATUSES[mark]}`, title: `trial ${at + 1}: ${STATUS_NAMES[MARK_STATUSES[mark]]}`, 'aria-label': `trial ${at + 1}: ${STATUS_NAMES[MARK_STATUSES[mark]]}`,
    }))),
    el('span', { class: 'dim number', text: row.graded ? `${row.passed}/${row.graded}` : '–' }));
  const list = el('ul', { class: 'heatmap' });
  const more = button('', () => show(MOST_HEATED), { class: 'fold' });
  const show = (count) => {
    list.replaceChildren(...rows.slice(0, count).map(item));
    more.hidden = rows.length <= count || count === MOST_HEATED;
    more.textContent = `Show ${rows.length > MOST_HEATED ? `the first ${wholeText(MOST_HEATED)} of ` : 'all '}${wholeText(rows.length)} prompts`;
  };
  show(SHOWN_HEATED);
  const used = Object.keys(MARK_STATUSES).filter((mark) => rows.some(({ marks }) => marks.includes(mark)));
  const legend = el('ul', { class: 'legend', 'aria-label': 'Legend of the trials' }, used.map((mark) => el('li', null, el('i', { class: `mark ${MARK_STATUSES[mark]}`, 'aria-hidden': 'true' }), STATUS_NAMES[MARK_STATUSES[mark]])));
  const made = card('Trials of each prompt, flaky ones first', list, more, legend);
  made.classList.add('full');
  document.getElementById('plots').append(made);
}

function showOverview(data, pick, page) {
  document.documentElement.dataset.kind = data.kind;
  header(data);
  document.getElementById('tiles').replaceChildren(...data.tiles.map((tile) => tileItem(tile, page)));
  document.getElementById('plots').replaceChildren(...plotCards(data, pick, page));
}

function notice(...content) {
  document.getElementById('notices').append(el('p', { class: 'notice' }, ...content));
}
