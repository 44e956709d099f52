import { stat } from 'node:fs/promises'
import { relative } from 'node:path'
import type { CommandBinding } from './binding.ts'
import { findProgram } from './find-program.ts'
import { runProcess } from './run-process.ts'

/** What this machine has for keeping commands in bounds. */
export interface Confinement {
  /** Absolute path of a `bwrap` that works here. */
  readonly bwrap: string | undefined
  /** Why there is none, for the operator. */
  readonly whyNot: string
  /** Absolute path of `prlimit`. */
  readonly prlimit: string | undefined
}

const PROBE_MS = 5_000

/** Looks for `bwrap` and `prlimit`; a `bwrap` that may not make namespaces here counts as none. */
export async function findConfinement(path: string): Promise<Confinement> {
  const place = { folder: '/', path }
  const prlimit = await findProgram('prlimit', place)
  const bwrap = await findProgram('bwrap', place)
  if (bwrap === undefined) return { bwrap, prlimit, whyNot: 'bubblewrap (bwrap) is not installed' }
  const works = await probe(bwrap)
  return {
    bwrap: works ? bwrap : undefined,
    prlimit,
    whyNot: works ? '' : 'bubblewrap (bwrap) cannot make namespaces here',
  }
}

async function probe(bwrap: string): Promise<boolean> {
  const args = [...BASE, '--unshare-all', '--ro-bind', bwrap, bwrap, '--', bwrap, '--version']
  try {
    const { exitCode } = await runProcess({
      ...{ file: bwrap, args, cwd: '/', env: {}, stdin: undefined },
      ...{ maxOutputBytes: 4_096, killGraceMs: 0, signal: AbortSignal.timeout(PROBE_MS) },
    })
    return exitCode === 0
  } catch {
    return false
  }
}

/** Everything can be read, nothing written; devices, processes and temporary files are its own. */
const BASE = [
  ...['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--tmpfs', '/run'],
  '--die-with-parent',
]

/** The command line that runs `argv` in the bounds of its binding. */
export async function confine(
  argv: readonly string[],
  binding: CommandBinding,
  { bwrap, prlimit }: Confinement,
): Promise<readonly string[]> {
  const inside =
    bwrap === undefined || binding.isolation === 'none'
      ? argv
      : [bwrap, ...(await sandboxArgs(binding)), '--', ...argv]
  return prlimit === undefined ? inside : [prlimit, ...limitArgs(binding), '--', ...inside]
}

async function sandboxArgs(binding: CommandBinding): Promise<readonly string[]> {
  const { network, cwd, program, writable, hide } = binding
  return [
    ...BASE,
    '--unshare-all',
    // Names are looked up with the help of a file there.
    ...(network ? ['--share-net', '--ro-bind-try', RESOLVER, RESOLVER] : []),
    // What lies below a folder that was just replaced would be gone.
    ...[cwd, program].filter(isReplaced).flatMap((path) => ['--ro-bind', path, path]),
    ...writable.flatMap((path) => ['--bind', path, path]),
    ...(await Promise.all(hide.map(hidingArgs))).flat(),
    '--chdir',
    cwd,
  ]
}

const RESOLVER = '/run/systemd/resolve'

async function hidingArgs(path: string): Promise<readonly string[]> {
  try {
    return (await stat(path)).isDirectory() ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path]
  } catch {
    return []
  }
}

function isReplaced(path: string): boolean {
  return ['/tmp', '/run'].some((folder) => {
    const below = relative(folder, path)
    return below !== '' && !below.startsWith('..')
  })
}

/** The soft limit says why the process ends, the hard one ends it. No core files: they hold memory. */
function limitArgs({ cpuSeconds, memoryMb }: CommandBinding): readonly string[] {
  return [
    '--core=0',
    ...(cpuSeconds === null ? [] : [`--cpu=${cpuSeconds}:${cpuSeconds + 1}`]),
    ...(memoryMb === null ? [] : [`--as=${memoryMb * 1024 * 1024}`]),
  ]
}
