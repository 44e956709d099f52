import { type ChildProcess, spawn } from 'node:child_process'

export interface ChildCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Groups that must not outlive us, whatever ends this process. */
const LIVING = new Set<number>()
let isWatching = false

/** Starts a program as the head of a process group of its own, so that it can be ended with all it starts. */
export function startGroup({ command, args, cwd, env }: ChildCommand): ChildProcess {
  const child = spawn(command, [...args], {
    cwd,
    env,
    detached: true,
    shell: false,
    windowsHide: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const { pid } = child
  if (pid === undefined) return child
  if (!isWatching) {
    isWatching = true
    process.on('exit', () => {
      for (const group of LIVING) signalGroup(group, 'SIGKILL')
    })
  }
  LIVING.add(pid)
  // What the head leaves behind goes with it; its number is not given to others while members live.
  child.once('exit', () => {
    signalGroup(pid, 'SIGKILL')
    LIVING.delete(pid)
  })
  return child
}

export function signalGroup(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // Nobody is left in the group.
  }
}
