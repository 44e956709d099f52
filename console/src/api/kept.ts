/**
 * What the browser stores for the signed-in person: never an input, an outcome or a secret. It is removed at sign-out and when
 * another person signs in. The look of the page is stored elsewhere, because it is not personal.
 */
const THEIRS = 'collet-yours '

/** `window` lasts as long as its window, `browser` longer. */
export type KeptBy = 'window' | 'browser'

export function keep(by: KeptBy, name: string, text: string): void {
  try {
    storageOf(by).setItem(THEIRS + name, text)
  } catch {
    // Storage is unavailable; nothing depends on it.
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
  } catch {}
}

export function forgetAllKept(): void {
  for (const by of ['window', 'browser'] as const)
    try {
      const storage = storageOf(by)
      for (const name of Object.keys(storage)) if (name.startsWith(THEIRS)) storage.removeItem(name)
    } catch {}
}

function storageOf(by: KeptBy): Storage {
  return by === 'window' ? sessionStorage : localStorage
}
