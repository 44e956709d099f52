import { stat } from 'node:fs/promises'
import { type Confinement, isReplaced, SANDBOX_BASE, SHARED_NETWORK } from '#sources/common/process'
import type { CommandBinding } from './discover.ts'

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
    ...SANDBOX_BASE,
    '--unshare-all',
    ...(network ? SHARED_NETWORK : []),
    ...[cwd, program].filter(isReplaced).flatMap((path) => ['--ro-bind', path, path]),
    ...writable.flatMap((path) => ['--bind', path, path]),
    ...(await Promise.all(hide.map(hidingArgs))).flat(),
    '--chdir',
    cwd,
  ]
}

async function hidingArgs(path: string): Promise<readonly string[]> {
  try {
    return (await stat(path)).isDirectory() ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path]
  } catch {
    return []
  }
}

/** The soft limit says why the process ends, the hard one ends it. No core files: they hold memory. */
function limitArgs({ cpuSeconds, memoryMb }: CommandBinding): readonly string[] {
  return [
    '--core=0',
    ...(cpuSeconds === null ? [] : [`--cpu=${cpuSeconds}:${cpuSeconds + 1}`]),
    ...(memoryMb === null ? [] : [`--as=${memoryMb * 1024 * 1024}`]),
  ]
}
