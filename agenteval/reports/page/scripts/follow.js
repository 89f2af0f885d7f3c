// A page of a run that is not finished: it says so, and loads itself again while nobody reads a record or types.

const SCROLLED = 'agenteval-scrolled';

function follow(running, page) {
  if (!running) return;
  notice(running.text);
  if (!running.reload) return;
  try {
    const at = sessionStorage.getItem(SCROLLED);
    if (at !== null) scrollTo(0, Number(at));
  } catch { /* a page from disk may have no storage */ }
  setInterval(() => {
    const typing = document.activeElement?.matches('input, select, textarea');
    if (document.hidden || typing || !page.panel.hidden || String(getSelection())) return;
    try {
      sessionStorage.setItem(SCROLLED, String(scrollY));
    } catch { /* a page from disk may have no storage */ }
    location.reload(); // with the view, which is in the address
  }, running.reload * 1000);
}
