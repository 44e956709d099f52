import type { ReloadableAuthenticator } from '#auth/authenticator'
import { ConfigError } from '#config/load'
import type { Settings } from '#config/settings'
import { fault } from '#kernel/base/errors'
import type { Logger } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { Store } from '#store/collet-store'
import type { Parts } from './part.ts'
import { asKeyed, checkExposure, checkPrincipals, StartRefused } from './safety.ts'

/** What a server did with a config that was read again. */
export interface Reloaded {
  /** Names of settings that are in force from now on. */
  readonly applied: readonly string[]
  /** Names of settings that changed in the file and wait for a restart. */
  readonly needRestart: readonly string[]
  /** What was found wrong beside the config, and left as it was. */
  readonly refused: readonly string[]
}

/** Where the config of a server comes from. */
export interface ConfigSource {
  /** The settings as the file says now; throws what is wrong with it. */
  read(): Promise<Settings>
  /** Hears what came of each reading, whoever asked for it: why it was refused or could not be taken up, if so. */
  onRead(outcome: Reloaded | Error): void
}

interface ReloadsOptions {
  readonly config: ConfigSource
  readonly store: Pick<Store, 'reloads'>
  /** Takes up what may change, or throws and changes nothing. */
  apply(next: Settings): Promise<Reloaded>
  readonly log: Logger
}

const LOOK_MS = 1_000
/** A config may ask others for its secrets; one that waits longer keeps every later reading waiting. */
export const READ_LIMIT_MS = 30_000

/** Reads the config again when somebody asks: here, or through the store, where all servers of it hear of it. */
export class Reloads {
  readonly #options: ReloadsOptions
  #turn: Promise<unknown> = Promise.resolve()
  /** No wish at first: one that came after this server had read its config, and before it listened, is heard too. */
  #heard = 0
  #isFirstLook = true
  #isLooking = false
  #isCutOff = false
  /** The wish of which it was told that it could not be followed yet. */
  #delayed: number | undefined
  readonly #timer: NodeJS.Timeout
  readonly #closed = new AbortController()

  constructor(options: ReloadsOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#look(), LOOK_MS).unref()
  }

  async readHere(): Promise<Reloaded> {
    const outcome = await this.#readInTurn()
    this.#options.config.onRead(outcome)
    if (outcome instanceof Error) throw outcome
    return outcome
  }

  /** Here first: what is refused here is not passed on. */
  async readEverywhere(): Promise<Reloaded> {
    const reloaded = await this.readHere()
    const raised = await this.#options.store.reloads.ask()
    // Another process may have asked in between, and what it wants read was perhaps not there yet.
    if (raised === this.#heard + 1) this.#heard = raised
    return reloaded
  }

  /** Waits for nothing: what is being read is not taken up any more. */
  close(): void {
    clearInterval(this.#timer)
    this.#closed.abort(new Error('The server stops: its config is not read again.'))
  }

  /** One after another: the last one that was asked for is the one that stays. */
  #readInTurn(): Promise<Reloaded | Error> {
    const read = this.#turn.then(() => this.#read())
    this.#turn = read
    return read
  }

  async #read(): Promise<Reloaded | Error> {
    const { config, apply } = this.#options
    try {
      return await apply(await inTime(() => config.read(), this.#closed.signal))
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error))
    }
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      const epoch = await this.#options.store.reloads.epoch()
      this.#isCutOff = false
      if (epoch === this.#heard || (await this.#follow(epoch))) {
        this.#heard = epoch
        this.#isFirstLook = false
      }
    } catch (err) {
      if (!this.#isCutOff)
        this.#options.log.warn({ err }, 'whether the config is to be read again is not known')
      this.#isCutOff = true
    } finally {
      this.#isLooking = false
    }
  }

  /** Whether that wish is done with. It is not when the config could not be judged, because the store failed: it is tried again. */
  async #follow(epoch: number): Promise<boolean> {
    const outcome = await this.#readInTurn()
    const isDone = !(outcome instanceof Error) || isRefusal(outcome)
    const isOldNews = isDone ? this.#isFirstLook && isNothing(outcome) : this.#delayed === epoch
    if (!isDone) this.#delayed = epoch
    // What is wrong with it is told to whoever looks after this server.
    if (!isOldNews) this.#options.config.onRead(outcome)
    return isDone
  }
}

