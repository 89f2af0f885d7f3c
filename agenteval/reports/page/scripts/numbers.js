// Figures as text, in the words of the other reports.

function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

function durationText(ms) {
  if (!isNumber(ms)) return '';
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59995) return `${(ms / 1000).toFixed(2)} s`;
  if (ms > 3.6e10) return `${(ms / 3.6e6).toPrecision(4)} h`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${String(seconds % 60).padStart(2, '0')}s`;
  return `${Math.floor(minutes / 60)}h ${String(minutes % 60).padStart(2, '0')}m`;
}

function wholeText(value) {
  if (!isNumber(value)) return '';
  return Math.abs(value) < 1e15 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(4);
}

function shortCount(value) {
  if (!isNumber(value)) return '';
  if (value < 10000) return wholeText(value);
  if (value < 1e6) return `${(value / 1e3).toFixed(1)}k`;
  if (value < 1e9) return `${(value / 1e6).toFixed(1)}M`;
  return value < 1e15 ? `${(value / 1e9).toFixed(1)}G` : value.toPrecision(3);
}

function costText(value) {
  return isNumber(value) ? `$${Math.abs(value) < 1e15 ? value.toFixed(value < 1 ? 4 : 2) : value.toPrecision(4)}` : '';
}

function scoreText(value) {
  return isNumber(value) ? value.toFixed(3) : '';
}

function percentText(value) {
  return isNumber(value) ? `${(value * 100).toFixed(1)}%` : '';
}

function sizeText(characters) {
  if (characters < 1000) return `${characters} characters`;
  return characters < 1e6 ? `${(characters / 1e3).toFixed(1)} kB` : `${(characters / 1e6).toFixed(1)} MB`;
}

function plural(count, noun) {
  return `${wholeText(count)} ${noun}${count === 1 ? '' : 's'}`;
}
