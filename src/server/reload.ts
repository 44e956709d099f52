import type { ReloadableAuthenticator } from '#auth/authenticator'
import { ConfigError } from '#config/load'
import type { Settings } from '#config/settings'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { Store } from '#store/collet-store'
import type { Parts } from './part.ts'
import { asKeyed, checkExposure, checkPrincipals, StartRefused } from './safety.ts'

/*
 * Reloads the config of a running server, and decides which settings take effect at once.
 * The composition root uses it for signals, the admin API and requests through the store.
 * Invariant: a reload applies a whole valid config or changes nothing.
 */

export interface Reloaded {
  /** Names of settings that are now in force. */
  readonly applied: readonly string[]
  /** Names of settings that changed in the file and wait for a restart. */
  readonly needRestart: readonly string[]
  /** Problems outside of the config; their parts stay unchanged. */
  readonly refused: readonly string[]
}

/** Where the config of a server comes from. */
export interface ConfigSource {
  /** Reads the settings of the file; throws its problems. */
  read(): Promise<Settings>
  /** Called with the result of each reload, also if another process requested it. */
  onRead(outcome: Reloaded | Error): void
}

interface ReloadsOptions {
  readonly config: ConfigSource
  readonly store: Pick<Store, 'reloads'>
  /** Applies the settings that may change, or throws and changes nothing. */
  apply(next: Settings): Promise<Reloaded>
  readonly log: Logger
}

const POLL_MS = 1_000
/** A config may fetch secrets; a longer read would block every later reload. */
export const READ_LIMIT_MS = 30_000

/** Reloads the config on request: of this process, or through the store for all servers that share it. */
export class Reloads {
  readonly #options: ReloadsOptions
  #turn: Promise<unknown> = Promise.resolve()
  /** Number of the last handled request. It starts at 0, so that a request between reading the config and listening is handled too. */
  #lastRequest = 0
  #isFirstPoll = true
  #isPolling = false
  #cannotReadStore = false
  /** Number of the request whose failure was already reported. */
  #reportedRequest: number | undefined
  readonly #timer: NodeJS.Timeout
  readonly #closed = new AbortController()

  constructor(options: ReloadsOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#poll(), POLL_MS).unref()
  }

  async reloadHere(): Promise<Reloaded> {
    const outcome = await this.#readInTurn()
    this.#options.config.onRead(outcome)
    if (outcome instanceof Error) throw outcome
    return outcome
  }

  /** Reloads this process first; other processes are not asked to reload a config that this process refuses. */
  async reloadEverywhere(): Promise<Reloaded> {
    const reloaded = await this.reloadHere()
    const epoch = await this.#options.store.reloads.request()
    // In the meantime another process may have requested a reload of a config that this process did not read.
    if (epoch === this.#lastRequest + 1) this.#lastRequest = epoch
    return reloaded
  }

  /** Does not wait for a reload: a config that is being read is not applied. */
  close(): void {
    clearInterval(this.#timer)
    this.#closed.abort(new Error('The server is stopping, so its config is not read again.'))
  }

  /** Runs reloads one after another, so that the last request wins. */
  #readInTurn(): Promise<Reloaded | Error> {
    const { config, apply } = this.#options
    const read = this.#turn
      .then(() => readInTime(config, this.#closed.signal))
      .then((next) => apply(next))
      .catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))))
    this.#turn = read
    return read
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return
    this.#isPolling = true
    try {
      const epoch = await this.#options.store.reloads.epoch()
      this.#cannotReadStore = false
      if (epoch === this.#lastRequest || (await this.#follow(epoch))) {
        this.#lastRequest = epoch
        this.#isFirstPoll = false
      }
    } catch (err) {
      if (!this.#cannotReadStore)
        this.#options.log.warn({ err }, 'cannot read whether a config reload was requested')
      this.#cannotReadStore = true
    } finally {
      this.#isPolling = false
    }
  }

  /** True if the request is done. If the store failed, the config could not be checked and the reload is tried again. */
  async #follow(epoch: number): Promise<boolean> {
    const outcome = await this.#readInTurn()
    const isDone = !(outcome instanceof Error) || isRefusal(outcome)
    const isReported = isDone ? this.#isFirstPoll && isUnchanged(outcome) : this.#reportedRequest === epoch
    if (!isDone) this.#reportedRequest = epoch
    if (!isReported) this.#options.config.onRead(outcome)
    return isDone
  }
}

async function readInTime(config: ConfigSource, stop: AbortSignal): Promise<Settings> {
  stop.throwIfAborted()
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  const why = `The config was not read within ${READ_LIMIT_MS / 1_000} seconds: something that it awaits never completes.`
  const timer = setTimeout(() => reject(new StartRefused(why)), READ_LIMIT_MS)
  const abort = () => reject(stop.reason)
  stop.addEventListener('abort', abort)
  try {
    return await Promise.race([tooLate, config.read()])
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', abort)
  }
}

/** True if the config itself is invalid; false if it could not be checked, for example because the store failed. */
export function isRefusal(error: unknown): error is ConfigError | StartRefused {
  return error instanceof ConfigError || error instanceof StartRefused
}

function isUnchanged(outcome: Reloaded | Error): boolean {
  return !(outcome instanceof Error) && Object.values(outcome).every((names) => names.length === 0)
}

