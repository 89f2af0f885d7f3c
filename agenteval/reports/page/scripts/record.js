// One record: verdicts, prompt, answer and timeline.

const STATUS_NAMES = {
  pass: 'Pass', fail: 'Fail', error: 'Agent failed', ungraded: 'Ungraded', 'grader-error': 'Grader error', flaky: 'Flaky',
};
const STATUS_MARKS = { pass: '✓', fail: '✗', error: '!', ungraded: '–', 'grader-error': '?', flaky: '≈' };
const AGENT_FAILED = 'agent failed: ';
const MOST_OUTLINED = 1000; // steps

function statusBadge(status, label) {
  return el('span', { class: `status ${status}` }, el('span', { 'aria-hidden': 'true', text: STATUS_MARKS[status] || '' }), ` ${label || STATUS_NAMES[status] || status}`);
}

function asList(value) {
  return Array.isArray(value) ? value : [];
}

function failuresOf(run) {
  const errors = asList(run.errors).map(String);
  return errors.length || !run.error ? errors : [String(run.error)];
}

// The verdict of a result or of a trial, which has it in fields of its own; null if there is none.
function verdictOf(run) {
  if (run.score !== null && typeof run.score === 'object') return run.score;
  if (typeof run.pass === 'boolean') return { pass: run.pass, score: run.score, reasoning: run.reasoning, outcome: run.outcome };
  return null;
}

// The status of one run of an agent; a row of the table has it from ae-format.
function runStatus(run) {
  const verdict = verdictOf(run);
  const notGraded = !verdict || (typeof verdict.reasoning === 'string' && verdict.reasoning.startsWith(AGENT_FAILED));
  if (run.graderError) return 'grader-error';
  if (failuresOf(run).length && notGraded && !run.scores) return 'error';
  if (!verdict) return 'ungraded';
  return verdict.pass ? 'pass' : 'fail';
}

function factList(facts) {
  const known = facts.filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return known.length ? el('dl', { class: 'facts' }, known.map(([name, value]) => el('div', { class: `fact-${name.toLowerCase().replace(/\W/g, '-')}` }, el('dt', { text: name }), el('dd', { text: clip(String(value), 300) })))) : null;
}

function runFacts(run) {
  const timing = run.timing || {};
  const notes = run.metadata || {};
  const verdict = verdictOf(run);
  const steps = asList(run.trajectory);
  const failed = steps.filter((step) => step && stepKind(step) === 'failed').length;
  return factList([
    ['Score', verdict && !run.graderError ? scoreText(verdict.score) : ''],
    ['Time', durationText(runDuration(run))],
    ['First response', durationText(timing.firstResponse)],
    ['Tokens in', wholeText(timing.inputTokens)],
    ['Tokens out', wholeText(timing.outputTokens)],
    ['Cached', wholeText(timing.cachedTokens)],
    ['Cost', costText(timing.costUsd)],
    ['Steps', Array.isArray(run.trajectory) ? wholeText(steps.length) : ''],
    ['Tools failed', failed ? wholeText(failed) : ''],
    ['Attempts', run.attempts > 1 ? wholeText(run.attempts) : ''],
    ['Agent', notes.agent],
    ['Model', notes.model],
    ['Exit code', isNumber(notes.exitCode) && notes.exitCode !== 0 ? String(notes.exitCode) : ''],
    ['Signal', notes.signal],
    ['Timed out', notes.timedOut ? 'yes' : ''],
  ]);
}

function section(title, ...content) {
  return el('section', { class: 'part' }, el('h3', { text: title }), ...content);
}

// What is built when it is unfolded for the first time.
function foldable(summary, build) {
  const details = el('details', null, summary);
  details.fill = () => {
    if (details.children.length === 1) details.append(build());
  };
  details.addEventListener('toggle', () => { if (details.open) details.fill(); });
  return details;
}

function disclosure(title, build) {
  return foldable(el('summary', { text: title }), build);
}

