import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Ended,
  type ProcessOptions,
  runCollet,
  type ServerProcess,
  startCollet,
} from './server-process.ts'

/** Every effect is a line outside the store; a run that waits for `go` ends when that file exists. */
const CONFIG = `
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

const here = (name) => new URL(name, import.meta.url)
const base = {
  [Symbol.for('collet.tool')]: true,
  description: 'Has an effect.',
  input: { type: 'object' },
  output: {},
  async run({ key, padding = 0, waits = false }) {
    appendFileSync(here('effects.log'), key + '\\n')
    while (waits && !existsSync(here('go'))) await wait(10)
    return { key, padding: 'x'.repeat(padding) }
  },
}
export default {
  server: { port: 0 },
  tools: [
    { ...base, id: 'Fault.Write@1.0.0' },
    { ...base, id: 'Fault.Idempotent@1.0.0', policy: { replay: 'idempotent' } },
    { ...base, id: 'Fault.Read@1.0.0', policy: { safetyTier: 'read' } },
  ],
}
`

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** Without the members that differ in each reply. */
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

export interface FaultInput {
  readonly padding?: number
  readonly waits?: boolean
}

/** A project folder with its config, store, key file and effects, and the processes that use it. */
export class FaultProject {
  readonly folder = mkdtempSync(join(tmpdir(), 'collet-faults-'))
  readonly database = join(this.folder, 'collet.db')
  readonly #servers: ServerProcess[] = []

  constructor() {
    writeFileSync(join(this.folder, 'collet.config.mjs'), CONFIG)
  }

  get storeFlag(): string {
    return `--store=sqlite:${this.database}`
  }

  async serve(options: ProcessOptions = {}): Promise<ServerProcess> {
    const server = await startCollet(['serve', this.storeFlag], { cwd: this.folder, ...options })
    this.#servers.push(server)
    return server
  }

  /** Runs a command of the project, on its store if the command has one. */
  collet(argv: readonly string[], options: ProcessOptions = {}): Promise<Ended> {
    return runCollet([...argv, this.storeFlag], { cwd: this.folder, ...options })
  }

  async call(server: ServerProcess, tool: string, id: string, input: FaultInput = {}): Promise<Answer> {
    const request = { tool_id: tool, call_id: id, input: { key: id, ...input } }
    const response = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, json: JSON.parse(text) }
  }

  /** How often each key had its effect. */
  effects(): ReadonlyMap<string, number> {
    const file = join(this.folder, 'effects.log')
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
    return lines.reduce(
      (counts, key) => counts.set(key, (counts.get(key) ?? 0) + 1),
      new Map<string, number>(),
    )
  }

  /** Lets runs that wait end. */
  letGo(): void {
    writeFileSync(join(this.folder, 'go'), '')
  }

  /** Makes runs wait again. */
  holdBack(): void {
    rmSync(join(this.folder, 'go'), { force: true })
  }

  async remove(): Promise<void> {
    for (const server of this.#servers) await server.stop('SIGKILL')
    rmSync(this.folder, { recursive: true })
  }
}
