// A table of any number of rows: only those on the screen exist as elements.

const ROWS_AROUND = 12;
const MOST_PRINTED = 3000;

class RowTable {
  constructor(columns, page) {
    this.page = page;
    this.rows = [];
    this.current = -1; // the place in `rows` that the keyboard is at
    this.body = el('tbody');
    this.head = el('tr');
    this.element = el('table', { class: 'rows', 'aria-label': 'Records' }, el('thead', null, this.head), this.body);
    this.setColumns(columns);
    this.from = this.to = -1;
    this.printing = false;
    addEventListener('scroll', () => this.draw(), { passive: true });
    addEventListener('resize', () => this.draw(true));
    addEventListener('beforeprint', () => { this.printing = true; this.draw(true); });
    addEventListener('afterprint', () => { this.printing = false; this.draw(true); });
  }

  setColumns(columns) {
    this.columns = columns;
    this.heads = columns.map((column) => this.heading(column));
    this.head.replaceChildren(...this.heads);
  }

  className(column) {
    return `column-${column.kind || column.name}${column.number ? ' number' : ''}`;
  }

  heading(column) {
    const sort = button(oneLine(column.title, 60), () => this.page.sortBy(column.name), { class: 'sort', title: column.what ? `${column.what} ${clip(column.title, 200)}` : null });
    return el('th', { scope: 'col', 'data-title': oneLine(column.title, 60), class: this.className(column) }, sort);
  }

  showSort(name, descending) {
    this.columns.forEach((column, at) => {
      if (column.name === name) this.heads[at].setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else this.heads[at].removeAttribute('aria-sort');
    });
  }

  show(rows) {
    this.rows = rows;
    this.current = -1;
    this.element.setAttribute('aria-rowcount', String(rows.length + 1));
    this.draw(true);
  }

  rowHeight() {
    return matchMedia('(max-width: 700px)').matches ? 62 : 36;
  }

  // The rows that are on the screen, and a few around them.
  range(height) {
    if (this.printing) return [0, Math.min(this.rows.length, MOST_PRINTED)];
    const top = -this.body.getBoundingClientRect().top;
    const from = Math.max(0, Math.floor(top / height) - ROWS_AROUND);
    const to = Math.min(this.rows.length, Math.ceil((top + innerHeight) / height) + ROWS_AROUND);
    return [Math.min(from, this.rows.length), Math.max(to, Math.min(this.rows.length, 1))];
  }

  draw(always) {
    const height = this.rowHeight();
    const [from, to] = this.range(height);
    if (!always && from === this.from && to === this.to) return;
    const focused = this.body.contains(document.activeElement);
    [this.from, this.to] = [from, to];
    const rows = this.rows.slice(from, to).map((row, at) => this.row(row, from + at));
    const space = (count) => (count > 0 && !this.printing ? [el('tr', { class: 'space', 'aria-hidden': 'true' }, el('td', { colspan: this.columns.length, css: { height: `${count * height}px` } }))] : []);
    const empty = this.rows.length ? [] : [el('tr', { class: 'space' }, el('td', { colspan: this.columns.length }, el('div', { class: 'empty-state' }, this.page.nothingListed())))];
    this.body.replaceChildren(...space(from), ...rows, ...space(this.rows.length - to), ...empty);
    if (focused && this.current >= 0) this.link(this.current)?.focus({ preventScroll: true });
  }

  row(row, place) {
    const cells = this.columns.map((column) => el('td', { class: this.className(column) }, column.cell(row, this.page)));
    const element = el('tr', {
      'aria-rowindex': String(place + 2),
      'aria-current': place === this.current ? 'true' : null,
      on: { click: (event) => { if (!event.target.closest('a')) this.page.open(row); this.current = place; } },
    }, cells);
    element.place = place;
    const link = element.querySelector('a');
    if (link && (place === this.current || (this.current < 0 && place === 0))) link.setAttribute('tabindex', '0');
    return element;
  }

  link(place) {
    const found = Array.from(this.body.children).find((element) => element.place === place);
    return found && found.querySelector('a');
  }

  // Makes a row the current one, scrolls it into view and puts the focus on it.
  select(place, focus = true) {
    if (!this.rows.length) return;
    this.current = Math.max(0, Math.min(this.rows.length - 1, place));
    const height = this.rowHeight();
    const top = this.body.getBoundingClientRect().top + this.current * height;
    const above = document.getElementById('toolbar').getBoundingClientRect().height + height;
    if (top < above) scrollBy(0, top - above);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight + height);
    this.draw(true);
    if (focus) this.link(this.current)?.focus({ preventScroll: true });
  }
}
