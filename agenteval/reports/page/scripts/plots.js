// Small plots as inline SVG; each has a text that says the same.

const PLOT = { width: 240, height: 100, foot: 18 };

function card(title, ...content) {
  return el('section', { class: 'card' }, el('h2', { text: title }), ...content);
}

// Bars of a histogram; `labels` name the edges of the bins.
function histogramPlot(counts, labels, marks, log, edges) {
  const { width, height, foot } = PLOT;
  const most = Math.max(1, ...counts);
  const step = width / counts.length;
  const bars = counts.map((count, at) => svg('rect', {
    x: at * step + 0.5, width: Math.max(1, step - 1), y: (height - foot) * (1 - count / most), height: ((height - foot) * count) / most, class: 'bar',
  }, svg('title', { text: `${labels[at]} to ${labels[at + 1]}: ${wholeText(count)}` })));
  const position = (value) => {
    const [low, high] = [edges[0], edges[edges.length - 1]];
    if (!(high > low)) return width / 2;
    const share = log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
    return Math.max(0, Math.min(1, share)) * width;
  };
  const lines = marks.map(({ name, value, shown }) => svg('g', { class: 'mark' },
    svg('line', { x1: position(value), x2: position(value), y1: 0, y2: height - foot }),
    svg('title', { text: `${name} ${shown}` })));
  const text = `Histogram from ${labels[0]} to ${labels[labels.length - 1]}${marks.map(({ name, shown }) => `, ${name} ${shown}`).join('')}.`;
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': text, class: 'plot' },
    bars, lines,
    svg('line', { x1: 0, x2: width, y1: height - foot, y2: height - foot, class: 'axis' }),
    svg('text', { x: 0, y: height - 4, text: labels[0] }),
    svg('text', { x: width, y: height - 4, 'text-anchor': 'end', text: labels[labels.length - 1] }));
}

function markNote(marks) {
  return el('p', { class: 'note', text: marks.map(({ name, shown }) => `${name} ${shown}`).join(', ') });
}

// A rate with its interval on a line from 0 to 1.
function rateBar(rate, interval) {
  if (!isNumber(rate)) return el('span', { class: 'rate', 'aria-hidden': 'true' });
  const bar = el('span', { class: 'rate', 'aria-hidden': 'true' }, el('i', { class: 'rate-fill', css: { width: `${rate * 100}%` } }));
  if (interval) bar.append(el('i', { class: 'rate-interval', css: { left: `${interval[0] * 100}%`, width: `${(interval[1] - interval[0]) * 100}%` } }));
  return bar;
}

// Named rates, a line each; `pick` makes the names buttons.
function rateList(bars, pick, hint) {
  return el('ul', { class: 'rates' }, bars.map((bar) => el('li', null,
    pick ? button(clip(visible(bar.name), 80) || 'none', () => pick(bar.name), { class: 'rate-name', title: hint ? `${clip(bar.name, 200)}: ${hint.toLowerCase()}` : clip(bar.name, 200) }) : el('span', { class: 'rate-name', title: bar.name, text: clip(bar.name, 80) }),
    el('span', { class: 'rate-text' }, el('b', { text: bar.shown }), bar.count > 0 && el('span', { class: 'dim', text: ` ${wholeText(bar.passed)}/${wholeText(bar.count)}` })),
    rateBar(bar.rate, bar.interval),
    el('span', { class: 'rate-sure', text: bar.sure, title: '95% interval' }))));
}
