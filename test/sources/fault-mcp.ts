import { fileURLToPath } from 'node:url'

const SERVER = fileURLToPath(new URL('./fault-mcp-server.ts', import.meta.url))

/** Options of a source that starts a server with these faults. */
export function faulty(faults: string, more: readonly string[] = []) {
  return {
    command: process.execPath,
    args: ['--disable-warning=ExperimentalWarning', SERVER, faults, ...more],
  }
}

/** The JSON that the fault server writes as text. */
export function contentOf(value: unknown): unknown {
  const { content } = value as { readonly content: readonly { readonly text: string }[] }
  return JSON.parse(content[0]?.text ?? 'null')
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
