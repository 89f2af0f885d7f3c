// Images that tools gave back: only those whose bytes are in the record, and only in forms that cannot run anything.

const IMAGE_TYPE = /^image\/(?:png|jpeg|gif|webp|avif|bmp)$/;
const IMAGE_ADDRESS = /^data:(image\/[a-z]{3,5});base64,([A-Za-z0-9+/=\s]{1,})$/;
const LARGEST_IMAGE = 20e6;

// The type and the base64 text of an image in the forms of Anthropic, OpenAI, MCP and ACP; null if it is none.
function imageOf(value) {
  if (value === null || typeof value !== 'object') return null;
  const source = value.source !== null && typeof value.source === 'object' ? value.source : {};
  const address = [value.image_url && value.image_url.url, value.image_url, value.url, source.url, value.image].find((one) => typeof one === 'string');
  let [type, data] = [source.media_type || value.mimeType || value.mime_type || value.media_type, source.data || value.data];
  const found = typeof address === 'string' && address.length < LARGEST_IMAGE ? IMAGE_ADDRESS.exec(address) : null;
  if (found) [, type, data] = found;
  if (typeof type !== 'string' || typeof data !== 'string' || !IMAGE_TYPE.test(type) || data.length > LARGEST_IMAGE) return null;
  return /^[A-Za-z0-9+/=\s]+$/.test(data) ? { type, data: data.replace(/\s/g, '') } : null;
}

function imageBlock({ type, data }) {
  const size = sizeText(Math.floor((data.length * 3) / 4));
  const picture = el('img', { src: `data:${type};base64,${data}`, alt: `Image in the output, ${type.slice(6)}, ${size}`, class: 'image', loading: 'lazy' });
  return el('figure', { class: 'picture' }, picture, el('figcaption', { class: 'note', text: `${type.slice(6).toUpperCase()}, ${size}` }));
}
