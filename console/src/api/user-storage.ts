/**
 * Data that the browser stores for the signed-in person: never an input, an outcome or a secret. It is removed at sign-out and
 * when another person signs in. The theme and the keyboard setting are stored elsewhere, because they are not personal.
 */
const PREFIX = 'collet-user '

/** `window`: until the window is closed. `browser`: until it is removed. */
export type StorageKind = 'window' | 'browser'

export function store(kind: StorageKind, name: string, text: string): void {
  try {
    storageOf(kind).setItem(PREFIX + name, text)
  } catch {
    // Storage is unavailable. Nothing requires it.
  }
}

export function readStored(kind: StorageKind, name: string): string | undefined {
  try {
    return storageOf(kind).getItem(PREFIX + name) ?? undefined
  } catch {
    return undefined
  }
}

export function removeStored(kind: StorageKind, name: string): void {
  try {
    storageOf(kind).removeItem(PREFIX + name)
  } catch {}
}

export function removeAllStored(): void {
  for (const kind of ['window', 'browser'] as const)
    try {
      const storage = storageOf(kind)
      for (const name of Object.keys(storage)) if (name.startsWith(PREFIX)) storage.removeItem(name)
    } catch {}
}

function storageOf(kind: StorageKind): Storage {
  return kind === 'window' ? sessionStorage : localStorage
}
