/**
 * What the browser keeps for the one who looks at the page: never an input, an outcome or a secret. It goes when they sign out and
 * when somebody else signs in over the page. How the page looks is not theirs alone, and is kept elsewhere.
 */
const THEIRS = 'collet-yours '

/** `window` is forgotten with its window, `browser` is not. */
export type KeptBy = 'window' | 'browser'

export function keep(by: KeptBy, name: string, text: string): void {
  try {
    storageOf(by).setItem(THEIRS + name, text)
  } catch {
    // A browser that keeps nothing does without.
  }
}

export function kept(by: KeptBy, name: string): string | undefined {
  try {
    return storageOf(by).getItem(THEIRS + name) ?? undefined
  } catch {
    return undefined
  }
}

export function forget(by: KeptBy, name: string): void {
  try {
    storageOf(by).removeItem(THEIRS + name)
  } catch {
    // Nothing was kept.
  }
}

export function forgetAllKept(): void {
  for (const by of ['window', 'browser'] as const)
    try {
      const storage = storageOf(by)
      for (const name of Object.keys(storage)) if (name.startsWith(THEIRS)) storage.removeItem(name)
    } catch {
      // Nothing was kept.
    }
}

function storageOf(by: KeptBy): Storage {
  return by === 'window' ? sessionStorage : localStorage
}
