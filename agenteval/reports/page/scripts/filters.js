// Search, status, category, tool, graders and checks: what the table lists, and how many each choice would list.

const VERDICT_STATES = [['pass', '✓ passes'], ['fail', '✗ does not pass'], ['mixed', '≈ passes in some trials'], ['none', '– no verdict']];

// What the filter asks for, as a test by key.
function conditionsOf(filter, page) {
  const conditions = new Map();
  const status = filter.has('status') ? new Set(filter.get('status').split(',')) : null;
  const words = searchWords(filter.get('q'));
  const [group, tool] = [filter.get('category'), filter.get('tool')];
  if (status) conditions.set('status', (row) => status.has(row.status));
  sideConditions(filter, page.data).forEach((test, key) => conditions.set(key, test));
  if (group !== undefined) conditions.set('category', (row) => row.groups.includes(group) || (group === 'none' && !row.groups.length));
  if (tool !== undefined) conditions.set('tool', (row) => row.tools.includes(tool));
  if (filter.has('label') && page.labels) conditions.set('label', (row) => labelStates(row, page.labels).has(filter.get('label')));
  if (words.length) conditions.set('q', (row) => words.every((word) => row.text.includes(word)) || page.foundInSteps(row));
  for (const [key, value] of filter) {
    if (!isVerdictKey(key)) continue;
    const column = page.columns.find(({ name }) => name === key);
    conditions.set(key, (row) => (column ? verdictState(row[column.field][column.place]) : 'none') === value);
  }
  return conditions;
}

// The rows that meet all conditions; `count` gets each row with the only condition that it does not meet, or null.
function filtered(rows, conditions, count) {
  const tests = [...conditions];
  return rows.filter((row) => {
    let missed = null;
    for (const [key, test] of tests) {
      if (test(row)) continue;
      if (missed !== null) return false;
      missed = key;
    }
    count(row, missed);
    return missed === null;
  });
}

function compareKeys(a, b) {
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : a > b ? 1 : 0;
  return a - b;
}

// Rows in the order asked for; those without a value come last, in either direction.
function sorted(rows, columns, asked) {
  const descending = asked.startsWith('-');
  const column = columns.find(({ name }) => name === asked.replace(/^-/, ''));
  if (!column) return rows;
  const known = (key) => key !== null && key !== undefined && key !== '';
  const keyed = rows.map((row) => [column.key(row), row]);
  keyed.sort(([a], [b]) => {
    if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
    return descending ? compareKeys(b, a) : compareKeys(a, b);
  });
  return keyed.map(([, row]) => row);
}

// How many rows each value of a filter would list, given the other filters.
class Counts {
  constructor(verdicts, labels) {
    this.verdicts = verdicts;
    this.labels = labels; // if there are any
    this.byKey = new Map(['status', 'category', 'tool', 'label', ...verdicts.map(({ name }) => name)].map((key) => [key, new Map()]));
  }

  add(row, missed) {
    const up = (key, value) => {
      const counts = this.byKey.get(key);
      counts.set(value, (counts.get(value) || 0) + 1);
    };
    const takes = (key) => missed === null || missed === key;
    if (takes('status')) up('status', row.status);
    if (takes('category')) (row.groups.length ? row.groups : ['none']).forEach((group) => up('category', group));
    if (takes('tool')) row.tools.forEach((tool) => up('tool', tool));
    if (this.labels && takes('label')) labelStates(row, this.labels).forEach((state) => up('label', state));
    for (const { name, field, place } of this.verdicts) if (takes(name)) up(name, verdictState(row[field][place]));
  }

  of(key, value) {
    return this.byKey.get(key)?.get(value) || 0;
  }
}

