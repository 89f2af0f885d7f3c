// The keyboard: j and k, /, Enter, Esc and ?.

const KEYS = [
  ['j / k', 'next or previous record, also while one is open'],
  ['Enter', 'open the record'],
  ['Esc', 'close the record, or leave and clear the search'],
  ['/', 'search'],
  ['e', 'unfold everything in the open record'],
  ['r', 'show the text of the open record raw, or as Markdown'],
  ['p f u', 'while labelling: pass, fail or unsure'],
  ['?', 'this list'],
];

function showHelp(open) {
  const help = document.getElementById('help');
  help.hidden = !open;
  if (!open) return;
  const close = button('Close', () => showHelp(false), { class: 'small' });
  help.replaceChildren(el('div', { role: 'dialog', 'aria-modal': 'true', 'aria-label': 'Keyboard', class: 'card' },
    el('h2', { text: 'Keyboard' }),
    el('dl', { class: 'keys' }, KEYS.map(([key, what]) => el('div', null, el('dt', { text: key }), el('dd', { text: what })))),
    close));
  close.focus();
}

function handleKey(event, page) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest('input, select, textarea');
  const helping = !document.getElementById('help').hidden;
  if (event.key === 'Escape') {
    if (helping) showHelp(false);
    else if (typing && typing.id === 'search') page.leaveSearch();
    else if (page.isOpen()) page.close();
    else if (page.view.filter.size) page.clear();
    return;
  }
  if (typing && typing.id === 'search' && event.key === 'Enter') {
    page.leaveSearch(true);
    event.preventDefault();
    return;
  }
  if (typing || helping) return;
  const actions = {
    j: () => page.move(1),
    k: () => page.move(-1),
    '/': () => page.focusSearch(),
    '?': () => showHelp(true),
    e: () => page.unfold(),
    r: () => (page.isOpen() ? document.getElementById('raw-text').click() : null),
    Enter: () => (event.target.closest('a, button, summary') ? null : page.openCurrent()),
  };
  const bar = page.labelling && page.isOpen() ? document.querySelector('.record-head .label-bar') : null;
  for (const word of bar ? Object.keys(LABEL_NAMES) : []) actions[word[0]] = () => { bar.choose(word); };
  const inTable = event.target.closest('table.rows');
  if (inTable && event.key === 'ArrowDown') actions.ArrowDown = actions.j;
  if (inTable && event.key === 'ArrowUp') actions.ArrowUp = actions.k;
  if (!Object.hasOwn(actions, event.key)) return;
  if (actions[event.key]() !== null) event.preventDefault();
}
