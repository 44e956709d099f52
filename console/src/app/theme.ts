import { createStore } from '../store.ts'

/*
 * The light or dark theme. Used by several modules. A theme that equals the computer's setting is stored as `system`.
 */

/** `system` follows the computer's setting. */
export type Theme = 'system' | 'light' | 'dark'

/** The name in local storage. `public/theme.js` reads the theme before the first paint. */
const STORAGE_KEY = 'collet-theme'

export const theme = createStore<Theme>(initialTheme())

export function setTheme(next: Theme): void {
  const { dataset } = document.documentElement
  if (next === 'system') delete dataset.theme
  else dataset.theme = next
  try {
    if (next === 'system') localStorage.removeItem(STORAGE_KEY)
    else localStorage.setItem(STORAGE_KEY, next)
  } catch {
    // Without storage the choice lasts until the page is left.
  }
  theme.set(next)
}

/** Switches between light and dark. */
export function toggleTheme(): void {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  const shown = theme.get() === 'system' ? system : theme.get()
  const next = shown === 'dark' ? 'light' : 'dark'
  setTheme(next === system ? 'system' : next)
}

function initialTheme(): Theme {
  const { theme: kept } = document.documentElement.dataset
  return kept === 'light' || kept === 'dark' ? kept : 'system'
}
