// Markdown of agents as elements: headings, lists, code, tables, quotes and emphasis. Links stay text, and so does HTML.

const BLOCK_MARK = /^ {0,3}(?:#{1,6} \S|```|~~~|[-*+] \S|\d{1,9}[.)] \S|> |\|)/m;
const INLINE_MARK = /\*\*\S|`[^`\n]+`|\]\(|(?:^|\s)[*_]\S/;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(?=\S)/;
const COLUMNS_LINE = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
// Each alternative looks at no more than a few hundred characters, so that no text takes long.
const INLINE = new RegExp([
  '\\\\([\\\\`*_{}\\[\\]()#+.!|>~-])',
  '(`{1,3})([^\\n]{1,400}?)\\2(?!`)',
  '(\\*\\*|__)(?=[^\\s*_])([^*\\n]{1,400})\\4',
  '\\*(?=[^\\s*])([^*\\n]{1,400})\\*',
  '(?<![\\p{L}\\p{N}_])_(?=[^\\s_])([^_\\n]{1,400})_(?![\\p{L}\\p{N}_])',
  '~~(?=\\S)([^~\\n]{1,400})~~',
  '(!?)\\[([^\\[\\]\\n]{0,300})\\]\\(([^()\\s]{1,600})(?: "[^"\\n]{0,200}")?\\)',
].join('|'), 'gu');
const DEEPEST = 5;
const MOST_LINES = 3000;

function isMarkdown(text) {
  const start = text.slice(0, 20000);
  return BLOCK_MARK.test(start) || INLINE_MARK.test(start);
}

function inlineNodes(text, depth = 0) {
  if (depth > 3) return [visible(text)];
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > last) nodes.push(visible(text.slice(last, found.index)));
    const [, escaped, , code, , strong, emphasis, emphasis2, struck, image, label, address] = found;
    if (escaped !== undefined) nodes.push(escaped);
    else if (code !== undefined) nodes.push(el('code', { text: code.trim() || code }));
    else if (strong !== undefined) nodes.push(el('strong', null, inlineNodes(strong, depth + 1)));
    else if (struck !== undefined) nodes.push(el('s', null, inlineNodes(struck, depth + 1)));
    else if (address !== undefined) nodes.push(...linkNodes(image ? `image: ${label}` : label, address, depth));
    else nodes.push(el('em', null, inlineNodes(emphasis ?? emphasis2, depth + 1)));
    last = found.index + found[0].length;
  }
  if (last < text.length) nodes.push(visible(text.slice(last)));
  return nodes;
}

// A link as text: what it says and where it would lead, so that neither can pass for the other.
function linkNodes(label, address, depth) {
  const target = el('span', { class: 'address', text: label === address ? address : ` (${address})` });
  return label === address ? [target] : [el('span', null, inlineNodes(label, depth + 1)), target];
}

function markdownNodes(text) {
  return blockNodes(text.split('\n', MOST_LINES).map((line) => line.replace(/\r$/, '').replace(/\t/g, '    ')), 0);
}

function blockNodes(lines, depth) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [node, next] = blockAt(lines, at, depth);
    nodes.push(node);
    at = next;
  }
  return nodes;
}

// The block that begins at a line, and the line after it.
function blockAt(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return codeBlock(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [el('p', { class: `md-heading md-heading-${heading[1].length}`, dir: 'auto' }, inlineNodes(heading[2].replace(/\s+#+\s*$/, ''))), at + 1];
  if (RULE.test(line)) return [el('hr'), at + 1];
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) {
    let end = at;
    while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
    return [el('blockquote', null, blockNodes(lines.slice(at, end).map((one) => one.replace(/^ {0,3}> ?/, '')), depth + 1)), end];
  }
  if (depth < DEEPEST && ITEM.test(line)) return listBlock(lines, at, depth);
  if (isTableAt(lines, at)) return tableBlock(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines, end, depth)) end += 1;
  return [el('p', { dir: 'auto' }, inlineNodes(lines.slice(at, end).join('\n'))), end];
}

function startsBlock(lines, at, depth) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || (depth < DEEPEST && (/^ {0,3}>/.test(line) || ITEM.test(line))) || isTableAt(lines, at);
}

function codeBlock(lines, at, [, mark, language]) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trimStart().startsWith(mark) && !lines[end].trim().replace(/[`~]/g, ''))) end += 1;
  const code = lines.slice(at + 1, end).join('\n');
  const paint = language === 'diff' || language === 'patch' || DIFF.test(code.slice(0, 4000)) ? paintDiff : language.startsWith('json') ? paintJson : null;
  return [el('pre', { class: paint === paintDiff ? 'code diff' : 'code', dir: 'ltr' }, paint ? paint(code) : code), end + 1];
}

// A list; what is indented below an item belongs to it.
function listBlock(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const list = el(ordered ? 'ol' : 'ul', ordered && parseInt(mark, 10) !== 1 ? { start: parseInt(mark, 10) } : null);
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next]);
    if (!found || found[1].length > indent.length + 1 || found[1].length < indent.length || /\d/.test(found[2]) !== ordered) break;
    const body = [lines[next].slice(found[0].length)];
    next += 1;
    while (next < lines.length && belongsTo(lines, next, found[1].length)) {
      body.push(lines[next].slice(Math.min(found[0].length, lines[next].search(/\S|$/))));
      next += 1;
    }
    list.append(listItem(body, depth));
    if (next < lines.length && !lines[next].trim() && ITEM.test(lines[next + 1] || '')) next += 1; // a blank line between items
  }
  return [list, next];
}

function belongsTo(lines, at, indent) {
  const line = lines[at];
  if (!line.trim()) return at + 1 < lines.length && lines[at + 1].search(/\S/) > indent;
  return line.search(/\S/) > indent;
}

function listItem(body, depth) {
  const task = /^\[([ xX])\] /.exec(body[0]);
  if (task) body[0] = `${task[1] === ' ' ? '☐' : '☑'} ${body[0].slice(4)}`;
  const nodes = blockNodes(body, depth + 1);
  if (nodes.length && nodes[0].tagName === 'P' && !nodes[0].className) nodes.splice(0, 1, ...nodes[0].childNodes);
  return el('li', { dir: 'auto' }, nodes);
}

function isTableAt(lines, at) {
  return lines[at].includes('|') && at + 1 < lines.length && lines[at + 1].includes('|') && lines[at + 1].length < 2000 && COLUMNS_LINE.test(lines[at + 1]);
}

function tableCells(line) {
  return line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).slice(0, 50).map((cell) => cell.trim().replace(/\\\|/g, '|'));
}

function tableBlock(lines, at) {
  const sides = tableCells(lines[at + 1]).map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'number') : null));
  const row = (line, tag) => el('tr', null, tableCells(line).map((cell, column) => el(tag, { class: sides[column], dir: 'auto' }, inlineNodes(cell))));
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) end += 1;
  const rows = lines.slice(at + 2, end).map((line) => row(line, 'td'));
  return [el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Table' }, el('table', { class: 'plain' }, el('thead', null, row(lines[at], 'th')), el('tbody', null, rows))), end];
}
