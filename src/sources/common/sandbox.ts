import { relative } from 'node:path'
import { findProgram } from './find-program.ts'
import { runProcess } from './run-process.ts'

/** What this machine has for keeping programs in bounds. */
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

function probe(bwrap: string): Promise<boolean> {
  return endsWell([
    ...[bwrap, ...SANDBOX_BASE, '--unshare-all', '--ro-bind', bwrap, bwrap],
    ...['--', bwrap, '--version'],
  ])
}

/** Whether a command line can be run here, and says that all is well. */
export async function endsWell([file = '', ...args]: readonly string[]): Promise<boolean> {
  try {
    const { exitCode } = await runProcess({
      ...{ file, args, cwd: '/', env: {}, stdin: undefined },
      ...{ maxOutputBytes: 4_096, killGraceMs: 0, signal: AbortSignal.timeout(PROBE_MS) },
    })
    return exitCode === 0
  } catch {
    return false
  }
}

/** Everything can be read, nothing written; devices, processes and temporary files are its own. */
export const SANDBOX_BASE = [
  ...['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--tmpfs', '/run'],
  '--die-with-parent',
]

/** With the network: names are looked up with the help of a file there. */
export const SHARED_NETWORK = ['--share-net', '--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve']

/** What lies below a folder that `SANDBOX_BASE` replaces would be gone. */
export function isReplaced(path: string): boolean {
  return ['/tmp', '/run'].some((folder) => {
    const below = relative(folder, path)
    return below !== '' && !below.startsWith('..')
  })
}
