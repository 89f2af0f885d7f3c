// Search, status, category and tool: what the table lists.

function matcher(filter, page) {
  const status = filter.has('status') ? new Set(filter.get('status').split(',')) : null;
  const words = searchWords(filter.get('q'));
  const [group, tool] = [filter.get('category'), filter.get('tool')];
  return (row) => (!status || status.has(row.status))
    && (group === undefined || row.groups.includes(group) || (group === 'none' && !row.groups.length))
    && (tool === undefined || row.tools.includes(tool))
    && (!words.length || words.every((word) => row.text.includes(word)) || page.foundInSteps(row));
}

function compareKeys(a, b) {
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : a > b ? 1 : 0;
  return a - b;
}

// Rows in the order asked for; those without a value come last, in either direction.
function sorted(rows, columns, asked) {
  const descending = asked.startsWith('-');
  const column = columns.find(({ name }) => name === asked.replace('-', ''));
  if (!column) return rows;
  const known = (key) => key !== null && key !== undefined && key !== '';
  const keyed = rows.map((row) => [column.key(row), row]);
  keyed.sort(([a], [b]) => {
    if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
    return descending ? compareKeys(b, a) : compareKeys(a, b);
  });
  return keyed.map(([, row]) => row);
}

class Toolbar {
  constructor(data, page) {
    this.page = page;
    this.search = el('input', { type: 'search', id: 'search', placeholder: 'Search id, prompt, answer, reasoning', 'aria-label': 'Search', autocomplete: 'off', spellcheck: 'false' });
    this.search.addEventListener('input', () => page.set('q', this.search.value.trim() || null));
    this.chips = new Map();
    const statuses = data.statuses.map(([status, count]) => {
      const chip = button('', () => page.set('status', page.view.filter.get('status') === status ? null : status), { class: `chip ${status}`, 'aria-pressed': 'false' });
      chip.append(statusBadge(status), el('span', { class: 'count', text: wholeText(count) }));
      this.chips.set(status, chip);
      return chip;
    });
    this.groups = this.choice(`All ${clip(data.by, 30)} values`, 'category', clip(data.by, 30));
    this.tools = this.choice('All tools', 'tool', 'Tool');
    this.deep = button('Search steps too', () => page.set('deep', page.view.filter.has('deep') ? null : '1'), { class: 'small', hidden: true, 'aria-pressed': 'false' });
    this.clear = button('Clear', () => page.clear(), { class: 'small', hidden: true });
    this.count = el('span', { class: 'dim', role: 'status', id: 'count' });
    this.element = el('div', { id: 'toolbar', role: 'search' },
      el('div', { class: 'toolbar-row' }, this.search, this.deep, this.groups, this.tools, this.clear),
      el('div', { class: 'toolbar-row' }, el('div', { class: 'chips', role: 'group', 'aria-label': 'Status' }, statuses), this.count));
  }

  choice(all, key, label) {
    const select = el('select', { 'aria-label': label, hidden: true }, el('option', { value: '', text: all }));
    select.addEventListener('change', () => this.page.set(key, select.selectedIndex ? select.options[select.selectedIndex].filterValue : null));
    return select;
  }

  // Fills the choices with the values that rows have.
  offer(rows) {
    const count = (select, values) => {
      const counts = new Map();
      for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
      const names = [...counts.keys()].sort().slice(0, 1000);
      for (const name of names) {
        const option = el('option', { text: `${oneLine(name, 60) || 'none'} (${wholeText(counts.get(name))})` });
        option.filterValue = name || 'none';
        select.append(option);
      }
      select.hidden = names.length < 2 && (names.length === 0 || names[0] === '');
    };
    count(this.groups, rows.flatMap((row) => (row.groups.length ? row.groups : [''])));
    count(this.tools, rows.flatMap((row) => row.tools));
  }

  show(filter, listed, total, noun, progress) {
    const chosen = (filter.get('status') || '').split(',');
    for (const [status, chip] of this.chips) chip.setAttribute('aria-pressed', String(chosen.includes(status)));
    if (document.activeElement !== this.search) this.search.value = filter.get('q') || '';
    for (const [select, key] of [[this.groups, 'category'], [this.tools, 'tool']]) {
      const value = filter.get(key);
      select.selectedIndex = Math.max(0, Array.from(select.options).findIndex((option) => option.filterValue === value && value !== undefined));
    }
    this.deep.hidden = !filter.has('q');
    this.deep.setAttribute('aria-pressed', String(filter.has('deep')));
    this.clear.hidden = !['status', 'category', 'tool', 'q'].some((key) => filter.has(key));
    this.count.textContent = (listed === total ? plural(total, noun) : `${wholeText(listed)} of ${plural(total, noun)}`) + (progress || '');
  }
}