class Toolbar {
  constructor(data, page) {
    this.page = page;
    this.search = el('input', { type: 'search', id: 'search', placeholder: 'Search id, prompt, answer, reasoning', 'aria-label': 'Search', autocomplete: 'off', spellcheck: 'false' });
    this.search.addEventListener('input', () => page.set('q', this.search.value.trim() || null));
    this.chips = new Map();
    const statuses = data.statuses.map(([status]) => {
      const chip = button('', () => page.set('status', page.view.filter.get('status') === status ? null : status), { class: `chip ${status}`, 'aria-pressed': 'false' });
      const count = el('span', { class: 'count' });
      chip.append(statusBadge(status), count);
      this.chips.set(status, { chip, count });
      return chip;
    });
    this.selects = [];
    this.groups = this.choice(`All ${clip(data.by, 30)} values`, 'category', clip(data.by, 30));
    this.tools = this.choice('All tools', 'tool', 'Tool');
    this.labels = this.choice('All labels', 'label', 'Label');
    for (const [state, text] of LABEL_FILTERS) this.addOption(this.labels, state, text);
    this.verdicts = el('div', { class: 'toolbar-row verdict-filters', id: 'verdict-filters', hidden: true });
    this.more = button('Graders and checks', () => { this.showVerdicts(this.verdicts.hidden); page.apply(); }, { class: 'small', hidden: true, 'aria-expanded': 'false', 'aria-controls': 'verdict-filters' });
    this.sides = sideChoices(data, page);
    this.deep = button('Search steps too', () => page.set('deep', page.view.filter.has('deep') ? null : '1'), { class: 'small', hidden: true, 'aria-pressed': 'false' });
    this.clear = button('Clear', () => page.clear(), { class: 'small', hidden: true });
    this.count = el('span', { class: 'dim', role: 'status', id: 'count' });
    this.tail = el('div', { class: 'toolbar-tail' });
    this.element = el('div', { id: 'toolbar', role: 'search' },
      el('div', { class: 'toolbar-row' }, this.search, this.deep, this.sides, this.groups, this.tools, this.labels, this.more, this.clear),
      this.verdicts,
      el('div', { class: 'toolbar-row' }, el('div', { class: 'chips', role: 'group', 'aria-label': 'Status' }, statuses), this.count, this.tail));
    new ResizeObserver(() => document.documentElement.style.setProperty('--toolbar-height', `${this.element.offsetHeight}px`)).observe(this.element);
  }

  choice(all, key, label) {
    const select = el('select', { 'aria-label': label, hidden: true }, el('option', { value: '', text: all }));
    select.addEventListener('change', () => this.page.set(key, select.selectedIndex ? select.options[select.selectedIndex].filterValue : null));
    this.selects.push([select, key]);
    return select;
  }

  addOption(select, value, name) {
    const option = el('option');
    [option.filterValue, option.shownName] = [value, name];
    select.append(option);
  }

  // Fills the choices with the values that rows have, and adds one for each grader and check.
  offer(rows) {
    const fillSelect = (select, values) => {
      const names = [...new Set(values)].sort().slice(0, 1000);
      for (const name of names) this.addOption(select, name || 'none', oneLine(name, 60) || 'none');
      select.hidden = names.length < 2 && (names.length === 0 || names[0] === '');
    };
    fillSelect(this.groups, rows.flatMap((row) => (row.groups.length ? row.groups : [''])));
    fillSelect(this.tools, rows.flatMap((row) => row.tools));
    const columns = this.page.columns.filter(({ kind }) => kind === 'verdict');
    for (const column of columns) {
      const name = `${column.what} ${oneLine(column.title, 60)}`;
      const select = this.choice(oneLine(column.title, 40), column.name, name);
      for (const [state, text] of VERDICT_STATES) if (state !== 'mixed' || this.page.data.kind === 'trials') this.addOption(select, state, `${oneLine(column.title, 40)}: ${text}`);
      select.hidden = false;
      select.title = name;
      this.verdicts.append(select);
    }
    this.more.hidden = !columns.length;
  }

  showVerdicts(open) {
    this.verdicts.hidden = !open;
    this.more.setAttribute('aria-expanded', String(open));
  }

  // The columns whose counts are needed: those of the choices that are on the screen.
  counted() {
    return this.verdicts.hidden ? [] : this.page.columns.filter(({ kind }) => kind === 'verdict');
  }

  show(filter, listed, total, noun, progress, counts) {
    const chosen = (filter.get('status') || '').split(',');
    for (const [status, { chip, count }] of this.chips) {
      chip.setAttribute('aria-pressed', String(chosen.includes(status)));
      count.textContent = wholeText(counts.of('status', status));
      chip.classList.toggle('empty', !counts.of('status', status));
    }
    if (document.activeElement !== this.search) this.search.value = filter.get('q') || '';
    for (const [select, key] of this.selects) {
      const value = filter.get(key);
      const counted = counts.byKey.has(key);
      let selected = 0;
      Array.from(select.options).forEach((option, at) => {
        if (!at) return;
        if (option.filterValue === value && value !== undefined) selected = at;
        const text = counted ? `${option.shownName} (${wholeText(counts.of(key, option.filterValue))})` : option.shownName;
        if (option.textContent !== text) option.textContent = text;
      });
      select.selectedIndex = selected;
      select.classList.toggle('active', selected > 0);
    }
    showSides(this.sides, filter);
    this.labels.hidden = !(this.page.labels && this.page.labels.size);
    this.deep.hidden = !filter.has('q');
    this.deep.setAttribute('aria-pressed', String(filter.has('deep')));
    this.clear.hidden = !Array.from(filter.keys()).some((key) => !['sort', 'a', 'b'].includes(key));
    this.count.textContent = (listed === total ? plural(total, noun) : `${wholeText(listed)} of ${plural(total, noun)}`) + (progress || '');
  }
}