function errorList(run) {
  const failures = failuresOf(run);
  return failures.length ? el('div', { class: 'errors' }, el('h3', { text: 'Agent failed' }), failures.map((failure) => textBlock(failure))) : null;
}

// What became of each check that the prompt carries.
function checkList(outcome) {
  const checks = outcome && Array.isArray(outcome.checks) ? outcome.checks.filter((one) => one !== null && typeof one === 'object') : [];
  return checks.length ? el('ul', { class: 'checks' }, checks.map((one) => el('li', { class: one.pass === true ? 'pass' : 'fail' },
    statusBadge(one.pass === true ? 'pass' : 'fail'), el('b', { text: clip(String(one.name), 200) }), el('span', { text: clip(String(one.reason), 2000) })))) : null;
}

function verdictItem(name, verdict) {
  const score = isNumber(verdict.score) ? verdict.score : null;
  return el('li', { class: `verdict ${verdict.pass ? 'pass' : 'fail'}` },
    el('div', { class: 'verdict-head' },
      statusBadge(verdict.pass ? 'pass' : 'fail'),
      name && el('b', { text: clip(name, 200) }),
      score !== null && el('span', { class: 'number', text: scoreText(score) }),
      score !== null && el('span', { class: 'meter', 'aria-hidden': 'true' }, el('i', { css: { width: `${Math.max(0, Math.min(1, score)) * 100}%` } }))),
    verdict.reasoning && proseBlock(String(verdict.reasoning)),
    checkList(verdict.outcome),
    verdict.outcome && Object.keys(verdict.outcome).length > 0 && disclosure('Outcome', () => valueBlock(verdict.outcome)));
}

// What a person has decided over the graders, with ae-grade --labels.
function humanItem(human) {
  const said = human.overrules !== null && typeof human.overrules === 'object' ? human.overrules : null;
  const before = said && (typeof said.graderError === 'string' ? `the grader erred: ${said.graderError}`
    : typeof said.pass === 'boolean' ? `the graders said ${said.pass ? 'pass' : 'fail'}${isNumber(said.score) ? ` (${scoreText(said.score)})` : ''}${said.reasoning ? `: ${said.reasoning}` : ''}` : 'it had no verdict');
  return el('li', { class: `verdict human ${human.pass ? 'pass' : 'fail'}` },
    el('div', { class: 'verdict-head' }, statusBadge(human.pass ? 'pass' : 'fail'), el('b', { text: 'a person' }), said && el('span', { class: 'tag', text: 'overrules the graders' })),
    human.note && proseBlock(String(human.note)),
    before && el('p', { class: 'note', dir: 'auto', text: clip(before, 2000) }));
}

// The verdict of the graders, without what a person has said.
function gradersVerdict(run) {
  const human = run.humanVerdict !== null && typeof run.humanVerdict === 'object' ? run.humanVerdict : {};
  if (human.overrules !== null && typeof human.overrules === 'object') return typeof human.overrules.pass === 'boolean' ? human.overrules : null;
  return run.graderError ? null : verdictOf(run);
}

function verdictList(run) {
  const items = [];
  if (run.humanVerdict !== null && typeof run.humanVerdict === 'object') items.push(humanItem(run.humanVerdict));
  const verdict = verdictOf(run);
  const graders = run.scores !== null && typeof run.scores === 'object' ? Object.entries(run.scores) : [];
  if (run.graderError) {
    const why = typeof run.graderError === 'string' ? run.graderError : (verdict && verdict.reasoning) || 'The grader erred.';
    items.push(el('li', { class: 'verdict grader-error' }, el('div', { class: 'verdict-head' }, statusBadge('grader-error')), textBlock(String(why))));
  } else if (verdict && runStatus(run) !== 'error' && !(run.humanVerdict && run.humanVerdict.overrules)) items.push(verdictItem(graders.length > 1 ? 'all graders' : '', verdict));
  for (const [name, grade] of graders) if (grade !== null && typeof grade === 'object') items.push(verdictItem(name, grade));
  return items.length ? section(graders.length ? 'Verdicts' : 'Verdict', el('ul', { class: 'verdicts' }, items)) : null;
}

