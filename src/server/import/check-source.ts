import { existsSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import type { Clock } from '#kernel/base/clock'
import { isToolError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import type { OpenedSource } from '#server/sources'
import type { SourceView } from '#sources/kit/sources'
import type { SourceOptions } from '#sources/source-types'
import { type Look, type Probe, probeDocument, probeMcp, probeOpenTool, probeOtc } from './probe.ts'

/** In the order in which they are taken. */
type StepName = 'resolve' | 'connect' | 'tls' | 'program' | 'file' | 'handshake' | 'list' | 'definitions'

interface CheckStep {
  readonly step: StepName
  readonly state: 'done' | 'failed' | 'not_reached'
  /** What was found, in words. */
  readonly says: string
  readonly took_ms: number | null
}

/** A source as somebody looked at it just now. */
export interface CheckedSource {
  readonly key: string
  readonly ok: boolean
  readonly steps: readonly CheckStep[]
  /** What to do, in words; that nothing is to be done where nothing is. */
  readonly advice: string
}

interface CheckOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Relative files and programs are looked for from here. */
  readonly folder: string
  /** Where programs are found. */
  readonly path: string | undefined
  /** How the source that is served is. */
  readonly view: SourceView | undefined
  open(): Promise<OpenedSource>
}

/** A first start may have to download the program. */
const MAX_MS = 60_000

/**
 * Takes every step to a source that the server takes, one after the other, and says at which it ends. It opens the source anew,
 * beside the one that is served: what lives of that may hide what is wrong.
 */
export async function checkSource(
  key: string,
  options: SourceOptions,
  world: CheckOptions,
): Promise<CheckedSource> {
  const { clock, signal } = world
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(MAX_MS)])
  const planned = plan(options)
  const taken: CheckStep[] = []
  const opened = await world.open()
  const said = takeSteps(options, { ...world, ...opened, signal: deadline })
  let failure: { readonly step: StepName; readonly error: unknown } | undefined
  try {
    for (const step of planned) {
      const startedMs = clock.monotonicMs()
      const tookMs = () => Math.round((clock.monotonicMs() - startedMs) * 10) / 10
      try {
        const next = await said.next()
        taken.push({ step, state: 'done', says: next.value ?? '', took_ms: tookMs() })
      } catch (error) {
        failure = { step, error }
        taken.push({ step, state: 'failed', says: wordsOf(error, deadline), took_ms: tookMs() })
        break
      }
    }
  } finally {
    await said.return(undefined)
    await opened.source.close()
  }
  const rest = planned
    .slice(taken.length)
    .map((step): CheckStep => ({ step, state: 'not_reached', says: 'Not reached', took_ms: null }))
  const advice =
    failure === undefined ? wellAdvice(world.view) : adviceFor(failure.step, failure.error, options)
  return { key, ok: failure === undefined, steps: [...taken, ...rest], advice }
}

/** The steps that there are to a source, by where it is. */
function plan(options: SourceOptions): readonly StepName[] {
  const url = addressOf(options)
  const secure: readonly StepName[] = url?.protocol === 'https:' ? ['tls'] : []
  if (url !== undefined) return ['resolve', 'connect', ...secure, 'handshake', 'list', 'definitions']
  const begin: readonly StepName[] =
    programOf(options) !== undefined ? ['program'] : fileOf(options) !== undefined ? ['file'] : []
  return [...begin, 'list', 'definitions']
}

/** What each step of the plan found, in the same order; throws where one fails. */
async function* takeSteps(
  options: SourceOptions,
  world: CheckOptions & OpenedSource,
): AsyncGenerator<string, undefined> {
  const { source, wayOut, signal, view } = world
  const url = addressOf(options)
  if (url !== undefined) {
    yield* wayOut.reach(url, signal)
    yield await shakeHands(options, url, { send: wayOut, signal, apiKey: credentialOf(options) })
  }
  const program = programOf(options)
  if (url === undefined && program !== undefined) yield findProgram(program, world)
  const file = fileOf(options)
  if (url === undefined && program === undefined && file !== undefined) yield findFile(file, world)
  const { tools, warnings } = await source.discover(signal)
  yield `It offers ${countOf(tools.length, 'tool')}`
  yield view === undefined
    ? 'They can be read'
    : `${view.tools} served, ${view.waiting} waiting for a decision${warnings.length === 0 ? '' : `; ${countOf(warnings.length, 'warning')}`}`
  return undefined
}

