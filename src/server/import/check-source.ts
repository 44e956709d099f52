import { existsSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import type { CheckedSource } from '#admin-api/sources'
import type { Clock } from '#kernel/base/clock'
import { isToolError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import type { OpenedSource } from '#server/sources'
import { countOffered, countsText } from '#sources/kit/offer-counts'
import type { SourceView } from '#sources/kit/sources'
import type { SourceOptions } from '#sources/source-types'
import { type ProbeContext, probeDocument, probeMcp, probeOpenTool, probeOtc } from './probe.ts'

/**
 * Diagnoses a source step by step, for `collet sources check` and the console: name, connection, certificate,
 * handshake, list of tools. Invariant: it opens the source a second time, beside the one that is served, because a
 * live connection may hide the problem; that second source is always closed.
 */

type CheckStep = CheckedSource['steps'][number]
type StepName = CheckStep['step']

interface CheckOptions {
  readonly clock: Clock
  /** Base folder for relative paths of files and programs. */
  readonly folder: string
  readonly path: string | undefined
  readonly view: SourceView | undefined
  open(): Promise<OpenedSource>
}

/** Long enough for a first start, on which a launcher may have to download the program. */
const MAX_MS = 60_000

export async function checkSource(
  key: string,
  options: SourceOptions,
  check: CheckOptions,
): Promise<CheckedSource> {
  const { clock, view } = check
  const signal = AbortSignal.timeout(MAX_MS)
  const opened = await check.open()
  const steps: CheckStep[] = []
  let advice: string | undefined
  try {
    for (const [step, run] of stepsTo(options, { ...check, ...opened, signal })) {
      const startedMs = clock.monotonicMs()
      const took = () => ({ took_ms: Math.round((clock.monotonicMs() - startedMs) * 10) / 10 })
      try {
        if (advice === undefined) steps.push({ step, state: 'done', says: await run(), ...took() })
        else steps.push({ step, state: 'not_reached', says: 'Not reached', took_ms: null })
      } catch (error) {
        advice = adviceFor(step, error, options)
        steps.push({ step, state: 'failed', says: failureText(error, signal), ...took() })
      }
    }
  } finally {
    await opened.source.close()
  }
  return { key, ok: advice === undefined, steps, advice: advice ?? noFailureAdvice(view) }
}

type OpenedCheck = CheckOptions & OpenedSource & { readonly signal: AbortSignal }
type Step = readonly [name: StepName, run: () => string | Promise<string>]

/** The steps to a source; each returns what it found, or throws. */
function stepsTo(options: SourceOptions, check: OpenedCheck): readonly Step[] {
  const { source, signal, view } = check
  let warnings = 0
  const list = async (): Promise<string> => {
    const discovery = await source.discover(signal)
    warnings = discovery.warnings.length
    return `It offers ${countsText(countOffered(discovery.tools))}`
  }
  const define = (): string => {
    if (view === undefined) return 'The definitions can be read'
    const warned = warnings === 0 ? '' : `; ${countOf(warnings, 'warning')}`
    return `${countsText(view)} served, ${view.waiting} waiting for a decision${warned}`
  }
  return [...targetSteps(options, check), ['list', list], ['definitions', define]]
}

/** The steps that depend on where the source is: at an address, in a program or in a file. */
function targetSteps(options: SourceOptions, check: OpenedCheck): readonly Step[] {
  const { egress, signal } = check
  const [url, program] = [addressOf(options), programOf(options)]
  if (url !== undefined) {
    const reached = egress.reach(url, signal)
    const next = async (): Promise<string> => (await reached.next()).value ?? ''
    const tls: readonly Step[] = url.protocol === 'https:' ? [['tls', next]] : []
    const probe = { send: egress, signal, apiKey: credentialOf(options) }
    const handshake = async (): Promise<string> => {
      await reached.return(undefined)
      return await sendHandshake(options, url, probe)
    }
    return [['resolve', next], ['connect', next], ...tls, ['handshake', handshake]]
  }
  if (program !== undefined) return [['program', () => findProgram(program, check)]]
  if (!('file' in options) || typeof options.file !== 'string') return []
  const file = resolve(check.folder, options.file)
  return [['file', () => findFile(file)]]
}

async function sendHandshake(options: SourceOptions, url: URL, probe: ProbeContext): Promise<string> {
  const send = PROBES[options.type]
  if (send === undefined) return 'It answers'
  const found = await send(url.href, probe)
  if (found.kind === 'found') return `It is ${found.source.what}`
  throw new Error(found.kind === 'unusable' ? found.why : `It answers, but not as ${options.type}.`)
}

const PROBES: Readonly<Record<string, typeof probeMcp>> = {
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

function credentialOf(options: SourceOptions): string | undefined {
  if ('apiKey' in options && options.apiKey instanceof Secret) return options.apiKey.reveal()
  if ('token' in options && options.token instanceof Secret) return options.token.reveal()
  if (options.type !== 'mcp') return undefined
  const [, authorization] =
    Object.entries(options.headers).find(([name]) => name.toLowerCase() === 'authorization') ?? []
  return authorization?.reveal().replace(/^bearer +/i, '')
}

function findProgram(program: string, { folder, path = '' }: CheckOptions): string {
  const paths = program.includes('/')
    ? [isAbsolute(program) ? program : resolve(folder, program)]
    : path.split(delimiter).map((each) => join(each, program))
  const found = paths.find((file) => existsSync(file))
  if (found === undefined) throw new Error(`There is no program ${program} here.`)
  return `${program} is ${found}`
}

function findFile(file: string): string {
  if (existsSync(file)) return file
  throw new Error(`There is no file ${file}.`)
}

function failureText(error: unknown, deadline: AbortSignal): string {
  if (deadline.aborted) return `No answer in ${MAX_MS / 1_000} s`
  if (isToolError(error)) return error.developerMessage ?? error.message
  const code = codeOf(error)
  const text = error instanceof Error ? error.message : String(error)
  return code === '' || text.includes(code) ? text : `${text} (${code})`
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  return 'code' in error && typeof error.code === 'string' ? error.code : codeOf(error.cause)
}

function noFailureAdvice(view: SourceView | undefined): string {
  if (view === undefined || view.waiting === 0) return 'Nothing: every step works.'
  return 'Every step works. Decide about the definitions that wait: collet pins list.'
}

function adviceFor(step: StepName, error: unknown, options: SourceOptions): string {
  const host = addressOf(options)?.host ?? ''
  const isGuarded = isToolError(error) && error.code === 'egress_denied'
  switch (step) {
    case 'resolve':
      return isGuarded
        ? `Allow ${host} under egress.allow in the config, if it is meant to be reached.`
        : `Check the spelling of ${host}, and whether this machine can resolve names.`
    case 'connect':
      return `Start the server at ${host}, or check the port and any firewall in between.`
    case 'tls':
      return `Renew the certificate of ${host}, or add the CA that signed it with NODE_EXTRA_CA_CERTS.`
    case 'program':
      return `Install ${programOf(options) ?? 'the program'}, or write its full path into the source.`
    case 'file':
      return 'Restore the file, or import it again from its new path.'
    case 'handshake':
      return 'Check whether the service is still at this address, and whether it requires a credential: import it again with --api-key --replace.'
    case 'list':
      return programOf(options) === undefined
        ? 'Ask the operator of the service: it answers, but does not list its tools.'
        : 'Run the program by hand and read its output: it starts, but does not list its tools.'
    case 'definitions':
      return 'Read the warnings of the source: collet sources --json.'
  }
}

function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
