// What a search has found: marked in the text, and named by where it is, such as "step 14".

const MOST_MARKED = 4000;
const MOST_PLACES = 40;

function searchWords(query) {
  return (query || '').toLowerCase().split(/\s+/).filter(Boolean);
}

// Marks the words in the text of an element; browsers that cannot mark without changing the text show it unmarked.
function markHits(name, root, words) {
  if (typeof Highlight === 'undefined' || !CSS.highlights) return;
  const ranges = [];
  const walker = words.length ? document.createTreeWalker(root, NodeFilter.SHOW_TEXT) : null;
  while (walker && walker.nextNode() && ranges.length < MOST_MARKED) {
    const text = walker.currentNode.data.toLowerCase();
    if (text.length !== walker.currentNode.data.length) continue; // a few letters are longer in lower case
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0 && ranges.length < MOST_MARKED; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + word.length);
        ranges.push(range);
      }
    }
  }
  if (ranges.length) CSS.highlights.set(name, new Highlight(...ranges));
  else CSS.highlights.delete(name);
}

// All texts in a value, one below the other, without names of fields and pictures; JSON would have escapes in them.
function textsIn(value, depth = 0) {
  if (typeof value === 'string') return value;
  if (value === null || typeof value !== 'object' || depth > 30) return String(value ?? '');
  return imageOf(value) ? '' : Object.values(value).map((one) => textsIn(one, depth + 1)).join('\n');
}

// The steps of a record that have the words, those with all of them first; of trials each with its number.
function stepsWith(record, words) {
  const runs = Array.isArray(record.trials) ? asList(record.trials).map((run, at) => [run, (run && run.trialNum) ?? at + 1]) : [[record, null]];
  const [all, some] = [[], []];
  for (const [run, trial] of runs) {
    asList(run && run.trajectory).forEach((step, at) => {
      const text = textsIn({ ...step, type: null, stepId: null });
      const found = words.filter((word) => text.toLowerCase().includes(word));
      if (found.length) (found.length === words.length ? all : some).push({ trial, step: at + 1, text, word: found[0] });
    });
  }
  return all.length ? all : some;
}

function placeName({ trial, step }) {
  return trial === null ? `step ${step}` : `trial ${trial}, step ${step}`;
}

// The text around the first hit of a place.
function snippet({ text, word }) {
  const at = text.toLowerCase().indexOf(word);
  return `${at > 30 ? '…' : ''}${oneLine(text.slice(Math.max(0, at - 30), at + 130), 130)}`;
}

// Where in a record the words are: parts by name, steps as links.
function hitList(record, words, linkTo) {
  const has = (value) => {
    const text = textsIn(value).toLowerCase();
    return words.some((word) => text.includes(word));
  };
  const parts = [['prompt', record.input], ['hint', record.hint], ['answer', record.output], ['verdict', [record.score, record.scores, record.graderError]]].filter(([, value]) => value && has(value)).map(([name]) => name);
  const steps = stepsWith(record, words);
  const shown = steps.slice(0, MOST_PLACES).map((place) => el('a', { href: linkTo(place), class: 'hit-link', text: placeName(place) }));
  const more = steps.length > MOST_PLACES ? [`${steps.length - MOST_PLACES} more`] : [];
  if (!parts.length && !shown.length) return null;
  const places = [...parts, ...shown, ...more].flatMap((place, at) => (at ? [', ', place] : [place]));
  return el('p', { class: 'hits' }, el('b', { text: clip(words.join(' '), 80) }), ' is in ', places);
}