/** The state of a server that a reload changes. */
interface ReloadHost {
  readonly settings: { current: Settings }
  readonly options: { readonly config?: ConfigSource; readonly allowAnonymous?: boolean }
  readonly authenticator: ReloadableAuthenticator
  readonly store: Pick<Store, 'reloads' | 'keys'>
  readonly log: Logger
}

export interface OpenReloads extends Pick<Reloads, 'reloadHere' | 'reloadEverywhere' | 'close'> {
  /** Applies settings that may change while calls run, or throws and changes nothing. */
  apply(next: Settings): Promise<Reloaded>
}

export function openReloads(host: ReloadHost, parts: Pick<Parts, 'onReload'>): OpenReloads {
  const { options, store, log } = host
  const apply = (next: Settings) => applySettings(host, parts, next)
  const { config } = options
  const reloads = config === undefined ? undefined : new Reloads({ config, store, apply, log })
  const required = (): Reloads => {
    if (reloads !== undefined) return reloads
    throw fault('request_invalid', 'This server was not started from a config file, so it cannot reload one.')
  }
  return {
    apply,
    reloadHere: async () => await required().reloadHere(),
    reloadEverywhere: async () => await required().reloadEverywhere(),
    close: () => reloads?.close(),
  }
}

async function applySettings(
  { settings, options, authenticator, store }: ReloadHost,
  parts: Pick<Parts, 'onReload'>,
  next: Settings,
): Promise<Reloaded> {
  const before = settings.current
  const { applied, needRestart } = compareSettings(before, next)
  const merged = mergeSettings(before, next)
  const isKeyed = authenticator.isConfigured
  await authenticator.replace(isSame(before.auth, merged.auth) ? undefined : merged.auth, async (found) => {
    checkExposure(found.isConfigured ? asKeyed(merged) : merged, options.allowAnonymous ?? false)
    await checkPrincipals(merged.auth, store.keys)
    if (found.isConfigured !== isKeyed)
      throw new StartRefused(
        'Whether callers need a credential at all cannot change while the server runs. Restart it.',
      )
  })
  settings.current = merged
  const notes = await parts.onReload(merged)
  return { applied: [...applied, ...notes.applied], needRestart, refused: notes.refused }
}

/** The settings in force after a reload: new values of settings that may change while calls run, and old values of all others. */
export function mergeSettings(before: Settings, after: Settings): Settings {
  const { apiKeys, jwt, issuers, roles } = after.auth
  return {
    ...before,
    auth: {
      ...before.auth,
      apiKeys,
      jwt,
      ...defined({ issuers, roles }),
    },
    limits: { ...after.limits, total: { ...after.limits.total, bodyBytes: before.limits.total.bodyBytes } },
    budgets: after.budgets,
    approvals: after.approvals,
    ...defined({ webhooks: after.webhooks, alerts: after.alerts, toolsets: after.toolsets }),
    sources: after.sources,
    calls: { ...before.calls, maxResultBytes: after.calls.maxResultBytes },
    logLevel: after.logLevel,
  }
}

/** Every setting that differs, by when it takes effect. */
export function compareSettings(before: Settings, after: Settings): Omit<Reloaded, 'refused'> {
  const merged = mergeSettings(before, after)
  return { applied: differences(before, merged), needRestart: differences(merged, after) }
}

/** Names in the config of settings that have a different name in `Settings`. */
const CONFIG_NAMES: Readonly<Record<string, string>> = {
  logLevel: 'log.level',
  'logStyle.format': 'log.format',
  otlpEndpoint: 'telemetry.otlpEndpoint',
  'otlp.traces': 'telemetry.exports',
  'otlp.metrics': 'telemetry.exports',
  'otlp.metricsIntervalMs': 'telemetry.metricsIntervalMs',
  dataFolder: 'store',
}
/** The section that is compared as a whole, because its members differ from those in the config. */
const WHOLE_SECTION = 'approvals'
/** The section in which only some members may change while calls run. */
const MIXED_SECTION = 'limits.total'

/** Returns names as written in the config: `server.port`, `limits.total.bodyBytes`, `budgets`. */
function differences(left: Settings, right: Settings): readonly string[] {
  const found = new Set<string>()
  const compare = (before: object, after: object, path: string): void => {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const [old, next]: readonly unknown[] = [Reflect.get(before, name), Reflect.get(after, name)]
      if (isSame(old, next)) continue
      const fullName = path === '' ? name : `${path}.${name}`
      const isEntered = (path === '' && name !== WHOLE_SECTION) || fullName === MIXED_SECTION
      if (isEntered && isSection(old) && isSection(next)) compare(old, next, fullName)
      else found.add(CONFIG_NAMES[fullName] ?? fullName)
    }
  }
  compare(comparable(left), comparable(right), '')
  return [...found]
}

/** Tools are compared by their definitions. */
function comparable({ tools, ...settings }: Settings): object {
  return { ...settings, tools: tools.map(({ id, definitionHash }) => [id, definitionHash]) }
}

function isSection(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

/** Compares values by their content; functions are compared by their source text. */
export function isSame(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true
  if (left instanceof Secret && right instanceof Secret) return left.reveal() === right.reveal()
  if (typeof left === 'function' && typeof right === 'function') return String(left) === String(right)
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
  if (left instanceof Map && right instanceof Map) return isSame([...left], [...right])
  if (left instanceof Set && right instanceof Set) return isSame([...left], [...right])
  const names = new Set([...Object.keys(left), ...Object.keys(right)])
  return [...names].every((name) => isSame(Reflect.get(left, name), Reflect.get(right, name)))
}
