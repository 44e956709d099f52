import { existsSync, globSync } from 'node:fs'
import { relative, resolve } from 'node:path'

const GLOB_CHARACTERS = /[*?[\]{}!]/
/** Files a glob takes in by accident: they hold no tools and cannot be imported here. */
const NOT_TOOLS = /\.(d\.[cm]?ts|(test|spec)\.[cm]?[jt]s|map)$/

/** The files a `tools` entry names, absolute and sorted; empty when there are none. */
export function findToolFiles(entry: string, folder: string): readonly string[] {
  const whole = resolve(folder, entry)
  if (!GLOB_CHARACTERS.test(entry) || existsSync(whole)) return existsSync(whole) ? [whole] : []
  return globSync(entry, { cwd: folder })
    .filter((name) => !NOT_TOOLS.test(name))
    .map((name) => resolve(folder, name))
    .sort((left, right) => (relative(folder, left) < relative(folder, right) ? -1 : 1))
}
