import { type FSWatcher, readdirSync, statSync, watch } from 'node:fs'
import { join, relative } from 'node:path'

const DEBOUNCE_MS = 150
/** A project with more folders than this is probably not what was meant; watching all would be slow. */
const MOST_FOLDERS = 1_000
const SOURCE = /\.([cm]?[jt]s|json)$/
const IGNORED_FOLDERS: ReadonlySet<string> = new Set(['node_modules', 'dist', 'coverage'])

/**
 * Tells of changed source files in a folder and below, once per burst. Leaves out node_modules, build output and
 * dot folders (among them the data folder). Gives the way to stop.
 */
export function watchFolder(folder: string, onChange: (file: string) => void): () => void {
  const watchers = new Map<string, FSWatcher>()
  let timer: NodeJS.Timeout | undefined
  /** What a burst began with. */
  let first: string | undefined

  const add = (path: string): void => {
    if (watchers.has(path) || watchers.size >= MOST_FOLDERS) return
    const watcher = watch(path, (_, name) => notice(path, name))
    // A folder that goes away takes its watcher with it.
    watcher.on('error', () => drop(path))
    watchers.set(path, watcher)
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isDirectory() && isWatched(entry.name)) add(join(path, entry.name))
    }
  }
  const drop = (path: string): void => {
    watchers.get(path)?.close()
    watchers.delete(path)
  }
  const notice = (path: string, name: string | null): void => {
    if (name === null) return
    const file = join(path, name)
    if (SOURCE.test(name)) remember(file)
    else if (isWatched(name) && isFolder(file)) addLater(file)
  }
  /** Files may have come before the watcher; and the folder may be gone again. */
  const addLater = (path: string): void => {
    try {
      add(path)
      const source = readdirSync(path).find((name) => SOURCE.test(name))
      if (source !== undefined) remember(join(path, source))
    } catch {
      drop(path)
    }
  }
  const remember = (file: string): void => {
    first ??= relative(folder, file)
    clearTimeout(timer)
    timer = setTimeout(tell, DEBOUNCE_MS)
  }
  const tell = (): void => {
    const changed = first
    first = undefined
    if (changed !== undefined) onChange(changed)
  }

  add(folder)
  return () => {
    clearTimeout(timer)
    for (const path of [...watchers.keys()]) drop(path)
  }
}

function isWatched(name: string): boolean {
  return !name.startsWith('.') && !IGNORED_FOLDERS.has(name)
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
