// The data of the page: blocks of lines, packed by ae-format, unpacked by the browser when they are needed.

const KEPT_BLOCKS = 6;

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

async function unpackLines(block) {
  const packed = new Blob([bytesOf(block.textContent)]).stream();
  const text = await new Response(packed.pipeThrough(new DecompressionStream('deflate'))).text();
  return text.slice(0, -1).split('\n');
}

function blocksOf(kind) {
  return Array.from(document.querySelectorAll(`script[data-${kind}]`), (block) => {
    const [first, count] = block.dataset[kind].split(',').map(Number);
    return { block, first, count };
  });
}

const pageLoaded = new Promise((resolve) => {
  if (document.readyState !== 'loading') resolve();
  else document.addEventListener('DOMContentLoaded', resolve, { once: true });
});

async function readValues(kind, take) {
  for (const { block, first } of blocksOf(kind)) {
    const lines = await unpackLines(block);
    take(JSON.parse(`[${lines.join(',')}]`), first);
  }
}

class RecordStore {
  constructor() {
    this.blocks = null;
    this.unpacked = new Map(); // the blocks used last, by their first record
  }

  async all() {
    await pageLoaded;
    this.blocks = this.blocks || blocksOf('records');
    return this.blocks;
  }

  // The line of a record, as it was in the file; null if it is not in the page.
  async line(index) {
    const blocks = await this.all();
    const found = blocks.find(({ first, count }) => first <= index && index < first + count);
    if (!found) return null;
    let lines = this.unpacked.get(found.first);
    if (!lines) {
      lines = unpackLines(found.block);
      this.unpacked.set(found.first, lines);
      if (this.unpacked.size > KEPT_BLOCKS) this.unpacked.delete(this.unpacked.keys().next().value);
    }
    return (await lines)[index - found.first];
  }
}
