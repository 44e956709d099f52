// Runs before the first paint, so that a page kept dark is never light for a moment. `src/app/theme.ts` writes what is read here.
try {
  const kept = localStorage.getItem('collet-theme')
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept
} catch {
  // A browser that keeps nothing shows the theme of the system.
}