async function inTime(read: () => Promise<Settings>, stop: AbortSignal): Promise<Settings> {
  stop.throwIfAborted()
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  const seconds = READ_LIMIT_MS / 1_000
  const why = `The config was not read within ${seconds} seconds: something that it awaits does not come.`
  const timer = setTimeout(() => reject(new StartRefused(why)), READ_LIMIT_MS)
  const giveUp = () => reject(stop.reason)
  stop.addEventListener('abort', giveUp)
  try {
    return await Promise.race([tooLate, read()])
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', giveUp)
  }
}

/** Whether it is the config that is wrong, and not something that was needed to judge it. */
export function isRefusal(error: unknown): error is ConfigError | StartRefused {
  return error instanceof ConfigError || error instanceof StartRefused
}

function isNothing(outcome: Reloaded | Error): boolean {
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

export interface OpenReloads extends Pick<Reloads, 'readHere' | 'readEverywhere' | 'close'> {
  /** Applies settings that may change while calls run, or throws and changes nothing. */
  apply(next: Settings): Promise<Reloaded>
}

/** Lets a server reload its settings; `parts` receive them. */
export function openReloads(host: ReloadHost, parts: Pick<Parts, 'onReload'>): OpenReloads {
  const { options, store, log } = host
  const apply = (next: Settings) => applySettings(host, parts, next)
  const { config } = options
  const reloads = config === undefined ? undefined : new Reloads({ config, store, apply, log })
  const required = (): Reloads => {
    if (reloads !== undefined) return reloads
    throw fault(
      'request_invalid',
      'This server was not started from a config file, so it has none to read again.',
    )
  }
  return {
    apply,
    readHere: async () => await required().readHere(),
    readEverywhere: async () => await required().readEverywhere(),
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

/** The settings in force after a reload: the new ones where they may change while calls run, the old ones elsewhere. */
export function mergeSettings(before: Settings, after: Settings): Settings {
  const { apiKeys, jwt, issuers, roles } = after.auth
  return {
    ...before,
    auth: {
      ...before.auth,
      ...{ apiKeys, jwt },
      ...(issuers === undefined ? {} : { issuers }),
      ...(roles === undefined ? {} : { roles }),
    },
    limits: { ...after.limits, total: { ...after.limits.total, bodyBytes: before.limits.total.bodyBytes } },
    budgets: after.budgets,
    approvals: after.approvals,
    ...(after.webhooks === undefined ? {} : { webhooks: after.webhooks }),
    sources: after.sources,
    ...(after.toolsets === undefined ? {} : { toolsets: after.toolsets }),
    calls: { ...before.calls, maxResultBytes: after.calls.maxResultBytes },
    logLevel: after.logLevel,
  }
}

/** Every setting that differs, by when it takes effect. */
export function compareSettings(before: Settings, after: Settings): Omit<Reloaded, 'refused'> {
  const merged = mergeSettings(before, after)
  return { applied: differences(before, merged), needRestart: differences(merged, after) }
}

/** Settings that have another name in the config. */
const WRITTEN: Readonly<Record<string, string>> = {
  logLevel: 'log.level',
  'logStyle.format': 'log.format',
  otlpEndpoint: 'telemetry.otlpEndpoint',
  dataFolder: 'store',
}
/** Its members are not those that a person writes. */
const WHOLE = 'approvals'
/** Some of it is live and some is not. */
const MIXED = 'limits.total'

/** By the names that a config has for them: `server.port`, `limits.total.bodyBytes`, `budgets`. */
function differences(left: Settings, right: Settings): readonly string[] {
  const found = new Set<string>()
  const look = (one: object, other: object, path: string): void => {
    for (const name of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const [mine, theirs]: readonly unknown[] = [Reflect.get(one, name), Reflect.get(other, name)]
      if (isSame(mine, theirs)) continue
      const at = path === '' ? name : `${path}.${name}`
      const isLookedInto = (path === '' && name !== WHOLE) || at === MIXED
      if (isLookedInto && isSection(mine) && isSection(theirs)) look(mine, theirs, at)
      else found.add(WRITTEN[at] ?? at)
    }
  }
  look(comparable(left), comparable(right), '')
  return [...found]
}

/** A tool is another one when its definition is. */
function comparable({ tools, ...settings }: Settings): object {
  return { ...settings, tools: tools.map(({ id, definitionHash }) => [id, definitionHash]) }
}

function isSection(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

/** As a person who compares two files would say it: a function is its text. */
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
