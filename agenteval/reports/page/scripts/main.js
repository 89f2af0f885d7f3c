// The page: reads the data, shows the overview, and keeps table, record and address in step.

const MOST_LOCATED = 1000; // records of a search in all steps that say where they have it

// A word as JSON has it where everything but ASCII is escaped.
function asciiJson(word) {
  return JSON.stringify(word).slice(1, -1).replace(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

// Where a record has the words: "in step 14: …"; null if no step has them.
function firstPlace(line, words) {
  try {
    const [place] = stepsWith(JSON.parse(line), words);
    return place ? `in ${placeName(place)}: ${snippet(place)}` : null;
  } catch {
    return null;
  }
}

class Page {
  constructor(data) {
    this.data = data;
    this.rows = [];
    this.listed = [];
    this.records = new RecordStore();
    this.view = { id: null, trial: null, step: null, filter: new Map() };
    this.byId = new Map();
    this.deepFound = { query: null, rows: new Map(), done: true };
    this.panel = document.getElementById('record');
    this.opened = null; // the row that the panel shows
    this.labels = data.kind === 'comparison' ? null : new LabelStore(data);
    this.labelling = false; // whether verdicts are hidden until the person has decided
    this.columns = []; // all there are; the table has those that are shown
    this.chosenColumns = storedColumns();
  }

  // --- rows ---

  takeRows(values) {
    const { fields } = this.data;
    for (const value of values) {
      const row = { index: this.rows.length };
      fields.forEach((field, at) => { row[field] = value[at]; });
      row.text = `${row.id}\n${row.preview}`.toLowerCase();
      if (!this.byId.has(row.id)) this.byId.set(row.id, row);
      this.rows.push(row);
    }
  }

  takeTexts(values, first) {
    values.forEach((value, at) => {
      const row = this.rows[first + at];
      row.text = `${row.id}\n${value}`.toLowerCase();
    });
  }

  // --- the view and the address ---

  hashFor(id, place) {
    return hashOf({ id, filter: this.view.filter, ...place }, this.data.by);
  }

  // The whole address of a trial or a step: a fragment alone would look like a link that skips content.
  addressOf(id, place) {
    return location.href.split('#')[0] + this.hashFor(id, place);
  }

  readAddress() {
    this.view = readHash(location.hash, this.data.by, (text) => this.byId.has(text));
    this.apply();
    this.showRecord();
  }

  writeAddress(replace) {
    const hash = hashOf(this.view, this.data.by);
    try {
      if (replace) history.replaceState(null, '', hash);
      else history.pushState(null, '', hash);
    } catch {
      location.hash = hash; // some browsers refuse it for files
    }
  }

  set(key, value) {
    if (value === null) this.view.filter.delete(key);
    else this.view.filter.set(key, value);
    if (key === 'q' && value === null) this.view.filter.delete('deep');
    this.writeAddress(true);
    this.apply();
  }

  clear() {
    const kept = ['sort', 'a', 'b'].filter((key) => this.view.filter.has(key)).map((key) => [key, this.view.filter.get(key)]);
    this.view.filter = new Map(kept);
    this.toolbar.search.value = '';
    this.writeAddress(true);
    this.apply();
  }

  sortBy(name) {
    const now = this.view.filter.get('sort') || '';
    const { number, kind } = this.columns.find((column) => column.name === name);
    const first = number || kind ? `-${name}` : name;
    const other = first.startsWith('-') ? name : `-${name}`;
    this.set('sort', now === first ? other : now === other ? null : first);
  }

  apply() {
    const { filter } = this.view;
    const started = performance.now();
    this.showPair?.(filter.get('a'), filter.get('b'));
    this.searchSteps();
    const sort = filter.get('sort') || '';
    if (Array.from(filter.keys()).some(isVerdictKey)) this.toolbar.showVerdicts(true);
    const counts = new Counts(this.toolbar.counted(), this.labels && this.labels.size ? this.labels : null);
    const found = filtered(this.rows, conditionsOf(filter, this), (row, missed) => counts.add(row, missed));
    this.listed = sort ? sorted(found, this.columns, sort) : found;
    this.table.showSort(sort.replace(/^-/, ''), sort.startsWith('-'));
    this.table.show(this.listed);
    if (this.opened) {
      this.table.current = this.listed.indexOf(this.opened);
      this.showPosition();
    }
    const progress = this.deepFound.done ? '' : ', searching the steps…';
    this.toolbar.show(filter, this.listed.length, this.rows.length, this.data.noun, progress, counts);
    this.filterTime = performance.now() - started;
    document.documentElement.dataset.listed = String(this.listed.length);
    document.documentElement.dataset.filterTime = this.filterTime.toFixed(1);
  }

  // Shows the columns that were asked for, and of the others as many as leave room for the text.
  fitColumns() {
    const label = this.columns.find(({ name }) => name === 'label');
    if (label) label.hidden = !this.labelling && !this.labels.size;
    let shown = shownColumns(this.columns, this.chosenColumns);
    if (this.labelling) shown = shown.filter(({ name, kind }) => kind !== 'verdict' && !REVEALING.includes(name));
    this.table.setColumns(shown);
    if (this.data.kind !== 'comparison' && !this.labelling && !matchMedia('(max-width: 700px)').matches) {
      for (const dropped of droppable(shown, this.chosenColumns)) {
        if (this.table.heads.at(-1).offsetWidth >= LEAST_TEXT) break;
        shown = shown.filter((column) => column !== dropped);
        this.table.setColumns(shown);
      }
    }
    this.fittedTo = innerWidth;
  }

  // What the table says where it lists nothing.
  nothingListed() {
    const { noun, listed } = this.data;
    if (!listed) return el('p', { text: this.data.records ? `No ${noun} is listed on this page.` : `The file has no ${noun}s.` });
    if (!this.deepFound.done) return el('p', { text: 'Searching the steps…' });
    const deep = this.view.filter.has('q') && !this.view.filter.has('deep') && this.data.trajectories;
    return [
      el('p', { text: `No ${noun} matches this filter.` }),
      button('Clear the filter', () => this.clear()),
      deep && button('Search steps too', () => this.set('deep', '1')),
    ];
  }

  // --- labels ---

  // Whether the verdicts on a row, or on one of its trials, are hidden.
  isBlind(row) {
    return this.labelling && answersOf(row).some(([name]) => !this.labels.get(name));
  }

  label(on) {
    this.labelling = on;
    document.body.classList.toggle('labelling', on);
    this.labelButton.setAttribute('aria-pressed', String(on));
    this.labelsChanged();
    if (on && !this.isOpen() && this.listed.length) this.open(this.listed.find((row) => this.isBlind(row)) || this.listed[0]);
  }

  // Shows what has changed: bars, verdicts that may be seen now, the table and the counts.
  labelsChanged() {
    this.panel.querySelectorAll('.label-bar').forEach((bar) => bar.refresh());
    this.showVerdicts();
    const { size } = this.labels;
    this.saveLabels.hidden = !size;
    this.saveLabels.textContent = `Download ${plural(size, 'label')}`;
    this.fitColumns();
    this.apply();
  }

  showVerdicts() {
    if (!this.labels || !this.opened) return;
    const names = new Set(answersOf(this.opened).map(([name]) => name));
    this.panel.querySelectorAll('[data-verdict-of]').forEach((part) => {
      const name = part.dataset.verdictOf;
      part.hidden = this.labelling && (names.has(name) ? !this.labels.get(name) : this.isBlind(this.opened));
    });
  }

  showLabelBar(bar) {
    this.panel.querySelector('.record-head')?.append(bar);
  }

  // --- search in all steps ---

  foundInSteps(row) {
    return this.deepFound.rows.has(row.index);
  }

  async searchSteps() {
    const { filter } = this.view;
    const query = filter.has('deep') && filter.has('q') ? filter.get('q').toLowerCase() : null;
    if (query === this.deepFound.query) return;
    const search = { query, rows: new Map(), done: query === null };
    this.deepFound = search;
    if (query === null) return;
    const words = searchWords(query);
    const escaped = words.map((word) => [word, JSON.stringify(word).slice(1, -1), asciiJson(word)]);
    for (const { block, first } of await this.records.all()) {
      const lines = await unpackLines(block);
      if (this.deepFound !== search) return; // another search has begun
      lines.forEach((line, at) => {
        const text = line.toLowerCase();
        if (!escaped.every((forms) => forms.some((form) => text.includes(form)))) return;
        search.rows.set(first + at, search.rows.size < MOST_LOCATED ? firstPlace(line, words) : null);
      });
    }
    search.done = true;
    this.apply();
  }

  // --- the open record ---

  isOpen() {
    return this.opened !== null;
  }

  open(row) {
    Object.assign(this.view, { id: row.id, trial: null, step: null });
    this.wanted = row; // ids may occur twice; the row that was asked for is meant
    this.writeAddress(false);
    this.showRecord();
  }

  openCurrent() {
    const row = this.listed[Math.max(0, this.table.current)];
    if (row) this.open(row);
    return row ? undefined : null;
  }

  close() {
    this.view.id = null;
    this.writeAddress(false);
    this.showRecord();
  }

  move(by) {
    const at = this.isOpen() ? this.listed.indexOf(this.opened) : this.table.current;
    const next = Math.max(0, Math.min(this.listed.length - 1, at + by));
    if (!this.listed.length) return;
    this.table.select(next, !this.isOpen());
    if (this.isOpen() && this.listed[next] !== this.opened) this.open(this.listed[next]);
  }

  focusSearch() {
    this.toolbar.search.focus();
    this.toolbar.search.select();
  }

  leaveSearch(keep) {
    const { search } = this.toolbar;
    if (!keep && search.value) {
      search.value = '';
      this.set('q', null);
      return;
    }
    search.blur();
    this.table.select(0);
  }

  unfold() {
    if (!this.isOpen()) return;
    this.panel.querySelectorAll('details').forEach((details) => {
      details.fill(); // at once: a page that is printed does not wait for the event
      details.open = true;
    });
    this.panel.querySelectorAll('.folding').forEach((box) => box.unfold());
  }

  async showRecord() {
    const { id } = this.view;
    const wanted = this.wanted && this.wanted.id === id ? this.wanted : this.byId.get(id);
    this.wanted = null;
    const before = this.opened;
    document.body.classList.toggle('has-record', id !== null);
    if (id === null) {
      this.opened = null;
      this.panel.hidden = true;
      this.panel.replaceChildren();
      if (before) this.table.select(this.listed.indexOf(before));
      return;
    }
    this.panel.hidden = false;
    if (!wanted) {
      this.opened = null;
      this.panel.replaceChildren(this.panelHead(null), el('p', { class: 'notice' }, 'No record with the id ', el('code', { text: clip(id, 300) }), this.rows.length < this.data.listed ? '; the page is still loading.' : ' is listed on this page.'));
      return;
    }
    if (wanted === before) {
      this.goToPlace();
      return;
    }
    this.opened = wanted;
    this.table.current = this.listed.indexOf(wanted);
    this.table.draw(true);
    const head = this.panelHead(wanted);
    this.panel.replaceChildren(head, el('p', { class: 'dim loading', text: 'Loading…' }));
    this.showVerdicts();
    this.panel.scrollTop = 0;
    this.panel.querySelector('h2').focus({ preventScroll: true });
    const body = await this.recordBody(wanted);
    if (this.opened === wanted) {
      this.panel.replaceChildren(head, el('div', { class: 'record-body' }, body));
      this.showVerdicts();
      this.goToPlace();
    }
    document.documentElement.dataset.opened = String(wanted.index);
  }

  showPosition() {
    const at = this.listed.indexOf(this.opened);
    this.position.textContent = at < 0 ? 'not in this list' : `${wholeText(at + 1)} of ${wholeText(this.listed.length)}`;
  }

  // Scrolls to the trial and the step that the address names.
  goToPlace() {
    const { trial, step } = this.view;
    if (trial === null && step === null) return;
    if (trial !== null) this.panel.querySelector('.side-by-side')?.showAll?.();
    const column = trial === null ? this.panel : this.panel.querySelector(`[data-trial="${trial}"]`);
    const list = column && column.querySelector('ol.steps');
    if (list && step !== null) goToStep(list, step);
    else if (column) column.scrollIntoView({ block: 'start', inline: 'nearest' });
  }

  hitsIn(record) {
    const words = searchWords(this.view.filter.get('q'));
    return words.length ? hitList(record, words, ({ trial, step }) => this.addressOf(record.id, { trial, step })) : null;
  }

  markHits() {
    const words = searchWords(this.view.filter.get('q'));
    markHits('hits-in-table', this.table.body, words);
    markHits('hits-in-record', this.panel, words);
  }

  async recordBody(row) {
    try {
      const line = await this.records.line(row.index);
      if (line === null) return [el('p', { class: 'notice', text: 'This record is listed, but its contents did not fit on the page. A page with fewer records has room for it.' })];
      const record = JSON.parse(line);
      return RECORD_BODIES[this.data.kind](record, line, row, this);
    } catch (error) {
      return [el('p', { class: 'notice', text: `This record cannot be shown: ${error.message}` })];
    }
  }

  panelHead(row) {
    const close = button('✕', () => this.close(), { class: 'small', 'aria-label': 'Close', title: 'Esc' });
    const title = el('h2', { id: 'record-title', tabindex: '-1' }, row ? el('bdi', { text: clip(row.id, 300) }) : 'Not found');
    if (!row) return el('div', { class: 'record-head' }, el('div', { class: 'record-line' }, title, close));
    this.position = el('span', { class: 'dim' });
    this.showPosition();
    const link = button('Copy link', () => copyText(location.href, link), { class: 'small' });
    const raw = button('Raw text', () => {
      showRawProse(!rawProse());
      raw.setAttribute('aria-pressed', String(rawProse()));
    }, { class: 'small', 'aria-pressed': String(rawProse()), title: 'Show the Markdown source: r' });
    raw.id = 'raw-text';
    const wide = button('Widen', () => document.body.classList.toggle('wide'), { class: 'small wide-only' });
    return el('div', { class: 'record-head' },
      el('div', { class: 'record-line' }, this.labels ? tellsVerdict(statusBadge(row.status), row.id) : statusBadge(row.status), title, row.groups.length > 0 && el('span', { class: 'tag', text: clip(row.groups.join(', '), 60) })),
      el('div', { class: 'record-actions' },
        button('↑', () => this.move(-1), { class: 'small', 'aria-label': 'Previous record', title: 'k' }),
        button('↓', () => this.move(1), { class: 'small', 'aria-label': 'Next record', title: 'j' }),
        this.position,
        raw, link, wide, close));
  }

  // --- start ---

  async start() {
    showOverview(this.data, (key, value) => {
      this.set(key, value);
      if (this.toolbar.element.getBoundingClientRect().bottom > innerHeight) this.toolbar.element.scrollIntoView();
    }, this);
    this.panel.setAttribute('role', 'dialog');
    this.panel.setAttribute('aria-labelledby', 'record-title');
    this.toolbar = new Toolbar(this.data, this);
    const list = document.getElementById('list');
    await readValues('rows', (values) => this.takeRows(values));
    this.columns = columnsOf(this.data, this.rows);
    const label = this.columns.find(({ name }) => name === 'label');
    if (label) label.key = (row) => [...labelStates(row, this.labels)].filter((state) => state !== 'none').join();
    this.table = new RowTable(shownColumns(this.columns, this.chosenColumns), this);
    this.toolbar.tail.append(...this.listActions());
    if (this.data.kind === 'trials') showTrialsCard(this);
    list.replaceChildren(this.toolbar.element, this.table.element);
    this.toolbar.offer(this.rows);
    this.fitColumns();
    addEventListener('resize', () => {
      if (innerWidth === this.fittedTo) return;
      this.fitColumns();
      this.apply();
    });
    this.readAddress();
    addEventListener('hashchange', () => this.readAddress());
    addEventListener('keydown', (event) => handleKey(event, this));
    addEventListener('beforeprint', () => this.unfold());
    let marking = 0;
    new MutationObserver(() => {
      cancelAnimationFrame(marking);
      marking = requestAnimationFrame(() => this.markHits());
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
    document.documentElement.dataset.ready = 'rows';
    performance.mark('rows');
    this.showLimits();
    follow(this.data.running, this);
    await readValues('texts', (values, first) => this.takeTexts(values, first));
    if (this.view.filter.has('q')) this.apply();
    document.documentElement.dataset.ready = 'all';
    performance.mark('all');
  }

  // What can be done with the records that are listed.
  listActions() {
    const copy = button('Copy', () => copyListed(this, copy), { class: 'small', title: 'Copy the records that are listed, as JSON Lines' });
    const save = button('Download', () => downloadListed(this), { class: 'small', title: 'Download the records that are listed, as JSON Lines' });
    if (!this.labels) return [columnMenu(this), copy, save];
    this.labelButton = button('Label records', () => this.label(!this.labelling), { class: 'small', 'aria-pressed': 'false', title: 'Decide for each record whether it passes, without seeing the graders’ verdict first' });
    this.saveLabels = button(`Download ${plural(this.labels.size, 'label')}`, () => download('labels.jsonl', this.labels.lines()), { class: 'small', hidden: !this.labels.size, title: 'labels.jsonl, for ae-calibrate --labels and ae-grade --labels' });
    return [this.labelButton, this.saveLabels, columnMenu(this), copy, save];
  }

  async showLimits() {
    const { records, listed, trajectories, noun } = this.data;
    if (listed < records) notice(`The table lists the first ${wholeText(listed)} of ${plural(records, noun)}; the figures cover all of them.`);
    if (!trajectories) notice('The agents’ steps are not on this page (--no-trajectories).');
    await pageLoaded;
    const leftOut = JSON.parse(document.getElementById('left-out').textContent);
    if (leftOut) notice(`The page is full: ${plural(leftOut, noun)} at the end of the table cannot be opened. ${this.data.kind === 'comparison' ? 'Compare fewer prompts at a time' : 'ae-format --limit N or --no-trajectories makes a smaller page'}.`);
  }
}

const RECORD_BODIES = { results: resultBody, trials: trialsBody, comparison: comparisonBody };

if (typeof DecompressionStream === 'undefined') {
  notice('This browser cannot unpack the page’s data; use one from 2023 or later.');
} else {
  new Page(JSON.parse(document.getElementById('overview').textContent)).start();
}
