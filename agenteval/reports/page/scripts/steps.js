// A trajectory as a timeline: one item per step, which folds, with its time to scale.

const FIRST_STEPS = 200; // that are shown at once; the others follow on demand
const EPOCH = 1e11; // a larger timestamp counts from 1970, not from the start of the run
const STEP_NAMES = { thought: 'Thought', message: 'Message', tool_call: 'Tool', plan: 'Plan' };
const FAILED_STATES = ['failed', 'error'];
const ALL_OPEN = 8; // up to so many steps, all are shown unfolded
// What tells most about a call of a tool, as in ae-show; the first that it has is shown beside its name.
const TELLING = ['command', 'cmd', 'script', 'code', 'pattern', 'query', 'file_path', 'filePath', 'notebook_path', 'path', 'url', 'skill', 'description', 'prompt', 'input', 'name'];

// Start and end of each step in milliseconds from the start; a thought or message began when the step before it ended.
function stepSpans(steps, started) {
  const times = steps.map((step) => (isNumber(step.timestamp) ? step.timestamp : null));
  const known = times.filter((time) => time !== null);
  if (!known.length) return { spans: steps.map(() => null), end: 0 };
  let origin = 0;
  if (known[0] > EPOCH) origin = isNumber(started) && started <= known[0] && started > EPOCH ? started : known[0];
  let end = 0;
  const spans = steps.map((step, at) => {
    if (times[at] === null) return null;
    const time = Math.max(0, times[at] - origin);
    const took = isNumber(step.duration) && step.duration >= 0 ? step.duration : 0;
    const isTool = step.type === 'tool_call';
    const from = isTool ? time : Math.min(end, time);
    const to = isTool ? time + took : time;
    end = Math.max(end, to);
    return { from, to };
  });
  return { spans, end };
}

function stepKind(step) {
  if (step.type === 'tool_call' && FAILED_STATES.includes(step.status)) return 'failed';
  return Object.hasOwn(STEP_NAMES, step.type) ? step.type : 'message';
}

function place(element, span, total) {
  element.style.setProperty('left', `${(100 * span.from) / total}%`);
  element.style.setProperty('width', `${(100 * Math.max(span.to - span.from, 0)) / total}%`);
  return element;
}

// All steps in one line, to scale; the list below has the same for a screen reader.
function timeStrip(steps, spans, total, goTo) {
  const strip = el('div', { class: 'strip', 'aria-hidden': 'true' });
  steps.slice(0, 3000).forEach((step, at) => {
    if (!spans[at]) return;
    const took = durationText(spans[at].to - spans[at].from);
    const title = `${at + 1}. ${step.name ? clip(String(step.name), 80) : STEP_NAMES[step.type] || 'Step'}, ${took}`;
    strip.append(place(el('i', { class: `span ${stepKind(step)}`, title, on: { click: () => goTo(at) } }), spans[at], total));
  });
  const scale = el('div', { class: 'scale', 'aria-hidden': 'true' }, ['0', durationText(total / 2), durationText(total)].map((text) => el('span', { text })));
  return [strip, scale];
}

// The colours of the timeline, as far as it has them.
function timeLegend(steps) {
  const names = { tool_call: 'Tool', failed: 'Tool that failed', thought: 'Thought', message: 'Message', plan: 'Plan' };
  const kinds = Object.keys(names).filter((kind) => steps.some((step) => stepKind(step) === kind));
  return el('ul', { class: 'legend', 'aria-label': 'Legend of the timeline' }, kinds.map((kind) => el('li', null, el('i', { class: `span ${kind}`, 'aria-hidden': 'true' }), names[kind])));
}

