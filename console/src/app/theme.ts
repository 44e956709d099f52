import { createStore } from '../store.ts'

/** `system` follows the setting of the computer. */
type Theme = 'system' | 'light' | 'dark'

/** `public/theme.js` reads it before the first paint. */
const KEPT_AS = 'collet-theme'

const theme = createStore<Theme>(chosen())

function setTheme(next: Theme): void {
  const { dataset } = document.documentElement
  if (next === 'system') delete dataset.theme
  else dataset.theme = next
  try {
    if (next === 'system') localStorage.removeItem(KEPT_AS)
    else localStorage.setItem(KEPT_AS, next)
  } catch {
    // Without storage the choice lasts until the page is left.
  }
  theme.set(next)
}

/** Switches between light and dark; the one that equals the computer's setting becomes `system`. */
export function toggleTheme(): void {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  const shown = theme.get() === 'system' ? system : theme.get()
  const next = shown === 'dark' ? 'light' : 'dark'
  setTheme(next === system ? 'system' : next)
}

function chosen(): Theme {
  const { theme: kept } = document.documentElement.dataset
  return kept === 'light' || kept === 'dark' ? kept : 'system'
}
