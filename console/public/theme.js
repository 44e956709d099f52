// Runs before the first paint, so that a dark page does not flash. `src/app/theme.ts` writes this item.
try {
  const kept = localStorage.getItem('collet-theme')
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept
} catch {
  // Without storage the page has the theme of the system.
}