// A call in one line: `pytest -q` of Bash, the path of Read.
function callBrief(input) {
  if (typeof input === 'string') return oneLine(input, 200);
  if (input === null || typeof input !== 'object') return '';
  if (Array.isArray(input)) return oneLine(input.filter((one) => typeof one === 'string').join(' '), 200);
  const key = TELLING.find((name) => Object.hasOwn(input, name) && (typeof input[name] === 'string' || Array.isArray(input[name])) && input[name].length);
  const value = key === undefined ? Object.values(input).find((one) => typeof one === 'string' && one) : input[key];
  const text = Array.isArray(value) ? callBrief(value) : oneLine(String(value ?? ''), 200);
  return key === 'pattern' && typeof input.path === 'string' ? `${text} in ${oneLine(input.path, 80)}` : text;
}

// The text without the marks of Markdown; the signs of `2 * 3 > 5 in C#` are none.
function withoutMarks(text) {
  return text.replace(/^ {0,3}(?:#{1,6}|[>*]) +/gm, '').replace(/(\*{1,2})(?=[^\s*])([^*\n]{1,400})\1|`+/g, '$2');
}

function stepBrief(step) {
  if (step.type === 'tool_call') return callBrief(step.input);
  if (step.type === 'plan') return plural(asList(step.entries).length, 'item');
  return oneLine(withoutMarks(String(step.content ?? '').slice(0, 2000)), 200);
}

function toolBody(step) {
  const parts = [];
  if (step.input !== undefined && step.input !== null) parts.push(el('h4', { class: 'field', text: 'Input' }), valueBlock(step.input));
  if (step.output !== undefined && step.output !== null) parts.push(el('h4', { class: 'field', text: 'Output' }), valueBlock(step.output));
  if (step.content) parts.push(valueBlock(step.content));
  return parts;
}

function planBody(step) {
  const entries = Array.isArray(step.entries) ? step.entries : [];
  return [el('ul', { class: 'plan' }, entries.slice(0, 200).map((entry) => {
    const isObject = entry !== null && typeof entry === 'object';
    const text = isObject && typeof entry.content === 'string' ? entry.content : isObject ? JSON.stringify(entry) : String(entry);
    const state = isObject && typeof entry.status === 'string' ? entry.status : '';
    const mark = state === 'completed' ? '☑' : state === 'in_progress' ? '▶' : '☐';
    return el('li', null, el('span', { 'aria-hidden': 'true', text: `${mark} ` }), clip(text, 2000), state && el('span', { class: 'dim', text: ` (${clip(state, 30)})` }));
  }))];
}

function stepBody(step) {
  if (step.type === 'tool_call') return toolBody(step);
  return step.type === 'plan' ? planBody(step) : [proseBlock(String(step.content ?? ''))];
}

// Whether a step is unfolded at first: all of a short trajectory; of a long one, what is said and what failed.
function isOpen(step, steps) {
  return steps.length <= ALL_OPEN || step.type !== 'tool_call' || stepKind(step) === 'failed';
}

function stepItem(step, number, span, total, open, link) {
  const kind = stepKind(step);
  const isTool = step.type === 'tool_call';
  const head = el('summary', { class: 'step-head' },
    !(isTool && step.name) && el('span', { class: 'step-kind', text: `${step.parentId ? 'Sub-agent: ' : ''}${STEP_NAMES[step.type] || 'Step'}` }),
    isTool && step.name && step.parentId && el('span', { class: 'step-kind', text: 'Sub-agent:' }),
    step.name && el('b', { class: 'step-name', text: clip(String(step.name), 200) }),
    el('span', { class: 'step-brief', dir: 'auto', text: stepBrief(step) }),
    isTool && step.status && step.status !== 'completed' && el('span', { class: `state ${kind}`, text: clip(String(step.status), 40) }),
    span && el('span', { class: 'step-time', text: `+${durationText(span.from)}` }),
    el('span', { class: 'step-took', text: span && span.to > span.from ? durationText(span.to - span.from) : '' }),
    span && total > 0 && el('span', { class: 'track', 'aria-hidden': 'true' }, place(el('i', { class: `span ${kind}` }), span, total)));
  const details = foldable(head, () => el('div', { class: 'step-body' }, stepBody(step)));
  if (open) {
    details.fill();
    details.open = true;
  }
  const name = el(link ? 'a' : 'span', { class: 'step-number', href: link && link(number), title: link && `Link to step ${number}`, text: String(number) });
  return el('li', { class: `step ${kind}${step.parentId ? ' nested' : ''}`, 'data-step': number }, name, details);
}

// Where each turn of the session begins, as a map from step to turn.
function turnStarts(steps, record) {
  const starts = new Map();
  const counts = record.metadata && record.metadata.turnSteps;
  const turns = Array.isArray(record.input) ? record.input : [];
  if (Array.isArray(counts) && counts.every(isNumber)) {
    let at = 0;
    counts.forEach((count, turn) => {
      starts.set(at, [...(starts.get(at) || []), { turn, text: turns[turn] }]);
      at += count;
    });
  } else if (turns.length > 1) {
    steps.forEach((step, at) => {
      if (isNumber(step.turn) && (at === 0 || steps[at - 1].turn !== step.turn)) starts.set(at, [{ turn: step.turn - 1, text: turns[step.turn - 1] }]);
    });
  }
  return starts;
}

function turnItem({ turn, text }) {
  return el('li', { class: 'turn' }, el('h4', { text: `Turn ${turn + 1}` }), typeof text === 'string' && el('p', { class: 'dim', text: oneLine(text, 200) }));
}

function stepsOf(run) {
  return asList(run.trajectory).filter((step) => step !== null && typeof step === 'object');
}

// The timeline of a run of an agent; `scale` is the time that the full width stands for, by default that of this run.
// `link` returns the address of a step.
function timeline(record, scale, link) {
  const steps = stepsOf(record);
  if (!steps.length) return [el('p', { class: 'none', text: 'No steps recorded.' })];
  const { spans, end } = stepSpans(steps, record.timing && record.timing.start);
  const total = Math.max(scale || 0, end, scale ? 0 : runDuration(record) || 0);
  const starts = turnStarts(steps, record);
  const list = el('ol', { class: 'steps' });
  let shown = 0;
  const more = button('', () => show(shown + FIRST_STEPS), { class: 'fold' });
  const show = (limit) => {
    const until = Math.min(steps.length, limit);
    const items = [];
    for (; shown < until; shown += 1) {
      for (const turn of starts.get(shown) || []) items.push(turnItem(turn));
      items.push(stepItem(steps[shown], shown + 1, spans[shown], total, isOpen(steps[shown], steps), link));
    }
    list.append(...items);
    more.hidden = shown >= steps.length;
    more.textContent = `Show ${Math.min(FIRST_STEPS, steps.length - shown)} more of ${wholeText(steps.length)} steps`;
  };
  show(FIRST_STEPS);
  list.reveal = (number) => show(number);
  const all = steps.some((step) => !isOpen(step, steps)) && button('Unfold all steps', () => {
    const open = all.textContent.startsWith('Unfold');
    list.querySelectorAll('.step > details').forEach((details) => { details.open = open; });
    all.textContent = open ? 'Fold all steps' : 'Unfold all steps';
  }, { class: 'small fold-steps' });
  return [
    end > 0 && timeStrip(steps, spans, total, (at) => goToStep(list, at + 1)),
    el('div', { class: 'timeline-foot' }, end > 0 && timeLegend(steps), all),
    list, more,
  ].flat();
}

// Unfolds a step and scrolls to it; false if there is no such step.
function goToStep(list, number) {
  list.reveal(number);
  const item = list.querySelector(`:scope > [data-step="${number}"]`);
  if (!item) return false;
  document.querySelectorAll('.step.target').forEach((other) => other.classList.remove('target'));
  item.classList.add('target');
  const details = item.querySelector('details');
  details.fill();
  details.open = true;
  item.scrollIntoView({ block: 'start' });
  return true;
}

function runDuration(run) {
  const timing = run.timing || {};
  if (isNumber(run.duration)) return run.duration >= 0 ? run.duration : null;
  if (isNumber(timing.total)) return timing.total >= 0 ? timing.total : null;
  return isNumber(timing.start) && isNumber(timing.end) && timing.end >= timing.start ? timing.end - timing.start : null;
}
