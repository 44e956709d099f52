import { closeSync, openSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { approverKeyOf } from '../crash/approver-key.ts'
import { type Program, ServerProcess } from '../crash/server-process.ts'

const CLI = createRequire(import.meta.url).resolve('#cli/main')
const PRELOAD = fileURLToPath(new URL('preload.ts', import.meta.url))
const CRASH_FOLDER = fileURLToPath(new URL('../crash/', import.meta.url))

export interface ReplicaOptions {
  readonly folder: string
  readonly config: string
  /** Its own proxied connection to the database. */
  readonly store: string
  readonly masterKey: string
  readonly seed: number
  /** Offset of its clock. */
  readonly clockMs: number
}

/** `collet serve`, as an operator starts it. */
export function makeReplica(options: ReplicaOptions, index: number): ServerProcess {
  const { folder, config, store, masterKey, seed, clockMs } = options
  const errors = openSync(join(folder, `replica-${index}.log`), 'a')
  const program: Program = {
    args: (port) => [
      '--import',
      PRELOAD,
      CLI,
      'serve',
      '--config',
      config,
      '--port',
      String(port),
      '--store',
      store,
    ],
    env: {
      COLLET_KEY: masterKey,
      FAULT_CLOCK_MS: String(clockMs),
      FAULT_SEED: String(seed + index * 1_000),
      NO_COLOR: '1',
    },
    errors,
    isSupervised: true,
  }
  process.once('exit', () => closeSync(errors))
  return new ServerProcess(program)
}

const NEIGHBOUR = 'neighbour'

/** Writes the config that all replicas share; returns its path. */
export function writeConfig(folder: string, apiKey: string): string {
  const file = join(folder, 'collet.config.ts')
  const keys = [
    { id: 'crash', key: apiKey },
    { id: 'approver', key: approverKeyOf(apiKey), scopes: ['approvals:*', 'admin:calls', 'calls:settle'] },
    { id: NEIGHBOUR, key: neighbourKeyOf(apiKey), tenant: NEIGHBOUR },
  ]
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    file,
    `import { makeEffectTools } from ${JSON.stringify(join(CRASH_FOLDER, 'effect-tools.ts'))}
import { seededRandom } from ${JSON.stringify(join(CRASH_FOLDER, 'seeded-random.ts'))}
export default {
  tools: makeEffectTools(${JSON.stringify(join(folder, 'effects.log'))}, seededRandom(Number(process.env.FAULT_SEED))),
  auth: { apiKeys: ${JSON.stringify(keys)} },
  approvals: { maxParkedPerPrincipal: 100_000 },
  log: { level: 'warn' },
}
`,
  )
  return file
}

/** The key of a caller in another tenant, derived from the first. */
export function neighbourKeyOf(apiKey: string): string {
  return `neighbour-${apiKey}`
}
