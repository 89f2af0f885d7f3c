// What is listed, as JSON Lines: copied, or downloaded as a file.

const MOST_COPIED = 20e6; // characters

// The lines of the records that are listed, in their order; those that are not in the page are left out.
async function listedLines(page) {
  const wanted = new Set(page.listed.map(({ index }) => index));
  const lines = new Map();
  for (const { block, first, count } of await page.records.all()) {
    if (!page.listed.some(({ index }) => first <= index && index < first + count)) continue;
    (await unpackLines(block)).forEach((line, at) => { if (wanted.has(first + at)) lines.set(first + at, line); });
  }
  return page.listed.filter(({ index }) => lines.has(index)).map(({ index }) => lines.get(index));
}

async function copyListed(page, from) {
  const text = (await listedLines(page)).map((line) => `${line}\n`).join('');
  if (text.length > MOST_COPIED) notice(`${sizeText(text.length)} is too much to copy: download it instead.`);
  else await copyText(text, from);
}

async function downloadListed(page) {
  download(`${fileName(page.data)}.jsonl`, (await listedLines(page)).map((line) => `${line}\n`));
}

// A name for a file, from the title of the page.
function fileName(data) {
  return data.title.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^[-.]+|-+$/g, '').slice(0, 60) || 'records';
}

function download(name, parts) {
  const link = el('a', { download: name });
  link.href = URL.createObjectURL(new Blob(parts, { type: 'application/x-ndjson' }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
