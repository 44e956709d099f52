import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { type Check, type CheckedStore, checkNames, fail, ok, warn } from '#cli/check-names'
import { readStoreContents } from '#cli/check-store'
import { type CommandContext, defineCommand, EXIT } from '#cli/command'
import { findKeyChange } from '#cli/commands/store'
import { checkBypasses } from '#cli/import/bypasses'
import { counted, messageOf, type Output } from '#cli/output'
import { CONFIG_OPTION, loadProjectConfig, problemText } from '#cli/store-access'
import { decodeMasterKey, decodeMasterKeys } from '#config/environment'
import { ConfigError, type ConfigProblem } from '#config/load'
import { loadTools } from '#config/load-tools'
import { checkAgainstTools, chooseStore, keyFileIn, type StoreLocation, tlsFiles } from '#config/to-settings'
import { toWebhooks } from '#config/webhooks'
import type { Clock } from '#kernel/base/clock'
import { cleanText } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import type { Tool } from '#kernel/tool/tool'
import { examineCertificate } from '#server/http/certificate'
import {
  checkExposure,
  type Exposure,
  findAbsentProviders,
  needsCredential,
  StartRefused,
} from '#server/safety'
import { describeStore, examineStore, findStoreDamage, KEPT_STORE_FORMS } from '#store/stores'

/**
 * `collet doctor` and `collet version`. The doctor checks what a server needs, from Node to the clock, and prints
 * each finding with its next step; `check-names.ts` and `check-store.ts` contain further checks. Invariant: it
 * changes nothing, and exit code 2 means that something must be fixed.
 */

const PACKAGE_FILE = new URL('../../../package.json', import.meta.url)

const version = defineCommand<never>({
  name: 'version',
  summary: 'Prints the versions of Collet and Node.',
  options: {},
  examples: ['collet version', 'collet --version'],
  async run(_, { output, json }) {
    const { version: collet } = z
      .object({ version: z.string() })
      .parse(JSON.parse(await readFile(PACKAGE_FILE, 'utf8')))
    if (json) output.json({ collet, node: process.versions.node })
    else output.data(`collet ${collet} (Node ${process.versions.node})`)
  },
})

const doctor = defineCommand<'config' | 'store'>({
  name: 'doctor',
  summary:
    'Checks what a server needs: Node, config, tools, access, key, store, disk, certificate, port, clock.',
  details: [
    'It lists what waits for an operator: changed definitions of sources, calls to approve, calls to settle, webhooks that fail.',
    'It also lists the entries of MCP clients on this machine that reach servers of this Collet directly, without approvals.',
    'Exit code 2 means that something must be fixed before the server can be trusted.',
  ],
  options: {
    config: CONFIG_OPTION,
    store: { value: 'URL', help: 'Check this store instead of the one in the config.' },
  },
  examples: ['collet doctor', 'collet doctor --json'],
  async run(args, context) {
    const { output, json } = context
    const checks = await output.during('Checking', examine(args.text('config'), args.text('store'), context))
    if (json) output.json(checks)
    else for (const check of checks) show(check, output)
    return checks.some(({ level }) => level === 'fail') ? EXIT.usage : EXIT.ok
  },
})

