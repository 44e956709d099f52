import { useEffect, useEffectEvent } from 'react'
import { createStore } from './store.ts'

/**
 * The keyboard shortcuts of the console, and the choice to turn off those that begin with a letter. Components register theirs with
 * `useKey`; `main.tsx` starts the one listener for the page.
 * Invariant: a letter typed into a field never triggers a shortcut.
 */

/** Declared before its first use: the module reads the choice while it loads. */
const STORAGE_KEY = 'collet-single-keys'

/** Whether letters act as shortcuts, alone and in sequences. People who use speech input turn them off (WCAG 2.1.4). */
export const singleKeys = createStore(read() !== 'off')

export function setSingleKeys(isOn: boolean): void {
  singleKeys.set(isOn)
  try {
    localStorage.setItem(STORAGE_KEY, isOn ? 'on' : 'off')
  } catch {
    // Without storage, the choice lasts until the page is left.
  }
}

/**
 * Runs a function on a key press while the component is mounted. `keys` is a key (`j`, `?`, `Escape`), a combination (`mod+k`:
 * Command on a Mac, Control elsewhere) or a sequence (`g c`). The component mounted last wins. Letters work only outside fields,
 * dialogs and menus, and only while `singleKeys` is on.
 */
export function useKey(keys: string, act: (event: KeyboardEvent) => void, isOn = true): void {
  const latest = useEffectEvent(act)
  useEffect(() => {
    if (!isOn) return undefined
    const binding: Binding = { keys, act: (event) => latest(event) }
    bindings.unshift(binding)
    return () => {
      bindings.splice(bindings.indexOf(binding), 1)
    }
  }, [keys, isOn])
}

interface Binding {
  readonly keys: string
  readonly act: (event: KeyboardEvent) => void
}

/** How long `g` waits for its second letter. */
const SEQUENCE_MS = 1200

/** The newest binding is first. */
const bindings: Binding[] = []
let previous: { readonly key: string; readonly at: number } | undefined

/** Adds the one listener for the whole page. */
export function listenToKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return
    const found = find(event)
    previous = event.key.length === 1 ? { key: event.key, at: event.timeStamp } : undefined
    if (found === undefined) return
    previous = undefined
    event.preventDefault()
    found.act(event)
  })
}

function find(event: KeyboardEvent): Binding | undefined {
  // An editor is in a shadow root, so the target of its events is its host.
  const [target = null] = event.composedPath()
  if (event.metaKey || event.ctrlKey) return bindingFor(`mod+${event.key.toLowerCase()}`)
  if (event.altKey) return undefined
  if (event.key.length > 1) return isInDialog(target) ? undefined : bindingFor(event.key)
  if (!singleKeys.get() || isInField(target) || isInDialog(target)) return undefined
  const isSecond = previous !== undefined && event.timeStamp - previous.at < SEQUENCE_MS
  return (isSecond ? bindingFor(`${previous?.key} ${event.key}`) : undefined) ?? bindingFor(event.key)
}

function bindingFor(keys: string): Binding | undefined {
  return bindings.find((binding) => binding.keys === keys)
}

function isInField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null
  )
}

/** Inside a dialog or menu, only shortcuts with Command or Control work. */
function isInDialog(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('[role="dialog"], [role="menu"]') !== null
}

function read(): string | null {
  try {
    return localStorage.getItem(STORAGE_KEY)
  } catch {
    return null
  }
}