function promptSection(record) {
  const turns = Array.isArray(record.input) ? record.input.map(String) : record.input === undefined || record.input === null ? [] : [String(record.input)];
  const parts = turns.length > 1
    ? [el('ol', { class: 'turns' }, turns.map((turn) => el('li', null, proseBlock(turn))))]
    : turns.map((turn) => proseBlock(turn));
  if (record.hint) parts.push(el('p', { class: 'field', text: 'Hint' }), proseBlock(String(record.hint)));
  if (record.reference) parts.push(el('p', { class: 'field', text: 'Reference' }), proseBlock(String(record.reference)));
  return parts.length ? section(turns.length > 1 ? `Prompt, ${turns.length} turns` : 'Prompt', parts) : null;
}

function outputOf(run) {
  return typeof run.output === 'string' ? run.output : '';
}

function answerSection(run) {
  const output = outputOf(run);
  return section('Answer', output ? proseBlock(output) : el('p', { class: 'none', text: 'The answer is empty.' }));
}

function rawSection(line) {
  const copy = button('Copy JSON', () => copyText(line, copy), { class: 'small' });
  return el('div', { class: 'raw' }, copy, disclosure('Raw JSON', () => textBlock(indentJson(line), paintJson)));
}

// What is known of one run of an agent; `name` is that of its label, if it can have one.
function runParts(run, scale, link, name) {
  const stderr = typeof run.stderr === 'string' && run.stderr ? disclosure('stderr', () => textBlock(run.stderr)) : null;
  const [facts, verdicts] = [runFacts(run), verdictList(run)];
  if (name !== undefined) for (const part of [verdicts, facts && facts.querySelector('.fact-score')]) tellsVerdict(part, name);
  return [facts, errorList(run), verdicts, answerSection(run), stderr, section('Timeline', timeline(run, scale, link))];
}

// The parts of a record and the steps of its agent, to jump to.
function outline(parts, run, link) {
  const entry = (name, target) => el('li', null, button(name, () => target.scrollIntoView({ block: 'start' }), { class: 'outline-part' }));
  const heads = parts.filter((part) => part && part.matches('.part')).map((part) => entry(part.querySelector('h3').textContent, part));
  const steps = stepsOf(run).slice(0, MOST_OUTLINED).map((step, at) => {
    const isTool = step.type === 'tool_call';
    return el('li', null, el('a', { href: link(at + 1), class: `outline-step ${stepKind(step)}${step.parentId ? ' nested' : ''}`, title: stepBrief(step) },
      el('span', { class: 'step-number', text: String(at + 1) }),
      el('span', null, isTool && el('b', { text: clip(String(step.name ?? 'Tool'), 40) }), ' ', isTool && stepKind(step) === 'failed' ? '✗ ' : '', el('span', { dir: 'auto', text: clip(stepBrief(step), 60) }))));
  });
  return el('nav', { class: 'outline', 'aria-label': 'Outline' }, el('ul', null, heads), el('ol', null, steps));
}

function resultBody(record, line, row, page) {
  const link = (step) => page.addressOf(row.id, { step });
  const notes = record.metadata && Object.keys(record.metadata).length ? disclosure('Metadata', () => valueBlock(record.metadata)) : null;
  const [facts, ...parts] = runParts(record, undefined, link, row.id);
  page.showLabelBar(labelBar(page, row.id, outputOf(record), gradersVerdict(record)));
  const content = [promptSection(record), ...parts].filter(Boolean);
  return [outline(content, record, link), el('div', { class: 'record-parts' }, page.hitsIn(record), facts, content, notes, rawSection(line))];
}
