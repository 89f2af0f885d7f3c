// Elements are built here and nowhere else: text of agents only ever becomes a text node or an attribute value.

const SVG = 'http://www.w3.org/2000/svg';
// Controls that move or reorder text: shown as pictures or code points, so that nothing can pass for something else.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]/g;

function visible(text) {
  return String(text).replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? '\u2421' : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

function clip(text, limit) {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

function oneLine(text, limit) {
  return clip(visible(text.slice(0, limit * 4).replace(/\s+/g, ' ').trim()), limit);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = visible(value);
    else if (name === 'on') for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === 'css') for (const [property, setting] of Object.entries(value)) element.style.setProperty(property, setting);
    else element.setAttribute(name, value === true ? '' : typeof value === 'string' ? visible(value) : value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === 'object' ? child : visible(child));
  }
  return element;
}

function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function button(label, onClick, properties) {
  return el('button', { type: 'button', on: { click: onClick }, ...properties }, label);
}

async function copyText(text, from) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el('textarea', { class: 'offscreen', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand('copy');
    area.remove();
  }
  const before = from.textContent;
  from.textContent = copied ? 'Copied' : 'Copying is not allowed here';
  setTimeout(() => { from.textContent = before; }, 1500);
}