async function examine(
  named: string | undefined,
  store: string | undefined,
  context: CommandContext,
): Promise<Check[]> {
  const { clock } = context
  const machine = [checkNode(process.versions.node)]
  try {
    const loaded = await loadProjectConfig(named, context)
    const { config, folder, file } = loaded
    const location = chooseStore(store, context.workingFolder, { text: config.store, folder })
    const { server } = config
    const { tools, problems } = await loadTools(loaded)
    if (problems.every(({ severity }) => severity !== 'error')) checkAgainstTools(loaded, tools)
    const nowMs = clock.nowMs()
    const webhooks = toWebhooks(config, file)
    const { names, stored, keyChange, bypasses } = await readStored(await openIfPresent(location, context))
    // A key in the store makes credentials required, like a key in the config.
    const auth = { ...config.auth, ...(stored.hasKeys ? { required: true } : {}) }
    return [
      ...machine,
      ok('config', file),
      ...describeTools(tools, problems, context),
      ...findAbsentProviders(config.oauth, tools).map(({ text, lines }) =>
        warn('oauth', text, ['Add to the config:', ...lines].join('\n  ')),
      ),
      ...checkAccess({ ...config, auth, tools, sources: Object.entries(config.sources) }),
      checkKey(location, context.environment.masterKey),
      ...(await checkStored(location, context)),
      ...keyChange.map(({ message, advice }) => warn('key', message, advice)),
      ...stored.checks,
      ...names.checks,
      ...bypasses,
      ...(await examineCertificate(tlsFiles(server.tls, folder).tls, nowMs)),
      await checkPort(server.host, server.port),
      checkClock(clock, location.file),
    ]

    async function readStored(store: CheckedStore) {
      try {
        const names = await checkNames({ store, config, tools, clock })
        return {
          names,
          stored: await readStoreContents({ store, nowMs, webhooks, withheld: names.withheld }),
          keyChange: await findKeyChange(store),
          bypasses: await checkBypasses({ config, store }, context),
        }
      } finally {
        if (store !== undefined && !(store instanceof Error)) await store.close()
      }
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [
      ...machine,
      ...error.problems.map((problem) => problemCheck('config', problem, context)),
      checkClock(clock),
    ]
  }
}

function describeTools(
  tools: readonly Tool[],
  problems: readonly ConfigProblem[],
  context: CommandContext,
): Check[] {
  const found = problems.map((problem) => problemCheck('tools', problem, context))
  if (found.some(({ level }) => level === 'fail')) return found
  return [...found, ok('tools', counted(new Set(tools.map(({ parts }) => parts.base)).size, 'tool'))]
}

function problemCheck(subject: string, problem: ConfigProblem, { workingFolder }: CommandContext): Check {
  const text = problemText(problem, workingFolder)
  const make = problem.severity === 'error' ? fail : warn
  return make(subject, text, 'Edit the file and run collet doctor again.')
}

function accessTo({ store, dataFolder }: StoreLocation, { environment }: CommandContext) {
  return { url: store, dataFolder, ...decodeMasterKeys(environment) }
}

const MARKS = {
  ok: ['green', '✓'],
  warn: ['yellow', '!'],
  fail: ['red', '✗'],
} as const satisfies Record<Check['level'], readonly [string, string]>

function show({ level, subject, message, advice }: Check, output: Output): void {
  const [color, mark] = MARKS[level]
  output.sentence(`${output.style(color, mark)} ${subject.padEnd(6)} ${cleanText(message)}`)
  const [first, ...more] = advice?.split('\n') ?? []
  if (first !== undefined) output.sentence(`         → ${cleanText(first)}`)
  for (const line of more) output.data(`           ${cleanText(line)}`)
}

const TMPFS = 0x01021994
const RAMFS = 0x858458f6
/** No disk syncs faster; a shorter time means that nothing was written. */
const IMPOSSIBLE_FSYNC_MS = 0.01
const SYNCS = 8

async function checkStored(location: StoreLocation, context: CommandContext): Promise<readonly Check[]> {
  if (location.kind === 'server') return await checkDatabase(location, context)
  return [await checkStore(location, context), checkDurability(location)]
}

/** Checks that the database is undamaged, readable with this key, and writable. */
async function checkStore(location: StoreLocation, context: CommandContext): Promise<Check> {
  const { file } = location
  if (file === undefined)
    return warn(
      'store',
      'The memory store forgets all calls when the server stops',
      `Use ${KEPT_STORE_FORMS} to keep them.`,
    )
  if (!existsSync(file)) return checkFolder(location.dataFolder, file)
  try {
    const damage = await findStoreDamage(location.store)
    if (damage !== undefined)
      return fail('store', `${file} is damaged: ${damage}`, 'Restore it from a backup.')
    await context.services.checkWritable(accessTo(location, context))
    return ok('store', `${file} is intact and writable`)
  } catch (error) {
    const advice = 'Check the path, its permissions, the free space and the key.'
    return fail('store', `${file}: ${messageOf(error)}`, advice)
  }
}

/** Checks a database server: its settings, whether the key opens the store, and whether the journal is intact. */
async function checkDatabase(location: StoreLocation, context: CommandContext): Promise<readonly Check[]> {
  const seen = await examineStore(location.store, () => context.clock.nowMs())
  const isUnusable = seen.some(
    ({ subject, level, isUnprepared }) => isUnprepared || (level === 'fail' && subject !== 'fsync'),
  )
  if (isUnusable) return seen
  const name = describeStore(location.store)
  try {
    await context.services.checkWritable(accessTo(location, context))
    const { ok: isIntact } = await context.services.verifyJournal(accessTo(location, context), [])
    if (isIntact) return [...seen, ok('store', `${name} is intact and writable`)]
    return [...seen, fail('store', `${name} is not intact`, 'See: collet journal verify')]
  } catch (error) {
    return [...seen, fail('store', `${name}: ${messageOf(error)}`, 'Check the key, and the lines above.')]
  }
}

function checkFolder(folder: string, file: string): Check {
  const nearest = nearestFolder(folder)
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK)
    return ok('store', `${file} will be created at the first start`)
  } catch {
    const advice = 'Change its owner or permissions, or choose another store.'
    return fail('store', `${nearest} is not writable`, advice)
  }
}

