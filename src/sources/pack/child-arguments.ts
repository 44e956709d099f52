import { existsSync, realpathSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LocatedPack } from './locate-pack.ts'
import type { PackOptions } from './options.ts'

const IS_SOURCE = import.meta.url.endsWith('.ts')
const CHILD = fileURLToPath(new URL(IS_SOURCE ? './child.ts' : './child.js', import.meta.url))
/** `dist/sources/pack` or `src/sources/pack` lies three below it. */
const OWN_ROOT = resolve(dirname(CHILD), '../../..')
/** Not the whole package: a server that runs from its sources keeps its data beside them. */
const OWN_FILES = [resolve(dirname(CHILD), '../..'), join(OWN_ROOT, 'package.json')]

export interface ChildPlan {
  readonly pack: LocatedPack
  readonly options: PackOptions
  /** Relative paths of the options start here. */
  readonly folder: string
}

/** How a pack's process is started: its caps, and Node's permission model for files and programs. Not for the network. */
export function childArguments({ pack, options, folder }: ChildPlan): readonly string[] {
  const { grant, readable, writable, memoryMb } = options
  const mayRead = grant.includes('fs.read')
  const reads =
    mayRead && readable === undefined
      ? ['*']
      : [
          ...[...OWN_FILES, pack.own, ...modulesAbove(OWN_ROOT), ...modulesAbove(pack.root)],
          ...(mayRead ? (readable ?? []).map((path) => resolve(folder, path)) : []),
        ]
  const writes = grant.includes('fs.write') ? writable.map((path) => resolve(folder, path)) : []
  return [
    `--max-old-space-size=${memoryMb}`,
    '--permission',
    ...[...new Set(reads)].map((path) => `--allow-fs-read=${path}`),
    ...writes.map((path) => `--allow-fs-write=${path}`),
    ...(grant.includes('subprocess') ? ['--allow-child-process'] : []),
    '--disable-warning=ExperimentalWarning',
    '--disable-warning=SecurityWarning',
    ...(IS_SOURCE ? ['--conditions=collet-source'] : []),
    CHILD,
  ]
}

/** Only what the operator names, and nothing at all without `env.read`. */
export function childEnvironment(
  { grant, env }: Pick<PackOptions, 'grant' | 'env'>,
  own: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  if (!grant.includes('env.read')) return {}
  return Object.fromEntries(
    env.flatMap((name) => {
      const value = own[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
}

/** Where its imports may be found; a package of a linked folder lies elsewhere than it seems to. */
function modulesAbove(folder: string): readonly string[] {
  const found: string[] = []
  for (let place = folder; ; place = dirname(place)) {
    const modules = join(place, 'node_modules')
    if (existsSync(modules)) found.push(modules, realpathSync(modules))
    if (dirname(place) === place) return found
  }
}
