import { existsSync, realpathSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SHARED_NETWORK } from '#sources/common/sandbox'
import type { LocatedPack } from './locate-pack.ts'
import type { Need, PackOptions } from './options.ts'

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
  /** Absolute path of a `bwrap` that works here. */
  readonly bwrap: string | undefined
}

const EVERYTHING = '*'

/** What Node and the programs of the machine are made of; nothing that anybody keeps data in. */
const SYSTEM = ['/usr', '/lib', '/lib64', '/bin', '/sbin', '/nix/store', '/etc/ld.so.cache', '/etc/localtime']
/** Where the network may be used: names, and whom to believe. */
const NETWORK = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/ssl']

/** The command line of a pack's process: in its sandbox, where there is one. */
export function childCommand(plan: ChildPlan): readonly string[] {
  const node = [process.execPath, ...nodeArguments(plan)]
  return plan.bwrap === undefined ? node : [plan.bwrap, ...sandboxArguments(plan), '--', ...node]
}

/** A command line that ends at once, and well if a sandbox of this kind can run Node here. */
export function probeCommand(plan: ChildPlan & { readonly bwrap: string }): readonly string[] {
  return [plan.bwrap, ...sandboxArguments(plan), '--', process.execPath, '--version']
}

/** Whether a pack in its sandbox has no way out but `ctx.fetch`; sockets that are files count as ways. */
export function isSealed({ grant }: Pick<PackOptions, 'grant'>): boolean {
  const ways: readonly Need[] = ['net.dns', 'net.outbound', 'fs.read', 'fs.write']
  return !ways.some((way) => grant.includes(way))
}

/**
 * Processes, network and mounts of its own. What it may not read is not there at all, so neither a link nor a socket in a folder
 * leads out, and other processes cannot be seen or signalled.
 */
function sandboxArguments(plan: ChildPlan): readonly string[] {
  const { grant } = plan.options
  const { reads, writes } = pathsOf(plan)
  const hasNetwork = grant.includes('net.dns') || grant.includes('net.outbound')
  const bindable = [...SYSTEM, ...(hasNetwork ? NETWORK : []), process.execPath, ...reads]
  return [
    ...(reads.includes(EVERYTHING)
      ? ['--ro-bind', '/', '/']
      : bindable.flatMap((path) => ['--ro-bind-try', path, path])),
    ...['--dev', '/dev', '--proc', '/proc', '--unshare-all', '--die-with-parent'],
    ...(hasNetwork ? SHARED_NETWORK : []),
    ...writes.flatMap((path) => ['--bind-try', path, path]),
    ...['--chdir', plan.pack.root],
  ]
}

function pathsOf({ pack, options, folder }: ChildPlan) {
  const { grant, readable, writable } = options
  const mayRead = grant.includes('fs.read')
  const reads =
    mayRead && readable === undefined
      ? [EVERYTHING]
      : [
          ...[...OWN_FILES, pack.own, ...modulesAbove(OWN_ROOT), ...modulesAbove(pack.root)],
          ...(mayRead ? (readable ?? []).map((path) => resolve(folder, path)) : []),
        ]
  const writes = grant.includes('fs.write') ? writable.map((path) => resolve(folder, path)) : []
  return { reads: [...new Set(reads)], writes }
}

/** Its caps, and Node's permission model for files and programs. Not for the network. */
function nodeArguments(plan: ChildPlan): readonly string[] {
  const { grant, memoryMb } = plan.options
  const { reads, writes } = pathsOf(plan)
  return [
    `--max-old-space-size=${memoryMb}`,
    '--permission',
    ...reads.map((path) => `--allow-fs-read=${path}`),
    ...writes.map((path) => `--allow-fs-write=${path}`),
    ...(grant.includes('subprocess') ? ['--allow-child-process'] : []),
    // `ATTACH` of a database reads and writes files that the permission model is not asked about.
    '--no-experimental-sqlite',
    '--disable-sigusr1',
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