/** Whether writes reach a disk before they are acknowledged, as far as this process can measure. */
function checkDurability({ kind, dataFolder }: StoreLocation): Check {
  if (kind === 'memory') return ok('fsync', 'Not needed: the memory store writes nothing')
  const folder = nearestFolder(dataFolder)
  const { type } = statfsSync(folder)
  if (type === TMPFS || type === RAMFS) {
    const message = `${folder} is in memory and is lost when the machine restarts`
    return warn('fsync', message, 'Put the store on a disk.')
  }
  try {
    const ms = fsyncMs(folder)
    if (ms >= IMPOSSIBLE_FSYNC_MS) return ok('fsync', `${folder} syncs in ${ms.toFixed(2)} ms`)
    const advice = 'Something (libeatmydata, a mount option, a virtual disk) ignores fsync. Turn that off.'
    return warn('fsync', `${folder} acknowledges a sync without writing`, advice)
  } catch (error) {
    return fail('fsync', `${folder}: ${messageOf(error)}`, 'Make the folder writable and free some space.')
  }
}

/** Median time of a few small synced writes. */
function fsyncMs(folder: string): number {
  const path = join(folder, `.collet-doctor-${process.pid}`)
  const file = openSync(path, 'wx', 0o600)
  try {
    const times = Array.from({ length: SYNCS }, () => {
      const start = performance.now()
      writeSync(file, 'x')
      fsyncSync(file)
      return performance.now() - start
    })
    return times.sort((left, right) => left - right)[SYNCS / 2] ?? 0
  } finally {
    closeSync(file)
    rmSync(path, { force: true })
  }
}

function nearestFolder(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearestFolder(dirname(folder))
}

