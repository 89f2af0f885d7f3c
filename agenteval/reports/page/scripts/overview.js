// The top of the page: what was run, tiles and plots.

const SHOWN_GROUPS = 12;

function header(data) {
  const theme = button('', null, { class: 'small', id: 'theme' });
  const help = button('Keys', () => showHelp(true), { class: 'small', title: 'Keyboard: ?' });
  const facts = data.facts.map(([name, value]) => el('div', null, el('dt', { text: name }), el('dd', { text: value })));
  const files = data.source && el('div', null, el('dt', { text: 'Source' }), el('dd', { text: clip(data.source, 200) }));
  const made = el('div', null, el('dt', { text: 'Made by' }), el('dd', { text: data.made }));
  document.getElementById('top').replaceChildren(
    el('div', { class: 'title' }, el('h1', { text: data.title }), el('p', { class: 'dim', text: data.subtitle || plural(data.records, data.noun) }), el('div', { class: 'actions' }, help, theme)),
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

function tileItem(tile) {
  return el('div', { class: tile.value === null ? 'tile unknown' : 'tile' },
    el('h2', { text: tile.name }),
    el('p', { class: String(tile.value).length > 11 ? 'value long' : 'value', text: tile.value === null ? '–' : tile.value }),
    isNumber(tile.rate) && rateBar(tile.rate, tile.interval),
    el('p', { class: 'note', text: tile.note }));
}

function plotCards(data, pickGroup) {
  if (data.kind === 'comparison') return comparisonCards(data);
  const cards = [];
  const named = data.groups.filter((group) => group.name !== '');
  if (named.length) cards.push(groupCard(data, pickGroup));
  if (data.graders.length > 1) cards.push(card('Pass rate by grader', rateList(data.graders)));
  if (data.scores) {
    const edges = data.scores.map((_, at) => at / data.scores.length).concat(1);
    cards.push(card('Scores', histogramPlot(data.scores, edges.map((edge) => edge.toFixed(2)), [], false, edges)));
  }
  for (const [name, title] of [['durations', 'Latency'], ['tokens', 'Tokens']]) {
    const plot = data[name];
    if (plot) cards.push(card(title, histogramPlot(plot.counts, plot.labels, plot.marks, plot.log, plot.edges), markNote(plot.marks)));
  }
  return cards;
}

function groupCard(data, pickGroup) {
  const groups = [...data.groups].sort((a, b) => (a.rate ?? 2) - (b.rate ?? 2));
  const list = el('div');
  const show = (count) => list.replaceChildren(
    rateList(groups.slice(0, count), pickGroup),
    groups.length > count ? button(`Show all ${groups.length}`, () => show(groups.length), { class: 'fold' }) : '');
  show(SHOWN_GROUPS);
  return card(`Pass rate by ${clip(data.by, 60)}`, list);
}

function showOverview(data, pickGroup) {
  document.documentElement.dataset.kind = data.kind;
  header(data);
  document.getElementById('tiles').replaceChildren(...data.tiles.map(tileItem));
  document.getElementById('plots').replaceChildren(...plotCards(data, pickGroup));
}

function notice(...content) {
  document.getElementById('notices').append(el('p', { class: 'notice' }, ...content));
}
