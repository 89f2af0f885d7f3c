// Several runs of one prompt beside each other, on one time scale: the trials of a prompt, or the runs of a comparison.

const MOST_COLUMNS = 8; // that are shown at once

function runColumn({ title, run, link, number, name, bar }, scale) {
  return el('section', { class: 'run-column', 'aria-label': title, 'data-trial': number },
    el('h3', { class: 'run-title' }, el('span', { text: clip(title, 200) }), name === undefined ? statusBadge(runStatus(run)) : tellsVerdict(statusBadge(runStatus(run)), name)),
    bar,
    runParts(run, scale, link, name));
}

function sideBySide(runs) {
  const scale = Math.max(0, ...runs.map(({ run }) => Math.max(runDuration(run) || 0, stepSpans(stepsOf(run), run.timing && run.timing.start).end)));
  const box = el('div', { class: 'side-by-side' });
  let shown = 0;
  const show = (limit) => {
    box.append(...runs.slice(shown, limit).map((one) => runColumn(one, scale)));
    shown = Math.min(limit, runs.length);
  };
  show(MOST_COLUMNS);
  box.showAll = () => show(runs.length);
  if (shown >= runs.length) return [box];
  const more = button(`Show all ${runs.length}`, () => { show(runs.length); more.remove(); }, { class: 'fold' });
  return [box, more];
}

function trialsBody(record, line, row, page) {
  const trials = asList(record.trials).filter((trial) => trial !== null && typeof trial === 'object');
  const marks = el('ol', { class: 'trial-marks', 'aria-label': 'Trials' }, trials.slice(0, 200).map((trial, at) => el('li', null, el('a', { href: page.addressOf(row.id, { trial: trial.trialNum ?? at + 1 }), title: `To trial ${trial.trialNum ?? at + 1}` }, statusBadge(runStatus(trial), String(trial.trialNum ?? at + 1))))));
  const runs = trials.map((trial, at) => {
    const number = trial.trialNum ?? at + 1;
    const name = `${row.id}#${number}`;
    return { title: `Trial ${number}`, number, name, bar: labelBar(page, name, outputOf(trial), gradersVerdict(trial)), run: { ...trial, input: record.input }, link: (step) => page.addressOf(row.id, { trial: number, step }) };
  });
  tellsVerdict(marks, row.id);
  const curve = (values) => (values !== null && typeof values === 'object' ? Object.entries(values) : []);
  const facts = factList([
    ['Pass rate', percentText(record.passRate)],
    ['Trials', wholeText(record.k)],
    ...curve(record.passAt).slice(-1).map(([k, value]) => [`pass@${k}`, percentText(value)]),
    ...curve(record.passExp).slice(-1).map(([k, value]) => [`pass^${k}`, percentText(value)]),
    ['Agent', record.metadata && record.metadata.agent],
    ['Model', record.metadata && record.metadata.model],
  ]);
  facts?.querySelectorAll('[class^="fact-pass"]').forEach((fact) => tellsVerdict(fact, row.id));
  const notes = record.metadata && Object.keys(record.metadata).length ? disclosure('Metadata', () => valueBlock(record.metadata)) : null;
  return [page.hitsIn(record), marks, facts, promptSection(record), sideBySide(runs), notes, rawSection(line)].flat();
}