async function openIfPresent(location: StoreLocation, context: CommandContext): Promise<CheckedStore> {
  const { kind, file } = location
  if (kind !== 'server' && (file === undefined || !existsSync(file))) return undefined
  try {
    return await context.services.openStore(accessTo(location, context))
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** Whether the server could listen now. A port in use is a warning only, because it may be this server. */
async function checkPort(host: string, port: number): Promise<Check> {
  const address = `${host}:${port}`
  const code = await tryToListen(host, port)
  if (code === undefined) return ok('port', `${address} is free`)
  if (code === 'EADDRINUSE')
    return warn(
      'port',
      `${address} is in use`,
      'That is fine if Collet runs there; otherwise choose another with --port.',
    )
  return fail(
    'port',
    `${address} cannot be used (${code})`,
    'Set server.host and server.port, or --host and --port.',
  )
}

function tryToListen(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve('code' in error ? String(error.code) : 'unknown'))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

const MIN_NODE = 24
const FIRST_SANE_YEAR = 2025
const LAST_SANE_YEAR = 2100
const TOLERATED_FUTURE_MS = 5 * 60_000

export function checkNode(version: string): Check {
  const major = Number(version.split('.')[0])
  if (major >= MIN_NODE) return ok('node', `Node ${version}`)
  return fail('node', `Node ${version} is too old`, `Install Node ${MIN_NODE} or newer.`)
}

/** With a wrong clock, tokens expire and results are deleted too early or too late. */
export function checkClock(clock: Clock, newestFile?: string): Check {
  const nowMs = clock.nowMs()
  const year = new Date(nowMs).getUTCFullYear()
  const text = Number.isNaN(year) ? 'an invalid time' : new Date(nowMs).toISOString()
  if (!(year >= FIRST_SANE_YEAR && year < LAST_SANE_YEAR))
    return fail('clock', `The clock shows ${text}`, 'Set the clock, for example with NTP.')
  const before = clock.monotonicMs()
  if (clock.monotonicMs() < before) {
    const advice = 'This machine cannot measure time; use another one.'
    return fail('clock', 'The monotonic clock runs backwards', advice)
  }
  const written = newestFile && statSync(newestFile, { throwIfNoEntry: false })?.mtimeMs
  if (!written || written <= nowMs + TOLERATED_FUTURE_MS) return ok('clock', text)
  return warn(
    'clock',
    `The clock shows ${text}, but the store was written at ${new Date(written).toISOString()}`,
    'The clock went back. Set it, for example with NTP.',
  )
}

const OTHER_USERS_MASK = 0o077
const RESTORE_KEY = 'Restore it from a backup, or set COLLET_KEY.'

/** Checks the key that encrypts the store (rule 14): `COLLET_KEY`, or the key file beside the database. */
function checkKey(location: StoreLocation, masterKey: Secret | undefined): Check {
  if (location.kind === 'memory') return ok('key', 'Not needed: the memory store does not encrypt')
  if (masterKey !== undefined) return checkVariable(masterKey)
  if (location.file === undefined)
    return fail(
      'key',
      'COLLET_KEY is not set, but a store on PostgreSQL needs it',
      'Set it to the same key for every replica; collet keys generate makes one.',
    )
  const file = keyFileIn(location.dataFolder)
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat === undefined && !existsSync(location.file))
    return ok('key', `${file} will be created at the first start`)
  if (stat === undefined) return fail('key', `${file} is missing, but its database exists`, RESTORE_KEY)
  const mode = stat.mode & 0o777
  if ((mode & OTHER_USERS_MASK) !== 0)
    return fail('key', `${file} can be read by others (mode ${mode.toString(8)})`, `Run: chmod 600 ${file}`)
  try {
    for (const line of readFileSync(file, 'utf8').trim().split(/\s+/)) decodeMasterKey(new Secret(line))
    return ok('key', `${file} has 32 bytes and is private`)
  } catch {
    return fail('key', `${file} does not contain a key of 32 bytes`, RESTORE_KEY)
  }
}

function checkVariable(key: Secret): Check {
  try {
    decodeMasterKey(key)
    return ok('key', 'COLLET_KEY has 32 bytes')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return fail('key', messageOf(error), 'Set COLLET_KEY to the key that the database was created with.')
  }
}

const REFUSED =
  'collet serve refuses to start like this. Make a key with collet keys create, or set auth.apiKeys or auth.jwt.'

/** What `serve` would refuse or warn about: who can call the tools, and how strong the credentials are (rule 28). */
function checkAccess(exposure: Exposure): readonly Check[] {
  try {
    const warnings = checkExposure(exposure, false)
    const { auth, server } = exposure
    if (warnings.length === 0)
      return [
        ok(
          'access',
          needsCredential(auth)
            ? `Credentials are needed and strong (${server.host})`
            : `No credentials: everyone on this machine may call (${server.host})`,
        ),
      ]
    return warnings.map(({ text, advice }) => warn('access', text, advice))
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error
    return error.message.split('\n').map((text) => fail('access', text, REFUSED))
  }
}

export const COMMANDS = [doctor, version]