/** Says hello in the language of its type. */
async function shakeHands(options: SourceOptions, url: URL, probe: Probe): Promise<string> {
  const look = HELLOS[options.type]
  if (look === undefined) return 'It answers'
  const found = await look(url.href, probe)
  if (found.kind === 'found') return `It is ${found.source.what}`
  throw new Error(found.kind === 'unusable' ? found.why : `It answers, but not as ${options.type}.`)
}

const HELLOS: Readonly<Record<string, (url: string, probe: Probe) => Promise<Look>>> = {
  mcp: probeMcp,
  otc: probeOtc,
  opentool: probeOpenTool,
  openapi: probeDocument,
}

function addressOf(options: SourceOptions): URL | undefined {
  const text = 'url' in options && typeof options.url === 'string' ? options.url : ''
  return URL.parse(text) ?? undefined
}

function programOf(options: SourceOptions): string | undefined {
  return options.type === 'mcp' ? options.command : undefined
}

function fileOf(options: SourceOptions): string | undefined {
  return 'file' in options && typeof options.file === 'string' ? options.file : undefined
}

function credentialOf(options: SourceOptions): string | undefined {
  if ('apiKey' in options && options.apiKey instanceof Secret) return options.apiKey.reveal()
  if ('token' in options && options.token instanceof Secret) return options.token.reveal()
  if (options.type !== 'mcp') return undefined
  const [, written] =
    Object.entries(options.headers).find(([name]) => name.toLowerCase() === 'authorization') ?? []
  return written?.reveal().replace(/^bearer +/i, '')
}

function findProgram(program: string, { folder, path = '' }: CheckOptions): string {
  const places = program.includes('/')
    ? [isAbsolute(program) ? program : resolve(folder, program)]
    : path.split(delimiter).map((place) => join(place, program))
  const found = places.find((place) => existsSync(place))
  if (found === undefined) throw new Error(`There is no program ${program} here.`)
  return `${program} is ${found}`
}

function findFile(file: string, { folder }: CheckOptions): string {
  const path = resolve(folder, file)
  if (!existsSync(path)) throw new Error(`There is no file ${path}.`)
  return path
}

function wordsOf(error: unknown, deadline: AbortSignal): string {
  if (deadline.aborted) return `No answer in ${MAX_MS / 1_000} s`
  if (isToolError(error)) return error.developerMessage ?? error.message
  const code = codeOf(error)
  const words = error instanceof Error ? error.message : String(error)
  return code === '' || words.includes(code) ? words : `${words} (${code})`
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return codeOf(error.cause)
}

function wellAdvice(view: SourceView | undefined): string {
  if (view === undefined || view.waiting === 0) return 'Nothing: every step works.'
  return 'Every step works. Decide about the definitions that wait: collet pins list.'
}

/** What a person can do about it, by where it ended. */
function adviceFor(step: StepName, error: unknown, options: SourceOptions): string {
  const host = addressOf(options)?.host ?? ''
  const isGuarded = isToolError(error) && error.code === 'egress_denied'
  switch (step) {
    case 'resolve':
      return isGuarded
        ? `Allow ${host} under egress.allow in the config, if it is meant to be reached.`
        : `Look whether ${host} is spelled right, and whether this machine can resolve names.`
    case 'connect':
      return `Start the server at ${host}, or open the way there: a firewall or another port may be between.`
    case 'tls':
      return `Renew the certificate of ${host}, or give Node the one that signed it: NODE_EXTRA_CA_CERTS.`
    case 'program':
      return `Install ${programOf(options) ?? 'the program'}, or write its whole path into the source.`
    case 'file':
      return 'Put the file back, or import it again from where it is now.'
    case 'handshake':
      return 'Look whether the address is still that of this service, and whether it wants a credential: import it again with --api-key --replace.'
    case 'list':
      return programOf(options) === undefined
        ? 'Ask whoever runs the service: it answers, but does not list its tools.'
        : 'Run the program by hand and look at what it writes: it starts, but does not list its tools.'
    case 'definitions':
      return 'Look at the warnings of the source: collet sources --json.'
  }
}

function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
